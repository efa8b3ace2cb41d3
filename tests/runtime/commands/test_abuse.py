#!/usr/bin/env python3
# What users, systems and accidents do to ffrun and its files: it ends with one of its statuses, in words, and loses
# nothing.  Prints TAP.  SPDX-License-Identifier: Apache-2.0
"""usage: test_abuse.py FFZOO FFRUN [SEED [WORDS OF A TEST]]"""
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

FFZOO, FFRUN = map(os.path.abspath, sys.argv[1:3])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(10 ** 6)
DICE = random.Random(SEED)
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
MPIRUN = ["mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
TRAIN = [FFRUN, "mlp.json", "data-parallel", "--data", "synthetic:64", "--device", "cpu"]
FOREVER = "100000000"
ASKS = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP]
LIMIT_S = 240  # what takes longer hangs
STARTED = []
# as under nohup: what is ignored here would be ignored by all that is started
for asked in ASKS:
    if signal.getsignal(asked) == signal.SIG_IGN:
        signal.signal(asked, signal.SIG_DFL)
EARLY = "ffrun: ended, as asked, before it had begun\n"


def start(*args, **more):
    STARTED.append(subprocess.Popen(args, stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, text=True,
                                    **more))
    return STARTED[-1]


def states(pid):
    """A line for each thread of the process and of those that it has started: what it is and waits in, its time so far
    in clock ticks, and which signals are pending, blocked, ignored and handled."""
    lines = []
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError):
            folder = "/proc/%d/task/%s" % (pid, task)
            with open(folder + "/stat") as stat, open(folder + "/wchan") as wchan, open(folder + "/status") as status:
                fields = stat.read().split()
                signals = re.findall(r"(?m)^((?:Shd|Sig)(?:Pnd|Blk|Ign|Cgt):\s*\w+)", status.read())
                lines.append("%d %s %s, ticks %s" % (pid, " ".join(fields[:3]), wchan.read(), " ".join(fields[13:15])))
                lines.append("  " + " ".join(signals))
    return lines + [line for child in children(pid) for line in states(child)]


def end(p, status=None):
    try:
        out, err = p.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            print("# " + "\n# ".join(states(p.pid)))
        p.kill()
        raise AssertionError("it hangs")
    assert status is None or p.returncode == status, "status %d, not %d: %s" % (p.returncode, status, err)
    return out, err


def run(*args, status=0, **more):
    return end(start(*args, **more), status)


def refused(*args, status=2, **more):
    """Its one sentence."""
    err = run(*args, status=status, **more)[1]
    assert re.fullmatch(r"ff\w+: [^\n]+\n", err), err
    return err


def wait_for(what, condition, p=None):
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert not p or p.poll() is None, "ended before %s: %s" % (what, p.communicate()[1])
        assert time.monotonic() < until, "waited in vain for " + what
        time.sleep(0.005)


def children(pid):
    with contextlib.suppress(OSError):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return list(map(int, f.read().split()))
    return []


def listens(pid, number):
    """Whether that process is ffrun, not about to become it, and has an action of its own for the signal."""
    with contextlib.suppress(OSError):
        if os.readlink("/proc/%d/exe" % pid) != os.path.realpath(FFRUN):
            return False
        with open("/proc/%d/status" % pid) as f:
            text = f.read()
        held = [int(re.search(r"(?m)^%s:\s*(\w+)" % key, text).group(1), 16) for key in ("SigCgt", "SigBlk")]
        return bool((held[0] | held[1]) >> (number - 1) & 1)
    return False


def train(folder, *more, devices=2):
    """One that would go on for ever, with a first checkpoint."""
    p = start(*TRAIN, "--devices", str(devices), "--steps", FOREVER, "--checkpoint", folder, "--every", "3", *more)
    wait_for("a checkpoint", lambda: os.path.exists(folder + "/checkpoint.safetensors"), p)
    return p


def keep(folder, *more):
    shutil.rmtree(folder, ignore_errors=True)
    run(*TRAIN, "--devices", "1", "--steps", "6", "--checkpoint", folder, "--every", "2", *more)
    return folder + "/checkpoint.safetensors"


def ends_as_asked(p, number, listened):
    out, err = end(p)
    if p.returncode == -number:  # before it was ffrun: the system's own end of a process
        assert not listened, "killed by %s" % number
        return
    assert (p.returncode == 0 and "stopped, as asked" in out and not err) or (
        p.returncode == 1 and err == EARLY and not out), (number, p.returncode, out, err)


def signals_end_it_at_any_moment():
    for devices, times in (1, 4), (2, 1):
        for number in ASKS * times:
            p = start(*TRAIN, "--devices", str(devices), "--steps", FOREVER)
            pause = DICE.uniform(0, 0.15)
            time.sleep(pause)
            listened = listens(p.pid, number)
            p.send_signal(number)
            try:
                ends_as_asked(p, number, listened)
            except AssertionError as e:
                raise AssertionError("%s: %s after %.3f s, %s" % (
                    e, number, pause, "handled" if listened else "not handled yet"))


def signals_end_a_rank_at_any_moment():
    for number in ASKS:
        p = start(*MPIRUN, "-n", "2", *TRAIN, "--steps", FOREVER)
        wait_for("ranks", lambda: any(listens(r, number) for r in children(p.pid)), p)
        time.sleep(DICE.uniform(0, 0.15))
        os.kill(next(r for r in children(p.pid) if listens(r, number)), number)
        out, err = end(p, 0)
        assert "stopped, as asked" in out and not err, (number, out, err)


def an_end_is_asked_for_twice():
    """`timeout` sends its signal twice; who sends one a second later is in a hurry."""
    for _ in range(20):
        p = train("twice")
        began = time.monotonic()
        p.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        p.send_signal(signal.SIGTERM)
        out, err = end(p)
        if p.returncode == 0 or time.monotonic() - began < 0.9:  # else the second may have come later than was meant
            break
        shutil.rmtree("twice")
    assert p.returncode == 0 and "stopped, as asked" in out, (p.returncode, out, err)
    p = train("hurry")
    mpirun, = children(p.pid)
    for rank in children(mpirun):
        for pid in children(rank):
            os.kill(pid, signal.SIGSTOP)
    p.send_signal(signal.SIGTERM)
    while p.poll() is None:  # again where the first was heard so late that the second came too soon behind it
        time.sleep(1.5)
        p.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(LIMIT_S / 8)
    err = end(p, 1)[1]
    assert err == "ffrun: an end was asked for a second time: ranks were ended where they were\n", err


def what_is_ignored_stays_so():
    for devices in 1, 2:
        p = start(*TRAIN, "--devices", str(devices), "--steps", FOREVER, "--checkpoint", "nohup", "--every", "3",
                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        wait_for("a checkpoint", lambda: os.path.exists("nohup/checkpoint.safetensors"), p)
        p.send_signal(signal.SIGHUP)
        os.unlink("nohup/checkpoint.safetensors")
        wait_for("another one", lambda: os.path.exists("nohup/checkpoint.safetensors"), p)
        p.send_signal(signal.SIGTERM)
        assert "stopped, as asked" in end(p, 0)[0]
        shutil.rmtree("nohup")


def who_starts_ranks_is_killed():
    for victim in "mpirun", "watcher":
        for number in signal.SIGKILL, signal.SIGTERM:
            p = train("killed")
            mpirun, = children(p.pid)
            ranks = children(mpirun)
            workers = [w for r in ranks for w in children(r)]
            os.kill(mpirun if victim == "mpirun" else ranks[-1], number)
            err = end(p, 1)[1]
            said = ["ffrun: mpirun on \\S+ (was ended by signal 9 \\(Killed\\)|has ended with status 1)\n",
                    "ffrun: a rank, or who watches it, was ended by signal %d \\(\\w+\\)\n" % number][victim == "watcher"]
            assert re.fullmatch(said, err), err
            wait_for("all processes' end", lambda: not any(os.path.exists("/proc/%d" % w) for w in ranks + workers))
            shutil.rmtree("killed")


def a_watcher_that_is_stopped_hears_the_end():
    p = start(*MPIRUN, "-n", "2", *TRAIN, "--steps", "20")
    wait_for("ranks", lambda: len(children(p.pid)) == 2 and all(children(r) for r in children(p.pid)), p)
    os.kill(children(p.pid)[0], signal.SIGSTOP)
    assert not end(p, 0)[1]


def ranks_do_not_outlive_mpirun():
    p = start(*MPIRUN, "-n", "2", *TRAIN, "--steps", FOREVER)
    wait_for("ranks", lambda: len(children(p.pid)) == 2 and all(children(r) for r in children(p.pid)), p)
    ranks = children(p.pid)
    workers = [w for r in ranks for w in children(r)]
    p.kill()
    p.communicate()
    wait_for("all ranks' end", lambda: not any(os.path.exists("/proc/%d" % w) for w in ranks + workers))


def outputs_that_do_not_arrive_are_told():
    for devices in "1", "2":
        for more in [], ["--report", "-"]:
            with open("/dev/full", "w") as full:
                err = run(*TRAIN, "--devices", devices, "--steps", "2", *more, status=1, stdout=full)[1]
            assert "ffrun: standard output: cannot be written: No space left on device\n" in err, err
        err = run(*TRAIN, "--devices", devices, "--steps", "2", status=1, stdout=None, preexec_fn=lambda: os.close(1))[1]
        assert err == "ffrun: standard output: cannot be written: Bad file descriptor\n", err


def what_is_closed_is_no_files_place():
    run(*TRAIN, "--devices", "1", "--steps", "2", "--save", "w", status=1, stdout=None,
        preexec_fn=lambda: (os.close(0), os.close(1), os.close(2)))
    with open("w", "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        json.loads(f.read(size))


def a_file_may_be_too_large():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    os.mkdir("small")
    err = refused(FFRUN, "wide.json", "single", "--data", "synthetic:64", "--steps", "1", "--save", "small/w",
                  status=1, preexec_fn=limit)
    assert err == "ffrun: small/w: cannot be written: File too large\n", err
    err = refused(FFZOO, "resnet50", "-o", "small/g", status=1, preexec_fn=limit)
    assert err == "ffzoo: small/g: cannot be written: File too large\n", err
    assert not os.listdir("small")


def memory_that_runs_out_is_told():
    """Whatever is missing first: the system's loader has words of its own."""
    for mib in range(48, 66, 2):
        p = start(*TRAIN, "--devices", "1", "--steps", "1",
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
        err = end(p)[1]
        assert p.returncode == 0 or err.strip(), "%d MiB: status %d, not a word" % (mib, p.returncode)


def pipes_do_not_hang_it():
    os.mkfifo("pipe")
    os.mkdir("piped")
    os.mkfifo("piped/checkpoint.safetensors")
    one = [*TRAIN, "--devices", "1", "--steps", "2"]
    for more in [], ["--resume"]:
        assert "is no regular file" in refused(*one, "--checkpoint", "piped", *more)
    assert "plain file" in refused(*one, "--weights", "pipe")
    os.mkfifo("pipe.npz")
    assert "no regular file" in refused(*one, "--data", "numpy:pipe.npz")
    keep("fifo")
    os.mkfifo("metrics")  # goes on: nobody reads it yet
    p = start(*TRAIN, "--devices", "1", "--steps", "8", "--checkpoint", "fifo", "--resume", "--metrics", "metrics")
    with open("metrics") as f:
        said = f.read()
    end(p, 0)
    assert '"step": 8' in said, said
    p = start(FFRUN, "pipe", "single", "--data", "synthetic", "--steps", "1")  # a graph may come through a pipe
    wait_for("ffrun", lambda: listens(p.pid, signal.SIGTERM), p)
    time.sleep(0.1)
    p.send_signal(signal.SIGTERM)
    said = end(p, 1)[1]
    assert said == EARLY, said


def a_folder_that_cannot_be_made_is_told():
    for devices in "1", "2":
        err = refused(*TRAIN, "--devices", devices, "--steps", "2", "--checkpoint", "nothing/here", status=1)
        assert err == "ffrun: nothing/here: cannot be written: No such file or directory\n", err


def one_training_a_folder():
    p = train("mine")
    for devices in "1", "2":
        err = refused(*TRAIN, "--devices", devices, "--steps", "2", "--checkpoint", "mine")
        assert re.fullmatch(r"ffrun: mine: process \d+ on \S+ is writing it \(mine/checkpoint.lock is locked\)\n", err), err
    mpirun, = children(p.pid)
    ranks = children(mpirun)
    workers = [w for r in ranks for w in children(r)]  # one of them holds the lock
    for pid in [p.pid, mpirun, *ranks]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end(p, -signal.SIGKILL)
    wait_for("all ranks' end", lambda: not any(os.path.exists("/proc/%d" % r) for r in ranks + workers))
    os.makedirs("mine", exist_ok=True)
    for name in ".checkpoint.safetensors.ff-4711-0.tmp", ".other.ff-4711-0.tmp":
        open("mine/" + name, "w").close()
    with open("mine/checkpoint.lock", "a"):  # of the dead
        pass
    run(*TRAIN, "--devices", "1", "--steps", "2", "--checkpoint", "mine")
    assert sorted(os.listdir("mine")) == [".other.ff-4711-0.tmp", "checkpoint.safetensors"], os.listdir("mine")


def damage_is_noticed():
    newest = keep("flipped", "--keep", "3")
    with open(newest, "rb") as f:
        whole = f.read()
    for earlier in True, False:
        for _ in range(6):
            at, bit = DICE.randrange(len(whole)), DICE.randrange(8)
            data = bytearray(whole)
            data[at] ^= 1 << bit
            with open(newest, "wb") as f:
                f.write(data)
            p = start(*TRAIN, "--devices", "1", "--steps", "7", "--checkpoint", "flipped", "--resume", "--verify")
            out, err = end(p)
            version = "its version is" in err  # a header that is damaged so that it says another one
            assert newest in err and (version or "is damaged" in err), (at, bit, err)
            assert p.returncode == (0 if earlier and not version else 2), (at, bit, p.returncode, err)
            assert not earlier or version or "goes on from flipped/checkpoint-0000000004" in err, err
            assert earlier or version or "no other checkpoint there is whole" in err, err
        for name in os.listdir("flipped"):
            if name != "checkpoint.safetensors":
                os.unlink("flipped/" + name)
    at = len(whole) // 2  # in the data: the tensor is named
    data = bytearray(whole)
    data[at] ^= 1
    with open(newest, "wb") as f:
        f.write(data)
    size, = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8:8 + size])
    name, = (k for k, v in header.items() if k != "__metadata__" and
             v["data_offsets"][0] <= at - 8 - size < v["data_offsets"][1])
    one = [*TRAIN, "--devices", "1", "--steps", "7"]
    assert "is damaged (%s is not what was written" % name in refused(*one, "--checkpoint", "flipped", "--resume")
    assert "%s is not what was written" % name in refused(*one, "--weights", newest)


def older_checkpoints_are_refused():
    newest = keep("older")
    with open(newest, "rb") as f:
        data = f.read()
    with open(newest, "wb") as f:
        f.write(data.replace(b'"version": "2"', b'"version": "1"'))
    assert "its version is 1, expected 2" in refused(*TRAIN, "--devices", "1", "--steps", "7", "--checkpoint", "older",
                                                     "--resume")


def nothing_left_to_do_is_no_failure():
    for devices in "1", "2":
        keep("finished", "--save", "before")
        out, err = run(*TRAIN, "--devices", devices, "--steps", "6", "--checkpoint", "finished", "--resume", "--save", "after",
                       "--test", "--report", "report")
        assert err == ("ffrun: finished/checkpoint.safetensors has 6 steps behind it, and 6 were asked for: nothing is left "
                       "to be trained\n"), err
        assert "after 6 steps: test loss" in out, out
        with open("before", "rb") as a, open("after", "rb") as b:
            assert a.read() == b.read()
        with open("report") as f:
            report = json.load(f)
        assert report["first_step"] == 6 and report["steps"] == 0, report


def hosts_with_folders_of_their_own_are_told():
    keep("here")
    run(*TRAIN, "--devices", "1", "--steps", "4", "--checkpoint", "there")
    os.mkdir("empty")
    rank = ["-n", "1", *TRAIN, "--steps", "9", "--resume", "--checkpoint"]
    for other, steps in ("there", 4), ("empty", 0):
        err = refused(*MPIRUN, *rank, "here", ":", *rank, other)
        assert re.fullmatch(r"ffrun: --checkpoint here: on \S+ it has 6 steps behind it, on \S+ \(rank 1\) %d: all hosts "
                            r"need [^\n]+\n" % steps, err), err
    shutil.copy("here/checkpoint.safetensors", "empty")
    run(*MPIRUN, *rank, "here", ":", *rank, "empty")


TESTS = [signals_end_it_at_any_moment, signals_end_a_rank_at_any_moment, an_end_is_asked_for_twice,
         what_is_ignored_stays_so, who_starts_ranks_is_killed, a_watcher_that_is_stopped_hears_the_end,
         ranks_do_not_outlive_mpirun, outputs_that_do_not_arrive_are_told, what_is_closed_is_no_files_place,
         a_file_may_be_too_large, memory_that_runs_out_is_told, pipes_do_not_hang_it,
         a_folder_that_cannot_be_made_is_told, one_training_a_folder, damage_is_noticed,
         older_checkpoints_are_refused, nothing_left_to_do_is_no_failure,
         hosts_with_folders_of_their_own_are_told]

for name, more in ("mlp", ["--set", "hidden=8"]), ("wide", ["--set", "hidden=400"]):
    subprocess.run([FFZOO, "mlp", "--batch", "8", "--set", "image=4", "--set", "layers=1", *more, "-o", name + ".json"],
                   check=True)
print("# seed %d" % SEED)
failed = False
TESTS = [t for t in TESTS if " ".join(sys.argv[4:5]).replace(" ", "_") in t.__name__]
for i, test in enumerate(TESTS, 1):
    name = test.__name__.replace("_", " ")
    try:
        test()
        print("ok %d - %s" % (i, name), flush=True)
    except Exception as e:
        failed = True
        print("not ok %d - %s" % (i, name))
        print("# " + repr(e).replace("\n", "\n# "), flush=True)
    for p in STARTED:  # what a test that failed has left
        for pid in (child for parent in [p.pid, *children(p.pid)] for child in [*children(parent), parent] if p.poll() is None):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        p.wait()
    STARTED.clear()
print("1..%d" % len(TESTS))
sys.exit(failed)
