# Operators, losses and types that no model of the tests has: those of modules that are exported, beside PyTorch's.
# SPDX-License-Identifier: Apache-2.0
import json

import hand_modules
from exported import F, torch
from exported_steps import ByLoss, compare, nn, tap
from ffsoap_torch.export import export
from functions import FUNCTIONS


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


class Signs(torch.autograd.Function):
    """The sign, whose gradient passes where the number is small; a threshold that all samples share."""

    @staticmethod
    def forward(ctx, x, threshold):
        ctx.save_for_backward(x, threshold)
        return torch.sign(x - threshold)

    @staticmethod
    def backward(ctx, grad):
        x, threshold = ctx.saved_tensors
        near = ((x - threshold).abs() < 0.5).to(x)
        return near * grad, -2 * near * grad


class Swish(torch.autograd.Function):
    """Its backward is its forward's, in less memory."""

    @staticmethod
    def forward(x):
        return x * x.sigmoid() / x.square().mean(1, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        s, m = x.sigmoid(), x.square().mean(1, keepdim=True)
        by = (grad * x * s).sum(1, keepdim=True)
        return grad * (s + x * s * (1 - s)) / m - by * 2 * x / x.shape[1] / m ** 2


BACKWARD = {
    "a gradient that passes a sign": lambda x: Signs.apply(x, x.new_tensor([0.1, -0.2, 0.3] * 4)) + Signs.apply(
        x, x.abs().mean(0, keepdim=True)),
    "a backward in less memory": lambda x: Swish.apply(x)}
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
    for name, function in {**FUNCTIONS, **BACKWARD}.items():
        torch.manual_seed(1)
        compare(name, Function(function), torch.randn(6, 12))
    torch.manual_seed(1)
    step = compare("a weight in parts, one transposed", Parts(), (torch.randn(4, 3, 8), torch.randn(4, 5, 8)))
    if step:
        parts = [p for p in step.map["parameters"].values() if "rows" in p]
        tap.say([p["rows"] for p in parts if p["names"] == ["attend.in_proj_weight"]] in ([[0, 8], [8, 24]],
                [[0, 8], [8, 16], [16, 24]]), "rows are told", [parts])
        tap.say(step.map["parameters"]["weight"]["transpose"] == [1, 0], "so is what is transposed")
