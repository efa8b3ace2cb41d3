#!/usr/bin/env python3
"""A long training under a plan that splits everything, beside one device's.

usage: bench/long.py [--build build] [--data fashion-mnist] [--steps 1000] [--seed 1]

lenet, batch 32, two micro-batches, on four ranks: convolutions cut by sample and by height, linear layers
by output features, by input features and by sample, and most parameters updated in parts.  Three questions:
- Do the curves overlap?  Largest difference of the losses of a step, relative to one device's.
- Does memory grow?  Resident memory of each rank (VmRSS, VmHWM of /proc) from when a tenth of the
  steps is done to the last, which the metrics tell.
- Does it go on under other strategies?  The same training is asked for an end five times, at random moments,
  and each time goes on from its checkpoint on other devices, under another strategy.
Fails where losses are more than 1e-5 apart, relatively, or a rank's memory grows by more than 1 MiB.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from commands import load, run

APART, GROWS_KB, PATIENCE_S, DEVICES = 1e-5, 1024, 600, 4
TRAIN = ["--rate", "0.002", "--warmup", "0"]
ALL = list(range(DEVICES))
# of every operator how it is cut; those that are not here by sample
CUTS = {
    "conv1": {"sample": 2, "height": 2}, "act1": {"sample": 2, "height": 2},
    "pool1": {"sample": 2, "height": 2}, "conv2": {"out_channel": 2, "height": 2},
    "fc1": {"out_feature": 4}, "act3": {"feature": 4}, "fc2": {"in_feature": 4},
    "fc3": {"sample": 2, "in_feature": 2},
}
# and of parameters in how many parts they are updated
UPDATES = {"fc1.weight": 4, "fc2.weight": 4, "conv2.weight": 4}


def make_plans(tools, folder):
    """The graph, and a plan that splits by S, A, P and R; and one of two devices, by P."""
    graph = folder / "net.json"
    run(tools / "graphs/ffzoo", "lenet", "--batch", 32, "-o", graph)
    for name, devices in (("all", DEVICES), ("two", 2)):
        plan = folder / f"{name}.json"
        run(tools / "planner/ffsearch", graph, "--machine", f"cpu{devices}", "--costs", "peak",
            "--simulate", "data-parallel", "-o", plan)
        document = load(plan)
        for key in ("predicted_us", "predicted_tasks", "predicted_waits", "memory_bytes"):
            document.pop(key, None)  # those of the plan that it was
        if name == "all":
            document["micro_batches"] = 2
            for op in document["operators"]:
                op["degrees"] = CUTS.get(op["name"], op["degrees"])
            document["operators"] += [{"name": n, "degrees": {"axis0": k}, "devices": ALL[:k]}
                                      for n, k in UPDATES.items()]
        else:
            for op in document["operators"]:
                if op["name"] in ("fc1", "fc2"):
                    op["degrees"] = {"out_feature": 2}
        plan.write_text(json.dumps(document))
    return graph


class Run:
    """A training under way, and what its ranks hold."""

    def __init__(self, o, folder, plan, devices, *more):
        self.metrics, self.report = folder / "metrics.jsonl", folder / "report.json"
        self.metrics.unlink(missing_ok=True)
        self.ffrun = subprocess.Popen(
            [str(c) for c in (o.build / "runtime/ffrun", folder / "net.json", plan, "--devices", devices,
                              "--data", o.data, "--steps", o.steps, "--report", self.report,
                              "--metrics", self.metrics, *TRAIN, *more)],
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def step(self):
        try:
            lines = self.metrics.read_text().split("\n")[:-1]
        except OSError:
            return 0
        return max((e["step"] for e in map(json.loads, lines) if e["event"] == "step"), default=0)

    def ranks(self):
        """Of all ranks below, those that compute: {rank: pid}; of a rank's two processes the child."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    words = dict(w.split(b"=", 1) for w in f.read().split(b"\0") if b"=" in w)
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    ours = str(self.report).encode() in f.read()
            except OSError:
                continue
            if ours and b"OMPI_COMM_WORLD_RANK" in words:
                rank = int(words[b"OMPI_COMM_WORLD_RANK"])
                found[rank] = max(int(pid), found.get(rank, 0))
        return found

    def memory_kb(self):
        """{rank: (VmRSS, VmHWM)}"""
        held = {}
        for rank, pid in self.ranks().items():
            try:
                with open(f"/proc/{pid}/status", encoding="ascii") as f:
                    field = dict(line.split(":", 1) for line in f)
                held[rank] = tuple(int(field[k].split()[0]) for k in ("VmRSS", "VmHWM"))
            except (OSError, KeyError):
                continue  # it has just ended
        return held

    def wait_for(self, step):
        until = time.monotonic() + PATIENCE_S
        while self.ffrun.poll() is None and self.step() < step and time.monotonic() < until:
            time.sleep(0.02)

    def end(self):
        _, said = self.ffrun.communicate(timeout=PATIENCE_S)
        if self.ffrun.returncode:
            sys.exit(f"ffrun: exit status {self.ffrun.returncode}: {said}")
        return load(self.report)


def apart(losses, reference):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference, strict=True))


def train_watched(o, folder):
    """Losses, and what each rank holds when a tenth is done and the last time that it was seen."""
    r = Run(o, folder, folder / "all.json", DEVICES)
    r.wait_for(o.steps // 10)
    first = last = r.memory_kb()
    while r.ffrun.poll() is None and r.step() < o.steps:
        now = r.memory_kb()
        if len(now) == DEVICES:
            last = now
        time.sleep(0.05)
    return r.end()["loss"], first, last


def train_in_pieces(o, folder, dice):
    """Losses, and where it was stopped."""
    plans = [("all.json", 4), ("data-parallel", 2), ("single", 1), ("two.json", 2), ("data-parallel", 3),
             ("all.json", 4)]
    losses, stops = [], []
    for i, (plan, devices) in enumerate(plans):
        plan = folder / plan if plan.endswith(".json") else plan
        r = Run(o, folder, plan, devices, "--checkpoint", folder / "kept", "--every", 10 ** 6, "--resume")
        if i + 1 < len(plans):
            r.wait_for(o.steps * (i + dice.random()) / len(plans))
            r.ffrun.send_signal(signal.SIGTERM)
        report = r.end()
        if report["first_step"] != len(losses):
            sys.exit(f"goes on after {report['first_step']} steps, not after {len(losses)}")
        losses += report["loss"]
        stops.append(len(losses))
    return losses, stops[:-1]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--build", default="build", type=pathlib.Path,
                   help="build folder (build)")
    p.add_argument("--data", default="fashion-mnist")
    p.add_argument("--steps", default=1000, type=int)
    p.add_argument("--seed", default=1, type=int, help="of when it is stopped (1)")
    o = p.parse_args()
    o.build = o.build.resolve()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_plans(o.build, folder)
        print(run(o.build / "runtime/ffrun", folder / "net.json", folder / "all.json", "--devices", DEVICES,
                  "--data", o.data, "--verify").stdout.split("\n", 1)[0])
        one = Run(o, folder, "single", 1).end()["loss"]
        whole, first, last = train_watched(o, folder)
        pieces, stops = train_in_pieces(o, folder, random.Random(o.seed))
    print(f"loss of the first and last {o.steps // 10} steps: one device "
          f"{sum(one[:o.steps // 10]) / (o.steps // 10):.4f} and {sum(one[-(o.steps // 10):]) / (o.steps // 10):.4f}")
    print(f"largest difference of a step: {apart(whole, one):.2g} of the loss; stopped after "
          f"{', '.join(map(str, stops))} steps: {apart(pieces, one):.2g}")
    early = f"VmRSS KiB, step {o.steps // 10}"
    print(f"{'rank':>4} {early:>24} {'at the end':>12} {'VmHWM KiB':>12} {'at the end':>12}")
    grown = 0
    for rank in sorted(first):
        (rss, most), (rss_end, most_end) = first[rank], last[rank]
        grown = max(grown, rss_end - rss, most_end - most)
        print(f"{rank:4} {rss:24} {rss_end:12} {most:12} {most_end:12}")
    if len(first) != DEVICES or len(last) != DEVICES:
        sys.exit("not all ranks were seen")
    return grown > GROWS_KB or max(apart(whole, one), apart(pieces, one)) > APART


if __name__ == "__main__":
    sys.exit(main())
