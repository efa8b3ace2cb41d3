# The command `ffsoap_torch export`: its files, its map, and what it says.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import exported
import reference
from exported import np
from exported_steps import ffsearch, tap

root = pathlib.Path(__file__).resolve().parents[2]
FACTORY = """import torch
from torch import nn
def made():
    return nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 5)), torch.randn(4, 6)
def by_loss():
    loss = lambda y, t: nn.functional.mse_loss(y, t) * 2 + 0.5 * nn.functional.mse_loss(y, t)
    return nn.Linear(6, 5), (torch.randn(4, 6),), loss, (torch.randn(4, 5),)
def wrong():
    return nn.Linear(6, 5)
"""


def command(folder, *words):
    env = dict(os.environ, PYTHONPATH=str(root / "python"))
    return subprocess.run([sys.executable, "-m", "ffsoap_torch", *words], cwd=folder, env=env, capture_output=True,
                          text=True, timeout=600)


def test_command():
    with tempfile.TemporaryDirectory(prefix="fftorch") as keep:
        folder = pathlib.Path(keep)
        (folder / "mine.py").write_text(FACTORY)
        done = command(folder, "export", "mine:made", "-o", "g.json", "--weights", "w", "--map", "m.json",
                       "--batch", "32")
        tap.say(done.returncode == 0 and not done.stderr, "a module, its weights, its map", [done.stderr])
        graph, names = (json.loads((folder / f).read_text()) for f in ("g.json", "m.json"))
        weights = reference.read_safetensors(folder / "w")
        tap.say(graph["nodes"][0]["shape"] == [32, 6] and names["batch"] == 32, "another batch", [graph])
        tap.say(set(weights) == set(names["parameters"]) and "1.running_var" in weights and
                np.array_equal(weights["1.running_var"], np.ones(9)), "weights and statistics", [sorted(weights)])
        tap.say(names["operators"]["0"] == {"module": "0", "nodes": ["linear"], "cuts": {
            "in_feature": 6, "out_feature": 9, "sample": 32}}, "names", [names["operators"]])
        check_schema(names)
        check_micro_batches(folder)
        done = command(folder, "export", "mine.py:by_loss", "-o", "-")
        loss = [n for n in json.loads(done.stdout)["nodes"] if n["op"] == "mse"] if not done.returncode else []
        tap.say([n.get("weight") for n in loss] == [2, 0.5], "a loss of one's own", [done.stderr, loss])
        for words, said in ((("export", "mine:wrong", "-o", "g"), "(module, inputs)"),
                            (("export", "mine:none", "-o", "g"), "has no function none"),
                            (("export", "nowhere:made", "-o", "g"), "cannot be imported"),
                            (("export", "mine:made", "-o", "g", "--map", "g"), "files of their own"),
                            (("exprt",), "usage")):
            done = command(folder, *words)
            tap.say(done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr,
                    " ".join(words), [done.returncode, done.stderr])


SUMMED = """
import torch
from torch.nn import functional as F
class Apart(torch.nn.Linear):
    def __init__(self, reduction):
        super().__init__(6, 6)
        self.reduction = reduction
    def forward(self, x, y):
        return F.mse_loss(super().forward(x), y, reduction=self.reduction)
def of(reduction):
    return Apart(reduction), (torch.randn(16, 6), torch.randn(16, 6))
def summed():
    return of("sum")
def mean():
    return of("mean")
"""


def check_micro_batches(folder):
    """A sum over samples has no micro-batches in PyTorch: the map says it, and no search proposes them."""
    (folder / "apart.py").write_text(SUMMED)
    for name, status in (("summed", 2), ("mean", 0)):
        done = command(folder, "export", f"apart:{name}", "-o", name, "--map", f"{name}.map")
        names = json.loads((folder / f"{name}.map").read_text())
        check_schema(names)
        tap.say(("whole_batch" in names) == ("sum over samples" in done.stderr) == (name == "summed"), name, [names])
        done = exported.run(ffsearch, folder / name, "--machine", "cpu4", "--costs", "peak", "--space", "torch",
                            "--map", folder / f"{name}.map", "--simulate", "megatron:1,4,1,4")
        tap.say(done.returncode == status and ("4 micro-batches are more than 1: " in done.stderr and
                                                      names["whole_batch"] in done.stderr) == (status == 2),
                f"micro-batches, {name}", [done.returncode, done.stderr])


def check_schema(names):
    try:
        import jsonschema
    except ImportError:
        print("# jsonschema is not installed: the map is not compared with its schema")
        return
    schema = json.loads((root / "docs/schema/torch-map.schema.json").read_text())
    errors = [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(names)]
    tap.say(not errors, "the map is as its schema has it", errors)
    tap.say(not jsonschema.Draft202012Validator(schema).is_valid(dict(names, surplus=1)), "and nothing besides")
