"""What a node of the program may be besides a value of the graph.  Constants are PyTorch's tensors.
SPDX-License-Identifier: Apache-2.0
"""
import math

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
    """Ones where a condition holds, else zeros; `computed`: of real numbers."""
    computed = False

    @classmethod
    def of(cls, value):
        return cls(value.node, value.axes, value.dims)

    def like(self, node=None, axes=None, dims=None):
        made = Mask.of(super().like(node, axes, dims))
        made.computed = self.computed
        return made


class Choice(Value):
    """Integers that are chosen: ones where an integer is the class, whose axis `classes` no dim has.  Along the atoms
    `distinct` no integer is there twice."""

    def __init__(self, node, axes, dims, classes, distinct):
        super().__init__(node, axes, dims)
        self.classes, self.distinct = classes, distinct

    def like(self, node=None, axes=None, dims=None):
        return Choice(node or self.node, self.axes if axes is None else axes, self.dims if dims is None else dims,
                      self.classes, self.distinct)

    def renamed(self, names):
        made = super().renamed(names)
        made.classes, made.distinct = ([b for a in atoms for b in names.get(a, [a])]
                                       for atoms in (self.classes, self.distinct))
        return made

    def canonical(self):
        return [*super().canonical(), self.classes]


class Shifted(Value):
    """Integers of an input and known ones, or a number for all, added up; as numbers the value itself."""

    def __init__(self, value, ids, by):
        super().__init__(value.node, value.axes, value.dims)
        self.ids, self.by = ids, by


class Composed:
    """Integers that are put together of others, as `kind` says: "cat" along the axis `how`, "where" the condition `how`
    holds, "pick" of an axis and its places, "view" of another shape."""

    def __init__(self, kind, parts, how, shape):
        self.kind, self.parts, self.how, self.shape = kind, parts, how, list(shape)


class Rows:
    """Rows of a table at places that are chosen, until somebody says what for."""

    def __init__(self, table, choice):
        self.table, self.choice = table, choice
        self.shape = [*choice.shape, *table.shape[1:]]

    def turned(self):
        """With the last two axes the other way round."""
        order = [*range(len(self.table.shape) - 2), -1, -2]
        table = self.table
        if isinstance(table, Param):
            table = table.moved(table.places().permute([i % len(table.shape) for i in order]))
        elif isinstance(table, torch.Tensor):
            table = table.mT
        else:
            table = table.like(dims=[table.dims[i] for i in order])
        return Rows(table, self.choice)


class Places:
    """Where a condition holds, in a list, of which the place along `axis` of the condition's axes (None: all places
    along all axes).  Nobody knows how many: all are computed, and `mask` says which count."""

    def __init__(self, mask, axis):
        self.mask, self.axis = mask, axis

    @property
    def shape(self):
        rows = math.prod(self.mask.shape)
        return [rows] if self.axis is not None else [rows, len(self.mask.dims)]


class Complex:
    """Pairs of numbers: the real and the imaginary parts."""

    def __init__(self, real, imaginary):
        self.parts = real, imaginary


class Noise:
    """Ones that are kept with probability `keep`, divided by `by`."""

    def __init__(self, shape, keep, by=1.0):
        self.shape, self.keep, self.by = list(shape), keep, by


class Loss:
    """A sum of loss nodes, each by its weight; `summed`: functions that make values, of whose elements it is the sum,
    each with a factor, if that is known."""

    def __init__(self, terms, summed=None):
        self.terms, self.summed = terms, summed

    def times(self, factor):
        return Loss([(node, weight * factor) for node, weight in self.terms],
                    self.summed and [(make, by * factor) for make, by in self.summed])

    def plus(self, other):
        if isinstance(other, Each):
            raise Refused("adds a loss to losses that are no mean yet")
        return Loss(self.terms + other.terms, self.summed and other.summed and self.summed + other.summed)


class Each(Loss):
    """Losses of `count` elements, of which nobody has made a mean or a sum yet; `terms` are their mean, `points`:
    functions that make them values of that many elements, for whoever computes with them, each with a factor."""

    def __init__(self, terms, count, points):
        super().__init__(terms)
        self.count, self.points = count, points

    def times(self, factor):
        return Each(super().times(factor).terms, self.count, [(make, by * factor) for make, by in self.points])

    def plus(self, other):
        if not isinstance(other, Each) or other.count != self.count:
            raise Refused("adds a loss to losses that are no mean yet")
        return Each(self.terms + other.terms, self.count, self.points + other.points)

    def mean(self):
        return Loss(self.terms, [(make, by / self.count) for make, by in self.points])

    def sum(self):
        return self.mean().times(self.count)


class Stopped:
    """A loss that was detached: a number, once somebody computes with it."""

    def __init__(self, loss):
        self.loss, self.number = loss, None


TENSORS = (torch.Tensor, Value, Param, Noise, Loss, Complex, Rows, Places, Composed)
