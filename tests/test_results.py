"""What was measured (bench/results/*.json) keeps its schema, and bench/results.py tells what does not.
usage: test_results.py SOURCE_ROOT  SPDX-License-Identifier: Apache-2.0"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

from schemas import accepts, validator
from tap import finish, say

root = pathlib.Path(sys.argv[1])


def results(*args):
    command = [sys.executable, str(root / "bench/results.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True)


schema = validator(root / "docs/schema/results.schema.json")
paths = sorted((root / "bench/results").glob("*.json"))
say(len(paths) > 0, "there are results")
for path in paths:
    accepts(schema, json.loads(path.read_text()), path.name)
# docs/status.md names entries that are there, of that date, and that nothing supersedes
for line in (root / "docs/status.md").read_text().splitlines():
    if "](../bench/results/" in line:
        date, source = [cell.strip() for cell in line.strip("| ").split("|")[-2:]]
        name, entry = source.partition("](../bench/results/")[2].split(".json) ")
        file = json.loads((root / f"bench/results/{name}.json").read_text())
        found = [e for e in file["entries"] if e["id"] == entry]
        current = len(found) == 1 and found[0]["date"] == date and "superseded_by" not in found[0]
        say(current, f"docs/status.md: {name} {entry}, {date}")
run = results("--check")
say(run.returncode == 0 and run.stdout == run.stderr == "", "--check", run.stderr)
run = results("--list")
say(run.returncode == 0 and len(run.stdout.splitlines()) == len(paths), "--list", run.stdout)

GOOD = {
    "format": "ffsoap-results", "version": 1, "subject": "Steps", "machines": {"here": "two cores"},
    "entries": [
        {"id": "old", "what": "a step", "machine": "here", "date": "2026-11-20", "command": "ffrun", "text": "9 ms",
         "superseded_by": "new"},
        {"id": "new", "what": "the step since", "machine": "here", "date": "2026-11-21", "command": "ffrun",
         "figures": [{"of": "median", "value": 1234.5, "unit": "ms", "predicted": [7, 8.0], "note": "quiet"}]},
    ],
}
GONE = object()
# where, what stands there instead, part of the sentence; the schema says so itself but for the last ones
SHAPE = [
    ("version", 2, "$.version: expected 1"), ("version", True, "$.version"), ("format", "other", "$.format"),
    ("subject", "", "$.subject: is empty"), ("subject", GONE, "subject is missing"),
    ("surplus", 1, "unknown member surplus"),
    ("machines", [], "$.machines: expected an object"), ("machines here", 7, "$.machines.here: expected a string"),
    ("entries", [], "$.entries: expected at least 1 items"), ("entries 0", "x", "$.entries[0]: expected an object"),
    ("entries 0 id", "Old one", "$.entries[0].id"), ("entries 0 date", "2026-11-2", "$.entries[0].date"),
    ("entries 0 date", "yesterday", "$.entries[0].date"), ("entries 0 machine", GONE, "machine is missing"),
    ("entries 0 command", GONE, "command is missing"), ("entries 0 text", GONE, "expected figures or text"),
    ("entries 0 txet", "x", "unknown member txet"), ("entries 1 figures", [], "at least 1 items"),
    ("entries 1 figures 0 value", "9 ms", "expected a number or an array"), ("entries 1 figures 0 value", [1], "value"),
    ("entries 1 figures 0 value", None, "value"), ("entries 1 figures 0 value", True, "value"),
    ("entries 1 figures 0 unit", GONE, "unit is missing"), ("entries 1 figures 0 of", GONE, "of is missing"),
    ("entries 1 figures 0 unti", "ms", "unknown member unti"),
]
NAMES = [
    ("entries 1 id", "old", "two entries have this id"), ("entries 1 machine", "there", "no machine there"),
    ("entries 0 superseded_by", "newest", "newest, which is no other entry"),
    ("entries 0 superseded_by", "old", "old, which is no other entry"),
    ("entries 1 superseded_by", "old", "which is superseded itself"),
    ("machines there", "four cores", "no entry names it"),
]


def changed(where, to):
    document = copy.deepcopy(GOOD)
    *path, last = [int(key) if key.isdigit() else key for key in where.split()]
    place = document
    for key in path:
        place = place[key]
    if to is GONE:
        del place[last]
    else:
        place[last] = to
    return document


with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, "steps.json")

    def check(text):
        file.write_text(text)
        return results("--check", "--folder", folder)

    run = check(json.dumps(GOOD))
    say(schema.is_valid(GOOD) and run.returncode == 0, "a file of all members", run.stderr)
    run = results("steps", "--folder", folder)
    printed = "median  1,234.5  ms  predicted 7, 8.0  (quiet)" in run.stdout and "9 ms" in run.stdout
    say(printed, "is printed", run.stdout)
    run = results("steps", "--latest", "--folder", folder)
    say("median" in run.stdout and "9 ms" not in run.stdout, "the latest alone", run.stdout)
    for where, to, sentence in SHAPE + NAMES:
        document = changed(where, to)
        run = check(json.dumps(document))
        name = f"{where}: {'none' if to is GONE else json.dumps(to)}"
        say(run.returncode == 2 and sentence in run.stderr and str(file) in run.stderr, name, run.stderr)
        say(schema.is_valid(document) == ((where, to, sentence) in NAMES), f"{name}, by jsonschema")
    for name, text in [("cut off", json.dumps(GOOD)[:99]), ("empty", ""), ("a list", "[]"),
                       ("not a number", json.dumps(changed("entries 1 figures 0 value", float("nan"))))]:
        run = check(text)
        say(run.returncode == 2 and str(file) in run.stderr and "Traceback" not in run.stderr, name, run.stderr)
    run = results("--folder", folder)
    say(run.returncode == 2 and run.stdout == "", "a malformed file is not printed", run.stdout)
for args in [["nothing"], ["--chekc"], ["a", "b"], ["--folder", root / "docs/schema/none"]]:
    run = results(*args)
    say(run.returncode == 2 and run.stdout == "" and run.stderr, f"bad usage: {' '.join(map(str, args))}", run.stderr)
finish()
