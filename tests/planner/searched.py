"""What tests of ffsearch have in common: graphs to search, refusals, files and their schemas.
usage of all of them: FFSEARCH FFZOO SCHEMA_FOLDER.  SPDX-License-Identifier: Apache-2.0"""
import json
import os
import re
import subprocess
import sys
import tempfile

FFSEARCH, FFZOO, SCHEMAS = map(os.path.abspath, sys.argv[1:4])
SHARE = int(os.environ.get("FF_TEST_SHARE", "1"))  # of what is known without sanitizers
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)


with open(FFSEARCH, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()


def of_plans(test):
    """A test of how good plans are: left out with sanitizers, to which others tell as much, and of ./run test."""
    test.left_out = SANITIZED or SHARE > 1
    return test


def run(*args, status=0):
    p = subprocess.run([FFSEARCH, *args], capture_output=True, text=True, timeout=600)
    assert p.returncode == status, "status %d, not %d: %s" % (p.returncode, status, p.stderr)
    return p


def refuse(status, word, *args):
    """It must fail in one sentence that has `word`, leave no file, say nothing else."""
    before = set(os.listdir())
    p = run(*args, status=status)
    assert re.fullmatch(r"ffsearch: [^\n]+\n", p.stderr), "not one sentence: %r" % p.stderr
    assert word in p.stderr, "%r is not in %r" % (word, p.stderr)
    assert set(os.listdir()) == before, "left files behind"
    return p


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def check_schema(value, schema, root, place="$"):
    """As much of JSON Schema as the two schemas use."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "const" in schema:
        assert value == schema["const"], place
    if "enum" in schema:
        assert value in schema["enum"], place
    kinds = {"null": type(None), "object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
             "number": (int, float)}
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(isinstance(value, kinds[t]) for t in types), place
        assert "boolean" in types or not isinstance(value, bool), place
        if value is None:
            return
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), place
    if "minimum" in schema:
        assert value >= schema["minimum"], place
    if "maximum" in schema:
        assert value <= schema["maximum"], place
    if "minItems" in schema:
        assert len(value) >= schema["minItems"], place
    if schema.get("uniqueItems"):
        assert len(set(value)) == len(value), place
    if isinstance(value, list):
        for i, item in enumerate(value):
            check_schema(item, schema.get("items", {}), root, "%s[%d]" % (place, i))
    if isinstance(value, dict):
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        for key in schema.get("required", []):
            assert key in value, "%s: %s is missing" % (place, key)
        for key, item in value.items():
            assert key in known or rest is not False, "%s: %s is unknown" % (place, key)
            check_schema(item, known.get(key, rest), root, place + "." + key)


def conforms(path, name):
    value = json.loads(read(path))
    with open(os.path.join(SCHEMAS, name + ".schema.json")) as f:
        schema = json.load(f)
    check_schema(value, schema, schema)
    return value


def zoo(*args):
    subprocess.run([FFZOO, *args], check=True, timeout=600)


BASE = ["--machine", "p100x16", "--costs", "peak"]
LARGE = ["--machine", "k80x64", "--costs", "peak"]

MACHINE = {"processor": "abacus", "kernels": "beads 1", "mpi": "drums 2", "cores": 1, "threads": 2,
           "ranks": 4, "hosts": 1}


KERNELS = {}  # by graph, machine and number of devices: those that one device needs


def write_costs(path, graph, machine, devices=1):
    """A cost file in which every kernel of one device takes 100 us: with one, all that a search may need."""
    rate = [{"reuse_bytes": 1024, "latency_us": 1, "bytes_per_s": 1e9}]
    keys = KERNELS.setdefault((graph, machine, devices), [])
    for _ in range(200):  # it names what is missing, one at a time
        entries = [{"key": key, "reuse_bytes": 1024, "median_us": 100, "p10_us": 100, "p90_us": 100, "samples": 5,
                    "workspace_bytes": 0} for key in keys]
        write(path, json.dumps({
            "format": "ffsoap-costs", "version": 5, "device_kind": "P100", "machine": MACHINE,
            "rates": dict.fromkeys(("copy", "add", "accumulate", "update", "load"), rate), "entries": entries}))
        p = subprocess.run([FFSEARCH, graph, "--machine", machine, "--devices", str(devices), "--costs",
                            path, "--simulate", "single", "-o", "s.json"], capture_output=True,
                           text=True, timeout=600)
        key = re.search(r'"([^"]+\.(?:forward|backward)[^"]*)"', p.stderr)
        if p.returncode != 2 or not key:
            return p
        keys.append(key.group(1))
    raise AssertionError("more than 200 kernels")


def main(names):
    """Each test_ of a module, in its order, with graphs to search."""
    zoo("alexnet", "--batch", "256", "-o", "alexnet.json")
    zoo("inception_v3", "--batch", "2048", "--set", "norm=none", "-o", "inception.json")
    zoo("lenet", "--batch", "64", "-o", "lenet.json")
    zoo("mlp", "--batch", "65536", "--set", "hidden=16", "-o", "light.json")
    tests = [(n, f) for n, f in names.items() if n.startswith("test_") and not getattr(f, "left_out", False)]
    failed = 0
    print("1..%d" % len(tests))
    for i, (name, test) in enumerate(tests, 1):
        try:
            test()
            print("ok %d - %s" % (i, name), flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError, ValueError, KeyError) as e:
            failed += 1
            print("not ok %d - %s" % (i, name))
            print("# %s: %s" % (type(e).__name__, str(e).replace("\n", " ")), flush=True)
    return 1 if failed else 0
