# What changes what is computed, where ffrun is asked for it: said, verified, kept in checkpoints, and
# near to what it is without.
# Usage: test_changes.py FFZOO FFRUN FFSEARCH.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ffzoo, ffrun, ffsearch = (os.path.abspath(p) for p in sys.argv[1:4])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
LABEL = "changes what is computed"
count = failed = 0


def say(good, name, why=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}{': ' + str(why).strip() if why else ''}")


def run(*command, status=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != status:
        say(False, f"exit status {status}", f"{done.returncode}: {done.stderr}")
    return done


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    os.chdir(folder)
    run(ffzoo, "lenet", "--batch", 16, "-o", "net.json")
    run(ffzoo, "mlp", "--batch", 8, "--set", "hidden=64", "--set", "image=8", "-o", "small.json")

    def train(graph, *options, status=0):
        done = run(ffrun, graph, *options, "--data", "synthetic:256", "--report", "report.json", status=status)
        return done, json.loads(pathlib.Path("report.json").read_text()) if status == 0 else None

    # ---- compressed gradients ----
    two = ["data-parallel", "--devices", 2]
    done, plain = train("net.json", *two, "--steps", 120, "--rate", 0.02)
    say(LABEL not in done.stdout and "compress" not in plain["optimizer"], "nothing is compressed unasked")
    end = sum(plain["loss"][-10:]) / 10
    for codec, share in (("bfloat16", 2), ("ternary", 15)):
        for devices in (2, 3):
            done, report = train("small.json", "data-parallel", "--devices", devices, "--compress", codec,
                                 "--verify", "--steps", 4)
            say(LABEL in done.stdout and "with what was not sent" in done.stdout and
                report["optimizer"]["compress"] == codec,
                f"{codec} on {devices} devices: no gradient gets lost, memory and bytes as planned")
        done, report = train("net.json", *two, "--steps", 120, "--rate", 0.02, "--compress", codec)
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
        say(b"unsent." in names and report["first_step"] == 3 and
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
    done, _ = train("small.json", *two, "--steps", 1, "--compress", "zip", status=2)
    say("expected bfloat16" in done.stderr, "others are refused", done.stderr)

    # ---- averaged parameters ----
    for optimizer in ("sgd", "nesterov"):
        for devices in (2, 3):
            at = ["small.json", "data-parallel", "--devices", devices, "--optimizer", optimizer, "--steps", 8]
            _, plain = train(*at)
            done, every = train(*at, "--average-every", 1, "--verify")
            say(LABEL in done.stdout and all(abs(a - b) < 1e-5 * b for a, b in zip(every["loss"], plain["loss"])),
                f"{optimizer} on {devices} devices, averaged in every step: as if gradients were summed")
            _, some = train(*at, "--average-every", 4)
            say(some["sent_bytes"] * 4 == every["sent_bytes"] and some["loss"] != plain["loss"],
                "every fourth: a quarter of the bytes, and other losses")
    _, plain = train("net.json", *two, "--steps", 120, "--rate", 0.02)
    end = sum(plain["loss"][-10:]) / 10
    _, some = train("net.json", *two, "--steps", 120, "--rate", 0.02, "--average-every", 8)
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
    for options, why in ((["--clip", 1], "clipped"), (["--compress", "ternary"], "compressed"),
                         (["--test-every", 2], "multiple")):
        done, _ = train("small.json", *two, "--steps", 9, "--average-every", 3, *options, status=2)
        say(why in done.stderr, f"not with {options[0]}", done.stderr)
    run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "data-parallel",
        "--average-every", 4, "-o", "plan.json")
    _, report = train("small.json", "plan.json", "--steps", 4)
    say(report["optimizer"].get("average_every") == 4, "a plan may ask for it")
    done = run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--average-every", 4, "-o",
               "none.json", status=2)
    say("nothing to search" in done.stderr, "none is searched", done.stderr)
    done = run(ffsearch, "small.json", "--machine", "cpu2", "--costs", "analytic", "--simulate", "expert",
               "--average-every", 4, status=2)
    say("as in data parallelism" in done.stderr, "and others are refused", done.stderr)

print(f"1..{count}")
sys.exit(failed > 0)
