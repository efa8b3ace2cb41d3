# bfloat16: rounded where it is stored, forward and backward.
# SPDX-License-Identifier: Apache-2.0
from pytorch import torch


def rounded(x):
    return x.float().bfloat16().to(x.dtype)


class Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return rounded(x)

    @staticmethod
    def backward(ctx, gradient):
        return rounded(gradient)


class Parameter(torch.autograd.Function):
    """Read as bfloat16; its gradient stays what it is."""
    @staticmethod
    def forward(ctx, x):
        return rounded(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Read(torch.autograd.Function):
    """What one operator reads, and what those behind it do: their gradients are added last first."""
    @staticmethod
    def forward(ctx, x):
        return x.clone(), x.clone()

    @staticmethod
    def backward(ctx, gradient, behind):
        return rounded(gradient + behind)


class Smooth(torch.autograd.Function):
    """Functions whose backward reads what was stored."""
    @staticmethod
    def forward(ctx, x, function, slope):
        y = rounded(function(x))
        ctx.save_for_backward(y)
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, gradient):
        y, = ctx.saved_tensors
        return gradient * ctx.slope(y), None, None
