#!/usr/bin/env python3
# ffsearch from the outside: where searches begin, and what they are no worse than.  Prints TAP.
# SPDX-License-Identifier: Apache-2.0
"""usage: test_ffsearch_starts.py FFSEARCH FFZOO SCHEMA_FOLDER"""
import json
import re
import sys

from searched import BASE, SHARE, conforms, main, of_plans, read, refuse, run, write, zoo


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


def test_plans_keep_their_order_and_rewrites():
    """The same graph and machine: nothing of a plan is lost, and however regular the plan is to be, it is no slower."""
    zoo("branchnet", "--batch", "64", "-o", "branches.json")
    for graph, search, holds in (
            ("branches.json", ["--proposals", "8000", "--regular", "0"],
             lambda plan: any("priority" in operator for operator in plan["operators"])),
            ("branches.json", ["--proposals", "1500", "--rewrite", "all"], lambda plan: plan["rewrites"])):
        run(graph, *BASE, *search, "-o", "there.json")
        there = json.loads(read("there.json"))
        assert holds(there), "the plan shows nothing"
        for regular in "0", "50":
            run(graph, *BASE, "--proposals", "1", "--regular", regular, "--init", "there.json", "-o", "here.json")
            here = json.loads(read("here.json"))
            assert here["predicted_us"] <= there["predicted_us"], (search, regular)
            assert here.get("rewrites") == there.get("rewrites"), (search, regular)


def test_plans_keep_their_micro_batches():
    """Of a batch of 48 searches propose 2, 4, 8, 16 and 48; a plan by hand may have 12."""
    zoo("gpt2", "--batch", "48", "--set", "layers=4", "--set", "sequence=128", "-o", "net.json")
    run("net.json", *BASE, "--simulate", "megatron:1,4,4,12", "-o", "there.json")
    p = run("net.json", *BASE, "--proposals", "1", "--regular", "0", "--init", "there.json", "-o", "here.json")
    there, here = json.loads(read("there.json")), json.loads(read("here.json"))
    assert there["micro_batches"] == 12 and here["predicted_us"] <= there["predicted_us"]
    assert not p.stderr, p.stderr  # 12 would be 8


@of_plans
def test_one_node_is_looked_at():
    """Over a network of 1 Gbit/s nothing is as fast as one node by itself, and no walk leads there in so few steps."""
    zoo("gpt2", "--batch", "32", "--set", "layers=2", "--set", "sequence=128", "-o", "net.json")
    kind = {"name": "A100-80GB", "backend": "cuda", "flops_per_s": 19.5e12, "memory_bytes_per_s": 2039e9,
            "memory_bytes": 8 * 10**10}
    node = {"devices": 8, "kind": "A100-80GB", "inside": {"latency_us": 5, "bytes_per_s": 300e9},
            "network": {"latency_us": 8, "bytes_per_s": 125e6}}
    write("slow.json", json.dumps({"format": "ffsoap-machine", "version": 1, "name": "slow", "overlap": True,
                                   "kinds": [kind], "nodes": [node]}))
    run("net.json", "--machine", "slow.json", "--costs", "analytic", "--simulate", "data-parallel", "--report",
        "one.json")
    run("net.json", "--machine", "slow.json:8", "--costs", "analytic", "--proposals", "50", "--regular", "0", "-o",
        "plan.json")
    one, plan = json.loads(read("one.json")), json.loads(read("plan.json"))
    assert plan["predicted_us"] <= one["predicted_us"], (plan["predicted_us"], one["predicted_us"])


def make_mixed():
    """Two slow nodes and behind them a fast one, and this alone."""
    kinds = [{"name": name, "backend": "cuda", "flops_per_s": f, "memory_bytes_per_s": b, "memory_bytes": 3 * 10**10}
             for name, f, b in (("V100-32GB", 15.7e12, 900e9), ("H100-80GB", 67e12, 3352e9))]
    old, new = ({"devices": n, "kind": kind["name"], "inside": {"latency_us": 5, "bytes_per_s": 150e9},
                 "network": {"latency_us": 8, "bytes_per_s": 125e6}} for n, kind in zip((4, 6), kinds))
    for name, nodes in (("behind", [old, old, new]), ("one", [new])):
        write(name + ".json", json.dumps({"format": "ffsoap-machine", "version": 1, "name": name, "overlap": True,
                                          "kinds": kinds, "nodes": nodes}))


@of_plans
def test_the_fastest_node_is_looked_at():
    """Wherever it stands: no plan is slower than data parallelism on it alone."""
    zoo("gpt2", "--batch", "30", "--set", "layers=2", "--set", "sequence=128", "-o", "net.json")
    make_mixed()
    run("net.json", "--machine", "one.json", "--costs", "analytic", "--simulate", "data-parallel", "--report",
        "one.report")
    run("net.json", "--machine", "behind.json", "--costs", "analytic", "--proposals", "50", "--regular", "0", "-o",
        "plan.json")
    one, plan = json.loads(read("one.report")), json.loads(read("plan.json"))
    assert plan["predicted_us"] <= one["predicted_us"], (plan["predicted_us"], one["predicted_us"])


@of_plans
def test_branches_are_tried_on_the_fastest_node():
    """Wherever it stands: a search finds what it finds on that node alone."""
    zoo("branchnet", "--batch", "48", "-o", "net.json")
    make_mixed()
    found = []
    for machine in "one.json", "behind.json":
        run("net.json", "--machine", machine, "--costs", "analytic", "--proposals", "60", "--regular", "0", "-o",
            "plan.json")
        found.append(json.loads(read("plan.json"))["predicted_us"])
    assert found[1] <= found[0], found


@of_plans
def test_updates_cut_within_nodes_are_looked_at():
    """Where memory is plenty, too: over a network of 25 Gbit/s they are the fastest that is easily said."""
    zoo("rnnlm", "--batch", "1024", "-o", "lm.json")
    kind = {"name": "V100-32GB", "backend": "cuda", "flops_per_s": 15.7e12, "memory_bytes_per_s": 900e9,
            "memory_bytes": 33 * 10**9}
    node = {"devices": 8, "kind": "V100-32GB", "inside": {"latency_us": 5, "bytes_per_s": 25e9},
            "network": {"latency_us": 20, "bytes_per_s": 3.125e9}}
    write("thin.json", json.dumps({"format": "ffsoap-machine", "version": 1, "name": "thin", "overlap": True,
                                   "kinds": [kind], "nodes": [node]}))
    at = ["lm.json", "--machine", "thin.json:2", "--costs", "analytic", "--optimizer", "sgd", "-o", "plan.json"]
    run(*at, "--simulate", "zero-1-hybrid", "--report", "hybrid.json")
    hybrid = json.loads(read("hybrid.json"))["predicted_us"]
    for starts in ([], ["--init", "data-parallel", "--init", "zero-1-hybrid"]):
        run(*at, "--proposals", "20", "--regular", "0", *starts)
        assert json.loads(read("plan.json"))["predicted_us"] <= hybrid, starts


@of_plans
def test_starts_on_fewer_devices():
    """A batch that is mostly launches and messages: one of three nodes is faster than all, if its devices share
    products, and a search that has time for few proposals begins there."""
    zoo("mlp", "--batch", "48", "-o", "small.json")
    run("small.json", "--machine", "dgx-a100-40:1", "--costs", "analytic", "--simulate", "megatron:8,1,1,1,zero-1",
        "--report", "r.json")
    node = json.loads(read("r.json"))["predicted_us"]
    for seed in (0, 1)[::SHARE]:
        run("small.json", "--machine", "dgx-a100-40:3", "--costs", "analytic", "--proposals", "20", "--seed", str(seed),
            "-o", "plan.json")
        assert json.loads(read("plan.json"))["predicted_us"] <= node, seed


def test_branches_side_by_side():
    """A short search of a small batch has branches on groups of devices of their own."""
    zoo("branchnet", "--batch", "64", "-o", "b.json")
    run("b.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--proposals", "20", "-o", "plan.json",
        "--report", "r.json")
    report = json.loads(read("r.json"))
    assert report["predicted_us"] < 0.9 * report["data_parallel_us"], report["predicted_us"]


def write_a100(path, nodes, devices, inside, network):
    """A machine of so many nodes of so many A100 each."""
    kind = {"name": "A100-80GB", "backend": "cuda", "flops_per_s": 19.5e12, "bfloat16_flops_per_s": 312e12,
            "memory_bytes_per_s": 2039e9, "memory_bytes": 80000000000}
    node = {"devices": devices, "kind": kind["name"], "inside": inside, "network": network}
    write(path, json.dumps({"format": "ffsoap-machine", "version": 1, "name": "slow", "overlap": True, "kinds": [kind],
                            "nodes": [node] * nodes}))


@of_plans
def test_starts_on_two_nodes():
    """Over a slow network a sum among two nodes costs less than among four, and one node alone computes too long."""
    zoo("gpt2", "--batch", "256", "--set", "dtype=bfloat16", "-o", "slow.json")
    write_a100("slow-machine.json", 4, 4, {"latency_us": 5, "bytes_per_s": 300e9, "interconnect": "nvswitch-3"},
               {"latency_us": 8, "bytes_per_s": 2.5e9, "interconnect": "ethernet", "cards": 1})
    at = ["slow.json", "--costs", "analytic", "--optimizer", "adamw", "--report", "r.json"]
    alone = {}
    for nodes in 1, 2, 4:
        run(*at, "--machine", f"slow-machine.json:{nodes}", "--simulate", "data-parallel")
        alone[nodes] = json.loads(read("r.json"))["predicted_us"]
    assert alone[2] < min(alone[1], alone[4]), alone
    run(*at, "--machine", "slow-machine.json", "--proposals", "20", "-o", "plan.json")
    assert json.loads(read("plan.json"))["predicted_us"] <= alone[2], alone


def test_pipelines_of_any_divisor():
    """On six devices three stages are a start, not only two and four."""
    zoo("nmt", "--batch", "500", "-o", "nmt.json")
    write_a100("six.json", 3, 2, {"latency_us": 5, "bytes_per_s": 300e9, "interconnect": "nvswitch-3"},
               {"latency_us": 8, "bytes_per_s": 2.5e9, "interconnect": "ethernet", "cards": 1})
    at = ["nmt.json", "--machine", "six.json", "--costs", "analytic", "--report", "r.json"]
    steps = {}
    for stages in 2, 3, 4:
        run(*at, "--simulate", f"pipeline-{stages}")
        steps[stages] = json.loads(read("r.json"))["predicted_us"]
    assert steps[3] < min(steps[2], steps[4]), steps
    run(*at, "--init", "pipeline", "--proposals", "1", "-o", "plan.json")
    assert json.loads(read("plan.json"))["predicted_us"] <= steps[3], steps


@of_plans
def test_grid_of_twelve():
    """Of 12 devices only a third share a batch of 64: strategies by hand begin with three stages or more."""
    zoo("moe", "--batch", "64", "--set", "layers=3", "--set", "dtype=bfloat16", "--set", "sequence=512", "-o", "moe.json")
    write_a100("twelve.json", 2, 6, {"latency_us": 10, "bytes_per_s": 12e9, "interconnect": "pcie-4"},
               {"latency_us": 8, "bytes_per_s": 12.5e9, "interconnect": "infiniband", "cards": 1})
    at = ["moe.json", "--machine", "twelve.json", "--costs", "analytic", "--optimizer", "adamw", "--report", "r.json"]
    run(*at, "--simulate", "megatron:1,4,3,2,experts,zero-1")
    by_hand = json.loads(read("r.json"))["predicted_us"]
    run(*at, "--proposals", "4000", "-o", "plan.json")
    assert json.loads(read("plan.json"))["predicted_us"] <= by_hand, by_hand


def test_grid_shares_places():
    """Two long sequences on eight devices of a node: the best by hand cuts places, in all layers."""
    zoo("bert", "--batch", "2", "--set", "layers=4", "--set", "width=1024", "--set", "heads=2", "--set", "sequence=4096",
        "--set", "vocabulary=1000", "--set", "dtype=bfloat16", "-o", "long.json")
    at = ["long.json", "--machine", "dgx-h100", "--costs", "analytic", "--optimizer", "adamw", "--report", "r.json"]
    steps = {}
    for name in "megatron", "megatron:1,1,1,1,cp=8,zero-1", "megatron:2,2,2,1,zero-1":
        run(*at, "--simulate", name)
        report = json.loads(read("r.json"))
        steps[report["strategy"] if name == "megatron" else name] = report["predicted_us"]
    best = min(steps, key=steps.get)
    assert len(steps) == 2 and "cp=8" in best, steps


@of_plans
def test_what_is_found_can_be_written():
    """Memory is so tight that parameters are gathered again, those too that a search would leave where they are read:
    no file says that, and what it does say does not fit, so that the search had nothing in the end."""
    zoo("moe", "--batch", "100", "--set", "layers=3", "--set", "dtype=bfloat16", "-o", "tight.json")
    write_a100("four.json", 2, 2, {"latency_us": 5, "bytes_per_s": 50e9}, {"latency_us": 20, "bytes_per_s": 2.5e9})
    at = ["tight.json", "--machine", "four.json", "--costs", "analytic", "--optimizer", "adamw", "--report", "r.json"]
    run(*at, "--simulate", "megatron:2,1,2,4,sequence,experts,zero-3,recompute,zb-h1")
    by_hand = json.loads(read("r.json"))["predicted_us"]
    for seed in (0, 1, 2)[::SHARE]:
        run(*at, "--proposals", "3000", "--seed", str(seed), "-o", "plan.json")
        assert json.loads(read("plan.json"))["predicted_us"] <= by_hand, (seed, by_hand)


@of_plans
def test_elimination_is_seen_at_its_best():
    """Its buckets are tuned, as those of other starts are: else another one is taken for better."""
    zoo("alexnet", "--batch", "128", "--set", "image=96", "-o", "a.json")
    at = ["a.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--regular", "0", "-o", "plan.json"]
    run(*at, "--proposals", "1", "--init", "elimination")
    alone = json.loads(read("plan.json"))["predicted_us"]
    run(*at, "--proposals", "1")
    assert json.loads(read("plan.json"))["predicted_us"] <= alone, alone


@of_plans
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
    # its buckets are tuned from the preset ones on, as --simulate does, and from those of the baseline on
    zoo("moe", "--batch", "24", "--set", "layers=3", "--set", "dtype=bfloat16", "-o", "moe.json")
    experts = ["moe.json", "--machine", "dgx-h100:3", "--costs", "analytic", "--by-nodes", "--optimizer", "adamw",
               "--report", "r.json"]
    run(*experts, "--simulate", "megatron:1,24,1,1,experts,zero-1")
    best = json.loads(read("r.json"))
    run(*experts, "--proposals", "1", "--regular", "0", "-o", "found.plan")
    assert json.loads(read("r.json"))["predicted_us"] <= best["predicted_us"]
    # where there is none at all
    zoo("mlp", "--batch", "1", "--set", "layers=0", "--set", "classes=3", "-o", "one.json")
    refuse(3, "of those that there are of graph mlp on 4 devices", "one.json", *at[1:7], "--simulate", "megatron", "-o",
           "x.json")


sys.exit(main(globals()))
