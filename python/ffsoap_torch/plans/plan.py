"""A strategy file, and a map of the names of its operators and parameters to those of an exported graph.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib

from .. import Refused

# The order in which every operator has its dims; the last is fastest in a list of devices.
DIMS = ["sample", "group", "head", "out_channel", "channel", "axis1", "axis2", "axis3", "axis4", "axis5", "position",
        "query", "length", "depth", "height", "width", "row", "feature", "column", "out_feature", "class", "vocabulary",
        "in_feature", "in_channel", "inner", "key", "step", "axis0"]

# What changes the function that a step computes, or that PyTorch has nothing for.
CANNOT = {"compress": "gradients in fewer bits", "average_every": "parameters that are averaged every few steps",
          "staleness": "gradients that are applied late"}


def document(what, kind):
    """Of a path or a dict."""
    if not isinstance(what, dict):
        try:
            what = json.loads(pathlib.Path(what).read_text())
        except (OSError, ValueError) as error:
            raise Refused(f"{what}: {error}") from None
    if what.get("format") != kind:
        raise Refused(f"expected a file whose format is {kind}, got {what.get('format')!r}")
    return what


PREFIX = "module."


class Plan:
    def __init__(self, what):
        self.file = document(what, "ffsoap-strategy")
        self.entries = {e["name"]: e for e in self.file["operators"]}
        self.devices = self.file["devices"]
        self.micro_batches = self.file.get("micro_batches", 1)
        self.order = self.file.get("order", "gpipe")
        for key, says in CANNOT.items():
            if self.file.get(key, "none") not in ("none", 0, 1 if key == "average_every" else 0):
                raise Refused(f"the plan has {says} ({key}), which PyTorch has nothing for")

        if self.file.get("rewrites"):
            raise Refused("the plan rewrites its graph (rewrites), which the module does not have: search one "
                          "without --rewrite")

    def entry(self, operator):
        return self.entries.get(operator, {})

    def parameter(self, name):
        return self.entries.get(name)

    def stages(self, operators):
        """By stage its devices, in order."""
        found = {}
        for name in operators:
            e = self.entry(name)
            at = e.get("devices")
            if at is not None:
                found.setdefault(e.get("stage", 0), set()).update(at if isinstance(at, list) else view(e))
        if len(found) < 2:
            return [list(range(self.devices))]
        stages = [sorted(found[s]) for s in sorted(found)]
        if sorted(sum(stages, [])) != list(range(self.devices)) or len({len(s) for s in stages}) > 1:
            raise Refused("the plan's stages have different numbers of devices, share some, or leave some idle: "
                          "torch.distributed.pipelining wants equal ones")
        return stages


def view(entry):
    """The devices of a view."""
    devices, found = entry["devices"], [entry["devices"].get("start", 0)]
    for d, n in entry.get("degrees", {}).items():
        stride = devices.get("strides", {}).get(d, 0)
        found = [at + i * stride for at in found for i in range(n)]
    return {at + r * devices.get("replica_stride", 0) for at in found for r in range(entry.get("replicas", 1))}


class Names:
    """Of the file that `export` writes beside a graph; without one, operators are called as the graph's nodes."""

    def __init__(self, graph, signature, file=None):
        self.file = None if file is None else document(file, "ffsoap-torch-map")
        self.nodes = {n.name for n in graph.nodes if n.op == "call_function"}
        self.modules = set(signature.inputs_to_parameters.values())
        self.by_node, self.by_parameter, self.others, self.made = {}, {}, set(), self.nodes
        if self.file is not None:
            self.read(self.file)

    def read(self, file):
        for operator, what in file["operators"].items():
            for node in what["nodes"]:
                if node not in self.nodes:
                    raise Refused(f"operator {operator}: the module's graph has no node {node}: export it again")
                self.by_node.setdefault(node, []).append(operator)
        for p, what in file["parameters"].items():
            self.by_parameter.update((name, p) for name in what["names"])
            self.others |= {p} if {"transpose", "rows", "shape"} & set(what) else set()
        self.made = set(file["operators"])

    def operators_of(self, node):
        if self.file is None:
            return [node] if node in self.nodes else []
        return self.by_node.get(node, [])

    def operators(self):
        return self.made

    def parameter_of(self, name):
        """PREFIX is what a module and its loss have in front."""
        return self.by_parameter.get(name, self.by_parameter.get(name.removeprefix(PREFIX), name))

    def parameters(self):
        return set(self.modules) if self.file is None else set(self.by_parameter.values())

    def turned(self, parameter):
        """Are its axes others in PyTorch?"""
        return parameter in self.others

    def check(self, plan):
        """Entries that match nothing."""
        known = self.operators() | self.parameters()
        for name in plan.entries:
            if name not in known:
                raise Refused(f"the plan's entry {name} is no operator and no parameter of the module")
