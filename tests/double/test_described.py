#!/usr/bin/env python3
# The backend's graphs put to the real cuDNN, for GPUs that are described, not here: every convolution has a plan, and
# takes no more scratch than is planned for.  Prints TAP.
# Usage: test_described.py FFZOO BENCH_WORKSPACES MODULE FOLDER_OF_LIBRARIES.  SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import pathlib
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


def put(device, graph, **env):
    """What was put and planned, by name; scratch and its estimate of each kernel."""
    done = subprocess.run([WORKSPACES, graph, "--parts", "1", "--sums"], capture_output=True, text=True, check=False,
                          env=dict(ENV, FF_DESCRIBED_DEVICE=device, **env))
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


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def change_ways(cache):
    """Gradients of filters that were to be unfolded are convolved from now on; how many."""
    n = 0
    for path in (p for p in pathlib.Path(cache).rglob("*") if p.is_file()):
        text = path.read_bytes()
        changed = text.replace(b"\nunfolded\n", b"\nconvolved\n")
        body = changed[:-17] # a sum is its last line
        n += changed != text
        path.write_bytes(body + b"%016x\n" % fnv1a(body))
    return n


def test_ways(dtype):
    """Whichever way gradients of filters are computed: no plan can be executed here, so that the other one is timed as
    faster and kept."""
    subprocess.run([FFZOO, "resnet50", "--batch", "16", "--set", f"dtype={dtype}", "--set", "image=64", "-o",
                    "graph.json"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as cache:
        _, unfolded = put("h100", "graph.json", FF_CUDA_TUNE="1", FF_CACHE_DIR=cache, FF_DOUBLE_COUNTS="counts")
        assert change_ways(cache) > 10
        _, convolved = put("h100", "graph.json", FF_CACHE_DIR=cache)
        assert change_ways(cache) == 0
    assert [k[2:4] for k in unfolded] == [k[2:4] for k in convolved] and unfolded != convolved
    over = [k for k in unfolded + convolved if int(k[0]) > int(k[1])]
    assert not over, over[:3]


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
    for dtype in ("float32", "bfloat16"):
        try:
            test_ways(dtype)
            say(True, f"ways of filters, {dtype}")
        except AssertionError as e:
            say(False, f"ways of filters, {dtype}", e)
    os.chdir("/")
finish()
