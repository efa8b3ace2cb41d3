#!/usr/bin/env python3
# How ffrun and ffprof end when they are not left to: signals, killed ranks, losses that are no numbers.
# Prints TAP.  SPDX-License-Identifier: Apache-2.0
"""usage: test_ends.py FFZOO FFRUN FFPROF limits|others"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

FFZOO, FFRUN, FFPROF = map(os.path.abspath, sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
os.environ["OMP_NUM_THREADS"] = "1"
# Open MPI's own leaks do not count
os.environ["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
FOREVER = "100000000"
HANGS_S = 240  # what takes longer
TRAIN = ["mlp.json", "data-parallel", "--data", "synthetic:64", "--device", "cpu"]


class EndedEarly(AssertionError):
    pass


def start(*args):
    return subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(p, status):
    """Its output, once it ended as it should; never does it hang."""
    try:
        out, err = p.communicate(timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        p.kill()
        raise AssertionError("it hangs")
    assert p.returncode == status, "status %d, not %d: %s" % (p.returncode, status, err)
    return out, err


def run(*args, status=0):
    return end(start(*args), status)


def wait_for(what, condition, p):
    until = time.monotonic() + HANGS_S
    while not condition():
        if p.poll() is not None and not condition():
            raise EndedEarly("ended before %s: %s" % (what, p.communicate()[1]))
        assert time.monotonic() < until, "waited in vain for " + what
        time.sleep(0.02)


def stop_at_work(command, kept, limit_s, stop):
    """What has stopped ranks of a training that has kept something says, with the limit of patience. It is longer
    where ranks were so late on their own, as the machine has other work, that one had ended before."""
    for times in 1, 4, 16:
        p = start(*command, "--steps", FOREVER, "--checkpoint", kept, "--every", "3", "--timeout",
                  f"{limit_s * times}s")
        try:
            wait_for("a checkpoint", lambda: os.path.exists(kept + "/checkpoint.safetensors"), p)
            break
        except EndedEarly as e:
            if times == 16 or "has waited for other ranks" not in str(e) and "has come no further" not in str(e):
                raise
            print("# " + str(e).replace("\n", " "))
    stop(p, ranks_below(p.pid))
    said = end(p, 1)
    os.unlink(kept + "/checkpoint.safetensors")
    return said


def parent_of(pid):
    with open("/proc/%s/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def ranks_below(root):
    """Pids that compute for `root`, by rank: of the two processes of a rank the one that has no child."""
    found, parents = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(pid)] = parent_of(pid)
            with open("/proc/%s/environ" % pid, "rb") as f:
                m = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", f.read())
        except OSError:
            continue
        if m:
            found[int(pid)] = int(m.group(1))

    def below(pid):
        while pid > 1 and pid != root:
            pid = parents.get(pid, 0)
        return pid == root

    return {rank: pid for pid, rank in found.items() if below(pid) and parents[pid] in found}


def read_report(path):
    with open(path) as f:
        return json.load(f)


def a_killed_rank_is_named():
    p = start(FFRUN, *TRAIN, "--devices", "2", "--steps", FOREVER, "--checkpoint", "killed", "--every", "3")
    wait_for("a checkpoint", lambda: os.path.exists("killed/checkpoint.safetensors"), p)
    os.kill(ranks_below(p.pid)[1], signal.SIGKILL)
    out, err = end(p, 1)
    assert re.fullmatch(r"ffrun: rank 1 on \S+ was ended by signal 9 \(Killed\)[^\n]*\n", err), err
    assert not out, out


def ends_are_told_beside_compute():
    """Where the thread that computes also waits, the rank that is stopped is named, and the one that is killed."""
    for number, said in ((signal.SIGSTOP, "has (come no further|waited for other ranks) .*: a signal has stopped it"),
                         (signal.SIGKILL, "was ended by signal 9")):
        _, err = stop_at_work(["env", "FF_OVERLAP=tasks", FFRUN, *TRAIN, "--machine", "./beside.json"], "beside", 4,
                              lambda _, ranks, number=number: os.kill(ranks[1], number))
        assert re.search(r"(?m)^ffrun: rank 1 on \S+ " + said, err), err  # AddressSanitizer's warning comes before
    for word in "often", "sleep":
        p = start("env", f"FF_OVERLAP={word}", FFRUN, *TRAIN, "--machine", "./beside.json", "--steps", "1")
        assert end(p, 2)[1] == f"ffrun: FF_OVERLAP={word}: expected thread or tasks\n"


def a_rank_that_comes_no_further_is_named():
    for stuck in 0, 1:
        _, err = stop_at_work([FFRUN, *TRAIN, "--devices", "2"], "stuck", 4,
                              lambda _, ranks, stuck=stuck: os.kill(ranks[stuck], signal.SIGSTOP))
        assert re.fullmatch(r"ffrun: rank %d on \S+ has (come no further|waited for other ranks) for \d+ s in step \d+: a "
                            r"signal has stopped it [^\n]*\n" % stuck, err), err


def a_rank_that_nobody_can_name_is_missed():
    def stop(p, ranks):
        gone = parent_of(ranks[1]), ranks[1]
        for pid in gone:
            os.kill(pid, signal.SIGSTOP)
        wait_for("a word", lambda: 0 not in ranks_below(p.pid), p)
        for pid in gone:  # mpirun waits for them, as it would not for a host that is gone
            with contextlib.suppress(ProcessLookupError):  # nor any longer for these, by now
                os.kill(pid, signal.SIGCONT)

    _, err = stop_at_work([FFRUN, *TRAIN, "--devices", "2"], "gone", 4, stop)
    assert re.match(r"ffrun: rank 0 on \S+ has waited for other ranks for \d+ s in step \d+ ", err), err


def stop_and_go_on(devices, number):
    """Stopped by a signal and gone on from there it is, to the bit, as if nobody had stopped it."""
    train = [FFRUN, *TRAIN, "--devices", str(devices)]
    name = "stopped-%d-%d" % (devices, number)
    keep = ["--checkpoint", name, "--every", "5"]
    p = start(*train, "--steps", FOREVER, *keep, "--report", name + ".json")
    wait_for("a checkpoint", lambda: os.path.exists(name + "/checkpoint.safetensors"), p)
    p.send_signal(number)
    out, _ = end(p, 0)
    assert "stopped, as asked" in out, out
    first = read_report(name + ".json")
    done = first["steps"]
    assert first["stopped"] and len(first["loss"]) == done
    run(*train, "--steps", str(done + 4), *keep, "--resume", "--report", "rest.json")
    rest = read_report("rest.json")
    assert rest["first_step"] == done and not rest["stopped"], rest
    run(*train, "--steps", str(done + 4), "--report", "whole.json")
    assert read_report("whole.json")["loss"] == first["loss"] + rest["loss"]


def one_process_stops():
    stop_and_go_on(1, signal.SIGUSR1)


def ranks_stop():
    stop_and_go_on(2, signal.SIGTERM)


def ranks_stop_at_ctrl_c():
    stop_and_go_on(2, signal.SIGINT)


def a_loss_that_is_no_number_is_told_and_not_kept():
    for devices in "1", "2":
        name = "diverged-" + devices
        train = [FFRUN, *TRAIN, "--devices", devices, "--checkpoint", name, "--every", "1"]
        run(*train, "--steps", "2")
        before = open(name + "/checkpoint.safetensors", "rb").read()
        run(*train, "--steps", "3", "--resume")
        assert open(name + "/checkpoint.safetensors", "rb").read() != before
        _, err = run(*train, "--steps", "40", "--resume", "--rate", "1e30", status=1)
        assert re.fullmatch(r"ffrun: data-parallel: the loss is (no number|infinite) at step [^\n]+\n", err), err


def a_loss_that_grows_stays_in_its_column():
    nodes = [{"name": "x", "op": "input", "shape": [8, 16]}, {"name": "y", "op": "input", "shape": [8, 4]},
             {"name": "f", "op": "linear", "in": ["x"], "out_features": 4},
             {"name": "g", "op": "linear", "in": ["f"], "out_features": 4},
             {"name": "loss", "op": "mse", "in": ["g", "y"]}]
    with open("grows.json", "w", encoding="utf-8") as f:
        json.dump({"format": "ffsoap-graph", "version": 2, "name": "grows", "nodes": nodes}, f)
    out, _ = run(FFRUN, "grows.json", "single", "--data", "synthetic", "--rate", "1.5", "--steps", "5", "--report",
                 "grows.report")
    told = re.search(r"^  loss, last steps *(\S+) *$", out, re.M)[1]
    losses = read_report("grows.report")["loss"]
    assert max(losses) > 1e12 and len(told) <= 10, (told, losses)
    assert abs(float(told) * len(losses) / sum(losses) - 1) < 1e-3, (told, losses)


def outputs_are_looked_at_first():
    for option in "--report", "--trace", "--html", "--dump", "--save":
        _, err = run(FFRUN, *TRAIN, "--devices", "2", "--steps", FOREVER, option, "no/file", status=1)
        assert err == "ffrun: no/file: cannot be written: No such file or directory\n", err
        _, err = run(FFRUN, *TRAIN, "--devices", "2", "--steps", FOREVER, option, "mlp.json", status=2)
        assert err == "ffrun: %s would replace GRAPH, which is read: mlp.json\n" % option, err


def too_many_ranks_are_not_started():
    _, err = run(FFRUN, *TRAIN, "--devices", "2000", "--steps", "3", status=2)
    assert "the 8 samples of the batch" in err, err
    _, err = run(FFPROF, "mlp.json", "--machine", "many.json", "-o", "many-costs.json", status=2)
    assert re.fullmatch(r"ffprof: 2000 ranks would run on the \d+ cores of this computer: [^\n]+\n", err), err


def a_report_may_go_to_standard_output():
    out, err = run(FFRUN, *TRAIN, "--devices", "1", "--steps", "4", "--report", "-")
    assert json.loads(out)["steps"] == 4 and "measured step time" in err


def a_profile_is_of_its_machine():
    _, err = run(FFPROF, "mlp.json", "--machine", "p100x16", "--device", "cpu", "-o", "p100.json", status=2)
    assert "P100 devices, which compute with cuda, not with cpu" in err, err
    assert not os.path.exists("p100.json")


def machines_have_as_many_nodes_as_asked_for():
    for command in [[FFRUN, *TRAIN, "--steps", "3"], [FFPROF, "mlp.json", "-o", "none.json"]]:
        out, err = run(*command, "--machine", "list")
        assert "\ndgx-a100-40 " in out and not err, out
        _, err = run(*command, "--machine", "dgx-a100-40:0", status=2)
        assert err.endswith(': machine "dgx-a100-40:0": expected 1 to 4096 nodes behind the colon, not "0"\n'), err
        _, err = run(*command, "--machine", "dgx-a100-41:2", status=2)
        assert err.endswith("; did you mean dgx-a100-40?\n"), err
    # one node of two, then two
    with open("wide.json", "w") as f:
        link = {"latency_us": 1, "bytes_per_s": 1e9}
        kind = {"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 1e10, "memory_bytes": 1 << 30}
        json.dump({"format": "ffsoap-machine", "version": 1, "name": "wide", "overlap": False, "kinds": [kind],
                   "nodes": [{"devices": 2, "kind": "cpu", "inside": link, "network": link}]}, f)
    run(FFRUN, *TRAIN, "--machine", "wide.json:2", "--devices", "3", "--steps", "3", "--device", "null")
    _, err = run(FFRUN, *TRAIN, "--machine", "wide.json", "--devices", "3", "--steps", "3", status=2)
    assert "machine wide has 2 devices" in err, err
    _, err = run(FFPROF, "mlp.json", "--machine", "wide.json:2", "--devices", "5", "-o", "none.json", status=2)
    assert "machine wide:2 has 4" in err, err


def two_profiles_of_one_file():
    p = start(FFPROF, "mlp.json", "--machine", "cpu2", "-o", "costs.json")
    wait_for("the lock", lambda: ranks_below(p.pid) and os.path.exists("costs.json.lock"), p)
    _, err = run(FFPROF, "mlp.json", "--machine", "cpu2", "-o", "costs.json", status=2)
    assert re.fullmatch(r"ffprof: costs.json: process \d+ on \S+ is writing it \(costs.json.lock is locked\)\n", err), err
    p.send_signal(signal.SIGINT)
    out, _ = end(p, 0)
    assert "the same command goes on from here" in out or "missing kernels measured" in out, out
    assert read_report("costs.json")["format"] == "ffsoap-costs"
    assert not os.path.exists("costs.json.lock")


# those that wait some seconds for a rank need a machine where ranks are not late for other reasons
TESTS = {"limits": [ends_are_told_beside_compute, a_rank_that_comes_no_further_is_named,
                    a_rank_that_nobody_can_name_is_missed],
         "others": [a_killed_rank_is_named, one_process_stops, ranks_stop, ranks_stop_at_ctrl_c,
                    a_loss_that_is_no_number_is_told_and_not_kept, a_loss_that_grows_stays_in_its_column,
                    outputs_are_looked_at_first,
                    too_many_ranks_are_not_started, a_report_may_go_to_standard_output, a_profile_is_of_its_machine,
                    machines_have_as_many_nodes_as_asked_for, two_profiles_of_one_file]}[sys.argv[4]]

subprocess.run([FFZOO, "mlp", "--batch", "8", "--set", "image=4", "--set", "hidden=8", "--set", "layers=1", "-o",
                "mlp.json"], check=True)
with open("many.json", "w") as f:
    json.dump({"format": "ffsoap-machine", "version": 1, "name": "many", "overlap": False,
               "kinds": [{"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 1e10, "memory_bytes": 1 << 30}],
               "nodes": [{"devices": 2000, "kind": "cpu", "inside": {"latency_us": 1, "bytes_per_s": 1e9}}]}, f)
with open("beside.json", "w") as f:
    json.dump({"format": "ffsoap-machine", "version": 1, "name": "beside", "overlap": True,
               "kinds": [{"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 1e10, "memory_bytes": 1 << 30}],
               "nodes": [{"devices": 2, "kind": "cpu", "inside": {"latency_us": 1, "bytes_per_s": 1e9}}]}, f)
failed = False
for i, test in enumerate(TESTS, 1):
    name = test.__name__.replace("_", " ")
    try:
        test()
        print("ok %d - %s" % (i, name), flush=True)
    except Exception as e:
        failed = True
        print("not ok %d - %s" % (i, name))
        print("# " + repr(e).replace("\n", "\n# "), flush=True)
print("1..%d" % len(TESTS))
sys.exit(failed)
