"""What the elements of an input add up to in a whole batch: of nothing but data, so that whoever loads them says it.
SPDX-License-Identifier: Apache-2.0
"""
import torch

from . import Refused
from .layout import size_of

EACH = 2048  # classes that are looked at one by one
NEAR = 1e-5


def of_data(t, node, seen=None):
    """Whether a node of the program depends on inputs and on nothing that is trained or drawn."""
    from .rows import RANDOM
    seen = {} if seen is None else seen
    if node not in seen:
        value = t.values.get(node)
        if isinstance(value, torch.Tensor):
            seen[node] = True
        elif node.op == "placeholder":
            seen[node] = node.name in t.inputs
        else:
            seen[node] = node.op == "call_function" and getattr(node.target, "_opname", "") not in RANDOM and all(
                of_data(t, n, seen) for n in node.all_input_nodes)
    return seen[node]


def sources(t, node, seen=None):
    """Of such a node the inputs."""
    seen = set() if seen is None else seen
    if node in seen or isinstance(t.values.get(node), torch.Tensor):
        return []
    seen.add(node)
    if node.op == "placeholder":
        return [node]
    return [found for n in node.all_input_nodes for found in sources(t, n, seen)]


def computed(t, node, given, known):
    """What PyTorch makes of an input."""
    if node in known:
        return known[node]
    if node.op == "placeholder" and node.name in t.inputs:
        known[node] = given
    elif isinstance(t.values.get(node), torch.Tensor):
        known[node] = t.values[node]
    else:
        args, kwargs = (torch.fx.node.map_arg(x, lambda n: computed(t, n, given, known)) for x in (
            node.args, node.kwargs))
        known[node] = node.target(*args, **kwargs)
    return known[node]


class Sums:
    """Of node `node`, whose elements, or those of a function of them, are added up; `source`: the input that it depends
    on."""

    def __init__(self, t, node, told=None):
        found = sources(t, node)
        if len(found) != 1:
            raise Refused("adds up over the batch what several inputs say, or none: make it an input")
        self.t, self.node, self.source, self.function = t, node, found[0], told
        self.example = self.source.meta["val"]

    def told(self, x):
        with torch.no_grad():
            found = computed(self.t, self.node, x.to(self.example.dtype), {})
            return float((self.function(found) if self.function else found).double().sum())

    def counts(self, part, classes):
        """What each class of a part of the input counts for, or real numbers; None: it is no sum over the part."""
        places = torch.arange(self.example.numel()).reshape(self.example.shape)
        for axis, indices in part.parts:
            places = places.index_select(axis, torch.tensor(indices))
        places = places.reshape(-1)
        whole = not self.example.dtype.is_floating_point
        found = self.by_class(places, classes) if whole else torch.tensor(
            [self.told(torch.ones(self.example.shape)) / len(places)], dtype=torch.double)
        draws = torch.Generator().manual_seed(1)
        for _ in range(4):
            x = torch.randint(classes, self.example.shape, generator=draws) if whole else torch.rand(
                self.example.shape, generator=draws)
            taken = x.reshape(-1)[places]
            want = float(found[taken].sum() if whole else taken.double().sum() * found[0])
            if abs(self.told(x) - want) > NEAR * max(1.0, abs(want)):
                return None
        return runs(found) if whole else found.tolist()

    def by_class(self, places, classes):
        """One class everywhere; of many, all of which but a few are alike, a range of them at once."""
        n = len(places)

        def alone(c):
            return self.told(torch.full(self.example.shape, c)) / n
        if classes <= EACH:
            return torch.tensor([alone(c) for c in range(classes)], dtype=torch.double)
        usual = alone(classes // 2)
        found = torch.full([classes], usual, dtype=torch.double)
        pending = [(lo, min(lo + n, classes)) for lo in range(0, classes, n)]
        while pending:
            lo, hi = pending.pop()
            x = torch.full([self.example.numel()], classes // 2)
            x[places[:hi - lo]] = torch.arange(lo, hi)
            more = self.told(x.reshape(self.example.shape)) - usual * n
            if abs(more) <= NEAR * max(1.0, abs(usual)):
                continue
            if hi - lo == 1:
                found[lo] = usual + more
            else:
                pending += [(lo, (lo + hi) // 2), ((lo + hi) // 2, hi)]
        return found


def told_by_elements(t, node):
    """Whether it is of one input, and, of real numbers, a sum over them; anything else is computed."""
    found = sources(t, node)
    if len(found) != 1:
        return False
    made, part = Sums(t, node), t.inputs[found[0].name]
    return not made.example.dtype.is_floating_point or made.counts(part, 0) is not None


def runs(numbers):
    """Pairs, how many neighbours and what they are."""
    values = [float(f"{x:.9g}") for x in numbers.tolist()]
    made = []
    for x in values:
        if made and made[-1][1] == x:
            made[-1][0] += 1
        else:
            made.append([1, x])
    return [int(n) if n == int(n) else n for pair in made for n in pair]


def place(t, entry, used):
    """For an input of sums: which of the graph's inputs it is of, and what that counts for."""
    for other in t.inputs.values():
        if other.sums or other.source != entry.sums.source.name or other.name not in used:
            continue
        counts = entry.sums.counts(other, other.classes or 0) if other.classes or not other.whole else None
        if counts is not None:
            return other.name, counts
    raise Refused(f"divides by a number of the batch that is no sum over the elements of an input that is read "
                  f"({entry.sums.source.name}, {size_of(entry.axes[0])} samples)")
