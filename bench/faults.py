#!/usr/bin/env python3
"""Faults at random moments of a training, and other ways to go wrong: does it end well, and is anything lost?

usage: bench/faults.py [--build build] [--faults 54] [--seed N] [--only WORDS]

First the ways that need no luck (ways.py), each once: signals in the first moments, what kills mpirun or who watches
a rank, outputs that are full or closed, limits, pipes instead of files, two trainings in a folder, damaged
checkpoints, ranks that differ, outputs over inputs, data that is no number.  Each must end within a minute, with one
of the statuses that are right for it, in one sentence where that is not 0, and leave all files that it does not own.
Then faults at random moments:

A small network is trained on two ranks with a checkpoint every few steps, three of them kept.
At a random moment something happens: a rank is killed, or stopped; whoever started ffrun asks
for an end; the newest checkpoint is cut off, after a kill; the disk with the checkpoints is full
(as root: a file system of its own); the data is cut off; the loss diverges; ranks are on two emulated
hosts (as root: tests/cluster/cluster.sh), and the link between them drops for three seconds, which the
training outlasts until it is asked for an end, or for good; or there is a third host, on which ffrun was
called and no rank is, and that one's link is gone for good.  Each time ffrun must
end within a minute, with one sentence and exit status 1 (0 where it was asked for an end), and what is left
must be gone on from, to weights that equal to the bit those of a training that nothing happened to.
(Lines in brackets are Open MPI's, which now and then has a word of its own on a rank that is gone.)
Prints a table, and fails if something did not go so.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy

import ways

CLUSTER = pathlib.Path(__file__).resolve().parent.parent / "tests/cluster/cluster.sh"
STEPS, EVERY, PATIENCE_S = 4000, 7, 60
SAMPLES, BATCH, SIDE = 256, 16, 8


def parents():
    """Of all processes: {pid: parent}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                found[int(pid)] = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    return found


def workers(root):
    """Processes below `root` that have no children and are ranks of ours."""
    up = parents()

    def is_below(pid):
        while pid > 1 and pid != root:
            pid = up.get(pid, 0)
        return pid == root

    leaves = [pid for pid in up if pid not in up.values() and pid != root and is_below(pid)]
    return [pid for pid in leaves if "ffrun" in os.path.basename(os.readlink(f"/proc/{pid}/exe"))]


class Bed:
    """Where one fault happens."""

    def __init__(self, tools, folder, dice):
        self.tools, self.folder, self.dice = tools, folder, dice
        self.kept, self.data = folder / "kept", folder / "data"
        self.newest = self.kept / "checkpoint.safetensors"
        self.more, self.hosts, self.timeout = [], [], "2s"

    def command(self, *more):
        return [self.tools / "runtime/ffrun", self.folder / "net.json", "data-parallel", "--devices",
                "2", "--data", f"numpy:{self.data}", "--checkpoint", self.kept, "--every", EVERY,
                "--keep", 3, "--timeout", self.timeout, *self.more, *more]

    def start(self):
        command = self.hosts + self.command("--steps", 10 ** 8)
        self.ffrun = subprocess.Popen([str(c) for c in command], text=True,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.wait_for(self.newest.exists)
        time.sleep(self.dice.uniform(0, 0.7))

    def wait_for(self, condition):
        until = time.monotonic() + PATIENCE_S
        while not condition() and self.ffrun.poll() is None:
            if time.monotonic() > until:
                raise RuntimeError("waited in vain")
            time.sleep(0.005)

    def end(self):
        """(status, what it said)"""
        try:
            _, said = self.ffrun.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.ffrun.kill()
            raise RuntimeError("it hangs") from None
        return self.ffrun.returncode, said


def make_data(folder):
    dice = numpy.random.default_rng(1)
    (folder / "train").mkdir(parents=True)
    numpy.save(folder / "train/data.npy", dice.random((SAMPLES, 1, SIDE, SIDE), numpy.float32))
    numpy.save(folder / "train/labels.npy", dice.integers(0, 10, SAMPLES).astype(numpy.int32))


# What happens: each gets the bed with a training under way.

def kill(bed):
    os.kill(bed.dice.choice(workers(bed.ffrun.pid)), signal.SIGKILL)


def stop(bed):
    os.kill(bed.dice.choice(workers(bed.ffrun.pid)), signal.SIGSTOP)


def ask(bed):
    bed.ffrun.send_signal(bed.dice.choice([signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]))


def cut_off(bed):
    kill(bed)
    bed.ffrun.wait(PATIENCE_S)
    if bed.newest.exists():
        os.truncate(bed.newest, bed.dice.randrange(os.path.getsize(bed.newest)))


def fill_disk(bed):
    """Until it ends: a checkpoint that is removed makes room."""
    with open(bed.kept / "full", "wb") as f:
        def fill():
            size = os.statvfs(bed.kept)
            try:
                f.write(bytes(size.f_bavail * size.f_frsize))
                f.flush()
            except OSError:
                pass  # somebody else was faster
        def is_over():
            fill()
            return False
        bed.wait_for(is_over)


def cut_data(bed):
    path = bed.data / "train/data.npy"
    os.truncate(path, bed.dice.randrange(200, os.path.getsize(path)))


def nothing(bed):
    pass


def two_hosts(bed):
    bed.hosts = [CLUSTER, bed.tools / "tests/cluster", "2", "1gbit", "0", "--"]


def two_patient_hosts(bed):
    two_hosts(bed)
    bed.timeout = "60s"


def a_host_apart(bed):
    two_hosts(bed)
    ranks = bed.folder / "hosts"
    ranks.write_text("node1 slots=1\nnode2 slots=1\n", encoding="ascii")
    bed.hosts[2] = "3"
    bed.hosts += ["env", f"OMPI_MCA_orte_default_hostfile={ranks}"]


def set_link(bed, *how, host=1):
    """What the hub between the hosts does with the card of one."""
    up = parents()

    def is_hub(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            return False
        return up[pid] == bed.ffrun.pid and b"hub" in words

    hub, = filter(is_hub, up)
    subprocess.run(["nsenter", "--target", str(hub), "--net", "ip", "link", "set", f"port{host}", *how], check=True)


def lose_link(bed):
    set_link(bed, "nomaster")


def lose_own_link(bed):
    set_link(bed, "nomaster", host=0)


def interrupt_link(bed):
    lose_link(bed)
    time.sleep(3)
    newest = os.stat(bed.newest).st_mtime_ns
    set_link(bed, "master", "bridge")
    bed.wait_for(lambda: bed.newest.exists() and os.stat(bed.newest).st_mtime_ns != newest)
    bed.ffrun.send_signal(signal.SIGTERM)


def small_disk(bed):
    bed.kept.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", bed.kept], check=True)


def diverge(bed):
    bed.more = ["--rate", "1e30"]


def restore_data(bed):
    for path in (bed.data / "train").iterdir():
        path.unlink()
    (bed.data / "train").rmdir()
    make_data(bed.data)


# name: (before it starts, what happens, exit status, how it is mended)
FAULTS = {
    "a rank is killed": (nothing, kill, 1, nothing),
    "a rank is stopped": (nothing, stop, 1, nothing),
    "an end is asked for": (nothing, ask, 0, nothing),
    "killed, and a checkpoint cut off": (nothing, cut_off, 1, nothing),
    "the disk is full": (small_disk, fill_disk, 1, lambda bed: os.unlink(bed.kept / "full")),
    "data is cut off": (nothing, cut_data, 1, restore_data),
    "the loss diverges": (diverge, nothing, 1, None),
    "the link drops for 3 s": (two_patient_hosts, interrupt_link, 0, nothing),
    "the link is gone": (two_hosts, lose_link, 1, nothing),
    "the link of ffrun's own host is gone": (a_host_apart, lose_own_link, 1, nothing),
}


def steps_behind(path):
    data = path.read_bytes()
    at = data.index(b'"step"') + len(b'"step"')
    return int(data[at:at + 30].split(b'"')[1])


def goes_on(bed):
    """What is wrong with the weights that it goes on to, beside a straight run's; empty: nothing."""
    newest = max((steps_behind(p) for p in bed.kept.glob("*.safetensors")
                  if os.path.getsize(p) > 2000), default=0)
    steps = str(newest + 5)
    for name, more in (("on", ["--resume"]), ("straight", ["--checkpoint", bed.folder / "other"])):
        done = subprocess.run([str(c) for c in bed.command(*more, "--steps", steps, "--save",
                                                           bed.folder / name)],
                              capture_output=True, text=True, timeout=20 * PATIENCE_S, check=False)
        if done.returncode:
            return f"does not go on: {done.stderr.strip()}"
    if (bed.folder / "on").read_bytes() != (bed.folder / "straight").read_bytes():
        return "goes on to other weights"
    return ""


def make_net(tools, folder):
    subprocess.run([tools / "graphs/ffzoo", "mlp", "--batch", str(BATCH), "--set", f"image={SIDE}",
                    "--set", "hidden=32", "--set", "layers=1", "-o", folder / "net.json"], check=True)


def try_ways(tools, only, dice):
    """A table; how many went wrong."""
    wrong = 0
    print(f"{'way':40} {'status':>8} {'lines':>6} {'lost':>5}  what is wrong")
    for name in (n for n in ways.WAYS if only in n):
        with tempfile.TemporaryDirectory() as folder:
            bed = Bed(tools, pathlib.Path(folder), dice)
            make_data(bed.data)
            make_net(tools, bed.folder)
            try:
                statuses, lines, lost, why = ways.try_way(bed, name, PATIENCE_S)
            except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as e:
                statuses, lines, lost, why = [], [], [], str(e)
        wrong += bool(why)
        print(f"{name:40} {','.join(map(str, statuses)):>8} {len(lines):6} {len(lost):5}  {why}", flush=True)
    return wrong


def try_fault(tools, folder, name, dice):
    """What went wrong; empty: nothing."""
    before, happens, status, mend = FAULTS[name]
    bed = Bed(tools, folder, dice)
    make_data(bed.data)
    make_net(tools, folder)
    before(bed)
    try:
        if mend:
            bed.start()
            happens(bed)
        else:
            bed.ffrun = subprocess.Popen([str(c) for c in bed.command("--steps", STEPS)], text=True,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        got, said = bed.end()
        lines = [x for x in said.split("\n") if x and not x.startswith(("[", "cluster:"))]  # Open MPI's own
        if got != status:
            return f"exit status {got}: {said.strip()}"
        if status and (len(lines) != 1 or not lines[0].startswith("ffrun: ")):
            return f"not one sentence: {said.strip()}"
        if not mend:
            return ""
        mend(bed)
        return goes_on(bed)
    finally:
        subprocess.run(["umount", "-q", bed.kept], check=False)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--build", default="build", type=pathlib.Path, help="build folder (build)")
    p.add_argument("--faults", default=54, type=int, help="how many (54)")
    p.add_argument("--only", default="", help="faults whose names have these words")
    p.add_argument("--seed", default=1, type=int, help="of what happens, and when (1)")
    o = p.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    dice = random.Random(o.seed)
    wrong = no_luck = try_ways(o.build.resolve(), o.only, dice)
    names = [n for n in FAULTS if o.only in n and
             (os.geteuid() == 0 or not (n == "the disk is full" or "link" in n))]
    count = {n: [0, 0, 0.0] for n in names}
    for i in range(o.faults if names else 0):
        name = names[i % len(names)]
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            try:
                why = try_fault(o.build.resolve(), pathlib.Path(folder), name, dice)
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                why = str(e)
        count[name][0] += 1
        count[name][1] += not why
        count[name][2] = max(count[name][2], time.monotonic() - start)
        if why:
            wrong += 1
            print(f"{name}: {why}", file=sys.stderr)
    print(f"{'fault':36} {'times':>6} {'ended well':>11} {'longest s':>10}")
    for name, (n, good, longest) in count.items():
        print(f"{name:36} {n:6} {good:11} {longest:10.1f}")
    print(f"{o.faults - wrong + no_luck} of {o.faults} ended well, seed {o.seed}; of the ways above {no_luck} did not")
    sys.exit(wrong > 0)


main()
