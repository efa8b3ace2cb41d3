"""An exported graph, run as a plan says: every operator on this device's part of it.

SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.fx.node import map_arg
from torch.utils.checkpoint import checkpoint

from ..trace import WithLoss
from . import local, rules
from .layout import is_item, operands_of, shapes_of, whole
from .moves import gradient_of, move, moved


class Run:
    """What the computations of a device share."""

    def __init__(self, layout, mesh, micro_batches):
        self.layout, self.mesh, self.sizes = layout, mesh, layout.sizes
        self.micro_batches = micro_batches
        self.steps = {step.node: step for step in layout.steps}
        self.gathered = {}  # by address what is dropped behind its readers, and how it is gathered again

    def has_rule(self, step):
        shapes = [shapes_of(o)[0] for o in operands_of(step.node)]
        return rules.axes_of(step.node, shapes, shapes_of(step.node)[0]) is not None

    def dropped(self, node):
        """Is it a parameter that is gathered again for backward?"""
        name = self.layout.parameters.get(node.name)
        entry = name and self.layout.plan.parameter(self.layout.names.parameter_of(name))
        return bool(entry and entry.get("recompute"))

    def recomputed(self, node):
        """Is it dropped after forward?  None: the node is no operator's."""
        operators = self.layout.names.operators_of(node.name)
        found = [self.layout.plan.entry(o).get("recompute", False) for o in operators]
        return all(found) if found else None

    # ---- parameters that are gathered again ----

    def save(self, x):
        entry = self.gathered.get(x.untyped_storage().data_ptr()) if x.numel() else None
        return x if entry is None else (entry, x.shape, x.stride(), x.storage_offset())

    def load(self, saved):
        if isinstance(saved, torch.Tensor):
            return saved
        (x, shape, source, target), size, stride, offset = saved
        with torch.no_grad():
            return moved(x, self.mesh, shape, source, target).as_strided(size, stride, offset)


class Values:
    """Of nodes what this device has, and where that was moved to."""

    def __init__(self, run):
        self.run, self.of, self.moves = run, {}, {}

    def operand(self, node, places, gradient):
        value = self.of[node]
        if not isinstance(value, torch.Tensor):
            return value
        here, found = self.run.layout.current(node), self.moves.setdefault(node, {})
        key = (tuple(places), tuple(gradient))
        if key not in found:
            shape = shapes_of(node)[0]
            found[key] = move(value, self.run.mesh, shape, here, places, gradient)
            if self.run.dropped(node) and list(here) != list(places):
                again = value.detach(), shape, here, places
                self.run.gathered[found[key].untyped_storage().data_ptr()] = again
        return found[key]

    def drop(self, node):
        for x in self.moves.pop(node, {}).values():
            if isinstance(x, torch.Tensor):
                self.run.gathered.pop(x.untyped_storage().data_ptr(), None)
        self.of.pop(node, None)


def compute(run, node, values):
    """A node's results on this device."""
    if is_item(node):
        return values.of[node.args[0]][node.args[1]]
    step = run.steps[node]
    operands = iter(zip(step.operands, step.gradients))
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: values.operand(n, *next(operands)))
    return local.compute(run, step, args, kwargs)


def segments(run, nodes):
    """Runs of nodes that are all dropped after forward, or none."""
    found = []
    for node in nodes:
        again = run.recomputed(node)
        if again is None:
            again = found[-1][0] if found else False
        if not found or found[-1][0] != again:
            found.append((again, []))
        found[-1][1].append(node)
    return found


def computed_again(run, nodes, values, wanted):
    """Nodes whose results are dropped and computed again; those that others want are kept."""
    inside = set(nodes)
    before = {o: values.of[o] for node in nodes for o in operands_of(node) if o not in inside}

    def forward():
        inner = Values(run)
        inner.of.update(before)
        for node in nodes:
            inner.of[node] = compute(run, node, inner)
        return {node: inner.of[node] for node in nodes if node in wanted}

    values.of.update(checkpoint(forward, use_reentrant=False))


def run_nodes(run, nodes, values, kept):
    """In the graph's order.  What nobody reads any more is dropped, but what is to be kept."""
    last = {o: node for node in nodes for o in operands_of(node)}
    readers = {}
    for node, reader in last.items():
        readers.setdefault(reader, []).append(node)
    with saved_tensors_hooks(run.save, run.load):
        for again, part in segments(run, nodes):
            if again and torch.is_grad_enabled():
                inside = set(part)
                wanted = {n for n in part if n in kept or last.get(n) not in inside}
                computed_again(run, part, values, wanted)
            for node in part:
                if not again or not torch.is_grad_enabled():
                    values.of[node] = compute(run, node, values)
                for o in readers.get(node, []):
                    if o not in kept:
                        values.drop(o)


def attribute(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def own_name(module, name):
    """Without what a loss around the module puts in front."""
    return name.removeprefix("module.") if isinstance(module, WithLoss) else name


def place_parameters(module, layout, mesh, here=lambda name: True):
    """Each as the plan stores it; tied ones stay one.  What is not here is left out."""
    names, done = {p: n for n, p in module.named_parameters()}, {None: None}
    for owner in list(module.modules()):
        for key, p in list(owner._parameters.items()):
            if p not in done:
                at = layout.stored.setdefault(names[p], whole(len(layout.sizes)))
                done[p] = None
                if here(names[p]):
                    done[p] = torch.nn.Parameter(distribute_tensor(p.detach(), mesh, at), p.requires_grad)
            owner._parameters[key] = done[p]


def begin(module, run, program, inputs):
    """What a step begins with: inputs, parameters that are here, buffers."""
    values, given = Values(run), iter(inputs)
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        if node.name in run.layout.constants:
            values.of[node] = program.constants[run.layout.constants[node.name]].to(inputs[0].device)
            continue
        name = run.layout.parameters.get(node.name) or run.layout.buffers.get(node.name)
        if name is None:
            values.of[node] = next(given)
            continue
        tensor = attribute(module, name)
        if isinstance(tensor, DTensor):
            tensor = tensor.to_local(grad_placements=gradient_of(tensor.placements))
        elif tensor is not None:
            tensor = tensor.clone()  # a norm's statistics change before backward
        values.of[node] = tensor
    return values


def output_of(graph):
    return next(n for n in graph.nodes if n.op == "output")


def results(module, program, values):
    """Buffers as the graph changes them, and what the module gives, whole."""
    n, found = len(values.run.sizes), []
    for spec, node in zip(program.graph_signature.output_specs, output_of(program.graph).args[0]):
        is_node = isinstance(node, torch.fx.Node)
        if is_node and node not in values.of:
            continue
        value = values.operand(node, whole(n), whole(n)) if is_node else node
        if spec.kind.name == "BUFFER_MUTATION":
            with torch.no_grad():
                attribute(module, spec.target).copy_(value)
        else:
            found.append(value)
    return found


class Planned(torch.nn.Module):
    """A module whose parameters lie as the plan says.  forward() takes the whole batch on every device and gives
    what the module gives, whole; step() is forward and backward, in the plan's micro-batches."""

    def __init__(self, module, program, layout, mesh, micro_batches=1):
        super().__init__()
        self.module, self.micro_batches = module, micro_batches
        self.program = [program]  # in a list, as it is no part of the module
        self.run = Run(layout, mesh, micro_batches)
        place_parameters(module, layout, mesh)

    def once(self, inputs):
        program = self.program[0]
        values = begin(self.module, self.run, program, inputs)
        nodes = [n for n in program.graph.nodes if n.op == "call_function"]
        run_nodes(self.run, nodes, values, set(operands_of(output_of(program.graph))))
        found = results(self.module, program, values)
        return found[0] if len(found) == 1 else tuple(found)

    def batches(self, inputs):
        return list(zip(*(x.chunk(self.micro_batches) for x in inputs)))

    def forward(self, *inputs):
        parts = [self.once(batch) for batch in self.batches(inputs)]
        return parts[0] if len(parts) == 1 else sum(parts) / len(parts)

    def step(self, *inputs):
        """The loss, whole; gradients are added to the parameters'."""
        losses = 0.0
        for batch in self.batches(inputs):
            loss = self.once(batch) / self.micro_batches
            loss.backward()
            losses = losses + loss.detach()
        return losses

    def weights(self):
        """Whole, by the module's names."""
        return {own_name(self.module, name): x.full_tensor() if isinstance(x, DTensor) else x
                for name, x in self.module.state_dict().items()}
