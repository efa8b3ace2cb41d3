# Networks of the zoo against torchvision's: the same layers by the same names,
# and, for small images, the same loss and gradients.  torchvision's batch
# normalisation is left out and its convolutions get a bias, as in the zoo.
# Usage: test_torchvision.py NETWORK FFRUN FFZOO.  SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys
import tempfile

import reference
from reference import F, TOLERANCE, np, torch  # says SKIP and ends without PyTorch

try:
    import torchvision
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

LAYERS = (torch.nn.Conv2d, torch.nn.Linear)
name, ffrun, ffzoo = sys.argv[1:4]
tap = reference.Tap()

# Pixels by default, least pixels, settings that make the network cheap, and a
# seed for which no relu is so near to turning that rounding could decide it.
IMAGE, SMALL, CHEAP, SEED = {
    "vgg16": (224, 32, ["fc=48", "dropout=0"], 1),
    "resnet50": (224, 32, [], 1),
    "resnet101": (224, 32, [], 1),
    "inception_v3": (299, 75, ["dropout=0"], 1),
    "densenet121": (224, 32, [], 1),
}[name]


def torchvision_model(classes):
    """The network as torchvision has it, without batch normalisation."""
    options = {"inception_v3": {"aux_logits": False, "init_weights": False},
               "vgg16": {"init_weights": False}}.get(name, {})
    model = getattr(torchvision.models, name)(weights=None, num_classes=classes, **options)
    for parent in list(model.modules()):
        for child, module in list(parent.named_children()):
            if isinstance(module, torch.nn.BatchNorm2d):
                setattr(parent, child, torch.nn.Identity())
    return model.train()


def layers(model):
    return {n: m for n, m in model.named_modules() if isinstance(m, LAYERS)}


class Shapes(reference.Network):
    """A graph whose weights have shapes only."""

    def __init__(self, graph):
        super().__init__(graph, {})

    def weight(self, node, what):
        features = self.value[node["in"][0]].shape[1 if node["op"] == "conv2d" else -1]
        if node["op"] == "conv2d":
            shape = (node["out_channels"], features // node.get("groups", 1),
                     *reference.pair(node["kernel"]))
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


def test_shapes(folder):
    """Every convolution and linear layer at the usual size: order, names, weights, outputs."""
    net = Shapes(reference.read_graph(zoo(folder, "--batch", "2"))).infer()
    model = torchvision_model(1000).to("meta")
    outputs = {}
    for layer, module in layers(model).items():
        module.register_forward_hook(lambda m, ins, out, layer=layer:
                                     outputs.update({layer: tuple(out.shape)}))
    logits = model(torch.empty((2, 3, IMAGE, IMAGE), device="meta"))
    want = {f"{layer}.weight": tuple(m.weight.shape) for layer, m in layers(model).items()}
    got = {n: tuple(s) for n, s in net.weights.items() if n.endswith(".weight")}
    wrong = [f"{n}: torchvision {want.get(n)}, zoo {got.get(n)}" for n in {**want, **got}
             if want.get(n) != got.get(n)]
    tap.say(got == want, f"{len(want)} weights", wrong)
    tap.say(list(got) == list(want), "their order")
    wrong = [f"{n}: torchvision {s}, zoo {tuple(net.value[n].shape)}" for n, s in outputs.items()
             if n in net.value and tuple(net.value[n].shape) != s]
    tap.say(not wrong and len(outputs) == len(want), f"{len(outputs)} outputs", wrong)
    last = net.graph["nodes"][-1]["in"][0]
    tap.say(tuple(net.value[last].shape) == tuple(logits.shape) == (2, 1000), "logits")


def test_small(folder):
    """Loss and gradients of ffrun's step for small images."""
    sets = [x for s in [f"image={SMALL}", "classes=10", *CHEAP] for x in ("--set", s)]
    path = zoo(folder, "--batch", "2", *sets)
    command = [ffrun, path, "single", "--devices", "1", "--data", "synthetic:2", "--seed",
               str(SEED), "--dump", folder / "dump", "--device", reference.DEVICE]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not tap.say(done.returncode == 0, "ffrun", [done.stderr]):
        return
    tensors = reference.read_safetensors(folder / "dump")
    model = torchvision_model(10)
    if name == "vgg16":
        model.avgpool = torch.nn.Identity()  # at this size it would repeat, not average
    for layer, module in layers(model).items():
        for what in ("weight", "bias"):
            value = torch.from_numpy(tensors[f"{layer}.{what}"].astype(np.float64))
            setattr(module, what, torch.nn.Parameter(value))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    inputs = reference.inputs_of(tensors)
    logits = model(torch.from_numpy(inputs["data"].astype(np.float64)))
    loss = F.cross_entropy(logits, torch.from_numpy(inputs["labels"].astype(np.int64)))
    loss.backward()
    apart = {"loss": reference.distance(tensors["loss"], loss.detach())}
    for layer, module in layers(model).items():
        for what in ("weight", "bias"):
            key = f"{layer}.{what}"
            apart[key] = reference.distance(tensors["grad." + key], getattr(module, what).grad)
    worst = max(apart, key=apart.get)
    notes = [f"loss {float(loss.detach()):.4f}; {worst} apart by {apart[worst]:.2g}"]
    tap.say(apart[worst] <= TOLERANCE, f"loss and {len(apart) - 1} gradients", notes)


with tempfile.TemporaryDirectory(prefix="fftorchvision") as keep:
    test_shapes(pathlib.Path(keep))
    test_small(pathlib.Path(keep))
tap.end()
sys.exit(tap.failed > 0)
