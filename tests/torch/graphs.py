# Graphs that hold every operator in many settings; of rows and sequences: sequences.py.
# SPDX-License-Identifier: Apache-2.0

from graph import CLASSES, Graph


def losses():
    """Several losses, by weight: of what others read too, of vectors, rows and images."""
    g = Graph("losses", [6, 3, 5, 4])

    def aim(name, op, x, shape, **attrs):
        g.nodes.append({"name": f"{name}.target", "op": "input", "shape": [6, *shape]})
        g.add(f"{name}.loss", op, x, f"{name}.target", **attrs)
    aim("vector", "mse", g.features("vector"), [12])
    aim("image", "smooth_l1", g.front("image"), [4, 5, 4], weight=0.5)
    x = g.features("bits")
    aim("bits", "bce_with_logits", x, [12], weight=2)
    g.head("bits", x)
    # so far that no rounding turns a slope
    aim("apart", "l1", g.add("apart.far", "scale", g.features("apart"), offset=3), [12])
    aim("plane", "bce_with_logits", g.front("plane", 1), [1, 5, 4], weight=0.25)
    g.nodes.append({"name": "rows.labels", "op": "input", "shape": [6, 20], "dtype": "int32",
                    "classes": 4})
    x = g.add("rows.shape", "reshape", g.front("rows"), shape=[0, 4, -1])
    g.add("rows.loss", "softmax_cross_entropy", x, "rows.labels", ignore_index=2, weight=1.5)
    # nothing but its own data
    g.add("same.loss", "mse", g.front("same", 3), "data", weight=3)
    return g.finish()


def means():
    """Losses that are means of what counts: labels say what, or another's data."""
    g = Graph("means", [6, 3, 5, 4])
    g.add("mean.loss", "mean", g.add("mean.square", "pow", g.front("mean", 3), exponent=2), "data", weight=0.5)
    g.nodes.append({"name": "rows.labels", "op": "input", "shape": [6, 20], "dtype": "int32", "classes": 4})
    x = g.add("rows.shape", "reshape", g.front("rows", 1), shape=[0, 20])
    g.add("rows.loss", "mean", x, "rows.labels", ignore_index=2, weight=2)
    g.head("rest", g.features("rest"))
    return g.finish()


def convolutions():
    g = Graph("convolutions", [4, 3, 13, 11])
    g.case("plain", "conv2d", out_channels=5, kernel=3)
    g.case("no-bias", "conv2d", out_channels=5, kernel=3, bias=False)
    g.case("pad", "conv2d", out_channels=5, kernel=3, pad=1)
    g.case("pad-full", "conv2d", out_channels=3, kernel=3, pad=2)
    g.case("stride", "conv2d", out_channels=5, kernel=3, stride=2)
    g.case("stride-pad", "conv2d", out_channels=5, kernel=5, stride=3, pad=2)
    g.case("stride-over-kernel", "conv2d", out_channels=5, kernel=1, stride=2)
    g.case("dilation", "conv2d", out_channels=5, kernel=3, dilation=2)
    g.case("dilation-pad-stride", "conv2d", out_channels=5, kernel=3, dilation=3, pad=2, stride=2)
    g.case("groups", "conv2d", 6, out_channels=9, kernel=3, groups=3, pad=1)
    g.case("groups-no-bias-stride", "conv2d", 4, out_channels=6, kernel=2, groups=2, stride=2,
           bias=False)
    g.case("depthwise", "conv2d", 6, out_channels=6, kernel=3, groups=6, pad=1)
    g.case("depthwise-twofold", "conv2d", 3, out_channels=6, kernel=3, groups=3)
    g.case("rectangular", "conv2d", out_channels=5, kernel=[3, 5])
    g.case("rectangular-all", "conv2d", 6, out_channels=4, kernel=[5, 2], stride=[1, 2],
           pad=[3, 1], dilation=[2, 3], groups=2)
    g.case("row", "conv2d", out_channels=5, kernel=[1, 7], pad=[0, 3])
    g.case("column", "conv2d", out_channels=5, kernel=[13, 1])
    g.case("whole", "conv2d", out_channels=7, kernel=[13, 11])
    g.case("many-channels", "conv2d", 33, out_channels=17, kernel=3, pad=1)
    g.case("one-channel", "conv2d", 1, out_channels=1, kernel=3)
    g.head("on-data", g.add("on-data.op", "conv2d", "data", out_channels=8, kernel=3, pad=1))
    # a second convolution behind the first: strided gradients go on
    x = g.add("chain.a", "conv2d", "data", out_channels=6, kernel=3, stride=2, pad=1)
    x = g.add("chain.b", "conv2d", x, out_channels=8, kernel=3, groups=2, pad=1)
    g.head("chain", g.add("chain.c", "conv2d", x, out_channels=4, kernel=[2, 3], bias=False))
    return g.finish()


def transposed():
    """Transposed convolutions along one, two and three axes."""
    g = Graph("transposed", [4, 3, 8, 6])
    op = "conv_transpose2d"
    g.case("plain", op, out_channels=5, kernel=3)
    g.case("no-bias", op, out_channels=5, kernel=3, bias=False)
    g.case("twice", op, out_channels=5, kernel=2, stride=2)
    g.case("pad", op, out_channels=5, kernel=3, pad=1)
    g.case("half-more", op, out_channels=5, kernel=3, stride=2, pad=1, output_pad=1)
    g.case("pad-beyond", op, out_channels=3, kernel=2, pad=2)
    g.case("sides", op, out_channels=3, kernel=3, stride=2, pad=[0, 1, 2, 1])
    g.case("gaps", op, out_channels=3, kernel=1, stride=3, output_pad=[2, 1])
    g.case("dilation", op, out_channels=5, kernel=3, dilation=2, output_pad=1)
    g.case("groups", op, 6, out_channels=9, kernel=3, groups=3, stride=2)
    g.case("depthwise", op, 6, out_channels=6, kernel=4, groups=6, stride=2, pad=1, bias=False)
    g.case("rectangular-all", op, 6, out_channels=4, kernel=[5, 2], stride=[1, 2], pad=[3, 1],
           dilation=[2, 3], output_pad=[0, 1], groups=2)
    g.case("many-channels", op, 33, out_channels=17, kernel=2, stride=2)
    for rank, shape, size in ((3, [0, 0, -1], 1), (5, [0, 0, 4, 2, 6], 3)):
        for name, attrs in (("plain", {"out_channels": 5, "kernel": 2}),
                            ("all", {"out_channels": 4, "kernel": 3, "stride": 2, "pad": 1,
                                     "output_pad": 1, "dilation": 1, "bias": False}),
                            ("groups", {"out_channels": 4, "kernel": 2, "stride": 3, "groups": 2})):
            case = f"{name}-{size}"
            x = g.add(f"{case}.shape", "reshape", g.front(case), shape=shape)
            g.head(case, g.add(f"{case}.op", f"conv_transpose{size}d", x, **attrs))
    x = g.add("chain.a", "conv2d", "data", out_channels=6, kernel=3, stride=2, pad=1)
    x = g.add("chain.b", op, x, out_channels=4, kernel=2, stride=2)
    g.head("chain", g.add("chain.c", "conv2d", x, out_channels=4, kernel=3, pad=1))
    return g.finish()


def pools():
    g = Graph("pools", [4, 3, 13, 11])
    for mode in ("max", "avg"):
        def case(name, **attrs):
            g.case(f"{mode}-{name}", "pool2d", mode=mode, **attrs)
        case("plain", kernel=2)
        case("overlap", kernel=3, stride=2)
        case("pad", kernel=3, stride=2, pad=1)
        case("pad-dense", kernel=3, stride=1, pad=1)
        case("pad-even", kernel=4, stride=3, pad=2)
        case("gaps", kernel=2, stride=3)
        case("rectangular", kernel=[3, 2], stride=[2, 3], pad=[1, 0])
        case("row", kernel=[1, 5], stride=[1, 2], pad=[0, 2])
        case("whole", kernel=[13, 11])
        case("one", kernel=1)
        case("ceil", kernel=3, stride=2, ceil=True)
        case("ceil-pad", kernel=4, stride=3, pad=[2, 1], ceil=True)
        case("ceil-gaps", kernel=2, stride=4, pad=1, ceil=True)
        case("sides", kernel=4, stride=3, pad=[0, 1, 2, 1])
    for size in ([5, 7], [13, 1], [3, 11], [16, 12]):
        g.case("adaptive-{}-{}".format(*size), "adaptive_pool", size=size)
    for size in ([26, 22], [5, 17], [1, 30]):
        for how, attrs in (("nearest", {}), ("linear", {"mode": "linear"}),
                           ("corners", {"mode": "linear", "align_corners": True})):
            g.case("{}-{}-{}".format(how, *size), "upsample", size=size, **attrs)
    g.case("avg-bare", "pool2d", mode="avg", kernel=3, stride=1, pad=1, count_pad=False)
    g.case("avg-bare-ceil", "pool2d", mode="avg", kernel=4, stride=3, pad=2, count_pad=False,
           ceil=True)
    g.case("avg-bare-sides", "pool2d", mode="avg", kernel=3, stride=2, pad=[1, 0, 0, 1],
           count_pad=False)
    return g.finish()


def spatial():
    """Windows along one axis and along three."""
    g = Graph("spatial", [4, 3, 8, 6])

    def shaped(case, rank, channels):
        shape = [0, 0, -1] if rank == 3 else [0, 0, 4, 2, 6]
        return g.add(f"{case}.shape", "reshape", g.front(case, channels), shape=shape)

    def both(name, op, channels=4, line=None, volume=None, **attrs):
        for rank, own in ((3, line), (5, volume)):
            case = f"{name}-{rank - 2}"
            g.head(case, g.add(f"{case}.op", f"{op}{rank - 2}d", shaped(case, rank, channels),
                               **attrs, **(own or {})))
    both("plain", "conv", out_channels=5, kernel=2)
    both("all", "conv", 6, {"kernel": 5, "pad": [3, 4], "dilation": 3},
         {"kernel": [3, 1, 2], "pad": [1, 0, 1, 2, 0, 0], "dilation": [1, 2, 1]}, out_channels=4,
         stride=2, groups=2, bias=False)
    both("depthwise", "conv", 6, out_channels=6, kernel=2, groups=6)
    for mode in ("max", "avg"):
        both(f"{mode}-plain", "pool", mode=mode, kernel=2)
        both(f"{mode}-ceil", "pool", mode=mode, kernel=2, stride=3, pad=1, ceil=True)
    for rank, size in ((3, [7]), (5, [3, 3, 4])):
        for how, op, attrs in (("share", "adaptive_pool", {}), ("nearest", "upsample", {}),
                               ("linear", "upsample", {"mode": "linear"}),
                               ("corners", "upsample", {"mode": "linear", "align_corners": True})):
            case = f"{how}-{rank - 2}"
            g.head(case, g.add(f"{case}.op", op, shaped(case, rank, 4), size=size, **attrs))
    both("avg-bare", "pool", mode="avg", kernel=2, stride=1, pad=1, count_pad=False)
    both("avg-sides", "pool", line={"pad": [0, 1]}, volume={"pad": [1, 0, 0, 0, 1, 1]},
         mode="avg", kernel=2)
    return g.finish()


def pointwise():
    g = Graph("pointwise", [4, 3, 9, 7])
    for op in ("relu", "tanh", "sigmoid"):
        g.case(f"{op}-4", op)
        g.head(f"{op}-2", g.add(f"{op}-2.op", op, g.features(f"{op}-2")))
        x = g.add(f"{op}-3.shape", "reshape", g.front(f"{op}-3"), shape=[0, 6, -1])
        g.head(f"{op}-3", g.add(f"{op}-3.op", op, x))
    g.case("dropout-4", "dropout", p=0.3)
    g.case("dropout-preset", "dropout")
    g.case("dropout-none", "dropout", p=0)
    g.case("dropout-most", "dropout", p=0.9)
    g.head("dropout-2", g.add("dropout-2.op", "dropout", g.features("dropout-2"), p=0.25))
    x = g.add("dropout-3.shape", "reshape", g.front("dropout-3"), shape=[0, 6, -1])
    g.head("dropout-3", g.add("dropout-3.op", "dropout", x, p=0.6))
    x = g.add("dropout-twice.a", "dropout", g.front("dropout-twice"), p=0.2)
    g.head("dropout-twice", g.add("dropout-twice.b", "dropout", x, p=0.2))
    # linear layers: over features, with more axes between, without bias
    g.head("linear-2", g.add("linear-2.op", "linear", g.features("linear-2"), out_features=7))
    g.head("linear-2-no-bias", g.add("linear-2-no-bias.op", "linear",
                                     g.features("linear-2-no-bias"), out_features=7, bias=False))
    x = g.add("linear-3.shape", "reshape", g.front("linear-3"), shape=[0, 4, -1])
    g.head("linear-3", g.add("linear-3.op", "linear", x, out_features=5))
    x = g.add("linear-3-no-bias.shape", "reshape", g.front("linear-3-no-bias"), shape=[0, -1, 21])
    g.head("linear-3-no-bias",
           g.add("linear-3-no-bias.op", "linear", x, out_features=5, bias=False))
    g.case("linear-4", "linear", out_features=5)
    x = g.add("linear-5.shape", "reshape", g.front("linear-5"), shape=[0, 2, 2, 9, 7])
    g.head("linear-5", g.add("linear-5.op", "linear", x, out_features=3))
    g.head("linear-on-data", g.add("linear-on-data.op", "linear", "data", out_features=3))
    x = g.add("linear-one.squeeze", "linear", g.features("linear-one"), out_features=1)
    g.head("linear-one", g.add("linear-one.op", "linear", x, out_features=1, bias=False))
    return g.finish()


def functions():
    """Functions of one element, on images and on vectors."""
    g = Graph("functions", [4, 3, 9, 7])
    cases = {"leaky-relu": ("leaky_relu", {}), "leaky-relu-2": ("leaky_relu", {"slope": 0.2}),
             "gelu": ("gelu", {}), "gelu-tanh": ("gelu", {"approximate": "tanh"}),
             "silu": ("silu", {}), "hardswish": ("hardswish", {}), "neg": ("neg", {}),
             "abs": ("abs", {}), "clip": ("clip", {"min": -0.5, "max": 0.75}),
             "clip-low": ("clip", {"min": 0.1}), "clip-high": ("clip", {"max": 0.1}),
             "erf": ("erf", {}), "sin": ("sin", {}), "cos": ("cos", {}), "atan": ("atan", {}), "detach": ("detach", {}),
             "scale": ("scale", {"factor": -1.5, "offset": 0.25}),
             "square": ("pow", {"exponent": 2}),
             "cube": ("pow", {"exponent": 3})}
    for name, (op, attrs) in cases.items():
        g.case(name, op, **attrs)
        rows = f"{name}-rows"
        g.head(rows, g.add(f"{rows}.op", op, g.features(rows), **attrs))
    bounded = {"exp": ("exp", {}), "log": ("log", {}), "sqrt": ("sqrt", {}),
               "root": ("pow", {"exponent": 0.5}), "reciprocal": ("pow", {"exponent": -1}),
               "asin": ("asin", {}), "acos": ("acos", {}), "lgamma": ("lgamma", {}), "digamma": ("digamma", {}),
               "power": ("pow", {"exponent": 2.5}), "inverse-root": ("pow", {"exponent": -0.5})}
    for name, (op, attrs) in bounded.items():
        x = g.add(f"{name}.bound0", "sigmoid", g.front(name))
        g.head(name, g.add(f"{name}.op", op, x, **attrs))
    for op in ("floor", "round"):  # of data, which no rounding turns
        steps = g.add(f"{op}.op", op, g.add(f"{op}.wide", "scale", "data", factor=4))
        g.head(op, g.add(f"{op}.add", "add", g.front(op, 3), steps))
    return g.finish()


def joints():
    g = Graph("joints", [4, 3, 8, 6])
    for n in (2, 3, 5):
        g.head(f"add-{n}", g.add(f"add-{n}.op", "add", *g.front(f"add-{n}", n=n)))
    a = g.front("add-same")
    g.head("add-same", g.add("add-same.op", "add", a, a, a))
    a = g.add("add-2d.a", "tanh", g.features("add-2d"))
    b = g.add("add-2d.b", "linear", a, out_features=12)
    g.head("add-2d", g.add("add-2d.op", "add", a, b))
    # concat: along every axis, of unequal tensors, of one, of one twice
    parts = [g.add(f"concat-1.part{i}", "conv2d", "data", out_channels=i + 2, kernel=1)
             for i in range(3)]
    g.head("concat-1", g.add("concat-1.op", "concat", *parts))
    parts = [g.add(f"concat-2.part{i}", "conv2d", "data", out_channels=4, kernel=[i + 1, 1])
             for i in range(3)]
    g.head("concat-2", g.add("concat-2.op", "concat", *parts, axis=2))
    parts = [g.add(f"concat-3.part{i}", "conv2d", "data", out_channels=4, kernel=[1, 2 * i + 1])
             for i in range(2)]
    g.head("concat-3", g.add("concat-3.op", "concat", *parts, axis=3))
    parts = [g.add(f"concat-2d.part{i}", "linear", g.features(f"concat-2d.{i}"),
                   out_features=3 + i) for i in range(2)]
    g.head("concat-2d", g.add("concat-2d.op", "concat", *parts))
    parts = [g.add(f"concat-3d.part{i}", "reshape", x, shape=[0, 4, -1])
             for i, x in enumerate(g.front("concat-3d", n=2))]
    g.head("concat-3d", g.add("concat-3d.op", "concat", *parts, axis=2))
    g.head("concat-alone", g.add("concat-alone.op", "concat", g.front("concat-alone")))
    a, b = g.front("concat-same", n=2)
    g.head("concat-same", g.add("concat-same.op", "concat", a, b, a))
    g.head("concat-data", g.add("concat-data.op", "concat", "data", g.front("concat-data")))
    # reshape: behind each a layer that mixes along the new axes alone
    for name, shape in [("flat", [0, -1]), ("rank-3", [0, 4, -1]), ("merge", [0, 8, 24]),
                        ("uneven", [0, 6, 32]), ("rank-5", [0, 2, 2, 8, 6]),
                        ("rank-4", [0, 8, 4, 6]), ("rank-4-all", [4, 3, 16, 4]),
                        ("ones", [0, 1, 192, 1])]:
        x = g.add(f"reshape-{name}.op", "reshape", g.front(f"reshape-{name}"), shape=shape)
        g.head(f"reshape-{name}", g.add(f"reshape-{name}.mix", "linear", x, out_features=5))
    x = g.add("reshape-image.op", "reshape", g.features("reshape-image", 60), shape=[0, 3, 4, 5])
    g.head("reshape-image", g.add("reshape-image.mix", "conv2d", x, out_channels=4, kernel=3))
    # one tensor read by many: gradients of all uses add up
    x = g.add("fan.root", "tanh", g.front("fan"))
    uses = [g.add("fan.conv", "conv2d", x, out_channels=4, kernel=3, pad=1),
            g.add("fan.pool", "pool2d", x, mode="max", kernel=3, stride=1, pad=1),
            g.add("fan.sigmoid", "sigmoid", x), x]
    x = g.add("fan.sum", "add", *uses)
    g.head("fan", g.add("fan.join", "concat", x, uses[0], uses[2]))
    return g.finish()


def moves():
    """Operators that pick and move elements."""
    g = Graph("moves", [4, 3, 8, 6])
    g.head("mul-4", g.add("mul-4.op", "mul", *g.front("mul-4", n=2)))
    x = [g.add(f"mul-3.line{i}", "reshape", x, shape=[0, 4, -1])
         for i, x in enumerate(g.front("mul-3", n=2))]
    g.head("mul-3", g.add("mul-3.op", "mul", *x))
    g.head("mul-2", g.add("mul-2.op", "mul", g.features("mul-2.a"), g.features("mul-2.b")))
    x = g.front("mul-same")
    g.head("mul-same", g.add("mul-same.op", "mul", x, x))
    g.head("mul-data", g.add("mul-data.op", "mul", "data", g.front("mul-data", 3)))
    # every axis, both ends and the middle; the rest has no gradient
    g.case("slice-1", "slice", start=1, stop=3)
    g.case("slice-2", "slice", axis=2, stop=5)
    g.case("slice-3", "slice", axis=3, start=4, stop=6)
    g.case("slice-all", "slice", stop=4)
    x = g.front("slices")
    x = [g.add(f"slices.{a}", "slice", x, axis=2, start=a, stop=a + 4) for a in (0, 1, 4)]
    g.head("slices", g.add("slices.op", "concat", *x))
    g.head("slice-data", g.add("slice-data.mix", "linear", g.add(
        "slice-data.op", "slice", "data", axis=2, start=3, stop=4), out_features=3))
    g.case("slice-steps", "slice", axis=2, start=1, stop=8, step=3)
    g.case("slice-odd", "slice", axis=3, stop=6, step=2)
    for axis, parts in ((1, 2), (2, 4), (3, 3), (1, 1)):
        case = f"split-{axis}-{parts}"
        g.add(f"{case}.op", "split", g.front(case), axis=axis, parts=parts)
        # backwards, so that the order of the outputs matters
        outs = [f"{case}.op" + f"#{i}" * (i > 0) for i in reversed(range(parts))]
        g.head(case, g.add(f"{case}.join", "concat", *outs, axis=axis))
    g.add("split-2d.op", "split", g.features("split-2d"), parts=3)
    x = g.add("split-2d.mul", "mul", "split-2d.op", "split-2d.op#2")
    g.head("split-2d", g.add("split-2d.add", "add", x, "split-2d.op#1"))
    for perm in ([0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 2, 3], [0, 1, 3, 2]):
        case = "transpose-" + "".join(map(str, perm))
        x = g.add(f"{case}.op", "transpose", g.front(case), perm=perm)
        g.head(case, g.add(f"{case}.mix", "linear", x, out_features=5))
    x = g.add("transpose-3.rows", "reshape", g.front("transpose-3"), shape=[0, 4, -1])
    x = g.add("transpose-3.op", "transpose", x, perm=[0, 2, 1])
    g.head("transpose-3", g.add("transpose-3.mix", "linear", x, out_features=5))
    x = g.add("transpose-5.rows", "reshape", g.front("transpose-5"), shape=[0, 2, 2, 8, 6])
    x = g.add("transpose-5.op", "transpose", x, perm=[0, 3, 1, 4, 2])
    g.head("transpose-5", g.add("transpose-5.mix", "linear", x, out_features=5))
    return g.finish()


def pads():
    """Numbers around tensors, broadcasts to a shape, elements in another order, numbers that are
    known, samples that are dropped."""
    g = Graph("pads", [4, 3, 8, 6])
    g.case("around", "pad", before=[0, 0, 1, 2], after=[0, 0, 3, 0])
    g.case("channels", "pad", before=[0, 1, 0, 0], after=[0, 2, 0, 0], value=-0.5)
    g.case("less", "pad", before=[0, -1, -2, 0], after=[0, 0, -1, -3])
    g.case("both", "pad", before=[0, 0, -3, 2], after=[0, 1, 2, -1], value=1.25)
    for mode in ("reflect", "edge"):
        g.case(mode, "pad", before=[0, 0, 1, 2], after=[0, 0, 3, 0], mode=mode)
        g.case(f"{mode}-most", "pad", before=[0, 0, 7, 5], after=[0, 0, 7, 5], mode=mode)
        for rank, shape in ((3, [0, 0, -1]), (5, [0, 0, 4, 2, 6])):
            x = g.add(f"{mode}-{rank}.shape", "reshape", g.front(f"{mode}-{rank}"), shape=shape)
            g.head(f"{mode}-{rank}", g.add(
                f"{mode}-{rank}.op", "pad", x, before=[0, 0, 2, 1, 3][:rank],
                after=[0, 0, 1, 0, 5][:rank], mode=mode))
    g.head("vectors", g.add("vectors.op", "pad", g.features("vectors"), before=[0, 2],
                            after=[0, -5]))
    for i, cut in enumerate(([1], [2, 3], [1, 2, 3])):
        case, shape = f"expand-{i}", [4, 4, 8, 6]
        x = y = g.front(case)
        for axis in cut:
            x = g.add(f"{case}.cut{axis}", "slice", x, axis=axis, start=1, stop=2)
        x = g.add(f"{case}.op", "expand", x, shape=shape)
        g.head(case, g.add(f"{case}.mul", "mul", x, y))
    for i, own in enumerate(([6], [4, 1, 1], [1, 4, 8, 6], [1], [8, 1])):
        x = g.add(f"own-{i}.op", "expand", shape=[4, 4, 8, 6], weight=own)
        y = g.add(f"own-{i}.exp", "exp", x)  # which begins with ones
        g.head(f"own-{i}", g.add(f"own-{i}.mul", "mul", y, g.front(f"own-{i}")))
    rows = g.add("token.rows", "reshape", g.front("token"), shape=[0, 4, 48])
    token = g.add("token.class", "expand", shape=[4, 1, 48], weight=[1, 48])
    x = g.add("token.join", "concat", token, rows)
    g.head("token", g.add("token.mix", "linear", x, out_features=5))
    for axis, indices in ((1, [3, 0, 3]), (2, [7, 6, 5, 4, 3, 2, 1, 0]), (3, [1, 1, 1, 4])):
        g.case(f"gather-{axis}", "gather", axis=axis, indices=indices)
    g.head("gather-2d", g.add("gather-2d.op", "gather", g.features("gather-2d"),
                              indices=[11, 0, 0, 5]))
    mask = g.add("known.mask", "constant", shape=[4, 4, 8, 6], runs=[50, 1, 100, 0.5, 42, 0])
    x = g.add("known.op", "mul", g.front("known"), mask)
    row = g.add("known.row", "constant", shape=[4, 1, 1, 6], runs=[2, 0.25, 4, -1.5])
    g.head("known", g.add("known.add", "add", x, row))
    g.case("drop-4", "dropout", p=0.4, per="sample")
    g.head("drop-2", g.add("drop-2.op", "dropout", g.features("drop-2"), p=0.3, per="sample"))
    return g.finish()


def broadcasts():
    """Functions of two elements: shapes that agree, broadcast one way, both ways, parameters."""
    g = Graph("broadcasts", [4, 3, 8, 6])

    def bounded(op, name, x):
        """A divisor well away from zero."""
        return x if op not in ("div", "atan2") else g.add(f"{name}.away", "exp", g.add(f"{name}.tanh", "tanh", x))

    for op in ("add", "sub", "mul", "div", "min", "max", "atan2"):
        a, b = g.front(f"{op}-same", n=2)
        g.head(f"{op}-same", g.add(f"{op}-same.op", op, a, bounded(op, f"{op}-same", b)))
        # one number a channel and sample, a row of them, both ways
        for name, cut, both in (("channels", (2, 3), False), ("rows", (1, 3), False),
                                ("pixels", (1,), False), ("outer", (1, 2), True)):
            case = f"{op}-{name}"
            a, b = g.front(case, n=2)
            for axis in cut:
                b = g.add(f"{case}.cut{axis}", "slice", b, axis=axis, start=1, stop=2)
            if both:
                a = g.add(f"{case}.cut-a", "slice", a, axis=3, start=2, stop=3)
            b = bounded(op, case, b)
            # a divisor stays where it is
            ins = (a, b) if op in ("div", "atan2") or name != "rows" else (b, a)
            g.head(case, g.add(f"{case}.op", op, *ins))
        for i, shape in enumerate(([6], [4, 1, 1], [8, 1], [1, 4, 8, 6], [1])):
            case = f"{op}-weight-{i}"
            g.head(case, g.add(f"{case}.op", op, g.front(case), shape=shape))
        case = f"{op}-vectors"
        g.head(case, g.add(f"{case}.op", op, g.features(case), shape=[12]))
    # by what no rounding turns: data, a channel of them, parameters
    g.head("mask-data", g.add("mask-data.op", "mask", g.front("mask-data", 3), "data"))
    channel = g.add("mask-channel.cut", "slice", "data", start=1, stop=2)
    g.head("mask-channel", g.add("mask-channel.op", "mask", g.front("mask-channel"), channel))
    g.head("mask-weight", g.add("mask-weight.op", "mask", g.front("mask-weight"), shape=[8, 1]))
    # positions: of the rows of three axes, the same for every sample; shared by two
    x = g.add("positions.rows", "reshape", g.front("positions"), shape=[0, 4, 48])
    x = g.add("positions.a", "add", x, shape=[4, 48], params={"weight": "positions"})
    x = g.add("positions.mix", "linear", x, out_features=48)
    g.head("positions", g.add("positions.b", "add", x, shape=[4, 48],
                              params={"weight": "positions"}))
    return g.finish()


def reductions():
    """Sums, means and maxima along one axis, several and all; kept or not."""
    g = Graph("reductions", [4, 3, 8, 6])
    for op in ("reduce_sum", "reduce_mean", "reduce_max"):
        for axes in ([1], [2], [3], [2, 3], [1, 3], [3, 1, 2]):
            case = f"{op}-" + "".join(map(str, axes))
            x = g.add(f"{case}.op", op, g.front(case), axes=axes)
            g.head(case, x if len(axes) < 3 else g.add(f"{case}.row", "reshape", x, shape=[0, 1]))
            case += "-keep"
            x, y = g.front(case, n=2)
            y = g.add(f"{case}.op", op, y, axes=axes, keep=True)
            g.head(case, g.add(f"{case}.minus", "sub", x, y))
        case = f"{op}-features"
        g.head(case, g.add(f"{case}.op", op, g.features(case), axes=[1], keep=True))
    # equal ones: what a relu cuts off
    x = g.add("ties.relu", "relu", g.front("ties"))
    g.head("ties", g.add("ties.op", "reduce_max", x, axes=[2]))
    return g.finish()


def products():
    """Matrix products of every kind of operand, softmax along every axis, and attention."""
    g = Graph("products", [4, 3, 8, 6])
    for a, b, name in ((False, True, "rows"), (True, False, "columns")):
        case = f"matmul-{name}"
        g.head(case, g.add(f"{case}.op", "matmul", *g.front(case, n=2), transpose_a=a,
                           transpose_b=b))
        for axis, one in enumerate(("a", "b")):  # one matrix for all channels
            x = g.front(f"{case}-{one}", n=2)
            x[axis] = g.add(f"{case}-{one}.cut", "slice", x[axis], stop=1)
            g.head(f"{case}-{one}", g.add(f"{case}-{one}.op", "matmul", *x, transpose_a=a,
                                          transpose_b=b))
    x = [g.add(f"matmul-3.rows{i}", "reshape", x, shape=[0, 12, 16])
         for i, x in enumerate(g.front("matmul-3", n=2))]
    y = g.add("matmul-3.turn", "transpose", x[1], perm=[0, 2, 1])
    g.head("matmul-3", g.add("matmul-3.op", "matmul", x[0], y))
    g.head("matmul-3-both", g.add("matmul-3-both.op", "matmul", x[0], y, transpose_a=True,
                                  transpose_b=True))
    x = g.front("matmul-self")
    g.head("matmul-self", g.add("matmul-self.op", "matmul", x, x, transpose_b=True))
    for op in ("softmax", "log_softmax"):
        for axis in (1, 2, 3):  # what is added to all of a row changes nothing
            x = g.add(f"{op}-{axis}.bound0", "tanh", g.front(f"{op}-{axis}"))
            g.head(f"{op}-{axis}", g.add(f"{op}-{axis}.op", op, x, axis=axis))
        g.head(f"{op}-2d", g.add(f"{op}-2d.op", op, g.features(f"{op}-2d")))
    # two heads of six features each, twelve positions
    def heads(name):
        x = g.add(f"attention.{name}.rows", "reshape", g.front(f"attention.{name}", 3),
                  shape=[0, 12, 12])
        x = g.add(f"attention.{name}.linear", "linear", x, out_features=12, bias=name != "k")
        x = g.add(f"attention.{name}.heads", "reshape", x, shape=[0, 12, 2, 6])
        return g.add(f"attention.{name}.turn", "transpose", x, perm=[0, 2, 1, 3])
    x = g.add("attention.scores", "matmul", heads("q"), heads("k"), transpose_b=True)
    x = g.add("attention.scale", "mul", x, shape=[1])
    x = g.add("attention.mask", "add", x, shape=[12, 12])
    x = g.add("attention.softmax", "softmax", x, axis=3)
    x = g.add("attention.mix", "matmul", x, heads("v"))
    x = g.add("attention.back", "transpose", x, perm=[0, 2, 1, 3])
    g.head("attention", g.add("attention.join", "reshape", x, shape=[0, 12, 12]))
    return g.finish()


def tied():
    """Parameters that several operators read."""
    g = Graph("tied", [6, 3, 8, 6])
    x = g.add("linear.a", "linear", g.features("linear"), out_features=12)
    x = g.add("linear.b", "linear", g.add("linear.act", "tanh", x), out_features=12,
              params={"weight": "linear.a.weight"})
    g.head("linear", x)
    # all of them, three times, of the same tensor and of others
    x = g.features("thrice")
    share = {"weight": "shared.w", "bias": "shared.b"}
    a = g.add("thrice.a", "linear", x, out_features=12, params=share)
    b = g.add("thrice.b", "linear", x, out_features=12, params=share)
    c = g.add("thrice.c", "linear", g.add("thrice.act", "sigmoid", a), out_features=12,
              params=share)
    g.head("thrice", g.add("thrice.join", "concat", a, b, c))
    # with bias and without, and over one axis more
    x = g.add("rank.a", "linear", g.features("rank", 8), out_features=8)
    y = g.add("rank.rows", "reshape", g.features("rank.more", 24), shape=[0, 3, 8])
    y = g.add("rank.b", "linear", y, out_features=8, bias=False,
              params={"weight": "rank.a.weight"})
    g.head("rank", g.add("rank.join", "concat", x, g.add("rank.line", "reshape", y,
                                                         shape=[0, -1])))
    # windows of another kind on images of another size
    x = g.add("conv.a", "conv2d", g.front("conv"), out_channels=4, kernel=3, pad=1)
    x = g.add("conv.b", "conv2d", g.add("conv.act", "tanh", x), out_channels=4, kernel=3,
              stride=2, dilation=2, pad=2,
              params={"weight": "conv.a.weight", "bias": "conv.a.bias"})
    g.head("conv", x)
    return g.finish()


def dense(rank):
    """A label for each position: logits [N, C, H, W], or [N, C, L] for rank 3."""
    g = {"format": "ffsoap-graph", "version": 2, "name": f"dense-{rank}"}
    labels = [3, 6, 5] if rank == 4 else [3, 30]
    nodes = [{"name": "data", "op": "input", "shape": [3, 2, 6, 5]},
             {"name": "more", "op": "input", "shape": [3, 3, 6, 5]},
             {"name": "labels", "op": "input", "shape": labels, "dtype": "int32", "classes": 7},
             {"name": "join", "op": "concat", "in": ["data", "more"]},
             {"name": "conv1", "op": "conv2d", "in": ["join"], "out_channels": 6, "kernel": 3,
              "pad": 1},
             {"name": "act1", "op": "tanh", "in": ["conv1"]},
             # more channels than classes: the last logit is never right
             {"name": "conv2", "op": "conv2d", "in": ["act1"], "out_channels": 8, "kernel": 1}]
    logits = "conv2"
    if rank == 3:
        nodes.append({"name": "line", "op": "reshape", "in": ["conv2"], "shape": [0, 0, -1]})
        logits = "line"
    nodes.append({"name": "loss", "op": "softmax_cross_entropy", "in": [logits, "labels"]})
    if rank == 3:
        nodes[-1]["label_smoothing"] = 0.2
    return dict(g, nodes=nodes)


def norms():
    """Every normalisation, of all shapes, in all settings."""
    g = Graph("norms", [6, 3, 7, 6])

    def image(name, op, **attrs):
        """Of a bias in front that is normalised away the gradient would be rounding."""
        g.head(name, g.add(f"{name}.op", op, g.front(name, bias=False), **attrs))

    def both(name, op, **attrs):
        """Behind a layer, and on vectors and rows of them."""
        image(f"{name}-4", op, **attrs)
        g.head(f"{name}-2", g.add(f"{name}-2.op", op, g.features(f"{name}-2", bias=False), **attrs))
        x = g.add(f"{name}-3.shape", "reshape", g.front(f"{name}-3", bias=False), shape=[0, 6, -1])
        g.head(f"{name}-3", g.add(f"{name}-3.op", op, x, **attrs))
    both("layer", "layer_norm")
    both("layer-bare", "layer_norm", affine=False, epsilon=0.01)
    both("layer-no-bias", "layer_norm", bias=False)
    image("layer-image", "layer_norm", axes=3)
    image("layer-plane", "layer_norm", axes=2)
    both("response", "local_response_norm")
    both("response-strong", "local_response_norm", size=3, alpha=1, beta=0.5, k=0.5)
    image("response-even", "local_response_norm", size=4, alpha=2)
    both("rms", "rms_norm")
    both("rms-bare", "rms_norm", affine=False, epsilon=0.01)
    image("rms-image", "rms_norm", axes=3)
    both("group-1", "group_norm", groups=1)
    both("group-2", "group_norm", groups=2)
    image("group-each", "group_norm", groups=4)
    image("group-bare", "group_norm", groups=2, affine=False)
    image("group-no-bias", "group_norm", groups=2, bias=False, epsilon=0.1)
    both("batch", "batch_norm")
    both("batch-bare", "batch_norm", affine=False, epsilon=0.01, momentum=0.3)
    image("batch-no-bias", "batch_norm", bias=False, momentum=1)
    g.head("batch-data", g.add("batch-data.op", "batch_norm", "data"))
    # of groups of samples, the last of which may be smaller
    image("ghost-2", "batch_norm", sync=False, group=2)
    both("ghost-4", "batch_norm", sync=False, group=4, momentum=0.3)
    image("ghost-all", "batch_norm", sync=False, group=9, affine=False)
    image("ghost-1", "batch_norm", sync=False, group=1, bias=False)
    image("ghost-3", "batch_norm", sync=False, group=3, momentum=1)
    g.head("ghost-data", g.add("ghost-data.op", "batch_norm", "data", sync=False, group=5))
    # two in a row, the first one read twice
    x = g.add("batch-chain.a", "batch_norm", g.front("batch-chain", bias=False))
    y = g.add("batch-chain.b", "batch_norm", g.add("batch-chain.act", "tanh", x))
    g.head("batch-chain", g.add("batch-chain.sum", "add", x, y))
    return g.finish()


def digits(**of):
    """A small network for 28x28 images whose batch norms are far from what they begin with; `of`:
    how many samples they are of, where not of all."""
    g = Graph("digits", [12, 1, 28, 28])
    x = g.add("conv", "conv2d", "data", out_channels=6, kernel=5, stride=3)
    x = g.add("act", "tanh", g.add("norm", "batch_norm", x, momentum=0.4, **of))
    x = g.add("fc", "linear", g.add("flat", "reshape", x, shape=[0, -1]), out_features=16)
    g.heads.append(g.add("norm2", "batch_norm", x, momentum=0.2, affine=False, **of))
    g.heads.append(g.add("norm3", "batch_norm", x, **of))
    return g.finish()


def rows():
    """A small network of layers and norms."""
    g = Graph("rows", [7, 3, 4, 4])
    x = g.add("flat", "reshape", "data", shape=[0, -1])
    for i, norm in ((1, "layer_norm"), (2, "rms_norm"), (3, "layer_norm")):
        x = g.add(f"fc{i}", "linear", x, out_features=12 + i)
        x = g.add(f"act{i}", "tanh", g.add(f"norm{i}", norm, x))
    g.heads.append(x)
    return g.finish()
