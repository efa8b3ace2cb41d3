#!/usr/bin/env python3
"""What PyTorch's compiled training step launches on a GPU, counted without one.

usage: bench/torch_launches.py [--kernels] [--sdpa] [NETWORK...]      lines of JSON, one a network

The networks of torch_steps.py, float32, momentum SGD, all by torch.compile: Dynamo and AOTAutograd trace
on the CPU; of each graph that Inductor is given, the tensors' device is then called CUDA, of a described H100, and
Inductor writes its program, which is not run.  Counted are the lines of that program that give the device something: a
launch of a Triton kernel (a foreach kernel is one), a call of a library (extern_kernels, torch.ops), one each, whatever
the library launches, but convolution_backward as often as its mask asks for gradients, each of which is a call of
cuDNN's; not allocations and views.  That is also bench/launches.py's rule for ours.  Dynamo leaves nn.LSTM to cuDNN:
one call forward, two backward (data, weights), which are added.  What these launch at least is told apart
("recurrences_at_least").

Needs PyTorch built for CUDA, with Triton.  SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import copy
import json
import re
import sys
import types
from unittest import mock

import torch
import torch._inductor.config
import torch.utils._triton
from functorch.compile import make_boxed_func
from torch._inductor import compile_fx
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensor
from torch_steps import LAYERS, SIZES, WIDTH, Block, F, model_of

GPU = torch.device("cuda:0")
# "H100 SXM5", NVIDIA H100 Tensor Core GPU Architecture
H100 = types.SimpleNamespace(
    name="NVIDIA H100", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024, gcnArchName="",
    shared_memory_per_block=48 << 10, shared_memory_per_block_optin=227 << 10, L2_cache_size=50 << 20,
    shared_memory_per_multiprocessor=228 << 10)
NAMES = ("resnet50", "gpt2", "bert", "lstm")
APART = {"lstm": {"cudnn_rnn": 3}}  # calls of libraries outside of what is compiled
# features up to which PyTorch asks for a persistent kernel of float32 LSTMs, forward and backward
# (use_rnn_persist_small_h, aten/src/ATen/native/cudnn/RNN.cpp)
PERSISTENT = 192, 128
GIVEN = re.compile(r"^\s+(?:[\w, ()]+ = )?(?:(triton_\w+)\.run|extern_kernels\.(\w+)|torch\.ops\.([\w.]+))\(", re.M)


class Written(BaseException):
    """The program is there: what would follow is left."""


def described():
    """PyTorch takes the described device for one that is there."""
    return mock.patch.multiple(
        torch.cuda, create=True, is_available=lambda: True, device_count=lambda: 1, current_device=lambda: 0,
        get_device_properties=lambda *a: H100, _get_device_properties=lambda *a: H100,
        get_device_capability=lambda *a: (H100.major, H100.minor), is_initialized=lambda: True,
        get_rng_state=lambda *a: torch.zeros(16, dtype=torch.uint8), set_rng_state=lambda *a: None,
        synchronize=lambda *a: None, _exchange_device=lambda *a: 0, _maybe_exchange_device=lambda *a: 0)


def gradients(code, at):
    """Of convolution_backward, whose arguments begin there: how often its mask, the last one, says True."""
    depth, end = 1, at
    while depth:
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        end += 1
    n = code.count("True", at, end)  # transposed ones have another, and none of these networks has such
    assert n, code[at:end]
    return n


class Counter:
    def __init__(self):
        self.given = collections.Counter()

    def moved(self, value, seen):
        """The same tensors, on the GPU."""
        if isinstance(value, (tuple, list)):
            return type(value)(self.moved(v, seen) for v in value)
        if not isinstance(value, FakeTensor):
            return value
        if id(value) not in seen:
            meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            seen[id(value)] = FakeTensor(value.fake_mode, meta, GPU), value
        return seen[id(value)][0]

    def count(self, gm, inputs, options):
        gm, seen = copy.deepcopy(gm), {}
        for node in gm.graph.nodes:
            if "val" in node.meta:
                node.meta["val"] = self.moved(node.meta["val"], seen)
            node.kwargs = {k: GPU if isinstance(v, torch.device) else v for k, v in node.kwargs.items()}

        def written(graph):
            code = graph.codegen()[0]
            code = getattr(code, "value", code)
            for m in GIVEN.finditer(code):
                name = "".join(filter(None, m.groups()))
                self.given[name] += gradients(code, m.end()) if name.startswith("aten.convolution_backward") else 1
            raise Written

        torch.utils._triton.has_triton.cache_clear()  # it may have been asked before, without the described device
        with described(), mock.patch.object(GraphLowering, "compile_to_module", written), \
                mock.patch.object(torch.utils._triton, "triton_hash_with_backend", lambda: ""):
            try:
                compile_fx.compile_fx_inner(gm, [self.moved(v, seen) for v in inputs], **options)
            except Written:
                return
        raise AssertionError("Inductor wrote no program")

    def backend(self, gm, inputs):
        def inner(gm, inputs, **options):
            self.count(gm, inputs, options)
            return make_boxed_func(gm.forward)
        return compile_fx.compile_fx(gm, inputs, inner_compile=inner)


def attend(self, x, mask):
    """torch_steps.Block's, by PyTorch's own operator."""
    n, t, width = x.shape
    q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, 2))
    return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None).transpose(1, 2)
                    .reshape(n, t, width))


def recurrences_at_least(layers, features, steps):
    """Kernels of cuDNN's calls for an LSTM without a projection, in float32.  By the standard algorithm a layer's step
    is a product with the state before it, which the first step need not have, and a kernel for the cells, backward
    likewise (CUDNN_RNN_ALGO_STANDARD: "a sequence of operations", cuDNN's manual; Appleyard, Kocisky, Blunsom,
    arXiv:1604.01946; profiles: Artelnics/opennn, benchmarks/reports/lstm.md; apache/systemds, pull 856).  A persistent
    kernel is one a layer.  Not counted: products of the layers' inputs."""
    passes = sum(1 if features <= most else 2 * steps - 1 for most in PERSISTENT)
    return layers * (passes + 1)  # one more for the weights' gradients


def step_of(name):
    """What of a step is forward and backward, and what its update."""
    torch._dynamo.reset()
    model, x, labels = model_of(name, *SIZES[name])
    trained, updated = Counter(), Counter()
    optimizer = torch.optim.SGD(model.parameters(), 0.001, 0.9, foreach=True)

    def loss():
        return F.cross_entropy(model(x), labels)
    torch.compile(loss, backend=trained.backend)().backward()
    optimizer.step()  # the first one makes its states
    torch.compile(optimizer.step, backend=updated.backend)()
    trained.given.update(APART.get(name, {}))
    return trained.given, updated.given


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    args.add_argument("--kernels", action="store_true", help="every kernel and call by its name")
    args.add_argument("--sdpa", action="store_true", help="attention by scaled_dot_product_attention")
    args.add_argument("network", nargs="*", choices=[*NAMES, []], help=", ".join(NAMES))
    o = args.parse_args()
    torch._inductor.config.fx_graph_cache = False
    torch._inductor.config.compile_threads = 1
    if o.sdpa:
        Block.attend = attend
    for name in o.network or NAMES:
        trained, updated = step_of(name)
        kernels = sum(n for g in (trained, updated) for what, n in g.items() if what.startswith("triton_"))
        total = trained.total() + updated.total()
        found = {"network": name, "all": total, "kernels": kernels, "libraries": total - kernels,
                 "update": updated.total()}
        if name in APART:
            found["recurrences_at_least"] = recurrences_at_least(LAYERS, WIDTH, SIZES[name][1])
        print(json.dumps(found), flush=True)
        for what, n in (trained + updated).most_common() if o.kernels else []:
            print(f"  {n:5} {what}")


if __name__ == "__main__":
    sys.exit(main())
