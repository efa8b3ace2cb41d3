# Updates wherever parameters are updated: every optimizer, groups, clipped, averaged, late.
# SPDX-License-Identifier: Apache-2.0
import itertools

import graphs
import reference
import strategies
import training
from case import SMALL_LM, Case, computes_bfloat16, options_of, split, tap


def updates(case, kind, devices, known=None):
    """Data parallelism; updates everywhere, in parts (ZeRO) or on one device."""
    where = {"following": None, "in parts": lambda shape: (
                 {"axis0": min(devices, shape[0])}, list(range(min(devices, shape[0])))),
             "served": lambda shape: ({}, [devices - 1]),
             "everywhere": lambda shape: ({}, list(range(devices)), devices)}[kind]
    weights = {name: t.shape for name, t in case.tensors.items() if "grad." + name in case.tensors}
    own = {name: where(shape) for name, shape in weights.items()} if where else {}
    return strategies.strategy(case.path.read_text(), devices, own, known)


def test_optimizers():
    """Every way to update, with states of every number, beside PyTorch on one device."""
    told = {"sgd": {"rate": 0.02, "decay": 0.05},
            "momentum": {"rate": 0.01, "momentum": 0.8, "decay": 0.05},
            "nesterov": {"rate": 0.01, "momentum": 0.8, "decay": 0.05},
            "adam": {"rate": 0.002, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4, "decay": 0.1},
            "adamw": {"rate": 0.002, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4, "decay": 0.5}}
    ways = (("following", 3), ("in parts", 2), ("in parts", 4), ("served", 3), ("everywhere", 2))
    nets = (("lenet", ["lenet", "--batch", "7"]),
            ("tied lm", ["lm", "--batch", "5", "--set", "vocabulary=41", *SMALL_LM, "--set",
                         "tie=yes"]))
    for i, (net, zoo) in enumerate(nets):
        case = Case(net, 3).zoo(*zoo)
        if case.run() is None:
            continue
        for optimizer, (kind, devices) in reference.shared(itertools.product(told, ways), i):
            case.name = f"{net}, {optimizer} {kind}, {devices} devices"
            split(case, updates(case, kind, devices), devices, optimizer=optimizer,
                  **told[optimizer])
    test_groups()
    test_clip()
    test_average()


GROUPS = {"optimizer": "adamw", "rate": 0.002, "decay": 0.5, "schedule": "step", "step_size": 2,
          "epsilon": 1e-4, "groups": ["norm,bias:decay=0", "fc2.*,norm2.*,fc3.weight:factor=0.25,decay=0.1"]}


def test_groups():
    """Groups whose parameters share buckets, wherever those are updated; norms among them."""
    case = Case("rows", 2).made(graphs.rows())
    if case.run() is None:
        return
    known = case.hash()
    for kind, devices in (("following", 1), ("following", 3), ("in parts", 4), ("served", 3),
                          ("everywhere", 2)):
        case.name = f"rows by groups {kind}, {devices} devices"
        strategy = updates(case, kind, devices, known) if devices > 1 else "single"
        split(case, strategy, devices, **GROUPS)
    half = Case("", 3).zoo("lenet", "--batch", "7", "--set", "dtype=bfloat16")
    if computes_bfloat16() and half.run() is not None:
        half.name = "lenet in bfloat16 by groups in parts, 4 devices"
        split(half, updates(half, "in parts", 4), 4,
              **dict(GROUPS, groups=["bias:decay=0", "fc*:factor=0.25"]))


def test_average():
    """Parameters and states instead of gradients, every other step and after the last."""
    case = Case("lenet", 3).zoo("lenet", "--batch", "7")
    for devices, every, settings in ((2, 3, {"optimizer": "momentum", "rate": 0.05}),
                                     (3, 2, {"optimizer": "adam", "rate": 0.002, "epsilon": 1e-4})):
        case.name = f"lenet, {settings['optimizer']}, averaged every {every} steps, {devices} devices"
        losses = case.run("data-parallel", devices, steps=6,
                          options=options_of(dict(settings, average_every=every)))
        if losses is None:
            continue
        case.check()
        want = training.averaged_losses(case.graph, case.tensors, case.same_samples(6), case.seed,
                                         every, devices, **settings)
        worst = max(reference.distance(a, b) for a, b in zip(losses, want))
        tap.say(worst <= reference.tolerance(case.graph), f"{case.name}: losses",
                [f"{losses} for {want}"])


def test_clip():
    """By the norm of all gradients, wherever parameters are updated; tied ones, micro-batches."""
    nets = (("lenet", ["lenet", "--batch", "6"], 0.8, {"optimizer": "nesterov", "rate": 0.3}),
            ("tied lm", ["lm", "--batch", "6", "--set", "vocabulary=41", *SMALL_LM,
                         "--set", "tie=yes"], 0.3, {"optimizer": "sgd", "rate": 1}),
            ("lenet in bfloat16", ["lenet", "--batch", "6", "--set", "dtype=bfloat16"], 0.8,
             {"optimizer": "sgd", "rate": 0.3}))
    for i, (net, zoo, clip, settings) in enumerate(nets):
        case = Case(net, 3).zoo(*zoo)
        if ("dtype=bfloat16" in zoo and not computes_bfloat16()) or case.run() is None:
            continue
        ways = (("following", 1), ("following", 3), ("in parts", 2), ("in parts", 4),
                ("served", 3), ("everywhere", 2))
        for kind, devices in reference.shared(ways, i):
            strategy = updates(case, kind, devices) if devices > 1 else "single"
            for micro in (1, 2) if devices in (1, 2) and devices > 1 else (1,):
                if micro > 1:
                    strategy = dict(strategy, micro_batches=micro, order="1f1b")
                case.name = f"{net} clipped, {kind}, {devices} devices, {micro} micro-batches"
                split(case, strategy, devices, clip=clip, **settings)


def test_late():
    """Wherever parameters are updated; tied ones, micro-batches, clipped, by a schedule."""
    told = ({"optimizer": "sgd", "rate": 0.05}, {"optimizer": "momentum", "rate": 0.01, "momentum": 0.8},
            {"optimizer": "adamw", "rate": 0.002, "epsilon": 1e-4, "decay": 0.5, "schedule": "cosine"},
            {"optimizer": "adam", "rate": 0.002, "epsilon": 1e-4, "clip": 0.8})
    nets = (("lenet", ["lenet", "--batch", "8"]),
            ("tied lm", ["lm", "--batch", "8", "--set", "vocabulary=41", *SMALL_LM, "--set", "tie=yes"]))
    ways = (("following", 1), ("following", 2), ("following", 4), ("in parts", 2), ("in parts", 4),
            ("served", 2), ("served", 4), ("everywhere", 2))
    for net, zoo in nets:
        case = Case(net, 3).zoo(*zoo)
        if case.run() is None:
            continue
        for i, (kind, devices) in enumerate(ways):
            strategy = updates(case, kind, devices) if devices > 1 else "single"
            if i in (3, 6):
                strategy = dict(strategy, micro_batches=2, order="1f1b")
            late = 1 + i % 3
            settings = told[(i + (net == "tied lm")) % len(told)]
            case.name = f"{net}, {settings['optimizer']}, {late} late, {kind}, {devices} devices"
            split(case, strategy, devices, 10, staleness=late, **settings)
