"""Which dims of an exported graph's nodes can be cut, for who searches plans.  SPDX-License-Identifier: Apache-2.0"""
import math

from . import rules
from .layout import is_item, operands_of, shapes_of


def cuts_of(graph):
    """By node: by dim a number of elements that the number of parts divides; {}: it is computed whole."""
    found = {}
    for node in graph.nodes:
        if node.op != "call_function" or is_item(node):
            continue
        shapes = [s[0] if len(s) == 1 else None for s in map(shapes_of, operands_of(node))]
        results = shapes_of(node)
        axes, sizes = rules.axes_of(node, shapes, results[0]), {}
        for names, shape in zip(axes.operands + axes.results, shapes + results) if axes else ():
            for dim, n in zip(names, shape or ()):
                if dim is not None:
                    sizes[dim] = math.gcd(sizes.get(dim, 0), n)
        found[node.name] = {dim: sizes[dim] for dim in sorted(sizes)}
    return found
