# Losses of several steps as PyTorch's optimizers have them.
# SPDX-License-Identifier: Apache-2.0
import fnmatch

from pytorch import torch
from reference import Network, parameter, parameters

# Of parameters, or of groups of them with settings of their own.
OPTIMIZERS = {
    "sgd": lambda weights, rate=0.01, decay=0.0:
        torch.optim.SGD(weights, rate, weight_decay=decay),
    "momentum": lambda weights, rate=0.01, momentum=0.9, decay=0.0:
        torch.optim.SGD(weights, rate, momentum, weight_decay=decay),
    "nesterov": lambda weights, rate=0.01, momentum=0.9, decay=0.0:
        torch.optim.SGD(weights, rate, momentum, weight_decay=decay, nesterov=True),
    "adam": lambda weights, rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0:
        torch.optim.Adam(weights, rate, (beta1, beta2), epsilon, decay),
    "adamw": lambda weights, rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.01:
        torch.optim.AdamW(weights, rate, (beta1, beta2), epsilon, decay),
}

# What a group's settings are called there.
SETTINGS = {"rate": "lr", "decay": "weight_decay", "momentum": "momentum", "epsilon": "eps"}


def kinds_of(graph):
    """The kinds of every parameter by name."""
    kinds = {}
    for node in graph["nodes"]:
        for name in parameters(node):
            kinds.setdefault(parameter(node, name), [kind for kind, is_it in (
                ("bias", name == "bias"), ("norm", node["op"].endswith("_norm"))) if is_it])
    return kinds


def groups_of(net, rules, rate):
    """One group a parameter, by the rules SELECT:NAME=VALUE,... that hold for it."""
    kinds, groups = kinds_of(net.graph), []
    for name, weight in net.weights.items():
        group, factor = {"params": [weight]}, 1
        for rule in rules:
            select, _, settings = rule.rpartition(":")
            if not any(word in kinds[name] or word not in ("bias", "norm") and
                       fnmatch.fnmatchcase(name, word) for word in select.split(",")):
                continue
            for key, _, value in (setting.partition("=") for setting in settings.split(",")):
                if key == "factor":
                    factor = float(value)
                else:
                    group[SETTINGS[key]] = float(value)
        if factor != 1:
            group["lr"] = group.get("lr", rate) * factor
        groups.append(group)
    return groups


def scheduler(optimizer, steps, schedule="constant", ramp=0, ramp_from=1 / 3, step_size=1, gamma=0.1,
              floor=0.0):
    """PyTorch's, to be asked after each step."""
    kinds = torch.optim.lr_scheduler
    made = {"constant": lambda: kinds.LambdaLR(optimizer, lambda step: 1.0),
            "step": lambda: kinds.StepLR(optimizer, step_size, gamma),
            "cosine": lambda: kinds.CosineAnnealingLR(optimizer, steps - ramp, floor)}[schedule]()
    if not ramp:
        return made
    return kinds.SequentialLR(optimizer, [kinds.LinearLR(optimizer, ramp_from, 1, ramp), made],
                              [ramp])


SCHEDULED = ("schedule", "ramp", "ramp_from", "step_size", "gamma", "floor")


def trained_losses(graph, tensors, batches, seed=1, optimizer="momentum", test=None, groups=(),
                   rates=None, clip=None, staleness=0, **settings):
    """The loss of each step of PyTorch's optimizer on `batches`, one after the other; then the
    one of `test`, if there is such a batch, without training.  `rates` gets the first
    parameter's rates.  Gradients are applied `staleness` steps late, the last ones not at all."""
    net = Network(graph, tensors, seed)
    told = {key: settings.pop(key) for key in SCHEDULED if key in settings}
    net.sparse = optimizer == "sgd" and not settings.get("decay")  # others of PyTorch's refuse it
    weights = net.weights.values()
    if groups:
        preset = OPTIMIZERS[optimizer](weights, **settings).defaults["lr"]
        weights = groups_of(net, groups, preset)
    optimizer = OPTIMIZERS[optimizer](weights, **settings)
    schedule = scheduler(optimizer, len(batches), **told)
    losses, waiting = [], []
    for step, inputs in enumerate(batches):
        if rates is not None:
            rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss = net.forward(inputs, step)
        net.backward(loss)
        waiting.append([w.grad.clone() for w in net.weights.values()])
        if step >= staleness:
            for w, due in zip(net.weights.values(), waiting.pop(0)):
                w.grad = due
            if clip:
                torch.nn.utils.clip_grad_norm_(net.weights.values(), clip)
            optimizer.step()
        schedule.step()
        losses.append(float(loss))
    if test:
        net.training = False
        losses.append(float(net.forward(test)))
    return losses


def averaged_losses(graph, tensors, batches, seed, every, ranks, optimizer="momentum", **settings):
    """The same of `ranks` networks, each with its share of the samples and their mean loss by how
    many they are of an even share; after `every` steps, and the last, all that they have becomes
    its mean."""
    nets = [Network(graph, tensors, seed) for _ in range(ranks)]
    optimizers = [OPTIMIZERS[optimizer](net.weights.values(), **settings) for net in nets]
    losses = []
    for step, inputs in enumerate(batches):
        samples = len(next(iter(inputs.values())))
        total = first = 0
        for i, (net, own) in enumerate(zip(nets, optimizers)):
            end = first + samples // ranks + (i < samples % ranks)
            own.zero_grad()
            loss = net.forward({name: x[first:end] for name, x in inputs.items()}, step)
            loss = loss * ((end - first) / samples)
            (loss * ranks).backward()
            own.step()
            total += float(loss)
            first = end
        losses.append(total)
        if (step + 1) % every and step + 1 < len(batches):
            continue
        with torch.no_grad():
            for same in zip(*(net.weights.values() for net in nets)):
                mean = sum(w.clone() for w in same) / ranks
                states = [own.state[w] for own, w in zip(optimizers, same)]
                for w in same:
                    w.copy_(mean)
                for key in states[0]:
                    if torch.is_tensor(states[0][key]) and states[0][key].shape == mean.shape:
                        between = sum(s[key].clone() for s in states) / ranks
                        for s in states:
                            s[key].copy_(between)
    return losses
