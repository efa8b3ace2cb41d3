#!/usr/bin/env python3
"""What the CUDA backend gives a device in a training step, by class: counted on the tests' double, which does nothing
of it (FF_DOUBLE_COUNTS).  Exact, and without a GPU; where a library is called, it is one call, whatever it launches.
With --merged products of one value are one (ffsearch --rewrite all), as PyTorch's transformers here have them.
With --torch also what PyTorch's compiled step gives it, by the same rule (torch_launches.py): neither counts what goes
between host and device.
SPDX-License-Identifier: Apache-2.0"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NETWORKS = {"resnet50": ("16", ["image=64"]), "gpt2": ("2", ["sequence=128", "layers=2"]),
            "bert": ("4", ["sequence=128", "layers=2"]),
            "rnnlm": ("16", ["steps=32", "hidden=256"])}
OTHERS = {"mobilenet_v2": ("16", ["image=64"]), "densenet121": ("4", ["image=32"]), "inception_v3": ("4", ["image=75"]),
          "googlenet": ("4", ["image=32"]), "unet": ("2", ["image=32", "width=16", "depth=2"]),
          "vit_b16": ("4", ["image=64", "layers=2"])}  # that are named
TORCH = {"rnnlm": "lstm"}  # by another name there
CLASSES = {"a product": "products", "a convolution": "convolutions", "an attention": "attention", "a copy": "copies",
           "a fill": "fills", "a copy from the host": "copies from or to the host",
           "a copy to the host": "copies from or to the host"}
HOST = "copies from or to the host"  # which PyTorch's program has, too, outside of what is counted there


def names_of(module):
    """Functions of a module, by address."""
    table = subprocess.run(["nm", "-C", module], capture_output=True, text=True, check=True).stdout
    return {int(m[1], 16): m[2] for m in re.finditer(r"^([0-9a-f]+) [tTwW] (?:void )?(.*)$", table, re.M)}


def given(o, graph, strategy, steps, folder):
    out = pathlib.Path(folder, "counts")
    env = dict(os.environ, FF_CUDA_MODULE=o.module, FF_DOUBLE_COUNTS=str(out), FF_CUDA_GRAPH="0", FF_CACHE_DIR="",
               OMP_NUM_THREADS="1")
    subprocess.run([f"{o.build}/runtime/ffrun", graph, *strategy, "--device", "cuda", "--data", "synthetic", "--steps",
                    str(steps)], check=True, env=env, stdout=subprocess.DEVNULL)
    return {line.split(" ", 1)[1]: int(line.split()[0]) for line in out.read_text(encoding="utf-8").splitlines()}


def merged(o, graph, folder):
    """A strategy of one device, with what can be rewritten."""
    plan = pathlib.Path(folder, "plan.json")
    subprocess.run([f"{o.build}/planner/ffsearch", graph, "--machine", "cpu1", "--costs", "peak", "--rewrite", "all",
                    "--proposals", "1", "-o", plan], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [plan]


def step(o, name, folder):
    """Of one step: what three have more than two."""
    batch, sets = (NETWORKS | OTHERS)[name]
    graph = pathlib.Path(folder, "graph.json")
    subprocess.run([f"{o.build}/graphs/ffzoo", name, "--batch", batch, *(a for s in sets for a in ("--set", s)), "-o",
                    graph], check=True, stdout=subprocess.DEVNULL)
    strategy = merged(o, graph, folder) if o.merged else ["data-parallel", "--devices", "1"]
    less, more = (given(o, graph, strategy, steps, folder) for steps in (2, 3))
    return {what: n - less.get(what, 0) for what, n in more.items() if n > less.get(what, 0)}


def theirs(o, name):
    """What PyTorch's step launches, as a sentence."""
    run = subprocess.run([o.torch, pathlib.Path(__file__).with_name("torch_launches.py"), TORCH.get(name, name)],
                         check=True, capture_output=True, text=True)
    n = json.loads(run.stdout.splitlines()[-1])
    least = n.get("recurrences_at_least")
    return (f"; PyTorch's {n['all']}: {n['kernels']} kernels, {n['libraries']} calls of libraries" +
            (f", those of cuDNN's recurrence at least {least} kernels" if least else ""))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--build", default="build")
    args.add_argument("--kernels", action="store_true", help="every kernel by its name")
    args.add_argument("--merged", action="store_true", help="products of one value are one")
    args.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch for CUDA, with Triton")
    args.add_argument("network", nargs="*", help=", ".join(NETWORKS | OTHERS))
    o = args.parse_args()
    o.module = os.path.abspath(f"{o.build}/tests/double/libffcuda_double.so")
    names = names_of(o.module)
    for name in o.network or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            found = step(o, name, folder)
        classes, kernels = collections.Counter(), collections.Counter()
        for what, n in found.items():
            if what in CLASSES:
                classes[CLASSES[what]] += n
            elif what.startswith("the kernel at "):
                classes["kernels of ours"] += n
                kernels[names.get(int(what.split()[-1], 16), what).partition("(")[0]] += n
        host = classes.pop(HOST, 0)
        print(f"{name}: {sum(classes.values())} a step, and {host} {HOST}: " +
              ", ".join(f"{n} {c}" for c, n in classes.most_common()) + (theirs(o, name) if o.torch else ""))
        for kernel, n in kernels.most_common() if o.kernels else []:
            print(f"  {n:5} {kernel}")


if __name__ == "__main__":
    sys.exit(main())
