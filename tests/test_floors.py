#!/usr/bin/env python3
"""The house rules that include lines and a linker know: nothing reaches up a floor, no two files need
each other, however far round, and only commands end the process.  And those that counting knows: no struct
of more than some 30 fields, no folder of more than some 30 source files.

A file here is what stands in one folder under one name: x.c, x.cu, x.h, x.cuh.  A header of include/ff
is one with the x.c of its name that defines what it declares; where none does, several files do, and it
is a file of its own.  A file needs another whose header it includes, or which defines what it calls, as
nm tells of the build's objects.

usage: test_floors.py NM BUILD SOURCE.  SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import subprocess
import sys

# Which floors lie right under each; what is under those is, too (docs/schedule.md, docs/runtime.md).
UNDER = {
    "graphs/base": [],
    "graphs/operator": ["graphs/base"],
    "graphs/device": ["graphs/operator"],
    "graphs/rewrite": ["graphs/operator"],
    "graphs/strategy": ["graphs/device", "graphs/rewrite"],
    "graphs/move": ["graphs/strategy"],
    "graphs/lower/schedule": ["graphs/move"],
    "graphs/lower/blocks": ["graphs/lower/schedule"],
    "graphs/lower/state": ["graphs/lower/blocks"],
    "graphs/lower/memory": ["graphs/lower/state"],
    "graphs/lower": ["graphs/lower/memory"],
    "graphs/html": ["graphs/lower"],
    "graphs/zoo": ["graphs/operator"],
    "graphs/import": ["graphs/operator"],
    "simulator/price": ["graphs/lower"],
    "simulator/evaluate/memo": ["simulator/price"],
    "simulator/evaluate": ["simulator/evaluate/memo"],
    "simulator": ["simulator/evaluate"],
    "planner/check": ["simulator"],
    "planner/space": ["planner/check"],
    "planner/propose": ["planner/space"],
    "planner/hand": ["planner/propose"],
    "planner/exact": ["planner/propose"],
    "planner/explain": ["planner/hand", "graphs/html"],
    "planner/plan": ["planner/explain"],
    "planner/mcmc": ["planner/exact", "planner/hand"],
    "planner": ["planner/mcmc", "planner/plan"],
    "runtime/data": ["graphs/lower"],
    "runtime/kernels": ["graphs/lower"],
    "runtime/process": ["graphs/lower"],
    "runtime/comm": ["runtime/process"],
    "runtime/topology": ["runtime/process"],
    "runtime/pack": ["runtime/data"],
    "runtime/cpu/core": ["runtime/kernels", "runtime/process"],
    "runtime/cpu/ops/elements": ["runtime/cpu/core"],
    "runtime/cpu/ops/dense": ["runtime/cpu/ops/elements"],
    "runtime/cpu/ops/sequence": ["runtime/cpu/core"],
    "runtime/cpu/ops/images": ["runtime/cpu/core"],
    "runtime/cpu/ops/norm": ["runtime/cpu/core"],
    "runtime/cpu/ops/loss": ["runtime/cpu/core"],
    "runtime/cpu": ["runtime/cpu/ops/dense", "runtime/cpu/ops/sequence", "runtime/cpu/ops/images",
                    "runtime/cpu/ops/norm", "runtime/cpu/ops/loss"],
    "runtime/null": ["graphs/lower"],
    "runtime/cuda/core": ["runtime/kernels", "runtime/process"],
    "runtime/cuda/libs": ["runtime/cuda/core"],
    "runtime/cuda/ops/elements": ["runtime/cuda/libs"],
    "runtime/cuda/ops/dense": ["runtime/cuda/ops/elements"],
    "runtime/cuda/ops/sequence": ["runtime/cuda/libs"],
    "runtime/cuda/ops/images": ["runtime/cuda/libs"],
    "runtime/cuda/ops/norm": ["runtime/cuda/libs"],
    "runtime/cuda/ops/loss": ["runtime/cuda/libs"],
    "runtime/cuda/ops/update": ["runtime/cuda/libs"],
    "runtime/cuda/nccl": ["runtime/cuda/libs", "runtime/comm"],
    "runtime/cuda": ["runtime/cuda/ops/dense", "runtime/cuda/ops/sequence", "runtime/cuda/ops/images",
                     "runtime/cuda/ops/norm", "runtime/cuda/ops/loss", "runtime/cuda/ops/update",
                     "runtime/cuda/nccl"],
    "runtime/exec/core": ["runtime/comm", "runtime/cpu", "runtime/cuda", "runtime/data", "runtime/null"],
    "runtime/exec/messages": ["runtime/exec/core"],
    "runtime/exec": ["runtime/exec/messages"],
    "runtime/prof": ["runtime/exec", "runtime/topology"],
    "runtime/run": ["runtime/exec", "graphs/html"],
    "runtime": ["runtime/pack", "runtime/prof", "runtime/run"],
}
WITHIN = {
    "graphs/import/fold": "graphs/import",
    "graphs/import/operators": "graphs/import",
    "graphs/operator/rows": "graphs/operator",
    "simulator/evaluate/bytes": "simulator/evaluate",
    "simulator/evaluate/shortcuts": "simulator/evaluate",
}
SUFFIXES = (".c", ".cu", ".h", ".cuh")
ROOTS = ("include", "graphs", "simulator", "planner", "runtime", "runtime/cuda/core")  # what -I names
MOST = 30
# Structs of more fields, and why.
WIDE = {
    "ff_schedule": "a record of flat tables: lowering writes it once, and nobody changes it",
}
# Folders of more files, and why.
CROWDED = {
    "include/ff": "public headers, one noun each",
    "graphs/operator/rows": "a file for each operator",
}
ENDS = {"exit", "_exit", "_Exit", "quick_exit", "abort"}


def below(floor):
    return set(UNDER[floor]).union(*map(below, UNDER[floor]))


def floor_of(file):
    """None: a header of include/ff that is a file of its own is on whatever floor needs it."""
    folder = os.path.dirname(file)
    return None if folder == "include/ff" else WITHIN.get(folder, folder)


def read_sources(root):
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8")
            for folder in ("include", "graphs", "simulator", "planner", "runtime")
            for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES}


def objects_of(build, root, sources):
    """The build's objects, by path, of what is among the sources.  The CUDA backend's may be those of its double,
    which tests/double makes of the same sources, without nvcc."""
    found = {}
    for c in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = os.path.relpath(os.path.join(c["directory"], c["file"]), root)
        if source in sources:
            found.setdefault(source, []).append(build / c["output"])
    for source in sources:  # custom targets, which compile_commands.json does not name
        if source.endswith(".cu"):
            name = os.path.basename(source)
            found[source] = [build / "runtime/cuda" / f"{name}.o",
                             build / "tests/double" / f"{name[:-len('.cu')]}.double.o"]
    objects = {}
    for source, paths in found.items():
        paths.sort(key=lambda path: path.is_relative_to(build / "tests"))
        there = next((path for path in paths if path.exists()), None)
        if there:
            objects[there] = source
    return objects


def symbols(nm, objects):
    """By source: what it defines, what it takes from others; which libraries end the process."""
    text = subprocess.run([nm, "-A", "-g", *map(str, objects)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    defined, wanted, ends, commands = {}, {}, {}, set()
    for line in text.splitlines():
        path, rest = line.split(":", 1)
        source = objects[pathlib.Path(path)]
        kind, name = rest.split()[-2:]
        name = name.partition("@")[0]
        if name.startswith("ff_") and kind in "UT":  # tables are no calls
            into = wanted if kind == "U" else defined
            into.setdefault(source, set()).add(name)
        if name in ENDS and kind == "U":
            ends.setdefault(source, set()).add(name)
        if name == "main" and kind == "T":
            commands.add(source)
    return defined, wanted, {source: ends[source] for source in sorted(set(ends) - commands)}


def files_of(sources, defined):
    """By path, which file it is part of."""
    file = {path: os.path.splitext(path)[0] for path in sources}
    named = {}
    for path in sources:
        if path.endswith(".c"):
            named.setdefault(os.path.basename(path)[:-2], []).append(path)
    for path, text in sources.items():
        if path.startswith("include/"):
            declared = set(re.findall(r"\bff_\w+(?=\()", text))
            for source in named.get(os.path.basename(path)[:-2], []):
                if declared & defined.get(source, set()):
                    file[path] = file[source]
    return file


def needs_of(sources, file, defined, wanted):
    """By file: which others it needs, and what of them."""
    needs = {f: {} for f in file.values()}

    def add(path, other, what):
        if file[other] != file[path]:
            needs[file[path]].setdefault(file[other], set()).add(what)

    for path, text in sources.items():
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.MULTILINE):
            for folder in (os.path.dirname(path), *ROOTS):
                other = os.path.normpath(os.path.join(folder, name))
                if other in sources:
                    add(path, other, f'"{name}"')
                    break
    homes = {}
    for path, names in defined.items():
        for name in names:
            homes.setdefault(name, []).append(path)
    for path, names in wanted.items():
        for name in names:
            # two programs, or a program and a module, may each have one: it is the nearer one
            if name in homes and path not in homes[name]:
                add(path, max(homes[name], key=lambda h: len(os.path.commonpath([h, path]))), name)
    return needs


def reached(needs, file):
    """What it needs, by way of headers that are on no floor, and of whom it is named."""
    todo, seen = [(other, other) for other in needs[file]], set()
    while todo:
        other, first = todo.pop()
        if other in seen:
            continue
        seen.add(other)
        if floor_of(other):
            yield other, first
        else:
            todo += [(further, first) for further in needs[other]]


def upwards(needs):
    wrong = []
    for file in sorted(needs):
        floor = floor_of(file)
        if not floor:
            continue
        if floor not in UNDER:
            wrong.append(f"{file} is on no floor")
            continue
        for other, first in sorted(reached(needs, file)):
            if floor_of(other) not in below(floor) | {floor}:
                wrong.append(f"{file} reaches {other}: {', '.join(sorted(needs[file][first]))}")
    return wrong


def circles(needs):
    """A shortest way round from each file that has one, each circle once."""
    done, found = set(), []
    for start in sorted(needs):
        came, todo = {}, [start]
        while todo and start not in came:
            at = todo.pop(0)
            for other in sorted(needs[at]):
                if other not in came:
                    came[other] = at
                    todo.append(other)
        if start not in came:
            continue
        way = [start]
        while came[way[-1]] != start:
            way.append(came[way[-1]])
        way = [start, *reversed(way)]
        if not done.intersection(way):
            found.append(" ".join([start] + [f"-> {b} ({sorted(needs[a][b])[0]})"
                                             for a, b in zip(way, way[1:])]))
        done.update(way)
    return found


def fields(body):
    """What a struct has between its braces; what it has in another one without a name counts, too."""
    count, at, names, depth, inner = 0, 0, "", 0, None
    while at < len(body):
        c = body[at]
        if c == "{":
            end = at + 1
            nested = 1
            while nested:
                nested += {"{": 1, "}": -1}.get(body[end], 0)
                end += 1
            inner = fields(body[at + 1:end - 1])
            at, names = end, ""
            continue
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if c == ";" and inner is not None and not names.strip():
            count += inner
        elif c in ",;" and depth == 0:
            count += 1
        if c == ";":
            names, inner = "", None
        else:
            names += c
        at += 1
    return count


def structs_of(text):
    text = re.sub(r"/\*.*?\*/|^[ \t]*#.*?(?<!\\)$", "", text, flags=re.DOTALL | re.MULTILINE)
    for m in re.finditer(r"\bstruct (\w+) \{", text):
        end, nested = m.end(), 1
        while nested and end < len(text):
            nested += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield m.group(1), fields(text[m.end():end - 1])


def exceeding(what, counts, known):
    """Counts, by name, above the most; and names that are known for it and are not."""
    return [f"{name} has {n} {what}, expected at most {MOST}"
            for name, n in sorted(counts.items()) if n > MOST and name not in known] + [
                f"{name} has {counts.get(name, 0)} {what}: take it off the list of those with more than {MOST}"
                for name in known if counts.get(name, 0) <= MOST]


def wide(sources):
    assert fields("int a, b[2]; struct { int c, d; }; struct { int e, f; } g; int (*h)(int, int);") == 6
    counts = {}
    for text in sources.values():
        for name, n in structs_of(text):
            counts[name] = max(n, counts.get(name, 0))
    return exceeding("fields", counts, WIDE)


def crowded(sources):
    counts = {}
    for path in sources:
        counts[os.path.dirname(path)] = counts.get(os.path.dirname(path), 0) + 1
    return exceeding("source files", counts, CROWDED)


def report(number, what, wrong):
    print(f"{'not ok' if wrong else 'ok'} {number} - {what}")
    for line in wrong:
        print(f"# {line}")


def main():
    nm, build, root = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    sources = read_sources(root)
    defined, wanted, ends = symbols(nm, objects_of(build, root, sources))
    needs = needs_of(sources, files_of(sources, defined), defined, wanted)

    print("1..6")
    report(1, "there are files", [] if len(needs) > 300 and len(wanted) > 100
           else [f"only {len(needs)} files, {len(wanted)} objects that call"])
    report(2, "nothing reaches up a floor", upwards(needs))
    report(3, "no two files need each other", circles(needs))
    report(4, "no library ends the process", [f"{source}: {', '.join(names)}"
                                              for source, names in ends.items()])
    report(5, "no struct of more than some 30 fields", wide(sources))
    report(6, "no folder of more than some 30 source files", crowded(sources))


main()
