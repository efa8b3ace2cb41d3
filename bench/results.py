#!/usr/bin/env python3
"""Prints what was measured (bench/results/*.json), or checks those files.
SPDX-License-Identifier: Apache-2.0"""
import argparse
import json
import pathlib
import re
import signal
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
SCHEMA = HERE.parent / "docs/schema/results.schema.json"
WIDTH = 100
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float)}


def stop(sentence):
    print(f"results.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def broken(rule, value, at, schema):
    """Sentences about where `value` breaks `rule`, of the keywords of JSON Schema that ours uses."""
    if "$ref" in rule:
        return broken(schema["$defs"][rule["$ref"].rpartition("/")[2]], value, at, schema)
    kind = rule.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or isinstance(value, bool)):
        return [f"{at}: expected {named(rule)}"]
    found = []
    if "const" in rule and (value != rule["const"] or isinstance(value, bool)):
        found.append(f"{at}: expected {json.dumps(rule['const'])}")
    if "anyOf" in rule and all(broken(r, value, at, schema) for r in rule["anyOf"]):
        found.append(f"{at}: expected {' or '.join(map(named, rule['anyOf']))}")
    if isinstance(value, str):
        if len(value) < rule.get("minLength", 0):
            found.append(f"{at}: is empty")
        if "pattern" in rule and not re.search(rule["pattern"].replace("$", r"\Z"), value):
            found.append(f"{at}: expected {rule['pattern']}, not {json.dumps(value)}")
    if isinstance(value, list):
        if len(value) < rule.get("minItems", 0):
            found.append(f"{at}: expected at least {rule['minItems']} items")
        for i, item in enumerate(value):
            found += broken(rule.get("items", {}), item, f"{at}[{i}]", schema)
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in rule.get("required", []) if name not in value]
        for name, item in value.items():
            inner = rule.get("properties", {}).get(name, rule.get("additionalProperties", {}))
            found += [f"{at}: unknown member {name}"] if inner is False else broken(inner, item, f"{at}.{name}", schema)
    return found


def named(rule):
    if "required" in rule and "type" not in rule:
        return ", ".join(rule["required"])
    return f"{'an' if rule['type'][0] in 'aeiou' else 'a'} {rule['type']}"


def loose(file):
    """What the schema cannot say: names are used once, and lead somewhere."""
    found, known = [], {}
    for entry in file["entries"]:
        if entry["id"] in known:
            found.append(f"{entry['id']}: two entries have this id")
        known[entry["id"]] = entry
    for entry in file["entries"]:
        newer = entry.get("superseded_by")
        if entry["machine"] not in file["machines"]:
            found.append(f"{entry['id']}: no machine {entry['machine']}")
        if newer is not None and (newer not in known or newer == entry["id"]):
            found.append(f"{entry['id']}: superseded by {newer}, which is no other entry")
        elif newer is not None and "superseded_by" in known[newer]:
            found.append(f"{entry['id']}: superseded by {newer}, which is superseded itself")
    used = {entry["machine"] for entry in file["entries"]}
    return found + [f"machine {name}: no entry names it" for name in file["machines"] if name not in used]


def refuse(name):
    raise ValueError(f"{name} is no number")


def load(path, schema):
    """The file, or what is wrong with it: one of both is empty."""
    try:
        file = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except (OSError, ValueError) as e:
        return None, [str(e)]
    found = broken(schema, file, "$", schema) or loose(file)
    return (None if found else file), found


def number(value):
    if isinstance(value, list):
        return ", ".join(map(number, value))
    return f"{value:,}"


def table(figures):
    """Lines of aligned columns: of, value, unit, predicted, note."""
    rows = [(f["of"], number(f["value"]), f["unit"], f"predicted {number(f['predicted'])}" if "predicted" in f else "",
             f"({f['note']})" if "note" in f else "") for f in figures]
    wide = [max(len(row[i]) for row in rows) for i in range(4)]
    for of, value, *rest in rows:
        cells = [of.ljust(wide[0]), value.rjust(wide[1])] + [c.ljust(w) for c, w in zip(rest, wide[2:]) if w]
        yield "  ".join(cells + rest[2:]).rstrip()


def show(file, latest):
    print(f"{file['subject']}\n{'=' * len(file['subject'])}\n")
    for entry in file["entries"]:
        newer = entry.get("superseded_by")
        if newer and latest:
            continue
        print(textwrap.fill(f"{entry['id']}: {entry['what']}", WIDTH))
        facts = [f"{entry['date']}, {file['machines'][entry['machine']]}", entry["command"]]
        facts += [f"wanted: {entry['wanted']}"] if "wanted" in entry else []
        facts += [f"superseded by {newer}"] if newer else []
        for fact in facts:
            print(textwrap.fill(fact, WIDTH, initial_indent="  ", subsequent_indent="      ",
                                break_long_words=False, break_on_hyphens=False))
        for line in table(entry["figures"]) if "figures" in entry else []:
            print(f"    {line}")
        if "text" in entry:
            print(textwrap.fill(entry["text"], WIDTH, initial_indent="    ", subsequent_indent="    "))
        print()


def main():
    p = argparse.ArgumentParser(
        description="Prints what was measured: figures, machine, date, command.",
        epilog="Without SUBJECT all are printed. Exit status: 0 done, 2 bad usage or a malformed file.")
    p.add_argument("subject", metavar="SUBJECT", nargs="?", help="one file's: predictions, search, training, ...")
    p.add_argument("--latest", action="store_true", help="leave out what a newer entry supersedes")
    p.add_argument("--check", action="store_true", help="print nothing but what is wrong with the files")
    p.add_argument("--list", action="store_true", help="print the subjects")
    p.add_argument("--folder", type=pathlib.Path, default=HERE / "results", help="where the files are (bench/results)")
    args = p.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    paths = sorted(args.folder.glob("*.json"))
    if not paths:
        stop(f"{args.folder}: no results there")
    if args.subject is not None and args.subject not in [path.stem for path in paths]:
        stop(f"no subject {args.subject}: expected one of {', '.join(path.stem for path in paths)}")
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    files, wrong = {}, []
    for path in paths:
        if args.subject in (None, path.stem):
            files[path.stem], found = load(path, schema)
            wrong += [f"{path}: {sentence}" for sentence in found]
    if wrong:
        stop("\nresults.py: ".join(wrong))
    for name, file in files.items():
        if args.list:
            print(f"{name:<12} {len(file['entries']):>3} entries  {file['subject']}")
        elif not args.check:
            show(file, args.latest)


if __name__ == "__main__":
    main()
