#!/usr/bin/env python3
# ffsearch --framework: hosts that issue task by task, and kernels of other frameworks.  Prints TAP.
# Usage: test_framework.py FFSEARCH FFZOO SOURCE.  SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import tempfile

FFSEARCH, FFZOO, SOURCE = map(os.path.abspath, sys.argv[1:4])
sys.path.insert(0, SOURCE + "/tests")
from tap import finish, say  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None
MACHINE = "dgx-a100-40"


def make(name, *args):
    subprocess.run([FFZOO, *args, "-o", name], check=True, stdout=subprocess.DEVNULL)


def search(*args, status=0):
    done = subprocess.run([FFSEARCH, *args], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"status {done.returncode}, not {status}: {done.stderr}"
    return done


def simulate(graph, strategy, framework, devices=1, machine=MACHINE):
    """The strategy file of a prediction, and the report."""
    search(graph, "--machine", machine, "--devices", str(devices), "--costs", "analytic", "--optimizer", "sgd",
           "--memory", "4TiB", "--simulate", strategy, "-o", "plan.json", "--report", "report.json",
           *(["--framework", framework] if framework else []))
    with open("plan.json", encoding="utf-8") as plan, open("report.json", encoding="utf-8") as report:
        return json.load(plan), json.load(report)


def step(*args):
    return simulate(*args)[0]["predicted_us"]


def gpt(name, **values):
    preset = dict(layers=4, width=256, heads=4, sequence=128, vocabulary=512, dtype="bfloat16")
    make(name, "gpt2", "--batch", "8", *(a for k, v in dict(preset, **values).items() for a in ("--set", f"{k}={v}")))


def test_questions_are_of_the_framework_too():
    """What is found with more of something is not taken without the framework's hosts."""
    with tempfile.TemporaryDirectory() as folder:
        net, report = os.path.join(folder, "net.json"), os.path.join(folder, "report.json")
        subprocess.run([FFZOO, "mlp", "--set", "hidden=4096", "--set", "layers=3", "--batch", "64", "-o", net],
                       check=True)
        subprocess.run([FFSEARCH, net, "--machine", "dgx-a100-40:1", "--costs", "analytic", "--framework", "pytorch",
                        "--simulate", "zero-3", "--explain", "--report", report], check=True, capture_output=True)
        with open(report, encoding="utf-8") as f:
            why = json.load(f)["explain"]
        more = why["memory_1_gib"]
        assert why["nothing"]["searched_us"] >= .9 * min(more["searched_us"], more["carried_us"]), why


def test_host():
    """One device's host issues each kernel of a pass and an update of each bucket; what is left of the step behind
    the last is short beside it."""
    make("mlp.json", "mlp", "--batch", "64", "--set", "layers=3", "--set", "hidden=64")
    device = step("mlp.json", "single", "pytorch:0")
    late, later = (step("mlp.json", "single", f"pytorch:{us}") for us in (10000, 20000))
    tasks = (later - late) / 10000
    layers, others = 4 * 1 + (4 * 2 - 1) + 4, 3 * 2  # the first has no gradient of data; all sum up those of biases
    assert tasks == round(tasks) and layers + others < tasks <= layers + others + 9, tasks
    assert 0 <= late - 10000 * tasks < device, (late, tasks, device)
    steps = [step("mlp.json", "single", f"pytorch:{us}") for us in (0, 1, 5, 20, 100)]
    assert steps == sorted(steps) and steps[0] == device and steps[-1] < 100 * tasks + device
    # kernels of a second hide what their hosts do
    make("wide.json", "mlp", "--batch", "4096", "--set", "hidden=8192")
    device = step("wide.json", "single", "pytorch:0")
    assert device <= step("wide.json", "single", "pytorch:20") < 1.02 * device


def test_waits():
    """Behind a message a host that waits has nothing issued; a step of one stage has no messages."""
    gpt("gpt.json")
    apart = [step("gpt.json", "megatron:1,1,2,4", f"{name}:300", 2)
             for name in ("megatron", "megatron-core")]
    assert apart[0] > 1.02 * apart[1], apart


def test_shapes():
    """Hosts of nanotron read the shape of each value that a stage receives: 44 calls more forward, 22 backward."""
    make("llama.json", "llama", "--batch", "8", *(a for s in ("layers=4", "width=256", "heads=4", "key_heads=4",
         "hidden=512", "sequence=128", "vocabulary=512", "dtype=bfloat16") for a in ("--set", s)))
    calls = {}
    for framework in ("fsdp", "nanotron"):
        late = [step("llama.json", f"megatron:1,1,2,{micro}", f"{framework}:10000", 2) for micro in (4, 8)]
        calls[framework] = (late[1] - late[0]) / 4 / 10000
    assert 60 < calls["nanotron"] - calls["fsdp"] < 90, calls
    alone = [step("llama.json", "megatron:1,1,1,4", f"{framework}:10000") for framework in ("fsdp", "nanotron")]
    assert 0.95 < alone[1] / alone[0] < 1.05, alone


def test_gathers_by_themselves():
    """Without --tp-comm-overlap gathers and scatters of tensor ranks hide behind no product; FlashAttention's row has
    norms of several kernels."""
    make("llama.json", "llama", "--batch", "8", *(a for s in ("layers=4", "width=4096", "heads=32", "key_heads=8",
         "hidden=14336", "sequence=2048", "vocabulary=32000", "dtype=bfloat16") for a in ("--set", s)))
    steps = {(name, how): step("llama.json", f"megatron:8,1,1,8{how}", f"{name}:0", 8)
             for name in ("megatron-core", "megatron-te") for how in ("", ",sequence")}
    assert steps["megatron-te", ",sequence"] > 1.05 * steps["megatron-core", ",sequence"], steps
    assert steps["megatron-te", ""] == steps["megatron-core", ""], steps
    norms = [tasks_us(simulate("llama.json", "single", name)[0], "rms_norm")
             for name in ("megatron-te:0", "megatron-flash:0")]
    assert norms[1] > 2 * norms[0], norms


def test_help_has_all():
    """The list of frameworks is whole."""
    text = " ".join(search("--help").stdout.split())
    assert "examples-xla (by XLA), instead of our runtime" in text, text


def test_times_passes():
    """Megatron's hosts time each pass of a micro-batch: they issue no backward before the loss is there, so that no
    host hides what that takes."""
    gpt("gpt.json", vocabulary=51200)
    for strategy in ("single", "megatron:1,1,1,4"):
        late, later = (simulate("gpt.json", strategy, f"megatron:{us}")[0] for us in (1000, 2000))
        tasks = (later["predicted_us"] - late["predicted_us"]) / 1000
        shown = late["predicted_us"] - 1000 * tasks
        loss = tasks_us(late, "softmax_cross_entropy forward")
        assert loss > 1000 and 0.95 * loss < shown < 1.5 * loss, (strategy, shown, loss)


def tasks_us(plan, *names):
    return sum(us for name, us in plan["predicted_tasks"].items() if name.startswith(names))


def test_attention():
    """Scores of all pairs cross the memory bus, so that twice the sequence takes nearly four times; and what is
    dropped of them crosses it once more."""
    times = {}
    for dropout in (0, 10):
        for sequence in (1024, 2048):
            gpt("long.json", sequence=sequence, dropout=dropout)
            for framework in (None, "pytorch:0"):
                plan = simulate("long.json", "single", framework)[0]
                times[framework, sequence, dropout] = tasks_us(plan, "attention")
    assert 3.5 < times["pytorch:0", 2048, 0] / times["pytorch:0", 1024, 0] < 4.2, times
    assert times["pytorch:0", 2048, 0] > 2 * times[None, 2048, 0], times
    assert times["pytorch:0", 2048, 10] > 1.1 * times["pytorch:0", 2048, 0], times
    assert times[None, 2048, 10] == times[None, 2048, 0], times


def test_fused_softmax():
    """Scores of three heads of one sample are not for Megatron's kernel: scaled, masked and softmax are operators by
    themselves, four more a pass with the casts."""
    tasks = {}
    for heads in (3, 4):
        gpt("heads.json", width=64 * heads, heads=heads)
        late, later = (step("heads.json", "megatron:1,1,1,8", f"megatron:{us}") for us in (10000, 20000))
        tasks[heads] = (later - late) / 10000
    assert tasks[3] == tasks[4] + 8 * 4 * 2 * 4, tasks  # micro-batches, blocks, passes


def test_images():
    """Frameworks hand the gradient of a sum on, multiply float32 in TF32, and bring images into the order that tensor
    cores take where they lie channels first."""
    times = {}
    for dtype in ("float32", "bfloat16"):
        make("images.json", "resnet50", "--batch", "32", "--set", f"dtype={dtype}")
        for framework in (None, "examples:1", "examples-nchw:1"):
            plan = simulate("images.json", "single", framework)[0]
            times[framework, dtype] = tasks_us(plan, "conv2d")
            assert (tasks_us(plan, "add backward") > 1) == (framework is None), plan["predicted_tasks"]
    plain, last, first = (times[f, "float32"] for f in (None, "examples:1", "examples-nchw:1"))
    assert last < plain / 2 and first == last, times
    assert times["examples-nchw:1", "bfloat16"] > 1.2 * times["examples:1", "bfloat16"], times


def test_triton():
    """Attention by Triton takes what its tutorial prints on A100, causal, four times 32 heads of 64 (triton-lang.org,
    06-fused-attention, TFLOP/s), and as much of what Ampere's instructions reach on H100."""
    for places, forward, backward in ((1024, 111.7, 59.8), (2048, 136.5, 76.2), (4096, 150.0, 87.5)):
        make("heads.json", "gpt2", "--batch", "4", *(w for s in (
            "layers=1", "width=2048", "heads=32", f"sequence={places}", "vocabulary=512", "dtype=bfloat16")
                                                     for w in ("--set", s)))
        plan = simulate("heads.json", "single", "fsdp")[0]
        flops = 4 * 4 * 32 * places ** 2 * 64 / 2
        us = tasks_us(plan, "attention forward"), tasks_us(plan, "attention_statistics backward")
        assert abs(us[0] * forward * 1e6 / flops - 1) < .1 and abs(us[1] * backward * 1e6 / flops / 2.5 - 1) < .1, us
        hopper = tasks_us(simulate("heads.json", "single", "fsdp", machine="dgx-h100")[0], "attention forward")
        assert 1.2 < us[0] / hopper < 989 / 312 / 2, (us, hopper)


def test_fused():
    """In 16 bits MxNet's batch norms add and cut off what they made, by XLA those of float32, too; those of cuDNN 5 are
    of a block a channel; a sum that drops takes dropout's time."""
    us = {}
    for dtype in ("float32", "bfloat16"):
        make("images.json", "resnet50", "--batch", "32", "--set", f"dtype={dtype}")
        for framework in ("examples:1", "examples-mxnet:1", "examples-xla:1"):
            plan = simulate("images.json", "single", framework)[0]
            us[framework, dtype] = [tasks_us(plan, name) for name in ("relu forward", "relu backward", "add forward")]
    assert us["examples:1", "float32"] == us["examples-mxnet:1", "float32"], us
    make("images.json", "resnet50", "--batch", "32")
    stream, block = (tasks_us(simulate("images.json", "single", f, machine="dgx1-p100")[0], "batch_norm forward")
                     for f in ("pytorch", "tensorflow"))
    assert 1.5 * stream < block < 3 * stream, (stream, block)
    for framework, dtype in (("examples-mxnet:1", "bfloat16"), ("examples-xla:1", "bfloat16"),
                             ("examples-xla:1", "float32")):
        plain, fused = us["examples:1", dtype], us[framework, dtype]
        assert fused[0] < .01 * plain[0] and fused[1] < .5 * plain[1] and .2 < fused[2] / plain[2] < .5, us
    gpt("gpt.json", width=1024, heads=16, sequence=512, dropout=10)
    ours, theirs = (tasks_us(simulate("gpt.json", "single", f)[0], "dropout forward") for f in (None, "megatron:0"))
    assert theirs < .5 * ours, (ours, theirs)


def test_replayed():
    """As CUDA graphs steps of few images do not wait for their hosts; of many, which never did, they take as long, but
    for what convolutions sum up for batch norms."""
    us = {}
    for batch in (4, 256):
        make("images.json", "resnet50", "--batch", str(batch), "--set", "dtype=bfloat16")
        us[batch] = [step("images.json", "single", f, 1, "dgx-h100") for f in ("examples-mxnet", "examples-mlperf")]
    sums = [tasks_us(simulate("images.json", "single", f, machine="dgx-h100")[0], "batch_moments forward")
            for f in ("examples-mxnet", "examples-mlperf")]
    assert us[4][1] < .5 * us[4][0], us
    assert sums[1] < 1 and .02 * us[256][0] < sums[0], (us, sums)
    assert .98 < us[256][1] / (us[256][0] - sums[0]) < 1.001, (us, sums)


def test_tensorflow():
    """Norms of 16 bits are of float32, bytes of twice as many; without XLA norms and gelu are a kernel an operation."""
    us = {}
    for dtype in ("float32", "bfloat16"):
        make("words.json", "bert", "--batch", "32", *(w for s in (
            "layers=2", "width=1024", "heads=16", "sequence=512", f"dtype={dtype}") for w in ("--set", s)))
        for framework in ("examples:1", "examples-xla:1", "examples-tensorflow:1"):
            plan = simulate("words.json", "single", framework)[0]
            us[framework, dtype] = [tasks_us(plan, name) for name in (
                "layer_norm forward", "layer_norm backward", "add forward", "gelu forward", "gelu backward")]
    plain, wide, apart = (us[f, "bfloat16"] for f in ("examples:1", "examples-xla:1", "examples-tensorflow:1"))
    assert all(1.8 < b / a < 2.1 for a, b in zip(plain[:3], wide[:3])) and plain[3:] == wide[3:], us
    assert all(b > 2.5 * a for a, b in zip(wide[:2], apart[:2])), us
    assert all(b > 5 * a for a, b in zip(wide[3:], apart[3:])), us
    assert us["examples:1", "float32"] == us["examples-xla:1", "float32"], us
    for i in (0, 1, 3, 4):  # as long in either type
        assert abs(us["examples-tensorflow:1", "float32"][i] / apart[i] - 1) < .02, us


def test_oneflow():
    """Loss by one kernel takes less than Megatron's several, and a graph's gradients are summed in float32; images of
    16 bits that lie channels last are not brought in order first."""
    gpt("gpt.json", width=1024, heads=16, sequence=512, vocabulary=32768)
    plans = [simulate("gpt.json", "data-parallel", f, 8)[0] for f in ("megatron:0", "oneflow", "flash-attention:0")]
    loss = [tasks_us(plan, "softmax_cross_entropy") for plan in plans]
    assert loss[1] < .3 * loss[0] and loss[2] < .3 * loss[0], loss
    sums = [plan["predicted_tasks"]["gradient all-reduce"] for plan in plans]
    assert sums[1] > 1.5 * sums[0], sums
    for dtype in ("float32", "bfloat16"):
        make("images.json", "resnet50", "--batch", "32", "--set", f"dtype={dtype}")
        first, last = (tasks_us(simulate("images.json", "single", f)[0], "conv2d") for f in ("pytorch", "pytorch-nhwc"))
        assert last < .95 * first if dtype == "bfloat16" else last == first, (dtype, first, last)


def test_words_in_a_row():
    """Frameworks' losses read words as layers have made them, in a row."""
    gpt("gpt.json", vocabulary=32768)
    ours, theirs = (simulate("gpt.json", "single", f)[0] for f in (None, "pytorch"))
    assert tasks_us(theirs, "transpose") < .1 and tasks_us(ours, "transpose") > 50, (ours, theirs)


def test_autocast():
    """Softmax of 16 bits is of float32 between casts, as norms, sums and losses are; nothing else of float32 is."""
    us = {}
    names = ("attention", "layer_norm forward", "add forward", "add backward", "softmax_cross_entropy", "linear", "update")
    for dtype in ("float32", "bfloat16"):
        gpt("gpt.json", width=1024, heads=16, sequence=512, vocabulary=32768, dtype=dtype)
        for framework in ("pytorch", "pytorch-amp"):
            plan = simulate("gpt.json", "single", framework)[0]
            us[framework, dtype] = [tasks_us(plan, name) for name in names]
    plain, cast = us["pytorch", "bfloat16"], us["pytorch-amp", "bfloat16"]
    assert us["pytorch", "float32"][:4] == us["pytorch-amp", "float32"][:4], us
    assert cast[0] > 1.3 * plain[0] and 3 < cast[1] / plain[1] < 4 and 1.8 < cast[2] / plain[2] < 2.1, us
    assert cast[3] > 2 * plain[3] and cast[4] > 2 * plain[4] and cast[5] > plain[5] and cast[6] > 2 * plain[6], us


def test_compiled():
    """A sum goes with the norm that reads it, and attention's backward takes 2.9 times forward."""
    gpt("gpt.json", width=1024, heads=16, sequence=512)
    plain, one = (simulate("gpt.json", "single", f)[0] for f in ("flash-attention", "pytorch-compiled"))
    assert .5 < tasks_us(one, "add forward") / tasks_us(plain, "add forward") < .8, (plain, one)
    back, forward = tasks_us(one, "attention_statistics backward"), tasks_us(one, "attention forward")
    assert 2.5 < back / forward < 3, (back, forward)


def test_recompute():
    """Megatron computes the last layer of a block again, which our runtime does not, and all-reduces it."""
    gpt("gpt.json", width=1024, heads=16, sequence=512)
    ours, theirs = (simulate("gpt.json", "megatron:2,1,1,1,recompute", f, 2)[0] for f in (None, "megatron:0"))
    plain = [simulate("gpt.json", "megatron:2,1,1,1", f, 2)[0] for f in (None, "megatron:0")]
    more = tasks_us(theirs, "linear") - tasks_us(ours, "linear")
    sums = tasks_us(plain[1], "linear") - tasks_us(plain[0], "linear")  # gradients of biases
    again = more - sums
    half = ours["predicted_tasks"]["linear recompute"] / 2  # 4 of the 8 squares that are recomputed
    moved = ours["predicted_tasks"]["all-reduce recompute"]
    assert 0.9 * (half + moved) < again < 1.2 * (half + moved), (again, half, moved)


def test_gradients():
    """Megatron's travel in 16 bits where that is computed in."""
    for dtype, share in (("bfloat16", 0.5), ("float32", 1)):
        gpt("gpt.json", width=2048, heads=16, dtype=dtype)
        simulate("gpt.json", "data-parallel", None, 8)
        os.rename("plan.json", "buckets.json")
        us = [simulate("gpt.json", "buckets.json", f, 8)[0]["predicted_tasks"]["gradient all-reduce"]
              for f in (None, "megatron:0")]
        assert share - 0.02 < us[1] / us[0] < share + 0.15, (dtype, us)


def test_at_once():
    """Megatron's gradients are one bucket, which nothing but the update follows: longer steps than in buckets that
    travel beside backward."""
    gpt("gpt.json", width=2048, heads=16)
    simulate("gpt.json", "data-parallel", None, 16, "p3.16xlarge:2")
    os.rename("plan.json", "buckets.json")
    buckets, once = (simulate("gpt.json", s, "megatron:0", 16, "p3.16xlarge:2")[0]
                     for s in ("buckets.json", "data-parallel"))
    assert buckets["bucket_bytes"] < 2 ** 28 < once["bucket_bytes"], (buckets["bucket_bytes"], once["bucket_bytes"])
    assert once["predicted_us"] > 0.999 * sum(us for task, us in once["predicted_tasks"].items() if re.search(
        "(linear|attention|norm|gelu|add) (for|back)ward|gradient all-reduce", task)) / 16, once
    assert once["predicted_us"] > 1.1 * buckets["predicted_us"], (once["predicted_us"], buckets["predicted_us"])


def test_table():
    """Rows that a prediction is compared with are that framework's."""
    gpt("gpt.json")
    wanted = step("gpt.json", "zero-1", "pytorch", 8)
    done = search("gpt.json", "--machine", MACHINE, "--devices", "8", "--costs", "analytic", "--optimizer", "sgd",
                  "--memory", "4TiB", "--simulate", "data-parallel", "--framework", "pytorch")
    row = re.search(r"^zero-1 +([0-9.]+) ms", done.stdout, re.M)
    assert row and abs(float(row[1]) - wanted / 1e3) < 0.001, (done.stdout, wanted)


def accumulated(*frameworks):
    """What linear layers take backward in 8 micro-batches, by framework, and what a pass of reading two gradients and
    writing one takes in all of them but the first, if these have 16 bits."""
    gpt("gpt.json", width=1024, heads=16)
    parameters = 4 * 12 * 1024 ** 2 + 512 * 1024  # of products
    us = [tasks_us(simulate("gpt.json", "megatron:1,1,1,8", f)[0], "linear backward") for f in frameworks]
    return us, 7 * parameters * 2 * 3 / 1555e9 * 1e6


def test_accumulated():
    """So do they where those of a micro-batch are added to them: two reads and a write, of half of the bytes."""
    (theirs, others), saved = accumulated("megatron:0", "pytorch:0")
    assert saved < others - theirs < 1.2 * saved, (others - theirs, saved)


def test_loss():
    """Logits cross the memory bus 52 bytes each, 14 of them backward: Megatron computes the loss in float32, by parts."""
    gpt("gpt.json", vocabulary=51200)
    for name, each in (("softmax_cross_entropy backward", 14), ("softmax_", 52)):
        us = tasks_us(simulate("gpt.json", "single", "megatron:0")[0], name)
        least = 8 * 128 * 51200 * each / 1555e9 * 1e6
        assert least < us < 1.2 * least, (name, us, least)


def test_norms():
    """Llama's norms and rotations in eager PyTorch are several kernels in float32, where it computes in 16 bits."""
    elements = 8 * 512 * 1024  # of a norm; queries and keys are turned
    for dtype, several in (("bfloat16", True), ("float32", False)):
        make("llama.json", "llama", "--batch", "8", *(w for s in (
            "layers=4", "width=1024", "heads=16", "key_heads=16", "sequence=512", "hidden=2048", "vocabulary=512",
            f"dtype={dtype}") for w in ("--set", s)))
        plan, ours = (simulate("llama.json", "single", f)[0] for f in ("fsdp", None))
        for name, each in (("rms_norm forward", 9 * 36), ("rms_norm backward", 9 * 80),
                           ("rope forward", 8 * 20), ("rope backward", 8 * 20)):
            us, plain = tasks_us(plan, name), tasks_us(ours, name)
            least = elements * each / 1555e9 * 1e6
            assert least < us < 1.3 * least if several else us == plain, (name, dtype, us, plain, least)


def test_gelu():
    """Of Hugging Face's GPT-2 gelu by tanh is written out, 18 elements forward and 28 backward for one of its own."""
    gpt("gpt.json", width=1024, heads=16, sequence=512)
    plan = simulate("gpt.json", "single", "pytorch:0")[0]
    for name, elements in (("gelu forward", 18), ("gelu backward", 28)):
        least = 4 * 8 * 512 * 4096 * elements * 2 / 1555e9 * 1e6
        assert least < tasks_us(plan, name) < 1.5 * least, (name, tasks_us(plan, name), least)


def test_times():
    """All that is computed takes so many times as long."""
    make("mlp.json", "mlp", "--batch", "1024")
    once, twice = (simulate("mlp.json", "single", f"examples:{n}")[0] for n in (1, 2))
    for name in ("linear forward", "linear backward", "relu forward"):
        assert abs(twice["predicted_tasks"][name] / once["predicted_tasks"][name] - 2) < 1e-3, name


def test_times_and_host():
    """What is PyTorch's is launched by a host as PyTorch's is, which small batches wait for and large ones do not."""
    make("mlp.json", "mlp", "--batch", "64", "--set", "layers=3", "--set", "hidden=64")
    host = step("mlp.json", "single", "pytorch")
    assert host > 5 * step("mlp.json", "single", None)
    assert host <= step("mlp.json", "single", "examples") < 1.05 * host
    make("wide.json", "mlp", "--batch", "4096", "--set", "hidden=8192", "--set", "dtype=bfloat16")
    plain = step("wide.json", "single", "examples:1")
    assert 1.1 * plain < step("wide.json", "single", "examples") < 1.15 * plain


def test_casts():
    """In 16 bits examples cast parameters to them and gradients back, and read or write these five times more before
    an update, each in float32."""
    parameters = 2 * 8192 * 8192 + 784 * 8192 + 8192 * 10
    make("wide.json", "mlp", "--batch", "1024", "--set", "hidden=8192", "--set", "dtype=bfloat16")
    plans = [simulate("wide.json", "single", f)[0] for f in ("examples:1", "pytorch:0")]
    for name, each in (("linear forward", 6), ("linear backward", 6), ("update", 20)):
        us, plain = (tasks_us(plan, name) for plan in plans)
        least = parameters * each / 1555e9 * 1e6
        assert least < us - plain < 1.2 * least, (name, us, plain, least)
    make("wide.json", "mlp", "--batch", "1024", "--set", "hidden=8192")
    us = [tasks_us(simulate("wide.json", "single", f)[0], "update") for f in ("examples:1", "pytorch:0")]
    assert us[0] == us[1], us


def test_added_in_products():
    """Those of Megatron's later products add to the gradients that there are."""
    (apart, inside), saved = accumulated("megatron:0", "megatron-core:0")
    sums = 8 * 4 * 8 * 2.5  # gradients of biases are summed up by products, too
    assert saved < apart - inside < 1.2 * saved + 2 * sums, (apart - inside, saved)


def test_beside():
    """Where sequences are cut, what Transformer Engine gathers or scatters goes beside long products, but for one chunk
    of four; beside short ones, for as long as they take."""
    def moved(framework, **values):
        gpt("beside.json", heads=32, layers=1, **values)
        search("beside.json", "--machine", "dgx-h100", "--devices", "4", "--costs", "analytic", "--simulate",
               "megatron:4,1,1,1,sequence", "-o", "plan.json", "--trace", "trace.json",
               *(["--framework", framework] if framework else []))
        with open("trace.json", encoding="utf-8") as f:
            return {e["name"]: e["dur"] for e in json.load(f)["traceEvents"]
                    if e["ph"] == "X" and re.match("block0.*(gather|scatter)", e["name"])}

    for width, whole in (4096, True), (256, False):
        ours, there = moved(None, width=width, sequence=1024), moved("megatron-core", width=width, sequence=1024)
        up = "block0.mlp.up all-gather"
        assert set(ours) == set(there) and len(ours) >= 6, ours
        assert all(0.2499 * ours[name] < us <= ours[name] for name, us in there.items()), (ours, there)
        assert (abs(there[up] / ours[up] - 0.25) < 0.001) == whole, (width, ours[up], there[up])


def test_files():
    """Both say whose times they have; who reads the strategy takes them for nobody's."""
    gpt("gpt.json")
    plan, report = simulate("gpt.json", "single", "megatron")
    assert plan["framework"] == report["framework"] == "megatron"
    assert "framework" not in simulate("gpt.json", "single", None)[0]
    for value, name in ((plan, "strategy"), (report, "search-report")):
        with open(f"{SOURCE}/docs/schema/{name}.schema.json", encoding="utf-8") as f:
            if jsonschema:
                jsonschema.validate(value, json.load(f))


def test_refused():
    gpt("gpt.json")
    common = ["gpt.json", "--machine", MACHINE, "--devices", "1"]
    for word, *more in (("did you mean megatron", "--simulate", "single", "--framework", "megatrom"),
                        ("from 0 to", "--simulate", "single", "--framework", "megatron:-1"),
                        ("from 0 to", "--simulate", "single", "--framework", "megatron:nan"),
                        ("from 0 to", "--simulate", "single", "--framework", "megatron:7us"),
                        ("--simulate", "-o", "plan.json", "--framework", "megatron")):
        error = search(*common, "--costs", "analytic", *more, status=2).stderr
        assert word in error and re.fullmatch(r"ffsearch: [^\n]+\n", error), error
    assert "analytic" in search(*common, "--costs", "peak", "--simulate", "single", "--framework", "pytorch",
                                status=2).stderr


for test_name, test in sorted(globals().copy().items()):
    if not test_name.startswith("test_"):
        continue
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            test()
            say(True, test_name)
        except AssertionError as e:
            say(False, test_name, e)
        os.chdir("/")
finish()
