"""A plan laid over an exported graph: of every node where its operands and results lie on the mesh.

Nothing here needs devices or processes: `check` says the same as what `apply` does.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import math
import operator

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.fx.node import Node, map_arg

from . import places, rules
from .plan import DIMS


@dataclasses.dataclass
class Step:
    """What a device does of a node: brings its operands into `operands`, whose gradients it will have as
    `gradients`, and computes `results`."""
    node: Node
    operands: list
    gradients: list
    results: list
    cut: list  # by axis of the mesh the dim


def operands_of(node):
    found = []
    map_arg((node.args, node.kwargs), found.append)
    return found


def is_item(node):
    """One of several results."""
    return node.op == "call_function" and node.target is operator.getitem


def shapes_of(node):
    """Of its results; None for what is no tensor."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [tuple(v.shape) if isinstance(v, torch.Tensor) else None for v in values]


def whole(n):
    return [Replicate() for _ in range(n)]


class Layout:
    """sizes: of the mesh's axes; stages: by stage the devices; plan, names: of plan.py; ties: by a parameter's name
    the first that it has."""

    def __init__(self, graph, signature, plan, names, sizes, stages, ties=()):
        self.graph, self.plan, self.names, self.sizes, self.stages = graph, plan, names, sizes, stages
        self.parameters = {k: dict(ties).get(n, n) for k, n in signature.inputs_to_parameters.items()}
        self.buffers = dict(signature.inputs_to_buffers)
        self.constants = dict(signature.inputs_to_lifted_tensor_constants)
        self.said = {}        # by operator, sentences on what is not as planned
        self.stored = {}      # by parameter's name in PyTorch its placement
        self.first = {}       # by parameter the stage that reads it first
        self.reads = {}       # by parameter the stages that read it
        self.results = {}     # by node the placements of its results
        self.given = set()    # nodes that depend on the data
        self.trained = set()  # nodes that depend on parameters, or on what is drawn
        self.steps = []
        self.stage_of = {}
        for node in graph.nodes:
            self.visit(node)

    def say(self, name, sentence):
        """Of an operator or parameter of the plan."""
        if name is not None and sentence not in self.said.setdefault(name, []):
            self.said[name].append(sentence)

    def is_input(self, node):
        return node.op == "placeholder" and not any(
            node.name in known for known in (self.parameters, self.buffers, self.constants))

    # ---- where results lie ----

    def visit(self, node):
        n = len(self.sizes)
        if node.op == "placeholder":
            self.results[node] = [whole(n)]
            self.stage_of[node] = 0
            if self.is_input(node):
                self.given.add(node)
            elif node.name not in self.constants:
                self.trained.add(node)
            return
        if node.op == "output":
            return
        operands = operands_of(node)
        if any(o in self.given for o in operands):
            self.given.add(node)
        if any(o in self.trained for o in operands) or rules.drops(node):
            self.trained.add(node)
        operators = self.names.operators_of(node.name)
        stages = [self.plan.entry(o).get("stage", 0) for o in operators]
        self.stage_of[node] = max([self.stage_of[o] for o in operands] + stages + [0])
        self.read_parameters(node, operands)
        if is_item(node):
            source, index = node.args
            results = self.results[source]
            self.results[node] = [results[index] if len(results) > 1 else results[0]]
            return
        self.steps.append(self.step(node, operands, operators))
        self.results[node] = self.steps[-1].results

    def read_parameters(self, node, operands):
        for o in operands:
            if o.name in self.parameters:
                name = self.parameters[o.name]
                self.reads.setdefault(name, set()).add(self.stage_of[node])

    def step(self, node, operands, operators):
        shapes = [shapes_of(o)[0] if len(shapes_of(o)) == 1 else None for o in operands]
        results = shapes_of(node)
        axes = rules.axes_of(node, shapes, results[0])
        cut = self.cut(node, axes, operators, shapes, results, operands)
        if axes is None:
            n = len(self.sizes)
            step = Step(node, [whole(n) for _ in operands], [whole(n) for _ in operands],
                        [whole(n) for _ in results], cut)
        else:
            step = self.placed(node, axes, cut, operands, len(results))
        for i, o in enumerate(operands):
            if o.name in self.parameters:
                self.store(self.parameters[o.name], shapes_of(o)[0], step.operands[i])
        return step

    def placed(self, node, axes, cut, operands, count):
        step = Step(node, [], [], [], cut)
        bias = rules.kind_of(node).startswith(("aten.linear", "aten.conv"))
        for i, names in enumerate(axes.operands):
            at, back = [], []
            for axis, dim in enumerate(cut):
                here = self.current(operands[i])[axis]
                if dim is None:
                    keeps = axes.linear and here.is_partial()
                    at.append(Partial() if keeps else Replicate())
                    back.append(Replicate())
                elif dim in names:
                    at.append(Shard(names.index(dim)))
                    back.append(at[-1])
                elif bias and i == 2 and dim not in axes.results[0]:  # once in a sum
                    at.append(Partial())
                    back.append(Replicate())
                else:
                    at.append(Replicate())
                    back.append(Partial())
            step.operands.append(at)
            step.gradients.append(back)
        results = axes.results * count if len(axes.results) == 1 else axes.results
        for names in results[:count]:
            step.results.append([self.result(axes, names, dim, step, axis) for axis, dim in enumerate(cut)])
        return step

    @staticmethod
    def result(axes, names, dim, step, axis):
        if dim is None:
            return Partial() if axes.linear and step.operands[0][axis].is_partial() else Replicate()
        if dim in names:
            return Shard(names.index(dim))
        return Replicate() if dim in axes.whole else Partial()

    def current(self, node):
        if node.name in self.parameters:
            return self.stored.get(self.parameters[node.name], whole(len(self.sizes)))
        return self.results[node][0]

    # ---- how a node is cut ----

    def cut(self, node, axes, operators, shapes, results, operands):
        """By axis of the mesh the dim that it cuts."""
        none = [None] * len(self.sizes)
        if axes is None:
            for o in operators:
                if self.degrees(o):
                    self.say(o, f"{rules.kind_of(node)} is not cut here: computed whole by every device")
            return none
        if not operators or node not in self.given:
            return self.divided(None, self.followed(axes, operands), axes, shapes, results)
        wanted = [(o, *self.wanted(o, node, axes, operands)) for o in operators]
        chosen = max(reversed(wanted), key=lambda w: sum(d is not None for d in w[1]))
        for o, at, said in wanted:
            for sentence in said:
                self.say(o, sentence)
            if [d is None for d in at] != [d is None for d in chosen[1]]:
                self.say(o, f"is cut as {chosen[0]}, with which it is one operator of PyTorch's")
        chosen = chosen[0], self.known(chosen[0], node, chosen[1], axes)
        return self.divided(chosen[0], chosen[1], axes, shapes, results)

    def wanted(self, operator, node, axes, operands):
        """Of an operator's entry by axis of the mesh the dim that it cuts, and sentences."""
        entry, last = self.plan.entry(operator), len(self.stages) - 1
        own = entry.get("stage", 0)
        at, said = places.laid(entry, DIMS, self.sizes, self.stages[min(own, last)])
        if own != self.stage_of[node]:
            said = said + [f"runs in stage {self.stage_of[node]}, with the rest of PyTorch's operator"]
        if rules.is_elementwise(node):  # axes may have other names here: as the operand is cut
            names = {d for names in axes.operands for d in names}
            here = self.followed(axes, operands)
            at = [here[i] if d is not None and d not in names and here[i] else d for i, d in enumerate(at)]
        return at, said

    def degrees(self, operator):
        return {d: n for d, n in self.plan.entry(operator).get("degrees", {}).items() if n > 1}

    def known(self, operator, node, at, axes):
        """Without the dims that the node cannot be cut along."""
        names = {d for names in axes.operands + axes.results for d in names}
        if not {d for d in at if d is not None} <= names:
            for d in at:
                if d is not None and d not in names:
                    self.say(operator, f"{d} is not cut in {rules.kind_of(node)}: gathered")
        return [d if d in names else None for d in at]

    def followed(self, axes, operands):
        """As the operands lie."""
        cut = []
        for axis in range(len(self.sizes)):
            found = None
            for o, names in zip(operands, axes.operands):
                at = self.current(o)[axis]
                if found is None and at.is_shard() and at.dim < len(names) and o in self.given:
                    found = names[at.dim]
            cut.append(found)
        return cut

    def divided(self, operator, cut, axes, shapes, results):
        """Without the dims whose parts would not be equal."""
        for dim in set(cut) - {None}:
            degree = 1
            for d, n in zip(cut, self.sizes):
                degree *= n if d == dim else 1
            found = [(names, s) for names, s in zip(axes.operands + axes.results, shapes + results) if s]
            for names, shape in found:
                for d, n in zip(names, shape):
                    if d == dim and n % degree:
                        self.say(operator, f"{n} of {dim} have no {degree} equal parts: gathered")
                        cut = [None if d == dim else d for d in cut]
        return cut

    # ---- parameters ----

    def store(self, name, shape, wanted):
        """Where the first reader wants it, unless the plan says otherwise."""
        if name in self.stored:
            return
        at = [Replicate() if p.is_partial() else p for p in wanted]
        entry = self.plan.parameter(self.names.parameter_of(name))
        if entry is not None:
            at = self.updated(name, entry, shape, at)
        self.stored[name] = at

    def updated(self, name, entry, shape, at):
        own = self.names.parameter_of(name)
        self.said.setdefault(own, [])
        if entry.get("update") == "flat":
            if "shards" in self.plan.file:
                self.say(own, f"cut over all devices that read it, not over groups of {self.plan.file['shards']}")
            return self.flat(own, shape, at)
        degrees = {d: n for d, n in entry.get("degrees", {}).items() if n > 1}
        order = [f"axis{i}" for i in range(len(shape))]
        stage = self.stages[min(min(self.reads[name]), len(self.stages) - 1)]
        cut, said = places.laid(entry, order, self.sizes, stage)
        for sentence in said:
            self.say(own, sentence)
        if any(int(d[4:]) >= len(shape) for d in degrees) or degrees and self.names.turned(own):
            self.say(own, "its axes are others in PyTorch: updated alike by every device")
            return at
        if any(shape[int(d[4:])] % math.prod(n for c, n in zip(cut, self.sizes) if c == d) for d in set(cut) - {None}):
            self.say(own, "its parts are not equal: updated alike by every device")
            return at
        return [Shard(int(d[4:])) if d is not None else Replicate() for d in cut]

    def flat(self, own, shape, at):
        """A run of elements a device becomes a run along an axis that has equal parts."""
        free = [i for i, p in enumerate(at) if p.is_replicate()]
        parts = 1
        for i in free:
            parts *= self.sizes[i]
        taken = {p.dim for p in at if p.is_shard()}
        # parts that are not equal are cut one axis of the mesh after the other, and gathered wrongly over both
        axes = [i for i, n in enumerate(shape) if i not in taken and n % parts == 0]
        axes = axes or [i for i in taken if shape[i] % math.prod(self.sizes) == 0]
        if free and not axes:
            self.say(own, f"no axis of {list(shape)} has {parts} equal parts: updated alike by every device")
            return at
        axis = axes[0] if axes else None
        return [Shard(axis) if i in free else p for i, p in enumerate(at)]
