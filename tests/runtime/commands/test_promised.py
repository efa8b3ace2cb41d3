#!/usr/bin/env python3
# What ffsearch promises to fit without measured costs, ffrun takes.  Prints TAP.
# Usage: test_promised.py FFZOO FFSEARCH FFRUN.  SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile

ffzoo, ffsearch, ffrun = map(os.path.abspath, sys.argv[1:4])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def machine(memory):
    kind = {"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 2e10, "memory_bytes": memory}
    link = {"latency_us": 1, "bytes_per_s": 8e9, "shared": False}
    text = {"format": "ffsoap-machine", "version": 1, "name": "tight", "overlap": False, "kinds": [kind],
            "nodes": [{"devices": 2, "kind": "cpu", "inside": link}]}
    with open("machine.json", "w") as f:
        json.dump(text, f)


def plan(network, strategy):
    subprocess.run([ffzoo, *network, "-o", "net.json"], check=True)
    machine(1 << 33)
    command = [ffsearch, "net.json", "--machine", "./machine.json", "--costs", "analytic", "--simulate", strategy,
               "-o", "plan.json", "--report", "search.json"]
    table = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    with open("search.json") as f:
        return json.load(f), table


# the last with more threads than the machine's file is taken to mean: more scratch than was promised
cases = [("mlp", ["mlp", "--set", "hidden=128", "--batch", "16"], "expert", 1),
         ("lenet", ["lenet", "--batch", "16"], "data-parallel", 1),
         ("mlp", ["mlp", "--set", "hidden=512", "--batch", "64"], "expert", 8)]
print("1..%d" % len(cases))
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for number, (name, network, strategy, threads) in enumerate(cases, 1):
        promised, table = plan(network, strategy)
        most = max(promised["memory_bytes"])
        table = " ".join(table.split())
        machine(most)  # not a byte more
        p = subprocess.run([ffrun, "net.json", "plan.json", "--machine", "./machine.json", "--data", "synthetic:64",
                            "--steps", "1", "--report", "run.json"], capture_output=True, text=True,
                           env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        why = p.stderr
        if p.returncode == 0:
            with open("run.json") as f:
                taken = json.load(f)["memory_bytes"]
            if threads == 1 and any(a > b for a, b in zip(taken, promised["memory_bytes"])):
                why = "promised %s, taken %s" % (promised["memory_bytes"], taken)
            elif not 0 < max(promised["estimated_workspace_bytes"]) < most or "workspace at most" not in table:
                why = "an estimate is not said to be one: " + table
        print("%sok %d - %s, %s%s" % ("not " if why else "", number, name, "%s, threads: %d" % (strategy, threads), why and ": " + why.strip()))
