#!/usr/bin/env python3
"""The table of what was measured on which kind: as models' files say, and the one in the manual is of those that there
are.  Prints TAP.  usage: test_model_table.py SOURCE.  SPDX-License-Identifier: Apache-2.0"""
import json
import pathlib
import subprocess
import sys
import tempfile

from tap import finish, say

SOURCE = pathlib.Path(sys.argv[1])
TABLE = SOURCE / "bench/model_table.py"
MODELS = SOURCE / "graphs/machines/models"


def made(folder):
    done = subprocess.run([sys.executable, TABLE, "--models", folder], capture_output=True, text=True, check=True)
    return done.stdout


def cells(text):
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return {(kind, row[0]): cell for row in rows for kinds, cell in zip(head[1:], row[1:]) for kind in kinds.split(", ")}


def test_manual():
    manual = (SOURCE / "docs/device-models.md").read_text(encoding="utf-8")
    say(made(MODELS) in manual, "the manual has the table", "run bench/model_table.py")


def test_bases():
    """Of a file that says what each cell should."""
    bases = {"stream": ("measured", {}), "softmax": ("measured", {"backward": "inferred from forward"}),
             "norm": ("inferred from A100-PCIE-40GB", {}),
             "product.float32": ("inferred from A100-80GB in bfloat16", {}),
             "product.bfloat16": ("inferred from V100-16GB, but for 3 x 3 forward", {}),
             "pool": ("inferred from stream kernels, by what such kernels do", {})}
    with tempfile.TemporaryDirectory() as name:
        for kind, flops in ("B-2GB", 2), ("A-16GB", 1), ("B-4GB", 2), ("C-4GB", 3), ("D", 4):
            model = {"name": kind, "flops_per_s": flops, "memory_bytes_per_s": 1,
                     "classes": {k: {"basis": basis, **more} for k, (basis, more) in bases.items()}}
            if kind == "C-4GB":
                model["classes"]["stream"]["basis"] = "inferred from B-2GB"
            pathlib.Path(name, kind + ".json").write_text(json.dumps(model), encoding="utf-8")
        text = made(name)
    found = cells(text)
    say(text.splitlines()[0] == "|  | A, B, D | C |", "one column for what is alike, slowest first", text)
    say((found["B", "stream"], found["C", "stream"]) == ("yes", "B"), "what is not has its own", text)
    say([found["A", k] for k in ("stream", "softmax", "norm", "product, f32", "product, bf16", "pool")] ==
        ["yes", "forward", "A100", "A100*", "V100, not 3x3", "stream"], "cells say what files do", text)


def test_kinds():
    """Every model and every class has a cell."""
    found = cells(made(MODELS))
    models = [json.loads(path.read_text(encoding="utf-8")) for path in MODELS.glob("*.json")]
    missing = [(m["name"], c) for m in models for c in m["classes"]
               if not found.get((m["name"].replace("-SXM3", "").rsplit("-", 1)[0] if "GB" in m["name"] else m["name"],
                                 c.replace("bfloat16", "bf16").replace("float32", "f32").replace(".", ", ")))]
    say(not missing, "no class of a kind is missing", missing)


for test in (test_manual, test_bases, test_kinds):
    test()
finish()
