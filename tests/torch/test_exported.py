# Modules of today's PyTorch through ffsoap_torch: loss, gradients and running statistics of a step as PyTorch's,
# what is drawn, what is refused and how it is said, the files.
# Usage: test_exported.py PART FFRUN FFSEARCH, of the parts at the end
# SPDX-License-Identifier: Apache-2.0
import json
import resource
import sys

import exported_steps  # noqa: I001  says SKIP and ends without PyTorch 2.11
import agent_modules
import exported_command
import exported_operators
import exported_refusals
import family_modules
import field_modules
import ffsoap_torch
import hand_modules
import image_modules
import latest_fields
import latest_language
import latest_learning
import latest_pictures
import learning_modules
import modules
import more_modules
import newest_modules
import recent_fields
import recent_modules
import recent_pictures
import reference
import shape_modules
import text_modules
import today_modules
import wide_modules
import wide_pictures
from exported import F, torch
from exported_steps import ByLoss, Parent, compare, nn, plan_for, refusal, tap
from ffsoap_torch import Refused, functions
from ffsoap_torch.export import export
from philox import kept


def test_models():
    for name, make in modules.MODELS.items():
        torch.manual_seed(1)
        module, inputs, *options = make()
        step = compare(name, module, inputs, **(options[0] if options else {}))
        if step and name == "GPT, tied":
            tap.say(["transformer.wte.weight", "lm_head.weight"] ==
                    step.map["parameters"]["transformer.wte.weight"]["names"], "tied weights are one, by both names")
            tap.say(any(n["op"] == "attention" and n.get("causal") for n in step.graph["nodes"]), "attention is whole")
        if step and name == "LLaMA block":
            keys = [n for n in step.graph["nodes"] if n["op"] == "attention"][0]["in"][1]
            wide = next(n for n in step.graph["nodes"] if n["name"] == "k_proj")["out_features"]
            tap.say(wide == 16 and keys != "k_proj", "keys that heads share are not copied")
    module, inputs = modules.MODELS["GPT, tied"]()
    compare("GPT on three devices, a random strategy", module, inputs, plan=plan_for(3, 1), devices=3)


def test_more():
    for name, make in {**more_modules.MODELS, **family_modules.MODELS}.items():
        torch.manual_seed(1)
        module, inputs, options = make()
        compare(name, module, inputs, **options)
    steps = (torch.rand(4, 3), torch.arange(4))
    for below, words in (({}, "nothing says below what they are; say --below steps=N"), (
            {"times": 9}, "times is no input of integers of the module")):
        said = refusal(Timed(), steps, below=below)
        tap.say(words in said, "steps of which nothing is known", [said])
    test_large()


class Hidden(nn.Module):
    """A mask as some libraries make it, for all samples."""

    def forward(self, x, y):
        at = torch.arange(x.shape[1])
        own = torch.arange(len(x))[:, None, None, None] >= 0
        mask = (at[None, None, None] + torch.zeros(len(x), 1, 1, 1) <= at[None, None, :, None]) & own & own
        q = x[:, None]
        return F.mse_loss(F.scaled_dot_product_attention(q, q, q, attn_mask=mask)[:, 0], y)


class Angles(nn.Module):
    """Tables of places, as each layer makes them for itself."""

    def forward(self, x, y):
        for _ in range(3):
            x = (x * torch.outer(torch.arange(200.0), torch.linspace(0, 1, 100)).cos()).tanh()
        return F.mse_loss(x, y)


def test_hand():
    """By themselves, and cut at random."""
    for name, make in hand_modules.MODELS.items():
        torch.manual_seed(1)
        module, inputs, options = make()
        compare(name, module, inputs, **options)
    for name in ("experts, in groups", "experts, by their weights", "masked places", "conditions"):
        torch.manual_seed(1)
        module, inputs, options = hand_modules.MODELS[name]()
        compare(f"{name}, on three devices", module, inputs, plan=plan_for(3, 1), devices=3, **options)


def test_today(models, cut):
    """By themselves; what is added up over the batch, what is taken out, and frames also cut at random."""
    for name, make in models.items():
        torch.manual_seed(1)
        module, inputs, options = make()
        compare(name, module, inputs, **options)
    for name in cut:
        torch.manual_seed(1)
        module, inputs, options = models[name]()
        compare(f"{name}, on three devices", module, inputs, plan=plan_for(3, 1), devices=3, **options)


def test_language():
    test_today(today_modules.LANGUAGE, ["means by masks", "places taken out"])


def test_others():
    test_today(today_modules.OTHERS, ["rare classes", "frames"])


def test_newest():
    test_today(newest_modules.MODELS, ["DeltaNet", *newest_modules.BATCHES])
    said = refusal(*newest_modules.REFUSED["SimCLR"]()[:2])
    tap.say("joins tensors along the axis of samples" in said, "two views of all samples behind each other", [said])


def test_fields():
    test_today(field_modules.MODELS, ["two towers, logQ", "CRNN, CTC"])
    test_refused(field_modules.REFUSED, {"TimesNet": "numpy"})
    logits, labels = torch.randn(9, 6, 7, dtype=torch.double, requires_grad=True), torch.randint(1, 7, (6, 4))
    lengths = torch.tensor([9, 9, 5, 3, 8, 1]), torch.tensor([4, 0, 2, 4, 3, 1])
    for how in ("mean", "sum", "none"):
        one, two = (f(logits.log_softmax(2), labels, *lengths, reduction=how, zero_infinity=True)
                    for f in (F.ctc_loss, functions.ctc_loss))
        apart = [(a - b).abs().max() for a, b in ((one, two), [torch.autograd.grad(x.sum(), logits)[0]
                                                               for x in (one, two)])]
        tap.say(max(apart) < 1e-12, f"CTC as PyTorch's, {how}", apart)
    said = refusal(Unlabelled(), (torch.randn(4, 5, 6), torch.arange(4)), below={"ids": 6})
    tap.say("target_lengths" in said, "labels of CTC behind each other", [said])


class Unlabelled(nn.Linear):
    def __init__(self):
        super().__init__(6, 7)

    def forward(self, x, ids):
        return F.ctc_loss(super().forward(x).log_softmax(2).transpose(0, 1), ids, [5] * 4, [1] * 4)


def test_learning():
    test_today(learning_modules.MODELS, ["StyleGAN 2", "A2C, GAE"])
    test_refused(learning_modules.REFUSED, {"Glow": "slogdet", "WGAN-GP": "gradients within forward",
                                            "VAE, noise drawn": "random numbers"})


OF_BATCH = {"samples multiplied": lambda m, x: x @ (x.T @ x), "a mean over samples": lambda m, x: x - x.mean(0),
            "a norm without running statistics": lambda m, x: F.batch_norm(x, None, None, training=True)}
OF_BATCH |= {"zeros where a condition does not hold": lambda m, x: torch.where(x > 0.3, x, torch.zeros_like(x)),
             "ones where it holds": lambda m, x: torch.where(x > 0.3, torch.full_like(x, 2.0), x * x)}
OF_LOSSES = {"a loss by a loss": lambda x, y: x.mean() / x.square().mean() + F.mse_loss(x, y), "a function of a loss":
             lambda x, y: F.mse_loss(x, y).sqrt(), "no mean": lambda x, y: (x - y).square().mean(0).max()}


def test_shapes():
    for name, function in OF_BATCH.items():
        compare(name, Parent(function), torch.randn(4, 6))
    for name, function in OF_LOSSES.items():
        compare(name, ByLoss(function), (torch.randn(4, 6), torch.randn(4, 5)))
    test_today(shape_modules.MODELS, ["VICReg", "CondConv", "S4D"])


def test_wide():
    test_today(wide_modules.MODELS, ["PointNet++", "pointer generator"])
    test_refused(wide_modules.REFUSED, {"Autoformer": "places that are chosen"})


def test_pictures():
    test_today(wide_pictures.MODELS, ["MAE"])
    test_refused(wide_pictures.REFUSED, {
        "SegNet": "places", "RAFT": "the axis of samples", "YOLOv8's head": "classes that are no input"})


def test_texts():
    test_today(text_modules.MODELS, ["MegaByte", "Jamba", "FastSpeech 2"])


def test_images():
    test_today(image_modules.MODELS, ["RT-DETR", "SwAV"])


def test_agents():
    test_today(agent_modules.MODELS, ["TD3+BC", "QMIX", "BST", "TabM, expanded"])
    test_refused(agent_modules.REFUSED, {"SAINT": "the axis of samples"})


def test_recent():
    test_today(recent_modules.MODELS, ["T5, labels shifted", "LLaDA"])


def test_seen():
    test_today(recent_pictures.MODELS, ["SAM 2"])


def test_various():
    test_today(recent_fields.MODELS, ["reward model", "DPO, pairs"])
    test_refused(recent_fields.REFUSED, {"VQ-VAE, moved codes": "buffer codes changes in every step",
                                         "R1": "gradients within forward"})


def test_latest():
    test_today({**latest_language.MODELS, **latest_learning.MODELS}, ["block diffusion"])
    test_refused({**latest_language.REFUSED, **latest_learning.REFUSED}, {
        "tiny recursive model": "compares what is computed", "ColBERT": "the axis of samples",
        "Matryoshka, CoSENT": "the axis of samples", "ORPO, SimPO": "classes that are no input",
        "JumpReLU": "a backward of its own"})


def test_applied():
    test_today({**latest_pictures.MODELS, **latest_fields.MODELS}, ["Zipformer", "Boltz"])
    test_refused({**latest_pictures.REFUSED, **latest_fields.REFUSED}, {
        "VAR": "classes that are no input", "Mask2Former": "compares what is computed",
        "Vocos": "places that are computed", "ModernNCA": "differs from sample to sample",
        "Wukong": "bags of sizes", "TD-MPC2": "places that are computed"})


def test_refused(models, words):
    for name, make in models.items():
        module, inputs, options = make()
        said = refusal(module, inputs, **options)
        tap.say(words[name] in said and "\n" not in said, f"refused: {name}", [said])


def test_large():
    """What cannot be held: masks of many samples, parameters, a table a layer."""
    made = export(Angles(), (torch.randn(2, 200, 100), torch.randn(2, 200, 100)))
    tap.say(made.graph.count('"constant"') == 1 and len(made.graph) < 400_000, "a table is written once",
            [len(made.graph)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = export(Hidden(), (torch.randn(2, 512, 8), torch.randn(2, 512, 8)), batch=1 << 14)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10
    nodes = [n["op"] for n in json.loads(made.graph)["nodes"]]
    tap.say(more < 1000 and "constant" not in nodes, "a mask for all samples takes no memory", [more, nodes])
    with ffsoap_torch.without_weights():
        bare, inputs = modules.MODELS["GPT, tied"]()
    tap.say(all(p.is_meta for p in bare.parameters()), "parameters without memory")
    made, whole = export(bare, inputs), export(*modules.MODELS["GPT, tied"]())
    tap.say((made.graph, made.map) == (whole.graph, whole.map), "the graph is that of the module with weights")
    try:
        made.write("graph.json", "weights")
        said = "they were written"
    except Refused as why:
        said = str(why)
    tap.say("made without weights" in said, "weights that are not there", [said])
    with torch.device("meta"):
        said = refusal(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 5)), (torch.randn(4, 6),))
    tap.say("buffer 0.running_mean is on the meta device" in said, "buffers without numbers", [said])


class Timed(nn.Linear):
    def __init__(self):
        super().__init__(3, 5)

    def forward(self, x, steps):
        return super().forward(x * steps[:, None].float().sin())


# ---- what is drawn ----

class Depth(nn.Module):
    """Stochastic depth as torchvision has it."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        noise = torch.empty([x.shape[0]] + [1] * (x.dim() - 1)).bernoulli_(1 - self.p)
        noise.div_(1 - self.p)
        return x * noise


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.depth = nn.Conv2d(3, 6, 3), nn.Dropout(0.3), Depth(0.4)
        self.channels, self.last = nn.Dropout2d(0.5), nn.Linear(6, 5)

    def forward(self, x):
        x = self.drop(torch.tanh(self.first(x)))
        x = self.channels(x + self.depth(x))
        return self.last(x.mean((2, 3)))


class Kept(nn.Module):
    """Of what ffrun keeps in its first step."""

    def __init__(self, number, p, axes):
        super().__init__()
        self.number, self.p, self.axes = number, p, axes

    def forward(self, x):
        shape = [n if i < self.axes else 1 for i, n in enumerate(x.shape)]
        return x * kept(1, self.number, 0, shape, self.p) / (1 - self.p)


def test_draws():
    module = Drawn()

    def prepare(step):
        numbers = reference.numbers(step.graph)
        for node in step.graph["nodes"]:
            if node["op"] == "dropout":
                name = step.map["operators"][node["name"]]["module"]
                axes = {"drop": 4, "depth": 1, "channels": 2}[name]
                own = getattr(module, name).p
                tap.say(abs(node["p"] - own) < 1e-6 and (node.get("per") == "sample") == (axes == 1),
                        f"{name}: {node['p']}")
                setattr(module, name, Kept(numbers[node["name"]], own, axes))
    compare("dropout of elements, of channels, of samples", module, torch.randn(8, 3, 6, 6), prepare)


PARTS = {
    "models": test_models, "more": test_more, "hand": test_hand, "language": test_language, "others": test_others,
    "newest": test_newest, "fields": test_fields, "learning": test_learning, "shapes": test_shapes, "wide": test_wide,
    "pictures": test_pictures, "texts": test_texts, "images": test_images, "agents": test_agents, "draws": test_draws,
    "recent": test_recent, "seen": test_seen, "various": test_various, "latest": test_latest, "applied": test_applied,
    "operators": exported_operators.test_operators, "losses": exported_operators.test_losses,
    "refusals": exported_refusals.test_refusals, "command": exported_command.test_command}
PARTS[sys.argv[1]]()
tap.end()
