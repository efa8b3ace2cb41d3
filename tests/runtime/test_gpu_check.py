# ./run gpu-check: what it keeps of a run that was cut off, and what it takes from PyTorch's wheels.
# Usage: test_gpu_check.py SOURCE.  SPDX-License-Identifier: Apache-2.0
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

root = pathlib.Path(sys.argv[1])
backend_tests = sys.argv[2:]
sys.dont_write_bytecode = True
sys.path.insert(0, str(root / "bench" / "gpu_check"))
spec = importlib.util.spec_from_file_location("gpu_check", root / "bench/gpu_check/__main__.py")
gpu_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpu_check)
import place  # noqa: E402
import process  # noqa: E402
import record  # noqa: E402
import steps as plan  # noqa: E402

count = failed = 0


def check(name, good, note=""):
    global count, failed
    count, failed = count + 1, failed + (not good)
    print(f"{'ok' if good else 'not ok'} {count} - {name}{'' if good else f' # {note}'}", flush=True)


class Clock:
    """In place of a Check: far from its end, or past it."""

    def __init__(self, left=100.0):
        self.end = time.monotonic() + left


def walk(folder, names, outcomes, key="a", left=100.0, again=False):
    """Which steps ran, what is kept, whether none was left."""
    ran, kept = [], record.Record(folder / "state.json", key)

    def run_step(step, clock):
        ran.append(step.name)
        outcome = outcomes.get(step.name, record.PASSED)
        if outcome is plan.OutOfTime:
            raise plan.OutOfTime()
        return outcome, 1.0, "figure"

    with contextlib.redirect_stdout(io.StringIO()):
        whole = gpu_check.walk(kept, [plan.Step(n, None) for n in names], Clock(left), again,
                               run_step)
    return ran, kept, whole


def ended(kept, names, whole):
    """The exit status; what is printed is no TAP."""
    with contextlib.redirect_stdout(io.StringIO()):
        return gpu_check.summary(kept, names, whole)


def continuation(folder):
    names = ["one", "two", "three", "four"]
    ran, kept, whole = walk(folder, names, {"two": record.FAILED, "three": plan.OutOfTime})
    check("a run is cut off in its third step", ran == names[:3] and not whole, ran)
    check("what is left is counted", kept.count(names, record.LEFT) == 2, kept.steps)
    check("and is not success", ended(kept, names, whole) == 1)
    ran, kept, whole = walk(folder, names, {"four": record.SKIPPED})
    check("the next goes on, and then tries anew what failed", ran == ["three", "four", "two"] and whole, ran)
    check("passed and skipped are success", ended(kept, names, whole) == 0)
    check("skipped is tried anew", walk(folder, names, {})[0] == ["four"])
    check("what passed is not", walk(folder, names, {})[0] == [])
    check("unless told to", walk(folder, names, {}, again=True)[0] == names)
    check("another source begins anew", walk(folder, names, {}, key="b")[0] == names)
    (folder / "state.json").write_text('{"key": "b", "ste')
    check("so does a torn file", walk(folder, names, {}, key="b")[0] == names)
    check("nothing begins past the end", walk(folder, names, {}, key="c", left=-1)[0] == [])


def preparation(folder):
    """A failed build leaves nothing to test; what did not travel is made again."""
    names = [*gpu_check.PREPARATION, "test"]
    ran, _, _ = walk(folder, names, {"configure": record.FAILED})
    check("nothing follows a step that all stand on", ran == names[:2], ran)
    gpu_check.built = lambda name: True
    walk(folder, names, {})
    check("what is built stays", walk(folder, names, {}, again=True)[0] == ["test"])
    gpu_check.built = lambda name: name != "unpack"
    check("packages are unpacked again, for the same build", walk(folder, names, {}, again=True)[0] ==
          ["unpack", "test"])
    gpu_check.built = lambda name: name != "configure"
    check("what is gone is made again, and what stands on it",
          walk(folder, names, {})[0] == names[1:])
    gpu_check.built = lambda name: True
    elsewhere = record.Record(folder / "state.json", "a", "another GPU", gpu_check.PREPARATION)
    check("what was built without a GPU is used on it, and all else is done there",
          [n for n in names if elsewhere.done(n)] == gpu_check.PREPARATION, elsewhere.steps)


def side_by_side(folder):
    """What is timed runs alone, in its place; the rest runs beside others."""
    steps = [plan.Step(n, None, alone=n.isupper()) for n in "abCdE"]
    check("steps are put together", ["".join(s.name for s in b) for b in gpu_check.batches(steps)] ==
          ["ab", "C", "d", "E"])
    both = threading.Barrier(2, timeout=600)

    def meet(step, clock):
        both.wait()
        return record.PASSED, 1.0, "figure"

    with contextlib.redirect_stdout(io.StringIO()):
        kept = record.Record(folder / "state.json", "a")
        whole = gpu_check.walk(kept, steps[:2], Clock(), run_step=meet, jobs=2)
    check("two run at a time", whole and kept.done("a") and kept.done("b"), kept.steps)


def hashes(folder):
    (folder / "runtime").mkdir()
    (folder / "runtime" / "a.c").write_text("int a;")
    before = record.source_hash(folder)
    (folder / "runtime" / "__pycache__").mkdir()
    (folder / "runtime" / "__pycache__" / "a.pyc").write_text("x")
    check("caches are no source", record.source_hash(folder) == before)
    (folder / "runtime" / "a.c").write_text("int b;")
    check("a changed source has another hash", record.source_hash(folder) != before)


def limits(folder):
    """A real command that runs too long: for its step, and for the whole run."""
    place.OUT = folder
    for name, left, limit in (("step", 100.0, 0.3), ("run", 0.3, 100.0)):
        one = plan.Check(True, None, time.monotonic() + left)
        step = plan.Step(name, lambda c: c.must("sleep", "300"), limit)
        begin = time.monotonic()
        try:
            status = plan.run_step(step, one)[0]
        except plan.OutOfTime:
            status = "out of time"
        want = record.FAILED if name == "step" else "out of time"
        check(f"too long for the {name}: {want}", status == want, status)
        check("and it is ended", time.monotonic() - begin < 100)


def ranks_end(folder):
    """A process of a group of its own ends with the command that started it, as a rank of mpirun."""
    place.OUT = folder
    one = plan.Check(True, None, time.monotonic() + 100)
    rank = ("import os, subprocess, time; print(subprocess.Popen(['sleep', '300'], preexec_fn=os.setpgrp).pid, "
            "flush=True); time.sleep(300)")
    plan.run_step(plan.Step("ranks", lambda c: c.must(sys.executable, "-c", rank), 4), one)
    pid = (folder / "logs/ranks.log").read_text().split()[-1]
    for _ in range(100):
        if not process.session_of(pathlib.Path(f"/proc/{pid}/stat")):
            break
        time.sleep(0.1)
    check("ranks end with mpirun", pid.isdigit() and not process.session_of(pathlib.Path(f"/proc/{pid}/stat")), pid)


def held(folder):
    """A killed process that the driver holds is left behind."""
    class Held:
        pid, waits = 2 ** 30, 0

        def wait(self, timeout):
            Held.waits += 1
            raise subprocess.TimeoutExpired("held", timeout)

        def poll(self):
            return None

    check("what cannot be ended is not waited for", process.wait(Held(), time.monotonic()) is None and Held.waits == 2,
          Held.waits)


def taps(folder):
    """What counts as passed."""
    one = plan.Check(True, None, time.monotonic() + 100)
    for say, want in (("echo ok 1 - a; echo 1..1", record.PASSED), ("echo not ok 1 - a", record.FAILED),
                      ("echo ok 1 - a; exit 1", record.FAILED), ("true", record.FAILED),
                      ("echo '1..0 # SKIP no torch'", record.SKIPPED)):
        status = plan.run_step(plan.Step("tap", lambda c, s=say: c.tap("sh", "-c", s)), one)[0]
        check(f"what says {say.replace('#', '')!r} has {want}", status == want, status)


def wheels(folder):
    """cuDNN as its wheel has it, where the toolkit lacks it."""
    place.LINKS = folder / "links"
    for kind in ("include", "lib"):
        (place.LINKS / kind).mkdir(parents=True)
        (folder / "nvidia" / "cudnn" / kind).mkdir(parents=True)
    (folder / "nvidia/cudnn/include/cudnn.h").write_text("")
    for name in ("libcudnn.so.9", "libcudnn_graph.so.9"):
        (folder / "nvidia/cudnn/lib" / name).write_text("")
    found = place.link_library("cudnn", "cudnn.h", [folder / "nvidia" / "cudnn"])
    check("a wheel's library is linked as compilers look for it", found and
          os.path.realpath(place.LINKS / "lib/libcudnn.so").endswith("/libcudnn.so.9") and
          (place.LINKS / "lib/libcudnn_graph.so.9").exists() and
          (place.LINKS / "include/cudnn.h").exists())
    check("what no wheel has is missing",
          not place.link_library("nccl", "nccl.h", [folder / "nvidia" / "cudnn"]))
    own = folder / "toolkit" / "include"
    own.mkdir(parents=True)
    for at, minor in ((own, 14), (folder / "nvidia/cudnn/include", 19)):
        (at / "cudnn_version.h").write_text(f"#define CUDNN_MAJOR 9\n#define CUDNN_MINOR {minor}\n"
                                            "#define CUDNN_PATCHLEVEL 0\n")
    check("a wheel's cuDNN goes before an older one of the toolkit",
          place.is_older("cudnn", [own / "cudnn.h"], [folder / "nvidia/cudnn"]) and
          not place.is_older("cudnn", [folder / "nvidia/cudnn/include/cudnn.h"], [own.parent]))


def completeness(folder):
    """All that tests/ runs on a backend is run on a GPU."""
    check("every backend test is a step", sorted(backend_tests) ==
          sorted(plan.BACKEND_TESTS + plan.HOST_TESTS), backend_tests)
    parts = re.findall(r'"(\w+)": test_\w+', (root / "tests/torch/test_torch.py").read_text())
    check("every part of PyTorch's tests is a step", sorted(parts) == sorted(plan.TORCH_PARTS), parts)


for part in (completeness, continuation, preparation, side_by_side, hashes, limits, ranks_end, held, taps, wheels):
    with tempfile.TemporaryDirectory(prefix="ffcheck") as name:
        part(pathlib.Path(name))
print(f"1..{count}")
sys.exit(failed > 0)
