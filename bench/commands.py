"""Commands that benches run, and the JSON files between them.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys


def run(*command, **environment):
    """Runs a command; its output is shown only when it fails, which ends the bench."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          env=dict(os.environ, **environment))
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done


def on_hosts(build, hosts, bandwidth, latency, *command, **environment):
    """The same on emulated hosts (./run cluster), as root."""
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return run(f"{source}/tests/cluster/cluster.sh", f"{build}/tests/cluster", hosts, bandwidth,
               latency, "--", *command, **environment)


def profile_hosts(build, hosts, bandwidth, latency, graph, machine, costs, *more):
    """ffprof with a rank on each of so many: writes `machine`, whose links are as measured, and `costs`."""
    return on_hosts(build, hosts, bandwidth, latency, "mpirun", "-q", "--map-by", "ppr:1:node", "-n",
                    hosts, f"{build}/runtime/ffprof", graph, "--machine", f"cpu{hosts}",
                    "--write-machine", machine, "-o", costs, *more)


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def save(path, value):
    """Whole or not at all."""
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as f:
        json.dump(value, f)
    os.replace(part, path)
