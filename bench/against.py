#!/usr/bin/env python3
"""Training steps of this build beside those of another, say of an older commit, in turns.

usage: bench/against.py OTHER_BUILD [--build build] [--devices 1] [--rounds 6] [NETWORK...]

Data parallelism on DEVICES ranks of one thread each, on made-up data, without batch norms, which
older builds lack.  Prints a table in Markdown: the least median step of each and the ratio of
those, other by this, so that above 1 this build is faster, and the median, least and most of the
ratios of a round's two.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

# samples, steps a run, settings that an older ffzoo may not know
NETWORKS = {"alexnet": (16, 30, []), "vgg16": (2, 12, []),
            "resnet50": (4, 16, ["--set", "norm=none"]),
            "inception_v3": (2, 16, ["--set", "norm=none"])}


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)


def make_graph(build, name, path):
    batch, _, settings = NETWORKS[name]
    zoo = [build / "graphs/ffzoo", name, "--batch", batch, "-o", path]
    try:
        run(*zoo, *settings)
    except subprocess.CalledProcessError:  # there were no batch norms to leave out
        run(*zoo)


def step_ms(build, graph, steps, devices):
    report = graph.with_suffix(".report")
    run(build / "runtime/ffrun", graph, "data-parallel", "--devices", devices, "--data",
        "synthetic:256", "--steps", steps, "--report", report)
    return json.loads(report.read_text())["step_us"]["median"] / 1e3


def compare(name, builds, rounds, devices, folder):
    times = [[], []]
    graphs = [folder / f"{name}-{i}.json" for i in range(2)]
    for build, graph in zip(builds, graphs):
        make_graph(build, name, graph)
    for i in range(rounds):
        for j in (0, 1) if i % 2 else (1, 0):  # neither is always first
            times[j].append(step_ms(builds[j], graphs[j], NETWORKS[name][1], devices))
    ratios = [a / b for a, b in zip(*times)]
    other, this = map(min, times)
    print(f"| {name} | {NETWORKS[name][0]} | {other:.1f} | {this:.1f} | {other / this:.3f} | "
          f"{statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", type=pathlib.Path, metavar="OTHER_BUILD")
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help=f"of {', '.join(NETWORKS)}; all where none is given")
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--devices", default=1, type=int)
    parser.add_argument("--rounds", default=6, type=int)
    a = parser.parse_intermixed_args()
    for name in a.networks:
        if name not in NETWORKS:
            parser.error(f"{name} is none of {', '.join(NETWORKS)}")
    if a.rounds < 1 or a.devices < 1:
        parser.error("--rounds and --devices: expected at least 1")
    for build in a.other, a.build:
        if not (build / "runtime/ffrun").exists():
            parser.error(f"{build}: no build, there is no runtime/ffrun in it")
    os.environ.update(OMP_NUM_THREADS="1", FF_CACHE_DIR="")
    print("| network | batch | other, ms | this, ms | other / this | median of rounds | rounds |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in a.networks or NETWORKS:
            compare(name, [a.other.resolve(), a.build.resolve()], a.rounds, a.devices,
                    pathlib.Path(folder))


main()
