#!/usr/bin/env python3
"""Predicted beside published training throughputs that no framework was fitted to.

usage: bench/unseen.py [--build build] [--out out] [--rows FILE] [--source NAME]... [--jobs 1] [--seconds 300]
                       [--verbose] [--svg FILE]

FILE (preset bench/unseen.csv) has a measured throughput a line: who published it, the framework, the machine by its
name (of ffsearch, or of a file in bench/machines) and how many of its devices, ffzoo's network and settings, the type,
the strategy as ffsearch --simulate has it, the optimizer, samples a step and samples a second.  A strategy behind
"whole" sends gradients at once, behind backward, as one operation of XLA makes them all.  Of types, mixed is float16 or
bfloat16, here bfloat16, and tf32 is float32 that frameworks multiply in TF32.  Sources:

  dle-*                     tables of NVIDIA/DeepLearningExamples, README.md of PyTorch, MxNet, TensorFlow and
                            TensorFlow2: ResNet-50 v1.5, ResNeXt-101, U-Net, BERT-large, DLRM (Apache-2.0)
  tensorflow-benchmarks     tensorflow/docs, site/en/r1/guide/performance/benchmarks.md: synthetic data (Apache-2.0)
  mosaicml-llm-foundry      mosaicml/llm-foundry, scripts/train/benchmarking/README.md: MPT by FSDP (Apache-2.0)
  dgxc-gpt3-175b            NVIDIA/dgxc-benchmarking @ 0b71cfd, nemo_megatron/README_175b.md: 128 to 1,024 H100
  mxnet-perf                apache/mxnet @ 054aeee, page on performance: V100, K80 (Apache-2.0); priced as TensorFlow of
                            2017, whose cuDNN's kernels these are
  u39kun-deep-learning-benchmark
                            its README.md @ 02ef743: PyTorch 0.3, 16 images, without an update
  torchtitan                pytorch/torchtitan, its performance page of 2024: Llama 3 by FSDP on 64 A100; "selective
                            layer" is every other block recomputed (BSD-3-Clause)
  torchtitan-2024           its benchmarks/llama3_h100_202412_torchtitan.md @ 31a17bf: H100 of 500 W and 2.4 TB/s
  fms-fsdp                  foundation-model-stack/fms-fsdp, README.md: Llama 2 by FSDP on 128 A100, the
                            smaller two by hybrid sharding (Apache-2.0)
  dle-paddle-*              NVIDIA/DeepLearningExamples, PaddlePaddle: ResNet-50 @ 0bc061d, BERT-large @ 8cdaba1
                            (Apache-2.0); of 16 bits its batch norms add and cut off (program.py)
  dle-tensorflow-biobert    the same, TensorFlow/LanguageModeling/BERT/biobert @ 2de2945: BERT-base, 64 samples in
                            fine-tuning
  dle-tensorflow2-electra   the same, TensorFlow2/LanguageModeling/ELECTRA @ 446c878: fine-tuning, a network as
                            BERT-base
  dlperf-*                  Oneflow-Inc/DLPerf @ 0094fbd: ResNet-50, BERT-base and Megatron-LM (8aa4619, all recomputed)
                            on 1 to 32 V100; PyTorch's BERT sends gradients at once (message_size=250000000,
                            run_pretraining.py)
  bigscience-tr11           bigscience-workshop/bigscience @ 053adaf, train/tr11-176B-ml/chronicles-prequel.md: GPTs of
                            181 billion parameters on 384 A100, here two of the replicas, which do as much each
  flagperf-*                FlagOpen/FlagPerf, training/nvidia: A100 and H100, images without loading (Apache-2.0);
                            NVIDIA's containers let PyTorch multiply in TF32
  dgxc-paxml-5b             NVIDIA/dgxc-benchmarking @ 143b90d, paxml/README_5b.md: 16 to 128 H100; JAX, priced as fsdp
  jax-toolbox-pax           NVIDIA/JAX-Toolbox @ 08b08d1, rosetta/rosetta/projects/pax/README.md: 64 and 256 A100,
                            likewise
  sandeepkumar-resnet50     sandeepkumar-skb/pytorch_experiments @ 0e13d7f, torchvision_exp/README.md: one V100
  lambda-benchmark          lambdal/deeplearning-benchmark, pytorch: throughputs @ 0551cb7, ca7748d, batches @ 08d77c4:
                            NVIDIA's examples, ResNet-50 channels first, on cards that no number was fitted to (MIT)
  lambda-tensorflow         LambdaColdStorage/lambda-tensorflow-benchmark @ 080a6b7, tf-train-throughput-fp32.csv and
                            -fp16.csv: tf_cnn_benchmarks with synthetic images, gradients by NCCL; in 16 bits TensorFlow
                            lays images channels last (tensorflow/tensorflow #55761)
  dlperf-*-bert             of MxNet (gluon-nlp, whose trainer sums gradients behind backward: fp16_utils.py),
                            PaddlePaddle 1.8 and OneFlow 0.2, the same: of all words a few are told
  dlperf-oneflow-*          DLPerf, OneFlow: reports of October 2020 (0.2), whose BERT is priced as NVIDIA's examples,
                            and of GPT of May 2021, all recomputed; where models are parallel gradients go at once, as in
                            libai-*
  internlm-7b               InternLM/InternLM @ 20fe5ac, doc/en/train_performance.md, configs/7B_sft.py: 8 to 1,024
                            A100, states of the optimizer over all of them or those of a node (Apache-2.0)
  dgxc-nemotron-*           NVIDIA/dgxc-benchmarking @ 0b71cfd, 35a9aec, nemotron: 16 to 1,024 H100; here a llama whose
                            gated layer multiplies as much
  dgxc-maxtext-70b          the same @ 143b90d, maxtext: Llama 2 on 64 to 256 H100, all but keys, values and queries
                            recomputed, here all; of more GPUs shards are of 128
  libai-*                   Oneflow-Inc/libai @ 4bad452, tutorials/get_started/Benchmark.md: BERT and GPT of
                            24 and 48 layers by Megatron-LM of 2021 and by OneFlow, on 1 to 32 V100; collectives go on
                            the stream that computes if models are parallel (libai/models/utils/graph_base.py)
  timm-*                    huggingface/pytorch-image-models @ 5e7d47c, results/benchmark-train-amp-*-pt112-cu113-
                            rtx3090.csv: one RTX 3090, float16, images channels first and last (Apache-2.0)
  flash-attention           Dao-AILab/flash-attention @ 0b037c2, training/README.md: GPTs up to 2.7 billion on 8 A100,
                            micro-batches by training/configs/experiment/pile (BSD-3-Clause)
  lambda-flash-attention    LambdaLabsML/examples @ 1884943, flash-attention-2/README.md: the largest, of 1,024 places
  mlperf-resnet50           mlcommons/training_results_v0.6 @ e045ad7, _v1.0 @ 8200377, NVIDIA/results: ResNet-50 in
                            MxNet on 8 and 16 V100, 8 and 64 A100, images a second behind the start (Apache-2.0)
  aisensiy-gpu-benchmark    aisensiy/pytorch-gpu-benchmark @ 2e0d4be, 74765ce, 4141f71: PyTorch of 2020 on V100 and T4,
                            12 images, float16 throughout, without an update; of some 30 steps the median
  oneflow-benchmark-*       Oneflow-Inc/OneFlow-Benchmark @ 0ef4712, reports: OneFlow 0.1.8, August 2020, DLPerf's nodes
  tensorpack                tensorpack/benchmarks @ 0620efd, ResNet-MultiGPU/README.md: TensorFlow 1.13 on 8 V100
  nanogpt                   karpathy/nanoGPT, README.md, December 2022: GPT-2 without torch.compile; that its gelu is
                            written out is not priced (MIT)
  junhongxu-gpu-benchmark   JunhongXu/pytorch-benchmark-volta @ 6cd421b, results: PyTorch of 2020 on A100 and RTX 3090,
                            12 images, without an update; of some 30 steps the median (MIT)
  gpt2-lecture              Karpathy, "Let's reproduce GPT-2 (124M)", 2024, by a viewer's table: before torch.compile
  gpt2-cards                comments of a public script that trains GPT-2 by torch.compile, PyTorch 2.8, 2025, whose
                            author is not known: cards that are let by the hour
  paddlefleetx              PaddlePaddle/PaddleFleetX @ 0d08163, projects/gpt, single_card.md: one V100
                            (Apache-2.0)
  onnxruntime-examples      microsoft/onnxruntime-training-examples @ 31241db, huggingface: the column of PyTorch, and
                            of that with ZeRO-1, transformers 4.8; sizes by azureml/hf-ort.py (MIT)
  flax-imagenet             google/flax, linen_examples/imagenet/README.md: steps and hours of 2020, priced as XLA's;
                            haiku-imagenet: google-deepmind/dm-haiku, examples/imagenet, likewise (Apache-2.0)
  dt-fm                     results of DT-FM (Yuan et al., 2022), GPT-3 XL in float16: GPipe on 8 nodes of one V100,
                            whose links are slowed down, here 1F1B
  tinyllama                 jzhang38/TinyLlama @ 026587c, README.md, pretrain/tinyllama.py: 1.1 billion on 16 A100 by
                            FSDP, all fused as flash-attention's (Apache-2.0)
  nanotron-bench            huggingface/nanotron: huggingface.co/nanotron/bench_cluster and old_bench, July 2024,
                            llama-1B/*/log_metrics.csv: 8 to 64 H100 by data, tensor and pipeline parallelism, ZeRO-1,
                            the median of steps behind the third; sizes are those whose FLOPs its formula makes of what
                            it logs; eager PyTorch with fused attention (src/nanotron/models/llama.py @ 03b83fc)
  paddle-perf-*             PaddlePaddle/Perf, README.md of Bert @ 0777b23 (67,584 samples a step) and @ bd0d1dd (none
                            added up), of ResNet50V1.5 @ 018d1b7: PaddlePaddle 2 and NVIDIA's containers on 1 to 32 V100
  flagperf-*, second part   the same, READMEs and scripts of llama3_70B, llama2_70B (@ 0171aca), llama2_7b (@ 63c6814,
                            0f139fc), aquila2_7b_finetune (@ 2604a55), bert_hf, resnet50-tensorflow2, gpt2 (of
                            Megatron-LM in float32, priced as eager PyTorch's)
  fms-fsdp-h100             fms-fsdp's README.md of 2024, 96 H100, of four sizes those whose recomputation is told
  mlperf-resnet50-v*        mlcommons/training_results_v3.0 @ 9f08e30, _v2.0 @ a6ae3e1, NVIDIA/results: 8 to 512 H100,
                            1,024 A100, images a second behind the start; of 512 of four epochs together
  megatron-v1               nv-adlr/nv-adlr.github.io @ 1576088, _projects/megatron-lm-v1.md: GPTs on 1 to 8 V100 of a
                            DGX-2H, 2020; sizes of Megatron-LM's README, of which the text's 62.4 TFLOP/s follow
  runai-nemo                Run:ai's paper of 2023 on NeMo's GPT of 126 million, bare metal, 8 to 32 A100; sizes by
                            NVIDIA/NeMo-Megatron-Launcher @ 0c6c960, gpt3/126m.yaml
  torchtitan-llama2         pytorch/torchtitan @ 0413364, performance.md: Llama 2 by FSDP on 64 A100
  dgxc-nemotron-15b-nemo2   NVIDIA/dgxc-benchmarking @ dc1028f, nemotron/README.md: two-way tensor parallelism
  dgxc-grok1                the same @ 143b90d, grok1/README_314b.md: 2 and 4 layers on 8 to 32 H100, all experts alike
                            busy; 64 of the micro-batches
  flagperf-*, third part    the same, distilbert (@ 10a5003, 4658bc8), dlrm (@ 0b9dd83), baichuan2_13b (@ 0ed3fd0),
                            here with rotations
  colossalai-lightning      hpcaitech/ColossalAI-Pytorch-lightning @ 0d95232, benchmark/gpt: GPT-2 XL on four A100
  llm.c                     karpathy/llm.c @ 039904e, d98d3ed, scripts/run_gpt2_*.sh: steps as told there; its kernels
                            are fused as flash-attention's
  vectorlm                  VectorInstitute/vectorlm @ d397488, reference_throughput.md: Llama 3 by FSDP on one to
                            four A100, all recomputed, the median of four passes of which one updates
  nemo-vit-g14              NVIDIA's NeMo user guide, ViT g/14 on 1 to 8 nodes, 64 images a pass; here 42 layers for 40,
                            whose inner layers are 6,144 wide
  dgxc-llama3.1             NVIDIA/dgxc-benchmarking @ 143b90d, llama3.1: 8B, 70B, and 7 to 126 layers of 405B, on 8 to
                            512 H100, of the largest two of four replicas; its words are GPT-2's
  dgxc-grok1-full           the same @ 1f6d9f4, grok1/README.md: all 64 layers on 512 H100
  nemo-gpt-5b, -bert-4b     NVIDIA/NeMo-Framework-Launcher @ 003d7e6, README.md, and NeMo's user guide: on 1 to 32
                            nodes, by gpt3/5b.yaml and bert/4b.yaml @ 056a90e
  nemo-b200                 a viewer's page on NVFP4 in NeMo 25.09, October 2025: Llama 3 8B in bfloat16
  torchtitan-2024           two more of its rows, by torch.compile
  mlperf-resnet50-v*        mlcommons/training_results_v0.7 @ c664061, _v2.0 @ a6ae3e1, _v2.1 @ 9b4d2df, first results
  deepspeed-autotuning      microsoft/DeepSpeedExamples, autotuning/hf: transformers' run_glue.py, 128 words, 16 V100
  dgx-station-resnet50      a public table of minutes an epoch, whose author is not known: a DGX Station's V100
  plsc-vit                  PaddlePaddle/PLSC, task/classification/vit/README.md, configs @ fed35cb, 9f2dd8a: images are
                            read and cut by processors meanwhile
  megatron-moe              NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md of Core 0.8: 438 TFLOP/s are
                            turned into steps by the FLOPs of its formula, attention not halved
  flagperf-vit              the same, training/nvidia/vit-pytorch/README.md: images without loading
  narayanan-2021-table-1    Narayanan et al., SC 2021; rates are turned into steps by the FLOPs of its formula
  korthikanti-2022-table-5  Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"

What is left out, and why: PaddlePaddle/PLSC's and DeiT's ViT, which seem to wait for images (predicted 23 to 57 %
fast), as the network between their nodes is not told; steps on several DGX-1; BERT's pre-training of 2021 in PyTorch,
and of 512 words in PaddlePaddle, on bins of shorter sequences (of 2020 it tells all words, modeling.py @ 1d4211f);
FlagPerf's ViT, whose steps on 8 GPUs take 1.7 times those on one, and llama2_70B in float32, whose script says
bfloat16; NeMo's GPT of 5 billion (Run:ai's, too), whose micro-batches and splits are not told; AlexNet of MxNet, which
is another; 16 bits of lambda's RTX 3080 and 3090, slower than their TF32; DLPerf's first runs of MxNet, which it ran
again, and of PaddlePaddle's ResNet-50 in 16 bits on several GPUs, which waits for images; bigscience's on V100, of
which one run took 129 and 217 s (experiments/gpt2.md); U-Net on 8 GPUs, which waits for images from the host (4.7 times
one GPU); steps in float8 or by context parallelism; llm.c's of 125 million and 2,048 places, told as twice as fast as
that of 1,024; GPTs from 76 billion parameters on 1,024 A100 on, which take minutes to price. Megatron-LM's table of
2021 names no micro-batches: they have four samples. Batches of BERT that are put together from more than 16
micro-batches are cut to 16, as an update is hardly a part of them. BERT of TensorFlow on several DGX-2 is of DGX-2H, of
450 W. Tables of DLRM have a million rows at most.

Printed are, by source, machine, type, network and number of devices, the mean absolute and signed errors of steps as
their frameworks execute them (ffsearch --framework), by the numbers that were fitted to other tables.  OUT/unseen.json
has the rows.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import json
import os
import signal
import statistics
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import compared
import figures
from commands import load, run, save

HERE = Path(__file__).resolve().parent
MACHINES = HERE.parent / "graphs/machines", HERE / "machines"  # the latter have no name that ffsearch knows
TYPES = {"float32": "float32", "tf32": "float32", "mixed": "bfloat16"}


class Predictor:
    """Graphs are files that many rows share."""

    def __init__(self, options):
        self.o = options
        self.folder = os.path.join(options.out, "unseen")
        self.graphs = {}
        os.makedirs(self.folder, exist_ok=True)

    def graph(self, row):
        settings = (*row["settings"].split(), f"dtype={TYPES[row['type']]}")
        key = (row["network"], "--batch", row["batch"], *(w for s in settings for w in ("--set", s)))
        if key not in self.graphs:
            self.graphs[key] = os.path.join(self.folder, f"graph{len(self.graphs)}.json")
            run(f"{self.o.build}/graphs/ffzoo", *key, "-o", self.graphs[key])
        return self.graphs[key]

    def plan(self, row):
        """The step and its classes of tasks, or a sentence that says why there is none."""
        nodes = -(-int(row["gpus"]) // a_node(row["machine"]))
        machine = f"{path(row['machine'])}:{nodes}" if nodes > 1 else path(row["machine"])
        command = [f"{self.o.build}/bench/bench-frameworks", self.graph(row), "--machine", machine, "--devices",
                   row["gpus"], "--optimizer", row["optimizer"], "--framework", row["framework"]]
        limited = ["sh", "-c", 'ulimit -S -t "$0" && exec "$@"', str(self.o.seconds), *command]  # of processor time
        done = subprocess.run(limited, input=how(row["strategy"]), capture_output=True, text=True, check=False)
        if done.returncode == -signal.SIGXCPU:
            return f"takes more than {self.o.seconds} s"
        if done.returncode == 1:  # no memory for it
            return done.stderr.strip()
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads(done.stdout)[1] if done.stdout.startswith("[") else done.stdout.strip()


def how(strategy):
    """In bench-frameworks' words: "whole" goes before those whose gradients travel at once, behind backward."""
    return f"{strategy if strategy.startswith('whole ') else f'plain {strategy}'}\n"


def path(machine):
    return next(p for p in (folder / f"{machine}.json" for folder in MACHINES) if p.exists())


def a_node(machine):
    """Devices of all that its file has."""
    return sum(n.get("count", 1) * n["devices"] for n in load(path(machine))["nodes"])


def scale(row):
    n = int(row["gpus"])
    return "one device" if n == 1 else "one node" if n <= a_node(row["machine"]) else "several nodes"


def error(row):
    return row["us"] / row["published_us"] - 1


def line(title, some):
    e = [error(r) for r in some]
    print(f"{title:52} {len(e):4} {100 * statistics.mean(map(abs, e)):8.1f} % {100 * statistics.mean(e):+8.1f} % "
          f"{100 * max(e, key=abs):+8.1f} %")


def table(rows):
    print(f"\n{'':52} {'n':>4} {'mean |e|':>10} {'mean e':>10} {'furthest':>10}")
    for key in (lambda r: f"{r['source']}, {r['type']}, {scale(r)}", lambda r: f"{r['machine']}, {r['type']}",
                lambda r: f"{r['network']}, {r['type']}", scale):
        for name, some in sorted(compared.by_key(rows, key).items()):
            line(name, some)
    line("all", rows)


def plot(rows, path):
    points = {}
    for r in sorted(rows, key=lambda r: r["source"]):
        says = f"{r['network']} on {r['gpus']} of {r['machine']}, {r['type']}, {r['strategy']}: {error(r):+.1%}"
        points.setdefault(r["source"], []).append((r["published_us"] / 1e3, r["us"] / 1e3, says))
    figures.scatter(path, "steps that nothing was fitted to, predicted and published", points, off=0.15)


def show(row):
    print(f"{row['source']:24} {row['machine']:12} {row['gpus']:>4} {row['network']:16} {row['type']:7} "
          f"{row['batch']:>6} {row['published_us'] / 1e3:10.1f} {row['us'] / 1e3:10.1f} ms {100 * error(row):+7.1f} %  "
          f"{row['strategy']} {row['settings']}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", help="with the commands (preset build)")
    p.add_argument("--out", default="out", help="what is written goes there (preset out)")
    p.add_argument("--rows", default=HERE / "unseen.csv", metavar="FILE", help="what was published")
    p.add_argument("--source", action="append", metavar="NAME", help="rows whose source has that in its name")
    p.add_argument("--jobs", type=int, default=1, help="rows at once (preset 1)")
    p.add_argument("--seconds", type=int, default=300, help="most processor time a row may take (preset 300)")
    p.add_argument("--verbose", action="store_true", help="print each row, too")
    p.add_argument("--svg", metavar="FILE", help="write a scatter plot there")
    o = p.parse_args()
    with open(o.rows, encoding="utf-8", newline="") as f:
        rows = [r for r in csv.DictReader(f) if not o.source or any(s in r["source"] for s in o.source)]
    predictor, done = Predictor(o), []
    for r in rows:  # what jobs share is made before
        predictor.graph(r)
    for r, plan in zip(rows, futures.ThreadPoolExecutor(o.jobs).map(predictor.plan, rows)):
        if isinstance(plan, str):
            print(f"{r['source']}, {r['network']} on {r['gpus']} of {r['machine']}, {r['strategy']}: {plan}")
            continue
        r.update(us=plan["us"], published_us=1e6 * int(r["batch"]) / float(r["samples_per_s"]), tasks=plan["tasks"])
        done.append(r)
        if o.verbose:
            show(r)
    if not done:
        sys.exit("nothing to compare")
    save(os.path.join(o.out, "unseen.json"), done)
    table(done)
    if o.svg:
        plot(done, o.svg)


if __name__ == "__main__":
    main()
