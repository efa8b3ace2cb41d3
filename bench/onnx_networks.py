# Which of torchvision's families, and three plain modules, come through ONNX: exported in training
# mode, imported, searched, and one step trained from the model's own weights, beside PyTorch; or
# exported for evaluation, imported, searched, and evaluated on samples that are known.
# Usage: onnx_networks.py FFIMPORT FFRUN FFSEARCH [--evaluation] [OPSET] [NAME...]; prints a table in Markdown.
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
from pytorch import F, np, torch
from torch_networks import BATCH, NETWORKS, export

nn = torch.nn
ffimport, ffrun, ffsearch = sys.argv[1:4]
rest = sys.argv[4:]
evaluating = rest[:1] == ["--evaluation"]
rest = rest[evaluating:]
opset = int(rest.pop(0)) if rest and rest[0].isdigit() else 13
warnings.filterwarnings("ignore")


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


def change_statistics(module):
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
    change_statistics(module)
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
        done = run(ffsearch, graph, "--machine", "p100x16", "--devices", 4, "--costs", "peak",
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
            export(module, inputs, str(folder / "model.onnx"), opset)
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
                       "peak", "--budget", "3s", "-o", folder / "plan")
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
