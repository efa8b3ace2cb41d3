# Models as PyTorch's preset exporter writes them since 2.9 (dynamo=True), which folds and merges what
# it can and says beside it what that was: parameters of the module are trained, as the module's are,
# and nothing else is; what cannot be known or trained is told.
# Usage: test_preset.py FFIMPORT FFRUN.  SPDX-License-Identifier: Apache-2.0
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
nn = torch.nn
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
BATCH, PLACES, WIDTH, HEADS, WORDS, STEPS = 4, 6, 8, 2, 13, 5
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
SCALE = (WIDTH // HEADS) ** -0.25


class Block(nn.Module):
    """Causal attention between norms that begin alike; the head is the embedding."""

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS, bias=False)
        self.embed.weight = self.out.weight
        nn.init.zeros_(self.mix.bias)
        nn.init.normal_(self.out.weight, std=0.5)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight
        q, k, v = (y.view(BATCH, PLACES, HEADS, -1).transpose(1, 2)
                   for y in self.qkv(self.n1(x)).chunk(3, -1))
        mask = torch.full((PLACES, PLACES), -torch.inf).triu(1)
        a = (q * SCALE @ (k * SCALE).transpose(2, 3) + mask).softmax(-1) @ v
        x = x + self.mix(a.transpose(1, 2).reshape(x.shape))
        return self.out(self.n2(x))


def aten(op, *args):
    text = ", ".join(args)
    return {"pkg.torch.onnx.fx_node": f"%x : [num_users=1] = call_function[target=torch.ops.aten."
            f"{op}](args = ({text}), kwargs = {{}})"}


def signature(parameters, buffers=(), inputs=("ids",)):
    def line(letter, name, kind):
        return f"{letter}_{name.replace('.', '_')}: {kind} target='{name}'"
    return {SIGNATURE: "\n".join(
        ["", "# inputs", *(line("p", n, "PARAMETER") for n in parameters),
         *(line("b", n, "BUFFER") + " persistent=True" for n in buffers),
         *(f"{n}: USER_INPUT" for n in inputs), "", "# outputs", "y: USER_OUTPUT", ""])}


def folded(name, shape, *sources):
    return onnx.info(name, shape, **{"pkg__onnxscript__optimizer__folded_from": str(list(sources))})


def exported(module):
    """As torch 2.15 writes it: weights of products transposed and called val_N, equal initializers
    one (n2 reads n1's ones and zeros, and so does mix's bias), tied ones one in the program, too."""
    w = {n: p.detach().numpy() for n, p in module.named_parameters()}
    mask = np.triu(np.full((PLACES, PLACES), np.finfo(np.float32).min, np.float32), 1)
    weights = {"out.weight": module.out.weight.detach().numpy(), "embedding_1": w["place.weight"],
               "n1.weight": w["n1.weight"], "n1.bias": w["n1.bias"], "qkv.bias": w["qkv.bias"],
               "val_2": w["qkv.weight"].T, "val_51": mask, "val_66": np.array([SCALE], np.float32),
               "val_78": w["mix.weight"].T, "val_86": module.out.weight.detach().numpy().T,
               "val_13": np.array([BATCH, PLACES, HEADS, -1]),
               "val_77": np.array([BATCH, PLACES, WIDTH]), "val_80": np.array([WIDTH] * 3)}
    qkv = aten("linear.default", "%layer_norm", "%p_qkv_weight", "%p_qkv_bias")
    mix = aten("linear.default", "%view_3", "%p_mix_weight", "%p_mix_bias")
    attention = aten("scaled_dot_product_attention.default", "%q", "%k", "%v", "None", "0.0", "True")
    n = onnx.node
    nodes = [
        n("Gather", ["out.weight", "ids"], ["embedding"],
          aten("embedding.default", "%p_out_weight", "%ids")),
        n("Add", ["embedding", "embedding_1"], ["add"], aten("add.Tensor", "%embedding", "%embedding_1")),
        n("LayerNormalization", ["add", "n1.weight", "n1.bias"], ["layer_norm"],
          aten("layer_norm.default", "%add", "[8]", "%p_n1_weight", "%p_n1_bias"), axis=-1),
        n("MatMul", ["layer_norm", "val_2"], ["val_3"], qkv),
        n("Add", ["val_3", "qkv.bias"], ["linear"], qkv),
        n("Split", ["linear", "val_80"], ["s0", "s1", "s2"], axis=2),
        *(n("Reshape", [f"s{i}", "val_13"], [f"view_{i}"]) for i in range(3)),
        *(n("Transpose", [f"view_{i}"], [f"t{i}"], perm=[0, 2, 3, 1] if i == 1 else [0, 2, 1, 3])
          for i in range(3)),
        n("Mul", ["t0", "val_66"], ["val_67"], attention),
        n("Mul", ["t1", "val_66"], ["val_69"], attention),
        n("MatMul", ["val_67", "val_69"], ["val_70"], attention),
        n("Add", ["val_70", "val_51"], ["val_71"], attention),
        n("Softmax", ["val_71"], ["val_72"], attention, axis=-1),
        n("MatMul", ["val_72", "t2"], ["sdpa"], attention),
        n("Transpose", ["sdpa"], ["t3"], perm=[0, 2, 1, 3]),
        n("Reshape", ["t3", "val_77"], ["view_3"]),
        n("MatMul", ["view_3", "val_78"], ["val_79"], mix),
        n("Add", ["val_79", "n1.bias"], ["linear_1"], mix),
        n("Add", ["add", "linear_1"], ["add_1"], aten("add.Tensor", "%add", "%linear_1")),
        n("LayerNormalization", ["add_1", "n1.weight", "n1.bias"], ["layer_norm_1"],
          aten("layer_norm.default", "%add_1", "[8]", "%p_n2_weight", "%p_n2_bias"), axis=-1),
        n("MatMul", ["layer_norm_1", "val_86"], ["linear_2"],
          aten("linear.default", "%layer_norm_1", "%p_out_weight"))]
    values = [folded("embedding_1", (PLACES, WIDTH), "place.weight", "pos"),
              folded("val_2", (WIDTH, 3 * WIDTH), "qkv.weight"),
              folded("val_51", (PLACES, PLACES), "transpose", "val_35", "val_36"),
              folded("val_66", (1,), "transpose", "val_26"),
              folded("val_78", (WIDTH, WIDTH), "mix.weight"),
              folded("val_86", (WIDTH, WORDS), "out.weight")]
    names = ["embed.weight", *(n for n in module.state_dict() if n != "embed.weight")]
    return onnx.model(nodes, weights, [onnx.info("ids", (BATCH, PLACES), onnx.INT64)],
                      [onnx.info("linear_2", (BATCH, PLACES, WORDS))], values,
                      signature(names, ["pos"]))


class Imported:
    def __init__(self, data, *options):
        self.keep = tempfile.TemporaryDirectory(prefix="ffpreset")
        self.folder = pathlib.Path(self.keep.name)
        (self.folder / "model.onnx").write_bytes(data)
        done = self.run(ffimport, "model.onnx", "-o", "graph.json", "--weights", "weights", *options)
        self.good, self.notes = done.returncode == 0, done.stderr.splitlines()
        self.weights = reference.read_safetensors(self.folder / "weights") if self.good else {}
        self.graph = json.loads((self.folder / "graph.json").read_text()) if self.good else {}

    def run(self, *command):
        return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=600, cwd=self.folder)

    def says(self, *words):
        return any(all(w in line for w in words) for line in self.notes)


def attention():
    torch.manual_seed(1)
    module = Block()
    got = Imported(exported(module), "--classes-last")
    own = {n: p for n, p in module.named_parameters()}
    own["out.weight"] = module.out.weight
    own.pop("embed.weight", None)
    own["embedding_1"] = own.pop("place.weight")
    tap.say(got.good and set(got.weights) == set(own) and not got.notes,
            "the module's parameters and no others", [*got.notes, sorted(set(got.weights) ^ set(own))])
    ids, labels = (torch.randint(WORDS, (BATCH, PLACES)) for _ in range(2))
    (got.folder / "data" / "train").mkdir(parents=True)
    for name, x in ("ids", ids), ("label", labels):
        np.save(got.folder / "data" / "train" / name, x.numpy().astype(np.int32))
    done = got.run(ffrun, "graph.json", "single", "--data", "numpy:data", "--weights", "weights",
                   "--steps", STEPS, "--warmup", 0, "--optimizer", "adamw", "--rate", 0.01, "--decay", 0.1,
                   "--save", "trained", "--report", "report.json")
    if not tap.say(done.returncode == 0, "five steps of AdamW", [done.stderr]):
        return
    module.double()
    optimizer, losses = torch.optim.AdamW(module.parameters(), 0.01, weight_decay=0.1), []
    for _ in range(STEPS):
        loss = F.cross_entropy(module(ids).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ours = json.loads((got.folder / "report.json").read_text())["loss"]
    tap.say(np.allclose(ours, losses, rtol=1e-5), "lose what the module does", [ours, losses])
    trained = reference.read_safetensors(got.folder / "trained")
    if "qkv.bias" in trained:  # softmax takes no notice of the keys', whose gradient is rounding's
        trained["qkv.bias"] = np.delete(trained["qkv.bias"], np.s_[WIDTH:2 * WIDTH])
        own["qkv.bias"] = torch.cat([own["qkv.bias"][:WIDTH], own["qkv.bias"][2 * WIDTH:]])
    apart = {n: reference.distance(trained[n], p.detach()) if n in trained else np.inf
             for n, p in own.items()}
    tap.say(max(apart.values()) < 1e-4 and set(trained) == set(own), "and lead to its weights", [apart])


def image_model(nodes, weights, values=(), texts=None):
    return onnx.model(nodes, weights, [onnx.info("x", (2, 3, 8, 8))], [onnx.info("y", (2, 5))],
                      values, texts)


def tail(made):
    """Classes of images of four channels."""
    return [onnx.node("ReduceMean", [made, "axes"], ["mean"], keepdims=0),
            onnx.node("Gemm", ["mean", "fc.weight"], ["y"], transB=1)]


def draw(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


ENDS = {"axes": np.array([2, 3]), "fc.weight": draw(5, 4)}
PARAMETERS = ["a.weight", "n.weight", "n.bias", "fc.weight"]


def folded_norms():
    rule = {**aten("_native_batch_norm_legit_functional.default", "%conv2d", "%p_n_weight", "%p_n_bias"),
            "pkg.onnxscript.rewriter.rule_name": "FuseBatchNormIntoConv"}
    conv = onnx.node("Conv", ["x", "a.weight", "a.weight_bias"], ["c"], rule)
    got = Imported(image_model([conv, *tail("c")], {
        "a.weight": draw(4, 3, 3, 3), "a.weight_bias": draw(4), **ENDS},
        texts=signature(PARAMETERS, ["n.running_mean", "n.running_var"], "x")))
    tap.say(got.good and len(got.notes) == 1 and got.says("no batch norms any more", " n ", "optimize=False"),
            "folded batch norms are told", got.notes)
    conv = onnx.node("Conv", ["x", "onnx::Conv_12", "onnx::Conv_13"], ["c"])
    got = Imported(image_model([conv, *tail("c")], {
        "onnx::Conv_12": draw(4, 3, 3, 3), "onnx::Conv_13": draw(4), **ENDS}))
    tap.say(got.good and len(got.notes) == 1 and got.says("made weights of node_c anew", "TRAINING"),
            "also those of the exporter before", got.notes)
    # as with optimize=False: a bias of zeros where the module has none
    nodes = [onnx.node("Constant", [], ["zero"], value_ints=[0, 0, 0, 0]),
             onnx.node("Cast", ["zero"], ["real"], to=onnx.FLOAT),
             onnx.node("CastLike", ["real", "x"], ["none"]),
             onnx.node("Conv", ["x", "a.weight", "none"], ["c"]),
             onnx.node("BatchNormalization", ["c", "n.weight", "n.bias", "n.running_mean",
                                              "n.running_var"], ["b"])]
    statistics = {"n.running_mean": draw(4), "n.running_var": draw(4) ** 2}
    got = Imported(image_model([*nodes, *tail("b")], {
        "a.weight": draw(4, 3, 3, 3), "n.weight": draw(4), "n.bias": draw(4), **statistics, **ENDS},
        texts=signature(PARAMETERS, statistics, "x")))
    tap.say(got.good and not got.notes and set(got.weights) == {*PARAMETERS, *statistics},
            "and not what is not folded", [*got.notes, sorted(got.weights)])


def what_is_not_said():
    """Scores between channels' rows: a mask and a number by what they are, a table by its name."""
    weights = {"onnx::Mul_3": np.array([0.5], np.float32), "onnx::Add_4": np.triu(
        np.full((8, 8), -1e9, np.float32), 1), "onnx::Add_5": draw(8, 8), "shift": draw(8, 8), **ENDS,
        "fc.weight": draw(5, 3)}
    nodes = [onnx.node("Mul", ["x", "onnx::Mul_3"], ["a"]), onnx.node("Add", ["a", "onnx::Add_4"], ["b"]),
             onnx.node("Softmax", ["b"], ["c"], axis=-1), onnx.node("Add", ["c", "onnx::Add_5"], ["d"]),
             onnx.node("Add", ["d", "shift"], ["e"])]
    got = Imported(image_model([*nodes, *tail("e")], weights))
    tap.say(got.good and set(got.weights) == {"onnx::Add_5", "shift", "fc.weight"} and
            len(got.notes) == 2 and
            got.says("onnx::Mul_3 and onnx::Add_4", "taken for constants") and
            got.says("onnx::Add_5 are", "taken for parameters"), "without a word beside the model",
            [*got.notes, sorted(got.weights)])
    # with one: all parameters are there, so that the rest is none, whatever it looks like
    got = Imported(image_model([*nodes, *tail("e")], weights, texts=signature(
        ["shift", "fc.weight"], ["onnx::Add_5"], "x")))
    tap.say(got.good and set(got.weights) == {"shift", "fc.weight"} and not got.notes,
            "with one", [*got.notes, sorted(got.weights)])


def buffers_of_layers():
    nodes = [onnx.node("Reshape", ["x", "flat"], ["f"]), onnx.node("MatMul", ["f", "basis"], ["g"]),
             onnx.node("Add", ["g", "offset"], ["h"]),
             onnx.node("Gemm", ["h", "fc.weight"], ["y"], aten(
                 "linear.default", "%h", "%p_fc_weight", "%p_fc_bias"), transB=1)]
    got = Imported(image_model(nodes, {"flat": np.array([2, 192]), "basis": draw(192, 4), "offset": draw(4),
                                       "fc.weight": draw(5, 4)},
                               texts=signature(["fc.weight", "fc.bias"], ["basis", "offset"], "x")))
    tap.say(got.good and set(got.weights) == {"basis", "fc.weight"} and
            got.says("basis are buffers", "--group"), "a buffer that is a layer's weight is told",
            [*got.notes, sorted(got.weights)])
    tap.say(got.says("fc.bias no more"), "and a parameter that was left out", got.notes)
    done = got.run(ffrun, "graph.json", "single", "--data", "synthetic:2", "--weights", "weights", "--steps",
                   2, "--optimizer", "adamw", "--group", "basis:factor=0,decay=0", "--save", "trained")
    trained = reference.read_safetensors(got.folder / "trained") if not done.returncode else got.weights
    tap.say(np.array_equal(trained["basis"], got.weights["basis"]) and
            not np.array_equal(trained["fc.weight"], got.weights["fc.weight"]),
            "and stays where ffrun is told so", [done.stderr])


def padding_by_name():
    """As exporters of other frameworks than PyTorch write it, and biases of two axes."""
    def layers(conv, pool, bias):
        nodes = [onnx.node("Conv", ["x", "a.weight"], ["c"], strides=[2, 2], **conv),
                 onnx.node("MaxPool", ["c"], ["m"], kernel_shape=[3, 3], strides=[1, 2], **pool),
                 onnx.node("AveragePool", ["m"], ["p"], kernel_shape=[2, 3], **pool),
                 onnx.node("ReduceMean", ["p", "axes"], ["mean"], keepdims=0),
                 onnx.node("Gemm", ["mean", "fc.weight", "fc.bias"], ["y"], transB=1)]
        return Imported(image_model(nodes, {"a.weight": draw(4, 3, 3, 5), **ENDS, "fc.bias": bias}))

    for name, wide, pools in (("SAME_UPPER", [0, 1, 1, 2], ([1, 0, 1, 1], [0, 1, 1, 1])),
                              ("SAME_LOWER", [1, 2, 0, 1], ([1, 1, 1, 0], [1, 1, 0, 1]))):
        got = layers({"auto_pad": name}, {"auto_pad": name}, draw(1, 5))
        nodes = {n["op"]: n for n in got.graph.get("nodes", [])}
        pads = [n["pad"] for n in got.graph.get("nodes", []) if "pad" in n]
        tap.say(got.good and pads[:3] == [wide, *pools], f"padding {name}", [*got.notes, pads])
        tap.say(got.good and got.weights["fc.bias"].shape == (5,) and nodes["linear"]["bias"],
                "a bias of one row", got.notes)
    got = layers({"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME"}, draw(1, 5))
    tap.say(not got.good and got.says("auto_pad is not supported"), "and no other", got.notes)


attention()
folded_norms()
padding_by_name()
what_is_not_said()
buffers_of_layers()
tap.end()
