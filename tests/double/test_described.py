#!/usr/bin/env python3
# The backend's graphs put to the real cuDNN, for GPUs that are described, not here: every convolution has a plan, and
# takes no more scratch than is planned for.  Prints TAP.
# Usage: test_described.py FFZOO BENCH_WORKSPACES MODULE FOLDER_OF_LIBRARIES.  SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import finish, say  # noqa: E402

FFZOO, WORKSPACES, MODULE, LIBRARIES = map(os.path.abspath, sys.argv[1:5])
# leaks of cuDNN and cuBLASLt are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
ENV = dict(os.environ, FF_CUDA_MODULE=MODULE, FF_CACHE_DIR="", LD_LIBRARY_PATH=LIBRARIES, FF_DESCRIBED_REPORT="report")
SINCE = 90800  # plans for described devices


def version():
    for path in (os.path.join(LIBRARIES, "libcudnn.so.9"), "libcudnn.so.9"):
        try:
            return ctypes.CDLL(path).cudnnGetVersion()
        except OSError:
            pass
    return 0


def put(device, graph):
    """What was put and planned, by name; scratch and its estimate of each kernel."""
    done = subprocess.run([WORKSPACES, graph, "--parts", "1", "--sums"], capture_output=True, text=True, check=False,
                          env=dict(ENV, FF_DESCRIBED_DEVICE=device))
    assert done.returncode == 0, done.stderr
    with open("report", encoding="utf-8") as f:
        report = {line.split()[0]: int(line.split()[1]) for line in f}
    return report, [line.split("\t") for line in done.stdout.splitlines()]


def test(device, dtype):
    subprocess.run([FFZOO, "resnet50", "--batch", "16", "--set", f"dtype={dtype}", "-o", "graph.json"], check=True,
                   stdout=subprocess.DEVNULL)
    report, kernels = put(device, "graph.json")
    over = [k for k in kernels if int(k[0]) > int(k[1])]
    assert len(kernels) > 60 and report["refused"] == 0, report
    made, added = (sum(int(k[i]) for k in kernels) for i in (4, 5))
    assert added > made * 0.9, (made, added)
    # those of one tap are cuBLASLt's; float32 gradients of filters from bfloat16 have no plan: images are unfolded
    assert report["planned"] > 100 and (dtype == "bfloat16" or report["put"] == report["planned"]), report
    assert not over, over[:3]
    assert sum(int(k[0]) for k in kernels) > sum(int(k[1]) for k in kernels) / 20  # estimates tell something


if version() < SINCE:
    print("1..0 # SKIP there is no cuDNN of at least 9.8")
    sys.exit(0)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for of in (("a100", "float32"), ("a100", "bfloat16"), ("h100", "bfloat16")):
        try:
            test(*of)
            say(True, " ".join(of))
        except AssertionError as e:
            say(False, " ".join(of), e)
    os.chdir("/")
finish()
