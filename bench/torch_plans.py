#!/usr/bin/env python3
"""Plans of ffsearch trained in PyTorch, in four processes over gloo, beside one process of PyTorch and ffrun.

usage: bench/torch_plans.py [--build build] [--steps 20] [--double] [--mode modules] [--found N] [--of LIST]
                            [MODEL...]

Six plans of four models (tests/torch/plan_models.py), SGD with momentum on the same batch and from the same
weights.  Prints a table in Markdown: by how much losses of all steps and the weights behind them are apart, and
the median steps.  resnet18 drifts as rounding does: with --double PyTorch computes in float64, without ffrun,
and what is left is what a plan does.  With --found N instead N plans a model that ffsearch finds with --space torch,
on two and on four devices; with --of LIST those are models of tests/torch/LIST_modules.py (field, newest, wide).
Needs PyTorch 2.11 or newer, and torchvision.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib
import pathlib
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/torch"))
import planned
import plan_models

# Where the rate of the others makes a loss jump, rounding does, too.
RATES = {"resnet18": 0.001}


def plan_of(model, ffsearch, name):
    """What ffsearch says; where Megatron has no such plan for a model, one that this bench writes.  Batch norms
    exclude micro-batches, but not stages."""
    plan = model.plan(ffsearch, *planned.PLANS[name])
    if isinstance(plan, str) and name == "pipeline 2 x 2":
        plan = model.plan(ffsearch, "--simulate", "megatron:1,2,2,1")
    if isinstance(plan, str) and name in ("tensor", "data x tensor, zero-1"):
        whole, names = model.plan(ffsearch, *planned.PLANS["data"]), planned.read_map(model)
        return planned.by_features(whole, 4 if name == "tensor" else 2, name != "tensor", names)
    return plan


def found(o, model, number):
    """What a search finds: of every second one on two devices, in a space of strategies that PyTorch can train."""
    return model.plan(f"{o.build}/planner/ffsearch", "--space", "torch", "--map", model.path("map.json"), "--proposals",
                      "2000", "--seed", str(number + 1), machine="cpu4" if number % 2 else "cpu2")


def row(o, model, name, one):
    plan = found(o, model, name) if o.found else plan_of(model, f"{o.build}/planner/ffsearch", name)
    if isinstance(plan, str):
        return f"| {model.name} | {name} | {plan.splitlines()[0]} |"
    ours = None if o.double else model.ffrun(f"{o.build}/runtime/ffrun", plan, o.steps)
    name = f"{plan['devices']} devices, seed {name + 1}" if o.found else name
    made = model.four([plan], o.steps, strict=False, mode=o.mode)
    if isinstance(made, str) or isinstance(ours, str):
        return f"| {model.name} | {name} | {(made if isinstance(made, str) else ours).splitlines()[-1]} |"
    losses, weights, took, told = made[0]
    apart = [f"{planned.apart(losses, other[0]):.1e}, {planned.apart(weights, other[1]):.1e}" if other else "-"
             for other in (one, ours)]
    return (f"| {model.name} | {name} | {apart[0]} | {apart[1]} | {took:.1f} | {one[2]:.1f} | "
            f"{f'{ours[2]:.1f}' if ours else '-'} | "
            f"{len({t.split(':')[0] for t in told})} of {len(plan['operators'])} |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--double", action="store_true")
    p.add_argument("--mode", choices=["graph", "modules"], default="graph", help="ffsoap_torch.apply's (%(default)s)")
    p.add_argument("--found", type=int, metavar="N", help="N plans a model that are searched")
    p.add_argument("--of", metavar="LIST", help="the models are of tests/torch/LIST_modules.py")
    p.add_argument("models", nargs="*", default=["gpt", "bert", "resnet18", "lstm"])
    o = p.parse_args()
    if o.of:
        for name, make in importlib.import_module(f"{o.of}_modules").MODELS.items():
            plan_models.MODELS[name] = lambda make=make: (torch.manual_seed(1), make())[1]
    print("| model | plan | from one process: losses, weights | from ffrun | PyTorch ms | one process ms | ffrun ms | "
          "gathered |\n|---|---|---|---|---|---|---|---|", flush=True)
    for name in o.models:
        planned.RATE = RATES.get(name, 0.05)
        with tempfile.TemporaryDirectory(prefix="ffplans") as folder:
            model = planned.Model(name, folder, torch.float64 if o.double else torch.float32)
            one = model.one(o.steps)
            for plan in range(o.found) if o.found else planned.PLANS:
                print(row(o, model, plan, one), flush=True)


if __name__ == "__main__":
    main()
