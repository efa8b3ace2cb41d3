# What ffrun's test pass makes of an imported graph, on samples that are known.
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess

import numpy as np


def test_loss(ffrun, graph, weights, folder, inputs, labels):
    """The mean cross-entropy of `labels` without training: of the weights and statistics that were
    imported, which a step in front of it, as every run has one, does not move.  Or a sentence."""
    network = json.loads(graph.read_text())
    for node in network["nodes"]:
        if node["op"] == "batch_norm":
            node["momentum"] = 0
    still = folder / "still.json"
    still.write_text(json.dumps(network))
    ids = [n["name"] for n in network["nodes"] if n["op"] == "input"]
    data = folder / "data"
    data.mkdir(exist_ok=True)
    for kind in ("train", "test"):
        np.savez(data / f"{kind}.npz", **{
            name: labels if name == "label" else inputs for name in ids})
    done = subprocess.run([str(x) for x in (
        ffrun, still, "single", "--data", f"numpy:{data}", "--weights", weights, "--steps", 1,
        "--rate", 0, "--decay", 0, "--test", "--report", folder / "tested.json")],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    if done.returncode:
        return None, done.stderr.strip()
    return json.loads((folder / "tested.json").read_text())["test_loss"], ""
