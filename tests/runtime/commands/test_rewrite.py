# Rewritten graphs compute what the graph before computes: loss, gradients, updated weights, under the
# names of the graph before, whatever is random; and every tool that reads a plan rewrites or refuses.
# Usage: test_rewrite.py FFZOO FFRUN FFSEARCH FFPLAN FFCHECK FFPROF.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffrun, ffsearch, ffplan, ffcheck, ffprof = (os.path.abspath(p) for p in sys.argv[1:7])
seed = int(os.environ.get("FF_SEED", "1"))
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
draw = random.Random(seed)
print(f"# seed {seed} (set FF_SEED to repeat or vary)", flush=True)

# Sums in another order, of numbers below the largest: a few roundings of float32.
MOST = 1e-6

NETWORKS = {
    "gpt2": ["layers=2", "width=48", "heads=4", "sequence=12", "vocabulary=60", "dropout=10"],
    "bert": ["layers=1", "width=32", "heads=4", "sequence=10", "vocabulary=50"],
    "llama": ["layers=1", "width=32", "heads=4", "key_heads=2", "sequence=10", "vocabulary=50", "hidden=40"],
    "vit_b16": ["layers=1", "width=32", "heads=4", "image=32", "classes=7"],
    "googlenet": ["image=32", "classes=7", "norm=none", "dropout=0"],
}


def run(*command, status=0):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode != status:
        say(False, f"exit status {status}", f"{command}: {done.returncode}: {done.stderr}")
    return done


def tensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    header.pop("__metadata__", None)
    return {k: (v["shape"], struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f",
                                          body[slice(*v["data_offsets"])]))
            for k, v in header.items() if v["dtype"] == "F32"}


def apart(a, b, prefix):
    """The greatest difference of what is called so, as a share of the largest element of all."""
    names = [k for k in b if k.startswith(prefix)]
    largest = max(max(map(abs, b[k][1])) for k in names)
    return max(max(abs(x - y) for x, y in zip(a[k][1], b[k][1])) for k in names) / largest


def step(folder, graph, plan, name, *more):
    dump, save = folder / f"{name}.dump", folder / f"{name}.weights"
    run(ffrun, graph, plan, "--data", "synthetic:16", "--steps", 1, "--dump", dump, "--save", save, "--rate", 0.1,
        *more)
    return tensors(dump), tensors(save)


def rewritten_plan(graph, plan, *more):
    run(ffsearch, graph, "--machine", "cpu2", "--costs", "peak", "--rewrite", "all", "--simulate", "data-parallel",
        "-o", plan, *more)
    return json.loads(plan.read_text())["rewrites"]


def compare(folder, graph, name, *more):
    """One device and the graph before; two and the rewritten one."""
    plan = folder / "plan.json"
    rewrites = rewritten_plan(graph, plan)
    (before, trained), (after, retrained) = (step(folder, graph, p, n, *more)
                                             for p, n in (("single", "before"), (plan, "after")))
    shapes = {k: v[0] for k, v in before.items()} == {k: v[0] for k, v in after.items()}
    far = [apart(after, before, "loss"), apart(after, before, "grad."), apart(retrained, trained, "")]
    say(shapes and max(far) <= MOST, f"{name}: {len(rewrites)} rewrites; loss, gradients, weights",
        f"{far}, {rewrites}")


def random_graph():
    """Products of one value, of several sizes, with and without biases, some merged, some not."""
    nodes = [{"name": "x", "op": "input", "shape": [4, draw.randint(2, 5), 6, 6]},
             {"name": "t", "op": "input", "shape": [4], "dtype": "int32", "classes": 5}]
    images = ["x"]
    for i in range(draw.randint(1, 3)):
        read, kernel, bias = draw.choice(images), draw.choice([1, 3]), draw.random() < 0.5
        equal, made = draw.random() < 0.5, []
        for k in range(draw.randint(2, 4)):
            node = {"name": f"conv{i}.{k}", "op": "conv2d", "in": [read], "kernel": [kernel, kernel],
                    "out_channels": 3 if equal else draw.randint(1, 5), "pad": kernel // 2, "bias": bias}
            nodes += [node, {"name": f"act{i}.{k}", "op": draw.choice(["relu", "tanh"]), "in": [node["name"]]}]
            made.append(f"act{i}.{k}")
        nodes.append({"name": f"join{i}", "op": "concat", "in": made})
        images.append(f"join{i}")
    nodes.append({"name": "all", "op": "concat", "in": images} if len(images) > 1 else
                 {"name": "all", "op": "relu", "in": images})
    nodes.append({"name": "flat", "op": "reshape", "in": ["all"], "shape": [0, -1]})
    for k in range(3):
        nodes.append({"name": f"fc{k}", "op": "linear", "in": ["flat"], "out_features": 4, "bias": k != 1})
    nodes += [{"name": "mul", "op": "mul", "in": ["fc0", "fc2"]}, {"name": "add", "op": "add", "in": ["mul", "fc1"]},
              {"name": "drop", "op": "dropout", "in": ["add"], "p": 0.25},
              {"name": "out", "op": "linear", "in": ["drop"], "out_features": 5},
              {"name": "loss", "op": "softmax_cross_entropy", "in": ["out", "t"]}]
    draw.shuffle(nodes)
    return {"format": "ffsoap-graph", "version": 2, "name": "random", "nodes": nodes}


def refused(say_what, word, *command):
    done = run(*command, status=2)
    say(word in done.stderr and done.stderr.count("\n") == 1, say_what, done.stderr)


def with_rewrites(plan, changed, path):
    path.write_text(json.dumps({**json.loads(plan.read_text()), "rewrites": changed}))
    return path


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    graph, plan = folder / "net.json", folder / "plan.json"
    for i in range(6):
        graph.write_text(json.dumps(random_graph()))
        compare(folder, graph, f"random graph {i}", "--seed", seed % 1000 + i)
    for name, sets in NETWORKS.items():
        run(ffzoo, name, "--batch", 2, *(w for s in sets for w in ("--set", s)), "-o", graph)
        compare(folder, graph, name)

    # --verify runs the graph before on one device
    run(ffzoo, "gpt2", "--batch", 4, *(w for s in NETWORKS["gpt2"] for w in ("--set", s)), "-o", graph)
    rewrites = rewritten_plan(graph, plan, "--optimizer", "adam")
    common = ["--data", "synthetic:64"]
    done = run(ffrun, graph, plan, *common, "--steps", 1, "--verify")
    say("verified on one device" in done.stdout, "verified against the graph before", done.stdout)

    # weights and states are those of the graph before: a training goes on under either
    kept, ends = folder / "kept", {}
    kept.mkdir()
    for name, first, then in (("whole", "single", "single"), ("onto", "single", plan), ("from", plan, "single")):
        for steps, by, more in ((2, first, []), (4, then, ["--resume", "--save", folder / name])):
            run(ffrun, graph, by, *common, "--optimizer", "momentum", "--steps", steps, "--checkpoint", kept / name, *more)
        ends[name] = tensors(folder / name)
    say(all(ends[n].keys() == ends["whole"].keys() and apart(ends[n], ends["whole"], "") <= 1e-5
            for n in ("onto", "from")), "checkpoints of either graph are gone on from under the other",
        [apart(ends[n], ends["whole"], "") for n in ("onto", "from")])
    done = run(ffrun, graph, plan, *common, "--steps", 1, "--verify", "--weights", folder / "whole")
    say("verified on one device" in done.stdout, "and weights of a file", done.stdout)

    # groups go by the names before
    run(ffrun, graph, plan, *common, "--steps", 1, "--group", "*.attention.*:rate=0.5")
    refused("parameters that are merged need the same settings", "block0.attention.key.weight",
            ffrun, graph, plan, *common, "--steps", 1, "--group", "*.query.*:rate=0.5")

    # the other tools
    searched, proof = folder / "searched.json", folder / "proof.json"
    run(ffsearch, graph, "--machine", "cpu2", "--costs", "analytic", "--rewrite", "auto", "--proposals", 500,
        "-o", searched, "--certificate", proof, "--report", folder / "report.json")
    report = json.loads((folder / "report.json").read_text())
    gains = "rewrites" in report and report["data_parallel_rewritten_us"] < report["data_parallel_before_us"]
    say(gains == ("rewrites" in json.loads(searched.read_text())), "auto rewrites where that gains", report)
    done = run(ffsearch, graph, "--machine", "cpu2", "--costs", "peak", "--simulate", plan)
    say(rewrites[0] in re.sub(r"\n", "", done.stdout), "ffsearch --simulate rewrites as the plan", done.stdout)
    run(ffcheck, graph, "cpu2", "analytic", searched, proof)
    for ask in (["show", plan], ["diff", plan, searched], ["rebase", plan, "-o", folder / "rebased.json"]):
        run(ffplan, *ask, "--graph", graph, "--machine", "cpu2", "--costs", "analytic")
    say(json.loads((folder / "rebased.json").read_text())["rewrites"] == rewrites, "ffplan carries rewrites over")
    apart, missing = folder / "apart.json", []
    run(ffsearch, graph, "--machine", "cpu2", "--costs", "peak", "--simulate", "data-parallel", "-o", apart)
    for i, more in enumerate((["--strategy", apart], ["--strategy", plan], ["--rewrite", "all"], [])):
        done = run(ffprof, graph, "--machine", "cpu2", *more, "--budget", "1s", "-o", folder / f"costs{i}.json")
        missing.append(int(re.search(r"of (\d+) missing kernels", done.stdout + done.stderr)[1]))
    say(missing[0] < missing[1] and missing[2] != missing[3], "ffprof measures what the rewritten graph needs", missing)

    # what cannot be
    bad = folder / "bad.json"
    refused("another node", "no node \"nowhere\"", ffrun, graph,
            with_rewrites(plan, ["merge_products:nowhere+block0.mlp.up"], bad), *common, "--steps", 1)
    refused("nodes that read different values", "cannot be part of it", ffrun, graph,
            with_rewrites(plan, ["merge_products:block0.mlp.up+block1.mlp.up"], bad), *common, "--steps", 1)
    refused("one node twice", "rewritten twice", ffrun, graph, with_rewrites(plan, rewrites + rewrites[:1], bad),
            *common, "--steps", 1)
    refused("another rule", "expected merge_products", ffrun, graph, with_rewrites(plan, ["split:a+b"], bad),
            *common, "--steps", 1)
    refused("no such products", "expected all, none, or a pattern", ffsearch, graph, "--machine", "cpu2", "--costs",
            "peak", "--rewrite", "nothing.*", "--simulate", "data-parallel")
    refused("a plan beside one of another graph", "must be the same", ffrun, graph, "data-parallel", "--devices", 2,
            "--compare", "--against", plan, *common, "--steps", 1)
finish()
