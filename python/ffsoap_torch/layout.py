"""Which element of a node's output is which element of a PyTorch tensor.  No PyTorch is needed here.

A tensor's axes are products of atoms, which have a size and no position: view, permute and expand only
regroup atoms, and make no node.  A value lies in a node's output as groups of the same atoms, one group
an axis, the samples first.  Only an operator that wants its input in another arrangement makes it so
(`Builder.arranged`).  An atom that the node lacks is one along which the tensor is expanded.
SPDX-License-Identifier: Apache-2.0
"""
import math

MAX_AXES = 6


class Atom:
    """A part of an axis.  Equality is identity."""
    __slots__ = ("size", "samples")

    def __init__(self, size, samples=False):
        self.size, self.samples = size, samples

    def __repr__(self):
        return ("N" if self.samples else "a") + str(self.size)


def size_of(atoms):
    return math.prod(a.size for a in atoms)


def flat(groups):
    return [a for group in groups for a in group]


def fresh(size):
    """An axis of its own; one element needs no atom."""
    return [Atom(size)] if size != 1 else []


class Value:
    """`dims`: PyTorch's axes; `node`: a graph's value, whose axes are `axes`; `whole`: of integers."""

    def __init__(self, node, axes, dims, whole=False):
        self.node, self.axes, self.dims, self.whole = node, axes, dims, whole

    @property
    def shape(self):
        return [size_of(d) for d in self.dims]

    def like(self, node=None, axes=None, dims=None):
        return Value(node or self.node, self.axes if axes is None else axes,
                     self.dims if dims is None else dims, self.whole)

    def renamed(self, names):
        """Each atom as the list of atoms that stand for it."""
        def group(atoms):
            return [b for a in atoms for b in names.get(a, [a])]
        return self.like(None, [group(g) for g in self.axes], [group(d) for d in self.dims])

    def apart(self):
        """The same with atoms of its own, so that two uses of a tensor are not taken for one axis."""
        atoms = {a for a in flat(self.axes) + flat(self.dims) if not a.samples}
        return self.renamed({a: [Atom(a.size)] for a in atoms})

    def has(self):
        return set(flat(self.axes))

    def canonical(self):
        """Groups of axes in PyTorch's order, the samples first."""
        groups = []
        for dim in self.dims:
            rest = [a for a in dim if not a.samples]
            if rest or not any(a.samples for a in dim):
                groups.append(rest)
        return [[a for a in flat(self.dims) if a.samples] or self.axes[0], *groups]


def view(value, shape):
    """Dims regrouped to `shape`, atoms split where it cuts them; None where atoms must be merged first."""
    counts, placed = [], 0
    for size in shape:
        have, first = 1, placed
        while have < size:
            atoms = flat(value.dims)
            if placed == len(atoms) or size % have:
                return None
            atom, want = atoms[placed], size // have
            if atom.size > want:
                if atom.size % want or atom.samples:
                    return None
                value = value.renamed({atom: [Atom(want), Atom(atom.size // want)]})
                atom = flat(value.dims)[placed]
            have *= atom.size
            placed += 1
        if have != size:
            return None
        counts.append(placed - first)
    atoms, dims = flat(value.dims), []
    if placed != len(atoms):
        return None
    for n in counts:
        dims.append(atoms[:n])
        atoms = atoms[n:]
    return value.like(dims=dims)


def unify(a, b):
    """How two lists of atoms of one size become one list: names for each, or None."""
    names_a, names_b = {x: [] for x in a}, {x: [] for x in b}
    a, b = [(x, x.size) for x in a], [(x, x.size) for x in b]
    while a and b:
        (x, left), (y, other) = a.pop(0), b.pop(0)
        size = min(left, other)
        if left % size or other % size or x.samples != y.samples or (x.samples and left != other):
            return None
        piece = x if size == x.size else Atom(size)
        names_a[x].append(piece)
        names_b[y].append(piece)
        if left > size:
            a.insert(0, (x, left // size))
        if other > size:
            b.insert(0, (y, other // size))
    return None if a or b else (names_a, names_b)


def moves(have, want):
    """How groups of atoms become others: steps of a kind, "reshape" or "transpose", and its shape or order.
    Both have the same atoms."""
    steps, target, shape = [], flat(want), [size_of(g) for g in have]

    def reshaped(groups):
        sizes = [size_of(g) for g in groups]
        if sizes != shape:
            steps.append(("reshape", sizes))
            shape[:] = sizes
    order = flat(have)
    while order != target:
        units = runs(order, target)
        behind = sorted(units, key=lambda unit: target.index(unit[0]))
        if len(units) > MAX_AXES:
            units, behind = one_to_its_place(units, behind)
        at = {unit[0]: i for i, unit in enumerate(units)}
        reshaped(units)
        steps.append(("transpose", [at[u[0]] for u in behind]))
        shape[:] = [size_of(u) for u in behind]
        order = flat(behind)
    reshaped(want)
    return steps


def one_to_its_place(units, behind):
    """Of more axes than a tensor has: the first that is out of its place moves there, the others are blocks."""
    i = next(i for i, (a, b) in enumerate(zip(units, behind)) if a[0] is not b[0])
    j = next(j for j, a in enumerate(units) if a[0] is behind[i][0])
    blocks = [units[:1], units[1:i], units[i:j], units[j:j + 1], units[j + 1:]]
    first, before, between, moved, rest = (flat(block) for block in blocks)
    return [g for g in (first, before, between, moved, rest) if g], [
        g for g in (first, before, moved, between, rest) if g]


def runs(order, target):
    """The longest runs of atoms that are neighbours in both; the samples are one by themselves."""
    place = {a: i for i, a in enumerate(target)}
    units = []
    for a in order:
        last = units[-1][-1] if units else None
        if last and not last.samples and not a.samples and place[a] == place[last] + 1:
            units[-1].append(a)
        else:
            units.append([a])
    return units
