# A module that PyTorch exports as ONNX, and what ffrun makes of it; arguments are those of test_onnx.py.
# SPDX-License-Identifier: Apache-2.0
import copy
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import reference
from philox import kept
from pytorch import F, np, torch  # says SKIP and ends without PyTorch
from reference import TOLERANCE

part, ffimport, ffrun, ffsearch = sys.argv[1:5]
tap = reference.Tap()
nn = torch.nn
warnings.filterwarnings("ignore")
# Open MPI's modules leak
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def exported(model, inputs, opset, training=True):
    file = io.BytesIO()
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, inputs, file, training=mode, do_constant_folding=not training,
                      opset_version=opset)
    return file.getvalue()


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, timeout=600)


def excess(apart):
    """Right up to 1: what batch norms of few samples do to rounding, they do to PyTorch's too."""
    ours, pytorchs = apart
    return ours / max(TOLERANCE, 4 * pytorchs)


class Keeping(nn.Module):
    """Dropout of what ffrun drops in its first step."""

    def __init__(self, number, seed, p):
        super().__init__()
        self.number, self.seed, self.p = number, seed, p

    def forward(self, x):
        return x * kept(self.seed, self.number, 0, x.shape, self.p) / (1 - self.p)


class Model:
    """A module, its graph and its weights as imported."""

    def __init__(self, name, module, inputs, opset=13, classes_last=False, training=True,
                 ours=lambda gradients: gradients, loss=None, drops=False):
        """`ours`: gradients as they are called and lie in the graph; `drops`: dropouts, which
        are called in the order that the module has them in, keep what ffrun keeps."""
        torch.manual_seed(1)
        self.name, self.module, self.last, self.ours = name, module, classes_last, ours
        self.loss, self.drops, self.seed = loss, drops, 1
        for m in module.modules():
            if isinstance(m, nn.Dropout) and not drops:
                m.p = 0.0
        self.keep = tempfile.TemporaryDirectory(prefix="ffonnx")
        self.folder = pathlib.Path(self.keep.name)
        self.graph = self.folder / "graph.json"
        (self.folder / "model.onnx").write_bytes(exported(module, inputs, opset, training))
        done = run(ffimport, self.folder / "model.onnx", "-o", self.graph, "--weights",
                   self.folder / "weights", *(["--classes-last"] if classes_last else []),
                   *(["--loss", loss] if loss else []))
        self.good = done.returncode == 0
        tap.say(self.good, f"{name}: imported, opset {opset}", done.stderr.splitlines())

    def plan(self, seed, devices=3):
        """A random strategy."""
        path = self.folder / f"plan{seed}.json"
        done = run(ffsearch, self.graph, "--machine", "cpu4", "--devices", devices, "--costs",
                   "peak", "--init", "random", "--proposals", 1, "--seed", seed,
                   "--space", "replicas", "-o", path)
        return path if done.returncode == 0 else tap.say(False, f"{self.name}: plan", [done.stderr])

    def step(self, strategy, devices, seed=1):
        batch = json.loads(self.graph.read_text())["nodes"][0]["shape"][0]
        self.seed = seed
        done = run(ffrun, self.graph, strategy, "--devices", devices, "--data",
                   f"synthetic:{batch}", "--seed", seed, "--weights", self.folder / "weights", "--dump",
                   self.folder / "dump")
        if done.returncode:
            tap.say(False, f"{self.name}: ffrun", [done.stderr])
            return None
        return reference.read_safetensors(self.folder / "dump")

    def distances(self, tensors):
        """By name, of the loss and every gradient: ours from the model's, PyTorch's float32 from it."""
        graph = json.loads(self.graph.read_text())
        inputs = [torch.from_numpy(np.array(tensors["input." + n["name"]])) for n in graph["nodes"]
                  if n["op"] == "input" and n["name"] not in ("label", "target")]
        labels = torch.from_numpy(np.array(tensors["input.target" if self.loss else "input.label"]))
        labels = labels if self.loss else labels.long()
        inputs = [x.long() if x.dtype == torch.int32 else x for x in inputs]
        want, own = self.gradients(torch.float64, inputs, labels), self.gradients(
            torch.float32, inputs, labels)
        return {name: (reference.distance(
            tensors[name if name == "loss" or name.endswith(reference.KEPT) else "grad." + name], x),
            reference.distance(own[name], x)) for name, x in want.items()}

    def agrees(self, tensors):
        return max(map(excess, self.distances(tensors).values())) <= 1

    def compare(self, tensors, what):
        apart = self.distances(tensors)
        worst = max(apart, key=lambda name: excess(apart[name]))
        tap.say(excess(apart[worst]) <= 1,
                f"{self.name}: {what}: loss and {len(apart) - 1} gradients",
                ["{} apart by {:.2g}, PyTorch's by {:.2g}".format(worst, *apart[worst])])

    def gradients(self, dtype, inputs, labels):
        """Of the module itself, which stays as it was."""
        module = copy.deepcopy(self.module).to(dtype)
        if self.drops:
            self.keep_as_ffrun(module)
        logits = module(*(x.to(dtype) if x.dtype.is_floating_point else x for x in inputs))
        if self.loss:
            loss = {"mse": F.mse_loss, "bce_with_logits": F.binary_cross_entropy_with_logits}[
                self.loss](logits, labels.to(dtype))
        else:
            loss = F.cross_entropy(logits.movedim(-1, 1) if self.last else logits, labels)
        loss.backward()
        kept = {n: x for n, x in module.named_buffers() if n.endswith(reference.KEPT)}
        return {"loss": loss.detach(), **self.ours({**{
            n: w.grad for n, w in module.named_parameters()
            if w.grad is not None and w.grad.abs().max() > 1e-9}, **(kept if self.drops else {})})}

    def keep_as_ffrun(self, module):
        graph = reference.read_graph(self.graph)
        number = reference.numbers(graph)
        nodes = [n for n in graph["nodes"] if n["op"] == "dropout"]
        names = [n for n, m in module.named_modules() if isinstance(m, nn.Dropout)]
        assert len(names) == len(nodes)
        for name, node in zip(names, nodes):
            p = module.get_submodule(name).p
            assert abs(node["p"] - p) < 1e-6
            owner, _, own = name.rpartition(".")
            setattr(module.get_submodule(owner), own, Keeping(number[node["name"]], self.seed, p))

    def check(self, plans=2, devices=3, seeds=(1,)):
        """`seeds`: of the inputs, for one device (reference.SOME)."""
        if not self.good:
            return
        tensors = reference.first_agreeing(
            seeds, lambda seed: self.step("single", 1, seed), self.agrees)
        if tensors:
            self.compare(tensors, "one device")
        for seed in reference.shared(range(1, plans + 1)):
            plan = self.plan(seed, devices)
            tensors = self.step(plan, devices) if plan else None
            if tensors:
                self.compare(tensors, f"random strategy {seed}")
