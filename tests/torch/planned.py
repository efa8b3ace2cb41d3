# A model trained as plans say in four processes of PyTorch, in one, and by ffrun: losses, weights, step times.
# Needs PyTorch 2.11 or newer.  SPDX-License-Identifier: Apache-2.0
import json
import multiprocessing
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time
import traceback
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
import numpy as np
import torch
from torch import distributed

from ffsoap_torch import apply
from ffsoap_torch.export import export
from ffsoap_torch.plans import rules
from ffsoap_torch.plans.apply import program_of
from ffsoap_torch.plans.layout import is_item, operands_of, shapes_of

from plan_models import MODELS

RATE, MOMENTUM, DEVICES = 0.05, 0.9, 4

# By name what ffsearch makes a plan from: --simulate's names, or a search.
PLANS = {
    "data": ["--simulate", "data-parallel"],
    "tensor": ["--simulate", "megatron:4,1,1,1"],
    "data x tensor, zero-1": ["--simulate", "megatron:2,2,1,1,zero-1"],
    "fully sharded": ["--simulate", "zero-3"],
    "pipeline 2 x 2": ["--simulate", "megatron:1,2,2,4"],
    "found": ["--proposals", "3000", "--seed", "1"],
}


class Model:
    """Its graph, weights, map and data in a folder.  PyTorch computes in `type`, ffrun in float32."""

    def __init__(self, name, folder, type=torch.float32):
        self.name, self.folder, self.type = name, pathlib.Path(folder), type
        module, self.inputs, *options = MODELS[name]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.export's, of an LSTM's attributes
            made = export(module, self.inputs, **(options[0] if options else {}))
        made.write(self.path("graph.json"), self.path("weights"), self.path("map.json"))
        names = json.loads(made.map)["inputs"]
        given = dict(zip(made.program.graph_signature.user_inputs, self.inputs))
        arrays = {name: given[i["input"]].numpy() for name, i in names.items()}
        np.savez(self.path("data.npz"), **{k: a.astype("i4" if a.dtype.kind == "i" else "f4")
                                           for k, a in arrays.items()})

    def path(self, name):
        return self.folder / name

    def make(self):
        """The module and a batch."""
        module, inputs = MODELS[self.name]()[:2]
        return module.to(self.type), [x.to(self.type) if x.is_floating_point() else x for x in inputs]

    def plan(self, ffsearch, *options, machine="cpu4"):
        """A strategy file, as a dict; a sentence where there is none."""
        done = subprocess.run([ffsearch, self.path("graph.json"), "--machine", machine, "--costs", "peak", *options,
                               "-o", self.path("plan.json")], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()
        return json.loads(self.path("plan.json").read_text())

    def ffrun(self, ffrun, plan, steps):
        """Losses, weights, the median step in ms; a sentence where it fails."""
        self.path("plan.json").write_text(json.dumps(plan))
        done = subprocess.run([ffrun, self.path("graph.json"), self.path("plan.json"), "--data",
                               f"numpy:{self.path('data.npz')}", "--steps", str(steps), "--weights",
                               self.path("weights"), "--rate", str(RATE), "--momentum", str(MOMENTUM), "--optimizer",
                               "momentum", "--save", self.path("saved"), "--report", self.path("report"),
                               "--device", "cpu"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            return done.stderr.strip()
        report = json.loads(self.path("report").read_text())
        return report["loss"], self.by_torch(), report["step_us"]["median"] / 1e3

    def by_torch(self):
        """The weights that ffrun saved, by the module's names."""
        raw = self.path("saved").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        head, found = json.loads(raw[8:8 + size]), {}
        for p, what in json.loads(self.path("map.json").read_text())["parameters"].items():
            if {"transpose", "rows"} & set(what):
                continue
            begin, end = (8 + size + n for n in head[p]["data_offsets"])
            x = np.frombuffer(raw[begin:end], "f4").reshape(head[p]["shape"])
            for name in what["names"]:
                found[name] = torch.from_numpy(x.reshape(what.get("shape", x.shape)).copy())
        return found

    # ---- PyTorch ----

    def train(self, step, parameters, steps):
        update = torch.optim.SGD(parameters, RATE, MOMENTUM)
        losses, times = [], []
        for i in range(steps):
            torch.manual_seed(i)
            begin = time.perf_counter()
            update.zero_grad()
            losses.append(float(step().detach()))
            update.step()
            times.append((time.perf_counter() - begin) * 1e3)
        return losses, statistics.median(times[1:])

    def alone(self, steps):
        module, inputs = self.make()

        def step():
            loss = module(*inputs)
            loss.backward()
            return loss
        losses, took = self.train(step, module.parameters(), steps)
        return losses, module.state_dict(), took

    def one(self, steps):
        """One process: not this one, as after a backward no process can be forked."""
        return in_processes(lambda: self.alone(steps), self.path("result"), 1)

    def planned(self, plan, steps, strict, named=True, mode="graph"):
        module, inputs = self.make()
        names = (read_map(self) if mode == "graph" else self.path("map.json")) if named else None  # or the file's path
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            planned = apply(module, plan, *inputs, map=names, strict=strict, mode=mode)
        losses, took = self.train(lambda: planned.step(*inputs), planned.parameters(), steps)
        said = [str(w.message) for w in told if w.category is UserWarning]
        return losses, planned.weights(), took, said

    def four(self, plans, steps, strict=True, named=True, mode="graph"):
        """Of each plan what the first of so many processes has; a sentence where they fail."""
        return in_processes(lambda: [self.planned(plan, steps, strict, named, mode) for plan in plans],
                            self.path("result"), plans[0]["devices"])


def read_map(model):
    return json.loads(model.path("map.json").read_text())


def random_entry(name, dims, r):
    """Dims and their order on the devices, drawn; what is left over are replicas."""
    degrees, left, at = {}, DEVICES, DEVICES
    while left > 1 and r.random() < 0.8:
        dim = r.choice(dims)
        degrees[dim] = degrees.get(dim, 1) * 2
        left //= 2
    order = list(degrees) + [None] * (left > 1)
    r.shuffle(order)
    devices = {"start": 0, "strides": {}}
    for dim in order:
        at //= left if dim is None else degrees[dim]
        if dim is None:
            devices["replica_stride"] = at
        else:
            devices["strides"][dim] = at
    return {"name": name, "degrees": degrees, "replicas": left, "devices": devices}


def random_plan(name, seed):
    """Of the exported graph's nodes, each cut in any way that it can be."""
    module, inputs = MODELS[name]()
    r, entries = random.Random(seed), []
    for node in program_of(module, inputs).graph.nodes:
        if node.op == "call_function" and not is_item(node):
            shapes = [s[0] if len(s) == 1 else None for s in map(shapes_of, operands_of(node))]
            axes = rules.axes_of(node, shapes, shapes_of(node)[0])
            dims = sorted({d for names in axes.operands + axes.results for d in names if d}) if axes else []
            if dims:
                entries.append(random_entry(node.name, dims, r))
    entries += [{"name": p, "update": "flat"} for p, _ in module.named_parameters() if r.random() < 0.4]
    return {"format": "ffsoap-strategy", "version": 2, "devices": DEVICES, "operators": entries}


def by_features(plan, degree, flat, names):
    """Of data parallelism: linear layers and embeddings cut by their output features, others by samples or alike."""
    operators, rest = [], DEVICES // degree
    for e in plan["operators"]:
        kinds = [n.rpartition("_")[0] if n[-1].isdigit() else n for n in names["operators"][e["name"]]["nodes"]]
        cut = {"linear": "out_feature", "embedding": "feature"}.get(kinds[0] if kinds else "")
        samples = {"sample": rest} if rest > 1 else {}
        if cut:
            entry = {"degrees": {**samples, cut: degree}, "devices": list(range(DEVICES))}
        else:
            entry = {"degrees": samples, "replicas": degree,
                     "devices": [s * degree + r for r in range(degree) for s in range(rest)]}
        operators.append({"name": e["name"], **entry})
    parameters = [{"name": p, "update": "flat"} for p, what in names["parameters"].items()
                  if flat and not what["names"][0].rpartition(".")[2].startswith("running")]
    return {k: v for k, v in plan.items() if not k.startswith(("predicted", "memory"))} | {
        "operators": parameters + operators}


def rank_of(work, rank, port, result, count):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        distributed.init_process_group("gloo", rank=rank, world_size=count)
        found = work()
        if rank == 0:
            torch.save(found, result)
        distributed.barrier()
        distributed.destroy_process_group()
        os._exit(0)
    except Exception:
        pathlib.Path(f"{result}.{rank}").write_text(traceback.format_exc())
        os._exit(1)


def in_processes(work, result, count=DEVICES):
    """What `work` gives in the first of them; forked, as PyTorch takes seconds to begin."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    made = multiprocessing.get_context("fork")
    ranks = [made.Process(target=rank_of, args=(work, r, port, result, count)) for r in range(count)]
    for r in ranks:
        r.start()
    while any(r.is_alive() for r in ranks) and not any(r.exitcode for r in ranks):
        time.sleep(0.05)
    failed = any(r.exitcode for r in ranks)
    for r in ranks:
        if failed and r.is_alive():
            r.kill()
        r.join()
    if failed:
        return next((p.read_text().strip() for p in pathlib.Path(result).parent.glob(f"{pathlib.Path(result).name}.*")),
                    "a process failed")
    return torch.load(result, weights_only=False)


def apart(a, b):
    """The largest distance of two lists of losses, or of weights by name."""
    if isinstance(a, dict):
        return max(float((a[k].double() - b[k].double()).abs().max()) for k in a if k in b and a[k].dim())
    return max(abs(x - y) for x, y in zip(a, b)) if len(a) == len(b) else float("inf")
