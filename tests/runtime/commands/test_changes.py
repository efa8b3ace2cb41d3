# What changes what is computed, where ffrun is asked for it: said, verified, kept in checkpoints, and
# near to what it is without.
# Usage: test_changes.py FFZOO FFRUN FFSEARCH.  SPDX-License-Identifier: Apache-2.0
import functools
import json
import os
import pathlib
import signal
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
LABEL = "changes what is computed"


def run(*command, status=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != status:
        say(False, f"exit status {status}", f"{done.returncode}: {done.stderr}")
    return done


def served(graph, devices, changes=()):
    """A plan of data parallelism whose parameters are updated on the last device, all of them."""
    run(ffsearch, graph, "--machine", "cpu4", "--devices", devices, "--costs", "analytic", "--simulate",
        "data-parallel", *changes, "-o", "served.json")
    plan = json.loads(pathlib.Path("served.json").read_text())
    net = json.loads(pathlib.Path(graph).read_text())
    layers = [n["name"] for n in net["nodes"] if n["op"] in ("linear", "conv2d")]
    plan["operators"] += [{"name": f"{layer}.{kind}", "degrees": {}, "devices": [devices - 1]}
                          for layer in layers for kind in ("weight", "bias")]
    for key in ("predicted_us", "predicted_tasks", "predicted_waits", "memory_bytes"):
        plan.pop(key, None)
    pathlib.Path("served.json").write_text(json.dumps(plan))
    return ["served.json", "--devices", devices]


def cut(graph, devices, changes=()):
    """One whose parameters are updated in parts."""
    run(ffsearch, graph, "--machine", "cpu4", "--devices", devices, "--costs", "analytic", "--simulate",
        "zero-1", *changes, "-o", "cut.json")
    return ["cut.json", "--devices", devices]


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    os.chdir(folder)
    run(ffzoo, "lenet", "--batch", 16, "-o", "net.json")
    run(ffzoo, "mlp", "--batch", 8, "--set", "hidden=64", "--set", "image=8", "-o", "small.json")

    def train(graph, *options, status=0):
        done = run(ffrun, graph, *options, "--data", "synthetic:256", "--report", "report.json", status=status)
        return done, json.loads(pathlib.Path("report.json").read_text()) if status == 0 else None

    @functools.cache
    def plain_report(graph, *options):
        """Of what several are compared with."""
        return train(graph, *options)[1]

    # ---- compressed gradients ----
    two = ["data-parallel", "--devices", 2]
    learn = ["net.json", *two, "--steps", 120, "--rate", 0.02]
    done, plain = train(*learn)
    say(LABEL not in done.stdout and "compress" not in plain["optimizer"], "nothing is compressed unasked")
    end = sum(plain["loss"][-10:]) / 10
    for codec, share in (("bfloat16", 2), ("ternary", 15)):
        for devices in (2, 3):
            done, report = train("small.json", "data-parallel", "--devices", devices, "--compress", codec,
                                 "--verify", "--steps", 4)
            say(LABEL in done.stdout and "with what was not sent" in done.stdout and
                report["optimizer"]["compress"] == codec,
                f"{codec} on {devices} devices: no gradient gets lost, memory and bytes as planned")
        done, report = train(*learn, "--compress", codec)
        loss = sum(report["loss"][-10:]) / 10
        say(abs(loss - end) < 0.2 * end and end < plain["loss"][0] / 20, f"{codec} trains as well", f"{loss} for {end}")
        say(report["loss"] != plain["loss"], "but otherwise")
        say(report["sent_bytes"] * share < plain["sent_bytes"] * 1.01, "with less to send",
            f"{report['sent_bytes']} for {plain['sent_bytes']}")

        # gone on with: what was not sent is there
        at = ["small.json", *two, "--optimizer", "adam", "--compress", codec]
        kept = folder / codec
        train(*at, "--steps", 6)
        straight = json.loads(pathlib.Path("report.json").read_text())["loss"]
        train(*at, "--steps", 3, "--checkpoint", kept)
        names = (kept / "checkpoint.safetensors").read_bytes()
        _, report = train(*at, "--steps", 6, "--checkpoint", kept, "--resume")
        say(b"residual." in names and report["first_step"] == 3 and
            all(abs(a - b) < 0.02 * b for a, b in zip(report["loss"], straight[3:])),
            f"{codec}: three steps and three", f"{report['loss']} for {straight[3:]}")
        train("small.json", "single", "--optimizer", "adam", "--steps", 8, "--checkpoint", kept, "--resume")

        # a plan that was searched for it
        run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "data-parallel",
            "--compress", codec, "-o", "plan.json")
        done, report = train("small.json", "plan.json", "--steps", 4, "--verify")
        say(report["optimizer"].get("compress") == codec, "a plan may ask for it")
        done, report = train("small.json", "plan.json", "--steps", 4, "--compress", "none")
        say("compress" not in report["optimizer"] and "do not hold" in done.stderr + done.stdout,
            "which can be refused")

        # gradients that are moved: a half of the bytes are weights
        for plan, devices in ((served, 2), (cut, 3)):
            at = ["small.json", *plan("small.json", devices)]
            whole = plain_report(*at, "--steps", 4)
            at = ["small.json", *plan("small.json", devices, ["--compress", codec])]
            done, report = train(*at, "--verify", "--steps", 4)
            say(LABEL in done.stdout and "with what was not sent" in done.stdout and
                report["optimizer"]["compress"] == codec and "as they are" not in done.stdout,
                f"{codec}, {at[1]} on {devices} devices: no gradient gets lost, memory and bytes as planned")
            say(report["sent_bytes"] < whole["sent_bytes"] * (0.5 + 0.55 / share), "with less to send",
                f"{report['sent_bytes']} for {whole['sent_bytes']}")
            kept = folder / f"{codec}{at[1]}"
            _, straight = train(*at, "--optimizer", "adam", "--steps", 6)
            train(*at, "--optimizer", "adam", "--steps", 3, "--checkpoint", kept)
            names = (kept / "checkpoint.safetensors").read_bytes()
            _, report = train(*at, "--optimizer", "adam", "--steps", 6, "--checkpoint", kept, "--resume")
            say(b"residual." in names and report["first_step"] == 3 and
                all(abs(a - b) < 0.02 * b for a, b in zip(report["loss"], straight["loss"][3:])),
                "three steps and three", f"{report['loss']} for {straight['loss'][3:]}")
            train("small.json", *two, "--compress", codec, "--optimizer", "adam", "--steps", 8, "--checkpoint", kept,
                  "--resume")
        done, report = train("net.json", *served("net.json", 2), "--steps", 120, "--rate", 0.02, "--compress", codec)
        loss = sum(report["loss"][-10:]) / 10
        say(abs(loss - end) < 0.2 * end, f"{codec} served trains as well", f"{loss} for {end}")
    done, _ = train("small.json", *two, "--steps", 1, "--compress", "zip", status=2)
    say("expected bfloat16" in done.stderr, "others are refused", done.stderr)

    # ---- averaged parameters ----
    for optimizer in ("sgd", "nesterov"):
        for devices in (2, 3):
            at = ["small.json", "data-parallel", "--devices", devices, "--optimizer", optimizer, "--steps", 8]
            _, summed = train(*at)
            done, every = train(*at, "--average-every", 1, "--verify")
            say(LABEL in done.stdout and all(abs(a - b) < 1e-5 * b for a, b in zip(every["loss"], summed["loss"])),
                f"{optimizer} on {devices} devices, averaged in every step: as if gradients were summed")
            _, some = train(*at, "--average-every", 4)
            say(some["sent_bytes"] * 4 == every["sent_bytes"] and some["loss"] != summed["loss"],
                "every fourth: a quarter of the bytes, and other losses")
    _, some = train(*learn, "--average-every", 8)
    loss = sum(some["loss"][-10:]) / 10
    say(abs(loss - end) < 0.2 * end, "averaged every eight steps it trains as well", f"{loss} for {end}")
    kept = folder / "averaged"
    at = ["small.json", *two, "--average-every", 3]
    train(*at, "--steps", 9)
    straight = json.loads(pathlib.Path("report.json").read_text())["loss"]
    train(*at, "--steps", 6, "--checkpoint", kept)
    _, report = train(*at, "--steps", 9, "--checkpoint", kept, "--resume")
    say(all(abs(a - b) < 1e-5 * b for a, b in zip(report["loss"], straight[6:])), "six steps and three",
        f"{report['loss']} for {straight[6:]}")
    # ended before its time, between two averages: what is tested is what is saved
    ended = [ffrun, "small.json", *two, "--data", "synthetic:256", "--average-every", 1000000, "--steps",
             100000000, "--every", 10, "--checkpoint", folder / "ended", "--test", "--save", "ended.safetensors",
             "--report", "report.json"]
    p = subprocess.Popen(list(map(str, ended)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while p.poll() is None and not (folder / "ended" / "checkpoint.safetensors").exists():
        time.sleep(0.02)
    p.send_signal(signal.SIGTERM)
    say(p.wait(600) == 0, "averaged never, and asked for an end")
    at_end = json.loads(pathlib.Path("report.json").read_text())
    for kept, name in (("ended.safetensors", "saves"), (folder / "ended" / "checkpoint.safetensors", "keeps")):
        _, report = train("small.json", "single", "--weights", kept, "--steps", 1, "--optimizer", "sgd", "--rate",
                          1e-30, "--test")
        say(abs(report["test_loss"] - at_end["test_loss"]) < 1e-5 * report["test_loss"],
            f"it tests what it {name}", f"{at_end['test_loss']} for {report['test_loss']}")

    for options, why in ((["--clip", 1], "clipped"), (["--compress", "ternary"], "compressed"),
                         (["--test-every", 2], "multiple")):
        done, _ = train("small.json", *two, "--steps", 9, "--average-every", 3, *options, status=2)
        say(why in done.stderr, f"not with {options[0]}", done.stderr)
    run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "data-parallel",
        "--average-every", 4, "-o", "plan.json")
    done, report = train("small.json", "plan.json", "--steps", 4)
    say(report["optimizer"].get("average_every") == 4, "a plan may ask for it")
    say("do not hold" not in done.stderr, "which was predicted so", done.stderr)
    done, report = train("small.json", "plan.json", "--steps", 4, "--average-every", 2)
    say(done.stderr == "ffrun: plan.json is for gradients that are not summed, but parameters averaged every 4 steps, "
        "and here they are not summed, but parameters averaged every 2 steps: its predicted time and memory do not hold "
        "(ffsearch --simulate with --average-every predicts it)\n" and report.get("predicted_us") is None,
        "at other steps its prediction is dropped, and it is said", done.stderr)
    done = run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--average-every", 4, "-o",
               "none.json", status=2)
    say("nothing to search" in done.stderr, "none is searched", done.stderr)
    done = run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "expert",
               "--average-every", 4, status=2)
    say("as in data parallelism" in done.stderr, "and others are refused", done.stderr)

    # ---- gradients that are applied late ----
    def named(path):
        """Tensors of a safetensors file, as bytes by name."""
        data = pathlib.Path(path).read_bytes()
        size = int.from_bytes(data[:8], "little")
        head = json.loads(data[8:8 + size])
        return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
                for name, t in head.items() if name != "__metadata__"}

    start = plain_report("small.json", "single", "--steps", 8)["loss"]
    for late in (1, 2):
        _, alone = train("small.json", "single", "--steps", 8, "--staleness", late)
        # the first weights stay so long, the first update is the first gradient's
        say(alone["optimizer"]["staleness"] == late and alone["loss"][0] == start[0] and alone["loss"] != start,
            f"{late} late: other losses than in time")
        # every two of delay, devices and plan meet, here and below
        for devices, serves in ((2, late == 1), (4, late == 2)):
            plan = served("small.json", devices) if serves else ["data-parallel", "--devices", devices]
            done, report = train("small.json", *plan, "--steps", 8, "--staleness", late, "--verify")
            say(LABEL in done.stdout and "when they are applied" in done.stdout and
                all(abs(a - b) < 1e-5 * b for a, b in zip(report["loss"], alone["loss"])),
                f"{late} late, {plan[0]} on {devices} devices: as one device, memory and bytes as planned",
                report["loss"])
            intime = plain_report("small.json", *plan, "--steps", 8)
            more = [b - a for a, b in zip(intime["memory_bytes"], report["memory_bytes"])]
            say(report["sent_bytes"] == intime["sent_bytes"] and all(m > 0 for m in more),
                "as many bytes to send, and more memory", more)
        _, report = train(*learn, "--staleness", late)
        loss = sum(report["loss"][-10:]) / 10
        say(loss < plain["loss"][0] / 10, f"{late} late it trains, too", f"{loss} for {end}")

        # gone on with: what waits is there, to the bit
        for devices, serves in ((1, late == 1), (2, late == 2), (4, late == 1)):
            plan = served("small.json", devices) if serves else ["data-parallel", "--devices", devices]
            at = ["small.json", *plan, "--optimizer", "adamw", "--staleness", late, "--clip", 1]
            kept, straight = folder / f"late{late}{devices}{plan[0]}", folder / f"straight{late}{devices}{plan[0]}"
            train(*at, "--steps", 7, "--checkpoint", straight)
            for steps in (1, 4, 7):
                train(*at, "--steps", steps, "--checkpoint", kept, *(["--resume"] if steps > 1 else []))
            a, b = (named(path / "checkpoint.safetensors") for path in (kept, straight))
            say(a == b and f"waiting{late - 1}.fc1.weight" in a and f"waiting{late}.fc1.weight" not in a,
                f"{late} late, {plan[0]} on {devices} devices: one step, three and three are seven to the bit",
                [name for name in b if a.get(name) != b[name]])
        done, _ = train("small.json", "single", "--optimizer", "adamw", "--steps", 9, "--checkpoint", kept, "--resume",
                        status=2)
        say("its staleness is" in done.stderr, "but not with another delay", done.stderr)
        train("small.json", "single", "--optimizer", "adamw", "--staleness", late, "--steps", 9, "--checkpoint", kept,
              "--resume")
    kept = folder / "intime"
    train("small.json", "single", "--steps", 2, "--checkpoint", kept)
    say(b"staleness" not in (kept / "checkpoint.safetensors").read_bytes(), "nothing waits unasked")
    done, _ = train("small.json", "single", "--staleness", 1, "--steps", 4, "--checkpoint", kept, "--resume", status=2)
    say("its staleness is 0, expected 1" in done.stderr, "nor begins to", done.stderr)
    for codec in ("bfloat16", "ternary"):
        done, report = train("small.json", *two, "--staleness", 2, "--compress", codec, "--verify", "--steps", 6)
        say(done.stdout.count(LABEL) == 2 and report["optimizer"]["compress"] == codec,
            f"late, and sent as {codec}: no gradient gets lost")
        for plan in (served, cut):
            done, report = train("small.json", *plan("small.json", 3), "--staleness", 2, "--compress", codec, "--verify",
                                 "--steps", 6)
            say(done.stdout.count(LABEL) == 2, f"so where they are moved, {plan.__name__}")
        at = ["small.json", *cut("small.json", 3), "--staleness", 1, "--compress", codec]
        _, straight = train(*at, "--steps", 7)
        train(*at, "--steps", 4, "--checkpoint", folder / f"late{codec}")
        _, report = train(*at, "--steps", 7, "--checkpoint", folder / f"late{codec}", "--resume")
        say(all(abs(a - b) < 0.02 * b for a, b in zip(report["loss"], straight["loss"][4:])),
            "four steps and three", f"{report['loss']} for {straight['loss'][4:]}")
    for options, why in ((["--average-every", 2], "not applied late"), (["--staleness", 65], "at most 64")):
        done, _ = train("small.json", *two, "--steps", 4, "--staleness", 1, *options, status=2)
        say(why in done.stderr, f"not with {' '.join(map(str, options))}", done.stderr)
    run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "data-parallel",
        "--staleness", 1, "-o", "plan.json")
    done, report = train("small.json", "plan.json", "--steps", 4)
    say(report["optimizer"].get("staleness") == 1 and report["predicted_us"] > 0, "a plan may ask for it")
    done, report = train("small.json", "plan.json", "--steps", 4, "--staleness", 0)
    say("staleness" not in report["optimizer"] and "do not hold" in done.stderr + done.stdout, "which can be refused")
    done = run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--staleness", 1, "-o", "none.json",
               status=2)
    say("no search chooses" in done.stderr, "none is searched", done.stderr)

finish()
