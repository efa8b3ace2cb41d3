#!/usr/bin/env python3
# Certificates: ffsearch writes them, ffcheck verifies them and refuses whatever was changed.  Prints TAP.
# SPDX-License-Identifier: Apache-2.0
"""usage: test_certificate.py FFCHECK FFSEARCH FFZOO SCHEMAS"""
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap

FFCHECK, FFSEARCH, FFZOO, SCHEMAS = map(os.path.abspath, sys.argv[1:5])
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)


def run(program, *args, status=0):
    p = subprocess.run([program, *args], capture_output=True, text=True, timeout=600)
    assert p.returncode == status, "status %d, not %d: %s%s" % (p.returncode, status, p.stdout, p.stderr)
    return p.stdout if status == 0 else p.stderr


def read(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def certify(name, batch, *sets, machine="p100x16", devices="4", more=()):
    """Searches; the certificate."""
    run(FFZOO, name, "--batch", str(batch), *(w for s in sets for w in ("--set", s)), "-o", "g.json")
    run(FFSEARCH, "g.json", "--machine", machine, "--devices", devices, "--costs", "analytic", "--proposals", "300",
        "-o", "p.json", "--certificate", "c.json", "--report", "r.json", *more)
    return read("c.json")


def check(certificate, status=0, plan="p.json", machine="p100x16", costs="analytic"):
    pathlib.Path("changed.json").write_text(json.dumps(certificate), encoding="utf-8")
    said = run(FFCHECK, "g.json", machine, costs, plan, "changed.json", status=status)
    assert not status or re.match("ffcheck: (changed.json|%s)[: ]" % re.escape(plan), said), "no file: " + said
    return said


def test_verified():
    for case in (("inception_v3", 8, "image=80", "classes=10"),
                 ("gpt2", 8, "layers=2", "width=32", "heads=4", "sequence=16", "vocabulary=96"),
                 ("rnn", 8, "steps=4", "hidden=32", "layers=2", "cell=lstm"), ("mlp", 16, "layers=3")):
        c, report = certify(*case), read("r.json")
        assert c["bound_us"] == report["lower_bound_us"], (c["bound_us"], report["lower_bound_us"])
        said = check(c)
        assert "verified: no strategy of %s on 4 devices of p100x16" % case[0] in said, said
        micro = [int(n) for n in re.findall(r"\d+", re.search(r"p100x16, in (.*) micro-batch", said).group(1))]
        assert micro == sorted({p["micro_batches"] for p in c["micro_batches"]}), said
        percent = float(re.search(r"([\d.]+) % more at most", said).group(1))
        assert abs(percent - (report["predicted_us"] / c["bound_us"] - 1) * 100) < 0.06, said
    try:
        import jsonschema
    except ImportError:
        return
    schema = read(os.path.join(SCHEMAS, "certificate.schema.json"))
    jsonschema.Draft202012Validator(schema).validate(c)


def paths(value, at=()):
    """All places of single values."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, at + (key,))
    else:
        yield at


def changed(c, at, value):
    c = copy.deepcopy(c)
    inner = c
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return c


def test_every_field():
    """Whatever is changed is noticed; a number by a hundred-thousandth of itself, too."""
    c = certify("gpt2", 8, "layers=1", "width=32", "heads=4", "sequence=16", "vocabulary=96", devices="3")
    assert len(c["micro_batches"]) > 1 and any(part["chains"] for part in c["micro_batches"]), c
    check(c)
    for at in paths(c):
        value = c
        for key in at:
            value = value[key]
        other = value + "x" if isinstance(value, str) else value + 1 if isinstance(value, int) else value * (1 + 1e-5)
        if at[-1] == "graph_hash":
            other = "0" * 16
        p = changed(c, at, other)
        pathlib.Path("changed.json").write_text(json.dumps(p), encoding="utf-8")
        done = subprocess.run([FFCHECK, "g.json", "p100x16", "analytic", "p.json", "changed.json"], capture_output=True,
                              text=True, timeout=600)
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, (at, other, done)


def test_other_changes():
    c = certify("mlp", 16, "layers=3")
    part = c["micro_batches"][0]
    for micro in c["micro_batches"][1:]:
        assert micro["micro_batches"] != part["micro_batches"]
    for at in list(c) + ["unknown"]:
        left = {key: value for key, value in c.items() if key != at}
        check(left if at in c else {**c, at: 1}, status=2)
    check({**c, "micro_batches": []}, status=2)
    check({**c, "micro_batches": [part, part]}, status=2)
    assert "micro_batches[1]: graph mlp: its batch of" in check(
        {**c, "micro_batches": [part, {**part, "micro_batches": 3}]}, status=2)
    # weights that would prove more than there is
    more = copy.deepcopy(c)
    more["micro_batches"][0].update(compute=1, communication=0, chains=[{"weight": 1, "operators": ["fc1"]}])
    assert "add up to" in check(more, status=1)
    # no chain: the wrong way round, and with a gap
    for wrong in (["fc2", "fc1"], ["fc1", "fc3"]):
        more["micro_batches"][0].update(compute=0.5, communication=0, chains=[{"weight": 0.5, "operators": wrong}])
        assert "is none" in check(more, status=1)
    # of another number of micro-batches than the plan's
    run(FFSEARCH, "g.json", "--machine", "p100x16", "--devices", "4", "--costs", "analytic", "--simulate",
        "pipeline-2", "-o", "two.json")
    plan = read("two.json")
    assert plan.get("micro_batches", 1) > 1, plan
    alone = {**c, "micro_batches": [part], "bound_us": part["bound_us"]}
    assert part["micro_batches"] == 1 and "micro-batches, of which the certificate says nothing" in check(
        alone, status=1, plan="two.json")


def test_sections():
    """Between synchronised norms all that is computed counts, unless sections are other ones."""
    c = certify("resnet50", 2048, "image=64", machine="dgx-h100:2", devices="16", more=("--max-micro-batches", "1"))
    assert "verified" in check(c, machine="dgx-h100:2")

    def refused(change, status=1):
        other = copy.deepcopy(c)
        chain = next(x for x in other["micro_batches"][0]["chains"] if "sections" in x)
        change(chain["sections"], chain["operators"])
        return check(other, status=status, machine="dgx-h100:2")

    def end_later(sections, operators):
        sections[0][1] = operators[operators.index(sections[0][1]) + 1]

    def begin_first(sections, operators):
        sections[0][0] = operators[0]

    assert "what it rests on gives" in refused(lambda sections, _: sections.pop())
    for change in (lambda sections, _: sections.reverse(), lambda sections, _: sections[0].reverse(), end_later,
                   begin_first):
        assert "do not follow each other" in refused(change)
    assert "one of the chain's operators" in refused(lambda sections, _: sections.append(["none", "none"]), status=2)


def test_part_of_the_longest():
    """Where the longest path is no chain, as only one token of it is read, most of it is one."""
    c = certify("vit_b16", 256, "layers=2", "width=64", "heads=4", "image=64", machine="dgx-h100:2", devices="16",
                more=("--max-micro-batches", "1"))
    chains = c["micro_batches"][0]["chains"]
    assert sum(chain["weight"] for chain in chains) > 0.1, c
    assert "verified" in check(c, machine="dgx-h100:2")


def test_communication():
    """Of hosts on a slow network bounds rest on what devices receive."""
    host = {"count": 4, "devices": 1, "kind": "cpu", "inside": {"latency_us": 1, "bytes_per_s": 1e10, "shared": True},
            "network": {"latency_us": 50, "bytes_per_s": 1.25e7}}
    kind = {"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 1e10, "memory_bytes": 1 << 33}
    hosts = {"format": "ffsoap-machine", "version": 1, "name": "slow", "overlap": True, "kinds": [kind], "nodes": [host]}
    pathlib.Path("slow.json").write_text(json.dumps(hosts), encoding="utf-8")
    host["network"]["bytes_per_s"] = 1.25e12
    pathlib.Path("fast.json").write_text(json.dumps(hosts), encoding="utf-8")
    run(FFZOO, "mlp", "--batch", "128", "--set", "hidden=1024", "-o", "g.json")
    alone = {}
    for name in ("slow", "fast"):
        run(FFSEARCH, "g.json", "--machine", name + ".json", "--costs", "peak", "--proposals", "300", "-o", "p.json",
            "--certificate", "c.json")
        c = read("c.json")
        check(c, machine=name + ".json", costs="peak")
        alone[name] = next(p for p in c["micro_batches"] if p["micro_batches"] == 1)
    assert alone["slow"]["communication"] > 0, alone
    assert alone["slow"]["bound_us"] > 1.5 * alone["fast"]["bound_us"], alone
    c = certify("mlp", 16, "layers=3")
    c["micro_batches"][0].update(compute=0.5, communication=0.5, chains=[])
    assert "nothing is known" in check(c, status=1)


def test_short_of_time():
    """Where there is time for some numbers of micro-batches alone, the plan's is among them."""
    run(FFZOO, "gpt2", "--batch", "256", "-o", "g.json")
    for seconds in 1, 2, 4, 8, 16, 32, 64:
        done = subprocess.run([FFSEARCH, "g.json", "--machine", "dgx-a100-40:8", "--costs", "analytic", "--init",
                               "data-parallel", "--budget", str(seconds), "-o", "p.json", "--certificate", "c.json",
                               "--report", "r.json"], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            assert done.returncode == 1 and "there is no certificate" in done.stderr, done.stderr
            continue
        c = read("c.json")
        assert read("p.json").get("micro_batches", 1) in [part["micro_batches"] for part in c["micro_batches"]]
        assert "says nothing" in done.stderr or read("r.json")["lower_bound_us"] == c["bound_us"], done.stderr
        check(c, machine="dgx-a100-40:8")
        return
    assert False, "there is never time"


def test_inputs():
    c = certify("mlp", 16, "layers=3")
    assert "is for machine" in check(c, status=2, machine="k80x64")
    assert "costs that are" in check(c, status=2, costs="peak")
    run(FFSEARCH, "g.json", "--machine", "p100x16", "--devices", "4", "--costs", "analytic", "--optimizer", "adamw",
        "--simulate", "data-parallel", "-o", "adamw.json")
    assert "is for optimizer momentum" in check(c, status=2, plan="adamw.json")
    run(FFCHECK, "g.json", "p100x16", "analytic", "p.json", status=2)
    run(FFCHECK, "g.json", "p100x16", "analytic", "p.json", "none.json", status=2)
    said = run(FFSEARCH, "g.json", "--machine", "p100x16", "--devices", "4", "--costs", "analytic", "--simulate",
               "data-parallel", "--framework", "pytorch", "--certificate", "c.json", status=2)
    assert "--framework" in said, said


def test_memory():
    """Weights and states alone: 4 bytes each, of momentum one state, but for padding."""
    run(FFZOO, "mlp", "--batch", "16", "--set", "layers=3", "-o", "g.json")
    search = [FFSEARCH, "g.json", "--machine", "p100x16", "--devices", "4", "--costs", "analytic", "--proposals", "100",
              "-o", "p.json"]
    run(*search[:-4], "--simulate", "single", "--report", "r.json")
    least = 2 * read("r.json")["memory"]["weights"]
    assert "no strategy fits in memory: weights" in run(*search, "--memory", str(least * 98 // 400), status=3)
    said = run(*search, "--memory", str(least * 102 // 400), status=3)
    assert "in 100 proposals; the closest lacks" in said, said
    said = run(*search[:-4], "--budget", "0.000001s", "-o", "p.json", "--memory", str(least * 102 // 400), status=3)
    assert "on all devices together; there was hardly time to search (take a longer --budget)" in said, said


for name, test in list(globals().items()):
    if not name.startswith("test_"):
        continue
    try:
        test()
        tap.say(True, name[5:].replace("_", " "))
    except (AssertionError, KeyError, AttributeError, ValueError) as e:
        tap.say(False, name[5:].replace("_", " "), repr(e) if not isinstance(e, AssertionError) else e)
tap.finish()
