#!/usr/bin/env python3
"""Models of devices beside what was measured: costs that are made up, of which it is known how far off models are.
Prints TAP.  usage: test_model_errors.py SOURCE BUILD.  SPDX-License-Identifier: Apache-2.0"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from tap import finish, say

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
TOOL = SOURCE / "bench/model_errors.py"
MODEL = SOURCE / "graphs/machines/models/H100-80GB.json"
SEED = int(os.environ.get("FF_TEST_SEED", random.randrange(1 << 31)))
print(f"# FF_TEST_SEED={SEED}")
draw = random.Random(SEED)

# the operators of the small networks and the classes that users know them by
CLASSES = {"linear": "product", "conv2d": "convolution", "attention": "attention", "attention_statistics": "attention",
           "lstm": "recurrent", "embedding": "embedding", "layer_norm": "norm", "pool2d": "pool", "tanh": "stream",
           "add": "stream", "gelu": "stream", "transpose": "stream", "softmax_statistics": "softmax",
           "softmax_cross_entropy": "softmax", "reshape": "stream"}
TYPED = ("product", "convolution", "attention", "recurrent")


def tool(*words):
    return subprocess.run([sys.executable, TOOL, "--build", BUILD, *map(str, words)], capture_output=True, text=True,
                          check=False)


def device(*words, text=""):
    done = subprocess.run([BUILD / "bench/bench-device", MODEL, *map(str, words)], capture_output=True, text=True,
                          check=True, input=text)
    return done.stdout


def works_of(folder, *network):
    path = folder / "graph.json"
    subprocess.run([BUILD / "graphs/ffzoo", *network, "-o", path], check=True)
    return json.loads(device("--graph", path))


def class_of(work):
    operator, _, way = work["key"].split()[0].partition(".")
    name = CLASSES[operator]
    images = [word for word in work["key"].split() if word.startswith("din")]
    if name == "convolution" and way == "backward" and not images:
        way = "weights"
    return f"{name} {work['key'].split()[-1]} {way}" if name in TYPED else f"{name} {way}"


def measured(works, ratio_of):
    """A costs file where each figure is the model's over a ratio of its class."""
    entries = {}
    for work in works:
        us = sum(kernel["us"] for kernel in work["kernels"])
        if us:
            entries[work["key"]] = us / ratio_of[class_of(work)]
    return {"entries": [{"key": key, "reuse_bytes": 65536, "median_us": us, "p10_us": us, "p90_us": us, "samples": 5,
                         "workspace_bytes": 0} for key, us in entries.items()]}


def same(a, b):
    return abs(a - b) <= 1e-9 * abs(b)


def test_shapes(works):
    """Kernels as they are told are those that bench-device reads."""
    kernels = [kernel for work in works for kernel in work["kernels"]]
    again = device(text="".join(kernel["shape"] + "\n" for kernel in kernels)).split()
    wrong = [k["shape"] for k, us in zip(kernels, again) if not same(float(us), k["us"])]
    say(len(again) == len(kernels) > 50 and not wrong, "shapes say all that a model asks", wrong[:5])


def test_ratios(folder, works):
    names = {class_of(work) for work in works if work["kernels"]}
    ratio_of = {name: draw.uniform(.5, 2) for name in sorted(names)}
    costs = measured(works, ratio_of)
    expected = {name: {entry["key"] for entry in costs["entries"] if class_of(entry) == name} for name in names}
    costs["entries"].append(dict(costs["entries"][0], key="relu.forward in0=7x7 out=7x7 float32"))
    costs["rates"] = {"add": [{"reuse_bytes": 1, "latency_us": 1, "bytes_per_s": 1e9},
                              {"reuse_bytes": 2, "latency_us": 50, "bytes_per_s": 1e12}],
                      "upload": [{"reuse_bytes": 1, "latency_us": 1, "bytes_per_s": 1e9}]}
    path, report = folder / "costs.json", folder / "report.json"
    path.write_text(json.dumps(costs), encoding="utf-8")
    done = tool("--kind", "H100-80GB", "--small", "--costs", path, "-o", report)
    say(done.returncode == 0, "made-up costs are compared", done.stderr)
    said = json.loads(report.read_text(encoding="utf-8"))
    found = {c["class"]: c for c in said["classes"]}
    rates = found.pop("copies and updates")
    say(set(found) == names, "every class is told", set(found) ^ names)
    wrong = [(name, c["n"], len(expected[name])) for name, c in found.items() if c["n"] != len(expected[name])]
    say(not wrong, "with all its kernels, and no other", wrong)
    wrong = [(name, c["bias"], c["error"], ratio_of[name]) for name, c in found.items()
             if not same(c["bias"], ratio_of[name]) or abs(c["error"] - abs(ratio_of[name] - 1)) > 1e-9]
    say(not wrong, "and how far off it is", wrong)
    # three passes over 64 MiB, at the model's own share of its bandwidth
    model = json.loads(MODEL.read_text(encoding="utf-8"))
    stream = model["classes"]["stream"]["parameters"]
    us = stream["floor_us"] + 3 * (64 << 20) / (model["memory_bytes_per_s"] * stream["share"]) * 1e6
    say(rates["n"] == 1 and same(rates["bias"], us / (50 + (64 << 20) / 1e6)), "additions are of what most goes by",
        (rates, us))
    return path


def test_worst(folder, works):
    """One figure that is further off than others leads its class."""
    costs = measured(works, dict.fromkeys(map(class_of, works), 1))
    mine = [entry for entry in costs["entries"] if class_of(entry) == "stream forward"]
    off = draw.choice(mine)
    off["median_us"] *= 3
    path, report = folder / "costs.json", folder / "report.json"
    path.write_text(json.dumps(costs), encoding="utf-8")
    done = tool("--kind", "H100-80GB", "--small", "--costs", path, "-o", report)
    said = json.loads(report.read_text(encoding="utf-8"))
    stream = next(c for c in said["classes"] if c["class"] == "stream forward")
    say(stream["worst"][0]["key"] == off["key"] and len(stream["worst"]) == 3 and off["key"] in done.stdout,
        "the worst is named first", stream)
    say(len(mine) > 2 and stream["error"] < 1e-9, "and the median does not mind", stream)


def test_refusals(folder, path):
    done = tool("--gpu", "GeForce 256", "--costs", path)
    say(done.returncode == 3 and done.stderr == "model_errors.py: there is no model of GeForce 256\n",
        "a GPU without a model is said so", done)
    done = tool("--kind", "H100", "--costs", path)
    say(done.returncode == 2 and len(done.stderr.splitlines()) == 1, "so is a model that there is none of", done)
    done = tool("--kind", "L4", "--small", "--costs", folder / "none.json")
    say(done.returncode == 2 and "none.json" in done.stderr, "and a file that is not there", done)
    (folder / "empty.json").write_text('{"entries": []}', encoding="utf-8")
    say(tool("--kind", "L4", "--small", "--costs", folder / "empty.json").returncode == 1, "nothing is no success")


def test_step():
    """Of ./run gpu-check, on a GPU that nobody has a model of: before anything is started."""
    class Check:
        double, gpu = False, ("GeForce 256", "10", "1")

    sys.path.insert(0, str(SOURCE / "bench/gpu_check"))
    import models
    try:
        models.step(LookupError, ValueError)(Check)
        why = "it ran"
    except LookupError as skipped:
        why = str(skipped)
    say(why == "there is no model of GeForce 256", "./run gpu-check skips it", why)


def main():
    sys.path.insert(0, str(SOURCE / "bench"))
    import model_errors
    models = {path.stem for path in MODEL.parent.glob("*.json")}
    say(set(model_errors.GPUS.values()) <= models, "every GPU's model is there",
        set(model_errors.GPUS.values()) - models)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        works = [work for network in model_errors.SMALL for work in works_of(folder, *network.arguments)]
        test_shapes(works)
        path = test_ratios(folder, works)
        test_refusals(folder, path)
        test_step()
        test_worst(folder, works)
    finish()


sys.dont_write_bytecode = True
main()
