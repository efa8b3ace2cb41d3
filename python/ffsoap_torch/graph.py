"""The graph as it is written: nodes, their names, what they were made from.  No PyTorch is needed here.
SPDX-License-Identifier: Apache-2.0
"""
import json
import re

from . import Refused
from .layout import Value, flat, moves, size_of


class Builder:
    """Nodes in the order in which they are made.  `module` and `source` are those of what is being
    translated: the module's name and the node of the exported program."""

    def __init__(self, name):
        self.name, self.nodes, self.names, self.dtype = name, [], {}, "float32"
        self.module, self.source, self.hint = "", None, None
        self.made, self.params = {}, {}
        self.reserved = set()  # names of the module's parameters, which no node may have
        self.sizes, self.lengths = {}, {}  # of a split's parts; of the axes that a reduction sums
        self.pairs, self.tables = {}, {}  # products of samples by samples; constants of each sample its own
        self.alike = set()  # functions of two values of which neither is broadcast

    # ---- names ----

    def unique(self, name):
        name = re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[-190:] or "node"
        count, made = 0, name
        while made in self.names or made in self.reserved:
            count += 1
            made = f"{name}_{count}"
        return made

    def name_for(self, op, own):
        """A module's operator is called as the module, others as what they do in it."""
        if own and self.module and self.module not in self.names:
            return self.unique(self.module)
        return self.unique(f"{self.module}.{self.hint or op}" if self.module else self.hint or op)

    # ---- nodes ----

    def add(self, op, inputs=(), own=False, name=None, params=None, **attributes):
        """The name of a new node; `params`: by the operator's names, names of the graph's."""
        name = name or self.name_for(op, own)
        node = {"name": name, "op": op}
        if inputs:
            node["in"] = list(inputs)
        node.update((k, v) for k, v in attributes.items() if v is not None)
        params = {k: v for k, v in (params or {}).items() if v != f"{name}.{k}"}
        if params:
            node["params"] = params
        self.names[name] = {"node": node, "module": self.module, "sources": [self.source] if self.source else []}
        self.nodes.append(node)
        return name

    def find(self, name):
        """The node that makes a value; of inputs, which are made last, what they are."""
        entry = self.names[name.split("#")[0]]
        return entry["node"] if entry else {"name": name, "op": "input"}

    def trained(self, name):
        """Whether a value depends on a parameter."""
        seen, pending = set(), [name]
        while pending:
            node = self.find(pending.pop())
            if parameters_of(node, self.params):
                return True
            if node["name"] not in seen:
                seen.add(node["name"])
                pending += node.get("in", [])
        return False

    def arranged(self, value, groups):
        """The value in these groups of axes; atoms that its node lacks are left out of them."""
        has = value.has()
        want = [[a for a in g if a in has] for g in groups]
        if len(flat(want)) != len(has) or set(flat(want)) != has:
            raise Refused("mixes axes in a way that has no operator")
        key = (value.node, tuple(flat(value.axes)), tuple(tuple(g) for g in want))
        if key not in self.made:
            node, hint = value.node, self.hint
            self.hint = None
            for op, how in moves(value.axes, want):
                node = self.add(op, [node], **{"perm" if op == "transpose" else "shape": how})
            self.made[key], self.hint = node, hint
        return value.like(self.made[key], want)

    def full(self, value, groups):
        """As `arranged`, with no atom left out."""
        value = self.arranged(value, groups)
        shape = [size_of(g) for g in groups]
        if shape == [size_of(g) for g in value.axes]:
            return value
        for have, want in zip(value.axes, groups):
            if have and len(have) != len(want):  # expanded along a part of an axis: by itself first
                return self._parted(value, groups)
        return value.like(self.add("expand", [value.node], shape=shape), [list(g) for g in groups])

    def _parted(self, value, groups):
        fine = [[a] for a in flat(groups)] if len(flat(groups)) <= 6 else None
        if not fine:
            raise Refused("expands a part of an axis among more than 6")
        return self.arranged(self.full(value, fine), groups)

    def parameter(self, name, tensor, shape, **how):
        """A parameter of the graph: it has one shape, and one way from the module's."""
        known = self.params.setdefault(name, {"tensor": tensor, "shape": list(shape), **how})
        if known["shape"] != list(shape):
            raise Refused(f"reads parameter {name} as {list(shape)} where another operator reads it as "
                          f"{known['shape']}")
        return name

    # ---- what is written ----

    def prune(self, roots):
        """Drops what no root needs."""
        alive, pending = set(), list(roots)
        while pending:
            name = pending.pop().split("#")[0]
            if name not in alive:
                alive.add(name)
                pending += self.find(name).get("in", []) if self.names.get(name) else []
        self.nodes = [n for n in self.nodes if n["name"] in alive]
        self.names = {k: v for k, v in self.names.items() if k in alive and v}
        self.cut_splits()

    def cut_splits(self):
        """A split of which no node reads some part becomes slices: a graph's values are read."""
        used = {name for n in self.nodes for name in n.get("in", [])}
        for at, node in reversed(list(enumerate(self.nodes))):
            if node["op"] != "split":
                continue
            name, size = node["name"], self.sizes[node["name"]]
            parts = [i for i in range(node["parts"]) if (f"{name}#{i}" if i else name) in used]
            if len(parts) < node["parts"]:
                self.nodes[at:at + 1] = [self.part_of(node, i, size, alone=len(parts) == 1) for i in parts]

    def part_of(self, split, number, size, alone):
        """A slice in the place of a split's output."""
        old, name = split["name"], split["name"] if alone else f"{split['name']}.{number}"
        was = f"{old}#{number}" if number else old
        for node in self.nodes:
            if "in" in node:
                node["in"] = [name if i == was else i for i in node["in"]]
        made = {"name": name, "op": "slice", "in": split["in"], "axis": split["axis"], "start": number * size,
                "stop": (number + 1) * size}
        self.names[name] = dict(self.names[old], node=made)
        return made

    def used_parameters(self):
        return {p for n in self.nodes for p in parameters_of(n, self.params)}

    def text(self):
        head = {"format": "ffsoap-graph", "version": 2, "name": self.name}
        head = json.dumps(head if self.dtype == "float32" else dict(head, dtype=self.dtype))[:-1]
        first = [n for n in self.nodes if n["op"] == "input"]
        rest = [n for n in self.nodes if n["op"] != "input"]
        return head + ', "nodes": [\n' + ",\n".join(json.dumps(n) for n in first + rest) + "\n]}\n"


def parameters_of(node, known):
    named = set((node.get("params") or {}).values())
    own = {f"{node['name']}.{k}" for k in ("weight", "bias", "running_mean", "running_var")}
    return (named | own) & set(known)


def plain(node, atoms, whole=False):
    """A value whose axes are PyTorch's."""
    return Value(node, [list(a) for a in atoms], [list(a) for a in atoms], whole)
