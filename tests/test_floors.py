#!/usr/bin/env python3
# The house rules that a linker knows: nothing reaches up a floor, no two files call each other,
# and only commands end the process.  usage: test_floors.py NM BUILD.  SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys

# who may call whom, besides itself: docs/schedule.md, docs/runtime.md
BELOW = {
    "graphs/base": set(),
    "graphs/operator": {"graphs/base"},
    "graphs/device": {"graphs/base", "graphs/operator"},
    "graphs/strategy": {"graphs/base", "graphs/operator", "graphs/device"},
    "graphs/move": {"graphs/base", "graphs/operator", "graphs/device", "graphs/strategy"},
    "graphs/lower": {"graphs/base", "graphs/operator", "graphs/device", "graphs/strategy",
                     "graphs/move"},
    "graphs/zoo": {"graphs/base", "graphs/operator"},
    "graphs/import": {"graphs/base", "graphs/operator"},
}
GRAPHS = set(BELOW)
BELOW["simulator"] = GRAPHS
BELOW["planner"] = GRAPHS | {"simulator"}
BELOW["runtime"] = GRAPHS


ENDS = {"exit", "_exit", "_Exit", "quick_exit", "abort"}


def symbols(nm, objects):
    """By object: what it defines, what it takes from others; which libraries end the process."""
    text = subprocess.run([nm, "-A", "-g", *map(str, objects)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    defined, wanted, ends, commands = {}, {}, {}, set()
    for line in text.splitlines():
        path, rest = line.split(":", 1)
        kind, name = rest.split()[-2:]
        name = name.partition("@")[0]
        if name.startswith("ff_") and kind in "UT":  # tables are no calls
            into = wanted if kind == "U" else defined
            into.setdefault(path, set()).add(name)
        if name in ENDS and kind == "U":
            ends.setdefault(path, set()).add(name)
        if name == "main" and kind == "T":
            commands.add(path)
    return defined, wanted, {path: ends[path] for path in sorted(set(ends) - commands)}


def floor_of(path, build):
    """graphs/libffgraphs.a.p/operator_graph.c.o is of graphs/operator."""
    parts = path.relative_to(build).parts
    folder = parts[0]
    if folder != "graphs":
        return folder
    return f"graphs/{parts[-1].split('_')[0]}"


def arrows(defined, wanted):
    home = {name: path for path, names in defined.items() for name in names}
    calls = {path: {} for path in set(defined) | set(wanted)}
    for path, names in wanted.items():
        for name in names:
            if name in home and home[name] != path:
                calls[path].setdefault(home[name], set()).add(name)
    return calls


def circles(calls):
    """Tarjan's strongly connected components of more than one file."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in calls[v]:
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for v in sorted(calls):
        if v not in index:
            visit(v)
    return found


def report(number, what, wrong):
    print(f"{'not ok' if wrong else 'ok'} {number} - {what}")
    for line in wrong:
        print(f"# {line}")


def main():
    nm, build = sys.argv[1], pathlib.Path(sys.argv[2])
    objects = [o for folder in ("graphs", "simulator", "planner", "runtime")
               for o in (build / folder).rglob("*.o")
               if "libonnxproto" not in str(o)]
    defined, wanted, ends = symbols(nm, objects)
    calls = arrows(defined, wanted)

    short = {path: str(pathlib.Path(path).relative_to(build)) for path in calls}
    up = [f"{short[a]} reaches {short[b]}: {', '.join(sorted(names))}"
          for a in sorted(calls) for b, names in sorted(calls[a].items())
          for above, below in [(floor_of(pathlib.Path(a), build), floor_of(pathlib.Path(b), build))]
          if above != below and above in BELOW and below not in BELOW[above]]
    round_ = [" ".join(short[path] for path in c) for c in circles(calls)]

    print("1..4")
    report(1, "there are files", [] if len(calls) > 100 else [f"only {len(calls)} objects call"])
    report(2, "nothing reaches up a floor", up)
    report(3, "no two files call each other", round_)
    report(4, "no library ends the process", [f"{pathlib.Path(path).relative_to(build)}: "
                                              f"{', '.join(names)}"
                                              for path, names in ends.items()])


main()
