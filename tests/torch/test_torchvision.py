# Networks of the zoo against torchvision's: the same layers by the same names,
# and, for small images, the same loss, gradients and running statistics; and, with
# norm=none, without batch normalisation and with biases instead.
# Usage: test_torchvision.py NETWORK FFRUN FFZOO.  SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys
import tempfile

import operators
import reference
from pytorch import F, np, torch  # says SKIP and ends without PyTorch
from reference import TOLERANCE

try:
    import torchvision
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

LAYERS = (torch.nn.Conv2d, torch.nn.Linear, torch.nn.BatchNorm2d)
name, ffrun, ffzoo = sys.argv[1:4]
tap = reference.Tap()

# Pixels by default, pixels and samples of the small network, with norms and without, settings
# that make it cheap, and a seed for which no relu is so near to turning that rounding could
# decide it.  Norms over few values make much of rounding, so those have more.
IMAGE, NORMED, PLAIN, CHEAP, SEED = {
    "vgg16": (224, None, (32, 2), ["fc=48", "dropout=0"], 1),
    "resnet50": (224, (64, 4), (32, 2), [], 1),
    "resnet101": (224, (64, 4), (32, 2), [], 1),
    "resnet152": (224, (64, 3), (32, 2), [], 1),
    "resnext50_32x4d": (224, (64, 4), (32, 2), [], 1),
    "mobilenet_v2": (224, (64, 4), None, ["dropout=0"], 1),  # without norms nothing gets through
    "googlenet": (224, (64, 4), (32, 2), ["dropout=0"], 1),
    "inception_v3": (299, (107, 4), (75, 2), ["dropout=0"], 1),
    "densenet121": (224, (64, 4), (32, 2), [], 1),
}[name]
# Networks with norms make much of rounding: PyTorch's own float32 is as far from its float64.
# So those are measured by that.
TIMES = 4


def torchvision_model(classes, normed):
    """The network as torchvision has it; if not `normed`, without batch normalisation."""
    options = {"inception_v3": {"aux_logits": False, "init_weights": False},
               "googlenet": {"aux_logits": False, "init_weights": False},
               "vgg16": {"init_weights": False}}.get(name, {})
    model = getattr(torchvision.models, name)(weights=None, num_classes=classes, **options)
    for parent in list(model.modules()):
        for child, module in list(parent.named_children()):
            if isinstance(module, torch.nn.BatchNorm2d) and not normed:
                setattr(parent, child, torch.nn.Identity())
    return model.train()


def layers(model):
    return {n: m for n, m in model.named_modules() if isinstance(m, LAYERS)}


class Shapes(reference.Network):
    """A graph whose weights have shapes only."""

    def __init__(self, graph):
        super().__init__(graph, {})

    def weight(self, node, what):
        features = self.value[node["in"][0]].shape[-1 if node["op"] == "linear" else 1]
        if node["op"] == "conv2d":
            shape = (node["out_channels"], features // node.get("groups", 1),
                     *operators.numbers_of(node, "kernel", self.value[node["in"][0]], 1))
        elif node["op"] == "batch_norm":
            shape = (features,)
        else:
            shape = (node["out_features"], features)
        self.weights[f"{node['name']}.{what}"] = shape if what == "weight" else shape[:1]
        return torch.empty(self.weights[f"{node['name']}.{what}"], device="meta")

    def infer(self):
        for node in self.graph["nodes"]:
            if node["op"] == "input":
                self.value[node["name"]] = torch.empty(node["shape"], device="meta")
            elif node["op"] == "dropout":
                self.value[node["name"]] = self.value[node["in"][0]]
            elif node["op"] != "softmax_cross_entropy":
                ins = [self.value[i] for i in node["in"]]
                self.value[node["name"]] = reference.OPERATORS[node["op"]](self, node, *ins)
        return self


def zoo(folder, *args):
    path = folder / "graph.json"
    subprocess.run([ffzoo, name, *args, "-o", path], check=True)
    return path


def settings(*sets):
    return [x for s in sets for x in ("--set", s)]


def test_shapes(folder, normed):
    """Every layer with weights at the usual size: order, names, weights, outputs."""
    plain = () if normed or not NORMED else settings("norm=none")
    net = Shapes(reference.read_graph(zoo(folder, "--batch", "2", *plain))).infer()
    model = torchvision_model(1000, normed).to("meta")
    outputs = {}
    for layer, module in layers(model).items():
        module.register_forward_hook(lambda m, ins, out, layer=layer:
                                     outputs.update({layer: tuple(out.shape)}))
    logits = model(torch.empty((2, 3, IMAGE, IMAGE), device="meta"))
    want = {n: tuple(w.shape) for n, w in model.named_parameters()}
    got = {n: tuple(s) for n, s in net.weights.items()}
    if not normed:  # torchvision's convolutions have no bias then
        want, got = ({n: s for n, s in all.items() if n.endswith(".weight")}
                     for all in (want, got))
    wrong = [f"{n}: torchvision {want.get(n)}, zoo {got.get(n)}" for n in {**want, **got}
             if want.get(n) != got.get(n)]
    tap.say(got == want, f"{len(want)} parameters", wrong)
    tap.say(set(got) == set(want) if normed else list(got) == list(want), "their names")
    wrong = [f"{n}: torchvision {s}, zoo {tuple(net.value[n].shape)}" for n, s in outputs.items()
             if n in net.value and tuple(net.value[n].shape) != s]
    tap.say(not wrong and len(outputs) == len(layers(model)), f"{len(outputs)} outputs", wrong)
    last = net.graph["nodes"][-1]["in"][0]
    tap.say(tuple(net.value[last].shape) == tuple(logits.shape) == (2, 1000), "logits")


def step_of(model, tensors, kind):
    """A training step with the weights of the dump, computed in `kind`: the loss, gradients and
    what is kept."""
    model.to(kind)
    for layer, module in layers(model).items():
        for what in ("weight", "bias"):
            if f"{layer}.{what}" in tensors:
                value = torch.from_numpy(tensors[f"{layer}.{what}"].copy()).to(kind)
                setattr(module, what, torch.nn.Parameter(value))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    inputs = reference.inputs_of(tensors)
    logits = model(torch.from_numpy(inputs["data"].copy()).to(kind))
    loss = F.cross_entropy(logits, torch.from_numpy(inputs["labels"].astype(np.int64)))
    loss.backward()
    made = {"loss": loss.detach()}
    made.update(("grad." + n, w.grad) for n, w in model.named_parameters())
    made.update((n, v) for n, v in model.named_buffers() if n.endswith(reference.KEPT))
    return {n: v.numpy() for n, v in made.items()}


def test_small(folder, normed):
    """Loss, gradients and running statistics of ffrun's step for small images."""
    image, batch = NORMED if normed else PLAIN
    plain = [] if normed or not NORMED else ["norm=none"]
    path = zoo(folder, "--batch", str(batch),
               *settings(f"image={image}", "classes=10", *CHEAP, *plain))
    command = [ffrun, path, "single", "--devices", "1", "--data", f"synthetic:{batch}", "--seed",
               str(SEED), "--dump", folder / "dump", "--device", reference.DEVICE]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not tap.say(done.returncode == 0, "ffrun", [done.stderr]):
        return
    tensors = reference.read_safetensors(folder / "dump")
    models = torchvision_model(10, normed), torchvision_model(10, normed)
    if name == "vgg16":
        models[0].avgpool = torch.nn.Identity()  # at this size it would repeat, not average
    want = step_of(models[0], tensors, torch.float64)
    measure = reference.length_apart if normed else reference.distance
    apart = {n: measure(tensors[n], v) for n, v in want.items()}
    worst, most = max(apart, key=apart.get), TOLERANCE
    notes = [f"loss {float(want['loss']):.4f}; {worst} apart by {apart[worst]:.2g}"]
    if normed:
        single = step_of(models[1], tensors, torch.float32)
        theirs = max(measure(single[n], v) for n, v in want.items())
        most = max(most, TIMES * theirs)
        notes.append(f"PyTorch's float32 apart by {theirs:.2g}")
    kept = sum(n.endswith(reference.KEPT) for n in want)
    tap.say(apart[worst] <= most, f"loss, {len(want) - 1 - kept} gradients, {kept} running "
            "statistics", notes)


with tempfile.TemporaryDirectory(prefix="fftorchvision") as keep:
    for normed in (True, False) if NORMED else (False,):
        test_shapes(pathlib.Path(keep), normed)
        if normed or PLAIN:
            test_small(pathlib.Path(keep), normed)
tap.end()
sys.exit(tap.failed > 0)
