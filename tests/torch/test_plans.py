# Plans applied in PyTorch: the same losses and weights as one process's and as ffrun's, and what is refused.
# Usage: test_plans.py FFSEARCH FFRUN [PART...].  FF_TORCH_PYTHON: a Python with PyTorch 2.11 or newer.
# SPDX-License-Identifier: Apache-2.0
import copy
import json
import re
import sys
import tempfile

import current  # goes on in a Python that has PyTorch, or says SKIP
import torch
from torch.nn import functional as F

import planned
import reference
from ffsoap_torch import Refused, apply
from ffsoap_torch.export import export
from ffsoap_torch.plans import places
from ffsoap_torch.plans.apply import laid_out
from plan_models import MODELS

tap = reference.Tap()
read_map = planned.read_map
ffsearch, ffrun = sys.argv[1:3]
LOSSES, WEIGHTS = 1e-5, 1e-4


def compare(name, got, *others):
    """others: pairs of who and what they have."""
    if isinstance(got, str):
        tap.say(False, name, got.splitlines()[-5:])
        return
    for who, other in others:
        if isinstance(other, str):
            tap.say(False, f"{name}: {who}", [other])
            continue
        a, b = planned.apart(got[0], other[0]), planned.apart(got[1], other[1])
        tap.say(a <= LOSSES and b <= WEIGHTS, f"{name}: as {who}", [f"losses apart by {a:.1e}, weights by {b:.1e}"])


# ---- numbers ----

def test_trained(folder):
    """A tied embedding, over a mesh of two axes with flat updates, and over two stages (1F1B)."""
    model, steps = planned.Model("gpt", folder), 3
    one = model.one(steps)
    names = ["data x tensor, zero-1", "pipeline 2 x 2"]
    plans = [model.plan(ffsearch, *planned.PLANS[name]) for name in names]
    found = model.four(plans, steps)
    for i, name in enumerate(names):
        got = found if isinstance(found, str) else found[i]
        compare(f"gpt, {name}", got, ("one process", one), ("ffrun", model.ffrun(ffrun, plans[i], steps)))


def test_statistics(folder):
    """Batch norms in both stages of a plan without micro-batches: statistics are the batch's."""
    model = planned.Model("norms", folder, torch.float64)
    plan = in_stages(by_samples(model), 2, ["first", "before", "relu"])
    found = model.four([plan], 3)
    compare("batch norms in stages", found if isinstance(found, str) else found[0], ("one process", model.one(3)))


class Twice(torch.nn.Module):
    """Of ones a quarter is left, each four times as large."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (torch.nn.Parameter(torch.ones(64)) for _ in range(2))

    def forward(self, x):
        return F.dropout(F.dropout(x * self.a, 0.5, self.training) * self.b, 0.5, self.training).square().mean()


def test_draws(folder):
    """Two stages, whose generators are alike, draw masks that differ."""
    module, x = Twice(), torch.ones(64, 64)
    names = json.loads(export(module, (x,)).map)
    first = [n for n, what in names["operators"].items() if what["nodes"] in (["mul"], ["native_dropout"])]
    plan = {"format": "ffsoap-strategy", "version": 2, "devices": 4, "operators": [
        {"name": n} for n in names["operators"]]}
    plan = in_stages(plan, 2, first)

    def work():
        torch.manual_seed(1)
        return float(apply(module, plan, x, map=names).step(x))
    found = planned.in_processes(work, f"{folder}/draws")
    tap.say(isinstance(found, float) and 3.5 < found < 4.5, "stages draw masks of their own", [found])


def test_mixed(folder):
    """Any cuts of all nodes: heads, queries, vocabulary, channels, classes, contracted axes, norms, states, flat
    updates, and masks that are drawn."""
    for name, seeds in (("gpt", (1,)), ("convolutions", (1, 2)), ("lstm", (1,)), ("dropping", (1, 2)),
                        ("kinds", (1, 2))):
        model = planned.Model(name, folder)
        plans = [planned.random_plan(name, seed) for seed in seeds]
        one, found = model.one(2), model.four(plans, 2, strict=False, named=False)
        for i, seed in enumerate(seeds):
            got = found if isinstance(found, str) else found[i]
            compare(f"{name}, cut at random {seed}", got, ("one process", one))


def test_ties(folder):
    def work():
        module, inputs = MODELS["gpt"]()
        module.head = torch.nn.Linear(16, 48, bias=False)
        module.head.weight = module.words.weight
        apply(module, planned.random_plan("gpt", 1), *inputs, strict=False)
        return module.head.weight is module.words.weight, len(list(module.parameters()))
    found = planned.in_processes(work, f"{folder}/ties")
    want = len(list(MODELS["gpt"]()[0].parameters()))
    tap.say(found == (True, want), "tied parameters stay one", [found, want])


def test_two_readers(folder):
    """A tied parameter of two layers that are cut in different ways has one place."""
    model = planned.Model("gpt_head", folder)
    plan = planned.by_features(by_samples(model), 4, True, read_map(model))
    found = model.four([plan], 2)
    compare("a tied parameter of two layers", found if isinstance(found, str) else found[0],
            ("one process", model.one(2)))


# ---- what cannot be ----

def by_samples(model, devices=(0, 1, 2, 3)):
    """A plan of data parallelism, to be changed."""
    names = read_map(model)["operators"]
    return {"format": "ffsoap-strategy", "version": 2, "devices": 4, "operators": [
        {"name": n, "degrees": {"sample": len(devices)}, "devices": list(devices)} for n in names]}


def changed(plan, operator, **members):
    plan = copy.deepcopy(plan)
    entry = next(e for e in plan["operators"] if e["name"] == operator)
    entry.update(members)
    return plan


def in_stages(plan, first, operators):
    """Operators of a list lie on the first devices, others on the rest."""
    plan = copy.deepcopy(plan)
    for e in plan["operators"]:
        at = list(range(first)) if e["name"] in operators else list(range(first, 4))
        e.update(devices=at, degrees={"sample": len(at)}, stage=int(e["name"] not in operators))
    return plan


def on(plan, *devices):
    """The stages on these devices."""
    return {**plan, "operators": [{**e, "devices": devices[e["stage"]], "degrees": {
        "sample": len(devices[e["stage"]])}} for e in plan["operators"]]}


def refused(name, plan, want, module="convolutions", maps=None, **options):
    """apply() says so, in one sentence, before any process is needed."""
    made, inputs = MODELS[module]()
    if options.pop("evaluation", False):
        made.eval()
    try:
        apply(made, plan, *inputs, map=maps[module], **options)
        said = "not refused"
    except Refused as why:
        said = str(why)
    tap.say(re.search(want, said) is not None, f"refused: {name}", [said])


class OfParts(torch.nn.Linear):
    """A loss by a function of what is computed, and of targets."""

    def __init__(self, function):
        super().__init__(6, 4)
        self.function = function

    def forward(self, x, y):
        return self.function(super().forward(x), y)


# Losses of micro-batches of which the mean is not the batch's, and such of which it is.
OF_PARTS = {
    "a sum": (lambda x, y: F.mse_loss(x, y, reduction="sum"), "mse_loss is a sum over samples, not their mean"),
    "a sum by columns": (lambda x, y: (x - y).abs().sum(0).mean(), "mean is a sum over samples"),
    "a mean by a mask": (lambda x, y: ((x - y) ** 2 * (y > 0)).sum() / (y > 0).sum(),
                         "div computes with a mean or sum"),
    "a mean by weights": (lambda x, y: F.cross_entropy(x, y.argmax(1), torch.tensor([1.0, 2.0, 1.0, 1.0])),
                          "is a mean by weights"),
    "the root of a mean": (lambda x, y: F.mse_loss(x, y).sqrt(), "sqrt computes with a mean or sum"),
    "apart from the mean": (lambda x, y: (x - x.mean(0) - y).abs().mean(), "sub computes with a mean or sum"),
    "two means multiplied": (lambda x, y: (x.mean(0) * y.mean(0)).sum(), "mul computes with a mean or sum"),
    "a sum, divided": (lambda x, y: (x - y).square().sum() / len(x) + F.kl_div(
        x.log_softmax(1), y.softmax(1), reduction="batchmean") * 2, None),
    "means": (lambda x, y: 0.5 * F.l1_loss(x, y) - (x.sum(1) * y[:, 0]).mean(0) + F.cross_entropy(x, y.argmax(1)),
              None)}


def test_parts(folder):
    x, y = torch.randn(8, 6), torch.randn(8, 4)
    for name, (function, want) in OF_PARTS.items():
        module = OfParts(function)
        plan = {"format": "ffsoap-strategy", "version": 2, "devices": 4, "micro_batches": 2, "operators": []}
        try:
            laid_out(module, plan, None, (x, y))
            said = None
        except Refused as why:
            said = str(why)
        tap.say(said is None if want is None else bool(re.search(want, str(said))), f"in micro-batches: {name}", [said])


def test_refused(folder):
    maps, plans = {}, {}
    for name in ("gpt", "lstm", "convolutions", "nearest"):
        model = planned.Model(name, folder)
        maps[name], plans[name] = read_map(model), by_samples(model)
    plan = plans["convolutions"]
    cases = [
        ("a convolution cut by rows", changed(plan, "first", degrees={"height": 4}), r"first: height .* gathered"),
        ("parts that are not equal", changed(plan, "second", degrees={"out_channel": 4}),
         r"second: 6 of out_channel have no 4 equal parts"),
        ("parts that do not fit", changed(plan, "first", degrees={"out_channel": 3}, devices=[0, 1, 2]),
         r"3 parts along out_channel do not fit"),
        ("an operator on some of the devices", changed(plan, "first", degrees={"sample": 2}, devices=[0, 1]),
         r"first: it runs on 2 of 4 devices"),
        ("parts in another order", changed(plan, "first", devices=[3, 1, 2, 0]), r"lie on other devices"),
        ("an entry that matches nothing", {**plan, "operators": plan["operators"] + [{"name": "third"}]},
         r"entry third is no operator"),
        ("late gradients", {**plan, "staleness": 1}, "applied late"),
        ("compressed gradients", {**plan, "compress": "ternary"}, "fewer bits"),
        ("averaged parameters", {**plan, "average_every": 4}, "averaged"),
        ("a rewritten graph", {**plan, "rewrites": ["merge_products:a+b"]}, "rewrites"),
        ("micro-batches that are not equal", {**plan, "micro_batches": 3}, "no 3 equal micro-batches"),
        ("stages of one and of three devices", in_stages(plan, 1, ["first"]), "different numbers of devices"),
        ("stages that share a device", on(in_stages(plan, 2, ["first"]), [0, 1], [1, 2]), "share some"),
        ("stages that leave devices idle", on(in_stages(plan, 2, ["first"]), [0], [1]), "leave some idle"),
        ("statistics of a batch in micro-batches", {**in_stages(plan, 2, ["first"]), "micro_batches": 2},
         "statistic of the whole batch"),
        ("no strategy", {"format": "ffsoap-graph"}, "expected a file whose format is ffsoap-strategy"),
    ]
    for name, case, want in cases:
        refused(name, case, want, maps=maps)
    refused("samples beside each other in micro-batches", {**plans["nearest"], "micro_batches": 2},
            "of which micro-batches do not see all", "nearest", maps)
    attention = next(e["name"] for e in plans["gpt"]["operators"] if "dot_product" in e["name"])
    refused("attention cut by keys", changed(plans["gpt"], attention, degrees={"key": 4}),
            "key is not cut in aten.scaled_dot_product_attention", "gpt", maps)
    cells = [n for n, what in maps["lstm"]["operators"].items() if what["nodes"] == ["lstm"]]
    along = {**plans["lstm"], "operators": [{**e, "degrees": {"step": 4}} if e["name"] in cells else e
                                            for e in plans["lstm"]["operators"]]}
    refused("cells cut along steps", along, "step is not cut in aten.lstm", "lstm", maps)
    refused("a module in evaluation mode", plan, "evaluation mode", maps=maps, evaluation=True)
    refused("no processes", plan, "no processes: start with torchrun", maps=maps)
    version, torch.__version__ = torch.__version__, "2.8.0"
    refused("PyTorch 2.8, whose gloo lacks reduce-scatter", plan, "2.11 or newer", maps=maps)
    torch.__version__ = version
    old = copy.deepcopy(maps)
    old["convolutions"]["operators"]["first"]["nodes"] = ["conv2d_7"]
    refused("the map of another module", plan, "has no node conv2d_7", maps=old)


def test_gathered(folder):
    """Not strict: what cannot be cut is computed whole, told in a warning, and right."""
    model = planned.Model("convolutions", folder)
    plan = changed(by_samples(model), "first", degrees={"height": 4})
    found = model.four([plan], 3, strict=False)
    compare("a convolution cut by rows, gathered", found if isinstance(found, str) else found[0],
            ("one process", model.one(3)))
    told = found if isinstance(found, str) else " ".join(found[0][3])
    tap.say("first: height is not cut in aten.conv2d: gathered" in told, "it is told", [told])
    bias = {"name": "second.bias", "update": "flat"}
    found = model.four([{**plan, "operators": plan["operators"] + [bias], "shards": 2}], 2, strict=False)
    told = found if isinstance(found, str) else " ".join(found[0][3])
    tap.say("second.bias: no axis of [6] has 4 equal parts" in told, "a parameter without equal parts is told", [told])
    tap.say("second.bias: cut over all devices that read it, not over groups of 2" in told, "so are hybrid shards", [told])
    found = planned.in_processes(lambda: model.planned(plan, 1, False), f"{folder}/two", 2)
    tap.say("the plan is for 4 devices, there are 2 processes" in str(found), "two processes for four devices", [])


def test_ignored(folder):
    """Labels that do not count, in micro-batches, whose means would be of different numbers."""
    model = planned.Model("gpt", folder)
    plan = {**by_samples(model), "micro_batches": 2}

    def work():
        module, (ids, labels) = MODELS["gpt"]()
        labels[0, 0] = -100
        apply(module, plan, ids, labels, map=read_map(model)).step(ids, labels)
    found = planned.in_processes(work, f"{folder}/ignored")
    tap.say("different numbers of labels have no common mean" in str(found), "refused: labels that are ignored",
            [str(found)[-300:]])


# ---- the user's own modules ----

def recomputed(plan, path):
    """All operators of a module, but the one that others read."""
    return {**plan, "operators": [{**e, "recompute": e["name"].startswith(path + ".") and e["name"] != path + ".add_1"}
                                  if "degrees" in e else e for e in plan["operators"]]}


def test_modules(folder):
    """parallelize_module x fully_shard x data, recomputation, tied weights, a loss cut by classes."""
    for name in ("gpt_head", "lstm"):
        model = planned.Model(name, folder)
        names, steps = read_map(model), 5
        plans = {"data": by_samples(model), "fully sharded": model.plan(ffsearch, "--simulate", "zero-3")}
        if name == "gpt_head":
            hand = ["--simulate", "megatron:2,2,1,1,zero-1", *torch_space(model)]
            plans["data x tensor, zero-1"] = model.plan(ffsearch, *hand)
            plans["recomputed"] = recomputed(plans["data x tensor, zero-1"], "blocks.0")
        else:
            for degree, flat in ((4, False), (2, True)):
                plans[f"tensor {degree}"] = planned.by_features(by_samples(model), degree, flat, names)
        one, found = model.one(steps), model.four(list(plans.values()), steps, mode="modules")
        for i, case in enumerate(plans):
            compare(f"{name}, modules, {case}", found if isinstance(found, str) else found[i], ("one process", one))


def test_modules_cut(folder):
    """What a device has of a layer, and how often a block that is recomputed is computed in a step."""
    model = planned.Model("gpt_head", folder)
    plan = model.plan(ffsearch, "--simulate", "megatron:2,2,1,1,zero-1", *torch_space(model))

    def work():
        module, inputs = MODELS["gpt_head"]()
        made = apply(module, recomputed(plan, "blocks.0"), *inputs, map=read_map(model), mode="modules")
        calls = []
        for block in module.blocks:
            block.up.register_forward_hook(lambda *given, block=block: calls.append(block is module.blocks[0]))
        made.step(*inputs)
        parts = [made.get_parameter(f"module.{n}").to_local().numel() for n in ("blocks.1.up.weight", "words.weight")]
        return parts, sum(calls), len(calls), module.head.weight is module.words.weight
    found = planned.in_processes(work, f"{folder}/cut")
    want = [16 * 64 // 4, 16 * 48 // 4], 2, 3, True
    tap.say(found == want, "layers are cut, stored in parts, recomputed, tied", [found])


def test_modules_turned(folder):
    """Where what is cut meets what is not: a buffer, and a parameter, whose gradients are summands."""
    model = planned.Model("turned", folder)
    plan = model.plan(ffsearch, "--simulate", "megatron:2,2,1,1")
    found = model.four([plan], 2, strict=False, mode="modules")
    compare("heads times a buffer and a parameter", found if isinstance(found, str) else found[0],
            ("one process", model.one(2)))


def test_loss_behind(folder):
    """Layers of a module that returns no loss."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    x, labels, loss = torch.randn(8, 16), torch.randint(8, (8,)), torch.nn.functional.cross_entropy
    names = json.loads(export(net, (x,), loss, (labels,)).map)
    entries = {"operators": [{"name": n, "degrees": {"sample": 4}} for n in names["operators"]], "devices": 4,
               "format": "ffsoap-strategy", "version": 2}
    plan = planned.by_features(entries, 2, False, names)

    def work():
        made = apply(net, plan, x, map=names, loss=loss, targets=(labels,), mode="modules")
        return float(made.step(x, labels)), made.get_parameter("module.module.0.weight").to_local().numel()
    want, found = float(loss(net(x), labels).detach()), planned.in_processes(work, f"{folder}/loss")
    good = not isinstance(found, str) and abs(found[0] - want) < LOSSES and found[1] == 16 * 32 // 2
    tap.say(good, "a loss that stands behind the module", [found, want])


def test_errors(folder):
    """Losses by element, of which each process has the sum of its samples."""
    torch.manual_seed(1)
    net, x, y = torch.nn.Linear(16, 4), torch.randn(8, 16), torch.randn(8, 4)
    losses = [F.l1_loss, F.smooth_l1_loss, F.huber_loss]

    def step(module, parameters, run):
        loss = run()
        torch.optim.SGD(parameters, 1.0).step()
        return float(loss.detach())

    def one(loss):
        module = copy.deepcopy(net)

        def run():
            found = loss(module(x), y)
            found.backward()
            return found
        return step(module, module.parameters(), run), module.state_dict()

    def work():
        found = []
        for loss in losses:
            names = json.loads(export(net, (x,), loss, (y,)).map)
            plan = {"format": "ffsoap-strategy", "version": 2, "devices": 4, "operators": [
                {"name": n, "degrees": {"sample": 4}, "devices": [0, 1, 2, 3]} for n in names["operators"]]}
            made = apply(copy.deepcopy(net), plan, x, map=names, loss=loss, targets=(y,))
            found.append((step(made, made.parameters(), lambda: made.step(x, y)), made.weights()))
        return found
    found = planned.in_processes(work, f"{folder}/errors")
    # in a process of its own: one that has run autograd cannot fork others that do
    wanted = planned.in_processes(lambda: [one(loss) for loss in losses], f"{folder}/errors-one", 1)
    for i, loss in enumerate(losses):
        want, got = wanted[i], found if isinstance(found, str) else found[i]
        good = not isinstance(got, str) and abs(got[0] - want[0]) < LOSSES and planned.apart(got[1], want[1]) < LOSSES
        tap.say(good, f"{loss.__name__} cut by samples", [got if isinstance(got, str) else got[0], want[0]])


def test_modules_refused(folder):
    maps, plans = {}, {}
    for name in ("gpt", "gpt_head", "convolutions", "nearest"):
        model = planned.Model(name, folder)
        maps[name], plans[name] = read_map(model), by_samples(model)
    gpt = plans["gpt_head"]

    def two_by_two(name):
        two = {"degrees": {"sample": 2}, "replicas": 2,
               "devices": {"start": 0, "strides": {"sample": 2}, "replica_stride": 1}}
        return {**plans[name], "operators": [{"name": e["name"], **two} for e in plans[name]["operators"]]}
    half = two_by_two("gpt_head")

    def cut(plan, operator, dim):
        view = {"start": 0, "strides": {"sample": 2, dim: 1}}
        return changed(plan, operator, degrees={"sample": 2, dim: 2}, replicas=1, devices=view)
    cases = [
        ("gpt_head", "weights that parallelize_module would untie", cut(half, "words", "vocabulary"), "unties them"),
        ("gpt_head", "a layer on another mesh", changed(half, "blocks.0.up", degrees={"out_feature": 4}, replicas=1,
         devices=[0, 1, 2, 3]), "across meshes gives empty tensors"),
        ("gpt_head", "a norm cut by places", cut(cut(half, "blocks.0.norm1", "axis1"), "blocks.0.up", "out_feature"),
         "norm1: is cut by axis1, and no layer before it is"),
        ("gpt", "a layer without a module", planned.by_features(plans["gpt"], 4, False, maps["gpt"]),
         "linear reads its parameters, too, and is no layer of its own"),
        ("gpt", "a table that is cut, and read by no layer", cut(two_by_two("gpt"), "words", "vocabulary"),
         "reads its parameters, too"),
        ("convolutions", "a convolution cut by channels", changed(changed(plans["convolutions"], "first", degrees={
            "out_channel": 4}), "out", degrees={"out_feature": 4}), "gives wrong numbers as a DTensor"),
        ("convolutions", "norms of a process's samples", plans["convolutions"], "SyncBatchNorm"),
        ("nearest", "samples beside each other", plans["nearest"], "of which a process does not see all"),
        ("gpt_head", "an operator that is recomputed alone", changed(gpt, "blocks.0.gelu", recompute=True),
         "blocks.0.gelu: is recomputed, and no module of which all is"),
        ("gpt_head", "parts that do not fit", changed(gpt, "blocks.0.up", degrees={"out_feature": 3},
         devices=[0, 1, 2]), "3 parts along out_feature do not fit"),
        ("gpt_head", "stages", {**in_stages(gpt, 2, ["words", "add"]), "micro_batches": 2}, "trains those"),
    ]
    for module, name, plan, want in cases:
        refused(f"modules, {name}", plan, want, module, maps, mode="modules")
    net, x, labels = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(0.1)), *MODELS["norms"]()[1]
    given = {"loss": F.cross_entropy, "targets": (labels,)}
    names = json.loads(export(net, (x.flatten(1)[:, :16],), *given.values()).map)
    plan = {"format": "ffsoap-strategy", "version": 2, "devices": 4, "operators": [
        {"name": n, "degrees": {"sample": 4}, "devices": [0, 1, 2, 3]} for n in names["operators"]]}
    try:
        apply(net, plan, x.flatten(1)[:, :16], map=names, mode="modules", **given)
        said = "not refused"
    except Refused as why:
        said = str(why)
    tap.say("every process draws a mask of its own" in said, "refused: modules, masks of a process", [said])


# ---- what ffsearch finds for PyTorch ----

def outside(model, plan):
    """What ffsearch --space torch says of a plan; empty: it keeps to it."""
    whole = {k: v for k, v in model.plan(ffsearch, *DATA).items() if not k.startswith(("predicted", "memory"))}
    model.path("hand.json").write_text(json.dumps({**whole, "operators": plan["operators"]}))
    return model.plan(ffsearch, "--simulate", str(model.path("hand.json")), *torch_space(model))


DATA = ("--simulate", "data-parallel")


def torch_space(model):
    return "--space", "torch", "--map", str(model.path("map.json"))


def test_searched(folder):
    """All of plans of every shape that is found is exact; hand plans are outside where they are not."""
    for name in ("gpt", "lstm", "convolutions", "dropping", "kinds"):
        model = planned.Model(name, folder)
        for path in model.folder.glob("plan.json*"):
            path.unlink()
        whole = ("--max-micro-batches", "1") if name == "kinds" else ()  # its loss is a sum over samples
        found = model.plan(ffsearch, "--proposals", "4000", "--top", "16", *whole, *torch_space(model))
        plans = sorted(model.folder.glob("plan.json*"))
        said = [found] if isinstance(found, str) else []
        for path in plans:
            _, _, layout = laid_out(*MODELS[name]()[:1], json.loads(path.read_text()), read_map(model),
                                    MODELS[name]()[1])
            said += [f"{path.name} {who}: {what}" for who, what in layout.said.items() if what]
        tap.say(len(plans) > 2 and not said, f"{name}: plans of {len(plans)} shapes are exact", said)
        if name == "convolutions":
            plan = by_samples(model)
            said = laid_out(*MODELS[name]()[:1], plan, read_map(model), MODELS[name]()[1])[2].said
            tap.say(not any(said.values()), f"{name}: so is every operator by samples", [str(said)])
            cases = [changed(plan, "first", degrees={"height": 4}), changed(plan, "second", degrees={"out_channel": 4}),
                     changed(plan, "first", degrees={"out_channel": 3}, devices=[0, 1, 2]),
                     changed(plan, "first", degrees={"sample": 2}, devices=[0, 1]),
                     changed(plan, "first", devices=[3, 1, 2, 0])]
            told = [outside(model, case) for case in cases]
            good = all("cannot be so in PyTorch" in str(t) for t in told)
            good = good and not isinstance(outside(model, plan), str)
            tap.say(good, "hand plans that apply() refuses are outside", told)


# ---- meshes ----

def test_meshes():
    tap.say(places.factors(12) == [3, 2, 2] and places.factors(1) == [1], "prime factors")
    entry = {"degrees": {"out_feature": 2, "sample": 2},
             "devices": {"start": 0, "strides": {"out_feature": 2, "sample": 1}}}
    tap.say(places.laid(entry, ["sample", "out_feature"], [2, 2], [0, 1, 2, 3]) == (["out_feature", "sample"], []),
            "a view in another order of dims")
    entry = {"degrees": {"sample": 6}, "replicas": 2, "devices": [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]}
    tap.say(places.laid(entry, ["sample"], [3, 2, 2], list(range(12))) == (["sample", "sample", None], []),
            "a list with neighbours as replicas")


PARTS = {"meshes": lambda folder: test_meshes(), "ties": test_ties, "two_readers": test_two_readers,
         "mixed": test_mixed, "errors": test_errors, "trained": test_trained, "statistics": test_statistics,
         "draws": test_draws,
         "gathered": test_gathered, "refused": test_refused, "ignored": test_ignored, "parts": test_parts,
         "searched": test_searched,
         "modules": test_modules, "modules_cut": test_modules_cut,
         "modules_turned": test_modules_turned,
         "loss_behind": test_loss_behind, "modules_refused": test_modules_refused}
for part in sys.argv[3:] or PARTS:
    with tempfile.TemporaryDirectory(prefix="ffplans") as keep:
        PARTS[part](keep)
tap.end()
sys.exit(tap.failed > 0)
