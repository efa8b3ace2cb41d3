#!/usr/bin/env python3
# What the compiler says of our CUDA kernels: each can start at its launch bounds, and none spills.  Prints TAP.
# Usage: test_kernels.py FOLDER_OF_BUILD.  SPDX-License-Identifier: Apache-2.0
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../bench")]
from cuda_kernels import bounds_of, faults_of, kernels_of, occupancy, read  # noqa: E402
from tap import finish, say  # noqa: E402

USAGE = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1av' for 'sm_90'
ptxas info    : Function properties for _Z1av
    {0} bytes stack frame, {1} bytes spill stores, {1} bytes spill loads
ptxas info    : Used {2} registers, used 1 barriers, {3} bytes smem
"""

def made_up(registers, threads=256, spilled=0, shared=0):
    [kernel] = kernels_of(USAGE.format(spilled, spilled, registers, shared))
    return dict(kernel, threads=threads, name="a")

def faults(*args, **kwargs):
    return len(list(faults_of(made_up(*args, **kwargs))))

assert [faults(255), faults(64, 1024), faults(65, 1024), faults(40, spilled=8), faults(40, shared=49152),
        faults(40, shared=49153)] == [0, 0, 1, 1, 0, 1]
assert occupancy(made_up(32)) == 1 and occupancy(made_up(33)) == 0.75 and occupancy(made_up(64, 1024)) == 0.5
assert bounds_of(["FF_KERNEL void a(int b)\nFF_WIDE_KERNEL void c(\n"]) == {"a": 256, "c": 1024}

kernels = read(sys.argv[1])
wrong = [fault for kernel in kernels for fault in faults_of(kernel)]
say(not wrong, f"{len(kernels)} kernels can start, and none spills", "; ".join(wrong[:3]))

say(len(kernels) > 200, "all kernels are there", f"{len(kernels)}")
finish()
