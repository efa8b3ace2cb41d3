# What the tests of ffsoap_torch export share: a step of ffrun beside PyTorch's, random strategies, refusals.
# Arguments are those of test_exported.py.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import warnings

import current  # noqa: F401  says SKIP and ends without PyTorch 2.11
import exported
import reference
from exported import torch
from ffsoap_torch import Refused
from ffsoap_torch.export import export

ffrun, ffsearch = map(os.path.abspath, sys.argv[2:4])
tap = reference.Tap()
nn = torch.nn
warnings.filterwarnings("ignore")
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def compare(name, module, inputs, prepare=None, **options):
    """A step as PyTorch's; `prepare`: of the module that PyTorch trains, once it is known what ffrun draws."""
    step = exported.Step(ffrun, module, inputs, **options)
    if step.why:
        tap.say(False, name, [step.why])
        return None
    if prepare:
        prepare(step)
    worst, ours, own, good, count = step.worst()
    tap.say(good, f"{name}: {count} tensors", [f"{worst} apart by {ours:.2g}, PyTorch's by {own:.2g}", *step.missing])
    return step


def plan_for(devices, seed):
    """A random strategy."""
    def made(folder):
        done = exported.run(ffsearch, folder / "graph.json", "--machine", "cpu4", "--devices", devices, "--costs",
                            "peak", "--init", "random", "--proposals", 1, "--seed", seed, "-o", folder / "plan")
        assert not done.returncode, done.stderr
        return str(folder / "plan")
    return made


def refusal(module, inputs, own=False, **options):
    try:
        export(module, inputs, **options)
        return "it was exported"
    except Refused as why:
        return str(why)


class Child(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.fc = function, nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return self.function(self, self.fc(x))


class Parent(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.body, self.head = Child(function), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(self.body(x))


class ByLoss(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.fc, self.loss = nn.Linear(6, 5), loss

    def forward(self, x, y):
        return self.loss(self.fc(x), y)
