#!/usr/bin/env python3
# ffsearch from the outside: optimizers, buckets and gradients; what fits in memory.  Prints TAP.
# SPDX-License-Identifier: Apache-2.0
"""usage: test_ffsearch_memory.py FFSEARCH FFZOO SCHEMA_FOLDER"""
import json
import os
import re
import resource
import sys

from searched import BASE, SHARE, conforms, main, of_plans, read, refuse, run, write, write_costs, zoo


def test_phases_are_searched():
    """Memory that data parallelism does not fit in: micro-batches, values recomputed."""
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


@of_plans
def test_tables_begin_a_search():
    """Tables that fit no device: a search is no worse, however short, than the best number of columns, any seed."""
    zoo("dlrm_terabyte", "--batch", "16384", "-o", "tables.json")
    at = ["tables.json", "--machine", "dgx-a100-40:8", "--costs", "analytic", "--optimizer", "sgd"]
    least = float("inf")
    for name in ("tables-64", "tables-32", "tables-32,replicas", "tables-1")[::SHARE]:
        run(*at, "--simulate", name, "--report", "r.json")
        report = conforms("r.json", "search-report")
        assert report["fits"], name
        least = min(least, report["predicted_us"])
    for seed in (0, 1)[::SHARE]:
        run(*at, "--proposals", "20", "--seed", str(seed), "-o", "plan.json", "--report", "r.json")
        report = conforms("r.json", "search-report")
        assert report["predicted_us"] <= 1.0001 * least, (seed, report["predicted_us"], least)
    # a search that has time for little else: what waits for no table is beside the tables
    zoo("dlrm_terabyte", "--batch", "2048", "-o", "few.json")
    few = ["few.json", "--machine", "dgx-h100:1", "--costs", "analytic", "--optimizer", "sgd"]
    run(*few, "--simulate", "tables-4,apart", "--report", "r.json")
    apart = json.loads(read("r.json"))["predicted_us"]
    run(*few, "--proposals", "20", "-o", "plan.json", "--report", "r.json")
    assert json.loads(read("r.json"))["predicted_us"] <= 1.0001 * apart
    run(*few, "--proposals", "20", "--no-pipeline", "-o", "plan.json")
    assert not any(op.get("stage") for op in json.loads(read("plan.json"))["operators"])
    refuse(2, "tables-128: expected a divisor of the 64 devices", *at, "--simulate", "tables-128")
    refuse(2, "all 64 devices have columns of their own", *at, "--simulate", "tables-64,replicas")
    refuse(2, "the space has no replicas", *at, "--space", "none", "--proposals", "1", "--init", "tables-8,replicas",
           "-o", "x.json")
    refuse(2, "option --init: tables-3", *at, "--proposals", "1", "--init", "tables-3", "-o", "x.json")
    # few of what alexnet trains are looked up: none
    refuse(2, "alexnet looks up no tables", "alexnet.json", *BASE, "--simulate", "tables-2")
    run("alexnet.json", *BASE, "--proposals", "1", "--init", "tables", "-o", "plan.json")


@of_plans
def test_zero_1_costs_what_data_parallelism_does():
    """The same bytes, in as many messages, and updates as many times shorter as there are devices."""
    zoo("gpt2", "--batch", "64", "--set", "layers=4", "--set", "dtype=bfloat16", "-o", "gpt.json")
    for devices in (16, 64)[::SHARE]:
        run("gpt.json", "--machine", "a100x256", "--devices", str(devices), "--costs", "peak", "--optimizer",
            "adamw", "--simulate", "zero-1", "-o", "flat.json", "--report", "r.json")
        report, plan = json.loads(read("r.json")), json.loads(read("flat.json"))
        assert report["predicted_us"] < 1.05 * report["data_parallel_us"], report["speedup"]
        assert report["comm_bytes"] < report["data_parallel_comm_bytes"], "bfloat16 weights are gathered as such"
        assert max(report["memory_bytes"]) < max(report["data_parallel_memory_bytes"])
        assert report["updated_flat"] == sum(o.get("update") == "flat" for o in plan["operators"]) > 10
        conforms("flat.json", "strategy")
        conforms("r.json", "search-report")


@of_plans
def test_zero_3_costs_one_half_more():
    """Weights are gathered twice, in as few messages; and no device has more of them than a few buckets."""
    zoo("gpt2", "--batch", "64", "--set", "layers=8", "--set", "width=512", "--set", "heads=8", "--set", "sequence=128",
        "--set", "dtype=bfloat16", "-o", "gpt3.json")
    took = {}
    for name in ("data-parallel", "zero-1", "zero-2", "zero-3"):
        run("gpt3.json", "--machine", "a100x256", "--devices", "64", "--costs", "peak", "--optimizer", "adamw",
            "--simulate", name, "--report", "r.json")
        took[name] = json.loads(read("r.json"))
    data, one, two, three = took.values()
    assert three["predicted_us"] < 1.6 * data["predicted_us"], three["speedup"]
    assert one["comm_bytes"] < three["comm_bytes"] < 1.1 * data["comm_bytes"], "bfloat16 is gathered"
    assert three["dropped"] == three["updated_flat"] > one["dropped"] == 0
    assert two["comm_bytes"] == one["comm_bytes"], "in one micro-batch"
    assert [r["scattered"] for r in took.values()] == [False, False, True, False]
    assert max(two["memory_bytes"]) < max(one["memory_bytes"])
    assert max(three["memory_bytes"]) < max(one["memory_bytes"]) < max(data["memory_bytes"])


@of_plans
def test_no_plain_start_is_better():
    """However short the search: each is looked at with buckets of its own before any is walked."""
    zoo("gpt2", "--batch", "64", "--set", "layers=2", "--set", "dtype=bfloat16", "-o", "gpt.json")
    search = ["gpt.json", "--machine", "a100x256", "--devices", "64", "--costs", "peak", "--optimizer", "adamw"]
    run(*search, "--proposals", "20", "--report", "r.json", "-o", "x.json")
    found = json.loads(read("r.json"))["predicted_us"]
    for name in ("data-parallel", "expert", "single", "zero-1")[::SHARE]:
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


@of_plans
def test_sizes_of_buckets_that_are_no_better_do_not_end_the_tuning():
    """On 256 devices buckets of 50 MiB are no better than of 25, of 200 they are; of zero-1 on 64 neither of 100 nor
    200 than of 50, of 400 they are."""
    zoo("mlp", "--batch", "128", "-o", "wide.json")
    at = ["wide.json", "--machine", "a100x256", "--costs", "peak", "--report", "r.json"]
    run(*at, "--simulate", "data-parallel", "-o", "dp.json")
    tuned, plan = json.loads(read("r.json")), json.loads(read("dp.json"))
    for times in (1, 2, 4, 8, 16)[::SHARE]:
        plan["bucket_bytes"] = plan["data_parallel_bucket_bytes"] = times * (25 << 20)
        write("other.json", json.dumps(plan))
        run(*at, "--simulate", "other.json")
        assert 1.01 * json.loads(read("r.json"))["predicted_us"] > tuned["predicted_us"], times
    if SHARE > 1:
        return
    zoo("gpt2_xl", "--batch", "128", "--set", "dtype=bfloat16", "-o", "xl.json")
    at = ["xl.json", "--machine", "dgx-a100-40:8", "--costs", "analytic", "--optimizer", "adamw", "--report", "r.json"]
    run(*at, "--simulate", "zero-1", "-o", "z1.json")
    tuned, plan = json.loads(read("r.json")), json.loads(read("z1.json"))
    write("other.json", json.dumps(dict(plan, bucket_bytes=400 << 20)))
    run(*at, "--simulate", "other.json")
    assert 1.01 * json.loads(read("r.json"))["predicted_us"] > tuned["predicted_us"], tuned["predicted_us"]


def test_many_buffers():
    """Four times as many micro-batches take some times as long to lay out in memory, not sixteen times."""
    zoo("gpt2", "--set", "layers=24", "--set", "width=64", "--set", "heads=2", "--set", "sequence=16", "--set",
        "vocabulary=100", "--batch", "1024", "-o", "many.json")

    def spent_s(micro_batches):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        run("many.json", "--machine", "dgx-a100-40", "--costs", "peak", "--optimizer", "adamw", "--simulate",
            "megatron:1,8,1,%d,zero-3,recompute" % micro_batches)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    few, many = spent_s(32), spent_s(128)
    assert many < 4.5 * few, "%g s for %g" % (many, few)


def test_tells_what_lacks():
    """Where nothing fits what comes closest is not lowered, which may take longer than the search: bytes are told."""
    run("alexnet.json", *BASE, "--simulate", "frugal", "--report", "r.json")
    frugal = sum(conforms("r.json", "search-report")["memory_bytes"]) / 2**20
    for memory in "40M", "30M":
        p = refuse(3, "no strategy that fits in memory was found in 64 proposals", "alexnet.json", *BASE, "--memory",
                   memory, "--proposals", "64", "--init", "frugal", "--init", "zero-3", "-o", "x.json")
        lacks = float(re.search(r"the closest lacks ([0-9.]+) MiB, on all devices together", p.stderr).group(1))
        assert 0 < lacks < frugal, p.stderr


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
                          ({"order": "2f2b"},
                           'odd.json: order: expected "gpipe", "1f1b", "interleaved", "zb-h1" or "zb-v"'),
                          ({"chunks": 2}, 'odd.json: chunks: expected the order "interleaved" beside it'),
                          ({"order": "interleaved", "chunks": 1}, "odd.json: chunks: expected"),
                          ({"ticks": [1, 2]}, "odd.json: ticks: expected three integers from 1 to 16"),
                          ({"ticks": [1, 2.5, 3]}, "odd.json: ticks: expected three integers from 1 to 16"),
                          ({"ticks": [0, 2, 17]}, "odd.json: ticks: expected three integers from 1 to 16")):
        write("odd.json", json.dumps(dict(plan, **change)))
        refuse(2, words, "alexnet.json", *BASE, "--simulate", "odd.json")
    for change, words in (({"stage": 9}, "is in stage 9, but"), ({"stage": -1}, "expected"),
                          ({"recompute": 1}, "expected true or false")):
        entries = [dict(op, **(change if i == 0 else {})) for i, op in enumerate(plan["operators"])]
        write("odd.json", json.dumps(dict(plan, operators=entries)))
        refuse(2, words, "alexnet.json", *BASE, "--simulate", "odd.json")


def test_memory_limit():
    run("alexnet.json", *BASE, "--simulate", "data-parallel", "--report", "dp.json")
    need = max(json.loads(read("dp.json"))["memory_bytes"])
    p = run("alexnet.json", *BASE, "--proposals", "3000", "--memory", str(need - 1), "-o",
            "tight.json", "--report", "tight-report.json")
    report = conforms("tight-report.json", "search-report")
    assert max(report["memory_bytes"]) < need
    assert report["fits"] and not report["data_parallel_fits"]
    assert "Data parallelism does not fit" in p.stdout


STATES = {"sgd": 0, "momentum": 1, "nesterov": 1, "adam": 2, "adamw": 2}


def test_kept_of_equal_devices():
    """Where memory is so tight that it is laid out, and equal devices are written once, what batch norms keep on all
    has room."""
    zoo("resnet50", "--batch", "128", "--set", "image=32", "--set", "norm_group=2", "-o", "norms.json")
    many = ("norms.json", "--machine", "k80x64", "--costs", "peak", "--simulate", "data-parallel", "--report", "r.json")
    run(*many)
    most = max(conforms("r.json", "search-report")["memory_bytes"])
    run(*many, "--memory", str(most))
    assert max(conforms("r.json", "search-report")["memory_bytes"]) <= most


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
    for slower in (64, 16, 4, 1)[::SHARE]:
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
    # plans that leave the preset reserve free may be slow, where no data parallelism does
    zoo("gpt2", "--batch", "48", "--set", "layers=4", "--set", "dtype=bfloat16", "-o", "tight-gpt.json")
    tight = ["tight-gpt.json", "--machine", "dgx-h100:1", "--costs", "analytic", "--optimizer", "adamw"]
    run(*tight, "--simulate", "megatron:1,8,1,2,zero-3,recompute", "--report", "r.json")
    limit = int(1.04 * max(json.loads(read("r.json"))["memory_bytes"]))
    run(*tight, "--memory", str(limit), "--simulate", "megatron:1,8,1,2,zero-2,recompute=light,recompute=3", "--report",
        "r.json")
    hand = json.loads(read("r.json"))["predicted_us"]
    for more in ([], ["--reserve", "0"]):
        p = run(*tight, "--memory", str(limit), *more, "--proposals", "100", "-o", "free.json", "--report", "r.json")
        report = conforms("r.json", "search-report")
        assert report["predicted_us"] <= 1.01 * hand, report["predicted_us"] / hand
        assert report["data_parallel_us"] <= 1.0001 * hand, "of data parallelism that fits"
        assert report["reserve_used"] == ("that leaves 5 % of memory free" in p.stdout) == (not more)
    run(*tight, "--memory", str(limit), "--reserve", "5", "--proposals", "100", "-o", "free.json", "--report", "r.json")
    report = conforms("r.json", "search-report")
    assert max(report["memory_bytes"]) <= 0.95 * limit and not report["reserve_used"]
    # a walk that finds nothing leaves the best of what it is compared with
    run("alexnet.json", *BASE, "--proposals", "1", "--init", "single", "--memory", str(need), "--reserve", "0", "-o",
        "free.json", "--report", "r.json")
    report = conforms("r.json", "search-report")
    best = min(b["predicted_us"] for b in report["baselines"] if b["fits"])
    assert report["predicted_us"] == best <= report["data_parallel_us"] and report["seeds"] == 0


sys.exit(main(globals()))
