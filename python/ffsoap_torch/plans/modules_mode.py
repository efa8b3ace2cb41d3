"""The user's own modules, cut as a plan says by PyTorch's parallel styles: parallelize_module and fully_shard.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import functools

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication, register_sharding
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from torch.utils.checkpoint import checkpoint

from .graph_mode import own_name

aten = torch.ops.aten


@functools.cache
def attend_on_cpus():
    """DTensor has no strategy for attention on CPUs: samples and heads are computed apart."""
    def strategy(count):
        def sharding(*given, **_):
            whole = [Replicate()] * count
            into = [Replicate() if hasattr(x, "shape") else None for x in given]
            found = [(whole, into)]
            for axis in (0, 1):
                at = [Shard(axis) if hasattr(x, "shape") else None for x in given]
                found.append(([Shard(axis)] * count, at))
            return found
        return sharding
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu.default)(strategy(2))
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)(strategy(3))


def taken_whole(mesh, at):
    """Before a layer: what is no DTensor is the same on all devices of the mesh."""
    def hook(layer, inputs):
        x = inputs[0]
        if not isinstance(x, DTensor):
            x = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
        return (x.redistribute(placements=[at]),) + tuple(inputs[1:])
    return hook


def cut_layers(module, uniform, mesh):
    """parallelize_module, one layer after the other; what was tied is tied again."""
    ties = {}
    for owner in module.modules():
        for key, p in owner._parameters.items():
            if p is not None:
                ties.setdefault(p, []).append((owner, key))
    for layer in uniform.layers:
        found = module.get_submodule(layer.name)
        column, linear = layer.style == "column", isinstance(found, torch.nn.Linear)
        found.register_forward_pre_hook(taken_whole(mesh, Replicate() if column or not linear else Shard(-1)))
        if column:
            style = ColwiseParallel(output_layouts=Shard(-1) if layer.onwards else Replicate(),
                                    use_local_output=not layer.onwards)
        else:
            style = RowwiseParallel(input_layouts=Shard(-1) if linear else Replicate(), output_layouts=Replicate())
        parallelize_module(found, mesh, style)
    for (first, key), *rest in ties.values():
        for owner, other in rest:
            owner._parameters[other] = first._parameters[key]


def compute_again(module, names):
    for name in names:
        part = module.get_submodule(name)
        part.forward = functools.partial(checkpoint, part.forward, use_reentrant=False)


def shard(module, uniform, mesh):
    """fully_shard: the modules of every list one by one, then the rest."""
    ignored = {p for n, p in module.named_parameters() if n not in uniform.sharded}
    readers = {}
    for name, part in module.named_modules(remove_duplicate=False):
        for p in part._parameters.values():
            readers.setdefault(p, set()).add(name)
    lists = [(n, m) for n, m in module.named_modules() if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential))]
    for name, parts in lists:
        for key, part in parts.named_children():
            own = f"{name}.{key}." if name else f"{key}."
            mine = [p for p in part.parameters() if p not in ignored]
            inside = all((reader + ".").startswith(own) for p in mine for reader in readers[p])
            if mine and inside and not any(isinstance(m, FSDPModule) for m in part.modules()):
                fully_shard(part, mesh=mesh, reshard_after_forward=uniform.gathered_again, ignored_params=ignored)
    fully_shard(module, mesh=mesh, reshard_after_forward=uniform.gathered_again, ignored_params=ignored)


class Modules(torch.nn.Module):
    """step() takes the whole batch on every process and gives the whole loss."""

    def __init__(self, module, uniform, micro_batches, kind):
        super().__init__()
        self.module, self.uniform, self.micro_batches = module, uniform, micro_batches
        self.mesh = DeviceMesh(kind, uniform.order, mesh_dim_names=("data", "tensor"))
        if uniform.layers:
            attend_on_cpus()
            cut_layers(module, uniform, self.mesh["tensor"])
        compute_again(module, uniform.again)
        self.alike = [p for n, p in module.named_parameters() if n not in uniform.sharded]
        if uniform.sharded:
            shard(module, uniform, self.mesh["data"])

    def batches(self, inputs):
        """This process's samples of every micro-batch."""
        n, i = self.uniform.data, self.mesh.get_local_rank("data")
        for part in zip(*(x.chunk(self.micro_batches) for x in inputs)):
            yield [x.chunk(n)[i] for x in part]

    @contextlib.contextmanager
    def together(self):
        """What is no DTensor (buffers, parameters that are not cut) is the same on all devices of the tensor's mesh."""
        with contextlib.ExitStack() as held:
            if self.uniform.layers:
                held.enter_context(implicit_replication())
            if self.uniform.by_class:
                held.enter_context(loss_parallel())
            yield

    def step(self, *inputs):
        """The loss, whole; gradients are added to the parameters'."""
        before, losses = [p.grad for p in self.alike], 0.0
        for p in self.alike:
            p.grad = None
        for batch in self.batches(inputs):
            with self.together():
                loss = self.module(*batch)
                loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
                (loss / self.micro_batches).backward()
            losses = losses + loss.detach() / self.micro_batches
        for p, old in zip(self.alike, before):
            if p.grad is not None:
                if isinstance(p.grad, DTensor) and not isinstance(p, DTensor):
                    p.grad = p.grad.full_tensor()  # it met a value that is cut: each has a summand
                self.mean(p.grad)
                p.grad += 0 if old is None else old
        return self.mean(losses)

    def mean(self, x):
        local = x.to_local() if isinstance(x, DTensor) else x
        distributed.all_reduce(local, group=self.mesh.get_group("data"))
        local /= self.uniform.data
        return x

    def forward(self, *inputs):
        """The module's loss, whole, without gradients' ways: evaluate under torch.no_grad()."""
        with self.together():
            parts = [self.module(*batch) for batch in self.batches(inputs)]
        parts = [x.full_tensor() if isinstance(x, DTensor) else x for x in parts]
        return self.mean(sum(parts).detach() / len(parts))

    def weights(self):
        """Whole, by the module's names."""
        return {own_name(self.module, n): x.full_tensor() if isinstance(x, DTensor) else x
                for n, x in self.module.state_dict().items()}
