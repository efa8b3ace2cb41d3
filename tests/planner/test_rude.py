#!/usr/bin/env python3
# What the planner's commands say to people: names that are unknown, searches on a terminal, summaries.
# Prints TAP.  usage: test_rude.py FFSEARCH FFZOO.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

FFSEARCH, FFZOO = map(os.path.abspath, sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
BASE = [FFSEARCH, "mlp.json", "--machine", "cpu2", "--costs", "peak"]


def run(*command, status=0, **env):
    p = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **env})
    assert p.returncode == status, "status %d, not %d: %s" % (p.returncode, status, p.stderr)
    return p


def refused(says, *command):
    """In one sentence, which ends with `says`."""
    p = run(*command, status=2)
    assert re.fullmatch(r"\w+: [^\n]+\n", p.stderr) and not p.stdout, "not one sentence: %r" % p.stderr
    assert p.stderr.endswith(says + "\n"), p.stderr


def edited(path, change):
    with open(path) as f:
        value = json.load(f)
    change(value)
    with open("edited.json", "w") as f:
        json.dump(value, f)


def test_dims_and_operators():
    def dim(plan):
        plan["operators"][1]["degrees"] = {"height": 2}

    def near(plan):
        plan["operators"][1]["degrees"] = {"out_featur": 2}

    def operator(plan):
        plan["operators"][1]["name"] = "fc_1"

    run(*BASE, "--simulate", "data-parallel", "-o", "plan.json")
    simulate = [*BASE, "--simulate", "edited.json"]
    edited("plan.json", dim)
    refused("operator fc1 has no dim called height, only sample, out_feature, in_feature", *simulate)
    edited("plan.json", near)
    refused("called out_featur, only sample, out_feature, in_feature; did you mean out_feature?", *simulate)
    edited("plan.json", operator)
    refused("no operator called fc_1; did you mean fc1?", *simulate)


def test_machines():
    def machine(name, *more):
        return [FFSEARCH, "mlp.json", "--machine", name, "--costs", "analytic", "--simulate", "expert", *more]

    takes = "; --machine a100x256 --devices 64 takes 64 of its 256 devices"
    refused(takes, *machine("a100x64"))
    refused("; did you mean a100x256?", *machine("a100x26:64"))
    refused("expected 1 to 4096 nodes behind the colon, not \"0\"", *machine("a100x256:0"))
    refused("did you mean dgx-a100-40?", *machine("dgx-a100:4"))
    refused("; --machine a100x1024 --devices 300 takes 300 of its 1024 devices", *machine("a100x300"))
    refused("; did you mean a100x1024?", *machine("a100x2048"))
    refused("p5e.48xlarge; did you mean cpu2?", *machine("cpux2"))
    refused("only a100x1024, a100x256, cpu1, cpu2, cpu4, cpu8, dgx-a100-40, dgx-a100-80, dgx-b200, dgx-h100, "
            "dgx-h200, dgx1-p100, dgx1-v100-32, dgx1-v100, dgx2-v100, k80x64, p100x16, p3.16xlarge, p4d.24xlarge, "
            "p4de.24xlarge, p5.48xlarge, p5e.48xlarge", *machine("tpu"))
    run(*machine("a100x256", "--devices", "64"))
    p = run(*machine("dgx-a100-40:2"))
    assert "on machine dgx-a100-40:2 (16 devices)" in p.stdout, p.stdout
    listed = run(FFSEARCH, "--machine", "list").stdout.splitlines()
    assert [line.split()[0] for line in listed if line.startswith("dgx-a")] == ["dgx-a100-40", "dgx-a100-80"], listed


def test_own_machines():
    os.mkdir("machines")
    link = {"latency_us": 1, "bytes_per_s": 1e9}
    kind = {"name": "x", "flops_per_s": 1e12, "memory_bytes_per_s": 1e11, "memory_bytes": 1 << 33}
    for n in (6, 12):
        with open("machines/mine%d.json" % n, "w") as f:
            json.dump({"format": "ffsoap-machine", "version": 1, "name": "mine", "overlap": False, "kinds": [kind],
                       "nodes": [{"devices": n, "kind": "x", "inside": {**link, "shared": False}}]}, f)
    p = run(*BASE[:3], "mine5", *BASE[4:], "--simulate", "expert", status=2, FF_MACHINES="machines")
    assert p.stderr.endswith("; --machine mine6 --devices 5 takes 5 of its 6 devices\n"), p.stderr
    p = run(*BASE[:3], "mine13", *BASE[4:], "--simulate", "expert", status=2, FF_MACHINES="machines")
    assert p.stderr.endswith("; did you mean mine12?\n"), p.stderr


def test_machines_without_their_model():
    with open("model.json", "w") as f:
        kind = {"name": "x", "model": "T5", "flops_per_s": 1e12, "memory_bytes_per_s": 1e11, "memory_bytes": 1 << 33}
        node = {"devices": 2, "kind": "x", "inside": {"latency_us": 1, "bytes_per_s": 1e9}}
        json.dump({"format": "ffsoap-machine", "version": 1, "name": "mine", "overlap": False,
                   "source": "a table\nof two lines", "kinds": [kind], "nodes": [node]}, f)
    simulate = [*BASE[:3], "./model.json", "--costs", "analytic", "--simulate", "expert"]
    for more in [], ["--devices", "1"]:
        refused('ffsearch: ./model.json: kinds[0].model: there is no model "T5" of devices of kind "x" in '
                "graphs/machines/models/ or $FF_MACHINES/models", *simulate, *more)


def test_options():
    simulate = [*BASE, "--simulate", "expert"]
    refused('not "adm"; did you mean adam?', *simulate, "--optimizer", "adm")
    refused('not "bfloat1"; did you mean bfloat16?', *simulate, "--compress", "bfloat1")
    search = [*BASE, "--proposals", "9", "-o", "none.json"]
    refused('not "updates,replica"; did you mean replicas?', *search, "--space", "updates,replica")
    refused('not "zero-9"; did you mean zero-1?', *search, "--init", "zero-9")
    refused("zer-1: cannot be read: No such file or directory; did you mean zero-1?", *BASE, "--simulate", "zer-1")
    refused("analytc: cannot be read: No such file or directory; did you mean analytic?",
            *BASE[:4], "--costs", "analytc", "--simulate", "expert")
    refused("No such file or directory", *BASE, "--simulate", "./nothing/plan.json")


def test_networks():
    refused('"hiden", only image, channels, hidden, layers, activation, classes, dtype; did you mean hidden?',
            FFZOO, "mlp", "--set", "hiden=3", "-o", "none.json")
    refused('not "sigmod"; did you mean sigmoid?', FFZOO, "mlp", "--set", "activation=sigmod", "-o", "none.json")
    search = [FFSEARCH, "edited.json", *BASE[2:], "--simulate", "expert"]
    edited("mlp.json", lambda g: g["nodes"][3].update({"in": ["flaten"]}))
    refused('there is no node "flaten"; did you mean flatten?', *search)
    edited("mlp.json", lambda g: g.update({"nod": []}))
    refused('did you mean nodes?', *search)


def on_terminal(*command):
    """Standard output and error of a command that has a terminal, as it came."""
    pid, fd = pty.fork()
    if not pid:
        os.execv(command[0], command)
    text = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode()


def shown(text):
    """Lines that are seen in the end: what was rewritten is gone."""
    return [line.rsplit("\r", 1)[-1].replace("\033[K", "") for line in text.replace("\r\n", "\n").split("\n")]


def test_terminal():
    for budget in "0.7", "3", "12", "48":  # as long as it takes here
        status, text = on_terminal(*BASE, "--budget", budget, "-o", "plan.json")
        assert status == 0, text
        if "proposals/s" in text:
            break
    assert "proposals/s" in text, "no progress was shown"
    assert not any("proposals/s" in line for line in shown(text)), shown(text)
    assert shown(text)[0].startswith("graph mlp"), shown(text)[0]
    assert text.count("\033[K") and "\033[K" not in text[text.index("graph mlp"):], "progress after the table"


def test_errors_come_last():
    """Where both go the same way the table is whole, however long, and what failed stands behind it."""
    run(FFZOO, "resnet50", "--batch", "8", "--set", "image=64", "-o", "resnet.json")
    p = subprocess.run([FFSEARCH, "resnet.json", *BASE[2:], "--simulate", "data-parallel", "--memory", "1000",
                        "--list", "*"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    lines = [line for line in p.stdout.split("\n") if line]
    assert p.returncode == 3 and len(p.stdout) > 4096
    assert lines[0].startswith("operator  "), lines[0]
    assert lines[-1].startswith("ffsearch: strategy data-parallel does not fit"), lines[-1]


def test_errors_on_a_terminal():
    status, text = on_terminal(*BASE, "--simulate", "data-parallel", "--memory", "1000")
    lines = [line for line in shown(text) if line]
    assert status == 3 and lines[-1].startswith("ffsearch: strategy data-parallel does not fit"), lines
    assert not any(line.startswith("ffsearch: ") for line in lines[:-1])


def test_hangup_keeps_the_best():
    for ignored in False, True:
        began = time.monotonic()
        p = subprocess.Popen([*BASE, "--budget", "4s" if ignored else "300s", "-o", "hung.json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, [signal.SIG_DFL, signal.SIG_IGN][ignored]))
        time.sleep(1.5)
        p.send_signal(signal.SIGHUP)
        out, err = p.communicate(timeout=200)
        assert p.returncode == 0 and os.path.exists("hung.json"), (ignored, p.returncode, out, err)
        assert not ignored or time.monotonic() - began > 3, "ended by what it was to ignore"
        os.unlink("hung.json")


def test_data_parallel_says_so():
    p = run(*BASE, "--devices", "1", "--proposals", "50", "-o", "plan.json")
    assert "Data parallelism is the best plan found." in p.stdout and "1.00x" not in p.stdout, p.stdout
    assert not re.search(r"^ +plan +data-parallel$", p.stdout, re.M), p.stdout
    # the file of a plan that is data parallelism is that, too
    run(*BASE, "--simulate", "data-parallel", "-o", "same.json", "--report", "same.report")
    p = run(*BASE, "--simulate", "same.json", "--report", "again.report")
    assert "This is data parallelism." in p.stdout and "1.00x" not in p.stdout, p.stdout
    with open("same.report") as a, open("again.report") as b:
        same, again = json.load(a), json.load(b)
    assert again["is_data_parallel"] is True and again["predicted_us"] == same["predicted_us"]
    # and what only takes as long is not
    p = run(*BASE, "--simulate", "zero-1")
    assert "data parallelism" in p.stdout and "This is data" not in p.stdout


def test_bound_is_no_praise():
    p = run(*BASE, "--simulate", "data-parallel")
    said = " ".join(p.stdout.split())
    assert re.search(r" No strategy can be .*; this one takes \d\.\d times that\. The bound knows .* far off\. ", said), said
    assert "within" not in p.stdout
    p = run(FFSEARCH, "mlp.json", "--machine", "cpu1", "--costs", "analytic", "--simulate", "single")
    assert re.search(r"^No strategy can be faster than .*; this one takes \d\.\d % more\.$", p.stdout, re.M), p.stdout


subprocess.run([FFZOO, "mlp", "--set", "hidden=512", "--batch", "64", "-o", "mlp.json"], check=True)
tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
print("1..%d" % len(tests))
for number, (name, test) in enumerate(tests, 1):
    try:
        test()
        print("ok %d - %s" % (number, name))
    except Exception as e:  # an assertion's text is what somebody needs
        print("not ok %d - %s" % (number, name))
        print("# " + str(e).replace("\n", "\n# "))
    sys.stdout.flush()
