"""What a node of the program may be besides a value of the graph.  Constants are PyTorch's tensors.
SPDX-License-Identifier: Apache-2.0
"""
import torch

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


class Noise:
    """Ones that are kept with probability `keep`, divided by `by`."""

    def __init__(self, shape, keep, by=1.0):
        self.shape, self.keep, self.by = list(shape), keep, by


class Loss:
    """A sum of loss nodes, each by its weight."""

    def __init__(self, terms):
        self.terms = terms


TENSORS = (torch.Tensor, Value, Param, Noise, Loss)
