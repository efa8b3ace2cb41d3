# What is no number, or infinite: refused in data and in weights, told where training makes it, and never
# written; and a loss of exactly 0, which is one.
# Usage: test_finite.py FFZOO FFRUN FFSEARCH.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffrun, ffsearch = (os.path.abspath(p) for p in sys.argv[1:4])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def run(*options):
    return subprocess.run([ffrun, *map(str, options)], capture_output=True, text=True, timeout=600)


def ends(name, status, why, *options):
    """With one sentence that `why` is a pattern of."""
    done = run(*options)
    say(done.returncode == status and re.fullmatch(rf"ffrun: [^\n]*{why}[^\n]*\n", done.stderr), name,
        f"{done.returncode}: {done.stderr}")


def array(path, shape, values, kind="f"):
    """An .npy file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"f": "<f4", "q": "<i8"}
    head = f"{{'descr': '{kinds[kind]}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() +
                     struct.pack(f"<{len(values)}{kind}", *values))


def graph(name, *nodes, **more):
    pathlib.Path(name).write_text(json.dumps({"format": "ffsoap-graph", "version": 2, "name": name,
                                              "nodes": list(nodes), **more}))
    return name


def spoil(path, to, name, at, value):
    """A copy in which element `at` of a tensor is another, with a checksum that fits where it has one."""
    data = bytearray(pathlib.Path(path).read_bytes())
    first = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = json.loads(bytes(data[8:first]))
    begin, end = (first + x for x in tensors[name]["data_offsets"])
    data[begin + 4 * at:begin + 4 * at + 4] = struct.pack("<f", value)
    if "__crc32__" in tensors:  # of what is before the elements, then of each tensor in its place
        place = [n for n in sorted((n for n in tensors if n != "__metadata__"),
                                   key=lambda n: tensors[n]["data_offsets"])].index(name)
        sums = first + tensors["__crc32__"]["data_offsets"][0] + 4 * (place + 1)
        data[sums:sums + 4] = struct.pack("<I", zlib.crc32(data[begin:end]))
    pathlib.Path(to).write_bytes(data)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    here = pathlib.Path(folder)
    subprocess.run([ffzoo, "mlp", "--batch", "8", "--set", "image=4", "--set", "hidden=8", "--set", "layers=1", "-o",
                    "net.json"], check=True)
    half = json.loads(pathlib.Path("net.json").read_text())
    pathlib.Path("half.json").write_text(json.dumps(dict(half, dtype="bfloat16")))
    rank2 = ["data-parallel", "--devices", 2]
    tried = run("half.json", "single", "--data", "synthetic:64", "--steps", 1)
    halves = [] if "does not compute in bfloat16 on this processor" in tried.stderr else [("half.json", ["single"])]

    # ---- data ----
    numbers = [(i * 37 % 101) / 101 for i in range(64 * 16)]
    for kind, value in (("no number", float("nan")), ("infinite", float("inf")), ("infinite", float("-inf"))):
        for net, devices in [("net.json", ["single"]), ("net.json", rank2), *halves]:
            bad = list(numbers)
            bad[19 * 16 + 5] = value
            array(here / "set" / "train" / "data.npy", (64, 1, 4, 4), bad)
            array(here / "set" / "train" / "labels.npy", (64,), [i % 10 for i in range(64)], "q")
            ends(f"{value} in the data of {net}, {devices[0]}", 2,
                 rf"numpy:set: training sample 19 of data is {kind} at element 5",
                 net, *devices, "--data", "numpy:set", "--epochs", 2, "--save", "never")
            say(not (here / "never").exists(), "and nothing is saved")
    # targets may be none, but not infinite
    line = graph("line.json", {"name": "data", "op": "input", "shape": [8, 4]},
                 {"name": "target", "op": "input", "shape": [8, 1]},
                 {"name": "fc", "op": "linear", "in": ["data"], "out_features": 1},
                 {"name": "loss", "op": "mse", "in": ["fc", "target"]})
    array(here / "line" / "train" / "data.npy", (16, 4), numbers[:64])
    for value, status in ((float("nan"), 0), (float("inf"), 2)):
        array(here / "line" / "train" / "target.npy", (16, 1), [value if i == 3 else i / 16 for i in range(16)])
        done = run(line, "single", "--data", "numpy:line", "--epochs", 2)
        say(done.returncode == status and ("training sample 3 of target is infinite" in done.stderr) == (status > 0),
            f"a target of {value}", done.stderr)

    # ---- weights ----
    at = ["net.json", "single", "--data", "synthetic:64"]
    run(*at, "--steps", 2, "--save", "good", "--checkpoint", "kept", "--optimizer", "adam")
    for value, kind in ((float("nan"), "no number"), (float("-inf"), "infinite")):
        spoil("good", "bad", "fc1.weight", 7, value)
        for plan in (["single"], rank2):
            for more in (["--steps", 1], ["--verify"]):
                ends(f"weights with {value}, {plan[0]} {more[0]}", 2, f"bad: fc1.weight is {kind} at element 7",
                     "net.json", *plan, *at[2:], "--weights", "bad", *more)
    spoil("kept/checkpoint.safetensors", "kept/checkpoint.safetensors", "state1.fc1.bias", 2, float("inf"))
    ends("a checkpoint with one", 2, "state1.fc1.bias is infinite at element 2",
         *at, "--steps", 4, "--optimizer", "adam", "--checkpoint", "kept", "--resume")

    # ---- what training makes ----
    for plan in (["single"], rank2):
        with open("old", "w") as f:
            f.write("as it was")
        ends(f"weights that became none, {plan[0]}", 1, r"old: not written, as fc\d.\w+ is \w+[\w ]* at element \d+",
             "net.json", *plan, *at[2:], "--steps", 1, "--rate", 3e38, "--decay", 3e38, "--save", "old")
        say(open("old").read() == "as it was", "what was there is there")
        name = "kept-" + plan[0]
        run("net.json", *plan, *at[2:], "--steps", 2, "--checkpoint", name)
        before = pathlib.Path(name, "checkpoint.safetensors").read_bytes()
        ends(f"nor do checkpoints have them, {plan[0]}", 1, "checkpoint.safetensors: not written",
             "net.json", *plan, *at[2:], "--steps", 3, "--rate", 3e38, "--decay", 3e38, "--checkpoint", name,
             "--resume")
        say(pathlib.Path(name, "checkpoint.safetensors").read_bytes() == before and
            os.listdir(name) == ["checkpoint.safetensors"], "the last one stays", os.listdir(name))
        ends(f"a loss that is none, {plan[0]}", 1, r"the loss is (no number|infinite) at step \d+",
             "net.json", *plan, *at[2:], "--steps", 9, "--rate", 3e38, "--decay", 3e38, "--save", "old")

    # ---- a loss of 0 ----
    array(here / "line" / "train" / "data.npy", (16, 4), [0] * 64)
    array(here / "line" / "train" / "target.npy", (16, 1), [0] * 16)
    for plan in (["single"], rank2):
        done = run(line, *plan, "--data", "numpy:line", "--verify")
        say(done.returncode == 0 and "loss 0, there 0" in done.stdout, f"a loss of 0 is verified, {plan[0]}",
            done.stdout + done.stderr)

    # ---- what a plan promises ----
    subprocess.run([ffsearch, "net.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "data-parallel",
                    "-o", "plan.json"], check=True, stdout=subprocess.DEVNULL)
    done = run("net.json", "plan.json", *at[2:], "--verify", "--steps", 1, "--report", "report.json")
    plan, have = json.loads(pathlib.Path("plan.json").read_text()), json.loads(
        pathlib.Path("report.json").read_text())["memory_bytes"]
    for said, more in ((have, []), ([have[0], have[1] - 64], [have[1], have[1] - 64])):
        pathlib.Path("plan.json").write_text(json.dumps(dict(plan, memory_bytes=said)))
        done = run("net.json", "plan.json", *at[2:], "--verify")
        want = (f"memory is not what plan.json says: device 1 has {more[0]} bytes, there {more[1]}" if more else
                "memory is what plan.json says")
        say(done.returncode == 0 and want in done.stdout, want, done.stdout + done.stderr)

finish()
