# What PyTorch's ONNX exporters write, read by ffimport: networks by exporter and mode, each imported from its
# own weights; of those for evaluation the test loss on samples that are known, of those for training one step's
# loss and gradients, beside PyTorch's.
# Usage: onnx_exports.py FFIMPORT FFRUN [--modes MODE,...] [--keep FOLDER] [--result FILE] [--svg FILE] [NAME...]
# prints a table in Markdown; FOLDER keeps exports, which take longest, for the next time; --svg draws the errors of
# training steps beside those of PyTorch's own float32.
# Needs PyTorch 2.11 or newer, torchvision, onnx and onnxscript.  SPDX-License-Identifier: Apache-2.0
import argparse
import contextlib
import copy
import datetime
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
root = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(root / "tests" / "torch"), str(root / "bench")]
import evaluate
import figures
import modules
import reference  # says SKIP and ends without PyTorch
import torch_networks
import torchvision.models as zoo
from pytorch import F, np, torch
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.densenet import DenseNet
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformer, SwinTransformerBlockV2
from torchvision.ops import StochasticDepth

nn = torch.nn
CLASSES, BATCH = modules.CLASSES, modules.BATCH
# what torch.onnx.export is given, and whether the module trains
MODES = {
    "new-eval": ({"dynamo": True}, False),
    "new-train-opt": ({"dynamo": True}, True),
    "new-train": ({"dynamo": True, "optimize": False}, True),
    "old-17": ({"dynamo": False, "opset_version": 17}, True),
    "old-18": ({"dynamo": False, "opset_version": 18}, True),
}


# ---- networks: small members of torchvision's families, and modules as people write them ----

def vision(make, image=64, drops=False):
    def made():
        model = getattr(zoo, make)(num_classes=CLASSES) if isinstance(make, str) else make()
        for m in model.modules():
            if isinstance(m, (nn.Dropout, StochasticDepth)) and not drops:
                m.p = 0.0
        if hasattr(model, "heads"):  # begins with zeros, so that nothing below has a gradient
            nn.init.normal_(model.heads.head.weight, 0, .1)
        return model, torch.randn(BATCH, 3, image, image)
    return made


def residual(**options):
    return lambda: ResNet(Bottleneck, [1, 1, 1, 1], num_classes=CLASSES, width_per_group=8, **options)


def swin(**options):
    return lambda: SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=CLASSES, **options)


def convnext(**options):
    return lambda: zoo.ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 1)], num_classes=CLASSES,
                                **options)


def vit(**options):
    return lambda: zoo.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=CLASSES, **options)


def maxvit():
    """Windows of 2 x 2 instead of 7 x 7, which want 224 pixels."""
    return zoo.MaxVit(input_size=(64, 64), stem_channels=16, partition_size=2, block_channels=[16, 32],
                      block_layers=[1, 1], head_dim=16, stochastic_depth_prob=0.0, num_classes=CLASSES)


LAST = {"last": True}
NETWORKS = {
    "GPT blocks": torch_networks.NETWORKS["GPT blocks"],
    "LSTM": torch_networks.NETWORKS["LSTM language model"],
    "BERT block": modules.MODELS["BERT block"], "LLaMA block": modules.MODELS["LLaMA block"],
    "T5 block": modules.MODELS["T5 block"], "U-Net": modules.MODELS["U-Net"], "DLRM": modules.MODELS["DLRM"],
    "vit_b_16": vision(vit(), 32), "swin_t": vision(swin()),
    "swin_v2_t": vision(swin(block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)),
    "convnext_tiny": vision(convnext(), 32), "maxvit": vision(maxvit),
    "vit, drawn": vision(vit(dropout=0.1), 32, True),
    "swin, drawn": vision(swin(dropout=0.1, stochastic_depth_prob=0.3), 64, True),
    "convnext, drawn": vision(convnext(stochastic_depth_prob=0.3), 32, True),
    **{name: vision(name) for name in (
        "resnet18", "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_1", "alexnet", "regnet_y_400mf",
        "shufflenet_v2_x1_0", "mobilenet_v2", "mnasnet1_0", "efficientnet_v2_s", "vgg11_bn", "googlenet")},
    "densenet121": vision(lambda: DenseNet(8, (2, 2), 16, num_classes=CLASSES)),
    "resnext50_32x4d": vision(residual(groups=4)), "wide_resnet50_2": vision(residual()),
    "inception_v3": vision("inception_v3", 299)}


def is_drawn(name):
    return name.endswith(", drawn")


def export(module, inputs, path, mode):
    options, training = MODES[mode]
    module.train(training)
    if not options["dynamo"]:
        options = dict(options, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    else:
        options = dict(options, external_data=False)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(module, inputs, str(path), **options)


# ---- one network in one mode ----

def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=900)


def step(module, dtype, tensors, graph, last):
    """Loss and gradients of the module on what ffrun was given, by every name that a parameter has."""
    module = copy.deepcopy(module).to(dtype)
    given = {n["name"]: torch.from_numpy(np.array(tensors["input." + n["name"]])) for n in graph["nodes"]
             if n["op"] == "input"}
    labels = given.pop("label", None)
    target = given.pop("target", None)
    x = module(*(x.long() if x.dtype == torch.int32 else x.to(dtype) for x in given.values()))
    x = x if isinstance(x, torch.Tensor) else x[0]  # with auxiliary classifiers, of which nothing is trained
    x = x.movedim(-1, 1) if last else x
    loss = F.cross_entropy(x, labels.long()) if target is None else F.binary_cross_entropy_with_logits(
        x, target.to(dtype))
    loss.backward()
    names = {}
    for name, w in module.named_parameters(remove_duplicate=False):
        if w.grad is not None and w.grad.abs().max() > 1e-9:
            names.setdefault(id(w), (w.grad, []))[1].append(name)
    return loss.item(), {tuple(n): g for g, n in names.values()}


def called(names, tensors):
    """What the graph calls a parameter: by one of its names, or, of a recurrence, after the node."""
    for name in names:
        if "grad." + name in tensors:
            return "grad." + name
        kind, _, layer = name.rsplit(".", 1)[-1].partition("_l")
        made = [n for n in tensors if n.startswith("grad.") and n.endswith("." + kind)] if layer else []
        if len(made) > int(layer or 0):
            return made[int(layer)]
    return None


def compare_step(ffrun, module, folder, seed, last):
    done = run(ffrun, folder / "graph.json", "single", "--data", f"synthetic:{BATCH}", "--weights",
               folder / "weights", "--seed", seed, "--dump", folder / "dump")
    if done.returncode:
        return {"why": "ffrun: " + done.stderr.strip()[:200]}
    graph = json.loads((folder / "graph.json").read_text())
    tensors = reference.read_safetensors(folder / "dump")
    want, grads = step(module, torch.float64, tensors, graph, last)
    own, rounded = step(module, torch.float32, tensors, graph, last)
    loss = float(np.array(tensors["loss"]).reshape(-1)[0])
    missing, apart = [], {}
    for names, g in grads.items():
        ours = called(names, tensors)
        if ours is None or tensors[ours].shape != tuple(g.shape):
            missing.append(names[0])
        else:
            apart[names[0]] = reference.length_apart(tensors[ours], g), reference.length_apart(rounded[names], g)
    bound = {n: a / max(1e-4, 4 * b) for n, (a, b) in apart.items()}
    worst = max(bound, key=bound.get) if bound else None
    return {"loss_apart": abs(loss - want) / abs(want), "gradients": len(apart), "unnamed": missing,
            "apart": float(apart[worst][0]) if worst else 0.0, "worst": worst,
            "pytorch_apart": float(apart[worst][1]) if worst else 0.0,
            "good": abs(loss - want) <= max(1e-4 * abs(want), 4 * abs(own - want)) and
            (not worst or bound[worst] <= 1)}


def compare_evaluation(ffrun, module, inputs, folder, last):
    module = copy.deepcopy(module).double().eval()
    with torch.no_grad():
        x = module(*(x.double() if x.dtype.is_floating_point else x for x in inputs))
        x = x.movedim(-1, 1) if last else x
        labels = torch.randint(x.shape[1], (BATCH, *x.shape[2:]))
        want = F.cross_entropy(x, labels).item()
    if len(inputs) > 1:
        return {"why": "read; several inputs are not evaluated here"}
    whole = inputs[0] if inputs[0].dtype.is_floating_point else inputs[0].int()
    loss, why = evaluate.test_loss(ffrun, folder / "graph.json", folder / "weights", folder, whole.numpy(),
                                   labels.numpy().astype(np.int32))
    if loss is None:
        return {"why": "ffrun: " + why[:200]}
    return {"loss_apart": abs(loss - want) / abs(want), "good": abs(loss - want) <= 1e-4 * abs(want)}


def cell(args, name, mode, seed):
    torch.manual_seed(seed)
    module, inputs, *options = NETWORKS[name]()
    last = bool(options and options[0].get("classes_last"))
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        folder = pathlib.Path(keep)
        model = folder / "model.onnx"
        if args.keep:
            model = pathlib.Path(args.keep) / name.replace(" ", "_").replace(",", "") / f"{mode}.onnx"
            model.parent.mkdir(parents=True, exist_ok=True)
        if not model.exists():
            try:
                export(module, inputs, model, mode)
            except Exception as why:
                return {"exported": False, "why": "not exported: " + str(why).split("\n")[0][:120]}
        flags = ["--classes-last"] * last + (["--loss", "bce_with_logits"] if name == "DLRM" else [])
        done = run(args.ffimport, model, *flags, "-o", folder / "graph.json", "--weights", folder / "weights")
        row = {"exported": True, "read": done.returncode == 0}
        if done.returncode:
            return dict(row, why=done.stderr.strip().split(".onnx: ")[-1][:240])
        if "batch norms any more" in done.stderr and MODES[mode][1]:
            return dict(row, why="read, and told that the exporter has folded its batch norms")
        if is_drawn(name):
            kinds = [n["op"] for n in json.loads((folder / "graph.json").read_text())["nodes"]]
            return dict(row, good=bool(kinds.count("dropout")) == MODES[mode][1],
                        why=f"{kinds.count('dropout')} dropouts")
        if MODES[mode][1]:
            return dict(row, **compare_step(args.ffrun, module.train(), folder, seed, last))
        return dict(row, **compare_evaluation(args.ffrun, module, inputs, folder, last))


def text(row):
    if not row.get("read") or "loss_apart" not in row:
        return ("" if row.get("read") else "no: ") + row.get("why", "yes")
    more = f", {row['gradients']} gradients {row['apart']:.1g} apart" if "gradients" in row else ""
    lost = f", {len(row['unnamed'])} without a name" if row.get("unnamed") else ""
    return f"{'yes' if row['good'] else 'NO'}: loss {row['loss_apart']:.1g}{more}{lost}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("ffimport", type=os.path.abspath)
    p.add_argument("ffrun", type=os.path.abspath)
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--keep", metavar="FOLDER")
    p.add_argument("--result", metavar="FILE")
    p.add_argument("--svg", metavar="FILE")
    p.add_argument("names", nargs="*", metavar="NAME")
    args = p.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    modes = args.modes.split(",")
    print("| network | " + " | ".join(modes) + " |\n|" + "---|" * (len(modes) + 1))
    table = {}
    for name in args.names or NETWORKS:
        for mode in modes:
            try:
                table[name, mode] = cell(args, name, mode, 1)
            except Exception as why:  # the table goes on
                table[name, mode] = {"why": f"{type(why).__name__}: {str(why)[:160]}"}
        print("| " + " | ".join([name, *(text(table[name, m]) for m in modes)]) + " |", flush=True)
    if args.result:
        write(args.result, table, modes, args.names or list(NETWORKS))
    if args.svg:
        draw(args.svg, table, modes)
    return 0


def draw(path, table, modes):
    series = {mode: [(r["pytorch_apart"], r["apart"], f"{n}, {r['worst']}") for (n, m), r in table.items()
                     if m == mode and r.get("worst")] for mode in modes}
    if any(series.values()):
        figures.errors(path, "Gradients of one step, the worst of each network",
                       {mode: points for mode, points in series.items() if points})


def write(path, table, modes, names):
    values = []
    for mode in modes:
        rows = [table[n, mode] for n in names]
        of = f"of {sum(bool(r.get('exported')) for r in rows)} that were exported"
        values.append({"of": f"{mode}: read", "value": sum(bool(r.get("read")) for r in rows), "unit": of})
        values.append({"of": f"{mode}: as PyTorch's, of those compared",
                        "value": sum(bool(r.get("good")) for r in rows),
                        "unit": f"of {sum('good' in r for r in rows)}"})
    whole = {"format": "ffsoap-results", "version": 1, "subject": "ONNX by exporter and mode", "entries": [{
        "id": "exporters", "date": datetime.date.today().isoformat(), "figures": values,
        "text": "; ".join(f"{n}, {m}: {text(r)}" for (n, m), r in table.items() if not r.get("good"))}]}
    pathlib.Path(path).write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
