#!/usr/bin/env python3
# bench/published.py finds the errors, the order and the numbers that tables were made with.  Prints TAP.
# Usage: test_published.py SOURCE BUILD.  SPDX-License-Identifier: Apache-2.0
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

from tap import finish, say

SOURCE, BUILD = map(os.path.abspath, sys.argv[1:3])
VTRAIN = "set,gpu,gpus,nodes,params_b,layers,hidden,heads,seq,global_batch,micro_batch,t,d,p,iter_ms".split(",")
WAYS = [(4, 1, 1, 2), (2, 2, 1, 1), (1, 4, 1, 1), (1, 1, 4, 1), (2, 1, 2, 2), (1, 2, 2, 1)]  # t, d, p, samples


def write(name, head, rows):
    with open(name, "w", encoding="utf-8", newline="") as f:
        csv.writer(f).writerows([head, *rows])


def write_vtrain(*times):
    """Of one network; further ones have twice the layers, and so on."""
    write("vtrain_e2e_open.csv", VTRAIN, [["single", "a100-sxm", 4, 1, "", 4 * (i + 1), 256, 4, 128, 8, m, t, d, p, ms]
                                          for i, some in enumerate(times) for (t, d, p, m), ms in zip(WAYS, some)])


def published(*more):
    done = subprocess.run([sys.executable, SOURCE + "/bench/published.py", ".", "--build", BUILD, *more],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open("out/published.json", encoding="utf-8") as f:
        return done.stdout, json.load(f)


def line(text, start, table):
    return re.sub(r"\s+", " ", [l for l in text.split("By frameworks")[table].splitlines() if l.startswith(start)][0])


def predicted():
    write_vtrain([1] * len(WAYS))
    return published()[1]


def test_number():
    """Steps as hosts of 70 us an operator execute them: errors without, none with the number that is found.  It is
    found from the other networks, so that errors of one are no smaller for what was measured of it."""
    rows = predicted()
    assert all(r["curve"][0][1] < 0.8 * r["curve"][-1][1] for r in rows), rows
    write_vtrain([[us for number, us, _ in r["curve"] if number == 70][0] / 1e3 for r in rows])
    text, _ = published("--svg", "kept.svg")
    group = "a100_sxm40, gpt 4x256, 4 GPUs"
    assert " 0.0 % " not in line(text, group, 0), text
    assert "Megatron-DeepSpeed 70;" in text, text
    assert " 0.0 % " in line(text, group, 1) and " 1.000 " in line(text, group, 1), text
    with open("out/published.svg", encoding="utf-8") as f:
        assert f.read().count("<circle") == len(WAYS) + 1
    with open("out/published-frameworks.svg", encoding="utf-8") as f, open("kept.svg", encoding="utf-8") as kept:
        assert f.read() == kept.read()
    # a second network, with 120 us: each is predicted by the other's number
    write_vtrain([1] * len(WAYS), [1] * len(WAYS))
    rows = published()[1]
    write_vtrain(*([[us for number, us, _ in r["curve"] if number == of][0] / 1e3 for r in rows if r["network"] == name]
                   for of, name in ((70, "gpt 4x256"), (120, "gpt 8x256"))))
    text, _ = published()
    for name, sign in (("4", "+"), ("8", "-")):
        assert re.search(rf"GPUs {len(WAYS)} \d+\.\d % \{sign}[1-9]", line(text, f"a100_sxm40, gpt {name}x256", 1)), text


def test_order_and_term():
    """Steps in which messages took so much longer; and in the other order."""
    rows = predicted()
    write_vtrain([(sum(r["terms"]) + 4 * r["terms"][1]) / 1e3 for r in rows])
    text, _ = published()
    assert "communication" in line(text, "a100_sxm40", 0), text
    most = max(r["predicted"] for r in rows)
    write_vtrain([most / r["predicted"] for r in rows])
    text, _ = published()
    assert "-1.000" in line(text, "a100_sxm40", 0), text


def test_other_tables():
    """Rows that are no whole training step, and networks that there are none of, are passed over."""
    write("neusight_e2e.csv", "gpu,network,mode,seq,batch,extra,e2e_ms,fwd_ms,bwd_ms".split(","),
          [["v100", "bert_large", "train", 128, 2, "", 60, 20, 40],
           ["v100", "bert_large", "inf", 128, 2, "", 20, 20, 0],
           ["v100", "switchxl4", "train", 128, 2, "", 60, 20, 40]])
    write("endtoend_open.csv", ("source,gpu,gpus,nodes,network,global_batch,per_gpu_batch,seq,dtype,parallelism,t,d,p,"
                                "micro_batch,step_ms,rate,unit,note").split(","),
          [["", "v100_16", 2, 1, "resnet50", 64, 32, "", "fp16-amp", "data", 2, 1, 1, 1, "", rate, "images/s", ""]
           for rate in (900, 1100)])
    write_vtrain([10] * len(WAYS))
    _, rows = published("--all")
    assert [r["framework"] for r in rows[len(WAYS):]] == ["eager PyTorch", "DeepLearningExamples"]
    assert abs(rows[-1]["measured"] - (64e6 / 900 + 64e6 / 1100) / 2) < 1


def unseen(*rows, seconds=60):
    with open(SOURCE + "/bench/unseen.csv", encoding="utf-8", newline="") as f:
        head = next(csv.reader(f))
    write("rows.csv", head, rows)
    done = subprocess.run([sys.executable, SOURCE + "/bench/unseen.py", "--rows", "rows.csv", "--build", BUILD,
                           "--seconds", str(seconds)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open("out/unseen.json", encoding="utf-8") as f:
        return done.stdout, json.load(f)


def test_unseen():
    """A throughput that is predicted is off by nothing, twice of it by 100 %; what cannot be is told, not counted."""
    mlp = ["here", "pytorch", "dgx-a100-40", 2, "mlp", "hidden=256 layers=2", "float32", "data-parallel", "sgd", 64]
    none = [*mlp[:7], "megatron:3,1,1,1", *mlp[8:], 1]
    rate = 64e6 / unseen([*mlp, 1])[1][0]["us"]
    text, rows = unseen([*mlp, rate], [*mlp, 2 * rate], none)
    assert len(rows) == 2 and "here, mlp on 2 of dgx-a100-40, megatron:3,1,1,1: megatron: T 3" in text, text
    assert re.search(r"^one node +2 +50.0 % +[+]50.0 % +[+]100.0 %$", text, re.M), text
    slow = ["here", "megatron", "dgx-a100-80", 280, "gpt2", "layers=105 width=20480 heads=128 sequence=2048", "mixed",
            "megatron:8,1,35,280,even", "adamw", 280, 5.7]
    text, rows = unseen([*mlp, rate], slow, seconds=1)
    assert len(rows) == 1 and "megatron:8,1,35,280,even: takes more than 1 s" in text, text


for name, test in sorted(globals().copy().items()):
    if not name.startswith("test_"):
        continue
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            test()
            say(True, name)
        except AssertionError as e:
            say(False, name, e)
        os.chdir("/")
finish()
