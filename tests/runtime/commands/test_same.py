# Ranks that were not started alike: one sentence says what differs, and nothing is trained.
# Usage: test_same.py FFZOO FFRUN FFPROF MPIRUN.  SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffrun, ffprof, mpirun = (os.path.abspath(p) for p in sys.argv[1:5])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def ranks(program, common, *own):
    """A rank for each of `own`, which are options beside those in common."""
    command = [mpirun, "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    for i, options in enumerate(own):
        command += [":"] * (i > 0) + ["-n", "1", program, *common, *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)


def unequal(name, *own, program=ffrun, common=("net.json", "data-parallel"), what=None):
    """`name`: of the option; `what`: a pattern of what the sentence has of both ranks."""
    done = ranks(program, common, *own)
    said = [line for line in done.stderr.splitlines() if line.startswith(os.path.basename(program) + ":")]
    pattern = r"\w+: ranks 0 and (\d) were started with unequal ([^:]*): (.+)"
    told = re.fullmatch(pattern, said[0]) if said else None
    say(done.returncode == 2 and len(said) == 1 and told and name in told[2] and int(told[1]) == len(own) - 1 and
        (not what or re.fullmatch(what, told[3])), f"{os.path.basename(program)}: {name}",
        f"{done.returncode}: {done.stderr}")


def changed(path, to):
    """A copy with its last byte changed."""
    data = bytearray(pathlib.Path(path).read_bytes())
    data[-1] ^= 1
    pathlib.Path(to).write_bytes(data)
    return to


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name, width in (("net", 8), ("other", 16)):
        subprocess.run([ffzoo, "mlp", "--batch", "8", "--set", "image=4", "--set", f"hidden={width}", "--set",
                        "layers=1", "-o", f"{name}.json"], check=True)
    data = ["--data", "synthetic:64"]
    few = [*data, "--steps", 3]
    done = ranks(ffrun, ["net.json", "data-parallel"], [*few, "--save", "w.safetensors"],
                 [*few, "--save", "w.safetensors"])
    say(done.returncode == 0, "alike they train", done.stderr)

    for option, a, b, what in (
            ("--rate", 0.1, 0.2, "0.1 and 0.2"), ("--momentum", 0.5, 0.9, "0.5 and 0.9"),
            ("--decay", 0, 0.5, "0 and 0.5"), ("--clip", 1, 2, "1 and 2"), ("--seed", 1, 2, "1 and 2"),
            ("--group", "bias:factor=2", "bias:factor=3", r"bias:factor=2 \(\w+\) and bias:factor=3 \(\w+\)"),
            ("--schedule", "cosine", "constant", "cosine and constant"), ("--ramp", 1, 2, "1 and 2"),
            ("--optimizer", "adam", "sgd", "adam and sgd"), ("--compress", "none", "ternary", "none and ternary"),
            ("--average-every", 1, 2, "1 and 2"), ("--staleness", 0, 1, "0 and 1"),
            ("--test-every", 1, 2, "1 and 2"), ("--profile", 1, 2, "1 and 2"), ("--top", 1, 2, None)):
        more = ["--test"] if option == "--top" else []
        unequal(option, [*few, option, a, *more], [*few, option, b, *more], what=what)
    unequal("--floor", [*few, "--schedule", "cosine", "--floor", 0.1], [*few, "--schedule", "cosine"],
            what="0.1 and 0")
    unequal("--rate", [*few, "--rate", 1], [*few, "--rate", 1], [*few], what="1 and .*")
    for option in ("--test", "--verify", "--compare"):
        unequal(option, [*few, option], few, what="given and not given")
    for option in ("--save", "--dump", "--trace"):
        unequal(option, [*few, option, "out"], few, what="given and not given")
    unequal("--checkpoint", few, [*few, "--checkpoint", "kept"], what="not given and given")
    unequal("--steps", few, [*data, "--steps", 4], what="3 and 4")
    unequal("--steps", few, [*data, "--epochs", 1], what="3 and 8")
    unequal("--data", few, ["--data", "synthetic:72", "--steps", 3], what="64 samples.* and 72 samples.*")
    unequal("GRAPH", ["net.json", "data-parallel", *few], ["other.json", "data-parallel", *few], common=())
    unequal("--weights", [*few, "--weights", "w.safetensors"], few, what="given and not given")
    unequal("--weights", [*few, "--weights", "w.safetensors"],
            [*few, "--weights", changed("w.safetensors", "v.safetensors")], what=r"\w{16} and \w{16}")
    done = ranks(ffrun, ["net.json", "data-parallel"], [*few, "--weights", "w.safetensors"],
                 [*few, "--weights", str(pathlib.Path("w.safetensors").resolve())])
    say(done.returncode == 0, "paths may differ", done.stderr)

    # data sets of as many samples: another sample
    try:
        import numpy as np
    except ImportError:
        np = None
    if np:
        x, y = np.random.default_rng(1).random((64, 1, 4, 4), np.float32), np.arange(64, dtype=np.int64) % 10
        np.savez("a.npz", data=x, labels=y)
        x[32] += 1
        np.savez("b.npz", data=x, labels=y)
        unequal("--data", ["--data", "a.npz", "--steps", 3], ["--data", "b.npz", "--steps", 3],
                what=r"64 samples.*\(\w+\) and 64 samples.*\(\w+\)")

    # folders of one's own, as on two hosts, that have gone on unequally
    for name, steps in (("one", 2), ("two", 3)):
        subprocess.run([ffrun, "net.json", "single", *data, "--steps", str(steps), "--checkpoint", name],
                       stdout=subprocess.DEVNULL, check=True)
    done = ranks(ffrun, ["net.json", "data-parallel"], *([*data, "--steps", 5, "--checkpoint", name, "--resume"]
                                                         for name in ("one", "two")))
    say(done.returncode == 2 and re.fullmatch(r"ffrun: --checkpoint one: on \S+ it has 2 steps behind it, "
                                              r"on \S+ \(rank 1\) 3: [^\n]+\n", done.stderr),
        "ffrun: checkpoints to go on from", f"{done.returncode}: {done.stderr}")

    prof = ("net.json", "--machine", "cpu2")
    for option, a, b in (("--largest", "1M", "2M"), ("--rounds", 1, 2), ("--micro-batches", 1, 2),
                         ("--data", "synthetic:64", "synthetic:72")):
        unequal(option, [option, a, "-o", "costs.json"], [option, b, "-o", "costs.json"], program=ffprof, common=prof)
    unequal("--again", ["--again", "-o", "costs.json"], ["-o", "costs.json"], program=ffprof, common=prof)

finish()
