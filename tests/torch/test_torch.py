# ffrun's losses and gradients against PyTorch's.
# Usage: test_torch.py operators|networks|split|steps|optimizers|bfloat16|transformers|modules|nonfinite FFRUN FFZOO FFRUN_DENSE
# SPDX-License-Identifier: Apache-2.0
import random
import sys

import graphs
import networks
import nonfinite
import philox
import reference
import sequences
import strategies
import training
import transformers
from case import (EVERY, SMALL_COSMOFLOW, SMALL_UNET, Case, by_group, computes_bfloat16, extents, ffrun_dense,
                  in_bfloat16, split, tap)
from pytorch import np
from reference import TOLERANCE
from splits import test_split
from steps import test_steps, train
from updates import test_late, test_optimizers, updates


def test_philox():
    """Known answers of the authors' Random123 1.14, kat_vectors."""
    known = [(0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
             (2 ** 64 - 1, 2 ** 64 - 1, 2 ** 64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
             (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88,
              "d16cfe09 94fdcceb 5001e420 24126ea1")]
    for key, hi, lo, words in known:
        got = " ".join(f"{int(w):08x}" for w in philox.philox(key, hi, lo).reshape(4))
        tap.say(got == words, f"philox of {key:x}", [] if got == words else [got, words])


def test_operators():
    test_philox()
    for make in (*EVERY, graphs.losses, graphs.means):
        graph = make()
        case = Case(graph["name"], 2).made(graph)
        # several steps: biases that are no longer zero, masks of later steps
        options = ("--rate", "0.05", "--momentum", "0.5")
        losses = case.run(steps=3, options=options)
        if losses is not None:
            case.check(groups=True)
            case.check_losses(losses, case.same_samples(3), rate=0.05, momentum=0.5)
    for rank in (4, 3):
        graph = graphs.dense(rank)
        case = Case(graph["name"]).made(graph)
        losses = case.run(steps=3, program=ffrun_dense, options=("--rate", "0.1"))
        if losses is not None:
            inputs = reference.inputs_of(case.tensors)
            labels = inputs["labels"]
            tap.say((labels == -1).any() and labels.max() == 6, f"{case.name}: labels",
                    [f"{(labels == -1).sum()} of {labels.size} are to be ignored"])
            case.check()
            case.check_losses(losses, [inputs] * 3, rate=0.1)


# Seeds for which no relu and no maximum is so near to turning (see "nearest
# choice" in reference.py) that float32 could decide otherwise than float64.
NETWORKS = {
    "lenet": (1, ["lenet", "--batch", "8"]),
    "lenet with max pooling and relu": (2, ["lenet", "--batch", "8", "--set", "pool=max",
                                            "--set", "activation=relu"]),
    "mlp": (3, ["mlp", "--batch", "8", "--set", "hidden=200"]),
    "mlp with sigmoid": (1, ["mlp", "--batch", "8", "--set", "hidden=100",
                             "--set", "activation=sigmoid"]),
    "branchnet": (4, ["branchnet", "--batch", "4"]),
    "branchnet for 64x64": (1, ["branchnet", "--batch", "2", "--set", "image=64",
                                "--set", "channels=3", "--set", "blocks=2"]),
    "alexnet for 28x28": (4, ["alexnet", "--batch", "4", "--set", "image=28"]),
    "rnn": (1, ["rnn", "--batch", "8"]),
    "lstm of two layers": (1, ["rnn", "--batch", "8", "--set", "cell=lstm", "--set", "layers=2",
                               "--set", "hidden=40"]),
    "lm": (1, ["lm", "--batch", "8", "--set", "vocabulary=1000"]),
    "tied lm": (1, ["lm", "--batch", "8", "--set", "vocabulary=1000", "--set", "tie=yes"]),
    "unet": (1, ["unet", "--batch", "3", *SMALL_UNET]),
    "unet, enlarging, of odd size": (1, ["unet", "--batch", "3", *SMALL_UNET, "--set",
                                         "decoder=upsample", "--set", "image=21"]),
    "unet as published": (1, ["unet", "--batch", "2", *SMALL_UNET, "--set", "norm=none",
                              "--set", "padding=valid", "--set", "image=44"]),
    "cosmoflow": (1, ["cosmoflow", "--batch", "3", *SMALL_COSMOFLOW]),
    "gpt2 with dropout": (1, ["gpt2", *transformers.SIZES["gpt2"], "--set", "dropout=30"]),
    "bert with dropout": (1, ["bert", *transformers.SIZES["bert"], "--set", "dropout=10",
                              "--set", "task=words"]),
    "alexnet for 224x224": (reference.SOME, ["alexnet", "--batch", "2", "--set", "dropout=0"]),
}


def test_networks():
    for name, (seeds, args) in NETWORKS.items():
        def draw(seed):
            case = Case(name, seed).zoo(*args)
            return None if case.run() is None else case

        case = reference.first_agreeing(seeds if isinstance(seeds, tuple) else (seeds,), draw,
                                        Case.agrees)
        if case:
            case.check()


def check_module(case, module):
    """Loss and gradients of the first step, beside a module of PyTorch's."""
    weights = {name[5:]: case.tensors[name[5:]] for name in case.tensors if name.startswith("grad.")}
    loss, gradients = transformers.step(module, weights, reference.inputs_of(case.tensors))
    apart = {name: reference.distance(case.tensors["grad." + name], gradient)
             for name, gradient in gradients.items()}
    # what is added to all keys changes nothing: there is no such gradient
    apart = {name: d for name, d in apart.items() if not name.endswith(".key.bias")}
    apart["loss"] = reference.distance(case.tensors["loss"], loss)
    worst = max(apart, key=apart.get)
    tap.say(apart[worst] <= TOLERANCE, f"{case.name}: as PyTorch's module",
            [f"{worst} apart by {apart[worst]:.2g}"])


def beside_modules(nets, plans):
    """On one device and under random strategies; `plans`: numbers of devices and seeds."""
    for i, (net, module, sizes) in enumerate(nets):
        text = " ".join([net, *(x for x in sizes if "=" in x)])
        case = Case(text, 3).zoo(net, *sizes)
        if case.run() is None:
            continue
        check_module(case, module)
        _, own = reference.compare(case.graph, case.tensors, case.seed)
        known, (shapes, depths) = case.hash(), extents(case, own)
        for devices, seed in reference.shared(plans, i):
            plan = strategies.random_strategy(case.path.read_text(), devices, shapes, depths,
                                          random.Random(seed), known)
            case.name = f"{text} on {devices} devices, random strategy {seed}"
            if case.run(plan, devices) is not None:
                check_module(case, module)


def test_transformers():
    beside_modules(transformers.NETS, [(2, 1), (3, 2), (4, 3), (4, 4)])


def test_modules():
    beside_modules(networks.NETS, [(3, 1), (4, 2)])


ROUNDED_SEEDS = range(2, 14)


def check_rounding(name, graph):
    """Each case, in one of some draws, agrees so well that nothing is rounded in another place;
    sums that fall to the other side of a half, as those of means do, are not in all of them."""
    least = {}
    for seed in ROUNDED_SEEDS:
        case = Case(name, seed).made(graph)
        if case.run() is None:
            return
        apart, _ = reference.compare(case.graph, case.tensors, seed)
        for group, of_group in by_group(apart, True).items():
            least[group] = min(least.get(group, np.inf), max(of_group)[0])
        worst = max(least, key=least.get)
        if least[worst] <= reference.ROUNDED_ALIKE:
            break
    tap.say(least[worst] <= reference.ROUNDED_ALIKE, f"{name}: rounded where ffrun rounds",
            [f"{worst} apart by {least[worst]:.2g} in the best of draws: {seed - 1}"])


def test_bfloat16():
    """Beside PyTorch that rounds where ffrun stores: operators, networks, updates."""
    if not computes_bfloat16():
        tap.say(True, "bfloat16 # SKIP not on this processor")
        return
    for make in (*EVERY, graphs.losses, graphs.means):
        if make in (sequences.recurrences, sequences.routes):
            continue
        graph = make()
        case = Case(f"{graph['name']} in bfloat16", 2).made(in_bfloat16(graph))
        losses = case.run(steps=3, options=("--rate", "0.01", "--momentum", "0.5"))
        if losses is not None:
            case.check(groups=True)
        check_rounding(case.name, in_bfloat16(graph))
    net = ["lenet", "--batch", "12", "--set", "dtype=bfloat16"]
    for optimizer in training.OPTIMIZERS:
        train(f"lenet in bfloat16, {optimizer}", net, 3, 8, optimizer=optimizer)
    for kind, devices in (("following", 3), ("in parts", 4), ("served", 3), ("everywhere", 2)):
        case = Case("", 3).zoo(*net[:2], "7", *net[3:])
        if case.run() is None:
            continue
        case.name = f"lenet in bfloat16, updated {kind}, {devices} devices"
        split(case, updates(case, kind, devices), devices, optimizer="adamw", rate=0.0003)


def test_nonfinite():
    """What is no number is none in what it makes, and in gradients, where PyTorch's is none."""
    host = reference.DEVICE == "cpu"
    for seed, make in enumerate(nonfinite.ALL if host else nonfinite.CHOOSING, 1):
        nonfinite.check(tap, Case, make, ffrun_dense, seed)
    if host and computes_bfloat16():
        for seed, make in reference.shared(enumerate(nonfinite.CHOOSING, 101)):
            nonfinite.check(tap, Case, make, ffrun_dense, seed, in_bfloat16)


{"operators": test_operators, "bfloat16": test_bfloat16, "networks": test_networks, "split": test_split,
 "steps": test_steps, "optimizers": test_optimizers, "transformers": test_transformers,
 "modules": test_modules, "late": test_late, "nonfinite": test_nonfinite}[sys.argv[1]]()
tap.end()
sys.exit(tap.failed > 0)
