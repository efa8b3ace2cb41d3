"""Redistribution: a local tensor in one placement on a mesh, forward and backward, becomes that of another.

SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate


def gradient_of(places):
    """How the gradient of what is so placed is placed: that of a summand is the whole sum's."""
    return [Replicate() if p.is_partial() else p for p in places]


def local_shape(shape, places, sizes):
    shape = list(shape)
    for place, n in zip(places, sizes):
        if place.is_shard():
            shape[place.dim] //= n
    return shape


def contiguous_strides(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides


def moved(x, mesh, shape, source, target):
    if all(a == b for a, b in zip(source, target)):
        return x.clone(memory_format=torch.contiguous_format)
    if x.is_complex():  # gloo has none
        return torch.view_as_complex(moved(torch.view_as_real(x), mesh, (*shape, 2), source, target))
    # a whole tensor becomes a sum: the first device has it, the others zeros
    summed = [i for i, (a, b) in enumerate(zip(source, target)) if b.is_partial() and not a.is_partial()]
    between = [Replicate() if i in summed else p for i, p in enumerate(target)]
    whole = DTensor.from_local(x.contiguous(), mesh, source, run_check=False, shape=torch.Size(shape),
                               stride=tuple(contiguous_strides(shape)))
    y = whole.redistribute(placements=between).to_local()
    if any(mesh.get_local_rank(i) for i in summed):
        y = torch.zeros_like(y)
    return y.contiguous()


class Move(torch.autograd.Function):
    """The gradient arrives as `gradient` says and leaves as the gradient of `source` is placed."""

    @staticmethod
    def forward(ctx, x, mesh, shape, source, target, gradient):
        ctx.back = mesh, shape, gradient, gradient_of(source)
        return moved(x, mesh, shape, source, target)

    @staticmethod
    def backward(ctx, g):
        mesh, shape, source, target = ctx.back
        return moved(g, mesh, shape, source, target), None, None, None, None, None


def move(x, mesh, shape, source, target, gradient):
    if x.requires_grad:
        return Move.apply(x, mesh, tuple(shape), list(source), list(target), list(gradient))
    if all(a == b for a, b in zip(source, target)):
        return x
    return moved(x, mesh, shape, source, target)


def total(x, mesh, axes, gradient="partial"):
    """The sum over axes of the mesh.  gradient: is that of the sum a summand on each device (`partial`) or the
    same on all (`whole`)?"""
    if not axes:
        return x
    places = [Partial() if i in axes else Replicate() for i in range(mesh.ndim)]
    whole = [Replicate()] * mesh.ndim
    return move(x, mesh, x.shape, places, whole, places if gradient == "partial" else whole)


def largest(x, mesh, axes):
    """The largest over axes of the mesh; it has no gradient."""
    x = x.detach().contiguous().clone()
    for axis in axes:
        torch.distributed.all_reduce(x, torch.distributed.ReduceOp.MAX, group=mesh.get_group(axis))
    return x
