"""Ways to go wrong that need no luck: what users, systems and accidents do.  faults.py tries them.

Each is a function of a bed (faults.Bed) that gives the process, or several one after the other, that must end
with one of the statuses named, in words where it is not 0.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import time

import numpy

MPIRUN = ["mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
ASKS = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP]


def start(command, **more):
    more.setdefault("stdout", subprocess.DEVNULL)
    return subprocess.Popen([str(c) for c in command], text=True, stderr=subprocess.PIPE, **more)


def train(bed, *more, devices=2, steps=4, keep=False, data=None):
    checkpoint = ["--checkpoint", bed.kept, "--every", 2, "--keep", 3] if keep else []
    return [bed.tools / "runtime/ffrun", bed.folder / "net.json", "data-parallel", "--data",
            data or f"numpy:{bed.data}", "--steps", steps, *checkpoint, *more,
            *(["--devices", devices] if devices else [])]


def forever(bed, *more, devices=2):
    return start(train(bed, *more, devices=devices, steps=10 ** 8, keep=True))


def children(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return list(map(int, f.read().split()))
    return []


def under_way(bed, *more):
    p = forever(bed, *more)
    while not bed.newest.exists() and p.poll() is None:
        time.sleep(0.01)
    return p


def kept(bed):
    subprocess.run([str(c) for c in train(bed, devices=1, steps=6, keep=True)], check=True, stdout=subprocess.DEVNULL)


def asked(bed, devices):
    p = forever(bed, devices=devices)
    time.sleep(bed.dice.uniform(0.01, 0.15))
    p.send_signal(bed.dice.choice(ASKS))
    return p


def starter_ends(bed, number, rank):
    p = under_way(bed)
    mpirun, = children(p.pid)
    os.kill(bed.dice.choice(children(mpirun)) if rank else mpirun, number)
    return p


def hurried(bed):
    p = under_way(bed)
    for rank in children(children(p.pid)[0]):
        for worker in children(rank):
            os.kill(worker, signal.SIGSTOP)
    for _ in range(2):
        p.send_signal(signal.SIGTERM)
        time.sleep(1.5)
    return p


def full(bed, *command):
    with open("/dev/full", "w", encoding="ascii") as out:
        return start(command or train(bed, devices=bed.dice.choice([1, 2])), stdout=out)


def closed(bed):
    return start(train(bed, devices=bed.dice.choice([1, 2])), stdout=None, preexec_fn=lambda: os.close(1))


def limited(bed, what, bytes_, *more):
    return start(train(bed, "--save", bed.folder / "saved", *more, devices=1),
                 preexec_fn=lambda: resource.setrlimit(what, (bytes_, bytes_)))


def pipe_for_checkpoint(bed):
    bed.kept.mkdir()
    os.mkfifo(bed.newest)
    return start(train(bed, devices=bed.dice.choice([1, 2]), keep=True))


def pipe_for(bed, option):
    os.mkfifo(bed.folder / "pipe")
    return start(train(bed, option, bed.folder / "pipe"))


def pipe_for_graph(bed):
    """May be one: it waits for who writes it, and ends when it is asked to."""
    (bed.folder / "net.json").unlink()
    os.mkfifo(bed.folder / "net.json")
    p = start(train(bed))
    time.sleep(0.5)
    p.send_signal(bed.dice.choice(ASKS))
    return p


def two_in_a_folder(bed):
    first = under_way(bed)
    yield start(train(bed, devices=1, keep=True))
    first.send_signal(signal.SIGTERM)
    yield first


def killed_while_writing(bed):
    bed.kept.mkdir()
    (bed.kept / ".checkpoint.safetensors.ff-4711-0.tmp").write_bytes(b"half")
    yield start(train(bed, devices=1, keep=True))
    left = [p.name for p in bed.kept.iterdir() if p.name.startswith(".")]
    if left:
        raise RuntimeError(f"leaves {left}")


def flipped(bed, others):
    kept(bed)
    data = bytearray(bed.newest.read_bytes())
    data[bed.dice.randrange(len(data) // 2, len(data))] ^= 1 << bed.dice.randrange(8)
    bed.newest.write_bytes(data)
    for path in bed.kept.glob("checkpoint-*"):
        if not others:
            path.unlink()
    p = start(train(bed, "--resume", steps=9, keep=True))
    said = p.stderr.read()
    bed.said = said  # of one that ends well, too
    if "is damaged" not in said:
        raise RuntimeError(f"does not notice it: {said}")
    return p


def finished(bed):
    kept(bed)
    return start(train(bed, "--resume", steps=6, keep=True))


def ranks(bed, *differently):
    """Two whose command lines differ."""
    command = []
    for more in differently:
        command += [":"] * bool(command) + ["-n", 1, *train(bed, *more, devices=None, steps=9)]
    return start(MPIRUN + command)


def folders_apart(bed):
    kept(bed)
    other = bed.folder / "other"
    shutil.copytree(bed.kept, other)
    shutil.move(other / "checkpoint-0000000004.safetensors", other / "checkpoint.safetensors")
    return ranks(bed, *(["--resume", "--checkpoint", f] for f in (bed.kept, other)))


def over_data(bed):
    return start(train(bed, "--save", bed.data / "train/data.npy"))


def over_weights(bed):
    path = bed.folder / "weights"
    subprocess.run([str(c) for c in train(bed, "--save", path, devices=1)], check=True, stdout=subprocess.DEVNULL)
    return start(train(bed, "--weights", path, "--save", path))


def over_model(bed):
    path = bed.folder / "model.onnx"
    path.write_bytes(b"not a model")
    return start([bed.tools / "graphs/ffimport", path, "-o", path])


def no_number(bed, value):
    path = bed.data / "train/data.npy"
    array = numpy.load(path)
    array[bed.dice.randrange(len(array)), 0, 3, 4] = value
    numpy.save(path, array)
    return start(train(bed, "--save", bed.folder / "saved", devices=1, steps=40))


# name: (what is done, statuses that are right)
WAYS = {
    "asked for an end in the first 0.15 s": (lambda b: asked(b, 2), (0, 1)),
    "the same, on one device": (lambda b: asked(b, 1), (0, 1)),
    "mpirun is killed": (lambda b: starter_ends(b, signal.SIGKILL, False), (1,)),
    "mpirun gets SIGTERM": (lambda b: starter_ends(b, signal.SIGTERM, False), (1,)),
    "who watches a rank is killed": (lambda b: starter_ends(b, signal.SIGKILL, True), (1,)),
    "who watches a rank gets SIGTERM": (lambda b: starter_ends(b, signal.SIGTERM, True), (1,)),
    "asked for an end twice, while it hangs": (hurried, (1,)),
    "standard output is full": (full, (1,)),
    "standard output is full: ffzoo": (lambda b: full(b, b.tools / "graphs/ffzoo", "--list"), (1,)),
    "standard output is full: ffprof": (
        lambda b: full(b, b.tools / "runtime/ffprof", "--topology", "--machine", "cpu2"), (1,)),
    "standard output is closed": (closed, (1,)),
    "ulimit -f": (lambda b: limited(b, resource.RLIMIT_FSIZE, 4096), (1,)),
    "ulimit -v": (lambda b: limited(b, resource.RLIMIT_AS, b.dice.randrange(45 << 20, 70 << 20)), (0, 1, -6, -11, 127)),
    "a pipe instead of a checkpoint": (pipe_for_checkpoint, (2,)),
    "a pipe instead of weights": (lambda b: pipe_for(b, "--weights"), (2,)),
    "a graph from a pipe without a writer": (pipe_for_graph, (1,)),
    "two trainings in a folder": (two_in_a_folder, (2, 0)),
    "killed while a checkpoint was written": (killed_while_writing, (0,)),
    "a bit of a checkpoint is another": (lambda b: flipped(b, True), (0,)),
    "and there is no other checkpoint": (lambda b: flipped(b, False), (2,)),
    "nothing is left to be trained": (finished, (0,)),
    "hosts with folders of their own": (folders_apart, (2,)),
    "ranks with other rates": (lambda b: ranks(b, ["--rate", 0.01], ["--rate", 0.02]), (1, 2)),
    "ranks with other data": (lambda b: ranks(b, [], ["--seed", 2]), (1, 2)),
    "weights over the data": (over_data, (2,)),
    "weights over those it began with": (over_weights, (2,)),
    "a graph over the model": (over_model, (2,)),
    "no number in the data": (lambda b: no_number(b, numpy.nan), (1, 2)),
    "infinity in the data": (lambda b: no_number(b, numpy.inf), (1, 2)),
}


def precious(bed):
    """What must stay: {path: digest}."""
    paths = [p for p in [bed.folder / "net.json", bed.folder / "weights", bed.folder / "model.onnx",
                         *bed.data.rglob("*"), *bed.kept.glob("*.safetensors")] if p.is_file()]
    return {p: hashlib.sha256(p.read_bytes()).digest() for p in paths}


def try_way(bed, name, patience_s):
    """(statuses, lines said, files lost, what is wrong; empty: nothing)"""
    does, right = WAYS[name]
    before, got = {}, does(bed)
    statuses, lines, wrong = [], [], ""
    for p in [got] if isinstance(got, subprocess.Popen) else got:
        before.update(precious(bed))
        try:
            said = p.communicate(timeout=patience_s)[1] or getattr(bed, "said", "")
        except subprocess.TimeoutExpired:
            p.kill()
            return statuses, lines, [], "it hangs"
        said = [x for x in said.split("\n") if x and not x.startswith("[")]  # Open MPI's own
        statuses.append(p.returncode)
        lines += said
        if p.returncode not in right:
            wrong = wrong or f"exit status {p.returncode}: {' / '.join(said)}"
        elif p.returncode and (len(said) != 1 if p.returncode > 0 else not said):
            wrong = wrong or f"not one sentence: {' / '.join(said)}"
    now = precious(bed)
    # checkpoints are replaced by newer ones; what else there was is as it was
    lost = [p.name for p, digest in before.items() if now.get(p) != digest and bed.kept not in p.parents]
    lost += ["checkpoint"] * (any(bed.kept in p.parents for p in before) and not any(bed.kept in p.parents for p in now))
    return statuses, lines, lost, wrong or (f"lost {', '.join(lost)}" if lost else "")
