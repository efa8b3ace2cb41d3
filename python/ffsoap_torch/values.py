"""What a node of the program may be besides a value of the graph.  Constants are PyTorch's tensors.
SPDX-License-Identifier: Apache-2.0
"""
import torch

from . import Refused
from .layout import Value


class Param:
    """A parameter, or a rearrangement of its elements: `index` says which element is where, None that
    they lie as they did."""

    def __init__(self, name, tensor, shape=None, index=None):
        self.name, self.tensor, self.index = name, tensor, index
        self.shape = list(tensor.shape if shape is None else shape)

    def places(self):
        if self.index is None:
            return torch.arange(self.tensor.numel()).reshape(self.shape)
        return self.index

    def moved(self, index):
        """The same parameter with its elements at `index`."""
        same = index.numel() == self.tensor.numel() and bool(
            (index.reshape(-1) == torch.arange(index.numel())).all())
        return Param(self.name, self.tensor, index.shape, None if same else index)


class Mask(Value):
    """Ones where a condition holds, else zeros."""

    @classmethod
    def of(cls, value):
        return cls(value.node, value.axes, value.dims)

    def like(self, node=None, axes=None, dims=None):
        return Mask.of(super().like(node, axes, dims))


class Complex:
    """Pairs of numbers: the real and the imaginary parts."""

    def __init__(self, real, imaginary):
        self.parts = real, imaginary


class Noise:
    """Ones that are kept with probability `keep`, divided by `by`."""

    def __init__(self, shape, keep, by=1.0):
        self.shape, self.keep, self.by = list(shape), keep, by


class Loss:
    """A sum of loss nodes, each by its weight."""

    def __init__(self, terms):
        self.terms = terms

    def times(self, factor):
        return Loss([(node, weight * factor) for node, weight in self.terms])

    def plus(self, other):
        if isinstance(other, Each):
            raise Refused("adds a loss to losses that are no mean yet")
        return Loss(self.terms + other.terms)


class Each(Loss):
    """Losses of `count` elements, of which nobody has made a mean or a sum yet; `terms` are their mean."""

    def __init__(self, terms, count):
        super().__init__(terms)
        self.count = count

    def times(self, factor):
        return Each(super().times(factor).terms, self.count)

    def plus(self, other):
        if not isinstance(other, Each) or other.count != self.count:
            raise Refused("adds a loss to losses that are no mean yet")
        return Each(self.terms + other.terms, self.count)

    def mean(self):
        return Loss(self.terms)

    def sum(self):
        return self.mean().times(self.count)


TENSORS = (torch.Tensor, Value, Param, Noise, Loss, Complex)
