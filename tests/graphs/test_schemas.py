# Graphs that ffzoo writes and the machine files against their JSON Schemas.
# Usage: test_schemas.py FFZOO SOURCE_ROOT.  SPDX-License-Identifier: Apache-2.0
import copy
import json
import pathlib
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("1..0 # SKIP python3-jsonschema is not installed")
    sys.exit(0)

ffzoo, root = sys.argv[1], pathlib.Path(sys.argv[2])
count = failed = 0


def say(good, name, why=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}{': ' + why if why else ''}")


def validator(name):
    schema = json.loads((root / "docs/schema" / name).read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def accepts(v, document, name):
    errors = [f"{'/'.join(map(str, e.path))}: {e.message}" for e in v.iter_errors(document)]
    say(not errors, name, "; ".join(errors[:3]))


def rejects(v, document, name):
    say(not v.is_valid(document), name)


graphs = validator("graph.schema.json")
zoo = [["mlp", "--set", "activation=sigmoid"], ["lenet"], ["alexnet"],
       ["alexnet", "--set", "image=28"], ["branchnet"],
       ["vgg16"], ["resnet50"], ["resnet101"], ["inception_v3"], ["densenet121"]]
for args in zoo:
    text = subprocess.run([ffzoo, *args], check=True, capture_output=True).stdout
    accepts(graphs, json.loads(text), "ffzoo " + " ".join(args))

# Every member that the writer writes is required to have a line in the schema.
lenet = json.loads(subprocess.run([ffzoo, "lenet"], check=True, capture_output=True).stdout)
for i, node in enumerate(lenet["nodes"]):
    bad = copy.deepcopy(lenet)
    bad["nodes"][i]["surplus"] = 1
    rejects(graphs, bad, f"surplus member in {node['op']} {node['name']}")
for key, value in [("op", "gelu"), ("name", "a b"), ("in", "x")]:
    bad = copy.deepcopy(lenet)
    bad["nodes"][2][key] = value
    rejects(graphs, bad, f"bad {key}")

machines = validator("machine.schema.json")
files = sorted((root / "graphs/machines").glob("*.json"))
for path in files:
    accepts(machines, json.loads(path.read_text()), path.name)
bad = json.loads(files[0].read_text())
bad["nodes"][0]["devices"] = 0
rejects(machines, bad, "no devices")

print(f"1..{count}")
sys.exit(failed > 0)
