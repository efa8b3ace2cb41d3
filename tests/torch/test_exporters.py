# What PyTorch's exporters write of attention, draws, sequences and shapes, by hand: constants are computed as NumPy
# computes them, moved weights stay the parameters that they are, patterns become operators; what cannot be is one
# sentence.  Usage: test_exporters.py FFIMPORT FFRUN.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import onnx_file as onnx
import reference
from pytorch import F, np, torch  # says SKIP and ends without PyTorch

ffimport, ffrun = (os.path.abspath(p) for p in sys.argv[1:3])
tap = reference.Tap()
n = onnx.node
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
BATCH, SEED = 4, 20
draw = np.random.default_rng(SEED)
print(f"# seed {SEED}")


def real(*shape):
    return draw.normal(size=shape).astype(np.float32)


def model(nodes, weights, shape=(BATCH, 6, 8), opset=20):
    return onnx.model(nodes, weights, [onnx.info("x", shape)], [onnx.info("made", ())], opset=opset)


def anchored(nodes, weights, shape=(BATCH, 6, 8), opset=20):
    """With a weight in front of all, as a graph without any is refused."""
    return onnx.model([n("Mul", ["input", "anchor"], ["x"]), *nodes], {"anchor": np.ones(1, np.float32), **weights},
                      [onnx.info("input", shape)], [onnx.info("made", ())], opset=opset)


class Imported:
    def __init__(self, data, *options, loss="mse"):
        self.keep = tempfile.TemporaryDirectory(prefix="ffexporters")
        self.folder = pathlib.Path(self.keep.name)
        (self.folder / "model.onnx").write_bytes(data)
        self.done = self.run(ffimport, "model.onnx", "-o", "graph.json", "--weights", "weights", "--loss", loss,
                             *options)
        self.good, self.why = self.done.returncode == 0, self.done.stderr
        self.graph = json.loads((self.folder / "graph.json").read_text()) if self.good else {"nodes": []}
        self.kinds = [x["op"] for x in self.graph["nodes"]]

    def run(self, *command):
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=600, cwd=self.folder)

    def constants(self):
        """By node: what it has."""
        return [np.repeat(x["runs"][1::2], np.array(x["runs"][::2], int)).reshape(x["shape"][1:])
                for x in self.graph["nodes"] if x["op"] == "constant"]

    def step(self):
        """Loss and gradients of one step, and its inputs."""
        done = self.run(ffrun, "graph.json", "single", "--data", f"synthetic:{BATCH}", "--weights", "weights",
                        "--seed", SEED, "--dump", "dump")
        if done.returncode:
            return tap.say(False, "ffrun", [done.stderr])
        return {k: np.array(v) for k, v in reference.read_safetensors(self.folder / "dump").items()}


# ---- constants ----

X = {"a": real(3, 4), "b": real(4), "p": np.abs(real(3, 4)) + 0.5, "i": draw.integers(-9, 9, (3, 4)),
     "j": draw.integers(1, 5, (4,)), "m": real(2, 3, 4), "q": real(4, 5)}
# what is computed of what, attributes, and what NumPy has it to be
FOLDS = [
    *((op, ["p"], {}, f) for op, f in (
        ("Sqrt", lambda p: np.sqrt(p)), ("Exp", np.exp), ("Log", np.log), ("Reciprocal", lambda p: 1 / p),
        ("Floor", np.floor), ("Ceil", np.ceil), ("Sin", np.sin), ("Cos", np.cos), ("Tanh", np.tanh))),
    *((op, ["a"], {}, f) for op, f in (
        ("Abs", np.abs), ("Neg", np.negative), ("Sign", np.sign), ("Round", np.round),
        ("Relu", lambda a: np.maximum(a, 0)), ("Sigmoid", lambda a: 1 / (1 + np.exp(-a))))),
    *((op, ["a", "b"], {}, f) for op, f in (
        ("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide), ("Min", np.minimum),
        ("Max", np.maximum))),
    ("Pow", ["p", "b"], {}, np.power),
    *((op, ["i", "j"], {}, f) for op, f in (
        ("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Mod", np.mod), ("Pow", np.power),
        ("Div", lambda i, j: np.trunc(i / j)), ("Min", np.minimum), ("Equal", np.equal), ("Less", np.less),
        ("LessOrEqual", np.less_equal), ("Greater", np.greater), ("GreaterOrEqual", np.greater_equal),
        ("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor))),
    ("Mod", ["i", "j"], {"fmod": 1}, np.fmod), ("Not", ["i"], {}, np.logical_not),
    ("Where", ["i", "a", "b"], {}, lambda i, a, b: np.where(i != 0, a, b)),
    ("Trilu", ["a"], {}, np.triu), ("Trilu", ["a"], {"upper": 0}, np.tril),
    ("Trilu", ["m", "minus"], {}, lambda m, k: np.triu(m, -1)),
    ("Tile", ["a", "times"], {}, lambda a, t: np.tile(a, t)),
    ("Expand", ["b", "wide"], {}, lambda b, w: np.broadcast_to(b, w)),
    ("CumSum", ["a", "one"], {}, lambda a, k: np.cumsum(a, 1)),
    ("MatMul", ["a", "q"], {}, np.matmul), ("MatMul", ["m", "q"], {}, np.matmul),
    ("ReduceSum", ["m", "axes"], {}, lambda m, k: m.sum((0, 2), keepdims=True)),
    ("ReduceMean", ["m", "axes"], {"keepdims": 0}, lambda m, k: m.mean((0, 2))),
    ("ReduceMax", ["m", "axes"], {}, lambda m, k: m.max((0, 2), keepdims=True)),
    ("ReduceMin", ["m", "axes"], {}, lambda m, k: m.min((0, 2), keepdims=True)),
    ("ReduceProd", ["m", "axes"], {}, lambda m, k: m.prod((0, 2), keepdims=True)),
    ("Clip", ["a", "low", "high"], {}, lambda a, lo, hi: np.clip(a, lo, hi)),
    ("Transpose", ["m"], {"perm": [2, 0, 1]}, lambda m: m.transpose(2, 0, 1)),
    ("Concat", ["a", "a"], {"axis": -1}, lambda a, b: np.concatenate([a, b], -1)),
    ("Gather", ["m", "rows"], {"axis": 1}, lambda m, r: np.take(m, r, 1)),
    ("GatherND", ["a", "pairs"], {}, lambda a, p: a[p[:, 0], p[:, 1]]),
    ("Slice", ["m", "minus2", "end", "ax2", "one1"], {}, lambda m, *_: m[..., -2:]),
    ("Flatten", ["m"], {"axis": 2}, lambda m: m.reshape(6, 4)),
    ("Range", ["zero", "eleven", "three"], {}, lambda *_: np.arange(0, 11, 3)),
]
SMALL = {"minus": np.array(-1), "times": np.array([2, 1]), "wide": np.array([3, 4]), "one": np.array(1),
         "axes": np.array([0, -1]), "low": np.float32(-0.5), "high": np.float32(0.25), "rows": np.array([2, 0, -1, 2]),
         "pairs": np.array([[0, 1], [2, -1]]), "minus2": np.array([-2]), "end": np.array([1 << 62]),
         "ax2": np.array([2]), "one1": np.array([1]), "zero": np.array(0), "eleven": np.array(11),
         "three": np.array(3)}


def folding():
    """Constant nodes, so that nothing is trained; zeros of x make what is folded a node beside it."""
    apart = []
    for op, inputs, attributes, numpy in FOLDS:
        given = [X.get(k, SMALL.get(k)) for k in inputs]
        want = np.asarray(numpy(*given), np.float64)
        nodes = [n("Constant", [], [f"c{i}"], value=np.asarray(g)) for i, g in enumerate(given)]
        nodes += [n(op, [f"c{i}" for i in range(len(given))], ["folded"], **attributes),
                  n("Cast", ["folded"], ["cast"], to=1), n("Mul", ["x", "cast"], ["made"])]
        got = Imported(anchored(nodes, {}, (BATCH, *want.shape)))
        found = got.constants()
        # one number alike for all is a scale
        scale = [x["factor"] for x in got.graph["nodes"] if x["op"] == "scale"]
        ours = np.broadcast_to(found[0] if found else scale[0] if scale else np.nan, want.shape)
        if not got.good or not np.allclose(ours, want, rtol=1e-6, atol=1e-7):
            apart.append(f"{op} of {inputs}: {got.why or ours.tolist()}, NumPy has {want.tolist()}")
    tap.say(not apart, f"{len(FOLDS)} operators of constants compute what NumPy does", apart)


def of_shapes():
    """Since opset 15 a shape may be asked for in part; what only has a shape is no node."""
    nodes = [n("Transpose", ["x"], ["t"], perm=[0, 2, 1]), n("Shape", ["t"], ["s"], start=-2, end=9),
             n("Constant", [], ["first"], value=np.array([BATCH])), n("Concat", ["first", "s"], ["to"], axis=0),
             n("Reshape", ["x", "to"], ["made"])]
    got = Imported(anchored(nodes, {}))
    shape = next((x["shape"] for x in got.graph["nodes"] if x["op"] == "reshape"), None)
    tap.say(got.good and got.kinds.count("transpose") == 0 and shape == [BATCH, 8, 6],
            "parts of a shape", [got.why, got.kinds, shape])


# ---- patterns ----

def torchs(function, weights, x):
    """In float64: the outputs' mean square error from a target, and gradients by name."""
    w = {k: torch.from_numpy(np.asarray(v, np.float64)).requires_grad_() for k, v in weights.items()}
    loss = F.mse_loss(function(torch.from_numpy(x["input.x"].astype(np.float64)), w),
                      torch.from_numpy(x["input.target"].astype(np.float64)))
    loss.backward()
    return loss.item(), {k: v.grad for k, v in w.items() if v.grad is not None}


def same(what, nodes, weights, function, others=(), kinds=(), opset=20, shape=(BATCH, 6, 8)):
    """One step of what is imported and of `function`; `others`: weights that are not trained.  A matrix behind a
    product, called w..., is a linear layer's weight, transposed."""
    got = Imported(model(nodes, {**weights, **dict(others)}, shape, opset))
    if not tap.say(got.good and all(k in got.kinds for k in kinds), f"{what}: read", [got.why, got.kinds]):
        return
    tensors = got.step()
    if not tensors:
        return
    loss, grads = torchs(function, weights, tensors)
    grads = {k: g.T if k.startswith("w") else g for k, g in grads.items()}
    apart = {k: reference.distance(tensors["grad." + k], g) if "grad." + k in tensors else np.inf
             for k, g in grads.items()}
    apart["loss"] = abs(float(tensors["loss"].reshape(-1)[0]) - loss) / abs(loss)
    tap.say(max(apart.values()) < 1e-5, f"{what}: loss and {len(grads)} gradients as PyTorch's", [apart])


def heads(y):
    return y.view(BATCH, 6, 2, 4).transpose(1, 2)


def attention():
    w = {k + ".weight": real(8, 8) for k in "qkv"}
    shapes = {"split": np.array([BATCH, 6, 2, 4]), "whole": np.array([BATCH, 6, 8])}
    nodes = [y for k in "qkv" for y in (
        n("Transpose", [k + ".weight"], ["t" + k], perm=[1, 0]), n("MatMul", ["x", "t" + k], ["l" + k]),
        n("Reshape", ["l" + k, "split"], ["r" + k]), n("Transpose", ["r" + k], [k], perm=[0, 2, 1, 3]))]
    end = [n("Transpose", ["a"], ["back"], perm=[0, 2, 1, 3]), n("Reshape", ["back", "whole"], ["made"])]
    mask = np.tril(np.ones((6, 6)), 1).astype(np.int64)

    def causal(x, w):
        q, k, v = (heads(x @ w[i + ".weight"].T) for i in "qkv")
        away = torch.full((6, 6), -torch.inf, dtype=x.dtype).triu(1)
        return ((q @ k.mT / 2 + away).softmax(-1) @ v).transpose(1, 2).flatten(2)

    def masked(x, w):
        q, k, v = (heads(x @ w[i + ".weight"].T) for i in "qkv")
        scores = (q @ k.mT / 2).masked_fill(torch.from_numpy(mask) == 0, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    same("Attention, causal", [*nodes, n("Attention", ["q", "k", "v"], ["a"], is_causal=1), *end], w, causal,
         shapes.items(), ["attention"], 23)
    same("Attention, a mask of booleans", [*nodes, n("Attention", ["q", "k", "v", "mask"], ["a"]), *end], w, masked,
         {**shapes, "mask": mask}.items(), ["attention"], 23)
    # the old exporter: both scaled by a root that is computed, a mask by Trilu, IsNaN of the softmax
    old = [n("Shape", ["q"], ["size"]), n("Constant", [], ["last"], value=np.array([-1])),
           n("Constant", [], ["behind"], value=np.array([1 << 62])), n("Slice", ["size", "last", "behind"], ["width"]),
           n("Cast", ["width"], ["wide"], to=1), n("Sqrt", ["wide"], ["deviation"]),
           n("Constant", [], ["one"], value=np.array([1.0], np.float32)), n("Div", ["one", "deviation"], ["scale"]),
           n("Sqrt", ["scale"], ["half"]), n("Constant", [], ["square"], value=np.array([6, 6])),
           n("ConstantOfShape", ["square"], ["infinite"], value=np.array([-np.inf], np.float32)),
           n("Trilu", ["infinite", "diagonal"], ["away"], upper=1), n("Mul", ["q", "half"], ["sq"]),
           n("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), n("Mul", ["kt", "half"], ["sk"]),
           n("MatMul", ["sq", "sk"], ["scores"]), n("Add", ["scores", "away"], ["masked"]),
           n("Softmax", ["masked"], ["share"], axis=-1), n("IsNaN", ["share"], ["none"]),
           n("Where", ["none", "nothing", "share"], ["shares"]), n("MatMul", ["shares", "v"], ["a"])]
    same("attention by the old exporter", [*nodes, *old, *end], w, causal,
         {**shapes, "diagonal": np.array(1), "nothing": np.array(0.0, np.float32)}.items(), opset=17)


def sequences():
    nodes = [n("SplitToSequence", ["x", "size"], ["s"], axis=2, keepdims=1),
             *(n("SequenceAt", ["s", f"at{i}"], [f"p{i}"]) for i in range(3)),
             n("Mul", ["p0", "p1"], ["m"]), n("CastLike", ["zero", "m"], ["none"]), n("Add", ["m", "none"], ["z"]),
             n("Concat", ["z", "p2"], ["c"], axis=2), n("MatMul", ["c", "w"], ["made"])]
    same("a sequence of parts", nodes, {"w": real(5, 8)}, lambda x, w: torch.cat(
        [x[..., :3] * x[..., 3:6], x[..., 6:]], 2) @ w["w"],
         {"size": np.array(3), "zero": np.array(0), "at0": np.array(0), "at1": np.array(1),
          "at2": np.array(-1)}.items())


def tables():
    """Relative positions: elements of a table that are read more than once; a class token."""
    index = draw.integers(0, 5, 36)
    nodes = [n("Gather", ["table", "index"], ["rows"], axis=0), n("Reshape", ["rows", "to"], ["r"]),
             n("Transpose", ["r"], ["bias"], perm=[2, 0, 1]), n("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
             n("MatMul", ["x", "xt"], ["s"]), n("Reshape", ["s", "one"], ["s1"]), n("Add", ["s1", "bias"], ["y"]),
             n("Softmax", ["y"], ["made"], axis=-1)]
    same("a table of relative positions", nodes, {"table": real(5, 3)}, lambda x, w: (
        (x @ x.mT)[:, None] + w["table"][torch.from_numpy(index)].view(6, 6, 3).permute(2, 0, 1)).softmax(-1),
         {"index": index, "to": np.array([6, 6, 3]), "one": np.array([BATCH, 1, 6, 6])}.items(),
         ["expand", "gather"])
    nodes = [n("Expand", ["token", "to"], ["tokens"]), n("Concat", ["tokens", "x"], ["c"], axis=1),
             n("Slice", ["x", "at0", "at3", "at1"], ["cut"]), n("Mul", ["cut", "part"], ["p"]),
             n("Concat", ["c", "p"], ["made"], axis=1), ]
    nodes = [n("Slice", ["long", "at0", "at3", "at1"], ["part"]), *nodes]
    same("a class token, and part of a parameter", nodes, {"token": real(1, 1, 8), "long": real(1, 6, 8)},
         lambda x, w: torch.cat([w["token"].expand(BATCH, -1, -1), x, x[:, :3] * w["long"][:, :3]], 1),
         {"to": np.array([BATCH, 1, 8]), "at0": np.array([0]), "at3": np.array([3]), "at1": np.array([1])}.items(),
         ["expand"])


def shared():
    """What is computed of parameters alone, the same for every sample."""
    weights = {"w1": real(4, 5), "b1": real(5), "w2": real(5, 8), "scale": real(6, 1)}
    table = real(6, 4)
    nodes = [n("Constant", [], ["coordinates"], value=table), n("MatMul", ["coordinates", "w1"], ["h"]),
             n("Add", ["h", "b1"], ["hb"]), n("Relu", ["hb"], ["r"]), n("MatMul", ["r", "w2"], ["bias"]),
             n("Clip", ["scale", "", "most"], ["c"]), n("Exp", ["c"], ["e"]), n("Mul", ["x", "e"], ["y"]),
             n("Add", ["y", "bias"], ["made"])]
    same("a network of parameters alone", nodes, weights, lambda x, w: x * w["scale"].clamp(max=0.3).exp() + (
        torch.relu(torch.from_numpy(table).double() @ w["w1"] + w["b1"]) @ w["w2"]),
         {"most": np.array(0.3, np.float32)}.items())


def scattered():
    """Part of a bias stays zero, as of keys it does in networks of windows."""
    some = np.array([[2], [5]])
    nodes = [n("Constant", [], ["zeros"], value=np.zeros(2, np.float32)),
             n("Constant", [], ["half"], value=np.array(0.5, np.float32)),
             n("ScatterND", ["bias", "some", "zeros"], ["b"]), n("MatMul", ["x", "w"], ["z"]),
             n("Add", ["z", "b"], ["y"]), n("Expand", ["half", "to"], ["h"]),
             n("ScatterND", ["y", "at", "h"], ["made"])]

    def zeroed(x, w):
        keep = torch.ones(8, dtype=x.dtype)
        keep[some[:, 0]] = 0
        y = (x @ w["w"] + w["bias"] * keep).clone()
        y[:, 1] = 0.5
        return y
    at = np.array([[[i, 1]] for i in range(BATCH)])
    same("numbers in the place of others", nodes, {"w": real(8, 8), "bias": real(8)}, zeroed,
         {"some": some, "to": np.array([BATCH, 1, 8]), "at": at}.items())


def gathered():
    """As PyTorch's exporter decomposes an adaptive pool: rows and columns of an image by a grid of indices."""
    rows, columns = np.array([[0, 1], [2, 3], [4, 5]]), np.array([7, 1, -3, 0])
    both = np.broadcast_arrays(rows[:, :, None], columns)
    nodes = [n("MatMul", ["x", "w"], ["z"]), n("Transpose", ["z"], ["t"], perm=[1, 2, 0]),
             n("GatherND", ["t", "grid"], ["g"]), n("Transpose", ["g"], ["made"], perm=[3, 0, 1, 2])]
    same("elements on a grid", nodes, {"w": real(8, 8)}, lambda x, w: (x @ w["w"])[:, rows[:, :, None], columns],
         {"grid": np.stack(both, -1)}.items(), ["gather"])


def chosen():
    """As of edges in graph attention, whose full_like has the shape of the scores."""
    mask = draw.random((6, 8)) > 0.5
    low = np.full((BATCH, 6, 8), -0.5, np.float32)
    nodes = [n("MatMul", ["x", "w"], ["z"]), n("Constant", [], ["low"], value=low),
             n("Where", ["mask", "z", "low"], ["made"])]
    same("numbers that are alike, of another shape than the condition", nodes, {"w": real(8, 8)},
         lambda x, w: torch.where(torch.from_numpy(mask), x @ w["w"], -0.5),
         {"mask": mask.astype(np.int64)}.items())


def activations():
    w = {"w": real(8, 8)}
    head = n("MatMul", ["x", "w"], ["z"])
    for op, attributes, function, opset in (
            ("Elu", {"alpha": 0.7}, lambda z: F.elu(z, 0.7), 20),
            ("Celu", {"alpha": 0.7}, lambda z: F.celu(z, 0.7), 20),
            ("Selu", {}, F.selu, 20), ("Softplus", {}, F.softplus, 20), ("Mish", {}, F.mish, 20),
            ("Swish", {"alpha": 1.5}, lambda z: z * torch.sigmoid(1.5 * z), 24), ("Swish", {}, F.silu, 24),
            ("HardSwish", {}, F.hardswish, 20), ("Trilu", {}, torch.triu, 20)):
        same(op, [head, n(op, ["z"], ["made"], **attributes)], w, lambda x, w: function(x @ w["w"]), opset=opset)
    slope = real(6, 1)
    same("PRelu", [head, n("PRelu", ["z", "slope"], ["made"])], {**w, "slope": slope}, lambda x, w: torch.where(
        x @ w["w"] > 0, x @ w["w"], x @ w["w"] * w["slope"]))
    for equation in ("bij, bkj -> bik", "bji, bjk -> bik"):
        same(f"Einsum {equation}", [head, n("Einsum", ["x", "z"], ["made"], equation=equation)], w,
             lambda x, w: torch.einsum(equation, x, x @ w["w"]))
    same("RMSNormalization", [n("RMSNormalization", ["x", "s"], ["made"], epsilon=1e-6)], {"s": real(8)},
         lambda x, w: x * (x * x).mean(-1, keepdim=True).add(1e-6).rsqrt() * w["s"], (), ["rms_norm"], 23)
    same("GroupNormalization", [n("GroupNormalization", ["x", "s", "t"], ["made"], num_groups=3)],
         {"s": real(6), "t": real(6)}, lambda x, w: F.group_norm(x, 3, w["s"], w["t"]), (), ["group_norm"], 21)
    same("LayerNormalization of two axes", [n("LayerNormalization", ["x", "s", "t"], ["made"], axis=1)],
         {"s": real(6, 8), "t": real(6, 8)}, lambda x, w: F.layer_norm(x, (6, 8), w["s"], w["t"]))
    same("Split in parts that are not equal", [head, n("Split", ["z"], ["a", "b", "made"], axis=2, num_outputs=3)], w,
         lambda x, w: (x @ w["w"])[..., 6:], opset=18)
    same("ReduceL2", [head, n("ReduceL2", ["z", "axis"], ["l"], keepdims=1), n("Div", ["z", "l"], ["made"])], w,
         lambda x, w: F.normalize(x @ w["w"], dim=-1), {"axis": np.array([-1])}.items())


def composed():
    """Running sums, copies, rotary places: several operators each."""
    w = {"w": real(8, 8)}
    head = n("MatMul", ["x", "w"], ["z"])
    for axis, less, reverse in ((1, 0, 0), (2, 1, 0), (-1, 0, 1), (1, 1, 1)):
        def sums(x, w):
            z = x @ w["w"]
            z = z.flip(axis) if reverse else z
            y = z.cumsum(axis) - (z if less else 0)
            return y.flip(axis) if reverse else y
        same(f"CumSum of axis {axis}", [head, n("CumSum", ["z", "a"], ["made"], exclusive=less, reverse=reverse)], w,
             sums, {"a": np.array(axis)}.items(), ["matmul"])
    same("Tile", [head, n("Tile", ["z", "t"], ["made"])], w, lambda x, w: (x @ w["w"]).repeat(1, 3, 2),
         {"t": np.array([1, 3, 2])}.items())
    for interleaved, turned, four in ((0, 4, True), (1, 4, True), (0, 2, False), (1, 2, False)):
        rotary(head, w, interleaved, turned, four)


def rotary(head, w, interleaved, turned, four):
    """Two heads of 4; pairs are complex numbers that are turned."""
    angles, ids = draw.normal(size=(9, turned // 2)).astype(np.float32), np.array([3, 0, 8, 1, 1, 5])

    def function(x, w):
        z = heads(x @ w["w"])
        y, rest = z[..., :turned], z[..., turned:]
        pairs = y.unflatten(-1, (-1, 2)) if interleaved else y.unflatten(-1, (2, -1)).mT
        a = torch.from_numpy(angles[ids]).to(z.dtype)
        pairs = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(a), a))
        y = torch.cat([(pairs if interleaved else pairs.mT).flatten(-2), rest], -1)
        return y if four else y.transpose(1, 2).flatten(2)
    split = [n("Reshape", ["z", "four"], ["r"]), n("Transpose", ["r"], ["q"], perm=[0, 2, 1, 3])] if four else []
    ins = ["q" if four else "z", "cos", "sin", "ids"]
    others = {"cos": np.cos(angles), "sin": np.sin(angles), "ids": np.tile(ids, (BATCH, 1))}
    others.update({"four": np.array([BATCH, 6, 2, 4])} if four else {})
    same(f"RotaryEmbedding of {turned}, {'inter' * interleaved}leaved, {3 + four} axes", [head, *split, n(
        "RotaryEmbedding", ins, ["made"], interleaved=interleaved, num_heads=2, rotary_embedding_dim=turned)], w,
         function, others.items(), opset=23)


def drawn(shape, p="p"):
    return [n("Constant", [], ["like"], value=np.zeros(shape, np.float32)), n("RandomUniformLike", ["like"], ["r"]),
            n("Less", ["r", p], ["l"]), n("Cast", ["l"], ["c"], to=1), n("Div", ["c", p], ["d"]),
            n("Mul", ["x", "d"], ["made"])]


def draws():
    p = {"p": np.array(0.75, np.float32)}
    for shape, want in (((BATCH, 1, 1), [(0.25, "sample")]), ((BATCH, 6, 1), [(0.25, None)]),
                        ((BATCH, 6, 8), [(0.25, None)])):
        got = Imported(anchored(drawn(shape), p))
        found = [(round(x["p"], 6), x.get("per")) for x in got.graph["nodes"] if x["op"] == "dropout"]
        found = [(q, None if per == "element" else per) for q, per in found]
        tap.say(got.good and found == want, f"a draw of {shape} is a dropout", [got.why, found])
        tap.say(bool(got.step()), "that runs")
    got = Imported(anchored(drawn((1, 1, 1)), p))
    tap.say(got.done.returncode == 2 and "shared by samples" in got.why, "one draw for all samples is refused",
            [got.why])
    got = Imported(model([n("RandomUniformLike", ["x"], ["r"]), n("Add", ["x", "r"], ["made"])], {}))
    tap.say(got.done.returncode == 2 and "drawn at random" in got.why, "and noise that is none", [got.why])


# ---- what cannot be ----

def refusals():
    big = np.array([1 << 30, 1 << 30])
    add = n("Add", ["x", "c"], ["made"])
    cases = {
        "an Expand of 2^60": ([n("Expand", ["w", "big"], ["e"]), n("ReduceSum", ["e"], ["c"]), add], {"big": big}),
        "a Tile that overflows": ([n("Tile", ["w", "big"], ["c"]), add], {"big": np.array([1 << 62])}),
        "a Tile, negative": ([n("Tile", ["w", "big"], ["c"]), add], {"big": np.array([-1])}),
        "a ConstantOfShape of 2^60": ([n("ConstantOfShape", ["big"], ["c"]), add], {"big": big}),
        "a Range without end": ([n("Range", ["z", "big", "z"], ["c"]), add], {"z": np.array(0), "big": np.array(1)}),
        "a Range of 2^40": ([n("Range", ["z", "big", "o"], ["c"]), add],
                            {"z": np.array(0), "o": np.array(1), "big": np.array(1 << 40)}),
        "a Range of nothing known": ([n("Range", ["z", "z", "z"], ["c"]), add], {"z": np.zeros(0, np.int64)}),
        "a sum that grows to 2^30": ([n("Constant", [], ["r"], value=np.zeros((1 << 15, 1), np.int64)),
                                      n("Constant", [], ["s"], value=np.zeros((1, 1 << 15), np.int64)),
                                      n("Add", ["r", "s"], ["c"]), add], {}),
        "a Transpose that has an axis twice": ([n("Transpose", ["m"], ["c"], perm=[0, 0]), add], {"m": real(2, 8)}),
        "a Squeeze of far axes": ([n("Squeeze", ["m", "a"], ["c"]), n("MatMul", ["c", "c"], ["made"])],
                                  {"m": real(2, 8), "a": np.array([(1 << 63) - 1])}),
        "a Gather out of range": ([n("Gather", ["m", "a"], ["c"], axis=0), add], {"m": real(2, 8), "a": np.array(2)}),
        "a Gather of axis -3": ([n("Gather", ["m", "a"], ["c"], axis=-3), add], {"m": real(2, 8), "a": np.array(0)}),
        "a Reshape of elements that are none": ([n("Reshape", ["m", "a"], ["c"]), add],
                                                {"m": real(0, 8), "a": np.array([-1, 0])}),
        "a CumSum of samples": ([n("CumSum", ["x", "a"], ["made"])], {"a": np.array(0)}),
        "a Tile of samples": ([n("Tile", ["x", "a"], ["made"])], {"a": np.array([2, 1, 1])}),
        "a RotaryEmbedding by sample": ([n("RotaryEmbedding", ["x", "c", "c", "a"], ["made"], num_heads=2)],
                                        {"c": real(9, 2), "a": np.arange(BATCH * 6).reshape(BATCH, 6) % 9}),
        "a RotaryEmbedding of far places": ([n("RotaryEmbedding", ["x", "c", "c", "a"], ["made"], num_heads=2)],
                                            {"c": real(9, 2), "a": np.full((BATCH, 6), 9)}),
        "a Loop": ([n("Loop", ["a", "", "x"], ["made"])], {"a": np.array(3)}),
        "an If": ([n("If", ["a"], ["made"])], {"a": np.array(1)}),
        "a CumSum of axis 9": ([n("CumSum", ["k", "a"], ["c"]), add], {"k": np.arange(8), "a": np.array(9)}),
        "a Trilu of a vector": ([n("Trilu", ["k"], ["c"]), add], {"k": np.arange(8)}),
        "a GatherND out of range": ([n("GatherND", ["m", "a"], ["c"]), add], {"m": real(2, 8), "a": np.array([[7]])}),
        "a GatherND of pairs": ([n("Transpose", ["x"], ["t"], perm=[1, 2, 0]), n("GatherND", ["t", "a"], ["made"])],
                                {"a": np.array([[0, 0], [1, 1]])}),
        "part 3 of 2": ([n("SplitToSequence", ["x", "a"], ["s"], axis=2), n("SequenceAt", ["s", "b"], ["made"])],
                        {"a": np.array(4), "b": np.array(3)}),
        "a sequence of parts of 0": ([n("SplitToSequence", ["x", "a"], ["s"], axis=2),
                                      n("SequenceAt", ["s", "b"], ["made"])], {"a": np.array(0), "b": np.array(0)}),
        "an Einsum of one axis": ([n("Einsum", ["x", "x"], ["made"], equation="bij,bij->b")], {}),
        "a sequence as a number": ([n("SplitToSequence", ["x"], ["s"]), n("Exp", ["s"], ["made"])], {}),
        "a condition that is computed": ([n("Greater", ["x", "o"], ["g"]), n("Where", ["g", "x", "o"], ["made"])],
                                         {"o": np.array(0.0, np.float32)}),
        "a GroupNormalization by groups": ([n("GroupNormalization", ["x", "s", "s"], ["made"], num_groups=2)],
                                           {"s": real(2)}),
        "an Attention with a past": ([n("Attention", ["x", "x", "x", "", "x", "x"], ["made"], q_num_heads=2,
                                       kv_num_heads=2)], {}),
        "an Attention of heads that do not divide": ([n("Attention", ["x", "x", "x"], ["made"], q_num_heads=3,
                                                       kv_num_heads=3)], {}),
    }
    for what, (nodes, weights) in cases.items():
        got = Imported(model(nodes, {"w": np.zeros(1, np.int64), **weights}))
        lines = got.why.strip().splitlines()
        tap.say(got.done.returncode == 2 and len(lines) == 1 and lines[0].startswith("ffimport: model.onnx: "),
                f"{what} is one sentence", [got.done.returncode, got.why])
    # what a loop asks is refused, too, but is not the reason
    got = Imported(model([n("ReduceSum", ["x"], ["s"], keepdims=0), n("Greater", ["s", "o"], ["g"]),
                          n("Loop", ["a", "g", "x"], ["made"])],
                         {"a": np.array(3), "o": np.array(0.0, np.float32)}))
    tap.say("not supported: Loop" in got.why, "a Loop is told before what it asks", [got.why])
    # the module that it is in, where the file says so
    texts = {"pkg.torch.onnx.name_scopes": "['', 'blocks.3', 'blocks.3.norm', 'cumsum']"}
    got = Imported(model([n("Hardmax", ["x"], ["made"], texts)], {}))
    tap.say("Hardmax" in got.why and "blocks.3.norm" in got.why, "with the module", [got.why])
    got = Imported(model([n("Reshape", ["x", "a"], ["made"], texts)], {"a": np.array([7, -1])}))
    tap.say("Reshape" in got.why and "blocks.3.norm" in got.why, "also of an operator that is supported", [got.why])


folding()
of_shapes()
attention()
sequences()
tables()
shared()
scattered()
gathered()
chosen()
activations()
composed()
draws()
refusals()
tap.end()
