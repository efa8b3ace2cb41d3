# A training step of a graph as PyTorch's eager mode has it, with cuDNN's autotuning, images as they
# stand or channels last, whichever is faster.
# Usage: eager.py GRAPH STEPS OUT cpu|cuda [compile]: the last measures its compiled step, too.  Parameters and gradients float32, TF32 off; a graph
# in bfloat16 computes under autocast.  Times with the batch copied from pinned memory, and with
# the batch on the device.  SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "torch"))
import operators  # noqa: E402  (by name)
import reference  # noqa: E402

WARMUP = 10


def drop(net, node, x):
    return F.dropout(x, node.get("p", 0.5))


def attend(net, node, *ins):
    """Queries, keys and values, no mask of its own."""
    heads = (x.unflatten(-1, (-1, node["head_dim"])).transpose(1, 2) for x in ins)
    out = F.scaled_dot_product_attention(*heads, is_causal=node.get("causal", False), scale=node.get("scale") or None)
    return out.transpose(1, 2).flatten(-2)


def look_up(net, node, ids):
    return F.embedding(ids, net.weight(node, "weight"))


def cross_entropy(net, node, x, labels):
    """Of rows of classes, as one writes it: where those are axis 1 of a view only, that is undone."""
    if x.dim() > 2 and x.movedim(1, -1).is_contiguous():
        x, labels = x.movedim(1, -1).flatten(0, -2), labels.flatten()
    return operators.softmax_cross_entropy(net, node, x, labels)


OPERATORS = dict(operators.OPERATORS, dropout=drop, attention=attend, embedding=look_up,
                 softmax_cross_entropy=cross_entropy)


class Network(torch.nn.Module):
    """Weights appear in the first forward pass, which knows the shapes."""

    def __init__(self, graph, device, last):
        super().__init__()
        self.graph, self.device, self.last = graph, device, last
        self.weights, self.reading = {}, None
        self.kept = {}  # by batch norm

    def weight(self, node, name):
        known = reference.parameter(node, name)
        if known not in self.weights:
            shape = self.shape(node, name)
            # small: what is measured is time
            fresh = torch.randn(shape, device=self.device) * 0.02
            self.weights[known] = laid_out(fresh, self.last).requires_grad_()
        return self.weights[known]

    def shape(self, node, name):
        if node["op"] == "batch_norm":
            return (self.reading.shape[1],)
        if node["op"] == "layer_norm":
            return self.reading.shape[-node.get("axes", 1):]
        if node["op"] == "embedding":
            return (node["vocabulary"], node["features"])
        if "shape" in node:
            return node["shape"]
        wide = node["out_channels"] if node["op"].startswith("conv") else node["out_features"]
        if name == "bias":
            return (wide,)
        if node["op"].startswith("conv"):
            deep = self.reading.shape[1] // node.get("groups", 1)
            return (wide, deep, *operators.numbers_of(node, "kernel", self.reading, 1))
        return (wide, self.reading.shape[-1])

    def forward(self, inputs):
        value = dict(inputs)
        for node in self.graph["nodes"]:
            if node["op"] == "input":
                continue
            ins = [value[i] for i in node["in"]]
            self.reading = ins[0]
            out = OPERATORS[node["op"]](self, node, *ins)
            outs = out if isinstance(out, tuple) else (out,)
            value.update((f"{node['name']}#{i}", x) for i, x in enumerate(outs))
            value[node["name"]] = outs[0]
        return value[self.graph["nodes"][-1]["name"]]


def laid_out(x, last):
    return x.contiguous(memory_format=torch.channels_last) if last and x.dim() == 4 else x


def batch_of(graph, pinned, last):
    """Input nodes' arrays in host memory."""
    batch = {}
    for node in graph["nodes"]:
        if node["op"] != "input":
            continue
        if node["dtype"] == "int32":
            x = torch.randint(node["classes"], node["shape"])
        else:
            x = torch.randn(node["shape"])
        x = laid_out(x, last)
        batch[node["name"]] = x.pin_memory() if pinned else x
    return batch


class Trainer:
    def __init__(self, graph, device, last):
        self.net, self.device = Network(graph, device, last), device
        self.batch = batch_of(graph, device == "cuda", last)
        self.half = graph.get("dtype") == "bfloat16"
        with torch.no_grad():
            self.forward(self.batch)  # makes the weights
        more = {"foreach": True} if device == "cuda" else {}
        self.optimizer = torch.optim.SGD(self.net.weights.values(), 0.01, 0.9, **more)

    def forward(self, batch):
        inputs = {name: x.to(self.device, non_blocking=True) for name, x in batch.items()}
        with torch.autocast(self.device, torch.bfloat16, enabled=self.half):
            return self.net(inputs)

    def step(self, batch):
        """Its loss, for which it waits, as ffrun does."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(batch)
        loss.backward()
        self.optimizer.step()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return float(loss.detach())

    def median_us(self, batch, steps):
        times = []
        for _ in range(WARMUP * (self.device == "cuda") + 1 + steps):
            begin = time.perf_counter()
            loss = self.step(batch)
            times.append((time.perf_counter() - begin) * 1e6)
            if loss != loss:
                sys.exit("the loss is no number")
        return statistics.median(times[-steps:])


def measure(graph, steps, device, last):
    trainer = Trainer(graph, device, last)
    copied = trainer.median_us(trainer.batch, steps)
    resident = {name: x.to(device) for name, x in trainer.batch.items()}
    return {"copied_us": copied, "resident_us": trainer.median_us(resident, steps), "channels_last": last}


def compiled_us(graph, steps, device, last):
    trainer = Trainer(graph, device, last)
    trainer.net.compile()
    return trainer.median_us({name: x.to(device) for name, x in trainer.batch.items()}, steps)


def main(path, steps, out, device, *more):
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with open(path, encoding="utf-8") as f:
        graph = json.load(f)
    has_images = any(node["op"] == "input" and len(node["shape"]) == 4 for node in graph["nodes"])
    ways = [measure(graph, int(steps), device, last) for last in ((False, True) if has_images else (False,))]
    times = dict(min(ways, key=lambda w: w["resident_us"]), torch=torch.__version__)
    if "compile" in more:
        times["compiled_us"] = compiled_us(graph, int(steps), device, times["channels_last"])
    with open(out, "w", encoding="utf-8") as f:
        json.dump(times, f)


if __name__ == "__main__":
    main(*sys.argv[1:])
