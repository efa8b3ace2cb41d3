# How ffsoap_torch follows axes through views, permutations and expansions, beside lists that are really moved.
# No PyTorch is needed.  Usage: test_layout.py.  SPDX-License-Identifier: Apache-2.0
import itertools
import math
import pathlib
import random
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "python"), str(root / "tests")]
from ffsoap_torch import Refused
from ffsoap_torch.graph import Builder, plain
from ffsoap_torch.layout import MAX_AXES, Atom, fresh, moves, unify, view
from tap import finish, say


class Array:
    """Elements row-major."""

    def __init__(self, shape, elements):
        self.shape, self.elements = list(shape), elements

    def at(self, place):
        i = 0
        for n, k in zip(self.shape, place):
            i = i * n + k
        return self.elements[i]

    def reshape(self, shape):
        assert math.prod(shape) == len(self.elements)
        return Array(shape, self.elements)

    def transpose(self, order):
        shape = [self.shape[i] for i in order]
        made = []
        for place in itertools.product(*map(range, shape)):
            source = [0] * len(place)
            for i, k in zip(order, place):
                source[i] = k
            made.append(self.at(source))
        return Array(shape, made)

    def expand(self, shape):
        return Array(shape, [self.at([k if n > 1 else 0 for k, n in zip(place, self.shape)])
                             for place in itertools.product(*map(range, shape))])


def ran(builder, name, array):
    """What the builder's nodes make of the input."""
    made = {"x": array}
    for node in builder.nodes:
        source = made[node["in"][0]]
        if node["op"] == "reshape":
            made[node["name"]] = source.reshape(node["shape"])
        elif node["op"] == "transpose":
            assert node["perm"][0] == 0
            made[node["name"]] = source.transpose(node["perm"])
        else:
            made[node["name"]] = source.expand(node["shape"])
        assert len(made[node["name"]].shape) <= MAX_AXES, node
    return made[name]


def regrouped(shape, rng):
    """Another shape of as many elements, the first axis as it was."""
    sizes = [k for n in shape[1:] for k in factors(n)]
    made = []
    for n in sizes:
        if made and rng.random() < 0.5:
            made[-1] *= n
        else:
            made.append(n)
    if rng.random() < 0.3:
        made.insert(rng.randrange(len(made) + 1), 1)
    return [shape[0], *made]


def factors(n):
    for k in (2, 3, 5):
        if n % k == 0 and n > k:
            return [k, *factors(n // k)]
    return [n]


def walk(seed):
    """Views and permutations at random, then PyTorch's order in memory: as if each step had moved."""
    rng = random.Random(seed)
    shape = [3, *(rng.choice([2, 3, 4, 6]) for _ in range(rng.randrange(2, 5)))]
    array = Array(shape, list(range(math.prod(shape))))
    builder, batch = Builder("walk"), Atom(3, samples=True)
    builder.names["x"] = {"node": {"name": "x"}}
    value, want = plain("x", [[batch], *map(fresh, shape[1:])]), array
    for _ in range(rng.randrange(1, 6)):
        if rng.random() < 0.5:
            order = [0, *rng.sample(range(1, len(want.shape)), len(want.shape) - 1)]
            value, want = value.like(dims=[value.dims[i] for i in order]), want.transpose(order)
        else:
            shape = regrouped(want.shape, rng)
            found = view(value, shape)
            if found is not None:
                value, want = found, want.reshape(shape)
    if len(value.canonical()) > MAX_AXES:
        return None
    got = builder.full(value, value.canonical())
    return ran(builder, got.node, array).elements == want.elements


def test_walks():
    results = [walk(seed) for seed in range(400)]
    say(False not in results and results.count(True) > 200, "views and permutations at random",
        f"{results.count(False)} wrong, {results.count(None)} of too many axes")


def test_eight_axes():
    """More axes than a tensor has are permuted in several steps."""
    batch, atoms = Atom(2, samples=True), [Atom(n) for n in (2, 3, 2, 2, 3, 2, 2)]
    have, want = [[batch], atoms], [[batch], atoms[::-1]]
    array = Array([2, math.prod(a.size for a in atoms)], list(range(2 * 288)))
    got = array
    for op, how in moves(have, want):
        got = got.reshape(how) if op == "reshape" else got.transpose(how)
        assert len(got.shape) <= MAX_AXES
    sizes = [2, *(a.size for a in atoms)]
    right = array.reshape(sizes).transpose([0, *range(7, 0, -1)])
    say(got.elements == right.elements and got.shape == array.shape, "a permutation of eight axes")


def test_what_is_no_view():
    batch = Atom(4, samples=True)
    value = plain("x", [[batch], fresh(6)])
    say(view(value, [4, 2, 3]) is not None and view(value, [4, 4]) is None, "sizes that do not fit")
    say(view(value, [2, 2, 6]) is None, "the samples are never cut")
    say(view(value, [24]).dims[0][0] is batch, "they may share an axis with others")
    say(view(plain("x", [[batch], fresh(4), fresh(6)]), [4, 3, 8]) is None, "a cut across two axes")
    say(unify([batch], fresh(4)) is None, "the samples are no other axis of as many")
    a, b = fresh(12), [Atom(3), Atom(4)]
    names = unify(a, b)
    say([x.size for x in names[0][a[0]]] == [3, 4] and names[0][a[0]] == names[1][b[0]] + names[1][b[1]],
        "an axis and two that make it have the same parts")
    try:
        Builder("x").arranged(value, [[batch]])
        say(False, "a group that lacks an axis is refused")
    except Refused:
        say(True, "a group that lacks an axis is refused")


test_walks()
test_eight_axes()
test_what_is_no_view()
finish()
