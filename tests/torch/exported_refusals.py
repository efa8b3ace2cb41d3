# What cannot be exported, and how it is said.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import re

from exported import F, torch
from exported_operators import Series
from exported_steps import Child, Parent, nn, refusal, tap


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.BatchNorm1d(6), nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(self.norm(self.norm(x).relu()))


class Named(nn.Linear):
    """A member that is called as one of an exported program."""

    def __init__(self):
        super().__init__(6, 5)
        self.graph = nn.Linear(6, 6)

    def forward(self, x):
        return super().forward(self.graph(x))


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


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.1, 0.1)


def hooked(m, x):
    x.register_hook(lambda grad: grad * 2)
    return x


REFUSED = {
    "a backward that clips": (lambda m, x: Clipped.apply(x), "Clipped has a backward of its own.*exported_refusals.py"),
    "a hook within forward": (hooked, "a hook .*exported_refusals.py"),
    "a branch by data": (lambda m, x: x if x.sum() > 0 else -x, "torch.export cannot export"),
    "a shape by data": (lambda m, x: x + x.nonzero().shape[0], "module body .*how many elements a condition leaves"),
    "an operator without a row": (lambda m, x: x.erfinv(), r"module body \(.*Child\): erf_inv: there is no row"),
    "an order that is computed": (lambda m, x: x.sort(1)[0] * x, "module body .*sort: chooses elements by what"),
    "places as numbers": (lambda m, x: x.topk(2)[1][:, :1] * x, "module body .*mul.*: computes with places"),
    "places to go back to": (lambda m, x: F.max_unpool1d(*F.max_pool1d(x[:, None], 2, return_indices=True),
                                                         2).flatten(1), "module body .*a graph does not have"),
    "complex numbers": (lambda m, x: torch.fft.rfft(x).sqrt().abs()[:, :1] * x, "module body .*sqrt: "),
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


def test_refusals():
    for name, (function, words) in REFUSED.items():
        said = refusal(Parent(function), (torch.randn(4, 6),))
        tap.say(bool(re.search(words, said)) and "\n" not in said, name, [said])
    said = refusal(Parent(lambda m, x: x.erfinv()), (torch.randn(4, 6),))
    line = Child.forward.__code__.co_firstlineno + 1
    tap.say(f"exported_steps.py:{line}: return self.function" in said, "the line is named", [said])
    said = refusal(Series(proj_size=2), (torch.randn(4, 3, 1), torch.randn(4, 1)))
    tap.say("projects its state (proj_size)" in said, "a state that is projected", [said])
    with contextlib.redirect_stderr(io.StringIO()) as told:
        said = refusal(Parent(REFUSED["a branch by data"][0]), (torch.randn(4, 6),))
    tap.say("torch.export cannot export" in said and not told.getvalue(), "PyTorch prints nothing", [told.getvalue()])
    module = Parent(lambda m, x: x)
    module.body.fc.weight.register_hook(lambda grad: grad * 2)
    tap.say("parameter body.fc.weight has a hook" in refusal(module, (torch.randn(4, 6),)), "a parameter's hook")
    module = Parent(lambda m, x: x)
    module.body.register_full_backward_hook(lambda m, into, outof: None)
    tap.say("module body has a hook" in refusal(module, (torch.randn(4, 6),)), "a module's hook")
    said = refusal(Numbers(), (torch.randint(5, (4, 6)),))
    tap.say("nothing says below what" in said and "input x" in said, "integers of which nothing is known", [said])
    said = refusal(Twice(), (torch.randn(4, 6),))
    tap.say("a second time" in said and "BatchNorm1d" in said, "statistics that are kept twice", [said])
    said = refusal(Named(), (torch.randn(4, 6),))
    tap.say("a member called graph" in said, "a member that an exported program has", [said])
    said = refusal(Many(), (torch.randn(4, 6), torch.randn(4)))
    tap.say("9 losses, where a graph has at most 8" in said, "more losses than a graph has", [said])
    tap.say("at least two" in refusal(nn.Linear(6, 5), (torch.randn(1, 6),)), "one sample")
    said = refusal(Parent(lambda m, x: x * 2 if x[x > 0].numel() else x), (torch.randn(4, 6),))
    tap.say(said == "it was exported", "whether there are any may be asked", [said])
