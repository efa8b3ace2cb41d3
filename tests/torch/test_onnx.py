# Models that PyTorch exports as ONNX, imported: loss and gradients of a training step equal the
# model's own, on one device and under random strategies; damaged files are refused.
# Usage: test_onnx.py modules|training|sequences|recurrences|networks|families|evaluation|damage FFIMPORT FFRUN FFSEARCH.
# SPDX-License-Identifier: Apache-2.0
import copy
import itertools
import json
import os
import pathlib
import random
import re
import tempfile

import evaluate
import reference
from onnx_case import Model, exported, ffimport, ffrun, nn, part, run, tap
from onnx_models import (Attention, Block, BothWays, Cell, Decoder, Images, Picks, Recurrent, Resized, SamplesFirst,
                         Shapes, Trained, Translator, Transposed, UNet, Unknown, Windows, Words)
from pytorch import F, np, torch  # says SKIP and ends without PyTorch


def recurrent_names(gradients):
    """Parameters of PyTorch's recurrences are called after the nodes, which count layers."""
    done = {}
    for name, x in gradients.items():
        layer = re.fullmatch(r"(cells|encoder)\.(\w+)_l(\d)(_reverse)?", name)
        if layer:
            node = RECURRENT[layer[1]] + f"_{layer[3]}" * (layer[3] != "0")
            name = f"{node}.{layer[2]}{layer[4] or ''}"
        done[name] = x
    return done


RECURRENT = {}


def recurrence(name, module, inputs, kind="LSTM", plans=2, **how):
    RECURRENT.update(cells=f"cells/{kind}", encoder=f"encoder/{kind}")
    got = Model(name, module, inputs, ours=recurrent_names, **how)
    got.check(plans)
    return [n["op"] for n in json.loads(got.graph.read_text())["nodes"]] if got.good else []


def recurrences():
    recurrence("LSTM of two layers", Words(), torch.randint(11, (4, 4)), plans=3)
    for kind in ("RNN", "GRU", "LSTM"):
        for begin, how in ((None, {}), ("computed", {"batch_first": True}),
                           ("computed", {"bidirectional": True}), ("trained", {"bias": False})):
            text = ", ".join([kind, "states " + begin if begin else "zeros", *how])
            ops = recurrence(text, Recurrent(kind, begin, **how), torch.randn(5, 4, 5), kind, 1)
            tap.say(ops.count(kind.lower()) == 1 + ("bidirectional" in how),
                    f"{text}: an operator a direction", [" ".join(ops)])
    recurrence("GRU, for evaluation", Recurrent("GRU", None), torch.randn(5, 4, 5), "GRU", 0,
               training=False)
    for both, before in itertools.product((False, True), (1, 0, None)):
        name = f"samples first{', both ways' * both}{'' if before else ', reset first'}"
        name += ", unsaid" * (before is None)
        got = Model(name, SamplesFirst(both, before), torch.randn(5, 4, 5), 14)
        nodes = json.loads(got.graph.read_text())["nodes"] if got.good else []
        base = next((n["params"]["weight"].split(".")[0] for n in nodes if n["op"] == "gru"), "")
        got.ours = lambda g: {re.sub(r"^cells\.(\w+)_l0", base + r".\1", n): x for n, x in g.items()}
        got.check(2)
    recurrence("translator", Translator(), torch.randint(11, (4, 7)), plans=1, classes_last=True)
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        class Last(Recurrent):
            def forward(self, x):
                return self.out(self.cells(x)[0][:, -1])

        for text, how, why in (
                ("relu", {"kind": "RNN", "nonlinearity": "relu", "batch_first": True}, "sigmoid and tanh"),
                ("samples behind steps", {"kind": "LSTM"}, "sequences, samples")):
            module = Last(begin=None, **how)
            refused(text, exported(module, torch.randn(4, 3, 5), 13), pathlib.Path(keep), why)


def sequences():
    Model("picks", Picks(), torch.randn(6, 4, 6)).check(4)
    Model("decoder", Decoder(), torch.randint(11, (4, 5))).check(3)
    Model("attention", Attention(), torch.randn(4, 5, 6)).check(3)


def modules():
    ids = torch.randint(11, (4, 5))
    Model("cell", Cell(), ids).check(4)
    Model("moves", Shapes(), torch.randn(6, 4, 6)).check(4)
    last = Model("classes behind", Shapes(True), torch.randn(6, 4, 6), classes_last=True)
    nodes = {n["name"]: n for n in json.loads(last.graph.read_text())["nodes"]}
    logits, label = nodes["logits"], nodes["label"]
    tap.say(logits["perm"] == [0, 2, 1] and label["shape"] == [6, 4] and label["classes"] == 5,
            "labels for each place, classes moved to axis 1", [logits, label])
    for opset in (11, 13, 16):
        Model("images", Images(), torch.randn(4, 3, 20, 24), opset).check(4 if opset == 13 else 0)
    Model("weights read both ways", BothWays(), torch.randn(4, 3, 8)).check(4)
    Model("windows", Windows(), torch.randn(4, 3, 10, 9)).check(4)
    Model("transposed", Transposed(), torch.randn(4, 3, 4, 5)).check(4)
    for opset in (11, 13, 17):
        # a norm of groups is exported as one of channels, and a weight that broadcasts
        Model("resized", Resized(), torch.randn(4, 3, 8, 10), opset, ours=lambda g: {
            n: x.view(-1, 1, 1) if n.startswith("groups") else x for n, x in g.items()}).check(
                4 if opset == 13 else 0)
    class Cubic(nn.Module):
        def forward(self, x):
            return F.interpolate(x, size=(8, 9), mode="bicubic").mean((2, 3))

    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        status = refused("cubic", exported(Cubic(), torch.randn(2, 3, 4, 5), 13),
                         pathlib.Path(keep), "only modes nearest and linear")
        tap.say(status == 2, "cubic: refused")
    Model("unet", UNet(), torch.randn(4, 2, 16, 12)).check(4)
    Model("unet, normed, of odd sizes", UNet(norm=True), torch.randn(4, 2, 15, 13)).check(2)
    for opset in (13, 17):  # norms as they are computed, and as one operator
        Model("block", Block(), torch.randint(13, (4, 6)), opset).check(4)
    Model("images to numbers", Images(), torch.randn(4, 3, 20, 24), loss="mse").check(2)
    Model("rows to bits", Shapes(), torch.randn(6, 4, 6), loss="bce_with_logits").check(2)
    Model("images for evaluation", Images().eval(), torch.randn(4, 3, 20, 24),
          training=False).check(0)


def trained_forms():
    """Exports for training by every opset that writes something in another way."""
    for opset in (11, 12, 13, 14, 15, 17):
        got = Model("forms while training", Trained(), torch.randn(6, 2, 7, 12), opset, drops=True,
                    ours=lambda g: {n.replace("plain.", "plain/BatchNormalization."): x
                                    for n, x in g.items()})
        if not got.good:
            continue
        got.check(2 if opset in (11, 17) else 0)
        trained = {n for n, _ in got.module.named_parameters()}
        have = {n for n in reference.read_safetensors(got.folder / "weights")
                if not n.endswith(reference.KEPT)}
        tap.say(have == trained, f"opset {opset}: the module's parameters and no others",
                sorted(have ^ trained))


def networks():
    import torchvision.models as zoo

    def scaled(model):
        """Activations that neither vanish nor explode without normalisation."""
        for m in model.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_uniform_(m.weight)
        return model

    torch.manual_seed(1)
    for name, image in (("alexnet", 63), ("vgg11", 32), ("squeezenet1_1", 63)):
        options = {"weights": None, "num_classes": 7}
        model = getattr(zoo, name)(**options)
        if name == "vgg11":  # averaging to 7x7 from less is no pooling
            model.avgpool = nn.Identity()
            model.classifier[0] = nn.Linear(512, 64)
            model.classifier[3] = nn.Linear(64, 64)
            model.classifier[6] = nn.Linear(64, 7)
        if name == "alexnet":
            model.avgpool = nn.Identity()
            model.classifier[1] = nn.Linear(256, 64)
            model.classifier[4] = nn.Linear(64, 64)
            model.classifier[6] = nn.Linear(64, 7)
        Model(name, scaled(model), torch.randn(2, 3, image, image)).check(1, 2)
    # of the last two rounding grows so far that no two orders of summing agree
    for name, plans, seeds in (("resnet18", 1, (1,)), ("mobilenet_v3_small", 1, (1,)),
                               ("shufflenet_v2_x0_5", 1, (1,)), ("mnasnet0_5", 0, reference.SOME),
                               ("regnet_y_400mf", 0, reference.SOME)):
        model = getattr(zoo, name)(weights=None, num_classes=7)
        Model(name, model, torch.randn(8, 3, 64, 64)).check(plans, 2, seeds)


def families():
    """Small members of families that want more than convolutions."""
    import torchvision.models as zoo

    torch.manual_seed(1)
    vit = zoo.VisionTransformer(image_size=32, patch_size=16, num_layers=2, num_heads=2,
                                hidden_dim=8, mlp_dim=16, num_classes=7)
    for p in vit.parameters():
        nn.init.normal_(p, 0, 0.3)
    Model("vit", vit, torch.randn(4, 3, 32, 32)).check(2)
    from torchvision.models.convnext import CNBlockConfig
    convnext = zoo.ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)],
                            layer_scale=0.5, num_classes=7)
    Model("convnext", convnext, torch.randn(4, 3, 32, 32)).check(2)
    swin = zoo.SwinTransformer([4, 4], 8, [2], [2], [4, 4], stochastic_depth_prob=0.0,
                               num_classes=7)
    Model("swin", swin, torch.randn(4, 3, 32, 32),
          ours=lambda g: {n: x for n, x in g.items() if "bias_table" not in n}).check(2)
    efficientnet = zoo.efficientnet_b0(weights=None, num_classes=7, stochastic_depth_prob=0.0)
    Model("efficientnet", efficientnet, torch.randn(8, 3, 64, 64)).check(0)


def evaluation():
    """Exports for evaluation, whose norms are folded or have their statistics, of several opsets:
    what they make of known samples without training."""
    import torchvision.models as zoo

    for name, opsets in (("resnet18", (11, 13, 17)), ("mobilenet_v3_small", (11, 17)),
                         ("shufflenet_v2_x0_5", (13,)), ("squeezenet1_1", (17,))):
        torch.manual_seed(1)
        model = getattr(zoo, name)(weights=None, num_classes=7)
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):  # statistics that are not what they begin with
                nn.init.uniform_(m.running_mean, -0.5, 0.5)
                nn.init.uniform_(m.running_var, 0.5, 2)
        images, labels = torch.randn(4, 3, 64, 64), torch.tensor([1, 6, 0, 3])
        for opset in opsets:
            got = Model(f"{name} for evaluation", model.eval(), images, opset, training=False)
            if not got.good:
                continue
            loss, why = evaluate.test_loss(ffrun, got.graph, got.folder / "weights", got.folder,
                                           images.numpy(), labels.numpy().astype(np.int32))
            with torch.no_grad():
                want = F.cross_entropy(copy.deepcopy(model).double()(images.double()), labels).item()
            tap.say(loss is not None and abs(loss - want) <= 1e-4 * want,
                    f"{name}, opset {opset}: as PyTorch evaluates it",
                    [why or f"{loss:.6f}, expected {want:.6f}"])


def refused(name, data, folder, why=None):
    path = folder / "damaged.onnx"
    path.write_bytes(data)
    done = run(ffimport, path, "-o", folder / "graph", "--weights", folder / "weights")
    fine = done.returncode == 0 and not why
    one = done.returncode == 2 and done.stderr.count("\n") == 1 and "damaged.onnx" in done.stderr
    left = not fine and ((folder / "graph").exists() or (folder / "weights").exists())
    if not (fine or one) or left or (why and why not in done.stderr):
        tap.say(False, name, [f"status {done.returncode}", *done.stderr.splitlines()[-30:]])
    for file in ("graph", "weights"):
        (folder / file).unlink(missing_ok=True)
    return done.returncode


def damage():
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        folder = pathlib.Path(keep)
        refused("unknown operators", exported(Unknown(), torch.randn(3, 4), 13), folder, "Tan (2")
        refused("unknown operators", exported(Unknown(), torch.randn(3, 4), 13), folder, "Mod (1")
        refused("empty", b"", folder, "not empty")
        refused("text", b"hello, world\n" * 9, folder, "no ONNX model")
        good = exported(Cell(), torch.randint(11, (4, 3)), 13)
        refused("an old opset", good.replace(b"\x42\x02\x10\x0d", b"\x42\x02\x10\x09"), folder,
                "opset 9")
        goods = [good, exported(Picks(), torch.randn(2, 4, 6), 13),
                 exported(Words(), torch.randint(11, (2, 2)), 13)]
        seed = int(os.environ.get("FF_SEED", "1"))
        print(f"# seed {seed} (set FF_SEED to repeat or vary)")
        dice, ended, i = random.Random(seed), {0: 0, 2: 0}, 0
        # as many as there are to be, and more until both ends were met
        while i < 150 // reference.SHARE or (i < 1500 and not (ended[0] > 5 and ended[2] > 20)):
            data = bytearray(goods[i % 3])
            for _ in range(dice.choice((1, 1, 2, 8))):
                data[dice.randrange(len(data))] = dice.randrange(256)
            if i % 10 == 0:
                data = data[:dice.randrange(len(data))]
            status = refused(f"damage {i}", bytes(data), folder)
            ended[status] = ended.get(status, 0) + 1
            i += 1
        tap.say(ended[0] > 5 and ended[2] > 20 and sum(ended.values()) == ended[0] + ended[2],
                f"{i} damaged files are read or refused: {ended}")


{"modules": modules, "training": trained_forms, "sequences": sequences, "recurrences": recurrences,
 "networks": networks, "families": families, "evaluation": evaluation, "damage": damage}[part]()
tap.end()
