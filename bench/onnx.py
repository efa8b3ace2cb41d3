# Which of torchvision's families, and three plain modules, come through ONNX: exported in training
# mode, imported, searched, and one step trained from the model's own weights, beside PyTorch; or
# exported for evaluation, imported, searched, and evaluated on samples that are known.
# Usage: onnx.py FFIMPORT FFRUN FFSEARCH [--evaluation] [OPSET] [NAME...]; prints a table in Markdown.
# SPDX-License-Identifier: Apache-2.0
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "torch"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
import evaluate
import reference  # says SKIP and ends without PyTorch
from reference import F, np, torch
import torchvision.models as zoo
from torchvision.ops import StochasticDepth

nn = torch.nn
ffimport, ffrun, ffsearch = sys.argv[1:4]
rest = sys.argv[4:]
evaluating = rest[:1] == ["--evaluation"]
rest = rest[evaluating:]
opset = int(rest.pop(0)) if rest and rest[0].isdigit() else 13
warnings.filterwarnings("ignore")
CLASSES, BATCH = 7, 8


def vision(name, image=64, **options):
    """Of torchvision, for small images; nothing is drawn."""
    def make():
        model = getattr(zoo, name)(num_classes=CLASSES, **options)
        for m in model.modules():
            if isinstance(m, (nn.Dropout, StochasticDepth)):
                m.p = 0.0
            if isinstance(m, nn.AdaptiveAvgPool2d) and m.output_size == (7, 7):
                m.output_size = (1, 1)
        if name.startswith(("alexnet", "vgg")):  # as large as what averaging to 1 by 1 leaves
            first = next(i for i, m in enumerate(model.classifier) if isinstance(m, nn.Linear))
            model.avgpool = nn.AdaptiveAvgPool2d(1)
            model.classifier[first] = nn.Linear(256 if name == "alexnet" else 512, 4096)
        if name == "vit_b_16":
            nn.init.normal_(model.heads.head.weight, 0, 0.02)
        return model, torch.randn(BATCH, 3, image, image)
    return name, make


class Decoder(nn.Module):
    """A stack of GPT's blocks; of its last place the next word."""

    def __init__(self, words=67, width=32, places=12, heads=4, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width),
            "mix": nn.Linear(width, width), "behind": nn.LayerNorm(width),
            "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
            for _ in range(layers))
        self.norm, self.out, self.heads = nn.LayerNorm(width), nn.Linear(width, words, False), heads
        self.register_buffer("mask", torch.ones(places, places).tril().view(1, 1, places, places))

    def forward(self, ids):
        n, t = ids.shape
        x = self.words(ids) + self.places(torch.arange(t))
        for b in self.blocks:
            q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2)
                       for y in b["qkv"](b["before"](x)).chunk(3, 2))
            a = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
            x = x + b["mix"]((a @ v).transpose(1, 2).reshape(n, t, -1))
            x = x + b["down"](F.gelu(b["up"](b["behind"](x))))
        return self.out(self.norm(x))[:, -1]


class Words(nn.Module):
    """A language model of LSTM cells; of its last step the next word."""

    def __init__(self, words=67, width=32):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(width, words)
        self.cells = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, ids):
        return self.out(self.cells(self.embed(ids))[0])[:, -1]


class UNet(nn.Module):
    """Down and up again, with what was there beside it; a class for the image."""

    def __init__(self, width=8):
        super().__init__()
        def two(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.down = nn.ModuleList([two(3, width), two(width, 2 * width)])
        self.bottom = two(2 * width, 4 * width)
        self.grow = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                                   nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.up = nn.ModuleList([two(4 * width, 2 * width), two(2 * width, width)])
        self.out = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        kept = []
        for m in self.down:
            kept.append(m(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for grow, m in zip(self.grow, self.up):
            x = m(torch.cat([kept.pop(), grow(x)], 1))
        return self.out(x).mean((2, 3))


NETWORKS = dict([
    vision("alexnet"), vision("vgg11", 32), vision("resnet18"), vision("resnext50_32x4d"),
    vision("wide_resnet50_2"), vision("densenet121"), vision("squeezenet1_1"),
    vision("inception_v3", 96, aux_logits=False, init_weights=False),
    vision("googlenet", aux_logits=False, init_weights=False), vision("shufflenet_v2_x1_0"),
    vision("mobilenet_v2"), vision("mobilenet_v3_small"), vision("mnasnet1_0"),
    vision("efficientnet_b0"), vision("regnet_y_400mf"),
    vision("convnext_tiny"), vision("vit_b_16", image_size=64),
    vision("swin_t"),
    ("GPT blocks", lambda: (Decoder(), torch.randint(67, (BATCH, 12)))),
    ("LSTM language model", lambda: (Words(), torch.randint(67, (BATCH, 8)))),
    ("U-Net", lambda: (UNet(), torch.randn(BATCH, 3, 32, 32)))])


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600)


def gradients(module, dtype, tensors, graph):
    """Loss and gradients of the module on what ffrun was given."""
    module = copy.deepcopy(module).to(dtype)
    inputs = [torch.from_numpy(np.array(tensors["input." + n["name"]])) for n in graph["nodes"]
              if n["op"] == "input" and n["name"] != "label"]
    inputs = [x.long() if x.dtype == torch.int32 else x.to(dtype) for x in inputs]
    loss = F.cross_entropy(module(*inputs), torch.from_numpy(
        np.array(tensors["input.label"])).long())
    loss.backward()
    grads = {n: w.grad for n, w in module.named_parameters()
             if w.grad is not None and w.grad.abs().max() > 1e-9}
    return loss.item(), grads


def lstm_names(grads, tensors):
    """Parameters of LSTM cells are called after the nodes."""
    done = {}
    for name, x in grads.items():
        if "grad." + name not in tensors and "_l" in name:
            kind, layer = name.rsplit(".", 1)[1].rsplit("_l", 1)
            name = name.split(".")[0] + "/LSTM" + f"_{layer}" * (layer != "0") + "." + kind
        done[name] = x
    return done


def stir(module):
    """Statistics of norms that are not what they begin with, near those of the data."""
    with torch.no_grad():
        for m in module.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.uniform_(-0.1, 0.1)
                m.running_var.uniform_(0.8, 1.25)


def check_evaluation(name, seed):
    """A row of an export for evaluation: its outputs by the loss of a test pass."""
    torch.manual_seed(seed)
    module, inputs = NETWORKS[name]()
    stir(module)
    module.eval()
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        folder = pathlib.Path(keep)
        graph, weights = folder / "graph.json", folder / "weights"
        try:
            torch.onnx.export(module, inputs, str(folder / "model.onnx"), opset_version=opset)
        except Exception as why:
            return [name, "not exported: " + str(why).split("\n")[0][:90], "", "", ""], True
        done = run(ffimport, folder / "model.onnx", "-o", graph, "--weights", weights)
        if done.returncode:
            return [name, "no: " + done.stderr.strip().split("model.onnx: ")[-1][:160], "", "", ""], True
        row = [name, f"yes, {len(json.loads(graph.read_text())['nodes'])} nodes"]
        with torch.no_grad():
            logits = copy.deepcopy(module).double()(
                inputs.double() if inputs.dtype.is_floating_point else inputs)
            labels = torch.arange(BATCH) % logits.shape[1]
            want = F.cross_entropy(logits, labels).item()
        whole = inputs if inputs.dtype.is_floating_point else inputs.int()
        loss, why = evaluate.test_loss(ffrun, graph, weights, folder, whole.numpy(),
                                       labels.numpy().astype(np.int32))
        good = loss is not None and abs(loss - want) <= 1e-4 * abs(want)
        row.append(f"no: {why[:120]}" if loss is None else
                   ("yes" if good else "no") + f", loss apart by {abs(loss - want) / abs(want):.1g}")
        done = run(ffsearch, graph, "--machine", "p100x16", "--devices", 4, "--costs", "analytic",
                   "--budget", "1s", "-o", folder / "plan")
        row.append("yes" if done.returncode == 0 else "no: " + done.stderr.strip()[:80])
    return row + ["-"], good


def check(name, seed):
    """A row, and whether gradients are as near as they can be."""
    torch.manual_seed(seed)
    module, inputs = NETWORKS[name]()
    row = [name]
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        folder = pathlib.Path(keep)
        graph, weights = folder / "graph.json", folder / "weights"
        try:
            torch.onnx.export(module, inputs, str(folder / "model.onnx"), opset_version=opset,
                              training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
        except Exception as why:
            return row + ["not exported: " + str(why).split("\n")[0][:90], "", "", ""], True
        done = run(ffimport, folder / "model.onnx", "-o", graph, "--weights", weights)
        (folder / "model.onnx").unlink()
        if done.returncode:
            return row + ["no: " + done.stderr.strip().split("model.onnx: ")[-1][:160], "", "", ""], True
        nodes = json.loads(graph.read_text())
        row.append(f"yes, {len(nodes['nodes'])} nodes")
        done = run(ffrun, graph, "single", "--data", f"synthetic:{BATCH}", "--weights", weights,
                   "--seed", seed, "--dump", folder / "dump")
        searched = run(ffsearch, graph, "--machine", "p100x16", "--devices", 4, "--costs",
                       "analytic", "--budget", "3s", "-o", folder / "plan")
        if done.returncode:
            return row + ["no: " + done.stderr.strip()[:120], "", ""], True
        tensors = reference.read_safetensors(folder / "dump")
        want, grads = gradients(module, torch.float64, tensors, nodes)
        own, rounded = gradients(module, torch.float32, tensors, nodes)
        loss = float(np.array(tensors["loss"]).reshape(-1)[0])
        bound = max(1e-4 * abs(want), 4 * abs(own - want))
        row.append(("yes" if abs(loss - want) <= bound else "no") + f", loss apart by "
                   f"{abs(loss - want) / abs(want):.1g}")
        row.append("yes" if searched.returncode == 0 else "no: " + searched.stderr.strip()[:80])
        grads, rounded = lstm_names(grads, tensors), lstm_names(rounded, tensors)
        missing = [n for n in grads if "grad." + n not in tensors]
        # by length: rounding turns a relu here and there, in PyTorch's float32 too
        apart = {n: (reference.length_apart(tensors["grad." + n], grads[n]),
                     reference.length_apart(rounded[n], grads[n])) for n in grads if n not in missing}
        worst = max(apart, key=lambda n: apart[n][0] / max(1e-4, 4 * apart[n][1]))
        good = apart[worst][0] <= max(1e-4, 4 * apart[worst][1])
        row.append(f"{'yes' if good and not missing else 'no'}: {len(apart)} gradients, at most "
                   f"{apart[worst][0]:.1g} apart where PyTorch's float32 is {apart[worst][1]:.1g}"
                   + f"; without a name: {len(missing)}" * bool(missing))
    return row, good


print(f"| network | imported ({'for evaluation, ' * evaluating}opset {opset}) | evaluated | searched | one step trained |")
print("|---|---|---|---|---|")
for name in rest or NETWORKS:
    try:  # a relu that rounding turns where a channel has few elements spoils one draw, not all
        for seed in (1, 2, 3):
            row, good = (check_evaluation if evaluating else check)(name, seed)
            if good:
                break
    except Exception as why:  # the table goes on
        row = [name, f"error: {type(why).__name__}: {str(why)[:100]}", "", "", ""]
    print("| " + " | ".join(row) + " |", flush=True)
