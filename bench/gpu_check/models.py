# Kernels measured beside the models of devices that --costs analytic rests on.
# SPDX-License-Identifier: Apache-2.0
import json
import sys

import place

sys.path.insert(0, str(place.ROOT / "bench"))
import model_errors  # noqa: E402

SECONDS = 25  # of measuring, at most; starting ffprof for each network is not counted
LIMIT = 120


def said(report):
    """Classes, and how far off their models are in the median: longest in sum first."""
    return "; ".join(f"{c['class']} ({c['n']}) {100 * c['error']:.0f} %, x{c['bias']:.2f}" for c in report["classes"])


def step(skip, failure):
    """The step; `skip` and `failure` make what it raises."""
    def run(check):
        gpu = None if check.double else check.gpu[0]
        if gpu and gpu not in model_errors.GPUS:
            raise skip(f"there is no model of {gpu}")
        report, costs = check.folder / "report.json", check.folder / "costs.json"
        for old in report, costs:
            old.unlink(missing_ok=True)
        of = ["--kind", "H100-80GB", "--small"] if check.double else ["--gpu", gpu]
        status, output = check.command(sys.executable, "bench/model_errors.py", "--build", place.BUILD, *of,
                                       "--seconds", SECONDS, "--keep", costs, "-o", report,
                                       FF_CACHE_DIR=str(check.folder / "plans"))
        if not report.exists():
            raise failure(f"exit status {status}: {' '.join(output.split())[-110:]}")
        found = json.loads(report.read_text(encoding="utf-8"))
        figure = f"{len(found['rows'])} figures (a double has no speed)" if check.double else said(found)
        if status:
            raise failure("; ".join([f"{name}: {why}" for name, why in found["failed"].items()] + [figure]))
        return figure
    return run
