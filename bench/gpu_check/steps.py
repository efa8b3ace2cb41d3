# The steps, in the order of their worth.  SPDX-License-Identifier: Apache-2.0
import copy
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time

import models
import place
import process
from record import FAILED, PASSED, SKIPPED

ROUNDED_APART = 2e-2  # the same in bfloat16
FLOAT32_APART = 1e-3  # losses of several steps, CPU and GPU; one step's gradients: tests/torch

SAMPLE = 8  # an eighth of the random cases, of all tests before any test's whole


class Failure(Exception):
    """What went wrong, in a few words."""


class Skip(Exception):
    """Why it is not done here."""


class OutOfTime(Exception):
    """The whole run's time is over: the step is done the next time."""


@dataclasses.dataclass
class Step:
    name: str
    run: object  # (Check) -> figure
    limit: int = 60  # seconds
    alone: bool = False  # what it times, others beside it would slow down


class Check:
    """One run: on a GPU, or on the host double."""

    def __init__(self, double, gpu, end):
        self.double, self.gpu, self.end = double, gpu, end
        self.device_name = "host double" if double else gpu[0]
        self.python_found = None
        self.step_end = end
        self.log = self.folder = None

    def of_step(self, step):
        """For one step: it has a log, a folder and an end of its own."""
        own, name = copy.copy(self), re.sub(r"\W+", "-", step.name)
        # a double has no speed, and where it runs there are few cores
        own.step_end = min(self.end, time.monotonic() + step.limit * (2 if self.double else 1))
        own.log, own.folder = place.OUT / "logs" / f"{name}.log", place.OUT / "work" / name
        own.log.parent.mkdir(parents=True, exist_ok=True)
        own.folder.mkdir(parents=True, exist_ok=True)
        own.log.write_text("")
        return own

    @property
    def python(self):
        """PyTorch's, looked for until it is found: it may need what is unpacked first."""
        self.python_found = self.python_found or place.torch_python()
        return self.python_found

    def module(self):
        folder = "tests/double/libffcuda_double.so" if self.double else "runtime/cuda/libffcuda.so"
        return place.BUILD / folder

    def env(self, **more):
        env = place.environment()
        env.update(FF_CUDA_MODULE=str(self.module()), FF_TEST_BACKEND="cuda", FF_CACHE_DIR="")
        if self.double:
            env.update(FF_TEST_SHARE="8", OMP_NUM_THREADS="1")
        env.update(more)
        return env

    def command(self, *words, **more):
        """Runs to its end or the step's; returns exit status and output, which the log keeps."""
        words = [str(w) for w in words]
        with open(self.log, "ab") as log:
            log.write(f"\n$ {' '.join(words)}\n".encode())
            log.flush()
            start = log.tell()
            started = subprocess.Popen(words, env=self.env(**more), cwd=place.ROOT,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
            status = process.wait(started, self.step_end)
        with open(self.log, "rb") as log:
            log.seek(start)
            output = log.read().decode(errors="replace")
        if status is None:
            if self.step_end >= self.end:
                raise OutOfTime()
            raise Failure("took longer than it may")
        return status, output

    def must(self, *words, **more):
        status, output = self.command(*words, **more)
        if status:
            raise Failure(f"exit status {status}: {last_line(output)}")
        return output

    def tap(self, *words, **more):
        """A test's output; how many cases passed."""
        status, output = self.command(*words, **more)
        skipped = re.search(r"^1\.\.0 # SKIP (.*)", output, re.M)
        if skipped:
            raise Skip(skipped.group(1))
        bad = re.findall(r"^not ok.*", output, re.M)
        good = len(re.findall(r"^ok ", output, re.M))
        if status or bad or not good:
            raise Failure(f"{len(bad)} of {len(bad) + good} cases: {bad[0]}" if bad else
                          f"exit status {status}: {last_line(output)}")
        return f"{good} cases"


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:110] if lines else "it said nothing"


# ---- building ----

TARGETS = ["graphs/ffzoo", "runtime/ffrun", "runtime/ffprof", "tests/torch/ffrun_dense",
           "tests/runtime/test_mpi", "bench/bench-kernels", "bench/bench-device"]
# what others rest on first
BACKEND_TESTS = ["copy", "stream", "kernels", "kernels_rows", "kernels_attention", "kernels_soft", "loss", "recurrent",
                 "executor", "captured", "fuse", "fuse_backward", "fuse_norm", "fuse_sums", "fuse_transposed",
                 "fuse_updates", "rounded", "sparse", "prefetch", "lanes", "route", "watch", "codec", "coded_moves", "late"]
HOST_TESTS = ["comm", "dataset", "fields", "ids"]  # of what no backend has a part in


def unpack(check):
    """The packages, and links to libraries of the toolkit or of PyTorch's wheels."""
    said = place.unpack()
    place.link_libraries(check.python)
    return said


def configure(check):
    origin = place.link_libraries(check.python)
    lacking = [n for n in ("cudart", "cublasLt", "cudnn") if origin[n] == "missing"]
    if lacking and not check.double:
        raise Failure(f"no {', '.join(lacking)}, neither in the toolkit nor beside PyTorch")
    options = [f"-Dcuda={'auto' if check.double else 'enabled'}", "-Dtests=enabled",
               "-Dbuildtype=release"]
    if not check.double:
        options.append(f"-Dgpu_arch={check.gpu[1]}")
    meson = [sys.executable, place.UNPACKED / "usr/bin/meson", "setup"]
    # what was compiled of a source but little different is worth keeping
    again = ["--reconfigure"] if (place.BUILD / "build.ninja").exists() else []
    if again and check.command(*meson, *again, place.BUILD, *options)[0]:
        again = []
    if not again:
        shutil.rmtree(place.BUILD, ignore_errors=True)
        check.must(*meson, place.BUILD, *options)
    return ", ".join(f"{n}: {o}" for n, o in origin.items())


def build(check):
    targets = TARGETS + [f"tests/runtime/test_{n}" for n in BACKEND_TESTS]
    targets.append(str(check.module().relative_to(place.BUILD)))
    check.must(place.UNPACKED / "usr/bin/ninja", "-C", place.BUILD, *targets)
    strangers = sorted(linked_elsewhere(check))
    if strangers:
        raise Failure(f"not from the unpacked packages: {' '.join(strangers)}")
    return f"{len(targets)} targets"


def linked_elsewhere(check):
    """Libraries of the packages that ffrun would load from somewhere else."""
    for line in check.must("ldd", place.BUILD / "runtime/ffrun").splitlines():
        found = re.match(r"\s*lib(mpi|open-\w+|cjson|hwloc|event\S*)\.so\S* => (\S+)", line)
        if found and not found.group(2).startswith(str(place.UNPACKED)):
            yield found.group(2)


# ---- tests ----

def backend_test(name, **more):
    return lambda check: check.tap(place.BUILD / f"tests/runtime/test_{name}", **more)


def ranks(n, nccl=False, share=1):
    """Random schedules on ranks that share the GPU, by way of the host or over NCCL."""
    def run(check):
        if nccl:
            need_nccl()
        more = {"FF_TEST_SHARE": str(2 * share) if check.double else str(share)}
        if nccl:
            more["FF_NCCL"] = "1"
        return check.tap("mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to",
                         "none", "-n", str(n), place.BUILD / "tests/runtime/test_mpi",
                         OMP_NUM_THREADS="1", **more)
    return run


def need_cpu(check):
    """Without oneDNN there is nothing to compare with here but PyTorch, below."""
    if "libdnnl" not in check.must("ldd", place.BUILD / "runtime/ffrun"):
        raise Skip("built without oneDNN: nothing computes on the CPU")


def commands(check):
    need_cpu(check)
    return check.tap("sh", "tests/double/test_commands_double.sh", place.BUILD / "graphs/ffzoo",
                     place.BUILD / "runtime/ffrun", check.module())


def need_torch(check):
    if not check.python:
        raise Skip("no Python here has PyTorch and NumPy")
    return check.python


def torch_test(part):
    return lambda check: check.tap(
        need_torch(check), "tests/torch/test_torch.py", part, place.BUILD / "runtime/ffrun",
        place.BUILD / "graphs/ffzoo", place.BUILD / "tests/torch/ffrun_dense")


def torchvision_test(net):
    return lambda check: check.tap(
        need_torch(check), "tests/torch/test_torchvision.py", net, place.BUILD / "runtime/ffrun",
        place.BUILD / "graphs/ffzoo")


def graph(check, name, *options):
    path = check.folder / f"{name}.json"
    check.must(place.BUILD / "graphs/ffzoo", *options, "-o", path)
    return path


def train(check, path, device, *options, strategy="single", **env):
    report = check.folder / "report.json"
    check.must(place.BUILD / "runtime/ffrun", path, strategy, "--device", device, "--report",
               report, *options, **env)
    return json.loads(report.read_text())


# name and what ffzoo makes it of
SAME_STEPS = {"lenet": ["lenet", "--batch", "32"],
              "mlp": ["mlp", "--batch", "32", "--set", "hidden=256"],
              "alexnet for 28x28": ["alexnet", "--set", "image=28", "--set", "dropout=0",
                                    "--batch", "16"],
              "rnn": ["rnn", "--batch", "16"], "lm": ["lm", "--batch", "8", "--set",
                                                      "vocabulary=500"]}


def cpu_and_gpu(check):
    """The same 8 steps on both: losses."""
    need_cpu(check)
    worst = (0.0, "")
    for name, options in SAME_STEPS.items():
        path = graph(check, "same", *options)
        both = [train(check, path, device, "--data", "synthetic:64", "--steps", "8",
                      "--rate", "0.005")["loss"] for device in ("cpu", "cuda")]
        if len(both[0]) != 8 or len(both[1]) != 8:
            raise Failure(f"{name}: not 8 losses")
        apart = max(abs(a - b) / abs(a) for a, b in zip(*both))
        if not apart <= FLOAT32_APART:
            raise Failure(f"{name}: losses apart by {apart:.2g}")
        worst = max(worst, (apart, name))
    return f"losses apart by at most {worst[0]:.1e} ({worst[1]})"


def need_nccl():
    if list((place.BUILD / "runtime").rglob("*no_nccl.c.o")):
        raise Skip("built without NCCL")


def machine(check, nodes, devices):
    """A file of so many nodes; what is in it but their number matters to plans alone."""
    path = check.folder / f"machine{nodes}x{devices}.json"
    path.write_text(json.dumps({
        "format": "ffsoap-machine", "version": 1, "name": path.stem, "overlap": True,
        "kinds": [{"name": "gpu", "flops_per_s": 6e13, "memory_bytes_per_s": 4e12,
                   "memory_bytes": 8 << 30}],
        "nodes": [{"count": nodes, "devices": devices, "kind": "gpu",
                   "inside": {"latency_us": 5, "bytes_per_s": 1e11},
                   "network": {"latency_us": 10, "bytes_per_s": 1e10}}]}))
    return path


def nccl(check):
    """Processes on one GPU count as hosts: docs/runtime.md."""
    path = graph(check, "nccl", "mlp", "--batch", "12", "--set", "hidden=32")
    need_nccl()
    for n in ("2", "4"):
        said = train(check, path, "cuda", "--devices", n, "--data", "synthetic:64", "--steps", "3",
                     "--verify", strategy="data-parallel", FF_NCCL="1")
        if not said["communication"].lower().startswith("nccl"):
            raise Failure(f"communication was {said['communication']}")
    said = train(check, path, "cuda", "--machine", machine(check, 2, 2), "--data", "synthetic:64",
                 "--steps", "3", "--verify", strategy="data-parallel", FF_NCCL="1",
                 FF_NCCL_NODES="1")
    if not said["communication"].endswith("by nodes"):
        raise Failure(f"communication was {said['communication']}, not by nodes")
    return "2 and 4 ranks verified, by nodes too"


def nccl_tables(check):
    """Of ranks that share a GPU, so that its copies and launches are in the figures, no link."""
    path = graph(check, "nccl", "mlp", "--batch", "4", "--set", "image=4", "--set", "hidden=8",
                 "--set", "layers=1")
    need_nccl()
    costs = check.folder / "nccl-costs.json"
    costs.unlink(missing_ok=True)
    check.must(place.BUILD / "runtime/ffprof", path, "--machine", machine(check, 1, 2), "--device", "cuda",
               "--largest", "1K" if check.double else "4M", "--budget", "60s", "-o", costs,
               FF_NCCL="1")
    said = json.loads(costs.read_text())
    tables = {t["kind"]: t for t in said.get("comm", []) if "nodes" not in t and "one_way" not in t}
    if not said["machine"]["communication"].startswith("nccl") or "all-reduce" not in tables:
        raise Failure("no table of all-reduce over NCCL")
    table = tables["all-reduce"]
    return (f"all-reduce of {table['bytes'][0]} bytes {table['us'][0]:.0f} us, of "
            f"{table['bytes'][-1]} {table['us'][-1]:.0f} us")


def nccl_hangs(check):
    """A rank that stops is noticed, and the job ends: docs/running.md."""
    need_nccl()
    return check.tap("sh", "tests/double/test_hang_double.sh", place.BUILD / "graphs/ffzoo",
                     place.BUILD / "runtime/ffrun", check.module())


DROPOUT = ["alexnet", "--set", "image=28", "--batch", "16"]


def both_ways(check, path, *options, **more):
    """The same steps task by task and each as a CUDA graph: the reports of both."""
    plain, launched = (
        train(check, path, "cuda", "--data", "synthetic:64", "--steps",
              "8" if check.double else "60", "--optimizer", "adamw", "--rate", "0.001",
              "--schedule", "cosine", "--test", *options, FF_CUDA_GRAPH=word, **more)
        for word in ("0", "1"))
    if plain["captured"] or not launched["captured"]:
        raise Failure("FF_CUDA_GRAPH is not obeyed")
    for key in ("loss", "accuracy", "test_loss", "sent_bytes"):
        if plain[key] != launched[key]:
            raise Failure(f"{key} is {launched[key]} launched, else {plain[key]}")
    return plain["step_us"]["median"], launched["step_us"]["median"]


def graphs(check):
    """To the bit the same, and what launching a step as a whole saves."""
    said = []
    for name, options in {**SAME_STEPS, "alexnet for 28x28": DROPOUT}.items():
        path = graph(check, "graphs", *options)
        plain, launched = both_ways(check, path, strategy="single")
        said.append(f"{name} {plain / 1e3:.2f} ms, launched {launched / 1e3:.2f}")
    return "the same bits" if check.double else "the same bits; " + "; ".join(said)


def gelu_network(check):
    """An mlp whose layers have gelus behind them: as a file of our own, since it asks for the form
    that cuBLASLt has."""
    batch, wide, layers = (16, 64, 2) if check.double else (8192, 4096, 4)
    nodes = [{"name": "x", "op": "input", "shape": [batch, wide]},
             {"name": "y", "op": "input", "shape": [batch], "dtype": "int32", "classes": 16}]
    last = "x"
    for i in range(layers):
        nodes += [{"name": f"fc{i}", "op": "linear", "in": [last], "out_features": wide},
                  {"name": f"gelu{i}", "op": "gelu", "in": [f"fc{i}"], "approximate": "tanh"}]
        last = f"gelu{i}"
    nodes += [{"name": "last", "op": "linear", "in": [last], "out_features": 16},
              {"name": "loss", "op": "softmax_cross_entropy", "in": ["last", "y"]}]
    path = check.folder / "gelus.json"
    path.write_text(json.dumps({"format": "ffsoap-graph", "version": 2, "name": "gelus",
                                "dtype": "bfloat16", "nodes": nodes}))
    return path


def fused(check):
    """A gelu by the kernel of the layer before it, and by one of its own."""
    path = gelu_network(check)
    steps = "4" if check.double else "30"
    both = [train(check, path, "cuda", "--data", "synthetic:64" if check.double else
                  "synthetic:8192", "--steps", steps, "--warmup", "2", FF_FUSE=word)
            for word in ("0", "1")]
    apart = max(abs(a - b) / abs(a) for a, b in zip(both[0]["loss"], both[1]["loss"]))
    if not apart <= ROUNDED_APART:
        raise Failure(f"losses apart by {apart:.2g}")
    apart_ms, one_ms = (r["step_us"]["median"] / 1e3 for r in both)
    said = f"losses apart by {apart:.1e}"
    return said if check.double else f"{said}; {apart_ms:.2f} ms apart, fused {one_ms:.2f}"


def kernel_times(check, network, operator, **switch):
    """By bench-kernels: what an operator takes forward and backward, in ms; its scratch in MiB."""
    output = check.must(place.BUILD / "bench/bench-kernels", *network, "--device", "cuda", **switch)
    times, scratch = {"forward": 0.0, "backward": 0.0}, 0.0
    for line in output.splitlines():
        found = re.match(rf"\S+ +{operator}\S* +(forward|backward) +(\S+) .* (\S+)$", line)
        if found:
            times[found.group(1)] += float(found.group(2)) / 1e3
            scratch = max(scratch, float(found.group(3)))
    if not min(times.values()):
        raise Failure(f"bench-kernels did not time {operator}")
    return times, scratch


def attention(check):
    """In bfloat16 by cuDNN, and by kernels of ours: losses of some steps, times of one layer."""
    small = ["gpt2", "--batch", "2", "--set", "layers=1", "--set", "sequence=8", "--set",
             "vocabulary=50", "--set", "width=32", "--set", "heads=4", "--set", "dtype=bfloat16"]
    large = ["gpt2", "--batch", "8", "--set", "layers=1", "--set", "sequence=2048", "--set",
             "vocabulary=512", "--set", "width=1024", "--set", "heads=16", "--set",
             "dtype=bfloat16"]
    network = small if check.double else large
    path = graph(check, "attention", *small)
    # its log says why cuDNN has no plan, should that be so
    both = [train(check, path, "cuda", "--data", "synthetic:16", "--steps", "6", "--rate", "0.01", FF_CUDA_SDPA=word,
                  CUDNN_LOGLEVEL_DBG="2", CUDNN_LOGDEST_DBG="stderr")["loss"] for word in ("0", "1")]
    if not check.double and both[0] == both[1]:
        raise Failure("cuDNN has no plan: the same bits with FF_CUDA_SDPA=0")
    apart = max(abs(a - b) / abs(a) for a, b in zip(*both))
    if not apart <= ROUNDED_APART:
        raise Failure(f"losses apart by {apart:.2g}")
    (ours, _), (theirs, scratch) = (kernel_times(check, network, "attention", FF_CUDA_SDPA=word)
                                    for word in ("0", "1"))
    said = f"losses apart by {apart:.1e}"
    return said if check.double else said + "; 8 x 16 heads, 2048 x 2048: " + ", ".join(
        f"{p} {ours[p]:.2f} ms by ours, {theirs[p]:.2f} by cuDNN" for p in ours) + (
            f" with {scratch:.0f} MiB of scratch")


def recurrences(check):
    """Step by step, and all steps by one kernel: losses of some steps, times of layers of several sizes."""
    path = graph(check, "recurrences", "rnnlm", "--batch", "9", "--set", "steps=5", "--set", "hidden=20", "--set",
                 "vocabulary=50")
    both = [train(check, path, "cuda", "--data", "synthetic:18", "--steps", "6", "--rate", "0.01",
                  FF_CUDA_PERSISTENT=word)["loss"] for word in ("0", "1")]
    apart = max(abs(a - b) / abs(a) for a, b in zip(*both))
    if not apart <= FLOAT32_APART:
        raise Failure(f"losses apart by {apart:.2g}")
    said = [f"losses apart by {apart:.1e}"]
    for hidden, batch in ((8, 2),) if check.double else ((256, 16), (512, 16), (256, 64)):
        network = ["rnnlm", "--batch", str(batch), "--set", "vocabulary=512", "--set", "layers=1", "--set",
                   f"hidden={hidden}", "--set", f"steps={3 if check.double else 64}"]
        by_step, at_once = (kernel_times(check, network, "lstm", FF_CUDA_PERSISTENT=word)[0] for word in ("0", "1"))
        said.append(f"{batch} x {hidden}: " + ", ".join(
            f"{p} {by_step[p]:.2f} ms step by step, {at_once[p]:.2f} at once" for p in by_step))
    return said[0] if check.double else "; ".join(said)


def plans(check):
    """What libraries chose in a first run is kept, and a second one computes the same by it."""
    cache = check.folder / "plans"
    shutil.rmtree(cache, ignore_errors=True)
    options = BENCHMARKS["alexnet"][1] if check.double else BENCHMARKS["resnet50"][0]
    path = graph(check, "plans", *options, "--set", "dtype=bfloat16")
    losses, seconds, files = [], [], []
    for _ in range(2):
        begin = time.monotonic()
        losses.append(train(check, path, "cuda", "--data", "synthetic:64", "--steps", "3",
                            FF_CACHE_DIR=str(cache))["loss"])
        seconds.append(time.monotonic() - begin)
        files.append({p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()})
    if losses[0] != losses[1]:
        raise Failure(f"losses are {losses[1]}, and were {losses[0]}")
    if not files[0] or files[0] != files[1]:
        raise Failure(f"{len(files[0])} plans were kept, and then not found")
    return f"{len(files[0])} kept; the command took {seconds[0]:.1f} s, then {seconds[1]:.1f}"


def graphs_nccl(check):
    """Communication captured too; processes on one GPU count as hosts."""
    path = graph(check, "graphs", "mlp", "--batch", "12", "--set", "hidden=32")
    need_nccl()
    both_ways(check, path, "--devices", "2", strategy="data-parallel", FF_NCCL="1")
    return "the same bits on 2 ranks"


def sanitizer():
    home = place.toolkit()
    own = home and home / "bin/compute-sanitizer"
    return str(own) if own and own.exists() else shutil.which("compute-sanitizer")


def sanitized(name, share, tool="memcheck"):
    def run(check):
        if check.double:
            raise Skip("needs a GPU")
        if not sanitizer():
            raise Skip("no compute-sanitizer here")
        return check.tap(sanitizer(), "--tool", tool, "--error-exitcode", "9", "--target-processes", "all",
                         place.BUILD / f"tests/runtime/test_{name}", FF_TEST_SHARE=str(share),
                         CK_FORK="no")
    return run


# ---- benchmarks ----

BENCHMARKS = {  # ffzoo's arguments; a small relative for the double
    "resnet50": (["resnet50", "--batch", "64"],
                 ["resnet50", "--batch", "2", "--set", "image=32"]),
    "alexnet": (["alexnet", "--batch", "256"],
                ["alexnet", "--batch", "4", "--set", "image=28"]),
    "gpt2": (["gpt2", "--batch", "4", "--set", "layers=6"],
             ["gpt2", "--batch", "2", "--set", "sequence=8", "--set", "layers=1", "--set", "vocabulary=50", "--set",
              "width=32", "--set", "heads=4"]),
    "mlp": (["mlp", "--batch", "1024"], ["mlp", "--batch", "8", "--set", "hidden=64"]),
    "rnn": (["rnn", "--batch", "256", "--set", "hidden=1024"],
            ["rnn", "--batch", "4", "--set", "hidden=16", "--set", "steps=3"]),
}
FIRST = ["resnet50", "gpt2"]  # of these


def loading_us(trace):
    """Of the last step, what ffrun took to make up its batch and bring it to the device."""
    events = json.loads(trace.read_text())["traceEvents"]
    return sum(e["dur"] for e in events if e.get("args", {}).get("kind") == "load")


def compared(ours, loading, theirs):
    """ffrun's step makes up its batch first, which PyTorch's has ready in pinned memory; without
    loading, it is compared with a batch that is on the device already."""
    rest = ours - loading
    said = (f"{ours / 1e3:.2f} ms, PyTorch eager {theirs['copied_us'] / 1e3:.2f} ms, ratio "
            f"{theirs['copied_us'] / ours:.2f}; without loading {rest / 1e3:.2f} ms, "
            f"{theirs['resident_us'] / 1e3:.2f} ms, {theirs['resident_us'] / rest:.2f}")
    if "compiled_us" in theirs:
        said += f"; compiled {theirs['compiled_us'] / 1e3:.2f} ms, {theirs['compiled_us'] / rest:.2f}"
    return said


def need_attention(check, path):
    """PyTorch before 2.0 has none, and one that is written out is no comparison."""
    with open(path, encoding="utf-8") as f:
        has = any(node["op"] == "attention" for node in json.load(f)["nodes"])
    if has and check.command(check.python, "-c", "import torch.nn.functional as f; f.scaled_dot_product_attention")[0]:
        raise Skip("this PyTorch has no scaled_dot_product_attention: it is older than 2.0")


def bench(name, dtype, *more):
    """A training step's median beside PyTorch's, in the same minute; "compile": its compiled one, too."""
    def run(check):
        python = need_torch(check)
        if more and check.double:
            raise Skip("needs a GPU")
        full, small = BENCHMARKS[name]
        path = graph(check, "bench", *(small if check.double else full), "--set",
                     f"dtype={dtype}")
        need_attention(check, path)
        steps, warmup = ("4", "2") if check.double else ("20", "10")
        data = "synthetic:16" if check.double else "synthetic:256"
        trace, out = check.folder / "trace.json", check.folder / "eager.json"
        # engines are timed, as by torch.backends.cudnn.benchmark
        ours = train(check, path, "cuda", "--data", data, "--steps", steps, "--warmup", warmup,
                     "--trace", trace, FF_CACHE_DIR=str(check.folder / "plans"))["step_us"]["median"]
        check.must(python, "bench/gpu_check/eager.py", path, steps, out,
                   "cpu" if check.double else "cuda", *more)
        said = compared(ours, loading_us(trace), json.loads(out.read_text()))
        return "both train (a double has no speed)" if check.double else said
    return run


TORCH_PARTS = ["operators", "networks", "optimizers", "steps", "late", "bfloat16", "transformers",
               "modules", "split", "nonfinite"]
TORCHVISION = ["resnet50", "vgg16", "inception_v3", "densenet121"]


PREPARATION = [Step("unpack", unpack, 60), Step("configure", configure, 90), Step("build", build, 1800)]


def timed(name, run, limit=60):
    """A step whose figure is a time, or several."""
    return Step(name, run, limit, alone=True)


def all_steps():
    steps = [*PREPARATION, Step("commands", commands, 90)]
    steps += [Step(n, backend_test(n, FF_TEST_SHARE=str(SAMPLE)), 90) for n in BACKEND_TESTS]
    steps += [Step("recurrent, step by step", backend_test("recurrent", FF_CUDA_PERSISTENT="0"), 60)]
    steps += [Step(f"kernels, plan {n}", backend_test("kernels", FF_CUDA_PLAN=str(n), CK_RUN_CASE="convolutions"), 150)
              for n in (2, 3)]
    steps += [Step("CPU and GPU", cpu_and_gpu, 90)]
    steps += [Step(f"PyTorch {p}", torch_test(p), 120) for p in TORCH_PARTS[:3]]
    # what a double cannot say: speed, and what threads of a block do to each other
    steps += [timed(f"bench {n} {d}", bench(n, d)) for n in FIRST for d in ("float32", "bfloat16")]
    steps += [timed("device models", models.step(Skip, Failure), models.LIMIT)]
    steps += [timed("CUDA graphs", graphs), timed("plans kept", plans), timed("gelu fused", fused),
              timed("attention by cuDNN", attention, 90), timed("recurrences at once", recurrences)]
    steps += [Step(f"{tool} {n}", sanitized(n, share, tool), 90)
              for tool, n, share in (("memcheck", "kernels", 64), ("racecheck", "kernels_rows", 64),
                                     ("memcheck", "copy", 16), ("memcheck", "recurrent", 64),
                                     ("memcheck", "loss", 16), ("memcheck", "kernels_rows", 64))]
    steps += [Step("2 and 4 ranks, NCCL", nccl, 60), Step("CUDA graphs, NCCL", graphs_nccl, 60)]
    steps += [Step("a rank stops, NCCL", nccl_hangs, 60)]
    steps += [Step(f"{n} ranks, tests over NCCL", ranks(n, True, 4 * n), 90) for n in (2, 4)]
    steps += [Step(f"{n} ranks, staging", ranks(n), 90) for n in (2, 4)]
    steps += [Step(f"PyTorch {p}", torch_test(p), 200) for p in TORCH_PARTS[3:]]
    steps += [Step(f"{n}, all cases", backend_test(n), 240) for n in BACKEND_TESTS]
    steps += [Step(f"torchvision {n}", torchvision_test(n), 90) for n in TORCHVISION]
    steps += [timed("ffprof over NCCL", nccl_tables, 90)]
    steps += [timed(f"bench {n} {d}", bench(n, d))
              for d in ("float32", "bfloat16") for n in BENCHMARKS if n not in FIRST]
    steps += [timed(f"compiled {n} bfloat16", bench(n, "bfloat16", "compile"), 200) for n in FIRST]
    return steps


def run_step(step, check):
    """(status, seconds, figure); OutOfTime where it is to be done again."""
    begin = time.monotonic()
    try:
        status, figure = PASSED, step.run(check.of_step(step))
    except Skip as why:
        status, figure = SKIPPED, str(why)
    except (Failure, place.Missing) as why:
        status, figure = FAILED, str(why)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError,
            IndexError) as why:
        status, figure = FAILED, f"{type(why).__name__}: {why}"
    return status, time.monotonic() - begin, figure
