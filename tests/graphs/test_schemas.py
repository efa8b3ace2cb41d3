# Graphs that ffzoo writes, the machine files and strategies against their JSON Schemas.
# Usage: test_schemas.py FFZOO SOURCE_ROOT.  SPDX-License-Identifier: Apache-2.0
import copy
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from schemas import accepts, rejects, validator  # noqa: E402
from tap import finish, say  # noqa: E402

ffzoo, root = sys.argv[1], pathlib.Path(sys.argv[2])
graphs = validator(root / "docs/schema/graph.schema.json")
zoo = [["mlp", "--set", "activation=sigmoid"], ["lenet"], ["alexnet"],
       ["alexnet", "--set", "image=28"], ["branchnet"],
       ["vgg16"], ["resnet50"], ["resnet50", "--set", "norm_group=4"], ["resnet101"], ["inception_v3"], ["densenet121"],
       ["rnn"], ["rnn", "--set", "cell=lstm"], ["lm"], ["lm", "--set", "tie=yes"], ["gpt2"], ["bert"],
       ["bert", "--set", "task=words"], ["llama"], ["vit_b16"]]
for args in zoo:
    text = subprocess.run([ffzoo, *args], check=True, capture_output=True).stdout
    accepts(graphs, json.loads(text), "ffzoo " + " ".join(args))

# Every member that the writer writes is required to have a line in the schema.
lenet = json.loads(subprocess.run([ffzoo, "lenet"], check=True, capture_output=True).stdout)
for i, node in enumerate(lenet["nodes"]):
    bad = copy.deepcopy(lenet)
    bad["nodes"][i]["surplus"] = 1
    rejects(graphs, bad, f"surplus member in {node['op']} {node['name']}")
for key, value in [("op", "mish"), ("name", "a b"), ("in", "x")]:
    bad = copy.deepcopy(lenet)
    bad["nodes"][2][key] = value
    rejects(graphs, bad, f"bad {key}")

# Ports and shared parameters.
def change(document, place, value):
    bad = copy.deepcopy(document)
    at = bad
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return bad


conv = next(i for i, n in enumerate(lenet["nodes"]) if n["op"] == "conv2d")
for value in ["data#0", "data#12"]:
    accepts(graphs, change(lenet, ["nodes", conv, "in"], [value]), f"in {value}")
for value in ["data#", "data#x", "data#-1", "data# 1", "#1", "data#1#1"]:
    rejects(graphs, change(lenet, ["nodes", conv, "in"], [value]), f"bad in {value}")
for value in [{}, {"weight": "a.weight"}, {"weight": "w", "bias": "b"}]:
    accepts(graphs, change(lenet, ["nodes", conv, "params"], value), f"params {value}")
for value in [[], "w", {"gamma": "w"}, {"weight": 1}, {"weight": "a b"}, {"weight": "a#1"}]:
    rejects(graphs, change(lenet, ["nodes", conv, "params"], value), f"bad params {value}")
rejects(graphs, change(lenet, ["nodes", conv + 1, "params"], {"weight": "w"}),
        f"params of {lenet['nodes'][conv + 1]['op']}")
for value in ["float32", "bfloat16"]:
    accepts(graphs, change(lenet, ["dtype"], value), f"dtype {value}")
for value in ["int32", "uint8", "bf16", None, 2]:
    rejects(graphs, change(lenet, ["dtype"], value), f"bad dtype {value!r}")
for version in [1, 3, "2"]:
    rejects(graphs, change(lenet, ["version"], version), f"graph version {version!r}")

# Operators of few networks, each with what is wrong about it.
loss = copy.deepcopy(lenet)
loss["nodes"] = [{"name": "data", "op": "input", "shape": [2, 4, 6]}]
for op, attrs, bads in [
        ("mul", {"in": ["data", "data"]}, [{"in": []}, {"in": ["data"] * 3}, {"axis": 1}]),
        ("split", {"parts": 3}, [{"parts": 0}, {"parts": 33}, {"axis": 0}, {"stop": 1}]),
        ("slice", {"stop": 3}, [{"stop": 0}, {"start": -1}, {"axis": 6}, {"parts": 1}]),
        ("slice", {"stop": 3}, [{"step": 0}, {"step": 0.5}]),
        ("dropout", {}, [{"per": "channel"}]),
        ("batch_norm", {}, [{"sync": False}, {"group": 2}, {"sync": True, "group": 2}, {"sync": 0}]),
        ("batch_norm", {"sync": False, "group": 3}, [{"group": 0}, {"group": 1.5}, {"sync": True}]),
        ("pad", {"before": [0, 1, -1], "after": [0, 0, 2]},
         [{"before": [1, 0, 0]}, {"after": []}, {"value": "0"}]),
        ("gather", {"indices": [0, 3, 0]}, [{"indices": []}, {"indices": [-1]}, {"axis": 0}]),
        ("expand", {"shape": [2, 4, 6]}, [{"shape": [0]}, {"in": ["data"] * 2}, {"keep": True},
                                          {"weight": []}, {"params": {"bias": "w"}}]),
        ("transpose", {"perm": [0, 2, 1]},
         [{"perm": []}, {"perm": [1, 0]}, {"perm": [0, 1, 1]}, {"perm": [0, 6]}, {"perm": 0}]),
        ("embedding", {"vocabulary": 4, "features": 2},
         [{"vocabulary": 0}, {"features": "2"}, {"params": {"bias": "b"}}])]:
    good = copy.deepcopy(loss)
    good["nodes"].append({"name": "x", "op": op, "in": ["data"], **attrs})
    accepts(graphs, good, op)
    for bad in bads:
        rejects(graphs, change(good, ["nodes", 1], {**good["nodes"][1], **bad}), f"{op} {bad}")
    for key in attrs:
        bad = copy.deepcopy(good)
        del bad["nodes"][1][key]
        rejects(graphs, bad, f"{op} without {key}")
for node in [{"op": "slice", "in": ["data"], "stop": 3, "step": 2},
             {"op": "dropout", "in": ["data"], "per": "sample"},
             {"op": "pad", "in": ["data"], "before": [0, 1], "after": [0, -1], "value": 0.5},
             {"op": "expand", "shape": [2, 4, 6], "weight": [6], "params": {"weight": "w"}},
             {"op": "constant", "shape": [2, 4], "runs": [4, 0.5]}]:
    good = copy.deepcopy(loss)
    good["nodes"].append({"name": "x", **node})
    accepts(graphs, good, f"{node}")
for bad in [{"in": ["data"]}, {"runs": [4]}, {"runs": ["4", 1]}]:
    rejects(graphs, change(good, ["nodes", 1], {**good["nodes"][1], **bad}), f"constant {bad}")

strategies = validator(root / "docs/schema/strategy.schema.json")
strategy = {
    "format": "ffsoap-strategy", "version": 2, "graph": "g", "graph_hash": "0123456789abcdef",
    "machine": "m", "devices": 8, "operators": [
        {"name": "fc", "degrees": {"sample": 2}, "devices": [0, 1]}]}
accepts(strategies, strategy, "a strategy")
operator = ["operators", 0]
for value in [[3], list(range(8)), {"start": 0}, {"start": 4, "strides": {"sample": 2}},
              {"start": 0, "strides": {}, "replica_stride": 1}]:
    accepts(strategies, change(strategy, operator + ["devices"], value), f"devices {value}")
for value in [[], 3, [0, 0], [4096], [-1], {}, {"strides": {}}, {"start": -1}, {"start": 4096},
              {"start": 0, "strides": [1]}, {"start": 0, "strides": {"sample": -1}},
              {"start": 0, "replica_stride": 0}, {"start": 0, "stride": 1}]:
    rejects(strategies, change(strategy, operator + ["devices"], value), f"bad devices {value}")
accepts(strategies, change(strategy, operator + ["replicas"], 3), "replicas")
for value in [0, -1, 1.5, "2", 4097]:
    rejects(strategies, change(strategy, operator + ["replicas"], value), f"bad replicas {value}")
for value in ["sgd", "momentum", "nesterov", "adam", "adamw"]:
    accepts(strategies, change(strategy, ["optimizer"], value), f"optimizer {value}")
for value in ["adagrad", "SGD", "", 0, None]:
    rejects(strategies, change(strategy, ["optimizer"], value), f"bad optimizer {value!r}")
for version in [1, 3]:
    rejects(strategies, change(strategy, ["version"], version), f"strategy version {version}")
rejects(strategies, change(strategy, operator + ["surplus"], 1), "surplus member in an operator")

machines = validator(root / "docs/schema/machine.schema.json")
files = sorted((root / "graphs/machines").glob("*.json"))
for path in files:
    accepts(machines, json.loads(path.read_text()), path.name)
bad = json.loads(files[0].read_text())
bad["nodes"][0]["devices"] = 0
rejects(machines, bad, "no devices")
bad = json.loads((root / "graphs/machines/dgx1-v100.json").read_text())
del bad["nodes"][0]["inside"]["otherwise"]
rejects(machines, bad, "pairs without what joins the others")

interconnects = validator(root / "docs/schema/interconnects.schema.json")
for path in sorted((root / "graphs/machines/interconnects").glob("*.json")):
    accepts(interconnects, json.loads(path.read_text()), path.name)
    bad = json.loads(path.read_text())
    del bad["kinds"][0]["ramp"]
    rejects(interconnects, bad, "no ramp inside nodes")

models = validator(root / "docs/schema/device-model.schema.json")
files = sorted((root / "graphs/machines/models").glob("*.json"))
for path in files:
    made = json.loads(path.read_text())
    accepts(models, made, path.name)
    # who reads "measured" can look where
    told = all("source" in c for c in made["classes"].values() if c["basis"] == "measured")
    say(told and made["name"] == path.stem, f"{path.name}: sources of what was measured")
bad = json.loads(files[0].read_text())
bad["classes"]["stream"]["basis"] = "guessed"
rejects(models, bad, "a basis that is none")

# a map as ffsoap_torch writes it, of a layer whose weight is a part of the module's
names = validator(root / "docs/schema/torch-map.schema.json")
made = {"format": "ffsoap-torch-map", "version": 1, "graph": "g", "batch": 4,
        "operators": {"fc": {"module": "fc", "nodes": ["linear"]}},
        "parameters": {"w.0-3": {"names": ["w"], "rows": [0, 3]}, "v": {"names": ["v", "u"], "transpose": [1, 0]}},
        "inputs": {"ids.0": {"input": "ids", "parts": [{"axis": 1, "indices": [0]}]}}}
accepts(names, made, "a map of a PyTorch module")
for bad, name in ((dict(made, surplus=1), "a surplus member"), (dict(made, batch=1), "one sample"),
                  (dict(made, parameters={"w": {"names": []}}), "a parameter without a name"),
                  (dict(made, operators={"fc": {"module": "fc"}}), "an operator without nodes")):
    rejects(names, bad, f"{name} in a map")

finish()
