"""Losses of a part of a batch of which the mean is not the batch's: these are refused.

Two graphs tell, of as many samples and of twice as many: what is as long in both has reduced the samples, and may only
be added up and multiplied by what does not depend on data.  SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

from .. import Refused
from . import rules
from .layout import is_item, operands_of

LINEAR = {f"aten.{name}" for name in (
    "add", "sub", "rsub", "neg", "mul", "div", "sum", "mean", "stack", "cat", "clone", "contiguous", "alias", "detach",
    "_to_copy", "to", "view", "reshape", "_unsafe_view", "flatten", "expand", "unsqueeze", "squeeze", "select", "slice",
    "permute", "transpose", "copy")}


class Parts:
    """By node: is it as long as there are samples (larger), does it depend on data, has it reduced samples; of how
    many samples there are, the power that it grows with."""

    def __init__(self, who):
        self.who, self.larger, self.data, self.reduced, self.powers = who, set(), set(), set(), {}

    def refuse(self, node, what):
        raise Refused(f"{node.name} {what}, of which {self.who} not see all")

    def visit(self, a, b):
        operands = operands_of(a)
        if len(grown(a, b)) > 1:
            self.refuse(a, "compares samples of the whole batch with each other")
        if grown(a, b):
            self.larger.add(a)
        if a in self.larger or self.data & set(operands):
            self.data.add(a)
        if a.op != "call_function":
            return
        lost = a not in self.larger and bool(self.larger & set(operands)) and not is_many(a)
        if self.reduced & set(operands):
            self.of_reduced(a, operands)
        if lost or self.reduced & set(operands):
            self.reduced.add(a)
        self.powers[a] = self.power(a, b, operands, lost)

    def of_reduced(self, a, operands):
        kind, known = rules.kind_of(a), [o for o in operands if o in self.data]
        if is_item(a):
            return
        if a in self.larger or kind not in LINEAR or kind == "aten.mul" and len(known) > 1 or (
                kind == "aten.div" and operands[-1] in self.data and len(operands) > 1):
            self.refuse(a, "computes with a mean or sum over samples")

    def power(self, a, b, operands, lost):
        kind, of = rules.kind_of(a), [self.powers.get(o, 0) for o in operands]
        if is_item(a) or not of:
            return sum(of)
        given = {} if not hasattr(a.target, "_schema") else rules.given_to(a)
        if lost and given.get("reduction", 1) == 1 and given.get("weight") is not None and kind in (
                rules.CROSS_ENTROPY, "aten.nll_loss_nd", "aten.nll_loss"):
            self.refuse(a, "is a mean by weights")
        sums = lost and (kind == "aten.sum" or given.get("reduction") == 2)
        return max(of) + sums + {"aten.mul": 1, "aten.div": -1}.get(kind, 0) * twice(a, b)


def is_many(node):
    return isinstance(node.meta.get("val"), (list, tuple))


def grown(a, b):
    """The axes that are longer with twice as many samples."""
    x, y = (n.meta.get("val") for n in (a, b))
    if not all(isinstance(v, torch.Tensor) for v in (x, y)) or x.dim() != y.dim():
        return []
    return [i for i, (n, m) in enumerate(zip(x.shape, y.shape)) if int(m) > int(n)]


def twice(a, b):
    """One where a number is twice as large with twice as many samples."""
    for x, y in zip(a.args, b.args):
        if isinstance(x, (int, float)) and isinstance(y, (int, float)) and x and y / x > 0:
            return round(math.log2(y / x))
    return 0


def refuse(program, other, who):
    """`other`: of twice as many samples.  `who` does not see all samples."""
    parts = Parts(who)
    for a, b in zip(program.graph.nodes, other.graph.nodes):
        if a.op != "output":
            parts.visit(a, b)
            continue
        for spec, node in zip(program.graph_signature.output_specs, a.args[0]):
            if spec.kind.name == "USER_OUTPUT" and parts.powers.get(node):
                parts.refuse(node, "is a sum over samples, not their mean")
