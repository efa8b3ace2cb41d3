#!/usr/bin/env python3
# ffplan from the outside: what it shows, compares, carries over and translates.  Prints TAP.
# SPDX-License-Identifier: Apache-2.0
"""usage: test_ffplan.py FFPLAN FFSEARCH FFZOO"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap

FFPLAN, FFSEARCH, FFZOO = map(os.path.abspath, sys.argv[1:4])
MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "graphs", "machines")
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)


def run(program, *args, status=0):
    p = subprocess.run([program, *args], capture_output=True, text=True, timeout=600)
    assert p.returncode == status, "status %d, not %d: %s" % (p.returncode, status, p.stderr)
    assert status == 0 or not p.stdout, "says something before it refuses: %s" % p.stdout
    return p.stdout if status == 0 else p.stderr


def plan(*args, **kw):
    return run(FFPLAN, *args, **kw)


def make(name, batch, *sets, file):
    run(FFZOO, name, "--batch", str(batch), *(w for s in sets for w in ("--set", s)), "-o", file)


def simulate(graph, machine, what, file):
    """Writes the plan that `what` names; its step, as the report has it."""
    run(FFSEARCH, graph, "--machine", machine, "--costs", "analytic", "--simulate", what, "-o", file, "--report",
        "report.json")
    with open("report.json", encoding="utf-8") as f:
        return json.load(f)


def operators(file):
    with open(file, encoding="utf-8") as f:
        return {o["name"]: o for o in json.load(f)["operators"]}


def edit(file, to, change):
    with open(file, encoding="utf-8") as f:
        whole = json.load(f)
    change({o["name"]: o for o in whole["operators"]}, whole)
    with open(to, "w", encoding="utf-8") as f:
        json.dump(whole, f)


def test_show():
    text = plan("show", "dp.json")
    assert "graph gpt2 on 16 devices" in text and "1 stage, 1 micro-batch" in text, text
    row = re.search(r"^block0-3\.mlp\.up \(x4\) +sample 16 +0-15$", text, re.M)
    assert row, text
    # what is shown, folded, is every operator of the plan once
    rows = text.split("devices\n", 1)[1].splitlines()
    total = sum(int(m.group(1)) if (m := re.search(r"\(x(\d+)\)", r)) else 1 for r in rows)
    assert total == len(operators("dp.json")), text


def test_show_irregular():
    def change(op, _):
        op["block2.mlp.up"]["degrees"] = {"sample": 8}
        op["block2.mlp.up"]["devices"] = list(range(0, 16, 2))
    edit("dp.json", "odd.json", change)
    text = plan("show", "odd.json")
    assert re.search(r"^block0-1,3\.mlp\.up \(x3\) +sample 16 +0-15$", text, re.M), text
    assert re.search(r"^block2\.mlp\.up +sample 8 +0-14 step 2$", text, re.M), text


def test_list():
    lines = plan("show", "dp.json", "--list", "block1.mlp.*").splitlines()
    assert [l.split()[0] for l in lines] == ["block1.mlp.up", "block1.mlp.gelu", "block1.mlp.down"], lines
    assert "called nothing*" in plan("show", "dp.json", "--list", "nothing*", status=2)


def test_diff_alike():
    assert "and none is not" in plan("diff", "dp.json", "dp.json")


def test_diff():
    tensor = simulate("g.json", "dgx-a100-40:2", "megatron:4,4,1,1", "tensor.json")
    text = plan("diff", "dp.json", "tensor.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
    row = r"^block0-3\.mlp\.up \(x4\) +sample 16 on 0-15 +sample 4, out_feature 4 on 0-15$"
    assert re.search(row, text, re.M), text
    # the steps are those that ffsearch predicts
    step = re.search(r"^step time +([\d.]+) ms +([\d.]+) ms$", text, re.M)
    assert step, text
    assert [float(s) for s in step.groups()] == [round(r["predicted_us"] / 1e3, 3) for r in (DP, tensor)], text


def test_rebase_devices():
    """Twice and half the devices: the plan that ffsearch would make there by the same name."""
    for nodes, batch in ((4, 64), (1, 16)):
        make("gpt2", batch, "layers=4", file="other.json")
        machine = "dgx-a100-40:%d" % nodes
        there = simulate("other.json", machine, "megatron:4,%d,1,1" % (2 * nodes), "there.json")
        simulate("g.json", "dgx-a100-40:2", "megatron:4,4,1,1", "here.json")
        text = plan("rebase", "here.json", "--graph", "other.json", "--machine", machine, "-o", "moved.json")
        assert "split by sample" not in text and "cut less often" not in text, text
        assert operators("moved.json") == operators("there.json"), text
        with open("moved.json", encoding="utf-8") as f:
            assert abs(json.load(f)["predicted_us"] - there["predicted_us"]) < 1e-6 * there["predicted_us"]


def test_rebase_stages():
    make("gpt2", 64, "layers=4", file="other.json")
    simulate("other.json", "dgx-a100-40:4", "megatron:2,8,2,4,zero-1", "there.json")
    simulate("g.json", "dgx-a100-40:2", "megatron:2,4,2,4,zero-1", "here.json")
    plan("rebase", "here.json", "--graph", "other.json", "--machine", "dgx-a100-40:4", "-o", "moved.json")
    assert operators("moved.json") == operators("there.json")
    simulate("g.json", "dgx-a100-40:2", "megatron:2,4,2,4,interleave=2", "turns.json")
    plan("rebase", "turns.json", "--graph", "other.json", "--machine", "dgx-a100-40:2", "-o", "moved.json")
    with open("moved.json", encoding="utf-8") as f:
        moved = json.load(f)
    assert (moved["order"], moved["chunks"]) == ("interleaved", 2), moved
    assert "4 stages, 4 micro-batches (interleaved), 2 stages a device" in plan("show", "moved.json")


def test_rebase_network():
    """A deeper network: new layers are as the last; what the network has not is told."""
    make("gpt2", 32, "layers=6", file="deep.json")
    text = plan("rebase", "tensor.json", "--graph", "deep.json", "-o", "deep-plan.json")
    assert "block4-5.mlp.up (x2)" in text, text
    got = operators("deep-plan.json")
    assert got["block5.mlp.up"]["degrees"] == got["block3.mlp.up"]["degrees"] == {"sample": 4, "out_feature": 4}
    run(FFSEARCH, "deep.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--simulate", "deep-plan.json")
    text = plan("rebase", "deep-plan.json", "--graph", "g.json", "-o", "back.json")
    assert "24 of the plan are not in graph gpt2" in text and "block4-5.mlp.up (x2)" in text, text
    assert operators("back.json") == operators("tensor.json")


def test_rebase_parameters():
    """Of what the plan says nothing, nothing is said: not what another layer has."""
    simulate("g.json", "dgx-a100-40:2", "zero-1", "flat.json")

    def change(op, whole):
        whole["operators"].remove(op["block2.mlp.up.weight"])
    edit("flat.json", "some.json", change)
    plan("rebase", "some.json", "--graph", "g.json", "-o", "same.json")
    assert operators("same.json") == operators("some.json")
    assert operators("same.json")["block1.mlp.up.weight"]["update"] == "flat"


def test_rebase_less():
    """A batch of 8 has no 16 samples: that is said, and the plan is still one."""
    make("gpt2", 8, "layers=4", file="small.json")
    text = plan("rebase", "dp.json", "--graph", "small.json", "--machine", "dgx-a100-40:2", "-o", "small-plan.json")
    assert "cut less often, or on fewer devices" in text, text
    assert operators("small-plan.json")["block0.mlp.up"]["degrees"] == {"sample": 8}


def test_rebase_parts_of_parameters():
    """Rows of 200 over 8 devices do not divide over 16: such parameters have copies there, over 7 they are updated in
    shares.  None is left on some of the devices, where it would travel alone, and no operator on one."""
    def change(op, whole):
        for name, o in op.items():
            if name.endswith((".weight", ".bias")):
                o.pop("update")
                o.update(degrees={"axis0": 8}, devices=list(range(8)))

    def predicted(file):
        with open(file, encoding="utf-8") as f:
            return json.load(f)["predicted_us"]

    make("mlp", 512, "hidden=200", file="m.json")
    simulate("m.json", "dgx-a100-40:1", "zero-1", "m-flat.json")
    edit("m-flat.json", "m-cut.json", change)
    plan("rebase", "m-cut.json", "--graph", "m.json", "--machine", "dgx-a100-40:2", "-o", "m-moved.json")
    moved = operators("m-moved.json")
    assert (moved["fc1.weight"]["degrees"], moved["fc1.weight"]["replicas"]) == ({"axis0": 8}, 2), moved["fc1.weight"]
    assert predicted("m-moved.json") < 1.1 * simulate("m.json", "dgx-a100-40:2", "zero-1", "z.json")["predicted_us"]
    plan("rebase", "m-moved.json", "--graph", "m.json", "--machine", "dgx-a100-40:1", "-o", "m-back.json")
    back, cut = operators("m-back.json"), operators("m-cut.json")
    assert back == cut, [(back[k], cut[k]) for k in cut if back.get(k) != cut[k]]
    # --vary carries plans alike
    run(FFSEARCH, "m.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--simulate", "m-moved.json", "--vary",
        "devices=8", "--report", "vary.json")
    with open("vary.json", encoding="utf-8") as f:
        assert abs(json.load(f)["vary"][0]["carried"]["predicted_us"] / predicted("m-back.json") - 1) < 1e-6
    with open(os.path.join(MACHINES, "dgx-a100-40.json"), encoding="utf-8") as f:
        seven = json.load(f)
    seven["nodes"][0]["devices"] = 7
    with open("seven.json", "w", encoding="utf-8") as f:
        json.dump(seven, f)
    text = plan("rebase", "m-cut.json", "--graph", "m.json", "--machine", "./seven.json", "-o", "m-moved.json")
    assert "8 operators and parameters: updated in shares, where parts would be on fewer devices:" in text, text
    moved = operators("m-moved.json")
    assert moved["fc1"]["degrees"] == {"sample": 7} and moved["fc1.weight"]["update"] == "flat", moved["fc1"]


def test_rebase_to_stdout():
    p = subprocess.run([FFPLAN, "rebase", "dp.json", "--graph", "g.json", "-o", "-"], capture_output=True, text=True,
                       check=True)
    assert {o["name"]: o for o in json.loads(p.stdout)["operators"]} == operators("dp.json")
    assert "carried" in p.stderr


def test_as():
    """A plan that is regular is found again, at its own step."""
    for name, words in (("megatron:4,4,1,1,zero-1", ["--tensor-model-parallel-size 4", "--micro-batch-size 8",
                                                     "--use-distributed-optimizer", "--global-batch-size 32"]),
                        ("megatron:2,4,2,4,recompute", ["--pipeline-model-parallel-size 2", "--micro-batch-size 2",
                                                        "--recompute-granularity full"]),
                        ("megatron:2,4,2,4,recompute=1", ["--recompute-method block", "--recompute-num-layers 1"]),
                        ("megatron:2,4,2,4,interleave=2", ["--num-virtual-stages-per-pipeline-rank 2"]),
                        ("megatron:2,2,1,2,cp=4", ["--context-parallel-size 4", "--micro-batch-size 8"]),
                        ("megatron:4,4,1,1,sequence", ["--sequence-parallel"])):
        simulate("g.json", "dgx-a100-40:2", name, "regular.json")
        text = plan("as", "megatron", "regular.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
        assert "(%s)" % name in text and "takes 1.00 times" in text and "100.0 % of the FLOPs" in text, text
        assert all(w in text for w in words), text


def test_as_uneven():
    """Stages with more blocks than others are told; plans whose stages are alike say nothing of them."""
    make("gpt2", 32, "layers=5", file="five.json")
    simulate("five.json", "dgx-a100-40:2", "megatron:1,8,2,4", "regular.json")
    at = ("regular.json", "--graph", "five.json", "--machine", "dgx-a100-40:2")
    blocks = [0, 0]
    for name, o in operators("regular.json").items():
        if name.endswith(".mlp.up"):
            blocks[o.get("stage", 0)] += 1
    assert sum(blocks) == 5 and blocks[0] != blocks[1], blocks
    assert f'--pipeline-model-parallel-layout "Et*{blocks[0]}|t*{blocks[1]}L"' in plan("as", "megatron", *at)
    for tool in ("deepspeed", "torchtitan"):
        assert f"stages have {blocks[0]}, {blocks[1]} blocks" in plan("as", tool, *at)
    simulate("five.json", "dgx-a100-40:2", "megatron:1,16,1,2", "regular.json")
    assert "layout" not in plan("as", "megatron", *at)


class Settings:
    """What torchtitan's configuration of that kind has of fields (config/training.py, config/parallelism.py)."""

    def __init__(self, names, **values):
        self.__dict__.update(names=names, values=values)

    def __getattr__(self, name):
        return self.values[name]

    def __setattr__(self, name, value):
        assert name in self.names, name
        self.values[name] = value


def torchtitan(*at):
    """What the function makes of a configuration."""
    text = plan("as", "torchtitan", *at)
    code = text[text.index("from "):text.index("return config\n") + len("return config\n")]
    recompute = types.ModuleType("torchtitan.distributed.activation_checkpoint")
    for name in ("Full", "Selective"):
        setattr(recompute, name + "AC", types.SimpleNamespace(Config=name.lower))
    sys.modules.update({"torchtitan": recompute, "torchtitan.distributed": recompute, recompute.__name__: recompute})
    training = Settings(("num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_train_step"), max_context_length=1024)
    parallelism = Settings(("data_parallel_replicate_degree", "data_parallel_shard_degree", "fsdp_reshard_after_forward",
                            "tensor_parallel_degree", "enable_sequence_parallel", "pipeline_parallel_degree",
                            "pipeline_parallel_schedule", "num_pp_microbatches", "expert_parallel_degree"))
    said = {}
    exec(code, said)  # pylint: disable=exec-used
    config = said["planned"](types.SimpleNamespace(training=training, parallelism=parallelism))
    return {**training.values, **parallelism.values, "activation_checkpoint": config.activation_checkpoint}


def test_as_tools():
    simulate("g.json", "dgx-a100-40:2", "megatron:1,16,1,2,zero-3", "regular.json")
    at = ("regular.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
    text = plan("as", "fsdp", *at)
    assert "reshard_after_forward=True" in text and "takes 1.00 times" in text, text
    text = plan("as", "deepspeed", *at)
    settings = json.loads(text[text.index("{"):text.index("\n}\n") + 2])
    assert settings["zero_optimization"]["stage"] == 3 and settings["gradient_accumulation_steps"] == 2, text
    assert settings["train_batch_size"] == 32 and settings["train_micro_batch_size_per_gpu"] == 1, text
    got = torchtitan(*at)
    assert got["data_parallel_shard_degree"] == 16 and got["fsdp_reshard_after_forward"] == "always", got
    assert got["num_tokens_per_microbatch_per_dp_rank"] == 1024, got
    assert got["num_tokens_per_train_step"] == 32 * 1024, got
    simulate("g.json", "dgx-a100-40:2", "megatron:2,4,2,4,recompute", "regular.json")
    got = torchtitan(*at)
    assert (got["tensor_parallel_degree"], got["pipeline_parallel_degree"], got["num_pp_microbatches"]) == (2, 2, 4), got
    assert got["activation_checkpoint"] == "full" and got["enable_sequence_parallel"] is False, got
    assert got["pipeline_parallel_schedule"] == "1F1B", got
    simulate("g.json", "dgx-a100-40:2", "megatron:2,4,2,4,zb-v", "regular.json")
    got = torchtitan(*at)
    assert (got["pipeline_parallel_schedule"], got["pipeline_parallel_degree"]) == ("ZBVZeroBubble", 2), got
    assert "(megatron:2,4,2,4,zb-v)" in plan("as", "torchtitan", *at)
    assert "(megatron:2,4,2,4)" in plan("as", "megatron", *at)  # as many shares of the devices, not stages


def test_as_hybrid():
    """What is cut in each node only, where a tool can: a mesh of nodes and their devices, copies of the optimizer."""
    at = ("regular.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
    for updates, megatron in (("zero-1", "--num-distributed-optimizer-instances 2\n"),
                              ("zero-3", "--num-distributed-optimizer-instances 2\n--outer-dp-sharding-strategy no_shard\n")):
        simulate("g.json", "dgx-a100-40:2", f"megatron:1,16,1,2,{updates},hybrid", "regular.json")
        text = plan("as", "fsdp", *at)
        assert '(2, 8), mesh_dim_names=("replicate", "shard"))' in text and f"{updates},hybrid)" in text, text
        text = plan("as", "megatron", *at)
        assert megatron in text and "takes 1.00 times" in text, text
        got = torchtitan(*at)
        assert (got["data_parallel_replicate_degree"], got["data_parallel_shard_degree"]) == (2, 8), got
        assert f"(megatron:1,16,1,2,{updates})" in plan("as", "deepspeed", *at)


def test_as_drawn():
    """Drawn plans on drawn numbers of nodes, shares of which may be more than hold the same: the degrees that torchtitan
    is told have all devices, and no tool is told of groups that these are not."""
    seed = int(os.environ.get("FF_TEST_SEED", "27"))
    print("# seed", seed)
    draw = random.Random(seed)
    make("gpt2", 48, "layers=8", "width=96", "heads=8", "sequence=16", "vocabulary=96", file="drawn.json")
    for _ in range(24):
        nodes = draw.choice((1, 2, 3))
        tensor, stages = draw.choice((1, 2, 4)), draw.choice((1, 2, 4, 8))
        data, rest = divmod(8 * nodes, tensor * stages)
        words = draw.choice(("zero-1", "zero-2", "zero-3")) + draw.choice(("", ",hybrid", ",hybrid", ",hybrid,zb-v"))
        words = words if stages > 1 else words.replace(",zb-v", "")
        name = f"megatron:{tensor},{data},{stages},2,{words}"
        machine = f"dgx-a100-40:{nodes}"
        if rest or 48 % (2 * data):
            continue
        simulate("drawn.json", machine, name, "drawn.plan")
        at = ("drawn.plan", "--graph", "drawn.json", "--machine", machine)
        got = torchtitan(*at)
        assert got["data_parallel_replicate_degree"] * got["data_parallel_shard_degree"] * got["tensor_parallel_degree"] \
            * got["pipeline_parallel_degree"] == 8 * nodes, f"{name}: {got}"
        for tool in "megatron", "fsdp", "deepspeed":
            text = plan("as", tool, *at)
            groups = re.search(r"optimizer-instances (\d+)", text)
            degrees = re.search(r"\(megatron:\d+,(\d+),", text)
            assert not groups or int(degrees.group(1)) % int(groups.group(1)) == 0, f"{name}: {text}"


def test_as_buckets():
    """A tool's buckets are tuned as those of data parallelism are, whatever the plan's were, and its flags say so."""
    simulate("g.json", "dgx-a100-40:2", "megatron:1,16,1,1,zero-1", "regular.json")
    with open("regular.json", encoding="utf-8") as f:
        tuned = json.load(f)["bucket_bytes"]
    for mib in (1, 4096):
        edit("regular.json", "badly.json", lambda _, whole: whole.update(bucket_bytes=mib << 20))
        at = ("badly.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
        for tool, said in (("megatron", f"--ddp-bucket-size {tuned // 4}\n"), ("fsdp", "fully_shard"),
                           ("deepspeed", f'"reduce_bucket_size": {tuned // 4}, "allgather_bucket_size"')):
            text = plan("as", tool, *at)
            assert said in text, text
            steps = re.search(r"^step time +([\d.]+) ms +([\d.]+) ms$", text, re.M)
            # tuning ends where it would gain less than a hundredth
            assert float(steps.group(2)) < 1.01 * float(steps.group(1)), text
    simulate("g.json", "dgx-a100-40:2", "data-parallel", "regular.json")
    with open("regular.json", encoding="utf-8") as f:
        tuned = json.load(f)["bucket_bytes"]
    text = plan("as", "fsdp", "regular.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
    assert f"bucket_cap_mb={tuned / (1 << 20):.4g})" in text, text


def test_as_loses():
    """What a tool cannot do costs, and is named."""
    text = plan("as", "fsdp", "tensor.json", "--graph", "g.json", "--machine", "dgx-a100-40:2")
    assert re.search(r"^block0-3\.mlp\.up \(x4\) +sample 4, out_feature 4 +sample 16$", text, re.M), text
    times = float(re.search(r"takes ([\d.]+) times", text).group(1))
    steps = re.search(r"^step time +([\d.]+) ms +([\d.]+) ms$", text, re.M)
    assert abs(times - float(steps.group(2)) / float(steps.group(1))) < 0.006, text


def test_refusals():
    for words, args in (("did you mean show?", ("shwo", "dp.json")),
                        ("option --list is not for ffplan diff", ("diff", "dp.json", "dp.json", "--list", "a")),
                        ("option --graph is missing", ("rebase", "dp.json", "-o", "x.json")),
                        ("expected --graph beside it", ("show", "dp.json", "--machine", "cpu2")),
                        ("expected 2 operands, not 1", ("diff", "dp.json")),
                        ("did you mean megatron?", ("as", "megatrn", "dp.json", "--graph", "g.json", "--machine",
                                                    "cpu2")),
                        ("ffsoap-strategy", ("show", "g.json")),
                        ("would replace", ("rebase", "dp.json", "--graph", "g.json", "-o", "dp.json"))):
        text = plan(*args, status=2)
        assert re.fullmatch(r"ffplan: [^\n]+\n", text), text
        assert words in text, text
    assert "hash" in plan("show", "dp.json", "--graph", "deep.json", status=2)
    assert "device" in plan("show", "dp.json", "--graph", "g.json", "--machine", "cpu2", status=2)


def test_damaged():
    """Of a file that no schema has seen, too, a sentence says what is wrong."""
    for words, change in (("expected an object", lambda op, _: op["logits"].update(degrees=[1, 2])),
                          ("expected a whole number from 1", lambda op, _: op["logits"].update(degrees={"sample": "4"})),
                          ("at least 0, not 1e+300", lambda _, whole: whole.update(memory_bytes=[1e300])),
                          ("without control characters", lambda op, _: op["logits"].update(degrees={"\x1b[31m": 2})),
                          ("without control characters", lambda _, whole: whole.update(machine="\x1b[31m")),
                          ('expected "gpipe"', lambda _, whole: whole.update(order="1f1c")),
                          ("a string, not a number", lambda _, whole: whole.update(costs=7)),
                          ('"stages" is not known', lambda op, _: op["logits"].update(stages=1)),
                          ('"micro" is not known', lambda _, whole: whole.update(micro=2)),
                          ("from 0 to 4095, not -1", lambda op, _: op["logits"].update(stage=-1)),
                          ("from 1 to 4096, not 1.5", lambda op, _: op["logits"].update(replicas=1.5))):
        edit("dp.json", "damaged.json", change)
        for args in (("show", "damaged.json"), ("diff", "damaged.json", "dp.json")):
            text = plan(*args, status=2)
            assert re.fullmatch(r"ffplan: damaged.json: [^\n]+\n", text) and words in text, text
    for words, change in (("did you mean adam", lambda _, whole: whole.update(optimizer="adm")),
                          ("a whole number", lambda _, whole: whole.update(bucket_bytes="x")),
                          ("a whole number", lambda _, whole: whole.update(shards="x")),
                          ("compress", lambda _, whole: whole.update(compress="bfloat1")),
                          ("recompute", lambda op, _: op["logits"].update(recompute=3))):
        edit("dp.json", "damaged.json", change)
        text = plan("rebase", "damaged.json", "--graph", "g.json", "-o", "rebased.json", status=2)
        assert re.fullmatch(r"ffplan: damaged.json: [^\n]+\n", text) and words in text, text
        assert not os.path.exists("rebased.json")


def test_memory():
    """Plans for 1,024 devices are priced without their tasks, and one after the other."""
    with open(FFPLAN, "rb") as program:
        if b"__asan_init" in program.read():
            return  # sanitizers take memory of their own
    make("gpt2", 1024, file="large.json")
    simulate("large.json", "dgx-a100-40:128", "zero-1", "large-zero.json")
    env = {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"}  # which fills what is never used
    with subprocess.Popen([FFPLAN, "diff", "large-zero.json", "large-zero.json", "--graph", "large.json", "--machine",
                           "dgx-a100-40:128"], stdout=subprocess.DEVNULL, env=env) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    assert used.ru_maxrss < 180 << 10, f"{used.ru_maxrss >> 10} MiB"


make("gpt2", 32, "layers=4", file="g.json")
DP = simulate("g.json", "dgx-a100-40:2", "data-parallel", "dp.json")
for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
    try:
        test()
        tap.say(True, name[5:].replace("_", " "))
    except (AssertionError, KeyError, AttributeError, ValueError) as e:
        tap.say(False, name[5:].replace("_", " "), repr(e) if not isinstance(e, AssertionError) else e)
tap.finish()
