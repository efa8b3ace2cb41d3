"""From an exported program to a graph: constants are folded, all else is translated by the rows.
SPDX-License-Identifier: Apache-2.0
"""
import inspect
import operator

import torch
from torch.export.graph_signature import InputKind, OutputKind

from . import Refused, sums, trace
from .graph import Builder, plain
from .layout import Atom, Value, fresh, size_of
from .rows import ROWS, RANDOM, composed, losses, taken, waves
from .rows.pointwise import of_samples
from .rows.taken import OF_PLACES
from .values import Choice, Complex, Composed, Each, Loss, Param, Places, Stopped, TENSORS

CONTAINERS = ("torch.nn.modules.container", "torch.nn.modules.transformer", "torch.nn.modules.activation.Multi")
OF_LOSSES = ("add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "true_divide", "mean", "sum", "clone",
             "alias", "detach", "neg")
OF_CHOICES = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "permute", "transpose", "t", "movedim",
              "unsqueeze", "squeeze", "expand", "repeat", "repeat_interleave", "select", "slice", "split", "chunk",
              "unbind", "clone", "alias", "contiguous", "detach", "_to_copy", "to", "eq", "ne", "lt", "le", "gt", "ge",
              "one_hot", "index", "index_select", "gather", "scatter", "scatter_add", "embedding", "cross_entropy_loss",
              "nll_loss_nd", "nll_loss", "nll_loss2d")
OF_COMPLEX = ("view_as_real", "real", "imag", "conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj",
              "abs", "angle", "_fft_c2c", "_fft_c2r", "zeros_like", "ones_like", "full_like", "empty_like",
              "new_zeros", "new_ones", "new_empty", "new_full")
OF_STOPPED = ("clone", "alias", "detach", "_to_copy")  # which leave it to be printed
LARGE = 1 << 24  # elements
MARK = 1 << 12  # elements of a sample that what only says which samples there are may have
MOST_LOSSES = 8  # FF_MAX_LOSSES of ff/graph.h
IDENTITY = ("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range_for_size")


class Translator:
    """`notes`: what a user should know of the graph that was made."""

    def __init__(self, found, name, prefix="", below=None):
        self.found, self.prefix, self.notes = found, prefix, []
        self.graph = Builder(name)
        self.values, self.inputs, self.outputs, self.losses = {}, {}, [], []
        self.taken = taken.Taken(self)
        self.stateful, self.claims, self.batch, self.below = {}, {}, None, dict(below or {})

    # ---- names ----

    def named(self, target):
        return target[len(self.prefix):] if target.startswith(self.prefix) else target

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    # ---- the walk ----

    def run(self):
        nodes = {n.name: n for n in self.found.graph.nodes}
        self.graph.reserved = {self.named(name) for name in self.found.state_dict}
        self.read_inputs(nodes)
        for node in self.found.graph.nodes:
            if node.op == "call_function":
                self.node = node
                self.graph.module, self.kind = trace.module_of(node, self.prefix)
                self.graph.source, self.graph.hint = node.name, None
                try:
                    self.values[node] = self.call(node)
                except Refused as why:
                    where = f"module {self.graph.module} ({self.kind})" if self.graph.module else "the module"
                    raise Refused(f"{where}: {short(node)}: {why} ({trace.line_of(node)})") from why
        self.read_outputs(nodes)
        return self

    def read_inputs(self, nodes):
        for spec in self.found.graph_signature.input_specs:
            node = nodes.get(getattr(spec.arg, "name", ""))
            if node is None:
                continue
            if spec.kind == InputKind.USER_INPUT:
                self.values[node] = self.input(node)
            elif spec.kind == InputKind.PARAMETER:
                tensor = self.found.state_dict[spec.target]
                self.values[node] = Param(self.parameter_name(tensor, spec.target), tensor)
            elif spec.kind == InputKind.BUFFER:
                tensor = self.found.state_dict.get(spec.target, self.found.constants.get(spec.target))
                self.values[node] = tensor.detach()
                self.stateful[node] = self.named(spec.target)
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                self.values[node] = self.found.constants[spec.target].detach()
            elif spec.kind != InputKind.TOKEN:  # of effects, which no row has
                raise Refused(f"an input of kind {spec.kind.name} is not supported")
        if self.batch is None:
            raise Refused("the module has no input with samples")
        for name in self.below:
            raise Refused(f"{name} is no input of integers of the module, so that nothing says what it is below; its "
                          f"inputs are {', '.join(self.inputs)}")

    def parameter_name(self, tensor, target):
        """Of tied parameters the first name."""
        for name, other in self.found.state_dict.items():
            if other is tensor or (other.data_ptr() == tensor.data_ptr() and other.shape == tensor.shape
                                   and other.numel() and other.stride() == tensor.stride()):
                return self.named(name)
        return self.named(target)

    def input(self, node):
        example = node.meta.get("val")
        if not isinstance(example, torch.Tensor):
            return example
        if example.dim() < 1 or example.shape[0] < 2:
            raise Refused(f"input {node.name} has shape {list(example.shape)}: its first axis must be that of "
                          "samples, at least two")
        if self.batch is None:
            self.batch = Atom(int(example.shape[0]), samples=True)
        if int(example.shape[0]) != self.batch.size:
            raise Refused(f"input {node.name} has {example.shape[0]} samples, the first input {self.batch.size}")
        whole = not example.dtype.is_floating_point
        atoms = [[self.batch], *(fresh(int(n)) for n in example.shape[1:])]
        value = plain(node.name, atoms, whole)
        self.inputs[node.name] = Input(node.name, value.axes, whole, node.name, [], example.dtype == torch.bool)
        self.graph.names[node.name] = None  # taken
        if node.name in self.below and whole:
            self.classes(value, self.below.pop(node.name))
        return value

    def call(self, node):
        op = node.target
        if op is not operator.getitem and not isinstance(op, torch._ops.OpOverload) and not any(
                isinstance(self.values[n], TENSORS) for n in node.all_input_nodes):
            return self.taken.number(node)
        if getattr(op, "_opname", "") in OF_STOPPED and isinstance(self.values[node.args[0]], Stopped):
            return self.values[node.args[0]]
        args, kwargs = (torch.fx.node.map_arg(x, self.operand) for x in (node.args, node.kwargs))
        if op is operator.getitem:
            self.taken.with_lengths(node)
            return args[0][args[1]]
        if not isinstance(op, torch._ops.OpOverload):
            raise Refused("this is no operator of PyTorch's")
        name = op._opname
        if name in IDENTITY:
            return None
        taken.check_sizes(node, name)
        if name == "sym_size":
            return int(args[0].shape[args[1]])
        parts = [x for x in tensors_of(args) + tensors_of(kwargs.values())]
        lacks = any(self.values[n] is None for n in node.all_input_nodes)
        if name not in RANDOM and parts and not lacks and all(isinstance(x, torch.Tensor) for x in parts):
            return self.taken.found_out(node, fold(op, args, kwargs))
        self.taken.settle(node, args)
        missing = [n for n in node.all_input_nodes if self.values[n] is None]
        if missing:
            raise Refused("reads places or other results that a graph does not have")
        if name not in RANDOM and not parts:
            return fold(op, args, kwargs)
        if name in ("sum", "mean", "count_nonzero") and node.meta["val"].numel() == 1 and sums.of_data(
                self, node) and (name == "count_nonzero" or sums.told_by_elements(self, node)):
            return self.batch_sum(node).like(dims=[[]] * node.meta["val"].dim())
        if name not in ROWS:
            raise Refused("there is no row for this operator")
        if any(isinstance(x, Places) for x in parts) and (name not in OF_PLACES or isinstance(args[0], Places)):
            return taken.of_places(self, name, args)
        found = self.taken.call(node, name, args, kwargs)
        if found is None:
            found = composed.made(self, name, args)
        if found is None and any(isinstance(x, Composed) for x in parts):
            found = composed.used(self, name, args, kwargs)
        if found is not None:
            check_shape(found, node.meta.get("val"))
            return found
        if any(isinstance(x, Composed) for x in parts):
            args, kwargs = (torch.fx.node.map_aggregate(x, lambda y: composed.numbers(self, y) if isinstance(
                y, Composed) else y) for x in (args, kwargs))
            parts = tensors_of(args) + tensors_of(kwargs.values())
        if any(isinstance(x, Each) for x in parts) and not losses_alone(name, args):
            args = tuple(losses.value_of(self, x) if isinstance(x, Each) else x for x in args)
            parts = tensors_of(args) + tensors_of(kwargs.values())
        if name not in OF_CHOICES and any(isinstance(x, Choice) for x in parts):
            raise Refused("computes with places that are chosen")
        if name not in OF_LOSSES and any(isinstance(x, Loss) for x in parts):
            args = [losses.number_of(self, x) if isinstance(x, Loss) else [
                losses.number_of(self, y) if isinstance(y, Loss) else y for y in x] if isinstance(x, list) else x
                for x in args]
            parts = tensors_of(args) + tensors_of(kwargs.values())
        self.graph.hint = name
        if any(isinstance(x, (Complex, complex)) or isinstance(x, torch.Tensor) and x.is_complex()
               for x in [*args, *parts]):
            if name == "abs":
                return waves.length(self, args[0])
            if name not in OF_COMPLEX:
                return waves.of_pairs(self, name, ROWS[name], args, kwargs)
        try:
            inspect.signature(ROWS[name]).bind(self, *args, **kwargs)
        except TypeError as why:
            raise Refused(f"has arguments that its row lacks: {why}") from why
        made = ROWS[name](self, *args, **kwargs)
        check_shape(made, node.meta.get("val"))
        return made

    def operand(self, node):
        found = self.values[node]
        if isinstance(found, Stopped):
            if found.number is None:
                self.graph.hint = "detach"
                x = losses.number_of(self, found.loss)
                found.number = x.like(self.graph.add("detach", [x.node]))
            return found.number
        return found

    def shape(self):
        """Of what the current node makes."""
        return [int(n) for n in self.node.meta["val"].shape]

    def of_reals(self):
        """Whether the first operand of the current node is of real numbers in PyTorch."""
        return self.node.args[0].meta["val"].dtype.is_floating_point

    def computes_in(self, dtype=None):
        """The type of the graph, which has one; preset: bfloat16, if the module computes anything in 16 bits."""
        made = {x.dtype for node in self.found.graph.nodes
                if node.op == "call_function" and not isinstance(self.values[node], torch.Tensor)
                for x in [node.meta.get("val")] if isinstance(x, torch.Tensor)}
        if dtype is None and made & {torch.bfloat16, torch.float16}:
            dtype = "bfloat16"
            self.note(f"the module computes in {'bfloat16' if torch.bfloat16 in made else 'float16'}, so the graph is "
                      "of bfloat16, and the weights that are updated are float32")
        self.graph.dtype = dtype or "float32"
        return self

    # ---- what rows ask for ----

    def add(self, op, inputs, **attributes):
        """The node that an operator of the program becomes: called as its module, if that is PyTorch's own."""
        own = self.kind.startswith("torch.nn.modules.") and not self.kind.startswith(CONTAINERS)
        return self.graph.add(op, inputs, own, **attributes)

    def classes(self, ids, classes):
        """What an input of integers is below."""
        known = self.inputs[ids.node].classes
        self.inputs[ids.node].classes = max(known or 0, int(classes))

    def truth(self, x):
        return self.inputs[x.node].truth

    def at_most(self, ids, bound):
        """What an input of integers must be below, whatever else is read by it."""
        known = self.inputs[ids.node].bound
        self.inputs[ids.node].bound = min(known or bound, int(bound))

    def part_of_input(self, x, dim, indices):
        """Some columns of an input of integers are an input of their own."""
        if x.dims[dim] not in x.axes or any(a.samples for a in x.dims[dim]):
            raise Refused("takes a part of an input of integers that has no input of its own")
        axis = x.axes.index(x.dims[dim])
        source = self.inputs[x.node]
        parts = source.parts + [(axis, indices)]
        atoms = fresh(len(indices))
        axes, dims = list(x.axes), list(x.dims)
        axes[axis], dims[dim] = atoms, atoms
        known = next((i.name for i in self.inputs.values() if (i.source, i.parts) == (source.source, parts)), None)
        if known:
            return Value(known, axes, dims, True)
        name = self.graph.unique(f"{x.node}.{indices[0]}" + (f"-{indices[-1] + 1}" if len(indices) > 1 else ""))
        value = Value(name, axes, dims, True)
        self.graph.names[name] = None
        self.inputs[name] = Input(name, axes, True, source.source, parts, source.truth)
        self.note(f"input {name} is a part of the module's {source.source}: " + ", ".join(
            f"axis {a}, {text_of(i)}" for a, i in self.inputs[name].parts))
        return value

    def batch_sum(self, node, told=None):
        """What the elements of a node add up to in the whole batch, or those of a function of it: of data alone."""
        if not sums.of_data(self, node):
            raise Refused("divides by as many of the batch as what is computed says: make it an input")
        known = [i.name for i in self.inputs.values() if i.sums and i.sums.node is node and not i.sums.function]
        if known and not told:
            return Value(known[0], [[self.batch]], [])
        found = sums.Sums(self, node, told)
        name = self.graph.unique(f"{found.source.name}.sum")
        self.graph.names[name] = None
        self.inputs[name] = Input(name, [[self.batch]], False, None, [], sums=found)
        return Value(name, [[self.batch]], [])

    def is_buffer(self, tensor):
        return any(self.values[node] is tensor for node in self.stateful)

    def buffer_as_parameter(self, tensor):
        """A layer's weight that the module does not train."""
        for node, name in self.stateful.items():
            if self.values[node] is tensor:
                self.note(f"{name} is a buffer and a layer's weight, and so is trained: keep it with "
                          f"ffrun --group {name}:factor=0,decay=0")
                return Param(name, tensor)
        raise Refused("has a weight that is computed")

    def claim(self, name, rows):
        """Rows of a parameter that are a parameter of their own are nobody else's."""
        for start, stop in self.claims.setdefault(name, []):
            if [start, stop] != rows and start < rows[1] and rows[0] < stop:
                raise Refused(f"reads rows {rows[0]} to {rows[1]} of {name}, where another operator reads rows "
                              f"{start} to {stop}")
        self.claims[name].append(rows)

    # ---- the end ----

    def read_outputs(self, nodes):
        for spec in self.found.graph_signature.output_specs:
            node = nodes.get(getattr(spec.arg, "name", ""))
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                self.check_mutation(spec, self.values.get(node))
            elif spec.kind == OutputKind.USER_OUTPUT and node is not None:
                found = self.values[node]
                self.outputs.append(None if isinstance(found, Stopped) else found)
        self.outputs = [losses.general(self, of_samples(self, x)).mean() if isinstance(x, Value) and not x.whole and
                        not x.shape and not any(isinstance(y, Loss) for y in self.outputs) else x
                        for x in self.outputs]
        self.losses = [x for x in self.outputs if isinstance(x, Loss) and not isinstance(x, Each)]

    def finish(self, loss="softmax_cross_entropy", classes_last=False):
        """The losses, and the nodes that lead to them."""
        if len(self.losses) > 1:
            self.note(f"the module returns {len(self.losses)} means over samples, of which the first is trained")
        terms = self.losses[0].terms if self.losses else self.loss_behind(loss, classes_last)
        weights = {}
        for node, weight in terms:
            weights[node] = weights.get(node, 0.0) + weight
        if len(weights) > MOST_LOSSES:
            weights = self.with_one_mean(weights)
        if len(weights) > MOST_LOSSES:
            raise Refused(f"the loss is a sum of {len(weights)} losses, where a graph has at most {MOST_LOSSES}")
        for node, weight in weights.items():
            if weight < 0:
                self.turn(node)
            if weight != 1:
                self.graph.find(node)["weight"] = abs(weight)
        self.graph.prune(weights)
        self.read_besides_choices(weights)
        self.mark_means(weights)
        used = {n for node in self.graph.nodes for n in node.get("in", [])}
        for name, entry in self.inputs.items():
            if name in used and entry.whole and not entry.classes:
                raise Refused(f"input {name} has integers of which only numbers are made: nothing says below what they "
                              f"are; say --below {name}=N, or give the module numbers")
            if name in used and not entry.sums:
                self.graph.nodes.append(entry.node())
        self.add_sums(used)
        self.check_parts()
        return self

    def with_one_mean(self, weights):
        """Means of what is computed of each sample are the mean of a weighted sum."""
        means = [n for n in weights if self.graph.find(n)["op"] == "mean" and len(self.graph.find(n)["in"]) == 1]
        if len(means) < 2:
            return weights
        self.graph.module, self.graph.source, self.graph.hint = "", None, None
        total = None
        for n in means:
            part = self.graph.find(n)["in"][0]
            if weights[n] != 1:
                part = self.graph.add("scale", [part], factor=weights[n])
            total = part if total is None else self.graph.add("add", [total, part])
        rest = {n: w for n, w in weights.items() if n not in means}
        return {**rest, self.graph.add("mean", [total], name=self.graph.unique("loss")): 1.0}

    def add_sums(self, used):
        """What inputs add up to in a batch, behind them."""
        given = [n["name"] for n in self.graph.nodes if n["op"] == "input"]
        for name, entry in self.inputs.items():
            if name in used and entry.sums:
                source, counts = sums.place(self, entry, given)
                self.graph.nodes.append({**entry.node(), "of": given.index(source), "sums": counts})

    def turn(self, node):
        """A loss of which the weight is below zero."""
        loss = self.graph.find(node)
        if loss["op"] != "mean":
            raise Refused(f"loss {node} has a weight below zero")
        self.graph.module, self.graph.source, self.graph.hint = self.graph.names[node]["module"], None, "neg"
        loss["in"] = [self.graph.add("scale", loss["in"], factor=-1.0)]
        self.to_the_end(loss)

    def read_besides_choices(self, weights):
        """What nothing but choices read, which give no gradient, a loss of weight 0 reads, too: it is trained as if it
        were not there, and every value has a gradient."""
        readers, found = {}, None
        for n in self.graph.nodes:
            for name in n.get("in", []):
                readers.setdefault(name, set()).add(n["op"])
        for n in [n for n in self.graph.nodes if n["op"] == "route" and readers[n["in"][0]] == {"route"}]:
            self.graph.module, self.graph.source, self.graph.hint = self.graph.names[n["name"]]["module"], None, None
            mean = self.graph.add("reduce_mean", n["in"], axes=[1, 2])
            found = mean if found is None else self.graph.add("add", [found, mean])
        if found is not None:
            self.graph.module, self.graph.hint = "", None
            weights[self.graph.add("mean", [found], name=self.graph.unique("choices"), weight=0.0)] = 0.0

    def to_the_end(self, node):
        self.graph.nodes.remove(node)
        self.graph.nodes.append(node)

    def mark_means(self, names):
        """A mean of what is computed reads an input that says which samples there are, one of few elements."""
        means = [n for n in map(self.graph.find, names) if n["op"] == "mean" and len(n["in"]) == 1]
        read = {name for n in self.graph.nodes for name in n.get("in", []) if name in self.inputs
                and not self.inputs[name].sums}
        labels = {n["in"][1]: n.get("ignore_index", -1) for n in self.graph.nodes
                  if n["op"] == "softmax_cross_entropy" or n["op"] == "mean" and len(n["in"]) == 2}

        def far(name):
            elements = size_of(a for g in self.inputs[name].axes[1:] for a in g)
            return elements > MARK, name in labels, elements
        if not means:
            return
        if not read:
            raise Refused("the loss reads no input")
        name = min(sorted(read), key=far)
        axes = self.inputs[name].axes
        if labels.get(name, -1) != -1:
            self.note(f"{means[0]['name']} leaves out samples of which label {name} is {labels[name]}, which PyTorch "
                      "does not")
        for n in means:
            self.graph.module, self.graph.source, self.graph.hint = self.graph.names[n["name"]]["module"], None, None
            value = Value(n["in"][0], [axes[0]], [axes[0], *[[]] * (len(axes) - 1)])
            if len(axes) > 1:
                node = self.graph.add("reshape", [value.node], shape=[size_of(axes[0])] + [1] * (len(axes) - 1))
                value = Value(node, [axes[0], *[[]] * (len(axes) - 1)], value.dims)
            n["in"] = [self.graph.full(value, axes).node, name]
            if labels.get(name, -1) != -1:
                n["ignore_index"] = labels[name]
            self.to_the_end(n)

    def loss_behind(self, loss, classes_last):
        values = [x for x in self.outputs if isinstance(x, Value)]
        if not values:
            raise Refused("the module returns no tensor that is computed from its inputs")
        x = values[0]
        self.graph.module, self.graph.source, self.graph.hint, self.kind = "", None, "loss", ""
        groups = x.canonical()
        x = self.graph.full(x, groups)
        if loss != "softmax_cross_entropy":
            target = self.new_input("target", groups, False)
            return [(self.graph.add(loss, [x.node, target.node], name=self.graph.unique("loss")), 1.0)]
        if len(groups) < 2:
            raise Refused("the module's output has no axis of classes")
        axis = len(groups) - 1 if classes_last else 1
        rest = [g for i, g in enumerate(groups) if i not in (0, axis)]
        label = self.new_input("label", [groups[0], *rest], True)
        self.inputs[label.node].classes = size_of(groups[axis])
        x = self.graph.arranged(x, [groups[0], groups[axis], *rest])
        return [(self.graph.add("softmax_cross_entropy", [x.node, label.node], name=self.graph.unique("loss")), 1.0)]

    def new_input(self, name, groups, whole):
        name = self.graph.unique(name)
        self.graph.names[name] = None
        self.inputs[name] = Input(name, groups, whole, None, [])
        return plain(name, groups, whole)

    def check_parts(self):
        used = self.graph.used_parameters()
        whole = {self.graph.params[p].get("names", p) for p in used if "rows" not in self.graph.params[p]}
        for p in used:
            if "rows" in self.graph.params[p] and self.graph.params[p]["names"] in whole:
                raise Refused(f"parameter {self.graph.params[p]['names']} is read whole and in parts")

    def check_mutation(self, spec, value):
        """What norms keep is the graph's; counters that nothing reads are left out."""
        if spec.kind == OutputKind.USER_INPUT_MUTATION:
            raise Refused(f"the module writes into its input {spec.target}")
        if not isinstance(value, torch.Tensor) and value != "kept":
            raise Refused(f"the module's buffer {self.named(spec.target)} changes in every step, and no operator "
                          "but batch normalisation keeps anything from step to step")


class Input:
    """An input of the graph; `source`: the module's, of which it may be a part; `truth`: of zeros and ones; `sums`: it
    is what others add up to."""

    def __init__(self, name, axes, whole, source, parts, truth=False, sums=None):
        self.name, self.axes, self.whole, self.source, self.parts = name, axes, whole, source, parts
        self.truth, self.classes, self.bound, self.sums = truth, 2 if truth else None, None, sums

    def node(self):
        node = {"name": self.name, "op": "input", "shape": [size_of(g) for g in self.axes]}
        if self.whole:
            node.update(dtype="int32", classes=min(self.classes, self.bound or self.classes))
        return node


def text_of(indices):
    return f"elements {indices[0]} to {indices[-1]}" if len(indices) > 1 else f"element {indices[0]}"


def check_shape(made, want):
    """A row that makes another shape than PyTorch is wrong; nothing is written then."""
    if isinstance(made, (list, tuple)):
        for one, of in zip(made, want if isinstance(want, (list, tuple)) else []):
            check_shape(one, of)
    elif isinstance(made, Value) and made.shape != list(want.shape):
        raise Refused(f"makes {made.shape} of what PyTorch makes {list(want.shape)} of")


def short(node):
    return str(node.target).replace("aten.", "").replace("prims.", "").removesuffix(".default")


def tensors_of(args):
    found = []
    for x in args:
        if isinstance(x, TENSORS):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            found += tensors_of(x)
    return found


def losses_alone(name, args):
    """Whether an operator of losses by element adds them up, each times a number, or makes a mean or sum of all."""
    first, others = args[0], [x for x in args[1:] if isinstance(x, TENSORS)]
    if name in ("mean", "sum"):
        return len(args) < 2 or not args[1]
    if name.rstrip("_") in ("add", "sub", "rsub"):
        return all(isinstance(x, Each) for x in [first, *others]) and (bool(others) or first.count == 1)
    if name.rstrip("_") in ("mul", "div", "true_divide"):
        return isinstance(first, Each) and all(isinstance(x, torch.Tensor) and x.numel() == 1 for x in others) or (
            not isinstance(first, (Value, Each, Param)) and isinstance(args[1], Each))
    return name in OF_LOSSES


def fold(op, args, kwargs):
    kwargs = {k: ("cpu" if k == "device" and v is not None else v) for k, v in kwargs.items()}
    with torch.no_grad():
        by_element = torch.Tag.pointwise in op.tags or op._opname in ("__and__", "__or__")
        return fold_narrow(op, args, kwargs) if by_element else op(*args, **kwargs)


def fold_narrow(op, args, kwargs):
    """Of a large tensor, as a mask for all samples is, axes along which it is alike are computed once."""
    tensors = [x for x in tensors_of(args) + tensors_of(kwargs.values()) if x.dim()]
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    if shape.numel() < LARGE:
        return op(*args, **kwargs)
    wide = [i for i in range(-len(shape), 0) if shape[i] > 1 and all(alike(x, i) for x in tensors)]

    def narrow(x):
        for i in wide if isinstance(x, torch.Tensor) else ():
            x = x.narrow(i, 0, 1) if x.dim() >= -i else x
        return x
    return op(*map(narrow, args), **{k: narrow(x) for k, x in kwargs.items()}).expand(shape)


def alike(x, axis):
    """Whether a tensor is the same all along an axis, as far as that is found quickly."""
    if x.dim() < -axis or x.shape[axis] == 1 or x.stride(axis) == 0:
        return True
    return x.numel() <= LARGE and bool((x == x.narrow(axis, 0, 1)).all())
