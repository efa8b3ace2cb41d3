#!/usr/bin/env python3
# How the strategies of strategies.tsv were drawn: writes a line for each, without what comes of it,
# which test_recorded --record adds.  SPDX-License-Identifier: Apache-2.0
"""usage: draw.py > strategies.tsv"""
import random

# batch, sizes; what makes micro-batches possible, where something else does not
NETS = {
    "mlp": (16, "layers=3 hidden=64 image=8", ""),
    "lenet": (12, "", ""),
    "alexnet": (16, "image=28 fc1=96 fc2=64", ""),
    "branchnet": (8, "blocks=2 image=12", ""),
    "vgg16": (8, "image=32 fc=64 classes=10", ""),
    "resnet50": (8, "image=32 classes=10", "norm=none"),
    "resnet101": (4, "image=64 classes=10", "norm_group=1"),
    "resnet152": (4, "image=32 classes=10", "norm=none"),
    "resnext50_32x4d": (8, "image=32 classes=10", "norm_group=2"),
    "mobilenet_v2": (8, "image=32 classes=10", "norm=none"),
    "googlenet": (8, "image=40 classes=10", "norm_group=2"),
    "inception_v3": (8, "image=80 classes=10", "norm=none"),
    "densenet121": (4, "image=32 classes=10", "norm=none"),
    "unet": (4, "image=16 depth=2 width=8", "norm_group=1"),
    "cosmoflow": (4, "image=16 layers=3 width=4", ""),
    "rnn": (8, "steps=4 hidden=32 layers=2 cell=lstm", ""),
    "rnnlm": (8, "steps=6 hidden=16 layers=2 vocabulary=90 pieces=3", ""),
    "rnntc": (8, "steps=4 hidden=16 layers=2 vocabulary=90 form=cells", ""),
    "nmt": (8, "steps=4 hidden=16 layers=1 vocabulary=90 pieces=2", ""),
    "lm": (16, "vocabulary=200 features=16 hidden=32 tie=yes", ""),
    "dlrm": (32, "rows=1000 tables=6", ""),
    "dlrm_terabyte": (32, "rows=500 tables=4 features=32", ""),
    "gpt2": (8, "layers=2 width=32 heads=4 sequence=16 vocabulary=96", ""),
    "gpt2_medium": (8, "layers=3 width=48 heads=4 sequence=12 vocabulary=96 dropout=10", ""),
    "gpt2_large": (4, "layers=4 width=40 heads=5 sequence=8 vocabulary=64", ""),
    "gpt2_xl": (8, "layers=2 width=50 heads=5 sequence=10 vocabulary=65", ""),
    "bert": (8, "layers=2 width=32 heads=4 sequence=16 vocabulary=96 task=words", ""),
    "bert_large": (4, "layers=3 width=32 heads=4 sequence=12 vocabulary=64", ""),
    "llama": (4, "layers=2 width=32 heads=4 key_heads=2 hidden=48 sequence=16 vocabulary=96", ""),
    "moe": (4, "layers=1 width=32 heads=4 key_heads=2 hidden=48 sequence=16 vocabulary=64 experts=4", ""),
    "vit_b16": (8, "layers=2 width=32 heads=4 image=32 classes=10", ""),
}
# devices that are used: two kinds on uneven nodes, with and without overlap, links that are shared
MACHINES = ["cpu2", "cpu4", "cpu8", "mixed", "mixed --devices 5", "p100x16 --devices 3", "p100x16 --devices 4",
            "p100x16 --devices 8", "p100x16 --devices 8 --no-overlap", "p100x16 --devices 12", "p100x16",
            "p100x16 --no-overlap", "k80x64 --devices 8", "k80x64 --devices 6", "k80x64 --devices 16",
            "a100x256 --devices 8", "a100x256 --devices 16"]
# devices, where some starts need a number of them
EVEN = {"cpu2": 2, "cpu4": 4, "cpu8": 8, "p100x16 --devices 4": 4, "p100x16 --devices 8": 8, "p100x16": 16,
        "p100x16 --no-overlap": 16, "k80x64 --devices 8": 8, "a100x256 --devices 16": 16}
UPDATES = ["", "", "--update cut", "--update cut --again", "--update served", "--update copied",
           "--update mixed", "--update mixed --again"]

draw = random.Random(20261124)


def network(name, micro=False):
    batch, sizes, sets = NETS[name]
    sets = sizes.split() + (sets.split() if micro else [])
    if draw.randrange(5) == 0:
        sets.append("dtype=bfloat16")
    return " ".join([name, "--batch %d" % batch] + ["--set " + s for s in sets])


def extras():
    """What every strategy may have beside."""
    words = []
    if draw.randrange(2):
        words.append("--optimizer " + draw.choice(["sgd", "momentum", "adamw"]))
    if draw.randrange(4) == 0:
        words.append("--clip")
    if draw.randrange(4) == 0:
        words.append("--compress " + draw.choice(["bfloat16", "ternary"]))
    if draw.randrange(6) == 0:
        words.append("--staleness %d" % draw.randrange(1, 4))
    return words


def phases(name):
    batch, least = NETS[name][0], 2 if "norm_group=2" in NETS[name][2] else 1
    words = ["--micro-batches %d" % draw.choice([m for m in (2, 4, 8) if batch % m == 0 and batch // m >= least])]
    words.append("--order " + draw.choice(["1f1b", "gpipe"]))
    if draw.randrange(2):
        words.append("--stages %d" % draw.randrange(2, 6))
    if draw.randrange(2):
        words.append("--recompute %d" % draw.randrange(1, 6))
    return words


def say(*words):
    print(" ".join(w for w in words if w))


def say_all(name):
    machine = lambda: "--machine " + draw.choice(MACHINES)
    say(network(name), machine(), "--simulate data-parallel", draw.choice(UPDATES), *extras())
    say(network(name, True), machine(), "--simulate data-parallel", draw.choice(UPDATES), *phases(name), *extras())
    start = draw.choice(["expert", "single", "expert", "random --seed %d" % draw.randrange(100)])
    say(network(name, True), machine(), "--simulate", start, draw.choice(UPDATES), *phases(name), *extras())
    even = draw.choice(sorted(EVEN))
    say(network(name, True), "--machine", even, "--simulate pipeline-%d" % draw.choice([n for n in (2, 4, 8) if n <= EVEN[even]]),
        draw.choice(UPDATES), *extras())
    say(network(name), machine(), "--simulate random --seed %d" % draw.randrange(100), draw.choice(UPDATES), *extras())
    say(network(name), machine(), "--simulate drawn --seed %d" % draw.randrange(1000), *extras())


print("""# Strategies, and what comes of them: input, schedule, step time, memory, bytes (made.h).
# After a change that is meant to change them: build/tests/recorded/test_recorded --record
# The lines were drawn by draw.py; others may be added by hand, without what comes of them.""")
for name in NETS:
    say_all(name)
# one device; averaging, which only data parallelism has; many devices
for name in ("mlp", "lm", "gpt2"):
    say(network(name), "--machine cpu1 --simulate single", *extras())
    say(name, "--batch %d" % NETS[name][0], *("--set " + s for s in NETS[name][1].split()),
        "--machine", draw.choice(["cpu4", "p100x16"]), "--simulate data-parallel --average-every",
        str(draw.randrange(2, 9)), "--optimizer", draw.choice(["sgd", "momentum", "adamw"]))
for name, machine in (("gpt2", "k80x64"), ("mlp", "a100x256 --devices 64"), ("resnet50", "k80x64"),
                      ("moe", "a100x256 --devices 64"), ("dlrm", "k80x64 --no-overlap")):
    say(network(name), "--machine", machine, "--simulate data-parallel", draw.choice(UPDATES), *extras())
say("gpt2 --batch 64 --set layers=6 --set width=32 --set heads=4 --set sequence=16 --set vocabulary=96",
    "--machine k80x64 --simulate pipeline-8 --update cut --optimizer adamw")
say("mlp --batch 64 --set hidden=128 --machine a100x256 --devices 64 --simulate expert --micro-batches 4 --order 1f1b")
