# Weights in and out of ffrun, and checkpoints: whole tensors, whatever the strategy.
# Usage: test_weights.py FFZOO FFRUN FFSEARCH.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffrun, ffsearch = (os.path.abspath(p) for p in sys.argv[1:4])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def train(*options, status=0):
    done = subprocess.run([ffrun, *map(str, options)], capture_output=True, text=True)
    if done.returncode != status:
        say(False, f"exit status {status}", f"{done.returncode}: {done.stderr}")
    return done


def tensors(path):
    """A safetensors file as {name: (shape, numbers)}, and its notes."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    notes = header.pop("__metadata__", {})
    return {k: (v["shape"], struct.unpack(
        f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f", body[slice(*v["data_offsets"])]))
        for k, v in header.items()}, notes


def write(path, values, rounded=()):
    """The other way round; `rounded` names are bfloat16, as others may write them."""
    header, body = {}, b""
    for name, (shape, numbers) in values.items():
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        if name in rounded:
            data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
        header[name] = {"dtype": "BF16" if name in rounded else "F32", "shape": shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def furthest(a, b):
    return max(max(abs(x - y) for x, y in zip(a[k][1], b[k][1])) for k in a)


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    graph, kept = folder / "net.json", folder / "kept"
    subprocess.run([ffzoo, "branchnet", "--batch", "6", "--set", "image=12", "--set", "width=4",
                    "--set", "blocks=1", "-o", graph], check=True)
    common = ["--data", "synthetic:64"]
    flat, dropped = folder / "flat.json", folder / "dropped.json"
    for name, plan in (("zero-1", flat), ("zero-3", dropped)):
        subprocess.run([ffsearch, graph, "--machine", "cpu2", "--costs", "analytic", "--simulate", name, "-o", plan],
                       check=True, stdout=subprocess.DEVNULL)
    plans = {"one device": ["single"], "two": ["data-parallel", "--devices", 2], "two, updated flat": [flat],
             "two, weights dropped": [dropped]}

    # stopped and gone on is as if it had not stopped, to the bit
    scheduled = ["--schedule", "step", "--step-size", 2, "--ramp", 3, "--group",
                 "bias:decay=0,factor=2"]
    for optimizer, *rates in (("sgd", "--clip", 0.05), ("momentum",), ("nesterov", *scheduled), ("adam",),
                              ("adamw", *scheduled, "--clip", 0.05)):
        for name, plan in plans.items():
            at = [graph, *plan, *common, "--optimizer", optimizer, *rates]
            train(*at, "--steps", 7, "--save", folder / "straight")
            for file in kept.glob("*"):
                file.unlink()
            train(*at, "--steps", 4, "--checkpoint", kept, "--resume")
            went = train(*at, "--steps", 7, "--checkpoint", kept, "--resume", "--save",
                         folder / "resumed", "--report", folder / "report")
            say((folder / "straight").read_bytes() == (folder / "resumed").read_bytes(),
                f"{optimizer}{' clipped' * ('--clip' in rates)}, {name}: seven steps, or four and three")
            if "--clip" in rates:
                train(*at[:-2], "--steps", 7, "--save", folder / "unclipped")
                say((folder / "straight").read_bytes() != (folder / "unclipped").read_bytes(),
                    "which clipping changes")
            report = json.loads((folder / "report").read_text())
            say(tensors(kept / "checkpoint.safetensors")[1]["step"] == "7",
                "the last step makes a checkpoint")
            say(report["first_step"] == 4 and report["steps"] == 3 and "after 4 steps" in went.stdout,
                "which is said")

    # a run that is killed goes on from the last checkpoint that is whole
    (kept / "checkpoint.safetensors").unlink()
    at = [graph, "single", *common, "--optimizer", "momentum"]
    killed = subprocess.Popen([ffrun, *map(str, at), "--steps", "1000000", "--checkpoint", kept,
                               "--every", "5"], stdout=subprocess.DEVNULL)
    while not (kept / "checkpoint.safetensors").exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    step = int(tensors(kept / "checkpoint.safetensors")[1]["step"])
    train(*at, "--steps", step + 3, "--save", folder / "straight")
    train(*at, "--steps", step + 3, "--checkpoint", kept, "--resume", "--save", folder / "resumed")
    say(step % 5 == 0 and
        (folder / "straight").read_bytes() == (folder / "resumed").read_bytes(),
        "killed and gone on", f"after {step} steps")

    # as many stay as are asked for, and the newest that is whole is gone on from
    for file in kept.glob("*"):
        file.unlink()
    keeping = [*at, "--checkpoint", kept, "--every", 5, "--keep", 3]
    train(*keeping, "--steps", 23)
    steps = {p.name: tensors(p)[1]["step"] for p in kept.glob("*")}
    say(steps == {"checkpoint.safetensors": "23", "checkpoint-0000000020.safetensors": "20",
                  "checkpoint-0000000015.safetensors": "15"}, "three are kept", steps)
    train(*at, "--steps", 26, "--save", folder / "straight")
    for damaged, behind in (("checkpoint.safetensors", 20),
                            ("checkpoint-0000000020.safetensors", 15)):
        os.truncate(kept / damaged, os.path.getsize(kept / damaged) // 2)
        went = train(*at, "--steps", 26, "--checkpoint", kept,
                     "--every", 100, "--resume", "--keep", 9, "--save", folder / "resumed")
        say((folder / "straight").read_bytes() == (folder / "resumed").read_bytes() and
            f"whole and has {behind} steps behind it" in went.stderr and
            "kept/checkpoint.safetensors is damaged (" in went.stderr,
            f"{damaged} is damaged", went.stderr)
        os.truncate(kept / "checkpoint.safetensors", 100)
    for file in kept.glob("checkpoint-*"):
        file.unlink()
    done = train(*at, "--steps", 26, "--checkpoint", kept, "--resume", status=2)
    say("checkpoint.safetensors" in done.stderr and done.stderr.count("\n") == 1,
        "none is whole", done.stderr)
    (kept / "checkpoint.safetensors").unlink()
    # a step takes longer than the shortest time that can be asked for, the first one's clock
    # having just been set aside; none takes an hour
    for interval, files in (("0.000001s", (19, 20)), ("1h", (1,))):
        for file in kept.glob("*"):
            file.unlink()
        train(*at, "--steps", 20, "--checkpoint", kept, "--interval", interval, "--keep", 1000)
        there = len(list(kept.glob("*")))
        say(there in files, f"checkpoints by time, {interval}", there)
    for file in kept.glob("*"):
        file.unlink()

    # a checkpoint of one strategy serves another
    train(graph, "single", *common, "--steps", 7, "--optimizer", "adamw", "--save",
          folder / "straight")
    straight = tensors(folder / "straight")[0]
    train(graph, "single", *common, "--steps", 4, "--optimizer", "adamw", "--checkpoint", kept)
    for steps, plan in ((5, flat), (6, dropped)):
        train(graph, plan, *common, "--steps", steps, "--optimizer", "adamw", "--checkpoint", kept, "--resume")
    train(graph, "data-parallel", "--devices", 3, *common, "--steps", 7, "--optimizer", "adamw",
          "--checkpoint", kept, "--resume", "--save", folder / "other")
    apart = furthest(straight, tensors(folder / "other")[0])
    say(apart < 1e-4, "others go on from it, those that update flat first", apart)

    # weights from elsewhere: every element where it belongs, under any strategy
    dice = random.Random(5)
    drawn = {k: (shape, [dice.randrange(-8, 9) / 8 for _ in numbers])
             for k, (shape, numbers) in straight.items()}
    foreign = {"counter": ([2], [1.0, 2.0]), **dict(reversed(drawn.items()))}
    write(folder / "foreign", foreign, rounded=list(drawn)[:2])
    for name, plan in plans.items():
        said = train(graph, *plan, *common, "--weights", folder / "foreign", "--dump",
                     folder / "dump", "--verify")
        dumped = tensors(folder / "dump")[0]
        say(all(list(dumped[k][1]) == v and dumped[k][0] == shape
                for k, (shape, v) in drawn.items()), f"weights of a file on {name}")
        say("1 of its" in said.stderr and "verified" in said.stdout,
            "what else is in it is said", said.stderr)

    # what cannot be: one sentence, nothing trained, nothing written
    first = next(iter(drawn))
    cases = {
        "there is no tensor": {k: v for k, v in drawn.items() if k != first},
        "but the graph has": {**drawn, first: ([1], [0.0])},
    }
    for why, values in cases.items():
        write(folder / "bad", values)
        done = train(graph, "single", *common, "--steps", 1, "--weights", folder / "bad", "--save",
                     folder / "never", status=2)
        say(why in done.stderr and first in done.stderr and done.stderr.count("\n") == 1 and
            not (folder / "never").exists(), f"refused: {why}", done.stderr)
    old = (kept / "checkpoint.safetensors").read_bytes()
    for why, more in {
            "its optimizer is adamw, expected sgd": ["--optimizer", "sgd"],
            "its seed is 1, expected 2": ["--optimizer", "adamw", "--seed", 2],
            "its samples is 64, expected 65": ["--optimizer", "adamw", "--data", "synthetic:65"],
            "exclude each other": ["--optimizer", "adamw", "--compare"]}.items():
        done = train(graph, "single", *common, "--steps", 9,
                     "--checkpoint", kept, "--resume", *more, status=2)
        say(why in done.stderr and done.stderr.count("\n") == 1, f"refused: {why}", done.stderr)
    say((kept / "checkpoint.safetensors").read_bytes() == old, "and the checkpoint is as it was")
    done = train(graph, "single", *common, "--steps", 1, "--resume", status=2)
    say("--checkpoint DIR" in done.stderr, "--resume from where", done.stderr)

finish()
