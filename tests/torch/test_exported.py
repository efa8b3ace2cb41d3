# Modules of today's PyTorch through ffsoap_torch: loss, gradients and running statistics of a step as PyTorch's,
# what is drawn, what is refused and how it is said, the files.
# Usage: test_exported.py models|more|hand|language|others|newest|fields|learning|shapes|wide|
#        pictures|draws|operators|losses|refusals|command FFRUN FFSEARCH
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import warnings

import current  # noqa: F401  says SKIP and ends without PyTorch 2.11
import exported
import family_modules
import field_modules
import ffsoap_torch
import hand_modules
import learning_modules
import modules
import more_modules
import newest_modules
import reference
import shape_modules
import today_modules
import wide_modules
import wide_pictures
from exported import F, np, torch
from ffsoap_torch import Refused, functions
from ffsoap_torch.export import export
from functions import FUNCTIONS
from philox import kept

part, ffrun, ffsearch = sys.argv[1], *map(os.path.abspath, sys.argv[2:4])
root = pathlib.Path(__file__).resolve().parents[2]
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


def test_models():
    for name, make in modules.MODELS.items():
        torch.manual_seed(1)
        module, inputs, *options = make()
        step = compare(name, module, inputs, **(options[0] if options else {}))
        if step and name == "GPT, tied":
            tap.say(["transformer.wte.weight", "lm_head.weight"] ==
                    step.map["parameters"]["transformer.wte.weight"]["names"], "tied weights are one, by both names")
            tap.say(any(n["op"] == "attention" and n.get("causal") for n in step.graph["nodes"]), "attention is whole")
        if step and name == "LLaMA block":
            keys = [n for n in step.graph["nodes"] if n["op"] == "attention"][0]["in"][1]
            wide = next(n for n in step.graph["nodes"] if n["name"] == "k_proj")["out_features"]
            tap.say(wide == 16 and keys != "k_proj", "keys that heads share are not copied")
    module, inputs = modules.MODELS["GPT, tied"]()
    compare("GPT on three devices, a random strategy", module, inputs, plan=plan_for(3, 1), devices=3)


def test_more():
    for name, make in {**more_modules.MODELS, **family_modules.MODELS}.items():
        torch.manual_seed(1)
        module, inputs, options = make()
        compare(name, module, inputs, **options)
    steps = (torch.rand(4, 3), torch.arange(4))
    for below, words in (({}, "nothing says below what they are; say --below steps=N"), (
            {"times": 9}, "times is no input of integers of the module")):
        said = refusal(Timed(), steps, below=below)
        tap.say(words in said, "steps of which nothing is known", [said])
    test_large()


class Hidden(nn.Module):
    """A mask as some libraries make it, for all samples."""

    def forward(self, x, y):
        at = torch.arange(x.shape[1])
        own = torch.arange(len(x))[:, None, None, None] >= 0
        mask = (at[None, None, None] + torch.zeros(len(x), 1, 1, 1) <= at[None, None, :, None]) & own & own
        q = x[:, None]
        return F.mse_loss(F.scaled_dot_product_attention(q, q, q, attn_mask=mask)[:, 0], y)


class Angles(nn.Module):
    """Tables of places, as each layer makes them for itself."""

    def forward(self, x, y):
        for _ in range(3):
            x = (x * torch.outer(torch.arange(200.0), torch.linspace(0, 1, 100)).cos()).tanh()
        return F.mse_loss(x, y)


def test_hand():
    """By themselves, and cut at random."""
    for name, make in hand_modules.MODELS.items():
        torch.manual_seed(1)
        module, inputs, options = make()
        compare(name, module, inputs, **options)
    for name in ("experts, in groups", "experts, by their weights", "masked places", "conditions"):
        torch.manual_seed(1)
        module, inputs, options = hand_modules.MODELS[name]()
        compare(f"{name}, on three devices", module, inputs, plan=plan_for(3, 1), devices=3, **options)


def test_today(models, cut):
    """By themselves; what is added up over the batch, what is taken out, and frames also cut at random."""
    for name, make in models.items():
        torch.manual_seed(1)
        module, inputs, options = make()
        compare(name, module, inputs, **options)
    for name in cut:
        torch.manual_seed(1)
        module, inputs, options = models[name]()
        compare(f"{name}, on three devices", module, inputs, plan=plan_for(3, 1), devices=3, **options)


def test_language():
    test_today(today_modules.LANGUAGE, ["means by masks", "places taken out"])


def test_others():
    test_today(today_modules.OTHERS, ["rare classes", "frames"])


def test_newest():
    test_today(newest_modules.MODELS, ["DeltaNet", *newest_modules.BATCHES])
    said = refusal(*newest_modules.REFUSED["SimCLR"]()[:2])
    tap.say("joins tensors along the axis of samples" in said, "two views of all samples behind each other", [said])


def test_fields():
    test_today(field_modules.MODELS, ["two towers, logQ", "CRNN, CTC"])
    test_refused(field_modules.REFUSED, {"TimesNet": "numpy"})
    logits, labels = torch.randn(9, 6, 7, dtype=torch.double, requires_grad=True), torch.randint(1, 7, (6, 4))
    lengths = torch.tensor([9, 9, 5, 3, 8, 1]), torch.tensor([4, 0, 2, 4, 3, 1])
    for how in ("mean", "sum", "none"):
        one, two = (f(logits.log_softmax(2), labels, *lengths, reduction=how, zero_infinity=True)
                    for f in (F.ctc_loss, functions.ctc_loss))
        apart = [(a - b).abs().max() for a, b in ((one, two), [torch.autograd.grad(x.sum(), logits)[0]
                                                               for x in (one, two)])]
        tap.say(max(apart) < 1e-12, f"CTC as PyTorch's, {how}", apart)
    said = refusal(Unlabelled(), (torch.randn(4, 5, 6), torch.arange(4)), below={"ids": 6})
    tap.say("target_lengths" in said, "labels of CTC behind each other", [said])


class Unlabelled(nn.Linear):
    def __init__(self):
        super().__init__(6, 7)

    def forward(self, x, ids):
        return F.ctc_loss(super().forward(x).log_softmax(2).transpose(0, 1), ids, [5] * 4, [1] * 4)


def test_learning():
    test_today(learning_modules.MODELS, ["StyleGAN 2", "A2C, GAE"])
    test_refused(learning_modules.REFUSED, {"Glow": "slogdet", "WGAN-GP": "gradients within forward",
                                            "VAE, noise drawn": "random numbers"})


OF_BATCH = {"samples multiplied": lambda m, x: x @ (x.T @ x), "a mean over samples": lambda m, x: x - x.mean(0),
            "a norm without running statistics": lambda m, x: F.batch_norm(x, None, None, training=True)}
OF_BATCH |= {"zeros where a condition does not hold": lambda m, x: torch.where(x > 0.3, x, torch.zeros_like(x)),
             "ones where it holds": lambda m, x: torch.where(x > 0.3, torch.full_like(x, 2.0), x * x)}
OF_LOSSES = {"a loss by a loss": lambda x, y: x.mean() / x.square().mean() + F.mse_loss(x, y), "a function of a loss":
             lambda x, y: F.mse_loss(x, y).sqrt(), "no mean": lambda x, y: (x - y).square().mean(0).max()}


def test_shapes():
    for name, function in OF_BATCH.items():
        compare(name, Parent(function), torch.randn(4, 6))
    for name, function in OF_LOSSES.items():
        compare(name, ByLoss(function), (torch.randn(4, 6), torch.randn(4, 5)))
    test_today(shape_modules.MODELS, ["VICReg", "CondConv", "S4D"])


def test_wide():
    test_today(wide_modules.MODELS, ["PointNet++", "pointer generator"])
    test_refused(wide_modules.REFUSED, {"Autoformer": "places that are chosen"})


def test_pictures():
    test_today(wide_pictures.MODELS, ["MAE"])
    test_refused(wide_pictures.REFUSED, {"SegNet": "places", "RAFT": "the axis of samples", "YOLOv8's head": "integers"})


def test_refused(models, words):
    for name, make in models.items():
        module, inputs, options = make()
        said = refusal(module, inputs, **options)
        tap.say(words[name] in said and "\n" not in said, f"refused: {name}", [said])


def test_large():
    """What cannot be held: masks of many samples, parameters, a table a layer."""
    made = export(Angles(), (torch.randn(2, 200, 100), torch.randn(2, 200, 100)))
    tap.say(made.graph.count('"constant"') == 1 and len(made.graph) < 400_000, "a table is written once",
            [len(made.graph)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = export(Hidden(), (torch.randn(2, 512, 8), torch.randn(2, 512, 8)), batch=1 << 14)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10
    nodes = [n["op"] for n in json.loads(made.graph)["nodes"]]
    tap.say(more < 1000 and "constant" not in nodes, "a mask for all samples takes no memory", [more, nodes])
    with ffsoap_torch.without_weights():
        bare, inputs = modules.MODELS["GPT, tied"]()
    tap.say(all(p.is_meta for p in bare.parameters()), "parameters without memory")
    made, whole = export(bare, inputs), export(*modules.MODELS["GPT, tied"]())
    tap.say((made.graph, made.map) == (whole.graph, whole.map), "the graph is that of the module with weights")
    try:
        made.write("graph.json", "weights")
        said = "they were written"
    except Refused as why:
        said = str(why)
    tap.say("made without weights" in said, "weights that are not there", [said])
    with torch.device("meta"):
        said = refusal(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 5)), (torch.randn(4, 6),))
    tap.say("buffer 0.running_mean is on the meta device" in said, "buffers without numbers", [said])


class Timed(nn.Linear):
    def __init__(self):
        super().__init__(3, 5)

    def forward(self, x, steps):
        return super().forward(x * steps[:, None].float().sin())


# ---- what is drawn ----

class Depth(nn.Module):
    """Stochastic depth as torchvision has it."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        noise = torch.empty([x.shape[0]] + [1] * (x.dim() - 1)).bernoulli_(1 - self.p)
        noise.div_(1 - self.p)
        return x * noise


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.depth = nn.Conv2d(3, 6, 3), nn.Dropout(0.3), Depth(0.4)
        self.channels, self.last = nn.Dropout2d(0.5), nn.Linear(6, 5)

    def forward(self, x):
        x = self.drop(torch.tanh(self.first(x)))
        x = self.channels(x + self.depth(x))
        return self.last(x.mean((2, 3)))


class Kept(nn.Module):
    """Of what ffrun keeps in its first step."""

    def __init__(self, number, p, axes):
        super().__init__()
        self.number, self.p, self.axes = number, p, axes

    def forward(self, x):
        shape = [n if i < self.axes else 1 for i, n in enumerate(x.shape)]
        return x * kept(1, self.number, 0, shape, self.p) / (1 - self.p)


def test_draws():
    module = Drawn()

    def prepare(step):
        numbers = reference.numbers(step.graph)
        for node in step.graph["nodes"]:
            if node["op"] == "dropout":
                name = step.map["operators"][node["name"]]["module"]
                axes = {"drop": 4, "depth": 1, "channels": 2}[name]
                own = getattr(module, name).p
                tap.say(abs(node["p"] - own) < 1e-6 and (node.get("per") == "sample") == (axes == 1),
                        f"{name}: {node['p']}")
                setattr(module, name, Kept(numbers[node["name"]], own, axes))
    compare("dropout of elements, of channels, of samples", module, torch.randn(8, 3, 6, 6), prepare)


# ---- operators that no model has ----

class Function(nn.Module):
    """A linear layer, a function of its output, another."""

    def __init__(self, function, width=12, inner=12):
        super().__init__()
        self.before, self.after, self.function = nn.Linear(width, width), nn.Linear(inner, 5), function

    def forward(self, x):
        return self.after(self.function(self.before(x)))


class Parts(nn.Module):
    """Attention to another sequence by PyTorch's module, whose weight is read in parts; HuggingFace's Conv1D,
    whose weight lies the other way round."""

    def __init__(self, width=8):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
        self.weight, self.bias = nn.Parameter(torch.randn(width, 5)), nn.Parameter(torch.randn(5))

    def forward(self, x, y):
        z = self.attend(x, y, y, need_weights=False)[0].mean(1)
        return torch.addmm(self.bias, z, self.weight)


class ByLoss(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.fc, self.loss = nn.Linear(6, 5), loss

    def forward(self, x, y):
        return self.loss(self.fc(x), y)


LOSSES = {
    "squares by hand": (lambda x, y: ((x - y) ** 2).sum(1).mean() + 0.5 * F.mse_loss(x, y, reduction="sum"), False),
    "absolute errors": (lambda x, y: F.l1_loss(x, y) + 0.5 * (x - y).abs().sum(1).mean(), False),
    "squares of small errors": (lambda x, y: F.smooth_l1_loss(x, y) + F.huber_loss(x, y, reduction="sum"), False),
    "squares below 2": (lambda x, y: F.huber_loss(x, y, delta=2.0) + F.smooth_l1_loss(x, y, beta=0.1), False),
    "of probabilities": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), False),
    "of logarithms": (lambda x, y: F.nll_loss(x.log_softmax(1), y) + 0.1 * F.cross_entropy(
        x, y, reduction="none").mean() + F.cross_entropy(x, y, reduction="sum") / len(x), True)}


class Masked(nn.Module):
    """Attention to what no mask hides, by PyTorch's layer; masks of ids, of lengths, of truths."""

    def __init__(self, width=8):
        super().__init__()
        self.table, self.head = nn.Embedding(9, width), nn.Linear(width, 5)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 2, 16, 0.0, batch_first=True), 1,
                                          enable_nested_tensor=False)

    def forward(self, ids, lengths, truths):
        hidden = (ids == 3) | (torch.arange(ids.shape[1]) > lengths[:, None])
        hidden = hidden & (torch.arange(ids.shape[1]) > 0)
        x = self.body(self.table(ids), torch.full((5, 5), -torch.inf).triu(1), src_key_padding_mask=hidden)
        return self.head(torch.where(truths[..., None], x, -x).masked_fill(~truths[..., None], 0.5).mean(1))


class Cells(nn.Module):
    """Cells by themselves from zeros; a parameter that is read in two shapes; a softmax of another."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(6, 5), nn.GRUCell(5, 5)
        self.mix, self.weight = nn.Parameter(torch.rand(1, 1, 6)), nn.Parameter(torch.rand(3, 3))

    def forward(self, x):
        x = torch.einsum("ij,njc->nic", self.weight.softmax(-1), x * self.mix + x.flip(1) * (1 - self.mix))
        h = c = g = x.new_zeros(len(x), 5)
        for i in range(3):
            h, c = self.lstm(x[:, i], (h, c))
            g = self.gru(h, g)
        return g


class Series(nn.Module):
    """The next of a series of numbers; one feature at both ends."""

    def __init__(self, **options):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(1, 6, batch_first=True, **options), nn.Linear(options.get("proj_size", 6), 1)
        self.scale = nn.Linear(1, 1)

    def forward(self, x, y):
        return F.mse_loss(self.scale(self.fc(self.lstm(x)[0][:, -1])), y)


class Cast(nn.Linear):
    """Autocast inside forward; None: without."""

    def __init__(self, dtype):
        super().__init__(6, 5)
        self.dtype = dtype

    def forward(self, x):
        with torch.autocast("cpu", self.dtype, enabled=self.dtype is not None):
            return super().forward(x)


def test_types():
    x = torch.randn(4, 6)
    for name, module, x, said in (("real numbers", Cast(None), x, None),
                                  ("autocast", Cast(torch.bfloat16), x, "bfloat16"),
                                  ("float16", Cast(torch.float16), x, "float16"),
                                  ("a module of bfloat16", nn.Linear(6, 5).bfloat16(), x.bfloat16(), "bfloat16")):
        made = export(module, x)
        dtype = json.loads(made.graph).get("dtype", "float32")
        tap.say(dtype == ("bfloat16" if said else "float32") and
                [f"computes in {said}," in n for n in made.notes] == ([True] if said else []), name,
                [dtype, made.notes])
    made = export(nn.Linear(6, 5), torch.randn(4, 6), dtype="bfloat16")
    tap.say(json.loads(made.graph)["dtype"] == "bfloat16" and not made.notes, "as it is said")


def test_losses():
    test_types()
    for name, (loss, labels) in LOSSES.items():
        torch.manual_seed(1)
        target = torch.randint(5, (4,)) if labels else torch.rand(4, 5)
        step = compare(name, ByLoss(loss), (torch.randn(4, 6), target))
        tap.say(step and not [n for n in step.graph["nodes"] if n["op"] in ("pow", "abs", "sigmoid") or
                              n["op"] == "log_softmax"], "made of the losses' own operators")
    for name, (loss, labels) in hand_modules.LOSSES.items():
        torch.manual_seed(1)
        compare(name, ByLoss(loss), (torch.randn(4, 6), torch.randint(5, (4,)) if labels else torch.rand(4, 5)))
    torch.manual_seed(1)
    ids = torch.randint(9, (4, 5))
    compare("masks", Masked(), (ids, torch.randint(1, 6, (4,)), ids > 2))
    torch.manual_seed(1)
    compare("one feature", Series(), (torch.randn(4, 3, 1), torch.randn(4, 1)))
    torch.manual_seed(1)
    compare("cells", Cells(), torch.randn(4, 3, 6))


def test_operators():
    for name, function in FUNCTIONS.items():
        torch.manual_seed(1)
        compare(name, Function(function), torch.randn(6, 12))
    torch.manual_seed(1)
    step = compare("a weight in parts, one transposed", Parts(), (torch.randn(4, 3, 8), torch.randn(4, 5, 8)))
    if step:
        parts = [p for p in step.map["parameters"].values() if "rows" in p]
        tap.say([p["rows"] for p in parts if p["names"] == ["attend.in_proj_weight"]] in ([[0, 8], [8, 24]],
                [[0, 8], [8, 16], [16, 24]]), "rows are told", [parts])
        tap.say(step.map["parameters"]["weight"]["transpose"] == [1, 0], "so is what is transposed")


# ---- what cannot be ----

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


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.BatchNorm1d(6), nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(self.norm(self.norm(x).relu()))


class Many(nn.Linear):
    def __init__(self):
        super().__init__(6, 9)

    def forward(self, x, y):
        h = super().forward(x)
        return sum(F.mse_loss(h[:, i], y) for i in range(9))


class Numbers(nn.Linear):
    def __init__(self):
        super().__init__(6, 5)

    def forward(self, x):
        return super().forward(x.float())


def counted(m, x):
    m.seen.add_(x.mean().detach())
    return x


def no_grad(fc, x):
    with torch.no_grad():
        return fc(x)


REFUSED = {
    "a branch by data": (lambda m, x: x if x.sum() > 0 else -x, "torch.export cannot export"),
    "a shape by data": (lambda m, x: x + x.nonzero().shape[0], "module body .*how many elements a condition leaves"),
    "an operator without a row": (lambda m, x: x.erfinv(), r"module body \(.*Child\): erf_inv: there is no row"),
    "an order that is computed": (lambda m, x: x.sort(1)[0] * x, "module body .*sort: chooses elements by what"),
    "places as numbers": (lambda m, x: x.topk(2)[1][:, :1] * x, "module body .*mul.*: computes with places"),
    "places to go back to": (lambda m, x: F.max_unpool1d(*F.max_pool1d(x[:, None], 2, return_indices=True),
                                                         2).flatten(1), "module body .*a graph does not have"),
    "integers of what is computed": (lambda m, x: x * x.long(), "module body .*makes integers of what was computed"),
    "complex numbers": (lambda m, x: torch.fft.rfft(x).angle()[:, :1] * x, "module body .*angle: there is no row"),
    "how many there are": (lambda m, x: x * len(x[x > 0]), "torch.export cannot export"),
    "a branch by how many there are": (lambda m, x: x * 2 if x[x > 0].numel() > 5 else x, "torch.export cannot export"),
    "the order of what is taken out": (lambda m, x: x[:, 0][x[:, 0] > 0].cumsum(0).sum() * x,
                                       "module body .*how many elements a condition leaves"),
    "what is taken out of what is taken out": (lambda m, x: x * x[x > 0][:, None][x[x > 0] > 1].sum(),
                                               "module body .*all that a condition leaves"),
    "a mean of what is taken out by what is computed": (lambda m, x: x * x[x > 0].mean(),
                                                        "module body .*as many of the batch as what is computed"),
    "several images a sample": (lambda m, x: F.conv1d(x.view(-1, 1, 3), torch.ones(1, 1, 3), padding=1).view(-1, 6),
                                "module body .*images that are not one a sample"),
    "a pool with gaps": (lambda m, x: F.max_pool1d(x[:, None], 2, 1, dilation=2).repeat(1, 1, 2)[:, 0, :6],
                         "module body .*pools windows with gaps"),
    "an inverse": (lambda m, x: torch.linalg.inv(x[:, :4].view(-1, 2, 2)).flatten(1) @ torch.ones(4, 6),
                   "module body .*inv.*: there is no row"),
    "the largest of all samples": (lambda m, x: x - x.amax(0), r"module body .*along the axis of samples"),
    "numbers that are drawn": (lambda m, x: x + torch.randn_like(x), "module body .*draws random numbers"),
    "samples joined": (lambda m, x: torch.cat([x, x])[:4], "module body .*joins tensors along the axis of samples"),
    "state of its own": (counted, "reduces along the axis of samples|buffer body.seen"),
}


def refusal(module, inputs, **options):
    try:
        export(module, inputs, **options)
        return "it was exported"
    except Refused as why:
        return str(why)


def test_refusals():
    for name, (function, words) in REFUSED.items():
        said = refusal(Parent(function), (torch.randn(4, 6),))
        tap.say(bool(re.search(words, said)) and "\n" not in said, name, [said])
    said = refusal(Parent(lambda m, x: x.erfinv()), (torch.randn(4, 6),))
    line = Child.forward.__code__.co_firstlineno + 1
    tap.say(f"test_exported.py:{line}: return self.function" in said, "the line is named", [said])
    said = refusal(Series(proj_size=2), (torch.randn(4, 3, 1), torch.randn(4, 1)))
    tap.say("projects its state (proj_size)" in said, "a state that is projected", [said])
    with contextlib.redirect_stderr(io.StringIO()) as told:
        said = refusal(Parent(REFUSED["a branch by data"][0]), (torch.randn(4, 6),))
    tap.say("torch.export cannot export" in said and not told.getvalue(), "PyTorch prints nothing", [told.getvalue()])
    said = refusal(Numbers(), (torch.randint(5, (4, 6)),))
    tap.say("nothing says below what" in said and "input x" in said, "integers of which nothing is known", [said])
    said = refusal(Twice(), (torch.randn(4, 6),))
    tap.say("a second time" in said and "BatchNorm1d" in said, "statistics that are kept twice", [said])
    said = refusal(Many(), (torch.randn(4, 6), torch.randn(4)))
    tap.say("9 losses, where a graph has at most 8" in said, "more losses than a graph has", [said])
    tap.say("at least two" in refusal(nn.Linear(6, 5), (torch.randn(1, 6),)), "one sample")
    said = refusal(Parent(lambda m, x: x * 2 if x[x > 0].numel() else x), (torch.randn(4, 6),))
    tap.say(said == "it was exported", "whether there are any may be asked", [said])


# ---- the command ----

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
        tap.say(done.returncode == status and ("4 micro-batches are more than 1" in done.stderr) == (status == 2),
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


globals()[f"test_{part}"]()
tap.end()
