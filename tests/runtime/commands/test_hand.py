#!/usr/bin/env python3
# Strategies as people write them by hand (megatron:T,D,P,M) compute what one device does.  Prints TAP.
# Usage: test_hand.py FFZOO FFSEARCH FFRUN.  SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffsearch, ffrun = map(os.path.abspath, sys.argv[1:4])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"

SMALL = ["layers=2", "width=64", "heads=4", "sequence=16", "vocabulary=101"]
GATED = SMALL + ["key_heads=2", "hidden=96"]
NMT = ["layers=1", "hidden=32", "vocabulary=101", "steps=8"]
CASES = [("gpt2", SMALL, "2,2,1,1"), ("gpt2", SMALL, "2,1,2,2,zero-1"), ("gpt2", SMALL, "1,2,2,4,zero-1,recompute"),
         ("gpt2", SMALL + ["dropout=10"], "2,2,1,2,sequence,recompute=light"),
         ("gpt2", SMALL, "2,2,1,2,zero-3,recompute"), ("llama", GATED, "2,1,2,4,zero-1,sequence,recompute"),
         ("gpt2", SMALL, "1,2,1,2,cp=2,zero-1"), ("llama", GATED, "2,1,1,2,cp=2,sequence"),
         ("nmt", NMT, "1,1,2,2,cp=2"), ("nmt", NMT, "1,1,1,1,cp=4"),
         ("moe", GATED + ["experts=4"], "1,2,2,2,zero-1,experts"),
         ("gpt2", ["layers=8"] + SMALL[1:], "1,1,4,8,interleave=2"),
         ("gpt2", ["layers=4"] + SMALL[1:], "1,2,2,4,interleave=2,zero-3,recompute"),
         ("gpt2", SMALL, "1,2,2,4"), ("gpt2", SMALL, "1,2,2,4,zb-h1,zero-1"),
         ("gpt2", SMALL, "1,2,2,4,zb-h1,zero-2"), ("gpt2", ["layers=8"] + SMALL[1:], "1,1,4,8,zb-v"),
         ("gpt2", ["layers=4", "dropout=10"] + SMALL[1:], "2,1,2,4,zb-v,zero-2,sequence,recompute=light")]


def verify(network, sets, degrees):
    zoo = [ffzoo, network, "--batch", "8", "-o", "net.json"]
    for s in sets:
        zoo += ["--set", s]
    subprocess.run(zoo, check=True)
    subprocess.run([ffsearch, "net.json", "--machine", "cpu4", "--costs", "analytic", "--simulate",
                    "megatron:" + degrees, "-o", "plan.json"], check=True, stdout=subprocess.DEVNULL)
    p = subprocess.run([ffrun, "net.json", "plan.json", "--data", "synthetic:32", "--steps", "1", "--verify"],
                       capture_output=True, text=True)
    if p.returncode or "verified on one device" not in p.stdout:
        return f"status {p.returncode}, {p.stderr.strip() or p.stdout}"
    return ""


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for network, sets, degrees in CASES:
        why = verify(network, sets, degrees)
        say(not why, f"{network}, {degrees}", why)
    os.chdir("/")
finish()
