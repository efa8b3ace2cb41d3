"""A plan laid over modules: which axes of the mesh cut the batch, which cut linear layers and embeddings, and how.

Nothing here needs devices or processes.  What a plan has that PyTorch's parallel styles have not is said.
SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import math

import torch

from .. import Refused
from ..trace import WithLoss
from . import rules
from .graph_mode import attribute
from .layout import is_item, operands_of
from .plan import PREFIX

# kinds of layers that parallelize_module cuts, and by dim how
STYLES = {"aten.linear": {"out_feature": "column", "in_feature": "row"},
          "aten.embedding": {"vocabulary": "row", "feature": "column"}}
LAYERS = (torch.nn.Linear, torch.nn.Embedding)


@dataclasses.dataclass
class Layer:
    name: str
    style: str     # column, row
    onwards: bool  # its output stays cut until who reads it


class Uniform:
    """data, tensor: degrees; order: the devices, those of a data rank in a row; layers: Layer; sharded: names of
    parameters; gathered_again: are they; again: modules that are recomputed; by_class: is the loss cut by classes."""

    def __init__(self, module, layout):
        self.module, self.layout, self.said = module, layout, []
        self.prefix = PREFIX if isinstance(module, WithLoss) else ""
        self.steps = {s.node: s for s in layout.steps}
        self.find_mesh()
        self.users = {}
        for node in layout.graph.nodes:
            for o in operands_of(node) if node.op == "call_function" else ():
                self.users.setdefault(o, []).append(node)
        self.layers, self.by_class, self.again = [], False, []
        for step in layout.steps:
            self.visit(step)
        self.check_ties()
        self.find_sharded()
        self.find_again()

    def name_of(self, node):
        return (self.layout.names.operators_of(node.name) or [node.name])[0]

    def say(self, node, sentence):
        if f"{self.name_of(node)}: {sentence}" not in self.said:
            self.said.append(f"{self.name_of(node)}: {sentence}")

    def layer_of(self, node):
        """The module that a node is all of, and its name."""
        names = self.layout.names
        operators = names.operators_of(node.name) if names.file else []
        name = self.prefix + names.file["operators"][operators[0]]["module"] if operators else None
        found = attribute(self.module, name) if name and self.has(name) else None
        return (name, found) if isinstance(found, LAYERS) and rules.kind_of(node) in STYLES else (None, None)

    def other_reader(self, node):
        """An operator that is no layer and reads a parameter of this one, by this or another name."""
        parameters = self.layout.parameters
        mine = {parameters[o.name] for o in operands_of(node) if o.name in parameters}
        for o, users in self.users.items():
            if parameters.get(o.name) in mine:
                for user in users:
                    if self.layer_of(user)[1] is None:
                        return user
        return None

    def has(self, name):
        return name in dict(self.module.named_modules())

    # ---- the mesh ----

    def find_mesh(self):
        """An axis is the tensor's if a layer or what follows it is cut there by another dim than samples."""
        sizes, n = self.layout.sizes, len(self.layout.sizes)
        cuts = [s.cut for s in self.layout.steps if rules.kind_of(s.node) in STYLES]
        tensor = [any(c[a] not in (None, "sample") for c in cuts) for a in range(n)]
        data = [not tensor[a] and any(s.cut[a] == "sample" for s in self.layout.steps) for a in range(n)]
        self.axes = [a for a in range(n) if not data[a]]
        self.data = math.prod(sizes[a] for a in range(n) if data[a])
        self.tensor = math.prod(sizes[a] for a in self.axes)
        ranks = torch.arange(self.data * self.tensor).reshape(sizes)
        self.order = ranks.permute([a for a in range(n) if data[a]] + self.axes).reshape(self.data, self.tensor)

    def cut_of(self, step):
        """The dim that the tensor's axes cut; samples that other axes cut than elsewhere are said."""
        dims = {step.cut[a] for a in self.axes if self.layout.sizes[a] > 1}
        rest = {step.cut[a] for a in range(len(step.cut)) if a not in self.axes and self.layout.sizes[a] > 1}
        planned = step.node in self.layout.given and self.layout.names.operators_of(step.node.name)
        if planned and (rest - {"sample"} or "sample" in dims or len(dims) > 1):
            self.say(step.node, "is cut over other axes of the mesh than the rest, and redistribution across meshes "
                     "gives empty tensors")
            return None
        return next(iter(dims), None)

    # ---- layers ----

    def visit(self, step):
        node, dim = step.node, self.cut_of(step)
        kind = rules.kind_of(node)
        if kind.startswith("aten.conv") and dim:
            self.say(node, f"a convolution cut by {dim} gives wrong numbers as a DTensor: samples alone")
        elif kind == "aten._native_batch_norm_legit_functional" and self.data > 1:
            raise Refused(f"{self.name_of(node)}: a batch norm's statistics would be those of a process's samples, as "
                          "SyncBatchNorm is not there on CPUs; mode=\"graph\" sums them")
        elif rules.drops(node):
            self.say(node, "every process draws a mask of its own, which is not one process's")
        elif kind in STYLES and dim:
            name, layer = self.layer_of(node)
            if layer is None or dim not in STYLES[kind]:
                self.say(node, f"no layer of its own is cut by {dim} here, and parallelize_module cuts layers alone")
                return
            other = self.other_reader(node)
            if other:
                self.say(node, f"{self.name_of(other)} reads its parameters, too, and is no layer of its own: "
                         "parallelize_module cuts layers alone")
                return
            style = STYLES[kind][dim]
            self.layers.append(Layer(name, style, style == "column" and self.goes_on(node)))
        elif kind == "aten.cross_entropy_loss" and dim == "class":
            self.by_class = True
        elif dim and not self.is_fed(node):
            self.say(node, f"is cut by {dim}, and no layer before it is: parallelize_module has no such style here")

    def is_fed(self, node):
        """Does what it reads come out of a layer that is cut by its outputs?"""
        for o in operands_of(node):
            step = self.steps.get(o.args[0] if is_item(o) else o)
            if step and (any(step.cut[a] not in (None, "sample") for a in self.axes)):
                return True
        return False

    def goes_on(self, node):
        """Is all that is made of its output cut until layers cut by their inputs, or the loss, take it?"""
        for user in self.users.get(node, []):
            step = self.steps.get(user)
            if is_item(user):
                if not self.goes_on(user):
                    return False
                continue
            dim = step and next((step.cut[a] for a in self.axes if step.cut[a] not in (None, "sample")), None)
            if not dim:
                return False
            if dim in ("in_feature", "class"):
                continue
            if not self.goes_on(user):
                return False
        return True

    def check_ties(self):
        """parallelize_module makes a parameter for each layer: one that is cut in two ways cannot be tied again."""
        axis = {(torch.nn.Linear, "column"): 0, (torch.nn.Linear, "row"): 1, (torch.nn.Embedding, "row"): 0,
                (torch.nn.Embedding, "column"): 1}
        cut, ties = {x.name: x.style for x in self.layers}, {}
        for name, part in self.module.named_modules():
            for key, p in part._parameters.items():
                at = axis[type(part), cut[name]] if name in cut and key == "weight" else None
                ties.setdefault(p, {}).setdefault(at, f"{name}.{key}".removeprefix("."))
        for p, found in ties.items():
            if p is not None and len(found) > 1:
                raise Refused(f"{' and '.join(found.values())} are tied and cut in different ways: parallelize_module "
                              "unties them")

    # ---- parameters and recomputation ----

    def find_sharded(self):
        """Those that are updated flat."""
        names, plan = self.layout.names, self.layout.plan
        entries = {n: plan.parameter(names.parameter_of(n)) or {} for n, _ in self.module.named_parameters()}
        flat = {n: e for n, e in entries.items() if e.get("update") == "flat"}
        self.sharded = set(flat) if self.data > 1 else set()
        self.gathered_again = any(e.get("recompute") for e in flat.values())

    def leaves(self, operator, path):
        """Is what it makes read outside the module?  That is kept in any case."""
        names = self.layout.names
        for node in names.file["operators"][operator]["nodes"]:
            users = self.users.get(self.by_name[node], [])
            for user in users + [u for item in users if is_item(item) for u in self.users.get(item, [])]:
                readers = names.operators_of(user.name)
                if not is_item(user) and not any(self.within(r, path) for r in readers):
                    return True
        return False

    def within(self, operator, path):
        own = self.prefix + self.layout.names.file["operators"][operator]["module"]
        return (own + ".").startswith(path + ".")

    def find_again(self):
        """The largest modules, but not the whole, of which all operators are recomputed but what leaves them."""
        operators = (self.layout.names.file or {"operators": {}})["operators"]
        self.by_name = {n.name: n for n in self.layout.graph.nodes}
        some = [n for n in operators if self.layout.plan.entry(n).get("recompute", False)]
        for path in [n for n, _ in self.module.named_modules() if n and n + "." != self.prefix]:
            inside = [n for n in operators if self.within(n, path)]
            outer = any((path + ".").startswith(m + ".") for m in self.again)
            if not outer and any(n in some for n in inside) and all(n in some or self.leaves(n, path) for n in inside):
                self.again.append(path)
        for name in some:
            if not any(self.within(name, m) for m in self.again):
                self.said.append(f"{name}: is recomputed, and no module of which all is")


def of(module, layout):
    if len(layout.stages) > 1:
        raise Refused("the plan has stages: mode=\"graph\" trains those")
    return Uniform(module, layout)
