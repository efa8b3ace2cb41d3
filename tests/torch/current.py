# PyTorch as the package ffsoap_torch wants it: a test that imports this first goes on in a Python that has it
# (FF_TORCH_PYTHON, or the one on the path), or says SKIP and ends.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys

LEAST = (2, 11)
PROBE = ("import torch, numpy\nv = torch.__version__.split('.')\n"
         f"raise SystemExit((int(v[0]), int(v[1])) < {LEAST})")


def has_it(python):
    try:
        return subprocess.run([python, "-c", PROBE], capture_output=True, timeout=600).returncode == 0
    except OSError:
        return False


def find():
    for python in (os.environ.get("FF_TORCH_PYTHON"), shutil.which("python3")):
        if python and has_it(python):
            return python
    return None


if "FF_TORCH_CHOSEN" not in os.environ:
    chosen = find()
    if not chosen:
        print("1..0 # SKIP no Python with PyTorch %d.%d or newer: bench/torch_environment.sh makes one for "
              "FF_TORCH_PYTHON" % LEAST)
        sys.exit(0)
    os.environ["FF_TORCH_CHOSEN"] = "1"
    os.execv(chosen, [chosen, *sys.argv])
