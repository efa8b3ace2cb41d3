# Split over devices: by hand, at random, by class and by step, in micro-batches and stages.
# SPDX-License-Identifier: Apache-2.0
import json
import random

import graphs
import reference
import sequences
import strategies
import transformers
from case import EVERY, SMALL_COSMOFLOW, SMALL_LM, SMALL_UNET, Case, extents, ffrun, ffrun_dense, split, tap

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
        strategy = strategies.random_strategy(case.path.read_text(), devices, shapes, depths,
                                          random.Random(seed), known)
        case.name = f"{name} on {devices} devices, random strategy {seed}"
        split(case, strategy, devices)


def in_phases(text, devices, micro_batches, order, stages, recomputed):
    """A pipeline of `stages`, each by sample over its share of the devices, where every
    operator whose number is in `recomputed` is recomputed; parameters in parts, of which
    every second is gathered again."""
    nodes = [n for n in json.loads(text)["nodes"] if n["op"] != "input"]
    group = devices // stages
    chosen = {}
    for i, node in enumerate(nodes):
        first = i * stages // len(nodes) * group
        chosen[node["name"]] = ({"sample": group}, list(range(first, first + group)))
        if node["op"] in ("conv2d", "linear"):
            chosen[node["name"] + ".weight"] = ({"axis0": devices}, list(range(devices)))
    made = strategies.strategy(text, devices, chosen)
    made.update(micro_batches=micro_batches, order=order)
    names = [node["name"] for node in nodes]
    weights = [entry for entry in made["operators"] if entry["name"].endswith(".weight")]
    for entry in made["operators"]:
        if entry["name"] in names:
            i = names.index(entry["name"])
            entry["stage"] = i * stages // len(nodes)
            entry["recompute"] = i in recomputed and i + 1 < len(nodes)
    for entry in weights[::2]:
        entry["recompute"] = True
    return made


PHASES = [(1, 4, "1f1b", 1, ()), (2, 2, "gpipe", 2, ()), (2, 4, "1f1b", 2, (1, 2, 4, 5)),
          (3, 8, "1f1b", 3, range(0, 99, 2)), (4, 2, "gpipe", 2, range(99)),
          (2, 1, "gpipe", 1, range(99))]


def split_in_phases():
    """Micro-batches in either order, stages, values recomputed."""
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
        split(lm, strategies.strategy(text, devices, {"logits": logits, "loss": loss}), devices)
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
            strategy = strategies.strategy(text, devices, operators, known)
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
    split(case, strategies.strategy(case.path.read_text(), 4, operators, case.hash()), 4)


def split_by_step():
    """Every recurrence by steps, some by samples too, the next one on other devices."""
    graph = sequences.recurrences()
    case = Case("recurrences on 4 devices by step", 2).made(graph)
    cuts = [{"step": 4}, {"sample": 2, "step": 2}, {"step": 3}]
    operators, order = {}, list(range(4))
    for i, node in enumerate(n for n in graph["nodes"] if n["op"] in ("rnn", "lstm", "gru")):
        cut = cuts[i % len(cuts)]
        operators[node["name"]] = (cut, order[:3] if cut == {"step": 3} else order)
        order = order[1:] + order[:1]
    split(case, strategies.strategy(case.path.read_text(), 4, operators, case.hash()), 4)


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
        split(lenet, strategies.strategy(text, devices, operators), devices)
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
                 graphs.reductions, graphs.products, sequences.attention, sequences.recurrences,
                 sequences.routes)
    for make in EVERY:
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
        strategy = strategies.strategy(tied.path.read_text(), devices, operators, known)
        split(tied, strategy, devices)
    split_by_sample(dict(graphs.dense(4), name="dense"), ffrun_dense)
    split_by_class()
    split_maxima()
    split_by_step()
    split_in_phases()
