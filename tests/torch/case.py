# A graph and what ffrun makes of it, beside PyTorch; arguments are those of test_torch.py.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import graphs
import philox
import reference
import sequences
import strategies
import training
from pytorch import np

tap = reference.Tap()
ffrun, ffzoo, ffrun_dense = sys.argv[2:5]
# Every operator in many settings, but for losses.
EVERY = (graphs.convolutions, graphs.transposed, graphs.pools, graphs.spatial, graphs.pointwise, graphs.functions,
         graphs.joints, graphs.tied, graphs.moves, graphs.pads, graphs.broadcasts, graphs.reductions, graphs.products,
         sequences.words, sequences.attention, sequences.recurrences, sequences.routes, graphs.norms)


def by_group(apart, groups):
    """Pairs of distance and name; of all, or of each case in the graph."""
    members = {}
    for name, d in apart.items():
        members.setdefault(name.split(".")[0] if groups else "", []).append((d, name))
    return members


class Case:
    """One graph in a folder of its own, and what ffrun makes of it."""

    def __init__(self, name, seed=1):
        self.name, self.seed = name, seed
        self.known = {}  # of PyTorch, for strategies to come
        self.keep = tempfile.TemporaryDirectory(prefix="fftorch")
        self.folder = pathlib.Path(self.keep.name)
        self.path = self.folder / "graph.json"

    def made(self, graph):
        self.path.write_text(json.dumps(graph))
        return self

    def zoo(self, *args):
        subprocess.run([ffzoo, *args, "-o", self.path], check=True)
        return self

    def run(self, strategy="single", devices=1, data=None, steps=0, program=ffrun, options=()):
        """The tensors of the first step and the losses of all `steps`; None if ffrun fails."""
        self.graph = reference.read_graph(self.path)
        batch = self.graph["nodes"][0]["shape"][0]
        if isinstance(strategy, dict):
            (self.folder / "strategy.json").write_text(json.dumps(strategy))
            strategy = self.folder / "strategy.json"
        command = [program, self.path, strategy, "--devices", str(devices),
                   "--data", data or f"synthetic:{batch}", "--seed", str(self.seed),
                   "--dump", self.folder / "dump", "--report", self.folder / "report",
                   "--device", reference.DEVICE, *options]
        if steps:
            command += ["--steps", str(steps)]
        env = dict(os.environ)
        if devices > 1:  # Open MPI's modules leak, and are gone when leaks are looked for
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=600)
        if done.returncode:
            tap.say(False, f"{self.name}: ffrun", [f"exit status {done.returncode}", done.stderr])
            return None
        self.tensors = reference.read_safetensors(self.folder / "dump")
        return json.loads((self.folder / "report").read_text())["loss"] if steps else []

    def hash(self):
        """Of the graph, as ffrun says it of a strategy for another one."""
        foreign = strategies.strategy(self.path.read_text(), 1, {}, "0" * 16)
        (self.folder / "foreign.json").write_text(json.dumps(foreign))
        done = subprocess.run([ffrun, self.path, self.folder / "foreign.json", "--data",
                               "synthetic:99", "--steps", "1"], capture_output=True, text=True)
        return re.search(r"not for this graph .*\(hash (\w+)\)", done.stderr).group(1)

    def agrees(self):
        apart, _ = reference.compare(self.graph, self.tensors, self.seed)
        return max(apart.values()) <= reference.tolerance(self.graph)

    def check(self, groups=False):
        """Loss and gradients of the first step; `groups`: a line for each case in the graph."""
        apart, net = reference.compare(self.graph, self.tensors, self.seed, self.known)
        for group, of_group in by_group(apart, groups).items():
            worst, name = max(of_group)
            good = worst <= reference.tolerance(self.graph)
            what = f": {group}" if group else f": loss and {len(apart) - 1} gradients"
            notes = [f"{name} apart by {worst:.2g}"]
            if not good:
                notes += [f"{n} apart by {d:.2g}" for d, n in of_group
                          if d > reference.tolerance(self.graph)]
                notes += ["nearest choice: {:.2g} of {}".format(*net.margin())]
            tap.say(good, self.name + what, notes)
        return net

    def check_losses(self, losses, batches, **settings):
        key = reference.digest(self.graph, reference.given(self.tensors), self.seed, batches, settings)
        if key not in self.known or "rates" in settings:  # which are told, too
            self.known[key] = training.trained_losses(self.graph, self.tensors, batches, self.seed, **settings)
        want = self.known[key]
        worst = max(reference.distance(a, b) for a, b in zip(losses, want))
        good = len(losses) == len(want) and worst <= reference.tolerance(self.graph)
        notes = [f"losses {' '.join(f'{x:.4f}' for x in want)}, apart by {worst:.2g}"]
        if not good:
            notes.append(f"ffrun's {' '.join(f'{x:.4f}' for x in losses)}")
        tap.say(good, f"{self.name}: losses of {len(want)} steps", notes)
        return want

    def same_samples(self, steps):
        """Batches of a data set that is one batch: each epoch has its own order."""
        inputs = reference.inputs_of(self.tensors)
        batch = self.graph["nodes"][0]["shape"][0]
        shuffle = philox.Shuffle(batch, self.seed)
        back = np.argsort(shuffle.batch(0, batch))
        return [{name: value[back][shuffle.batch(step, batch)] for name, value in inputs.items()}
                for step in range(steps)]


SMALL_UNET = ["--set", "image=16", "--set", "width=4", "--set", "depth=2", "--set", "classes=3"]

SMALL_COSMOFLOW = ["--set", "image=13", "--set", "width=3", "--set", "layers=3", "--set", "fc1=9",
                   "--set", "fc2=7"]

SMALL_LM = ["--set", "features=6", "--set", "context=3", "--set", "hidden=11"]
MOMENTUM = {"rate": 0.005, "momentum": 0.9, "decay": 0.01}


def options_of(settings):
    """As ffrun has them."""
    options = []
    for key, value in settings.items():
        for each in value if key == "groups" else [value]:
            options += ["--group" if key == "groups" else "--" + key.replace("_", "-"), str(each)]
    return options


def split(case, strategy, devices, steps=4, **settings):
    settings = settings or MOMENTUM
    options = options_of(settings)
    losses = case.run(strategy, devices, steps=steps, options=options)
    if losses is not None:
        case.check()
        case.check_losses(losses, case.same_samples(steps), **settings)


def extents(case, net):
    """Shapes of what every node writes, the loss' being its logits'; what each product sums over."""
    shapes = {node: tuple(value.shape) for node, value in net.value.items()}
    loss = case.graph["nodes"][-1]
    shapes[loss["name"]] = shapes[loss["in"][0]]
    depths = {node["name"]: net.weight(node, "weight").shape[not node["op"].startswith(
                  ("embedding", "conv_transpose"))]
              for node in case.graph["nodes"]
              if node["op"].startswith("conv") or node["op"] in ("linear", "embedding")}
    depths.update({node["name"]: shapes[node["in"][0]][-2 if node.get("transpose_a") else -1]
                   for node in case.graph["nodes"] if node["op"] == "matmul"})
    depths.update({node["name"]: shapes[node["in"][1]][1]
                   for node in case.graph["nodes"] if node["op"] == "attention"})
    depths.update({node["name"]: shapes[node["in"][0]]
                   for node in case.graph["nodes"] if node["op"].startswith("reduce_")})
    return shapes, depths


def in_bfloat16(graph):
    return dict(graph, dtype="bfloat16")


def computes_bfloat16():
    """Whether the processor can; where not, ffrun's sentence says so."""
    case = Case("bfloat16", 1).zoo("mlp", "--batch", "2", "--set", "hidden=4", "--set", "dtype=bfloat16")
    done = subprocess.run([ffrun, case.path, "single", "--data", "synthetic:4", "--steps", "1"],
                          capture_output=True, text=True)
    if done.returncode == 2 and "does not compute in bfloat16 on this processor" in done.stderr:
        print("# bfloat16 left out: " + done.stderr.strip())
        return False
    return True
