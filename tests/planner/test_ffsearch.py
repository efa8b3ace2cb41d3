#!/usr/bin/env python3
# ffsearch from the outside: exit status, sentences, files.  Prints TAP.
# SPDX-License-Identifier: Apache-2.0
"""usage: test_ffsearch.py FFSEARCH FFZOO SCHEMA_FOLDER"""
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

FFSEARCH, FFZOO, SCHEMAS = map(os.path.abspath, sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)


def run(*args, status=0):
    p = subprocess.run([FFSEARCH, *args], capture_output=True, text=True, timeout=120)
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
    subprocess.run([FFZOO, *args], check=True, timeout=60)


BASE = ["--machine", "p100x16", "--costs", "peak"]
LARGE = ["--machine", "k80x64", "--costs", "peak"]


def assert_classes_are_those_of(trace, classes):
    """What a plan says that its step is made of, against the step's timeline."""
    op = {n["name"]: n["op"] for n in json.loads(read("alexnet.json"))["nodes"]}
    us = {}
    for span in json.loads(read(trace))["traceEvents"]:
        if span["ph"] != "X":
            continue
        kind = span["args"]["kind"]
        name = {"sync": "gradient all-reduce", "scatter": "gradient reduce-scatter", "gather": "weight all-gather",
                "update": "update", "norm": "gradient norm"}.get(kind)
        if kind in ("forward", "backward"):
            # of nodes that the file does not have, a loss has one in front
            name = op.get(span["args"]["node"], "softmax_statistics") + " " + span["args"]["pass"]
        name = name or kind + " " + span["args"]["pass"]
        us[name] = us.get(name, 0) + span["dur"]
    assert us.keys() == classes.keys(), us.keys() ^ classes.keys()
    for name in us:
        assert abs(us[name] - classes[name]) <= 1e-9 * us[name], (name, us[name], classes[name])


def test_costs_by_models_and_by_peaks():
    """Both are said in strategies and reports; a kind without a model costs what its peaks say, and is named."""
    made = {}
    for machine in "p100x16", "cpu2", "k80x64":
        for costs in "analytic", "peak":
            p = run("alexnet.json", "--machine", machine, "--devices", "2", "--costs", costs, "--simulate",
                    "data-parallel", "-o", "plan.json", "--report", "report.json")
            report = conforms("report.json", "search-report")
            assert conforms("plan.json", "strategy")["costs"] == report["costs"] == costs
            assert ("There is no model of devices of kind \"cpu\"" in p.stderr) == \
                (costs == "analytic" and machine == "cpu2"), p.stderr
            assert report.get("without_model") == ("cpu" if (machine, costs) == ("cpu2", "analytic") else None)
            assert ("were not measured on such devices" in p.stderr) == (report["inferred_share"] > .1), p.stderr
            made[machine, costs] = report
    assert made["cpu2", "analytic"]["predicted_us"] == made["cpu2", "peak"]["predicted_us"]
    assert made["p100x16", "analytic"]["predicted_us"] != made["p100x16", "peak"]["predicted_us"]
    assert made["p100x16", "peak"]["inferred_share"] == 0 and made["p100x16", "peak"]["inferred"] == []
    assert made["p100x16", "analytic"]["inferred_share"] < .1
    assert made["k80x64", "analytic"]["inferred_share"] > .3
    assert "convolution" in made["k80x64", "analytic"]["inferred"]


def test_search_writes_everything():
    p = run("alexnet.json", *BASE, "--devices", "4", "--proposals", "2000", "-o", "plan.json",
            "--report", "report.json", "--trace", "trace.json")
    plan = conforms("plan.json", "strategy")
    report = conforms("report.json", "search-report")
    assert plan["devices"] == report["devices"] == 4
    assert plan["predicted_us"] == report["predicted_us"]
    assert plan["memory_bytes"] == report["memory_bytes"] and len(plan["memory_bytes"]) == 4
    assert report["proposals"] == 2000
    assert report["predicted_us"] <= report["data_parallel_us"]
    assert report["predicted_us"] >= report["lower_bound_us"] > 0
    assert abs(report["speedup"] - report["data_parallel_us"] / report["predicted_us"]) < 1e-9
    assert "traceEvents" in json.loads(read("trace.json"))
    assert "shape " in p.stdout and "speedup" in p.stdout
    assert p.stderr == "", p.stderr
    assert_classes_are_those_of("trace.json", plan["predicted_tasks"])


def test_same_seed_same_bytes():
    args = ["alexnet.json", *BASE, "--devices", "8", "--proposals", "1500", "--seed", "3"]
    run(*args, "-o", "a.json", "--trace", "at.json")
    run(*args, "-o", "b.json", "--trace", "bt.json")
    assert read("a.json") == read("b.json")
    assert read("at.json") == read("bt.json")


def test_simulate_repeats_the_prediction():
    run("alexnet.json", *BASE, "--devices", "4", "--proposals", "500", "-o", "s.json")
    run("alexnet.json", *BASE, "--devices", "4", "--simulate", "s.json", "--report", "r.json")
    report = conforms("r.json", "search-report")
    assert report["predicted_us"] == json.loads(read("s.json"))["predicted_us"]
    assert report["proposals"] == 0 and report["starts"] == []


def test_simulate_names():
    for name in "data-parallel", "single", "expert", "random":
        run("alexnet.json", *BASE, "--simulate", name, "--report", "r.json", "-o", "o.json")
        report = conforms("r.json", "search-report")
        assert report["strategy"] == name
        assert conforms("o.json", "strategy")["predicted_us"] == report["predicted_us"]
        if name == "data-parallel":
            assert report["predicted_us"] == report["data_parallel_us"]
            assert report["is_data_parallel"]


MACHINE = {"processor": "abacus", "kernels": "beads 1", "mpi": "drums 2", "cores": 1, "threads": 2,
           "ranks": 4, "hosts": 1}


def write_costs(path, graph, machine, devices=1, **members):
    """A cost file in which every kernel of one device takes 100 us: with one, all that a search may need."""
    rate = [{"reuse_bytes": 1024, "latency_us": 1, "bytes_per_s": 1e9}]
    costs = {"format": "ffsoap-costs", "version": 5, "device_kind": "P100", "machine": MACHINE,
             "rates": dict.fromkeys(("copy", "add", "accumulate", "update", "load"), rate), "entries": [],
             **members}
    for _ in range(200):  # it names what is missing, one at a time
        write(path, json.dumps(costs))
        p = subprocess.run([FFSEARCH, graph, "--machine", machine, "--devices", str(devices), "--costs",
                            path, "--simulate", "single", "-o", "s.json"], capture_output=True,
                           text=True, timeout=60)
        key = re.search(r'"([^"]+\.(?:forward|backward)[^"]*)"', p.stderr)
        if p.returncode != 2 or not key:
            return p
        costs["entries"].append({"key": key.group(1), "reuse_bytes": 1024, "median_us": 100, "p10_us": 100,
                                 "p90_us": 100, "samples": 5, "workspace_bytes": 0})
    raise AssertionError("more than 200 kernels")


def test_measured_costs_say_where():
    p = write_costs("costs.json", "lenet.json", "p100x16")
    assert p.returncode == 0 and not p.stderr, p.stderr
    run("lenet.json", "--machine", "p100x16", "--devices", "1", "--costs", "costs.json",
        "--simulate", "single", "--report", "r.json")
    assert conforms("r.json", "search-report")["costs_machine"] == MACHINE


def test_costs_of_one_strategy_are_enough_to_simulate_it():
    """What ffprof --strategy measures says nothing of other splits, so there is no bound."""
    p = write_costs("costs.json", "lenet.json", "p100x16", devices=2)
    assert p.returncode == 0 and not p.stderr, p.stderr
    some = ["lenet.json", "--machine", "p100x16", "--devices", "2", "--costs", "costs.json"]
    run(*some, "--simulate", "single", "--report", "r.json", "-o", "s.json")
    assert conforms("r.json", "search-report")["lower_bound_us"] is None
    run(*some, "--simulate", "s.json")
    refuse(2, "has no cost for", *some, "--proposals", "100", "-o", "x.json")


def test_unmeasured_micro_batches_are_left_out():
    """Whether the lower bound has the time to find out or not."""
    write_costs("costs.json", "lenet.json", "p100x16")
    search = ["lenet.json", "--machine", "p100x16", "--devices", "1", "--costs", "costs.json",
              "-o", "x.json", "--report", "r.json"]
    run(*search, "--budget", "0.001s")
    p = run(*search, "--proposals", "200", "--space", "micro-batches")
    assert "ffprof --micro-batches measures them" in p.stderr
    assert conforms("r.json", "search-report")["micro_batches"] == 1


def test_phases_are_searched():
    """Memory that data parallelism does not fit in: micro-batches, values made again."""
    run("alexnet.json", *BASE, "--simulate", "data-parallel", "--report", "r.json")
    limit = max(conforms("r.json", "search-report")["memory_bytes"]) * 9 // 10
    for name, again in (("zero-1", False), ("zero-3", True)):
        run("alexnet.json", *BASE, "--simulate", name, "-o", "z.json", "--report", "r.json")
        saved = max(conforms("r.json", "search-report")["memory_bytes"])
        assert saved < limit
        cut = {op["name"]: op for op in conforms("z.json", "strategy")["operators"]}
        assert cut["conv1.weight"]["update"] == "flat"
        assert cut["conv1.weight"].get("recompute", False) == again
    run("alexnet.json", *BASE, "--simulate", "pipeline-4", "-o", "p.json")
    made = conforms("p.json", "strategy")
    assert made["micro_batches"] > 1 and made["order"] == "1f1b"
    assert {op.get("stage", 0) for op in made["operators"]} == {0, 1, 2, 3}
    run("alexnet.json", *BASE, "--simulate", "frugal", "-o", "f.json", "--report", "r.json")
    assert max(conforms("r.json", "search-report")["memory_bytes"]) < limit
    assert any(op.get("recompute") for op in conforms("f.json", "strategy")["operators"])
    run("alexnet.json", *BASE, "--memory", str(limit), "--proposals", "300", "--init", "frugal",
        "--space", "micro-batches,recompute,updates", "-o", "x.json", "--report", "r.json")
    report = conforms("r.json", "search-report")
    assert report["fits"] and not report["data_parallel_fits"]
    refuse(2, "pipeline-17 needs 17 devices", "alexnet.json", *BASE, "--simulate", "pipeline-17")
    for why, *start in (("pipeline-17 needs 17 devices", "pipeline-17"),
                        ("megatron: T 1 times D 3 times P 1 are 3 devices", "megatron:1,3,1,1"),
                        ("strategy pipeline-2 has stages, and there are to be none", "pipeline-2", "--no-pipeline")):
        refuse(2, f"option --init: {why}", "alexnet.json", *BASE, "--proposals", "1", "--init", "data-parallel",
               "-o", "x.json", "--init", *start)


def test_zero_1_costs_what_data_parallelism_does():
    """The same bytes, in as many messages, and updates as many times shorter as there are devices."""
    zoo("gpt2", "--batch", "64", "--set", "layers=4", "--set", "dtype=bfloat16", "-o", "gpt.json")
    for devices in (16, 64):
        run("gpt.json", "--machine", "a100x256", "--devices", str(devices), "--costs", "peak", "--optimizer",
            "adamw", "--simulate", "zero-1", "-o", "flat.json", "--report", "r.json")
        report, plan = json.loads(read("r.json")), json.loads(read("flat.json"))
        assert report["predicted_us"] < 1.05 * report["data_parallel_us"], report["speedup"]
        assert report["comm_bytes"] < report["data_parallel_comm_bytes"], "bfloat16 weights are gathered as such"
        assert max(report["memory_bytes"]) < max(report["data_parallel_memory_bytes"])
        assert report["updated_flat"] == sum(o.get("update") == "flat" for o in plan["operators"]) > 10
        conforms("flat.json", "strategy")
        conforms("r.json", "search-report")


def test_zero_3_costs_one_half_more():
    """Weights are gathered twice, in as few messages; and no device has more of them than a few buckets."""
    zoo("gpt2", "--batch", "64", "--set", "layers=8", "--set", "width=512", "--set", "heads=8", "--set", "sequence=128",
        "--set", "dtype=bfloat16", "-o", "gpt3.json")
    took = {}
    for name in ("data-parallel", "zero-1", "zero-3"):
        run("gpt3.json", "--machine", "a100x256", "--devices", "64", "--costs", "peak", "--optimizer", "adamw",
            "--simulate", name, "--report", "r.json")
        took[name] = json.loads(read("r.json"))
    data, one, three = took.values()
    assert three["predicted_us"] < 1.6 * data["predicted_us"], three["speedup"]
    assert one["comm_bytes"] < three["comm_bytes"] < 1.1 * data["comm_bytes"], "bfloat16 is gathered"
    assert three["dropped"] == three["updated_flat"] > one["dropped"] == 0
    assert max(three["memory_bytes"]) < max(one["memory_bytes"]) < max(data["memory_bytes"])


def test_no_plain_start_is_better():
    """However short the search: each is looked at with buckets of its own before any is walked."""
    zoo("gpt2", "--batch", "64", "--set", "layers=2", "--set", "dtype=bfloat16", "-o", "gpt.json")
    search = ["gpt.json", "--machine", "a100x256", "--devices", "64", "--costs", "peak", "--optimizer", "adamw"]
    run(*search, "--proposals", "20", "--report", "r.json", "-o", "x.json")
    found = json.loads(read("r.json"))["predicted_us"]
    for name in ("data-parallel", "expert", "single", "zero-1"):
        run(*search, "--simulate", name, "--report", "r.json")
        assert found <= 1.0001 * json.loads(read("r.json"))["predicted_us"], name


def test_buckets_are_tuned():
    """Where a message takes long, so few that they are worth it; a plan's own are kept."""
    slow = {"format": "ffsoap-machine", "version": 1, "name": "slow", "overlap": True,
            "kinds": [{"name": "gpu", "flops_per_s": 1e14, "memory_bytes_per_s": 1e12, "memory_bytes": 4e10}],
            "nodes": [{"count": 16, "devices": 1, "kind": "gpu", "inside": {"latency_us": 1, "bytes_per_s": 1e11},
                       "network": {"latency_us": 2000, "bytes_per_s": 1e10}}]}
    write("slow.json", json.dumps(slow))
    zoo("resnet50", "--batch", "64", "-o", "resnet.json")
    at = ["resnet.json", "--machine", "./slow.json", "--costs", "peak"]
    run(*at, "--simulate", "data-parallel", "-o", "dp.json", "--report", "r.json")
    tuned, plan = json.loads(read("r.json")), json.loads(read("dp.json"))
    assert tuned["bucket_bytes"] > 25 << 20, tuned["bucket_bytes"]
    assert plan["bucket_bytes"] == plan["data_parallel_bucket_bytes"] == tuned["bucket_bytes"]
    assert tuned["is_data_parallel"]
    conforms("dp.json", "strategy")
    del plan["bucket_bytes"]
    write("preset.json", json.dumps(plan))
    run(*at, "--simulate", "preset.json", "--report", "r.json")
    preset = json.loads(read("r.json"))
    assert preset["predicted_us"] > 1.01 * tuned["predicted_us"]
    assert preset["data_parallel_us"] == tuned["predicted_us"]


def test_sizes_of_buckets_that_are_no_better_do_not_end_the_tuning():
    """On 256 devices buckets of 50 MiB are no better than of 25, of 200 they are; of zero-1 on 64 neither of 100 nor
    200 than of 50, of 400 they are."""
    zoo("mlp", "--batch", "128", "-o", "wide.json")
    at = ["wide.json", "--machine", "a100x256", "--costs", "peak", "--report", "r.json"]
    run(*at, "--simulate", "data-parallel", "-o", "dp.json")
    tuned, plan = json.loads(read("r.json")), json.loads(read("dp.json"))
    for times in 1, 2, 4, 8, 16:
        plan["bucket_bytes"] = plan["data_parallel_bucket_bytes"] = times * (25 << 20)
        write("other.json", json.dumps(plan))
        run(*at, "--simulate", "other.json")
        assert 1.01 * json.loads(read("r.json"))["predicted_us"] > tuned["predicted_us"], times
    zoo("gpt2_xl", "--batch", "128", "--set", "dtype=bfloat16", "-o", "xl.json")
    at = ["xl.json", "--machine", "dgx-a100-40:8", "--costs", "analytic", "--optimizer", "adamw", "--report", "r.json"]
    run(*at, "--simulate", "zero-1", "-o", "z1.json")
    tuned, plan = json.loads(read("r.json")), json.loads(read("z1.json"))
    write("other.json", json.dumps(dict(plan, bucket_bytes=400 << 20)))
    run(*at, "--simulate", "other.json")
    assert 1.01 * json.loads(read("r.json"))["predicted_us"] > tuned["predicted_us"], tuned["predicted_us"]



def test_baseline_fits():
    """Where data parallelism lacks memory the plan is compared with what people do then, and is no slower."""
    zoo("gpt2", "--batch", "32", "--set", "layers=4", "--set", "width=256", "--set", "heads=4", "--set", "sequence=128",
        "--set", "vocabulary=1000", "-o", "small.json")
    at = ["small.json", "--machine", "a100x256", "--devices", "4", "--costs", "peak", "--optimizer", "adamw"]

    def simulate(name, *more):
        run(*at, *more, "--simulate", name, "--report", "r.json")
        return conforms("r.json", "search-report")
    plain = simulate("data-parallel")
    assert plain["baseline"] == "data-parallel" and plain["is_data_parallel"]
    limit = str((max(plain["memory_bytes"]) + max(simulate("zero-3")["memory_bytes"])) // 2)
    p = run(*at, "--memory", limit, "--reserve", "0", "--proposals", "200", "--init", "data-parallel", "-o", "tight.json",
            "--report", "r.json")
    found = conforms("r.json", "search-report")
    assert found["baseline"] != "data-parallel" and not found["data_parallel_fits"]
    assert max(found["data_parallel_memory_bytes"]) <= int(limit)
    assert "over data parallelism that fits (%s)" % found["baseline"] in " ".join(p.stdout.split()), p.stdout
    assert found["predicted_us"] <= found["data_parallel_us"] and not found["is_data_parallel"]
    again = simulate(found["baseline"], "--memory", limit)
    assert again["predicted_us"] == found["data_parallel_us"] and again["speedup"] == 1
    for other in ("zero-3", "megatron:1,4,1,4,zero-1,recompute", "megatron:1,4,1,2,zero-3"):
        other = simulate(other, "--memory", limit)
        assert other["predicted_us"] >= again["predicted_us"], other["strategy"]


def test_bad_phases():
    run("alexnet.json", *BASE, "--simulate", "pipeline-2", "-o", "p.json")
    plan = json.loads(read("p.json"))
    for change, words in (({"micro_batches": 0}, "odd.json: micro_batches: expected"),
                          ({"micro_batches": 7}, "cannot be cut into 7 micro-batches"),
                          ({"order": "2f2b"}, 'odd.json: order: expected "gpipe", "1f1b", "interleaved" or "zb-h1"'),
                          ({"chunks": 2}, 'odd.json: chunks: expected the order "interleaved" beside it'),
                          ({"order": "interleaved", "chunks": 1}, "odd.json: chunks: expected")):
        write("odd.json", json.dumps(dict(plan, **change)))
        refuse(2, words, "alexnet.json", *BASE, "--simulate", "odd.json")
    for change, words in (({"stage": 9}, "is in stage 9, but"), ({"stage": -1}, "expected"),
                          ({"recompute": 1}, "expected true or false")):
        entries = [dict(op, **(change if i == 0 else {})) for i, op in enumerate(plan["operators"])]
        write("odd.json", json.dumps(dict(plan, operators=entries)))
        refuse(2, words, "alexnet.json", *BASE, "--simulate", "odd.json")


def test_unsteady_costs_are_said():
    write_costs("costs.json", "lenet.json", "p100x16")
    costs = json.loads(read("costs.json"))
    command = ["lenet.json", "--machine", "p100x16", "--devices", "1", "--costs", "shaky.json",
               "--simulate", "single", "-o", "s.json", "--report", "r.json"]
    for marked, share in (0, 1), (1, 0.95), (8, 0.6):
        shaky = json.loads(json.dumps(costs))
        n = len(shaky["entries"])
        for e in shaky["entries"]:  # one is as long as marked / 20 of all
            e["median_us"] = e["p10_us"] = e["p90_us"] = (20 - marked) / 20 / (n - 1)
        first = shaky["entries"][0]
        first["median_us"] = first["p10_us"] = first["p90_us"] = max(marked, 1) / 20
        first["disturbed"] = 3 if marked else 0
        shaky["steadiness"] = {"samples": 100, "disturbed": marked, "reference_spread": 1.1}
        write("shaky.json", json.dumps(shaky))
        p = run(*command)
        assert abs(conforms("r.json", "search-report")["steadiness"] - share) < 1e-9
        assert abs(conforms("s.json", "strategy").get("steadiness", 1) - share) < 1e-9
        if share < 0.9:
            assert re.fullmatch(r"ffsearch: 40 % of the costs in shaky.json rest on [^\n]+\n",
                                p.stderr), p.stderr
        else:
            assert not p.stderr, p.stderr
    told = dict(costs, machine=dict(costs["machine"], communication="nccl 2.28.9"))
    write("shaky.json", json.dumps(told))
    assert not run(*command).stderr
    assert conforms("r.json", "search-report")["costs_machine"]["communication"] == "nccl 2.28.9"
    assert conforms("s.json", "strategy")["communication"] == "nccl 2.28.9"
    write("odd.json", json.dumps(dict(json.loads(read("s.json")), communication="mpi")))
    words = command[:command.index("--simulate")] + ["--simulate", "odd.json"]
    assert run(*words).stderr == ("ffsearch: odd.json was planned for ranks that communicate over "
                                  "mpi, but shaky.json was measured over nccl 2.28.9\n")
    shaky["rates"]["copy"] = [dict(shaky["rates"]["copy"][0], disturbed=2)]
    shaky["entries"][0]["disturbed"] = 0
    write("shaky.json", json.dumps(shaky))
    assert "20 % of the costs" in run(*command).stderr  # one of five rates
    shaky["entries"][0]["disturbed"] = 6
    write("shaky.json", json.dumps(shaky))
    refuse(2, "of which 6 cannot", "lenet.json", "--machine", "p100x16", "--costs", "shaky.json",
           "--simulate", "single")


def test_standard_output():
    p = run("lenet.json", *BASE, "--devices", "2", "--proposals", "100", "-o", "-")
    assert json.loads(p.stdout)["format"] == "ffsoap-strategy"
    assert "shape " in p.stderr


def test_data_parallel_is_said():
    """Large batch, tiny weights: nothing beats data parallelism."""
    p = run("light.json", *BASE, "--devices", "2", "--proposals", "3000", "--space", "none", "-o",
            "light-plan.json", "--report", "light-report.json")
    report = conforms("light-report.json", "search-report")
    assert report["is_data_parallel"] == ("Data parallelism is the best plan found" in p.stdout)
    assert report["is_data_parallel"], report["speedup"]


def test_memory_limit():
    run("alexnet.json", *BASE, "--simulate", "data-parallel", "--report", "dp.json")
    need = max(json.loads(read("dp.json"))["memory_bytes"])
    p = run("alexnet.json", *BASE, "--proposals", "3000", "--memory", str(need - 1), "-o",
            "tight.json", "--report", "tight-report.json")
    report = conforms("tight-report.json", "search-report")
    assert max(report["memory_bytes"]) < need
    assert report["fits"] and not report["data_parallel_fits"]
    assert "Data parallelism does not fit" in p.stdout


def test_space():
    """What else may change is what is said; sharded updates are found where they help."""
    plan = ["--proposals", "4000", "-o", "space-plan.json"]
    for what, names in (("none", False), ("replicas", False), ("updates", True)):
        run("alexnet.json", *BASE, *plan, "--space", what)
        operators = json.loads(read("space-plan.json"))["operators"]
        assert any(o["name"].endswith(".weight") for o in operators) == names, what
        assert what == "replicas" or not any("replicas" in o for o in operators), what
    refuse(2, "--space", "alexnet.json", *BASE, *plan, "--space", "updates;replicas")


STATES = {"sgd": 0, "momentum": 1, "nesterov": 1, "adam": 2, "adamw": 2}


def test_optimizers():
    """Each state is an array as large as the weights' and has to be read and written."""
    us, memory = {}, {}
    for name in STATES:
        run("alexnet.json", *BASE, "--devices", "2", "--simulate", "data-parallel", "--optimizer",
            name, "-o", name + ".json", "--report", "r.json")
        report = conforms("r.json", "search-report")
        plan = conforms(name + ".json", "strategy")
        assert report["optimizer"] == plan["optimizer"] == name
        assert plan["memory_bytes"] == report["memory_bytes"]
        us[name], memory[name] = report["predicted_us"], report["memory_bytes"][0]
    p = run("alexnet.json", *BASE, "--devices", "2", "--simulate", "data-parallel", "-o", "-")
    assert read("momentum.json").decode() == p.stdout, "the preset"
    weights = 4 * int(re.search(r"(\d+) parameters", p.stderr).group(1))
    for less, more in (("sgd", "momentum"), ("momentum", "adamw")):
        # shards begin at multiples of 64 bytes
        assert weights <= memory[more] - memory[less] < weights + 64 * 32, memory
        assert us[less] < us[more], us
    # as the file says, unless told otherwise; files from before say nothing
    old = json.loads(read("momentum.json"))
    del old["optimizer"]
    write("old.json", json.dumps(old))
    for path, told, name in (("adamw.json", [], "adamw"), ("old.json", [], "momentum"),
                             ("adamw.json", ["--optimizer", "sgd"], "sgd")):
        run("alexnet.json", *BASE, "--devices", "2", "--simulate", path, *told, "--report",
            "r.json")
        report = conforms("r.json", "search-report")
        assert (report["optimizer"], report["predicted_us"]) == (name, us[name]), path
        assert report["memory_bytes"][0] == memory[name], path


def test_clipping():
    """The norm of all gradients takes a pass over them, a little memory and a message; files say
    what they are of, and a search with it finds what it predicts."""
    common = ["alexnet.json", *BASE, "--devices", "2"]
    found = {}
    for name, told in (("plain", []), ("clipped", ["--clip"])):
        run(*common, "--simulate", "data-parallel", *told, "-o", name + ".json", "--report", "r.json")
        found[name] = conforms("r.json", "search-report")
        assert conforms(name + ".json", "strategy").get("clip", False) == bool(told)
        assert found[name]["clip"] == bool(told)
    assert found["clipped"]["predicted_us"] > found["plain"]["predicted_us"], found
    assert found["clipped"]["comm_bytes"] == found["plain"]["comm_bytes"] + 2 * 64, found
    more = found["clipped"]["memory_bytes"][0] - found["plain"]["memory_bytes"][0]
    assert 0 < more <= 8192 + 3 * 64, more
    run(*common, "--simulate", "clipped.json", "--report", "again.json")
    again = conforms("again.json", "search-report")
    assert (again["predicted_us"], again["clip"]) == (found["clipped"]["predicted_us"], True)
    run(*common, "--clip", "--proposals", "300", "-o", "best.json", "--report", "r.json")
    assert conforms("best.json", "strategy")["clip"] is True
    run(*common, "--simulate", "best.json", "--report", "again.json")
    assert conforms("again.json", "search-report")["predicted_us"] == conforms(
        "r.json", "search-report")["predicted_us"]
    write("odd.json", json.dumps(dict(json.loads(read("plain.json")), clip=1)))
    refuse(2, "odd.json: clip", *common, "--simulate", "odd.json")


def test_compression():
    """Compressed gradients take fewer bytes, which a machine whose links are slow shows; files say what
    they are of, and nothing is compressed unasked."""
    common = ["alexnet.json", *BASE, "--devices", "2"]
    found = {}
    for name in ("none", "bfloat16", "ternary"):
        said = run(*common, "--simulate", "data-parallel", "--compress", name, "-o", name + ".json",
                   "--report", "r.json")
        found[name] = conforms("r.json", "search-report")
        assert ("changes what is computed" in said.stdout + said.stderr) == (name != "none"), said
        assert conforms(name + ".json", "strategy").get("compress", "none") == name
        assert found[name].get("compress", "none") == name
    assert found["bfloat16"]["comm_bytes"] * 2 == found["none"]["comm_bytes"], found
    assert found["ternary"]["comm_bytes"] * 15 < found["none"]["comm_bytes"], found
    assert found["bfloat16"]["memory_bytes"][0] > found["none"]["memory_bytes"][0], found
    run(*common, "--simulate", "ternary.json", "--report", "again.json")
    again = conforms("again.json", "search-report")
    assert (again["predicted_us"], again["compress"]) == (found["ternary"]["predicted_us"], "ternary")
    run(*common, "--compress", "bfloat16", "--proposals", "300", "-o", "best.json", "--report", "r.json")
    assert conforms("best.json", "strategy")["compress"] == "bfloat16"
    run(*common, "--simulate", "best.json", "--report", "again.json")
    assert conforms("again.json", "search-report")["predicted_us"] == conforms(
        "r.json", "search-report")["predicted_us"]
    write("odd.json", json.dumps(dict(json.loads(read("none.json")), compress="zip")))
    refuse(2, "odd.json: compress", *common, "--simulate", "odd.json")
    refuse(2, "--compress", *common, "--simulate", "data-parallel", "--compress", "zip")


def test_late_gradients():
    """Where links are slow gradients that are applied a step late take no time but what links are busy
    for beyond what is computed; files say so, nothing is late unasked, and no search chooses it."""
    p100 = json.loads(read(os.path.join(os.path.dirname(__file__), "../../graphs/machines/p100x16.json")))
    common = ["alexnet.json", "--machine", "./slow.json", "--costs", "peak", "--devices", "4"]
    for slower in (1, 4, 16, 64):
        slow = json.loads(json.dumps(p100))
        for node in slow["nodes"]:
            node["inside"]["bytes_per_s"] /= slower
        write("slow.json", json.dumps(slow))
        found, bound, rest = {}, {}, {}
        for late in (0, 1, 2):
            said = run(*common, "--simulate", "data-parallel", "--staleness", str(late), "-o", f"late{late}.json",
                       "--report", "r.json", "--trace", "t.json")
            found[late] = conforms("r.json", "search-report")
            assert ("changes what is computed" in said.stdout + said.stderr) == (late > 0), said
            assert conforms(f"late{late}.json", "strategy").get("staleness", 0) == late
            assert found[late].get("staleness", 0) == late
            spans = [e for e in json.loads(read("t.json"))["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
            busy = {cat: sum(e["dur"] for e in spans if e["cat"] == cat) for cat in ("compute", "communication")}
            bound[late] = max(busy.values())
            # what no communication is beside: the first gradients come to their turn, the last are applied
            rest[late] = sum(e["dur"] for e in spans if e["args"]["kind"] in ("delay", "update", "load"))
        assert bound[1] <= found[1]["predicted_us"] <= bound[1] + rest[1] + 1, (slower, found, bound, rest)
        if slower > 1:
            assert found[1]["predicted_us"] < found[0]["predicted_us"], (slower, found)
        assert found[0]["comm_bytes"] == found[1]["comm_bytes"], found
        one = found[1]["memory_bytes"][0] - found[0]["memory_bytes"][0]
        assert found[2]["memory_bytes"][0] - found[1]["memory_bytes"][0] == one > 0, found
    run(*common, "--simulate", "late2.json", "--report", "again.json")
    again = conforms("again.json", "search-report")
    assert (again["predicted_us"], again["staleness"]) == (found[2]["predicted_us"], 2)
    refuse(2, "no search chooses", *common, "--staleness", "1", "-o", "none.json")
    refuse(2, "at most 64", *common, "--simulate", "data-parallel", "--staleness", "65")
    refuse(2, "not applied late", *common, "--simulate", "data-parallel", "--staleness", "1", "--average-every", "2")
    write("odd.json", json.dumps(dict(json.loads(read("late1.json")), staleness=0)))
    refuse(2, "odd.json: staleness", *common, "--simulate", "odd.json")


def test_search_for_an_optimizer():
    """What fits with fewer states need not fit with more."""
    search = ["alexnet.json", *BASE, "--devices", "4", "--proposals", "500", "--space", "none"]
    need = {}
    for name in STATES:
        run(*search, "--optimizer", name, "-o", name + ".json", "--report", "r.json")
        plan = conforms(name + ".json", "strategy")
        assert plan["optimizer"] == name
        run("alexnet.json", *BASE, "--devices", "4", "--simulate", name + ".json", "--report",
            "again.json")
        assert conforms("again.json", "search-report")["predicted_us"] == plan["predicted_us"]
        run("alexnet.json", *BASE, "--simulate", "single", "--optimizer", name, "--report",
            "r.json")
        need[name] = max(conforms("r.json", "search-report")["memory_bytes"])
    one = ["alexnet.json", *BASE, "--devices", "1", "--proposals", "10", "-o", "fits.json",
           "--space", "none", "--memory", str(need["momentum"])]
    run(*one, "--optimizer", "sgd")
    run(*one)
    os.remove("fits.json")
    refuse(3, "memory", *one, "--optimizer", "adamw")


def test_bad_optimizers():
    refuse(2, 'option --optimizer: expected sgd, momentum, nesterov, adam or adamw, not "ada"', "lenet.json",
           *BASE, "--optimizer", "ada", "-o", "x.json")
    plan = json.loads(read("old.json"))
    write("odd.json", json.dumps(dict(plan, optimizer="ada")))
    refuse(2, 'odd.json: optimizer: expected sgd', "alexnet.json", *BASE, "--simulate",
           "odd.json")
    # costs from before there was a choice
    p = write_costs("four.json", "lenet.json", "p100x16")
    assert p.returncode == 0, p.stderr
    args = ["lenet.json", "--machine", "p100x16", "--devices", "1", "--costs", "four.json",
            "--simulate", "single"]
    run(*args)
    refuse(2, 'four.json has no "update_adamw" rate: run ffprof lenet.json', *args,
           "--optimizer", "adamw")
    costs = json.loads(read("four.json"))
    costs["rates"]["update_adamw"] = [{"reuse_bytes": 9, "latency_us": 1, "bytes_per_s": 5e8}]
    write("five.json", json.dumps(costs))
    args[6] = "five.json"
    run(*args, "--optimizer", "adamw")


def test_nothing_fits():
    refuse(3, "memory", "alexnet.json", *BASE, "--proposals", "200", "--memory", "1M", "-o", "x.json",
           "--report", "x-report.json")
    refuse(3, "does not fit", "alexnet.json", *BASE, "--memory", "1M", "--simulate", "single",
           "-o", "x.json")


def interrupt(after, *args):
    """Ctrl-C so long after SIGINT is held, which it is from the lower bound on.  The
    report, and how long the answer took."""
    p = subprocess.Popen([FFSEARCH, *args, "--budget", "100s", "-o", "cut.json", "--report",
                          "cut-report.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    try:
        # SIGINT shows up in the mask of blocked signals, SIGHUP as well only until the command is there.
        blocked = 0
        until = time.monotonic() + 60
        while blocked & 3 != 2 and p.poll() is None and time.monotonic() < until:
            with open("/proc/%d/status" % p.pid) as f:
                blocked = int(re.search(r"SigBlk:\s*(\w+)", f.read()).group(1), 16)
            time.sleep(0.001)
        time.sleep(after)
        p.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, err = p.communicate(timeout=60)
    finally:
        p.kill()
    assert p.returncode == 0, err
    report = conforms("cut-report.json", "search-report")
    assert report["interrupted"], report
    conforms("cut.json", "strategy")
    assert "interrupted" in out
    print("# %s: Ctrl-C was answered after %.2f s" % (args[0], time.monotonic() - sent))
    return report


def test_interrupt_keeps_the_best():
    for after in 0.3, 3, 30:  # as long as it takes here
        report = interrupt(after, "alexnet.json", *BASE)
        if report["proposals"] and report["lower_bound_us"]:
            break
    assert report["proposals"] > 0 and report["lower_bound_us"] > 0


def test_interrupt_on_many_devices():
    interrupt(0, "inception.json", *LARGE)
    interrupt(1, "inception.json", *LARGE)
    # a random strategy, of which every change takes long and which must fit
    interrupt(1, "inception.json", *LARGE, "--memory", "1T", "--init", "random")


def test_short_budget():
    """Something is found, and there is no time for a lower bound."""
    p = run("inception.json", *LARGE, "--budget", "0.0001s", "-o", "short.json", "--report",
            "short-report.json")
    report = conforms("short-report.json", "search-report")
    assert report["lower_bound_us"] is None
    assert "No strategy can be faster" not in p.stdout
    assert report["predicted_us"] <= report["data_parallel_us"]


def test_bad_usage():
    out = ["-o", "x.json"]
    refuse(2, "operand")
    refuse(2, "--machine", "alexnet.json", "--costs", "peak", *out)
    refuse(2, "--costs", "alexnet.json", "--machine", "p100x16", *out)
    refuse(2, "-o", "alexnet.json", *BASE)
    refuse(2, "--nonsense", "alexnet.json", *BASE, *out, "--nonsense")
    refuse(2, "--budget", "alexnet.json", *BASE, *out, "--budget", "soon")
    refuse(2, "--budget", "alexnet.json", *BASE, *out, "--budget", "0s")
    refuse(2, "--proposals", "alexnet.json", *BASE, *out, "--proposals", "0")
    refuse(2, "--beta", "alexnet.json", *BASE, *out, "--beta", "-1")
    refuse(2, "--memory", "alexnet.json", *BASE, *out, "--memory", "0")
    refuse(2, "--devices", "alexnet.json", *BASE, *out, "--devices", "0")
    refuse(2, "17", "alexnet.json", *BASE, *out, "--devices", "17")
    refuse(2, "expret", "alexnet.json", *BASE, *out, "--init", "expret")
    refuse(2, "--simulate", "alexnet.json", *BASE, "--simulate", "single", "--budget", "3s")


def test_bad_input():
    out = ["-o", "x.json", "--proposals", "10"]
    write("broken.json", '{"format": "ffsoap-graph", "version": 2,')
    write("deep.json", "[" * 100000)
    refuse(2, "nowhere.json", "nowhere.json", *BASE, *out)
    refuse(2, "broken.json", "broken.json", *BASE, *out)
    refuse(2, "deep.json", "deep.json", *BASE, *out)
    refuse(2, "nowhere", "alexnet.json", "--machine", "nowhere", "--costs", "peak", *out)
    refuse(2, "broken.json", "alexnet.json", "--machine", "p100x16", "--costs", "broken.json", *out)
    refuse(2, "broken.json", "alexnet.json", *BASE, "--simulate", "broken.json")


def test_strategy_that_does_not_belong():
    run("lenet.json", *BASE, "--devices", "4", "--simulate", "data-parallel", "-o", "other.json")
    refuse(2, "other.json", "alexnet.json", *BASE, "--simulate", "other.json")
    refuse(2, "devices", "lenet.json", *BASE, "--devices", "2", "--simulate", "other.json")


def test_output_folder_missing():
    p = run("lenet.json", *BASE, "--devices", "2", "--proposals", "10", "-o", "no/where.json",
            status=1)
    assert "no/where.json" in p.stderr


def test_cuts_steps():
    """Of one long sequence there are no samples to cut: recurrences run in turn, as a wave."""
    zoo("rnntc", "--batch", "1", "--set", "steps=1000", "-o", "long.json")
    run("long.json", *BASE, "--devices", "4", "--proposals", "5000", "-o", "long.plan", "--report", "long.report")
    plan, report = json.loads(read("long.plan")), json.loads(read("long.report"))
    assert any(o.get("degrees", {}).get("step", 1) > 1 for o in plan["operators"]), "no steps are cut"
    assert report["predicted_us"] < 0.75 * report["data_parallel_us"], report["predicted_us"]
    p = run("long.json", *BASE, "--devices", "4", "--simulate", "long.plan", "--report", "again.report")
    assert json.loads(read("again.report"))["predicted_us"] == report["predicted_us"], p.stdout


def split_of(plan, name):
    operator = next(o for o in json.loads(read(plan))["operators"] if o["name"] == name)
    return operator["degrees"], operator["devices"]


def test_pins():
    """What is pinned is so in the plan; what cannot be is refused, and says why."""
    at = ["alexnet.json", *BASE, "--proposals", "400", "-o", "pinned.json"]
    run(*at, "--pin", "fc*:out_feature=8", "--pin", "conv1:sample=4@12,4,8,0")
    for name in "fc1", "fc2", "fc3":
        assert split_of("pinned.json", name)[0]["out_feature"] == 8, name
    assert split_of("pinned.json", "conv1") == ({"sample": 4}, [12, 4, 8, 0])
    os.unlink("pinned.json")
    refuse(2, "expected PATTERN:dim=degree", *at, "--pin", "fc1")
    refuse(2, "expected PATTERN:dim=degree", *at, "--pin", "fc1:out_feature=2@")
    refuse(2, "no operator matches the pattern; did you mean fc1?", *at, "--pin", "fcc1:sample=2")
    refuse(2, "does not have these dims, only sample, out_feature, in_feature", *at, "--pin", "fc1:head=2")
    refuse(2, "there are 16 devices", *at, "--pin", "fc1:sample=4,out_feature=8")
    refuse(2, "makes no 16 parts", *at, "--pin", "conv5:height=16")
    refuse(2, "expected a device a part", *at, "--pin", "fc1:out_feature=4@0-7")
    refuse(2, "names device 16, there are 16", *at, "--pin", "fc1:out_feature=4@13-16")
    refuse(2, "pinned otherwise, too", *at, "--pin", "fc1:out_feature=4", "--pin", "fc*:out_feature=8")
    refuse(2, "rules out", *at, "--pin", "fc1:out_feature=16", "--tensor-inside-node")
    refuse(2, "only predicts", "alexnet.json", *BASE, "--simulate", "data-parallel", "--pin", "fc1:sample=2")
    refuse(3, "memory", *at, "--pin", "*:sample=1@0", "--memory", "200M")


def torch_map(path, batch=256, **members):
    """A map of alexnet by hand: what a module's export would say, were it the same."""
    nodes = [n for n in json.loads(read("alexnet.json"))["nodes"] if n["op"] != "input"]
    cuts = {"conv2d": {"out_channel": 64}, "linear": {"out_feature": 8, "in_feature": 4096}}
    operators = {n["name"]: {"module": "", "nodes": [n["name"]], "cuts": {"sample": batch, **cuts.get(n["op"], {})}}
                 for n in nodes}
    operators["relu1"]["nodes"] = ["conv1"]
    write(path, json.dumps({"format": "ffsoap-torch-map", "version": 1, "graph": "alexnet", "batch": batch,
                            "operators": operators, "parameters": {}, "inputs": {}, **members}))
    return operators


def test_torch_space():
    """Plans are what a mesh of all devices has, of dims that the map names; others are refused."""
    cuts = torch_map("map.json")
    torch = ["--space", "torch", "--map", "map.json"]
    at = ["alexnet.json", *BASE, "--proposals", "3000", "-o", "t.json", *torch]
    p = run(*at, "--top", "8", "--report", "r.json")
    report = conforms("r.json", "search-report")
    assert "Without --space torch" in p.stdout
    assert report["whole_space_us"] < report["predicted_us"] * 1.1  # found from the plan on
    plans = [f for f in os.listdir() if f.startswith("t.json")]
    assert len(plans) > 3
    for plan in map(json.loads, map(read, plans)):
        stages = {o.get("stage", 0) for o in plan["operators"] if o["name"] in cuts}
        for o in plan["operators"]:
            parts = o.get("replicas", 1)
            for dim, n in o.get("degrees", {}).items():
                micro = plan.get("micro_batches", 1) if dim == "sample" else 1
                assert n == 1 or cuts[o["name"]]["cuts"][dim] % (n * micro) == 0, o
                parts *= n
            assert o["name"] not in cuts or parts * len(stages) == 16, o
            assert o["name"] not in ("conv1", "relu1") or o.get("replicas", 1) == 1, o
    run(*at, "--pin", "fc1:out_feature=4")
    assert split_of("t.json", "fc1")[0]["out_feature"] == 4
    simulate = ["alexnet.json", *BASE, "--simulate"]
    run(*simulate, "t.json", *torch)
    run(*simulate, "data-parallel", *torch)
    for name in ["t.json"] + ["t.json.%d" % i for i in range(2, 9)]:
        if os.path.exists(name):
            os.unlink(name)
    run("alexnet.json", *BASE, "--proposals", "9", "--init", "data-parallel", "--pin", "conv1:height=2", "-o", "h.json")
    refuse(2, "operator conv1 cannot be so in PyTorch", *simulate, "h.json", *torch)
    run("alexnet.json", *BASE, "--proposals", "9", "--pin", "fc1:out_feature=16", "-o", "h.json")
    refuse(2, "operator fc1 cannot be so in PyTorch", *simulate, "h.json", *torch)
    run("alexnet.json", *BASE, "--proposals", "9", "--pin", "fc1:sample=8@0-7", "-o", "h.json")
    refuse(2, "operator fc1 cannot be so in PyTorch", *simulate, "h.json", *torch)
    refuse(2, "cannot be cut along height in PyTorch", *at, "--pin", "conv1:height=2")
    refuse(2, "cannot be split over 3 devices", *at, "--devices", "3")
    refuse(2, "expected --map FILE", *at[:-2])
    refuse(2, "expected --space torch", *at[:-4], "--map", "map.json")
    refuse(2, "--compress", *at, "--compress", "ternary")
    torch_map("map.json", graph="lenet")
    refuse(2, "it is the map of graph lenet", *at)
    torch_map("map.json", operators={})
    refuse(2, "operator conv1 of the graph is missing", *at)
    torch_map("map.json", operators={n: {"nodes": ["x"]} for n in cuts})
    refuse(2, "export again", *at)


def test_plans_are_gone_on_from():
    """A plan for other devices is a start, and what of it is not carried over is said in a line."""
    run("alexnet.json", *BASE, "--devices", "8", "--proposals", "2000", "-o", "eight.json", "--report", "r.json")
    eight = json.loads(read("r.json"))["predicted_us"]
    run("alexnet.json", *BASE, "--devices", "8", "--proposals", "1", "--init", "eight.json", "-o", "again.json", "--report", "r.json")
    report = conforms("r.json", "search-report")
    assert report["predicted_us"] <= eight and report["starts"] == ["eight.json"]
    p = run("lenet.json", *BASE, "--proposals", "1", "--init", "eight.json", "-o", "l.json")
    assert re.fullmatch(r"ffsearch: of eight.json, \d+ operators are split as there; [^\n]+\n", p.stderr), p.stderr
    run("alexnet.json", *BASE, "--proposals", "1", "--init", "eight.json", "-o", "more.json")
    refuse(2, "expected data-parallel", "alexnet.json", *BASE, "--proposals", "1", "--init", "nine.json", "-o", "x.json")
    refuse(2, "format", "alexnet.json", *BASE, "--proposals", "1", "--init", "alexnet.json", "-o", "x.json")


def test_top():
    """Other plans are of other shapes, fit, and take what is said of them."""
    p = run("alexnet.json", *BASE, "--proposals", "3000", "--top", "3", "-o", "top.json", "--report", "r.json")
    others = conforms("r.json", "search-report")["others_us"]
    assert len(others) == 2 and p.stdout.count("of another shape") == 2
    shapes = [[o.get("degrees") for o in json.loads(read(f))["operators"]] for f in ("top.json", "top.json.2", "top.json.3")]
    assert shapes[0] != shapes[1] != shapes[2] != shapes[0]
    for i, us in enumerate(others):
        run("alexnet.json", *BASE, "--simulate", "top.json.%d" % (i + 2), "--report", "r.json")
        assert json.loads(read("r.json"))["predicted_us"] == us
    refuse(2, "--top", "alexnet.json", *BASE, "--proposals", "9", "--top", "17", "-o", "x.json")


def test_best_by_hand():
    """A search is no worse than the best of the grid, which --simulate finds, names and writes, also one that has no
    time for all of the grid."""
    zoo("gpt2", "--batch", "32", "--set", "layers=3", "--set", "width=512", "--set", "heads=8", "--set", "sequence=64",
        "--set", "vocabulary=1000", "-o", "hand.json")
    at = ["hand.json", "--machine", "k80x64", "--devices", "4", "--costs", "peak", "--report", "r.json"]
    run(*at, "--simulate", "megatron", "-o", "hand.plan")
    best = conforms("r.json", "search-report")
    assert re.fullmatch(r"megatron:\d+,\d+,\d+,\d+[a-z0-9=,-]*", best["strategy"]), best["strategy"]
    assert best["predicted_us"] < 0.9 * best["data_parallel_us"], "the network is none that tells"
    for name in "hand.plan", best["strategy"]:
        run(*at, "--simulate", name)
        assert json.loads(read("r.json"))["predicted_us"] == best["predicted_us"], name
    run(*at, "--proposals", "3200", "--regular", "0", "-o", "found.plan")
    assert json.loads(read("r.json"))["predicted_us"] <= best["predicted_us"]
    refuse(3, "no strategy by hand fits", *at[:7], "--memory", "1M", "--simulate", "megatron", "-o", "x.json")


def test_seeds():
    """As many runs as asked for, whose bests are told; what goes on from the best is no worse."""
    for more, n in ((["--seeds", "5"], 5), (["--seeds", "2"], 2), ([], 1)):
        p = run("alexnet.json", *BASE, "--proposals", "3000", *more, "-o", "s.json", "--report", "r.json")
        report = conforms("r.json", "search-report")
        assert report["seeds"] == n, (report["seeds"], n)
        assert 0 < report["first_plan_s"] < 60, report["first_plan_s"]
        assert report["predicted_us"] <= report["best_seed_us"] <= report["worst_seed_us"]
        assert ("Best of %d seeds" % n in p.stdout) == (n > 1)
    refuse(2, "--seeds", "alexnet.json", *BASE, "--proposals", "9", "--seeds", "0", "-o", "x.json")
    refuse(2, "each of those is a seed", "alexnet.json", *BASE, "--proposals", "9", "--seeds", "2", "--jobs", "2", "-o", "x.json")


def test_regular():
    """What equal layers cost that are alike is within what was said, and is told."""
    zoo("gpt2", "--batch", "32", "--set", "layers=4", "--set", "width=256", "--set", "heads=4", "--set", "sequence=128",
        "--set", "vocabulary=1000", "-o", "layers.json")
    at = ["layers.json", "--machine", "a100x256", "--devices", "8", "--costs", "peak", "--proposals", "2000", "-o", "l.plan",
          "--report", "r.json"]
    run(*at, "--regular", "0")
    ragged = conforms("r.json", "search-report")
    assert "irregular_us" not in ragged
    p = run(*at, "--regular", "20")
    alike = conforms("r.json", "search-report")
    assert alike["irregular"] < ragged["irregular"], (alike["irregular"], ragged["irregular"])
    assert alike["predicted_us"] <= 1.2 * alike["irregular_us"] and "Equal layers were made alike" in p.stdout
    refuse(2, "--regular", "layers.json", *at[1:5], "--proposals", "9", "--costs", "peak", "--regular", "-1", "-o", "x.json")


def test_reserve():
    """Searches leave memory free, unless nothing else fits, which is said; what is given is simulated as it is."""
    at = ["alexnet.json", *BASE, "--proposals", "1500", "-o", "free.json", "--report", "r.json"]
    run("alexnet.json", *BASE, "--simulate", "data-parallel", "--report", "dp.json")
    need = max(json.loads(read("dp.json"))["memory_bytes"])
    run(*at, "--memory", str(need), "--reserve", "30")
    report = conforms("r.json", "search-report")
    assert max(report["memory_bytes"]) <= 0.7 * need and not report["data_parallel_fits"] and not report["reserve_used"]
    run("alexnet.json", *BASE, "--memory", str(need), "--simulate", "data-parallel")
    run("alexnet.json", *BASE, "--simulate", "frugal", "--report", "r.json")
    least = max(json.loads(read("r.json"))["memory_bytes"])
    # weights, gradients and states alone take more than a tenth of it on each of 16 devices
    p = run(*at, "--memory", str(least // 2), "--reserve", "90")
    report = conforms("r.json", "search-report")
    assert report["reserve_used"] and "needs what was to stay free" in p.stdout
    refuse(2, "--reserve", "alexnet.json", *BASE, "--proposals", "9", "--reserve", "100", "-o", "x.json")
    # a walk that finds nothing leaves the best of what it is compared with
    run("alexnet.json", *BASE, "--proposals", "1", "--init", "single", "--memory", str(need), "--reserve", "0", "-o",
        "free.json", "--report", "r.json")
    report = conforms("r.json", "search-report")
    best = min(b["predicted_us"] for b in report["baselines"] if b["fits"])
    assert report["predicted_us"] == best <= report["data_parallel_us"] and report["seeds"] == 0


def test_a_reader_that_leaves():
    """ffsearch ... | head loses no plan."""
    p = subprocess.Popen([FFSEARCH, "alexnet.json", *BASE, "--proposals", "50", "-o", "left.json"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.close()
    p.stderr.read()
    assert p.wait() >= 0 and json.loads(read("left.json"))["operators"]


def test_more_tasks_than_memory_are_refused():
    """In a sentence, before they are made."""
    with open(FFSEARCH, "rb") as f:
        if b"__asan_init" in f.read():
            return  # sanitizers take more address space than any limit
    zoo("gpt2", "--batch", "32768", "--set", "layers=2", "-o", "lots.json")
    limit = 350 << 20
    p = subprocess.run([FFSEARCH, "lots.json", "--machine", "a100x256", "--costs", "peak", "--simulate",
                        "megatron:1,64,4,128"], capture_output=True, text=True, timeout=120,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert p.returncode == 1 and re.fullmatch(r"ffsearch: [^\n]*million tasks[^\n]*GiB of memory[^\n]*\n", p.stderr), (
        p.returncode, p.stderr)


def test_help():
    assert "--budget" in run("--help").stdout


def main():
    zoo("alexnet", "--batch", "256", "-o", "alexnet.json")
    zoo("inception_v3", "--batch", "2048", "--set", "norm=none", "-o", "inception.json")
    zoo("lenet", "--batch", "64", "-o", "lenet.json")
    zoo("mlp", "--batch", "65536", "--set", "hidden=16", "-o", "light.json")
    tests = [(n, f) for n, f in globals().items() if n.startswith("test_")]
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


sys.exit(main())
