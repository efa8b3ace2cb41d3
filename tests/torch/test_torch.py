# ffrun's losses and gradients against PyTorch's.
# Usage: test_torch.py operators|networks|split|steps|optimizers|bfloat16|transformers|modules|nonfinite FFRUN FFZOO FFRUN_DENSE
# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

import reference
from reference import TOLERANCE, np, torch  # says SKIP and ends without PyTorch
import graphs
import networks
import nonfinite
import transformers

tap = reference.Tap()
ffrun, ffzoo, ffrun_dense = sys.argv[2:5]


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
                              text=True, timeout=200)
        if done.returncode:
            tap.say(False, f"{self.name}: ffrun", [f"exit status {done.returncode}", done.stderr])
            return None
        self.tensors = reference.read_safetensors(self.folder / "dump")
        return json.loads((self.folder / "report").read_text())["loss"] if steps else []

    def hash(self):
        """Of the graph, as ffrun says it of a strategy for another one."""
        foreign = graphs.strategy(self.path.read_text(), 1, {}, "0" * 16)
        (self.folder / "foreign.json").write_text(json.dumps(foreign))
        done = subprocess.run([ffrun, self.path, self.folder / "foreign.json", "--data",
                               "synthetic:99", "--steps", "1"], capture_output=True, text=True)
        return re.search(r"not for this graph .*\(hash (\w+)\)", done.stderr).group(1)

    def agrees(self):
        apart, _ = reference.compare(self.graph, self.tensors, self.seed)
        return max(apart.values()) <= reference.tolerance(self.graph)

    def check(self, groups=False):
        """Loss and gradients of the first step; `groups`: a line for each case in the graph."""
        apart, net = reference.compare(self.graph, self.tensors, self.seed)
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
        want = reference.trained_losses(self.graph, self.tensors, batches, self.seed, **settings)
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
        shuffle = reference.Shuffle(batch, self.seed)
        back = np.argsort(shuffle.batch(0, batch))
        return [{name: value[back][shuffle.batch(step, batch)] for name, value in inputs.items()}
                for step in range(steps)]


# ---- every operator ----

def test_philox():
    """Known answers of the authors' Random123 1.14, kat_vectors."""
    known = [(0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
             (2 ** 64 - 1, 2 ** 64 - 1, 2 ** 64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
             (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88,
              "d16cfe09 94fdcceb 5001e420 24126ea1")]
    for key, hi, lo, words in known:
        got = " ".join(f"{int(w):08x}" for w in reference.philox(key, hi, lo).reshape(4))
        tap.say(got == words, f"philox of {key:x}", [] if got == words else [got, words])


def test_operators():
    test_philox()
    for make in (graphs.convolutions, graphs.transposed, graphs.pools, graphs.spatial, graphs.pointwise, graphs.functions, graphs.joints, graphs.tied,
                 graphs.moves, graphs.pads, graphs.broadcasts, graphs.reductions, graphs.products, graphs.words,
                 graphs.attention, graphs.recurrences, graphs.routes, graphs.norms, graphs.losses):
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


# ---- networks ----

SMALL_UNET = ["--set", "image=16", "--set", "width=4", "--set", "depth=2", "--set", "classes=3"]

SMALL_COSMOFLOW = ["--set", "image=13", "--set", "width=3", "--set", "layers=3", "--set", "fc1=9",
                   "--set", "fc2=7"]

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


# ---- split over devices ----

# Of lenet: every label, reductions, single devices, uneven parts, devices in another order.
BY_HAND = {
    2: {"conv1": ({"height": 2}, [0, 1]), "act1": ({"width": 2}, [1, 0]),
        "pool1": ({"channel": 2}, [0, 1]), "conv2": ({"in_channel": 2}, [0, 1]),
        "act2": ({"height": 2}, [0, 1]), "pool2": ({}, [1]), "flatten": ({"sample": 2}, [0, 1]),
        "fc1": ({"in_feature": 2}, [1, 0]), "act3": ({"feature": 2}, [0, 1]),
        "fc2": ({"out_feature": 2}, [0, 1]), "act4": ({}, [0]),
        "fc3": ({"in_feature": 2}, [0, 1]), "loss": ({"sample": 2}, [1, 0])},
    3: {"conv1": ({"out_channel": 3}, [2, 0, 1]), "act1": ({"height": 3}, [0, 1, 2]),
        "pool1": ({"width": 3}, [0, 1, 2]), "conv2": ({"height": 3}, [1, 2, 0]),
        "act2": ({"channel": 3}, [0, 1, 2]), "pool2": ({"height": 2}, [2, 0]),
        "fc1": ({"out_feature": 3}, [0, 1, 2]), "fc2": ({"in_feature": 3}, [0, 2, 1]),
        "fc3": ({"out_feature": 3}, [0, 1, 2]), "loss": ({"class": 3}, [0, 1, 2])},
    4: {"conv1": ({"height": 2, "width": 2}, [0, 1, 2, 3]),
        "conv2": ({"out_channel": 2, "in_channel": 2}, [3, 1, 2, 0]),
        "act2": ({"sample": 2, "width": 2}, [0, 1, 2, 3]),
        "fc1": ({"out_feature": 2, "in_feature": 2}, [0, 1, 2, 3]),
        "act3": ({"sample": 4}, [3, 2, 1, 0]), "fc2": ({"sample": 2, "in_feature": 2},
                                                      [0, 2, 1, 3]),
        "fc3": ({"sample": 2, "out_feature": 2}, [0, 1, 2, 3]),
        "loss": ({"sample": 2, "class": 2}, [0, 1, 2, 3])},
}


# The loss by class: where its logits are, where they are not, more than once.
BY_CLASS = {
    "where the logits are": (2, ({"class": 2}, [0, 1])),
    "the other way round": (2, ({"class": 2}, [1, 0])),
    "in uneven parts": (3, ({"class": 3}, [0, 1, 2])),
    "on four": (4, ({"class": 4}, [0, 1, 2, 3])),
    "and by sample": (4, ({"sample": 2, "class": 2}, [0, 1, 2, 3])),
    "and by sample, across": (4, ({"sample": 2, "class": 2}, [3, 1, 0, 2])),
    "twice": (4, ({"class": 2}, [0, 1, 2, 3], 2)),
}

SMALL_LM = ["--set", "features=6", "--set", "context=3", "--set", "hidden=11"]

# Of graphs.tied: readers that agree and that do not, parameters updated elsewhere.
TIED = {
    "read alike": (2, {"linear.a": ({"out_feature": 2}, [0, 1]),
                       "linear.b": ({"out_feature": 2}, [0, 1]),
                       "rank.a": ({"in_feature": 2}, [1, 0]),
                       "rank.b": ({"in_feature": 2}, [1, 0])}),
    "read differently": (3, {"linear.a": ({"out_feature": 3}, [2, 0, 1]),
                             "linear.b": ({"in_feature": 2}, [0, 2]),
                             "thrice.a": ({}, [1]), "thrice.b": ({"out_feature": 2}, [1, 2]),
                             "rank.b": ({"axis1": 3}, [0, 1, 2]),
                             "conv.b": ({"out_channel": 2}, [0, 1])}),
    "replicas": (4, {"linear.a": ({"sample": 2}, [0, 1, 2, 3], 2),
                     "linear.b": ({"out_feature": 2}, {"start": 0, "strides": {"out_feature": 2},
                                                       "replica_stride": 1}, 2),
                     "thrice.b": ({}, [3, 1, 0], 3), "loss": ({}, [0, 1, 2, 3], 4),
                     "conv.b": ({"in_channel": 2}, [0, 1, 2, 3], 2)}),
    "sharded updates": (4, {name: ({"axis0": 4}, {"start": 0, "strides": {"axis0": 1}})
                            for name in ("linear.a.weight", "shared.w", "shared.b",
                                         "rank.a.weight", "conv.a.weight", "conv.a.bias")}),
    "a server": (3, {name: ({}, [2]) for name in ("linear.a.weight", "shared.w", "shared.b",
                                                  "rank.a.weight", "conv.a.weight")}),
    "updated everywhere": (3, {name: ({}, [0, 1, 2], 3)
                               for name in ("linear.a.weight", "shared.w", "conv.a.bias")}),
}


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


def split_at_random(name, weights_seed, zoo, splits, first=0):
    """`zoo`: arguments of ffzoo, or a graph; `splits`: numbers of devices and seeds of
    strategies; `first`: of reference.shared."""
    case = Case(name, weights_seed)
    case.made(zoo) if isinstance(zoo, dict) else case.zoo(*zoo)
    if case.run() is None:
        return
    net, known = case.check(), case.hash()
    shapes, depths = extents(case, net)
    for devices, seed in reference.shared(splits, first):
        strategy = graphs.random_strategy(case.path.read_text(), devices, shapes, depths,
                                          random.Random(seed), known)
        case.name = f"{name} on {devices} devices, random strategy {seed}"
        split(case, strategy, devices)


def in_phases(text, devices, micro_batches, order, stages, again):
    """A pipeline of `stages`, each by sample over its share of the devices, where every
    operator whose number is in `again` is computed again; parameters in parts, of which
    every second is gathered again."""
    nodes = [n for n in json.loads(text)["nodes"] if n["op"] != "input"]
    group = devices // stages
    chosen = {}
    for i, node in enumerate(nodes):
        first = i * stages // len(nodes) * group
        chosen[node["name"]] = ({"sample": group}, list(range(first, first + group)))
        if node["op"] in ("conv2d", "linear"):
            chosen[node["name"] + ".weight"] = ({"axis0": devices}, list(range(devices)))
    made = graphs.strategy(text, devices, chosen)
    made.update(micro_batches=micro_batches, order=order)
    names = [node["name"] for node in nodes]
    weights = [entry for entry in made["operators"] if entry["name"].endswith(".weight")]
    for entry in made["operators"]:
        if entry["name"] in names:
            i = names.index(entry["name"])
            entry["stage"] = i * stages // len(nodes)
            entry["recompute"] = i in again and i + 1 < len(nodes)
    for entry in weights[::2]:
        entry["recompute"] = True
    return made


PHASES = [(1, 4, "1f1b", 1, ()), (2, 2, "gpipe", 2, ()), (2, 4, "1f1b", 2, (1, 2, 4, 5)),
          (3, 8, "1f1b", 3, range(0, 99, 2)), (4, 2, "gpipe", 2, range(99)),
          (2, 1, "gpipe", 1, range(99))]


def split_in_phases():
    """Micro-batches in either order, stages, values made again."""
    nets = (("lenet", ["lenet", "--batch", "8"]),
            ("alexnet for 16x16", ["alexnet", "--batch", "8", "--set", "image=16",
                                   "--set", "fc1=45", "--set", "fc2=31"]))
    for i, (name, zoo) in enumerate(nets):
        case = Case(name, 5).zoo(*zoo)
        text = case.path.read_text()
        for phases in reference.shared(PHASES, i):
            case.name = "{}, {} devices, {} micro-batches, {}, {} stages".format(name, *phases)
            split(case, in_phases(text, *phases), phases[0])


def split_by_class():
    """Behind a layer by output feature; and, labels to be ignored among them, at every
    position."""
    lm = Case("lm", 3).zoo("lm", "--batch", "6", "--set", "vocabulary=41", *SMALL_LM)
    text = lm.path.read_text()
    for name, (devices, loss) in reference.shared(BY_CLASS.items()):
        lm.name = f"lm, loss by class {name}"
        logits = ({"out_feature": devices}, list(range(devices)))
        split(lm, graphs.strategy(text, devices, {"logits": logits, "loss": loss}), devices)
    for rank in (4, 3):
        case = Case("").made(graphs.dense(rank))
        text, known = case.path.read_text(), case.hash()
        axis = "height" if rank == 4 else "axis2"
        splits = dict(BY_CLASS, **{f"and by {axis}": (4, ({axis: 2, "class": 2}, [2, 0, 1, 3]))})
        for name, (devices, loss) in reference.shared(splits.items(), 5 - rank):
            case.name = f"dense labels of rank {rank - 1}, loss by class {name}"
            # the batch is 3
            operators = {node["name"]: ({"sample": 3}, [0, 1, 2]) if devices > 2 else ({}, [1])
                         for node in json.loads(text)["nodes"] if node["op"] != "input"}
            operators["conv2"] = ({"out_channel": devices}, list(range(devices)))
            operators["loss"] = loss
            strategy = graphs.strategy(text, devices, operators, known)
            losses = case.run(strategy, devices, steps=3, program=ffrun_dense,
                              options=("--rate", "0.1"))
            if losses is not None:
                inputs = reference.inputs_of(case.tensors)
                tap.say((inputs["labels"] == -1).any(), f"{case.name}: some are ignored")
                case.check()
                case.check_losses(losses, [inputs] * 3, rate=0.1)


def split_maxima():
    """Along the axes that they reduce, equal ones in several parts among them."""
    graph = graphs.reductions()
    case = Case("reductions, maxima in parts", 2).made(graph)
    operators, order = {}, list(range(4))
    for node in graph["nodes"]:
        if node["op"] == "reduce_max":
            names = [["", "channel", "height", "width"][i] for i in node["axes"]]
            cut = {name: 4 if len(names) == 1 else 2 for name in names[:2]}
            operators[node["name"]] = ({"feature": 4} if "features" in node["name"] else cut, order)
            order = order[1:] + order[:1]
    split(case, graphs.strategy(case.path.read_text(), 4, operators, case.hash()), 4)


def split_by_step():
    """Every recurrence by steps, some by samples too, the next one on other devices."""
    graph = graphs.recurrences()
    case = Case("recurrences on 4 devices by step", 2).made(graph)
    cuts = [{"step": 4}, {"sample": 2, "step": 2}, {"step": 3}]
    operators, order = {}, list(range(4))
    for i, node in enumerate(n for n in graph["nodes"] if n["op"] in ("rnn", "lstm", "gru")):
        cut = cuts[i % len(cuts)]
        operators[node["name"]] = (cut, order[:3] if cut == {"step": 3} else order)
        order = order[1:] + order[:1]
    split(case, graphs.strategy(case.path.read_text(), 4, operators, case.hash()), 4)


def split_by_sample(graph, program=ffrun):
    """Every operator, the batch in uneven parts."""
    case = Case(f"{graph['name']} on 3 devices by sample", 2).made(graph)
    if case.run("data-parallel", 3, program=program) is not None:
        case.check()


def test_split():
    lenet = Case("lenet").zoo("lenet", "--batch", "7")
    text = lenet.path.read_text()
    for devices, operators in BY_HAND.items():
        lenet.name = f"lenet on {devices} devices by hand"
        split(lenet, graphs.strategy(text, devices, operators), devices)
    split_at_random("branchnet", 3, ["branchnet", "--batch", "5", "--set", "blocks=2",
                                     "--set", "width=6"], [(2, 1), (3, 2), (4, 3)])
    split_at_random("alexnet for 16x16", 3, ["alexnet", "--batch", "5", "--set", "image=16",
                                             "--set", "fc1=45", "--set", "fc2=31"],
                    [(3, 4), (4, 5)])
    split_at_random("unet", 3, ["unet", "--batch", "4", *SMALL_UNET], [(2, 1), (3, 2), (4, 3)])
    split_at_random("gpt2 with dropout", 3, ["gpt2", *transformers.SIZES["gpt2"], "--set",
                                             "dropout=30"], [(2, 1), (3, 2), (4, 3)])
    split_at_random("cosmoflow", 3, ["cosmoflow", "--batch", "4", *SMALL_COSMOFLOW],
                    [(2, 1), (3, 2), (4, 3)])
    split_at_random("rnn", 3, ["rnn", "--batch", "5", "--set", "steps=4", "--set", "hidden=9",
                               "--set", "features=5", "--set", "layers=2"], [(2, 1), (4, 2)])
    split_at_random("lstm", 3, ["rnn", "--batch", "5", "--set", "steps=3", "--set", "hidden=6",
                                "--set", "features=5", "--set", "cell=lstm"], [(3, 1), (4, 2)])
    split_at_random("lm", 3, ["lm", "--batch", "5", "--set", "vocabulary=41", *SMALL_LM],
                    [(2, 1), (4, 2), (4, 3)])
    split_at_random("tied lm", 3, ["lm", "--batch", "5", "--set", "vocabulary=41", *SMALL_LM,
                                   "--set", "tie=yes"], [(2, 1), (3, 2), (4, 3)])
    at_random = (graphs.transposed, graphs.pools, graphs.spatial, graphs.functions, graphs.pads, graphs.broadcasts,
                 graphs.reductions, graphs.products, graphs.attention, graphs.recurrences,
                 graphs.routes)
    for make in (graphs.convolutions, graphs.transposed, graphs.pools, graphs.spatial, graphs.pointwise, graphs.functions, graphs.joints, graphs.tied,
                 graphs.moves, graphs.pads, graphs.broadcasts, graphs.reductions, graphs.products, graphs.words,
                 graphs.attention, graphs.recurrences, graphs.routes, graphs.norms):
        if reference.SHARE == 1 or make not in at_random:
            split_by_sample(make())
    for i, make in enumerate(at_random):
        graph = make()
        split_at_random(graph["name"], 2, graph, [(2, 1), (3, 2), (4, 3)], i)
    split_at_random("norms", 2, graphs.norms(), [(2, 1), (3, 2), (4, 3), (4, 4)])
    tied = Case("tied", 2).made(graphs.tied())
    known = tied.hash()
    for name, (devices, operators) in TIED.items():
        tied.name = f"shared parameters on {devices} devices, {name}"
        strategy = graphs.strategy(tied.path.read_text(), devices, operators, known)
        split(tied, strategy, devices)
    split_by_sample(dict(graphs.dense(4), name="dense"), ffrun_dense)
    split_by_class()
    split_maxima()
    split_by_step()
    split_in_phases()


# ---- transformers ----

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
            plan = graphs.random_strategy(case.path.read_text(), devices, shapes, depths,
                                          random.Random(seed), known)
            case.name = f"{text} on {devices} devices, random strategy {seed}"
            if case.run(plan, devices) is not None:
                check_module(case, module)


def test_transformers():
    beside_modules(transformers.NETS, [(2, 1), (3, 2), (4, 3), (4, 4)])


def test_modules():
    beside_modules(networks.NETS, [(3, 1), (4, 2)])


# ---- training ----

def write_idx(path, array):
    head = struct.pack(f">I{array.ndim}I", 0x800 | array.ndim, *array.shape)
    path.write_bytes(head + array.tobytes())


def write_images(folder, samples):
    """A small data set in the four files of MNIST; its images as the network sees
    them, and its labels."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 10, samples, np.uint8)
    classes = rng.integers(0, 256, (10, 28, 28))
    images = np.clip(classes[labels] + rng.normal(0, 60, (samples, 28, 28)), 0, 255)
    images = images.astype(np.uint8)
    for prefix, n in (("train", samples), ("t10k", 5)):
        write_idx(folder / f"{prefix}-images-idx3-ubyte", images[:n])
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels[:n])
    grey = images / 255.0
    return ((grey - grey.mean()) / grey.std())[:, None], labels


# What it is as if a setting were not there, unless 0.
WITHOUT = {"epsilon": 1e-8, "momentum": 1e-12, "schedule": "constant", "ramp_from": 1.0, "step_size": 99, "gamma": 1.0,
           "groups": ()}


def train(name, zoo, seed, steps, **settings):
    """Training on files whose content is known, over several epochs."""
    case = Case(name, seed).zoo(*zoo)
    samples, labels = write_images(case.folder, 37)
    losses = case.run(data=case.folder, steps=steps, options=options_of(settings))
    if losses is None:
        return
    batch = case.graph["nodes"][0]["shape"][0]
    shuffle = reference.Shuffle(37, seed)
    order = [shuffle.batch(step, batch) for step in range(steps)]
    batches = [{"data": samples[o], "labels": labels[o]} for o in order]
    first = reference.inputs_of(case.tensors)
    most = 2.0 ** -8 if case.graph.get("dtype") == "bfloat16" else 1e-6
    tap.say(np.array_equal(first["labels"], batches[0]["labels"]) and
            reference.distance(first["data"], batches[0]["data"]) < most, f"{name}: first batch")
    rates = []
    want = case.check_losses(losses, batches, rates=rates, **settings)
    report = json.loads((case.folder / "report").read_text())
    if "groups" not in settings:
        tap.say(np.allclose(report["rate"], rates, rtol=1e-12), f"{name}: rates",
                [f"{report['rate']}, expected {rates}"])
    # each must matter, or the case shows nothing of it: PyTorch's own, whatever ffrun was built with
    for key in settings if reference.SHARE == 1 else ():
        if key not in ("rate", "optimizer"):
            other = dict(settings, **{key: WITHOUT.get(key, 0)})
            losses = reference.trained_losses(case.graph, case.tensors, batches, seed, **other)
            apart = max(reference.distance(a, b) for a, b in zip(losses, want))
            tap.say(apart > 10 * TOLERANCE, f"{name}: {key} matters",
                    [f"without it losses are apart by {apart:.2g}"])


# Each beside what it leaves to presets; ramps that end where the run does, falls that never come,
# floors above the rate.
SCHEDULES = [
    {}, {"ramp": 7}, {"ramp": 30, "ramp_from": 0.125}, {"ramp": 1, "ramp_from": 1},
    {"schedule": "constant", "ramp": 12, "ramp_from": 0.01},
    {"schedule": "step", "step_size": 1, "gamma": 0.9}, {"schedule": "step", "step_size": 7},
    {"schedule": "step", "step_size": 29, "gamma": 0.5}, {"schedule": "step", "step_size": 99},
    {"schedule": "step", "step_size": 4, "gamma": 2, "ramp": 3},
    {"schedule": "step", "step_size": 6, "gamma": 0, "ramp": 10, "ramp_from": 0.5},
    {"schedule": "cosine"}, {"schedule": "cosine", "floor": 0.004},
    {"schedule": "cosine", "floor": 0.3}, {"schedule": "cosine", "ramp": 29},
    {"schedule": "cosine", "floor": 0.001, "ramp": 5, "ramp_from": 0.1},
    {"schedule": "cosine", "ramp": 13, "ramp_from": 1}]


def test_rates():
    """The rate of every step."""
    steps, rate = 30, 0.0625
    case = Case("rates", 1).zoo("mlp", "--batch", "2", "--set", "image=4", "--set", "hidden=2")
    for told in reference.shared(SCHEDULES):
        case.name = "rates, " + (", ".join(f"{key} {value}" for key, value in told.items()) or "no schedule")
        if case.run(steps=steps, options=options_of(dict(told, rate=rate))) is None:
            continue
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], rate)
        schedule, want = reference.scheduler(optimizer, steps, **told), []
        for _ in range(steps):
            want.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        rates = json.loads((case.folder / "report").read_text())["rate"]
        tap.say(len(rates) == steps and np.allclose(rates, want, rtol=1e-12, atol=1e-15), case.name,
                [f"{want[0]:g} to {want[-1]:g}, apart by {np.abs(np.subtract(rates, want)).max():.2g}"])


def check_resumed(name, zoo, steps, at, devices=1, kind="following", **settings):
    """Gone on with after `at` of the steps: losses and rates of the others are those of PyTorch,
    which did not stop."""
    case = Case(f"{name}, gone on with after {at} steps", 3).zoo(*zoo)
    samples, labels = write_images(case.folder, 37)
    kept = case.folder / "kept"
    if case.run() is None:
        return
    strategy = updates(case, kind, devices) if devices > 1 else "single"
    options = [*options_of(settings), "--checkpoint", kept, "--resume", "--every", str(at), "--keep", "99"]
    if case.run(strategy, devices, case.folder, steps, options=options) is None:
        return
    shuffle, batch = reference.Shuffle(37, 3), case.graph["nodes"][0]["shape"][0]
    order = [shuffle.batch(step, batch) for step in range(steps)]
    rates = []
    want = reference.trained_losses(case.graph, case.tensors, [
        {"data": samples[o], "labels": labels[o]} for o in order], 3, rates=rates, **settings)
    (kept / f"checkpoint-{at:010}.safetensors").replace(kept / "checkpoint.safetensors")
    losses = case.run(strategy, devices, case.folder, steps, options=options)
    if losses is None:
        return
    report = json.loads((case.folder / "report").read_text())
    tap.say(report["first_step"] == at and len(losses) == steps - at, f"{case.name}: the others only")
    apart = max(reference.distance(a, b) for a, b in zip(losses, want[at:]))
    tap.say(apart <= TOLERANCE, f"{case.name}: losses", [f"apart by {apart:.2g}"])
    if not any("rate" in rule or "factor" in rule for rule in settings.get("groups", ())):
        tap.say(np.allclose(report["rate"], rates[at:], rtol=1e-12), f"{case.name}: rates",
                [f"{report['rate']}, expected {rates[at:]}"])


def test_resumed_schedules():
    """In the ramp, at its end, behind it; groups with rates of their own; states in parts."""
    lenet = ["lenet", "--batch", "12"]
    ramp = {"ramp": 4, "ramp_from": 0.125}
    cosine = {"rate": 0.05, "momentum": 0.5, "schedule": "cosine", "floor": 0.01}
    groups = {"groups": ["bias:decay=0", "fc*:factor=3", "conv1.*:rate=0.02"]}
    cases = [("lenet, cosine behind a ramp", 2, 1, "following", dict(cosine, **ramp)),
             ("lenet, cosine behind a ramp", 4, 1, "following", dict(cosine, **ramp)),
             ("lenet, cosine behind a ramp", 7, 2, "following", dict(cosine, **ramp)),
             ("lenet, cosine by groups", 5, 1, "following", dict(cosine, **ramp, **groups)),
             ("lenet, steps by groups in parts", 5, 3, "in parts", dict(
                 ramp, optimizer="adamw", rate=0.002, decay=0.5, schedule="step", step_size=2,
                 gamma=0.3, groups=["bias:decay=0", "fc*:factor=3"]))]
    for name, at, devices, kind, settings in reference.shared(cases):
        check_resumed(name, lenet, 9, at, devices, kind, **settings)


NORMS_BY_HAND = {"norm": ({"channel": 2, "height": 2}, [3, 1, 2, 0]),
                 "norm2": ({"channel": 3}, [0, 1, 2]), "norm3": ({"sample": 3}, [2, 1, 0])}
# Of 12 samples: by three and four, and copies of parts.
NORMS_CUT = {"norm": ({"sample": 3}, [3, 1, 2]), "norm2": ({"sample": 4}, [1, 0, 3, 2]),
             "norm3": ({"sample": 2}, [2, 1, 0, 3], 2)}


def of_groups(samples):
    """With this epsilon the norm of two numbers is more than their order."""
    return {"sync": False, "group": samples, "epsilon": 1}


def without_training(of, plans):
    """Behind some steps, batch norms normalise by what they have kept, on one device and when
    parts of the batch and of the channels keep it; `of`: the samples of their statistics."""
    case = Case("digits", 3).made(graphs.digits(**of))
    samples, labels = write_images(case.folder, 37)
    steps, settings = 6, {"rate": 0.05, "momentum": 0.5}
    options = ["--test"] + [str(x) for key, value in settings.items() for x in (f"--{key}", value)]
    shuffle = reference.Shuffle(37, 3)
    order = [shuffle.batch(step, 12) for step in range(steps)]
    batches = [{"data": samples[o], "labels": labels[o]} for o in order]
    # the test set is as many of the first as a batch has
    test = {"data": samples[:12], "labels": np.where(np.arange(12) < 5, labels[:12], -1)}
    for name, devices, strategy in plans(case):
        case.name = f"digits, norms of {of.get('group', 'all')}, {name} on {devices} devices"
        losses = case.run(strategy, devices, case.folder, steps, options=options)
        if losses is None:
            continue
        case.check()
        want = reference.trained_losses(case.graph, case.tensors, batches, 3, test=test, **settings)
        report = json.loads((case.folder / "report").read_text())
        apart = max(reference.distance(a, b) for a, b in zip(losses, want))
        tap.say(apart <= TOLERANCE, f"{case.name}: losses of {steps} steps",
                [f"apart by {apart:.2g}"])
        apart = reference.distance(report["test_loss"], want[-1])
        tap.say(apart <= TOLERANCE, f"{case.name}: loss without training",
                [f"{report['test_loss']:.4f}, apart by {apart:.2g}"])
        apart = reference.distance(report["perplexity"], np.exp(want[-1]))
        tap.say(apart <= 10 * TOLERANCE, f"{case.name}: perplexity", [f"apart by {apart:.2g}"])


def test_without_training():
    def by_hand(case):
        text, known = case.path.read_text(), case.hash()
        yield from (("single", 1, "single"), ("data-parallel", 3, "data-parallel"))
        for name, cut in (("by hand", NORMS_BY_HAND), ("by samples", NORMS_CUT)):
            yield name, 4, graphs.strategy(text, 4, cut, known)

    def in_micro_batches(case):
        text, known = case.path.read_text(), case.hash()
        for devices, micro, order, stages, again in reference.shared(
                [(1, 2, "gpipe", 1, ()), (2, 3, "1f1b", 2, (1, 2, 4)), (4, 2, "1f1b", 2, range(99)),
                 (3, 6, "gpipe", 3, ())]):
            made = in_phases(text, devices, micro, order, stages, again)
            yield f"{micro} micro-batches, {order}", devices, dict(made, graph_hash=known)
        yield "3 micro-batches, by hand", 4, dict(graphs.strategy(text, 4, {
            **{n["name"]: ({}, [i % 4]) for i, n in enumerate(case.graph["nodes"])
               if n["op"] != "input"}, "norm": ({"sample": 3}, [2, 0, 1]),
            "norm2": ({"channel": 2}, [0, 1, 2, 3], 2)}, known), micro_batches=3, order="1f1b")

    without_training({}, by_hand)
    for group in (5, 2, 4):  # parts cut groups, or have them whole
        without_training(of_groups(group), by_hand)
    without_training(of_groups(2), in_micro_batches)


def top_graph():
    """Words of 11 classes, labels that do not count among them."""
    return {"format": "ffsoap-graph", "version": 2, "name": "top", "nodes": [
        {"name": "data", "op": "input", "shape": [12, 5, 6]},
        {"name": "label", "op": "input", "shape": [12, 5], "dtype": "int32", "classes": 11},
        {"name": "fc", "op": "linear", "in": ["data"], "out_features": 11},
        {"name": "turn", "op": "transpose", "in": ["fc"], "perm": [0, 2, 1]},
        {"name": "loss", "op": "softmax_cross_entropy", "in": ["turn", "label"]}]}


def test_top():
    """Labels among the K largest logits as torch.topk has them, however the loss is cut."""
    rng = np.random.default_rng(5)
    cuts = [("single", 1, None), ("by sample", 3, ({"sample": 3}, [2, 0, 1])),
            ("by class", 3, ({"class": 3}, [0, 2, 1])),
            ("by class and place", 4, ({"class": 2, "axis2": 2}, [3, 1, 2, 0])),
            ("by class and sample, replicas", 4, ({"class": 2}, [0, 1, 2, 3], 2)),
            ("by class in micro-batches", 2, ({"class": 2}, [1, 0]))]
    for graph in [top_graph()] + [in_bfloat16(top_graph())] * computes_bfloat16():
        case = Case("top", 3).made(graph)
        arrays = {}
        for kind, samples in (("train", 12), ("test", 29)):
            arrays[kind] = {"data": rng.standard_normal((samples, 5, 6)).astype(np.float32),
                            "label": rng.integers(-1, 11, (samples, 5)).astype(np.int32)}
            np.savez(case.folder / f"{kind}.npz", **arrays[kind])
        known = case.hash()
        for k, (name, devices, cut) in reference.shared(itertools.product((1, 5, 10, 11), cuts)):
            strategy = "single"
            if cut:
                strategy = graphs.strategy(case.path.read_text(), devices, {"loss": cut}, known)
            if "micro" in name:
                strategy = dict(strategy, micro_batches=2, order="gpipe")
            case.name = f"top {k} of {graph.get('dtype', 'float32')}, {name}"
            if case.run(strategy, devices, case.folder, 1,
                        options=["--rate", "0", "--decay", "0", "--test", "--top", str(k)]) is None:
                continue
            report = json.loads((case.folder / "report").read_text())
            net = reference.Network(case.graph, case.tensors, 3)
            hits = valid = 0
            for i in range(0, 29, 12):  # the last batch of the test set is not full
                part = {key: value[i:i + 12] for key, value in arrays["test"].items()}
                net.forward(part)
                logits, label = net.value["turn"], torch.from_numpy(part["label"]).long()
                best = torch.topk(logits, k, 1).indices
                hits += int(((best == label[:, None]).any(1)).sum())
                valid += int((label >= 0).sum())
            if k == 11:
                tap.say(report["top_accuracy"] is None, f"{case.name}: all are among so many")
                continue
            tap.say(abs(report["top_accuracy"] - hits / valid) < 1e-6, case.name,
                    [f"{report['top_accuracy']:.4f}, expected {hits / valid:.4f}"])
            tap.say(k > 1 or abs(report["top_accuracy"] - report["accuracy"]) < 1e-6,
                    f"{case.name}: that of one is the accuracy")


def test_steps():
    test_without_training()
    test_top()
    test_rates()
    test_resumed_schedules()
    train("lenet", ["lenet", "--batch", "12"], 3, 8, rate=0.03, momentum=0.9, decay=0.02)
    train("lenet, cosine", ["lenet", "--batch", "12"], 4, 6, rate=0.05, momentum=0.5, decay=0.02,
          schedule="cosine")
    train("alexnet for 28x28", ["alexnet", "--batch", "9", "--set", "image=28"], 5, 5, rate=0.003,
          momentum=0.9, decay=0.5)
    lenet = ["lenet", "--batch", "12"]
    train("lenet, sgd", lenet, 3, 8, optimizer="sgd", rate=0.05, decay=0.02)
    train("lenet, sgd, cosine", lenet, 4, 6, optimizer="sgd", rate=0.1, schedule="cosine")
    train("lenet, adamw", lenet, 3, 8, optimizer="adamw")
    train("lenet, adamw with all settings", lenet, 4, 8, optimizer="adamw", rate=0.002, beta1=0.8,
          beta2=0.95, epsilon=0.01, decay=0.5, schedule="cosine")
    train("lenet, nesterov", lenet, 3, 8, optimizer="nesterov", rate=0.02, momentum=0.7, decay=0.05,
          schedule="step", step_size=3, gamma=0.3)
    train("lenet, adam", lenet, 4, 8, optimizer="adam", rate=0.002, beta1=0.8, beta2=0.95,
          epsilon=0.01, decay=0.1, ramp=3)
    train("lenet, cosine behind a ramp", lenet, 5, 9, rate=0.05, momentum=0.5, schedule="cosine",
          floor=0.01, ramp=4, ramp_from=0.125)
    train("lenet, steps behind a ramp", lenet, 5, 9, rate=0.05, momentum=0.5, schedule="step",
          step_size=2, gamma=0.5, ramp=2)
    train("lenet, groups", lenet, 3, 8, optimizer="adamw", rate=0.002, decay=0.5, schedule="cosine",
          groups=["bias:decay=0", "fc*:factor=3", "fc3.*,conv1.weight:rate=0.005,epsilon=0.001"])
    train("lenet, groups, cosine to a floor behind a ramp", lenet, 3, 12, rate=0.02, momentum=0.5,
          schedule="cosine", floor=0.01, ramp=3, ramp_from=0.25, groups=["fc*:factor=0.25", "conv1.*:rate=0.1"])
    train("lenet, groups, steps behind a ramp", lenet, 3, 9, rate=0.02, momentum=0.5,
          schedule="step", step_size=2, gamma=0.5, ramp=3, groups=["fc*:factor=4", "conv1.*:rate=0.1"])
    train("alexnet for 28x28, adamw", ["alexnet", "--batch", "9", "--set", "image=28"], 5, 5,
          optimizer="adamw", rate=0.0003, decay=1)


# ---- optimizers ----

def updates(case, kind, devices, known=None):
    """Data parallelism; updates everywhere, in parts (ZeRO) or on one device."""
    where = {"following": None, "in parts": lambda shape: (
                 {"axis0": min(devices, shape[0])}, list(range(min(devices, shape[0])))),
             "served": lambda shape: ({}, [devices - 1]),
             "everywhere": lambda shape: ({}, list(range(devices)), devices)}[kind]
    weights = {name: t.shape for name, t in case.tensors.items() if "grad." + name in case.tensors}
    own = {name: where(shape) for name, shape in weights.items()} if where else {}
    return graphs.strategy(case.path.read_text(), devices, own, known)


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
        want = reference.averaged_losses(case.graph, case.tensors, case.same_samples(6), case.seed,
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


# ---- gradients that are applied late ----

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


# ---- bfloat16 ----

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
    for make in (graphs.convolutions, graphs.transposed, graphs.pools, graphs.spatial, graphs.pointwise, graphs.functions, graphs.joints, graphs.tied,
                 graphs.moves, graphs.pads, graphs.broadcasts, graphs.reductions, graphs.products, graphs.words,
                 graphs.attention, graphs.norms, graphs.losses):
        graph = make()
        case = Case(f"{graph['name']} in bfloat16", 2).made(in_bfloat16(graph))
        losses = case.run(steps=3, options=("--rate", "0.01", "--momentum", "0.5"))
        if losses is not None:
            case.check(groups=True)
        check_rounding(case.name, in_bfloat16(graph))
    net = ["lenet", "--batch", "12", "--set", "dtype=bfloat16"]
    for optimizer in reference.OPTIMIZERS:
        train(f"lenet in bfloat16, {optimizer}", net, 3, 8, optimizer=optimizer)
    for kind, devices in (("following", 3), ("in parts", 4), ("served", 3), ("everywhere", 2)):
        case = Case("", 3).zoo(*net[:2], "7", *net[3:])
        if case.run() is None:
            continue
        case.name = f"lenet in bfloat16, updated {kind}, {devices} devices"
        split(case, updates(case, kind, devices), devices, optimizer="adamw", rate=0.0003)


# ---- NaN and infinity ----

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
