# What ffrun and ffprof write against the JSON Schemas and against each other.
# Usage: test_reports.py FFZOO FFRUN FFPROF FFSEARCH SOURCE_ROOT.  SPDX-License-Identifier: Apache-2.0
import copy
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from schemas import accepts, validator  # noqa: E402
from tap import finish, say  # noqa: E402

ffzoo, ffrun, ffprof, ffsearch = (os.path.abspath(p) for p in sys.argv[1:5])
root = pathlib.Path(sys.argv[5])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def tensors(path):
    """A safetensors file as {name: (dtype, shape, bytes)}."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    ends = [0] + [entry["data_offsets"][1] for entry in header.values()]
    starts = [entry["data_offsets"][0] for entry in header.values()] + [len(body)]
    say(starts == ends, "tensors follow each other and fill the file")
    return {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in header.items()}


reports = validator(root / "docs/schema/run-report.schema.json")
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    graph, report = folder / "graph.json", folder / "report.json"
    run(ffzoo, "lenet", "--batch", "16", "-o", graph)
    common = ["--data", "synthetic:64", "--report", report]

    run(ffrun, graph, "single", *common, "--steps", "4")
    alone = json.loads(report.read_text())
    accepts(reports, alone, "one device")
    say(alone["captured"] is False and "cpu backend" in alone["not_captured"],
        "a CPU is given its steps task by task", alone["not_captured"])
    run(ffrun, graph, "data-parallel", "--devices", "2", *common, "--verify")
    accepts(reports, json.loads(report.read_text()), "only verified")
    run(ffzoo, "gpt2", "--batch", "4", *(x for k in ("layers=1", "width=32", "heads=2", "sequence=16", "vocabulary=100")
                                         for x in ("--set", k)), "-o", folder / "gpt2.json")
    run(ffrun, folder / "gpt2.json", "data-parallel", "--devices", "2", *common, "--verify")
    verified = json.loads(report.read_text())["verify"]
    say(verified["worst_gradient"] < 1e-4 and "rounding" not in verified,
        "a gradient that is zero but for rounding (of keys' biases) is no measure of itself", verified)
    for name, settings in (("sgd", {"rate", "decay"}), ("momentum", {"rate", "momentum", "decay"}),
                           ("nesterov", {"rate", "momentum", "decay"}),
                           ("adamw", {"rate", "beta1", "beta2", "epsilon", "decay"})):
        run(ffrun, graph, "single", *common, "--steps", "2", "--optimizer", name, "--rate", "0.125")
        trained = json.loads(report.read_text())
        accepts(reports, trained, f"trained by {name}")
        say(trained["optimizer"].keys() == settings | {"name", "groups"} and
            trained["optimizer"]["name"] == name and trained["optimizer"]["rate"] == 0.125,
            "which it names", trained["optimizer"])
    run(ffrun, graph, "single", *common, "--steps", "5", "--rate", "0.5", "--schedule", "step",
        "--step-size", "2", "--gamma", "0.25", "--ramp", "2", "--ramp-from", "0.5",
        "--group", "bias:decay=0,factor=2")
    trained = json.loads(report.read_text())
    accepts(reports, trained, "rates and groups")
    say(trained["rate"] == [0.25, 0.375, 0.5, 0.5, 0.125], "a rate a step", trained["rate"])
    say(trained["optimizer"]["groups"] == ["bias:decay=0,factor=2"], "and the rules")
    run(ffrun, graph, "data-parallel", "--devices", "2", *common, "--steps", "6", "--test",
        "--test-every", "3", "--save", folder / "tested")
    tested = json.loads(report.read_text())
    accepts(reports, tested, "tested on the way")
    say([t["step"] for t in tested["tests"]] == [3, 6], "when that was asked for")
    say(all(tested["tests"][1][k] == tested[k] for k in ("accuracy", "top_accuracy", "test_loss", "perplexity")),
        "the last as at the end")
    say(tested["tests"][0]["test_loss"] != tested["test_loss"], "the first not")
    run(ffrun, graph, "data-parallel", "--devices", "2", *common, "--steps", "6", "--save",
        folder / "untested")
    say((folder / "tested").read_bytes() == (folder / "untested").read_bytes() and
        json.loads(report.read_text())["loss"] == tested["loss"], "and trains as without")
    run(ffrun, graph, "data-parallel", "--devices", "2", *common, "--steps", "6", "--warmup", "2",
        "--compare", "--against", "single", "--verify", "--test", "--trace", folder / "trace.json")
    both = json.loads(report.read_text())
    accepts(reports, both, "compared")
    say(len(both["loss"]) == len(both["compare"]["loss"]) == 6, "a loss a step")
    say(both["compare"]["first_loss_difference"] < 1e-5, "the same loss at the first step",
        both["compare"]["first_loss_difference"])
    say(both["compare"]["loss_difference"] < 1e-3, "and nearly at the others",
        both["compare"]["loss_difference"])
    say(both["sent_bytes"] == both["verify"]["sent_bytes"] > 0, "bytes sent", both["sent_bytes"])
    say(both["compare"]["sent_bytes"] == 0, "one device sends nothing")
    say(both["compare"]["memory_bytes"][1] == 0, "and leaves the other's memory alone")
    say(both["accuracy"] is not None and both["test_loss"] > 0, "tested")
    say(both["top"] == 5 and both["accuracy"] <= both["top_accuracy"] <= 1 and
        alone["top_accuracy"] is None and "top" not in alone, "among the first five", both["top_accuracy"])
    say(abs(both["perplexity"] / math.exp(both["test_loss"]) - 1) < 1e-9 and
        alone["perplexity"] is None, "perplexity", both["perplexity"])
    bad = copy.deepcopy(both)
    bad["surplus"] = 1
    say(not reports.is_valid(bad), "the schema knows every member")

    # a line an event, while it runs; what is gone on from stays
    metrics, kept = folder / "metrics.jsonl", folder / "kept"
    at = [ffrun, graph, "data-parallel", "--devices", "2", "--data", "synthetic:64", "--checkpoint",
          kept, "--metrics", metrics, "--test"]
    run(*at, "--steps", "9", "--every", "3", "--test-every", "3")
    with open(metrics, "a") as f:
        f.write('{"event": "step", "st')  # as a run that was killed leaves it
    run(*at, "--steps", "11", "--resume", "--every", "100", "--report", report)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    for line in lines:
        accepts(validator(root / "docs/schema/metrics.schema.json"), line, f"{line['event']} {line.get('step', '')}")
    steps = [line for line in lines if line["event"] == "step"]
    say([line["step"] for line in steps] == list(range(1, 12)), "every step once")
    say([line["loss"] for line in steps[9:]] == json.loads(report.read_text())["loss"],
        "the report's losses")
    say([(line["event"], line.get("step")) for line in lines if line["event"] != "step"] ==
        [("run", None), ("checkpoint", 3), ("test", 3), ("checkpoint", 6), ("test", 6),
         ("checkpoint", 9), ("test", 9), ("run", None), ("checkpoint", 11), ("test", 11)],
        "tests and checkpoints where they were")
    said = subprocess.run([*at[:-3], "--metrics", "/dev/full", "--steps", "3"], text=True,
                          capture_output=True)
    say(said.returncode == 1 and said.stderr.count("\n") == 1 and "/dev/full" in said.stderr,
        "a full disk is a sentence", said.stderr)

    trace = json.loads((folder / "trace.json").read_text())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    say({e["pid"] for e in spans} == {0, 1}, "spans of both devices")
    say(all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans), "that take time")
    for pid in (0, 1):
        lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["pid"] == pid)
        say(all(a[1] <= b[0] + 1e-3 for a, b in zip(lane, lane[1:])), "one task at a time")

    # all ranks on one clock: nobody is done before all of those it needs have begun
    def tasks_of(path):
        document = json.loads(path.read_text())
        return [e for e in document["traceEvents"] if e["ph"] == "X"], document["otherData"]

    for devices in "2", "4":
        machine, plan = f"cpu{devices}", folder / "plan.json"
        run(ffsearch, graph, "--machine", machine, "--costs", "analytic", "--simulate", "data-parallel",
            "-o", plan, "--trace", folder / "predicted.json")
        run(ffrun, graph, plan, "--machine", machine, *common, "--steps", "6", "--profile", "1", "--trace",
            folder / "trace.json", "--html", folder / "page.html", "--beside", folder / "predicted.json")
        spans, other = tasks_of(folder / "trace.json")
        n = int(devices)
        executed = [e for e in spans if e["pid"] < n]
        ahead, _ = tasks_of(folder / "predicted.json")
        say([(e["pid"] - n, e["ts"], e["dur"], e["name"]) for e in spans if e["pid"] >= n] ==
            [(e["pid"], e["ts"], e["dur"], e["name"]) for e in ahead], "the prediction stands beside it")
        say(sorted((e["pid"], e["args"]["task"]) for e in executed) ==
            sorted((e["pid"], e["args"]["task"]) for e in ahead), "task by task")
        # the page has both timelines, the figures of the report, and every device
        page = (folder / "page.html").read_text()
        page = json.loads(page.split('<script id="data" type="application/json">')[1].split("</script>")[0])
        lines = page["plan"]["timelines"]
        say([t["name"] for t in lines] == ["measured", "predicted"] and page["report"] == json.loads(report.read_text()),
            "a page has both, and the report")
        say([sum(len(lane["spans"]) // 5 for g in t["groups"] for lane in g["lanes"]) for t in lines] ==
            [len(executed), len(ahead)], "and all tasks of all devices")
        bounds = [c["bound_us"] for c in other["clocks"]]
        say([c["rank"] for c in other["clocks"]] == list(range(n)) and bounds[0] == 0 and
            all(0 < b < 1e5 for b in bounds[1:]), "clocks have bounds", bounds)
        for pid in range(n):
            lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in executed if e["pid"] == pid)
            say(lane[0][0] >= 0 and all(a[1] <= b[0] + 1e-3 for a, b in zip(lane, lane[1:])),
                f"device {pid} does one thing at a time")
        groups = {}
        for e in executed:
            groups.setdefault(e["args"]["task"], []).append(e)
        syncs = [g for g in groups.values() if g[0]["args"]["kind"] == "sync"]
        say(len(syncs) > 0 and all(len(g) == n for g in syncs), "gradients are all-reduced by all")
        say(all(e["ts"] + e["dur"] + bounds[e["pid"]] + bounds[o["pid"]] + 1e-3 >= o["ts"]
                for g in syncs for e in g for o in g), "and by nobody before all have come")
        # the last step is the one that was profiled
        profiled = json.loads(report.read_text())
        accepts(reports, profiled, "a profile")
        waited = measured = 0
        for g in syncs:
            for e in g:
                end = e["ts"] + e["dur"]
                waited += max(o["ts"] for o in g if o["ts"] <= end) - e["ts"]
                measured += e["dur"]
        row, = [t for t in profiled["tasks"] if t["class"] == "gradient all-reduce"]
        say(math.isclose(row["waited_us"], waited, abs_tol=1e-2) and waited > 0 and
            math.isclose(row["measured_us"], measured, abs_tol=1e-2), "waits are those of the timeline",
            (row, waited, measured))
        say(profiled["clock_bound_us"] == sum(sorted(bounds)[-2:]), "within the clocks' bounds")
        say(all(t["waited_us"] == 0 for t in profiled["tasks"] if t["runs"] and "all-" not in t["class"] and
                t["class"].split()[0] not in ("reduce-scatter", "halo", "point-to-point")),
            "of computing nothing is waited")
        say(row["predicted_wait_us"] is not None and row["predicted_us"] > 0, "waits are predicted", row)
    said = subprocess.run([ffrun, graph, "single", "--devices", "2", *common, "--steps", "2", "--trace",
                           folder / "trace.json", "--beside", folder / "predicted.json"], text=True,
                          capture_output=True)
    say(said.returncode == 2 and said.stderr.count("\n") == 1 and "predicted.json" in said.stderr,
        "another schedule's timeline is refused", said.stderr)
    said = subprocess.run([ffrun, graph, "single", *common, "--steps", "2", "--beside",
                           folder / "predicted.json"], text=True, capture_output=True)
    say(said.returncode == 2 and "--beside: expected --trace FILE or --html FILE with it" in said.stderr,
        "beside nothing there is none", said.stderr)
    said = subprocess.run([ffrun, graph, folder / "plan.json", "--machine", "cpu4", *common, "--steps", "9",
                           "--profile", "3"], text=True, capture_output=True)
    line = [x for x in said.stdout.splitlines() if x.startswith("the step is ")]
    say(len(line) == 1 and ("as long as predicted" in line[0] or " than predicted; most of it: " in line[0]),
        "what a step owes most to is said", line)

    costs = folder / "costs.json"
    run(ffzoo, "mlp", "--batch", "8", "--set", "hidden=16", "--set", "layers=1",
        "-o", folder / "mlp.json")
    run(ffprof, folder / "mlp.json", "--machine", "cpu2", "-o", costs, "--write-machine",
        folder / "here.json", "--largest", "16K")
    found = json.loads(costs.read_text())
    accepts(validator(root / "docs/schema/costs.schema.json"), found, "costs")
    say(found["machine"]["ranks"] == 2 and found["machine"]["threads"] == 1 and
        found["machine"]["kernels"].startswith("oneDNN"), "that say where", found["machine"])
    say(found["steadiness"]["samples"] >= sum(e["samples"] for e in found["entries"]),
        "and how quiet it was", found["steadiness"])
    say(len(found["comm"]) == 5 and sum("one_way" in t for t in found["comm"]) == 1,
        "costs of four kinds of communication, of messages one way too")
    made = json.loads((folder / "here.json").read_text())
    accepts(validator(root / "docs/schema/machine.schema.json"), made, "the machine")
    say([n["devices"] for n in made["nodes"]] == [2] and made["name"] == "here" and
        abs(made["nodes"][0]["inside"]["bytes_per_s"] / found["link"]["bytes_per_s"] - 1) < 1e-9,
        "of one node, with the link that was measured", made)
    say(all(e["p10_us"] <= e["median_us"] <= e["p90_us"] for e in found["entries"]), "in order")
    say(all(e["samples"] >= 5 for e in found["entries"]), "from five samples or more")

    # inputs of both sizes: volumes, and targets of four numbers, which came to stand for all
    run(ffzoo, "cosmoflow", "--batch", "2", "--set", "image=8", "--set", "width=2", "--set", "layers=1",
        "--set", "fc1=8", "--set", "fc2=8", "-o", folder / "cosmoflow.json")
    run(ffprof, folder / "cosmoflow.json", "--machine", "cpu1", "-o", folder / "loads.json", "--largest", "16K")
    loads = json.loads((folder / "loads.json").read_text())
    accepts(validator(root / "docs/schema/costs.schema.json"), loads, "costs of two sizes of samples")
    say([r["sample_bytes"] for r in loads["rates"]["load"]] == [16, 8 * 8 * 8 * 4 * 4],
        "loads are measured of each", loads["rates"]["load"])

    mlp = [folder / "mlp.json", "--machine", "cpu2"]
    run(ffsearch, *mlp, "--costs", "analytic", "--simulate", "single", "-o", folder / "single.json")
    run(ffprof, *mlp, "-o", folder / "few.json", "--strategy", folder / "single.json", "--largest", "16K")
    few = json.loads((folder / "few.json").read_text())
    say({e["key"] for e in few["entries"]} < {e["key"] for e in found["entries"]},
        "of one strategy and data parallelism there are fewer", few["entries"])
    run(ffsearch, *mlp, "--costs", folder / "few.json", "--simulate", folder / "single.json",
        "--report", folder / "few-report.json")
    few = json.loads((folder / "few-report.json").read_text())
    say(few["predicted_us"] > 0 and few["data_parallel_us"] > 0 and few["lower_bound_us"] is None,
        "which both are predicted with", few)

    dumps = []
    for devices in ("1", "2", "3"):
        dump = folder / f"{devices}.safetensors"
        run(ffrun, graph, "data-parallel", "--devices", devices, "--data", "synthetic:64",
            "--dump", dump)
        dumps.append(tensors(dump))
    first = dumps[0]
    say(first["conv1.weight"][:2] == ("F32", [6, 1, 5, 5]), "weights in the file")
    say(first["input.labels"][0] == "I32" if "input.labels" in first else
        any(v[0] == "I32" for k, v in first.items() if k.startswith("input.")), "labels in the file")
    say(all(d.keys() == first.keys() for d in dumps), "the same tensors for every strategy")
    for name in first:
        if not name.startswith("grad.") and name != "loss":
            say(all(d[name] == first[name] for d in dumps), f"{name} does not depend on the strategy")

finish()
