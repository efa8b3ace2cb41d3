# A module as `ffsoap_torch export` writes it, one step of ffrun from its weights, and the same step by
# PyTorch: loss, gradients and running statistics.  Needs PyTorch 2.11 or newer.
# SPDX-License-Identifier: Apache-2.0
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
import reference  # says SKIP and ends without PyTorch
from pytorch import F, np, torch
from reference import TOLERANCE

from ffsoap_torch.export import export


def run(*command, timeout=900):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=timeout)


def in_type(module, dtype):
    """A copy in another type; of complex buffers to() would drop what is imaginary."""
    made = copy.deepcopy(module).to(dtype)
    for own, copied in zip(module.modules(), made.modules()):
        for name, x in own.named_buffers(recurse=False):
            if x.is_complex():
                setattr(copied, name, x.to(torch.complex128 if dtype == torch.float64 else torch.complex64))
    return made


def told_type(dtype):
    """Modules that ask for float32 get the type that is compared in."""
    plain = torch.Tensor.to

    def to(x, *args, **kwargs):
        args, kwargs = torch.fx.node.map_aggregate((args, kwargs), lambda y: dtype if y is torch.float32 else y)
        return plain(x, *args, **kwargs)
    return mock.patch.multiple(torch.Tensor, float=lambda x: plain(x, dtype), to=to)


class Step:
    """`why`: a sentence where it did not come so far; `own`: of the inputs as they are, in the place of drawn ones."""

    def __init__(self, ffrun, module, inputs, seed=1, plan="single", devices=1, own=False, **options):
        self.module, self.why, self.options, self.own = module, None, options, own
        self.inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.made = export(module, self.inputs, **options)
        self.graph, self.map = json.loads(self.made.graph), json.loads(self.made.map)
        with tempfile.TemporaryDirectory(prefix="fftorch") as keep:
            folder = pathlib.Path(keep)
            self.made.write(folder / "graph.json", folder / "weights", folder / "map.json")
            strategy = plan if isinstance(plan, str) else plan(folder)
            done = run(ffrun, folder / "graph.json", strategy, "--devices", devices, "--data",
                       self.data(folder), "--weights", folder / "weights", "--seed", seed,
                       "--dump", folder / "dump")
            if done.returncode:
                self.why = done.stderr.strip()
                return
            tensors = reference.read_safetensors(folder / "dump")
            self.tensors = {name: np.array(x) for name, x in tensors.items()}

    # ---- what the module is given ----

    def data(self, folder):
        """What is drawn; of inputs of which several parts are read, which would be drawn apart, the examples."""
        read = [n["name"] for n in self.graph["nodes"] if n["op"] == "input" and "of" not in n]
        sources = [self.map["inputs"][name]["input"] for name in read]
        if not self.own and len(set(sources)) == len(sources) or None in sources:
            return f"synthetic:{self.map['batch']}"
        names = list(self.made.program.graph_signature.user_inputs)
        examples = dict(zip(names, self.inputs + tuple(self.options.get("targets") or ())))
        arrays = {}
        for name in read:
            x = np.array(examples[self.map["inputs"][name]["input"]])
            for part in self.map["inputs"][name]["parts"]:
                x = x.take(part["indices"], part["axis"])
            arrays[name] = x.astype("f4" if x.dtype.kind == "f" else "i4")
        for kind in ("train", "test"):
            np.savez(folder / f"{kind}.npz", **arrays)
        return f"numpy:{folder}"

    def given(self, dtype):
        """The module's inputs, and what a loss behind it compares with."""
        names = list(self.made.program.graph_signature.user_inputs)
        given, behind = [], None
        for name, example in zip(names, self.inputs + tuple(self.options.get("targets") or ())):
            parts = [(n, i) for n, i in self.map["inputs"].items() if i["input"] == name]
            x = np.zeros(example.shape, self.tensors[f"input.{parts[0][0]}"].dtype) if parts else np.array(example)
            for n, i in parts:
                where = [slice(None)] * x.ndim
                for part in i["parts"]:
                    where[part["axis"]] = part["indices"]
                x[tuple(where)] = self.tensors[f"input.{n}"]
            x = torch.from_numpy(x)
            given.append(x.to(dtype) if example.dtype.is_floating_point else x.to(example.dtype))
        for name, i in self.map["inputs"].items():
            if i["input"] is None:
                behind = torch.from_numpy(self.tensors[f"input.{name}"])
        return given, behind

    def loss(self, module, dtype):
        given, behind = self.given(dtype)
        count = len(self.inputs)
        found = module(*given[:count])
        if self.options.get("loss"):
            return self.options["loss"](found, *given[count:])
        found = found if isinstance(found, (tuple, list)) else tuple(found.values()) if hasattr(
            found, "values") and not isinstance(found, torch.Tensor) else (found,)
        if behind is None:
            return next(x for x in found if x.dim() == 0)
        x = found[0].movedim(-1, 1) if self.options.get("classes_last") else found[0]
        kind = self.options.get("behind", "cross_entropy")
        if kind == "cross_entropy":
            return F.cross_entropy(x, behind.long(), ignore_index=-1)
        return {"mse": F.mse_loss, "bce_with_logits": F.binary_cross_entropy_with_logits}[kind](x, behind.to(dtype))

    # ---- PyTorch's step, in the graph's names ----

    def pytorchs(self, dtype):
        module = in_type(self.module, dtype)
        module.train()
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with told_type(dtype):
                loss = self.loss(module, dtype)
                loss.backward()
        finally:
            torch.set_default_dtype(before)
        gradients = {n: p.grad.to_dense() for n, p in module.named_parameters(remove_duplicate=False)
                     if p.grad is not None}
        kept = dict(module.named_buffers())
        found = {"loss": loss.detach()}
        self.named = set()
        for name, how in self.map["parameters"].items():
            source = how["names"][0]
            if source in kept:
                found[name] = kept[source]
                continue
            self.named.update(how["names"])
            x = gradients.get(source)
            if x is None:
                continue
            x = x[slice(*how["rows"])] if "rows" in how else x
            x = x.permute(how["transpose"]) if "transpose" in how else x
            found["grad." + name] = x.reshape(how["shape"]) if "shape" in how else x
        self.missing = [n for n, x in gradients.items() if n not in self.named and x.abs().max() > 1e-9]
        return found

    def distances(self, length=False):
        """By name: ours from PyTorch's in float64, and PyTorch's own in float32 from it."""
        how = reference.length_apart if length else reference.distance
        want, own = self.pytorchs(torch.float64), self.pytorchs(torch.float32)
        apart = {}
        for name, x in want.items():
            if np.abs(np.asarray(x)).max() > 1e-9:
                ours = self.tensors[name]
                apart[name] = how(ours.reshape(np.asarray(x).shape), x), how(own[name], x)
        return apart

    def worst(self, length=False):
        """The name that is furthest off by what rounding allows, how far, PyTorch's own, and whether good."""
        apart = self.distances(length)
        name = max(apart, key=lambda n: apart[n][0] / max(TOLERANCE, 4 * apart[n][1]))
        ours, own = apart[name]
        return name, ours, own, ours <= max(TOLERANCE, 4 * own) and not self.missing, len(apart)
