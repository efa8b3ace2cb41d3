"""Functions of one element and of two.  SPDX-License-Identifier: Apache-2.0"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, fresh
from ..operands import LEAST, as_value, binary, constant, is_number, number, with_parameter, without_samples
from ..values import Complex, Loss, Mask, Noise, Param, Shifted


def unary(t, op, x, **attributes):
    x = as_value(t, x)
    return x.like(t.add(op, [x.node], **attributes))


for _name, _op in (("relu", "relu"), ("tanh", "tanh"), ("sigmoid", "sigmoid"), ("silu", "silu"), ("exp", "exp"),
                   ("hardswish", "hardswish"), ("log", "log"), ("sqrt", "sqrt"), ("neg", "neg"), ("abs", "abs"),
                   ("erf", "erf"), ("sin", "sin"), ("cos", "cos"), ("asin", "asin"), ("acos", "acos"), ("atan", "atan"),
                   ("lgamma", "lgamma"), ("digamma", "digamma")):
    row(_name, _name + "_")(lambda t, x, op=_op: x.times(-1.0) if isinstance(x, Loss) else unary(t, op, x))


@row("leaky_relu", "leaky_relu_")
def leaky_relu(t, x, slope=0.01):
    return unary(t, "leaky_relu", x, slope=float(slope))


@row("gelu")
def gelu(t, x, approximate="none"):
    return unary(t, "gelu", x, approximate="tanh" if approximate == "tanh" else None)


@row("relu6", "relu6_")
def relu6(t, x):
    return unary(t, "clip", x, min=0, max=6)


@row("hardtanh", "hardtanh_", "clamp", "clip", "clamp_min", "clamp_max")
def clamp(t, x, low=None, high=None, min=None, max=None, min_val=None, max_val=None):  # noqa: A002
    low, high = next((v for v in (low, min, min_val) if v is not None), None), next(
        (v for v in (high, max, max_val) if v is not None), None)
    if t.node.target._opname in ("hardtanh", "hardtanh_"):
        low, high = -1 if low is None else low, 1 if high is None else high
    if t.node.target._opname == "clamp_max":
        low, high = None, low
    if any(v is not None and not is_number(v) for v in (low, high)):
        return between(t, x, low, high)
    bounds = {k: number(v) for k, v in (("min", low), ("max", high)) if v is not None}
    bounds = {k: v for k, v in bounds.items() if math.isfinite(v)}
    return unary(t, "clip", x, **bounds) if bounds else x


def between(t, x, low, high):
    """By bounds of each element; what is equal to its bound shares the gradient with it, where PyTorch gives it all."""
    x = x if low is None else two(t, "max", x, low)
    return x if high is None else two(t, "min", x, high)


@row("hardsigmoid", "hardsigmoid_")
def hardsigmoid(t, x):
    x = scale(t, as_value(t, x), 1 / 6, 0.5)
    return x.like(t.add("clip", [x.node], min=0, max=1))


@row("elu", "elu_")
def elu(t, x, alpha=1.0, scale_by=1.0, input_scale=1.0):
    """max(x, 0) + alpha (exp(min(x, 0)) - 1)"""
    x = as_value(t, x)
    above = x.like(t.add("relu", [x.node]))
    below = x.like(t.add("clip", [x.node], max=0))
    below = scale(t, below.like(t.add("exp", [scale(t, below, input_scale).node])), alpha, -alpha)
    return scale(t, binary(t, "add", above, below), scale_by)


@row("celu", "celu_")
def celu(t, x, alpha=1.0):
    return elu(t, x, alpha, 1.0, 1.0 / alpha)


@row("softplus")
def softplus(t, x, beta=1.0, threshold=20.0):
    """(x + |x|) / 2 + log(1 + exp(-|x|)), which does not overflow, and at zero has half a gradient, as relu has not"""
    x = scale(t, as_value(t, x), beta)
    size = x.like(t.add("abs", [x.node]))
    small = scale(t, size, -1.0)
    small = scale(t, small.like(t.add("exp", [small.node])), 1.0, 1.0)
    small = small.like(t.add("log", [small.node]))
    above = scale(t, binary(t, "add", x, size), 0.5)
    return scale(t, binary(t, "add", above, small), 1.0 / beta)


@row("logaddexp")
def logaddexp(t, a, b):
    return two(t, "add", softplus(t, two(t, "sub", a, b)), b)


@row("prelu", "_prelu_kernel")
def prelu(t, x, weight):
    """max(x, 0) + weight min(x, 0)"""
    x = as_value(t, x)
    if isinstance(weight, Param) and weight.tensor.numel() > 1 and len(weight.shape) == 1:
        weight = weight.moved(weight.places().reshape([-1] + [1] * (len(x.dims) - 2)))
    below = two(t, "mul", x.like(t.add("clip", [x.node], max=0)), weight)
    return binary(t, "add", x.like(t.add("relu", [x.node])), below)


def scale(t, x, factor=1.0, offset=0.0):
    if factor == 1 and offset == 0:
        return x
    return x.like(t.add("scale", [x.node], factor=float(factor) if factor != 1 else None,
                        offset=float(offset) if offset else None))


@row("xlogy")
def xlogy(t, x, y):
    """x log(y), which is zero where x is."""
    if isinstance(y, torch.Tensor) and isinstance(x, torch.Tensor):
        return torch.xlogy(x, y)
    y = as_value(t, y)
    y = y.like(t.graph.add("clip", [y.node], min=1e-37))
    return two(t, "mul", x, y.like(t.graph.add("log", [y.node])))


@row("log1p")
def log1p(t, x):
    x = scale(t, as_value(t, x), 1.0, 1.0)
    return x.like(t.add("log", [x.node]))


@row("expm1")
def expm1(t, x):
    x = as_value(t, x)
    return scale(t, x.like(t.add("exp", [x.node])), 1.0, -1.0)


for _name, _by in (("log2", 1 / math.log(2)), ("log10", 1 / math.log(10))):
    row(_name)(lambda t, x, by=_by: scale(t, unary(t, "log", x), by))


@row("exp2")
def exp2(t, x):
    return unary(t, "exp", scale(t, as_value(t, x), math.log(2)))


@row("sinh", "cosh")
def hyperbolic(t, x):
    """Half of exp(x) - exp(-x), or of their sum."""
    x = as_value(t, x)
    up, down = (y.like(t.graph.add("exp", [y.node])) for y in (x, scale(t, x, -1.0)))
    return scale(t, binary(t, "sub" if t.node.target._opname == "sinh" else "add", up, down), 0.5)


@row("asinh")
def asinh(t, x):
    """Of x's size, so that nothing cancels: sign(x) log(|x| + sqrt(x^2 + 1))."""
    x = as_value(t, x)
    size = x.like(t.graph.add("abs", [x.node]))
    root = scale(t, x.like(t.graph.add("pow", [x.node], exponent=2)), 1.0, 1.0)
    y = binary(t, "add", size, root.like(t.graph.add("sqrt", [root.node])))
    return binary(t, "mul", sign(t, x), y.like(t.graph.add("log", [y.node])))


@row("acosh")
def acosh(t, x):
    """log(x + sqrt(x^2 - 1))"""
    x = as_value(t, x)
    root = scale(t, x.like(t.graph.add("pow", [x.node], exponent=2)), 1.0, -1.0)
    return unary(t, "log", binary(t, "add", x, root.like(t.graph.add("sqrt", [root.node]))))


@row("atanh")
def atanh(t, x):
    """Half of log(1 + x) - log(1 - x)."""
    x = as_value(t, x)
    up, down = (unary(t, "log", scale(t, x, by, 1.0)) for by in (1.0, -1.0))
    return scale(t, binary(t, "sub", up, down), 0.5)


@row("tan")
def tan(t, x):
    return two(t, "div", unary(t, "sin", x), unary(t, "cos", x))


@row("erfc")
def erfc(t, x):
    return scale(t, unary(t, "erf", x), -1.0, 1.0)


@row("hypot")
def hypot(t, a, b):
    squares = (y.like(t.graph.add("pow", [y.node], exponent=2)) for y in (as_value(t, a), as_value(t, b)))
    return unary(t, "sqrt", two(t, "add", *squares))


@row("nan_to_num", "nan_to_num_")
def nan_to_num(t, x, *_, **__):
    t.note("what is no number stays so, where the module has a number for it (nan_to_num)")
    return x


@row("sign", "sgn")
def sign(t, x):
    """One where it is above zero, less one where it is below."""
    from .masks import compare_reals, plain
    x = as_value(t, x)
    return two(t, "sub", *(plain(compare_reals(t, kind, x, 0.0)) for kind in ("gt", "lt")))


@row("rsqrt")
def rsqrt(t, x):
    return unary(t, "pow", x, exponent=-0.5)


@row("reciprocal")
def reciprocal(t, x):
    return unary(t, "pow", x, exponent=-1)


@row("square")
def square(t, x):
    return unary(t, "pow", x, exponent=2)


@row("pow")
def power(t, x, exponent):
    if is_number(x) and number(x) > 0 and isinstance(exponent, Value):
        return unary(t, "exp", scale(t, as_value(t, exponent), math.log(number(x))))
    if not is_number(exponent) or isinstance(exponent, Param):
        x = as_value(t, x)
        x = x.like(t.add("clip", [x.node], min=1e-38))  # of what is not above zero there is no logarithm
        return unary(t, "exp", two(t, "mul", x.like(t.add("log", [x.node])), exponent))
    exponent = number(exponent)
    if exponent == 1:
        return x
    return unary(t, "pow", x, exponent=int(exponent) if exponent == int(exponent) else exponent)


@row("_to_copy", "to", "type_as")
def convert(t, x, *args, dtype=None, **kwargs):
    """Real numbers stay in the type of the graph; ids become numbers."""
    from .masks import compare_with, of_reals
    dtype = dtype or next((a for a in args if isinstance(a, torch.dtype)), None) or t.node.meta["val"].dtype
    if isinstance(x, Value) and dtype.is_complex:
        x = Value(t.add("cast", [x.node]), x.axes, x.dims) if x.whole else x
        return Complex(x, scale(t, x, 0.0))
    if isinstance(x, Value) and x.whole and dtype.is_floating_point:
        return Value(t.add("cast", [x.node]), x.axes, x.dims)
    if isinstance(x, Mask):
        return x if dtype == torch.bool else Value(x.node, x.axes, x.dims)
    if isinstance(x, Value) and x.whole and dtype == torch.bool:
        return x if t.inputs[x.node].truth else compare_with(t, "ne", x, 0)
    if of_reals(x) and dtype == torch.bool:
        return compare_with(t, "ne", x, 0)
    if isinstance(x, Value) and not x.whole and not dtype.is_floating_point and t.of_reals():
        from .steps import towards_zero
        return towards_zero(t, x)
    return x


def with_number(t, op, a, b):
    """One of the two is a number."""
    if is_number(b):
        x, b = as_value(t, a), number(b)
        if op == "add" or op == "sub":
            return scale(t, x, 1.0, b if op == "add" else -b)
        if op == "mul" or op == "div":
            return scale(t, x, b if op == "mul" else 1.0 / b)
        return x.like(t.add("clip", [x.node], **({"max": b} if op == "min" else {"min": b})))
    x, a = as_value(t, b), number(a)
    if op == "mask":
        raise Refused("chooses numbers that are all alike by what is computed")
    if op == "sub":
        return scale(t, x, -1.0, a)
    if op == "div":
        return scale(t, x.like(t.add("pow", [x.node], exponent=-1)), a)
    return with_number(t, op, b, a)


OF_KNOWN = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.true_divide, "min": torch.minimum,
            "max": torch.maximum, "atan2": torch.atan2}


def two(t, op, a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, (torch.Tensor, int, float)) or isinstance(
            b, torch.Tensor) and isinstance(a, (int, float)):
        if op in OF_KNOWN:
            return OF_KNOWN[op](*(torch.as_tensor(x, dtype=torch.float) for x in (a, b)))
    a, b = (Value(t.add("cast", [x.node]), x.axes, x.dims) if isinstance(x, Value) and x.whole else x for x in (a, b))
    if isinstance(a, torch.Tensor) and a.numel() > 1 and isinstance(b, Value):
        a = reduced(t, a, b)
    if isinstance(b, torch.Tensor) and b.numel() > 1 and isinstance(a, Value):
        b = reduced(t, b, a)
    if is_number(a) or is_number(b):
        return with_number(t, op, a, b)
    if isinstance(a, Param) and isinstance(b, Value) and not b.whole and op in ("add", "mul", "min", "max"):
        a, b = b, a
    if isinstance(a, Param) and isinstance(b, Value) and not b.whole and op == "sub":
        made = with_parameter(t, "sub", b, a)
        if made is not None:
            return made.like(t.add("neg", [made.node]))
    if isinstance(b, Param) and isinstance(a, Value) and not a.whole:
        made = with_parameter(t, op, a, b)
        if made is not None:
            return made
    dims_a, dims_b = (fresh_dims(x) if isinstance(x, Param) else getattr(x, "dims", None) for x in (a, b))
    a, b = as_value(t, a, dims_b), as_value(t, b, dims_a)
    if a is b and op == "mul":
        return a.like(t.add("pow", [a.node], exponent=2))
    return binary(t, op, a, b)


def fresh_dims(p):
    return [fresh(n) if n > 1 else [] for n in p.shape]


def reduced(t, x, other):
    """A number where a constant has but one."""
    try:
        x = without_samples(t, x, other.dims)
    except Refused:  # of each sample its own
        return x
    if x.numel() > 1 and x.dim() <= len(other.dims) and bool((x == x.reshape(-1)[0]).all()) and all(
            n in (1, m) for n, m in zip(list(x.shape)[::-1], other.shape[::-1])):
        return x.reshape(-1)[0]
    return x


@row("add", "add_", "sub", "sub_", "rsub")
def add(t, a, b, alpha=1):
    kind = t.node.target._opname.rstrip("_")
    if kind == "rsub":
        a, b, kind = b, a, "sub"
        if alpha != 1:
            b = two(t, "mul", b, alpha) if isinstance(b, (Value, Param)) else b * alpha
    elif alpha != 1:
        b = two(t, "mul", b, alpha) if isinstance(b, (Value, Param, Loss)) else b * alpha
    if isinstance(a, Loss) or isinstance(b, Loss):
        return sum_of_losses(t, a, b, kind)
    if kind == "add" and isinstance(a, torch.Tensor):
        a, b = b, a
    made = two(t, kind, a, b)
    if isinstance(a, Value) and a.whole and type(b) is int:
        return Shifted(made, a, torch.tensor(b if kind == "add" else -b))
    if kind == "add" and isinstance(a, Value) and a.whole and isinstance(b, torch.Tensor) and not b.is_floating_point():
        return Shifted(made, a, b.expand(a.shape))
    return made


def sum_of_losses(t, a, b, kind):
    if kind == "add" and is_number(a) and number(a) == 0:
        return b
    if kind == "add" and is_number(b) and number(b) == 0:
        return a
    if any(is_number(x) for x in (a, b)):
        a, b = (constant(t, torch.tensor(number(x))) if is_number(x) else x for x in (a, b))
    if any(isinstance(x, Value) and not x.whole and not x.shape for x in (a, b)):
        from .losses import general
        a, b = (general(t, of_samples(t, x)).mean() if isinstance(x, Value) else x for x in (a, b))
    if kind == "sub" and isinstance(b, Loss):
        kind, b = "add", b.times(-1.0)
    if kind != "add" or not isinstance(a, Loss) or not isinstance(b, Loss):
        raise Refused("computes with a loss; losses are added up, each times a number")
    return a.plus(b)


def of_samples(t, x):
    """The same for every sample."""
    return t.graph.full(x.like(dims=[[t.batch]]), [[t.batch]])


@row("mul", "mul_", "div", "div_", "true_divide")
def mul(t, a, b, rounding_mode=None):
    kind = "mul" if t.node.target._opname.startswith("mul") else "div"
    if rounding_mode:
        from .steps import quotient
        return quotient(t, a, b, rounding_mode)
    if isinstance(b, (Loss, Noise)) and kind == "mul":
        a, b = b, a
    if isinstance(a, Value) and a.whole and is_one(b):
        return a
    if isinstance(a, Loss) and is_number(b):
        return a.times(number(b) if kind == "mul" else 1 / number(b))
    if isinstance(a, Loss) and isinstance(b, Value) and not b.shape:
        from .losses import by_value
        return by_value(t, kind, a, b)
    if isinstance(a, Noise):
        return drawn(t, a, b, kind)
    if isinstance(a, Loss) or isinstance(b, Loss):
        from .losses import number_of
        a, b = (number_of(t, x) if isinstance(x, Loss) else x for x in (a, b))
    return two(t, kind, a, b)


def is_one(x):
    """Integers that change nothing, but how often something is there."""
    return isinstance(x, torch.Tensor) and not x.is_floating_point() and x.dim() < 2 and bool((x == 1).all())


@row("view_as_complex")
def view_as_complex(t, x):
    """The last axis has two elements."""
    from .moving import part
    from ..operands import moved
    x = as_value(t, x)
    return Complex(*(moved(t, part(t, x, len(x.dims) - 1, [i]), t.shape()) for i in (0, 1)))


@row("view_as_real")
def view_as_real(t, x):
    from .moving import concat
    return concat(t, [p.like(dims=[*p.dims, []]) for p in (as_value(t, p) for p in x.parts)], len(t.shape()) - 1)


def drawn(t, noise, x, kind):
    """Stochastic depth and the dropout of channels: ones that are kept, times what they are for."""
    if is_number(x):
        by = noise.by * (1 / number(x) if kind == "mul" else number(x))
        return Noise(noise.shape, noise.keep, by)
    from .draws import dropped
    x = as_value(t, x)
    made = dropped(t, x, noise)
    return made if abs(noise.by - noise.keep) < 1e-6 else scale(t, made, noise.keep / noise.by)


@row("maximum", "minimum")
def extreme(t, a, b):
    """Of two that are alike each has half of the gradient, where a clip has all of it."""
    kind = "max" if t.node.target._opname == "maximum" else "min"
    a, b = (reduced(t, x, y) if isinstance(x, torch.Tensor) and isinstance(y, Value) else x
            for x, y in ((a, b), (b, a)))
    return two(t, kind, *(constant(t, torch.full([1], number(x))) if is_number(x) else x for x in (a, b)))


@row("masked_fill", "masked_fill_")
def masked_fill(t, x, mask, value):
    """Where a mask is set, the number."""
    return where(t, mask, value, x)


@row("where")
def where(t, mask, a=None, b=None):
    """By a mask: products with zeros and ones, added up."""
    if a is None:
        from .taken import places_of
        return places_of(t, mask)
    if not isinstance(mask, torch.Tensor):
        from .masks import chosen, mask_of
        return chosen(t, mask_of(t, mask), a, b)
    mask = mask.bool()
    if is_number(a) and number(a) < -1e9:
        return two(t, "add", b, torch.where(mask, max(number(a), LEAST), 0.0))
    if is_number(b) and number(b) < -1e9:
        return two(t, "add", a, torch.where(mask, 0.0, max(number(b), LEAST)))
    parts = []
    for x, keep in ((a, mask), (b, ~mask)):
        if is_number(x):
            parts.append(keep.float() * number(x) if number(x) else None)
        else:
            parts.append(two(t, "mul", x, keep.float()) if not isinstance(x, torch.Tensor) else x * keep)
    parts = [p for p in parts if p is not None]
    return parts[0] if len(parts) == 1 else two(t, "add", *parts)
