"""Functions with a backward of their own (torch.autograd.Function), and hooks of gradients.  An exported graph has
forward alone, and its gradients are those of its operators.
SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import sys
from unittest import mock

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import Refused

applied = torch.autograd.Function.apply
SCALES = (0.1, 1.0, 10.0)


class Context:
    """What forward keeps for backward."""

    def __init__(self, needs):
        self.needs_input_grad, self.saved_tensors = needs, ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_):
        pass

    def set_materialize_grads(self, _):
        pass


def forward(function, args):
    needs = tuple(isinstance(x, torch.Tensor) and x.is_floating_point() for x in args)
    context = Context(needs)
    if function.setup_context is torch.autograd.Function.setup_context:
        return function.forward(context, *args), context
    out = function.forward(*args)
    function.setup_context(context, args, out)
    return out, context


def backward(function, context, grad):
    """Of each argument."""
    found = getattr(function.backward, "__wrapped__", function.backward)(context, grad)
    return found if isinstance(found, tuple) else (found,)


def drawn(x, scale):
    """Numbers in the place of a tensor that has none while it is traced."""
    if not isinstance(x, torch.Tensor):
        return x
    shape = [int(n) for n in x.shape]
    if x.is_floating_point():
        return (torch.randn(shape, dtype=torch.double) * scale).requires_grad_()
    return torch.zeros(shape, dtype=x.dtype)


def same(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-6, atol=1e-9)


def as_derived(function, args):
    """Whether its backward is what its forward's operators have."""
    for scale in SCALES:
        given = [drawn(x, scale) for x in args]
        out, _ = forward(function, given)
        grad = torch.randn_like(out)
        kept, context = forward(function, [x.detach() if isinstance(x, torch.Tensor) else x for x in given])
        for x, own in zip(given, backward(function, context, grad)):
            if isinstance(x, torch.Tensor) and x.requires_grad:
                want, = torch.autograd.grad(out, x, grad, retain_graph=True, allow_unused=True)
                want, own = (torch.zeros_like(x) if y is None else y.sum_to_size(x.shape) for y in (want, own))
                if not same(want, own):
                    return False
    return True


def by_element(function, args):
    """Whether backward multiplies each element's gradient by a number that does not depend on it."""
    for scale in SCALES:
        given = [x.detach() if isinstance(x, torch.Tensor) else x for x in (drawn(x, scale) for x in args)]
        out, context = forward(function, given)
        grad = torch.randn_like(out)
        ones, found = (backward(function, context, g) for g in (torch.ones_like(out), grad))
        for one, own in zip(ones, found):
            if one is not None and (one.shape != out.shape or not same(one * grad, own)):
                return False
    return True


def tried(check, function, args):
    """False where its code cannot be asked, as with numbers of double precision."""
    with _disable_current_modes(), torch.enable_grad():
        try:
            return check(function, args)
        except Exception:
            return False


def apply(function, *args):
    """In the place of `function.apply`: its forward, if that has the same gradient; else what forward finds, to which
    nothing is added whose gradient is backward's numbers, element by element."""
    if function.__module__.split(".")[0] == "torch" or not torch.is_grad_enabled():
        return applied.__func__(function, *args)
    if tried(as_derived, function, args):
        return forward(function, args)[0]
    if not tried(by_element, function, args):
        raise Refused(f"{function.__qualname__} has a backward of its own, which neither is that of its forward nor "
                      f"multiplies gradients by element{asked_at()}")
    out, context = forward(function, [x.detach() if isinstance(x, torch.Tensor) else x for x in args])
    numbers = backward(function, context, torch.ones_like(out))
    out = out.detach()
    for x, number in zip(args, numbers):
        if number is not None and isinstance(x, torch.Tensor):
            out = out + number.detach() * (x - x.detach())
    return out


def asked_at():
    """The line of the module that asked."""
    frame, own = sys._getframe(2), (__file__, torch.__path__[0])
    while frame and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""


def refuse_hook(x, hook):
    raise Refused(f"a hook changes or reads a gradient within forward{asked_at()}")


def check_hooks(module):
    for name, m in module.named_modules():
        if m._backward_hooks or m._backward_pre_hooks:
            raise Refused(f"module {name or 'itself'} has a hook of its gradients, which would not be called")
    for name, p in module.named_parameters():
        if p._backward_hooks:
            raise Refused(f"parameter {name} has a hook of its gradient, which would not be called")


@contextlib.contextmanager
def known():
    """While a module is traced."""
    with mock.patch.object(torch.autograd.Function, "apply", classmethod(apply)), mock.patch.object(
            torch.Tensor, "register_hook", refuse_hook):
        yield
