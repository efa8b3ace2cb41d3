# Several steps beside PyTorch's: rates, runs that go on, norms that are kept, accuracy.
# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import struct

import graphs
import philox
import reference
import strategies
import training
from case import Case, computes_bfloat16, in_bfloat16, options_of, tap
from pytorch import np, torch
from reference import TOLERANCE
from splits import in_phases
from updates import updates


def write_idx(path, array):
    head = struct.pack(f">I{array.ndim}I", 0x800 | array.ndim, *array.shape)
    path.write_bytes(head + array.tobytes())


def write_images(folder, samples):
    """A small data set in the four files of MNIST; its images as the network sees
    them, and its labels."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 10, samples, np.uint8)
    classes = rng.integers(0, 256, (10, 28, 28))
    images = np.clip(classes[labels] + rng.normal(0, 60, (samples, 28, 28)), 0, 255)
    images = images.astype(np.uint8)
    for prefix, n in (("train", samples), ("t10k", 5)):
        write_idx(folder / f"{prefix}-images-idx3-ubyte", images[:n])
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels[:n])
    grey = images / 255.0
    return ((grey - grey.mean()) / grey.std())[:, None], labels


# What it is as if a setting were not there, unless 0.
WITHOUT = {"epsilon": 1e-8, "momentum": 1e-12, "schedule": "constant", "ramp_from": 1.0, "step_size": 99, "gamma": 1.0,
           "groups": ()}


def train(name, zoo, seed, steps, **settings):
    """Training on files whose content is known, over several epochs."""
    case = Case(name, seed).zoo(*zoo)
    samples, labels = write_images(case.folder, 37)
    losses = case.run(data=case.folder, steps=steps, options=options_of(settings))
    if losses is None:
        return
    batch = case.graph["nodes"][0]["shape"][0]
    shuffle = philox.Shuffle(37, seed)
    order = [shuffle.batch(step, batch) for step in range(steps)]
    batches = [{"data": samples[o], "labels": labels[o]} for o in order]
    first = reference.inputs_of(case.tensors)
    most = 2.0 ** -8 if case.graph.get("dtype") == "bfloat16" else 1e-6
    tap.say(np.array_equal(first["labels"], batches[0]["labels"]) and
            reference.distance(first["data"], batches[0]["data"]) < most, f"{name}: first batch")
    rates = []
    want = case.check_losses(losses, batches, rates=rates, **settings)
    report = json.loads((case.folder / "report").read_text())
    if "groups" not in settings:
        tap.say(np.allclose(report["rate"], rates, rtol=1e-12), f"{name}: rates",
                [f"{report['rate']}, expected {rates}"])
    # each must matter, or the case shows nothing of it: PyTorch's own, whatever ffrun was built with
    for key in settings if reference.SHARE == 1 else ():
        if key not in ("rate", "optimizer"):
            other = dict(settings, **{key: WITHOUT.get(key, 0)})
            losses = training.trained_losses(case.graph, case.tensors, batches, seed, **other)
            apart = max(reference.distance(a, b) for a, b in zip(losses, want))
            tap.say(apart > 10 * TOLERANCE, f"{name}: {key} matters",
                    [f"without it losses are apart by {apart:.2g}"])


# Each beside what it leaves to presets; ramps that end where the run does, falls that never come,
# floors above the rate.
SCHEDULES = [
    {}, {"ramp": 7}, {"ramp": 30, "ramp_from": 0.125}, {"ramp": 1, "ramp_from": 1},
    {"schedule": "constant", "ramp": 12, "ramp_from": 0.01},
    {"schedule": "step", "step_size": 1, "gamma": 0.9}, {"schedule": "step", "step_size": 7},
    {"schedule": "step", "step_size": 29, "gamma": 0.5}, {"schedule": "step", "step_size": 99},
    {"schedule": "step", "step_size": 4, "gamma": 2, "ramp": 3},
    {"schedule": "step", "step_size": 6, "gamma": 0, "ramp": 10, "ramp_from": 0.5},
    {"schedule": "cosine"}, {"schedule": "cosine", "floor": 0.004},
    {"schedule": "cosine", "floor": 0.3}, {"schedule": "cosine", "ramp": 29},
    {"schedule": "cosine", "floor": 0.001, "ramp": 5, "ramp_from": 0.1},
    {"schedule": "cosine", "ramp": 13, "ramp_from": 1}]


def test_rates():
    """The rate of every step."""
    steps, rate = 30, 0.0625
    case = Case("rates", 1).zoo("mlp", "--batch", "2", "--set", "image=4", "--set", "hidden=2")
    for told in reference.shared(SCHEDULES):
        case.name = "rates, " + (", ".join(f"{key} {value}" for key, value in told.items()) or "no schedule")
        if case.run(steps=steps, options=options_of(dict(told, rate=rate))) is None:
            continue
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], rate)
        schedule, want = training.scheduler(optimizer, steps, **told), []
        for _ in range(steps):
            want.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        rates = json.loads((case.folder / "report").read_text())["rate"]
        tap.say(len(rates) == steps and np.allclose(rates, want, rtol=1e-12, atol=1e-15), case.name,
                [f"{want[0]:g} to {want[-1]:g}, apart by {np.abs(np.subtract(rates, want)).max():.2g}"])


def check_resumed(name, zoo, steps, at, devices=1, kind="following", **settings):
    """Gone on with after `at` of the steps: losses and rates of the others are those of PyTorch,
    which did not stop."""
    case = Case(f"{name}, gone on with after {at} steps", 3).zoo(*zoo)
    samples, labels = write_images(case.folder, 37)
    kept = case.folder / "kept"
    if case.run() is None:
        return
    strategy = updates(case, kind, devices) if devices > 1 else "single"
    options = [*options_of(settings), "--checkpoint", kept, "--resume", "--every", str(at), "--keep", "99"]
    if case.run(strategy, devices, case.folder, steps, options=options) is None:
        return
    shuffle, batch = philox.Shuffle(37, 3), case.graph["nodes"][0]["shape"][0]
    order = [shuffle.batch(step, batch) for step in range(steps)]
    rates = []
    want = training.trained_losses(case.graph, case.tensors, [
        {"data": samples[o], "labels": labels[o]} for o in order], 3, rates=rates, **settings)
    (kept / f"checkpoint-{at:010}.safetensors").replace(kept / "checkpoint.safetensors")
    losses = case.run(strategy, devices, case.folder, steps, options=options)
    if losses is None:
        return
    report = json.loads((case.folder / "report").read_text())
    tap.say(report["first_step"] == at and len(losses) == steps - at, f"{case.name}: the others only")
    apart = max(reference.distance(a, b) for a, b in zip(losses, want[at:]))
    tap.say(apart <= TOLERANCE, f"{case.name}: losses", [f"apart by {apart:.2g}"])
    if not any("rate" in rule or "factor" in rule for rule in settings.get("groups", ())):
        tap.say(np.allclose(report["rate"], rates[at:], rtol=1e-12), f"{case.name}: rates",
                [f"{report['rate']}, expected {rates[at:]}"])


def test_resumed_schedules():
    """In the ramp, at its end, behind it; groups with rates of their own; states in parts."""
    lenet = ["lenet", "--batch", "12"]
    ramp = {"ramp": 4, "ramp_from": 0.125}
    cosine = {"rate": 0.05, "momentum": 0.5, "schedule": "cosine", "floor": 0.01}
    groups = {"groups": ["bias:decay=0", "fc*:factor=3", "conv1.*:rate=0.02"]}
    cases = [("lenet, cosine behind a ramp", 2, 1, "following", dict(cosine, **ramp)),
             ("lenet, cosine behind a ramp", 4, 1, "following", dict(cosine, **ramp)),
             ("lenet, cosine behind a ramp", 7, 2, "following", dict(cosine, **ramp)),
             ("lenet, cosine by groups", 5, 1, "following", dict(cosine, **ramp, **groups)),
             ("lenet, steps by groups in parts", 5, 3, "in parts", dict(
                 ramp, optimizer="adamw", rate=0.002, decay=0.5, schedule="step", step_size=2,
                 gamma=0.3, groups=["bias:decay=0", "fc*:factor=3"]))]
    for name, at, devices, kind, settings in reference.shared(cases):
        check_resumed(name, lenet, 9, at, devices, kind, **settings)


NORMS_BY_HAND = {"norm": ({"channel": 2, "height": 2}, [3, 1, 2, 0]),
                 "norm2": ({"channel": 3}, [0, 1, 2]), "norm3": ({"sample": 3}, [2, 1, 0])}

# Of 12 samples: by three and four, and copies of parts.
NORMS_CUT = {"norm": ({"sample": 3}, [3, 1, 2]), "norm2": ({"sample": 4}, [1, 0, 3, 2]),
             "norm3": ({"sample": 2}, [2, 1, 0, 3], 2)}


def of_groups(samples):
    """With this epsilon the norm of two numbers is more than their order."""
    return {"sync": False, "group": samples, "epsilon": 1}


def without_training(of, plans):
    """Behind some steps, batch norms normalise by what they have kept, on one device and when
    parts of the batch and of the channels keep it; `of`: the samples of their statistics."""
    case = Case("digits", 3).made(graphs.digits(**of))
    samples, labels = write_images(case.folder, 37)
    steps, settings = 6, {"rate": 0.05, "momentum": 0.5}
    options = ["--test"] + [str(x) for key, value in settings.items() for x in (f"--{key}", value)]
    shuffle = philox.Shuffle(37, 3)
    order = [shuffle.batch(step, 12) for step in range(steps)]
    batches = [{"data": samples[o], "labels": labels[o]} for o in order]
    # the test set is as many of the first as a batch has
    test = {"data": samples[:12], "labels": np.where(np.arange(12) < 5, labels[:12].astype(np.int16), -1)}
    for name, devices, strategy in plans(case):
        case.name = f"digits, norms of {of.get('group', 'all')}, {name} on {devices} devices"
        losses = case.run(strategy, devices, case.folder, steps, options=options)
        if losses is None:
            continue
        case.check()
        want = training.trained_losses(case.graph, case.tensors, batches, 3, test=test, **settings)
        report = json.loads((case.folder / "report").read_text())
        apart = max(reference.distance(a, b) for a, b in zip(losses, want))
        tap.say(apart <= TOLERANCE, f"{case.name}: losses of {steps} steps",
                [f"apart by {apart:.2g}"])
        apart = reference.distance(report["test_loss"], want[-1])
        tap.say(apart <= TOLERANCE, f"{case.name}: loss without training",
                [f"{report['test_loss']:.4f}, apart by {apart:.2g}"])
        apart = reference.distance(report["perplexity"], np.exp(want[-1]))
        tap.say(apart <= 10 * TOLERANCE, f"{case.name}: perplexity", [f"apart by {apart:.2g}"])


def test_without_training():
    def by_hand(case):
        text, known = case.path.read_text(), case.hash()
        yield from (("single", 1, "single"), ("data-parallel", 3, "data-parallel"))
        for name, cut in (("by hand", NORMS_BY_HAND), ("by samples", NORMS_CUT)):
            yield name, 4, strategies.strategy(text, 4, cut, known)

    def in_micro_batches(case):
        text, known = case.path.read_text(), case.hash()
        for devices, micro, order, stages, recomputed in reference.shared(
                [(1, 2, "gpipe", 1, ()), (2, 3, "1f1b", 2, (1, 2, 4)), (4, 2, "1f1b", 2, range(99)),
                 (3, 6, "gpipe", 3, ())]):
            made = in_phases(text, devices, micro, order, stages, recomputed)
            yield f"{micro} micro-batches, {order}", devices, dict(made, graph_hash=known)
        yield "3 micro-batches, by hand", 4, dict(strategies.strategy(text, 4, {
            **{n["name"]: ({}, [i % 4]) for i, n in enumerate(case.graph["nodes"])
               if n["op"] != "input"}, "norm": ({"sample": 3}, [2, 0, 1]),
            "norm2": ({"channel": 2}, [0, 1, 2, 3], 2)}, known), micro_batches=3, order="1f1b")

    without_training({}, by_hand)
    for group in (5, 2, 4):  # parts cut groups, or have them whole
        without_training(of_groups(group), by_hand)
    without_training(of_groups(2), in_micro_batches)


def top_graph():
    """Words of 11 classes, labels that do not count among them."""
    return {"format": "ffsoap-graph", "version": 2, "name": "top", "nodes": [
        {"name": "data", "op": "input", "shape": [12, 5, 6]},
        {"name": "label", "op": "input", "shape": [12, 5], "dtype": "int32", "classes": 11},
        {"name": "fc", "op": "linear", "in": ["data"], "out_features": 11},
        {"name": "turn", "op": "transpose", "in": ["fc"], "perm": [0, 2, 1]},
        {"name": "loss", "op": "softmax_cross_entropy", "in": ["turn", "label"]}]}


def test_top():
    """Labels among the K largest logits as torch.topk has them, however the loss is cut."""
    rng = np.random.default_rng(5)
    cuts = [("single", 1, None), ("by sample", 3, ({"sample": 3}, [2, 0, 1])),
            ("by class", 3, ({"class": 3}, [0, 2, 1])),
            ("by class and place", 4, ({"class": 2, "axis2": 2}, [3, 1, 2, 0])),
            ("by class and sample, replicas", 4, ({"class": 2}, [0, 1, 2, 3], 2)),
            ("by class in micro-batches", 2, ({"class": 2}, [1, 0]))]
    for graph in [top_graph()] + [in_bfloat16(top_graph())] * computes_bfloat16():
        case = Case("top", 3).made(graph)
        arrays = {}
        for kind, samples in (("train", 12), ("test", 29)):
            arrays[kind] = {"data": rng.standard_normal((samples, 5, 6)).astype(np.float32),
                            "label": rng.integers(-1, 11, (samples, 5)).astype(np.int32)}
            np.savez(case.folder / f"{kind}.npz", **arrays[kind])
        known = case.hash()
        for k, (name, devices, cut) in reference.shared(itertools.product((1, 5, 10, 11), cuts)):
            strategy = "single"
            if cut:
                strategy = strategies.strategy(case.path.read_text(), devices, {"loss": cut}, known)
            if "micro" in name:
                strategy = dict(strategy, micro_batches=2, order="gpipe")
            case.name = f"top {k} of {graph.get('dtype', 'float32')}, {name}"
            if case.run(strategy, devices, case.folder, 1,
                        options=["--rate", "0", "--decay", "0", "--test", "--top", str(k)]) is None:
                continue
            report = json.loads((case.folder / "report").read_text())
            net = reference.Network(case.graph, case.tensors, 3)
            hits = valid = 0
            for i in range(0, 29, 12):  # the last batch of the test set is not full
                part = {key: value[i:i + 12] for key, value in arrays["test"].items()}
                net.forward(part)
                logits, label = net.value["turn"], torch.from_numpy(part["label"]).long()
                best = torch.topk(logits, k, 1).indices
                hits += int(((best == label[:, None]).any(1)).sum())
                valid += int((label >= 0).sum())
            if k == 11:
                tap.say(report["top_accuracy"] is None, f"{case.name}: all are among so many")
                continue
            tap.say(abs(report["top_accuracy"] - hits / valid) < 1e-6, case.name,
                    [f"{report['top_accuracy']:.4f}, expected {hits / valid:.4f}"])
            tap.say(k > 1 or abs(report["top_accuracy"] - report["accuracy"]) < 1e-6,
                    f"{case.name}: that of one is the accuracy")


def test_sparse():
    """Tables with few ids in a step, beside torch.nn.Embedding(sparse=True), and where that is none."""
    zoo = ["dlrm", "--batch", "6", "--set", "tables=4", "--set", "rows=200", "--set", "features=5"]
    for told in ({"optimizer": "sgd", "rate": 0.5}, {"optimizer": "sgd", "rate": 0.5, "decay": 0.1},
                 {"optimizer": "momentum", "rate": 0.2, "momentum": 0.5}):
        for devices in (1, 2):
            case = Case("dlrm, " + ", ".join(f"{key} {value}" for key, value in told.items()), 5).zoo(*zoo)
            if case.run() is None:
                continue
            strategy = updates(case, "following", devices) if devices > 1 else "single"
            losses = case.run(strategy, devices, steps=5, options=options_of(told))
            if losses is not None:
                case.name += f", {devices} devices"
                case.check_losses(losses, case.same_samples(5), **told)


def test_steps():
    test_sparse()
    test_without_training()
    test_top()
    test_rates()
    test_resumed_schedules()
    train("lenet", ["lenet", "--batch", "12"], 3, 8, rate=0.03, momentum=0.9, decay=0.02)
    train("lenet, cosine", ["lenet", "--batch", "12"], 4, 6, rate=0.05, momentum=0.5, decay=0.02,
          schedule="cosine")
    train("alexnet for 28x28", ["alexnet", "--batch", "9", "--set", "image=28"], 5, 5, rate=0.003,
          momentum=0.9, decay=0.5)
    lenet = ["lenet", "--batch", "12"]
    train("lenet, sgd", lenet, 3, 8, optimizer="sgd", rate=0.05, decay=0.02)
    train("lenet, sgd, cosine", lenet, 4, 6, optimizer="sgd", rate=0.1, schedule="cosine")
    train("lenet, adamw", lenet, 3, 8, optimizer="adamw")
    train("lenet, adamw with all settings", lenet, 4, 8, optimizer="adamw", rate=0.002, beta1=0.8,
          beta2=0.95, epsilon=0.01, decay=0.5, schedule="cosine")
    train("lenet, nesterov", lenet, 3, 8, optimizer="nesterov", rate=0.02, momentum=0.7, decay=0.05,
          schedule="step", step_size=3, gamma=0.3)
    train("lenet, adam", lenet, 4, 8, optimizer="adam", rate=0.002, beta1=0.8, beta2=0.95,
          epsilon=0.01, decay=0.1, ramp=3)
    train("lenet, cosine behind a ramp", lenet, 5, 9, rate=0.05, momentum=0.5, schedule="cosine",
          floor=0.01, ramp=4, ramp_from=0.125)
    train("lenet, steps behind a ramp", lenet, 5, 9, rate=0.05, momentum=0.5, schedule="step",
          step_size=2, gamma=0.5, ramp=2)
    train("lenet, groups", lenet, 3, 8, optimizer="adamw", rate=0.002, decay=0.5, schedule="cosine",
          groups=["bias:decay=0", "fc*:factor=3", "fc3.*,conv1.weight:rate=0.005,epsilon=0.001"])
    train("lenet, groups, cosine to a floor behind a ramp", lenet, 3, 12, rate=0.02, momentum=0.5,
          schedule="cosine", floor=0.01, ramp=3, ramp_from=0.25, groups=["fc*:factor=0.25", "conv1.*:rate=0.1"])
    train("lenet, groups, steps behind a ramp", lenet, 3, 9, rate=0.02, momentum=0.5,
          schedule="step", step_size=2, gamma=0.5, ramp=3, groups=["fc*:factor=4", "conv1.*:rate=0.1"])
    train("alexnet for 28x28, adamw", ["alexnet", "--batch", "9", "--set", "image=28"], 5, 5,
          optimizer="adamw", rate=0.0003, decay=1)
