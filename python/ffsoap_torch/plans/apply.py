"""A module, trained in PyTorch as a plan says.  SPDX-License-Identifier: Apache-2.0"""
import warnings

import torch

from .. import Refused, trace
from ..rows import RANDOM, ROWS
from ..translate import IDENTITY
from . import places
from .graph_mode import Planned
from .layout import Layout
from .modules_mode import Modules
from .plan import Names, Plan
from .parts import refuse
from .stages import Staged
from .uniform import of as uniform_of


def program_of(module, inputs, micro_batches=1):
    """The graph of a micro-batch."""
    if any(len(x) % micro_batches for x in inputs):
        raise Refused(f"a batch of {len(inputs[0])} has no {micro_batches} equal micro-batches")
    apart = tuple(x[:len(x) // micro_batches].clone() for x in inputs)  # one tensor given twice would be one input
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trace.program(module, apart, known)


def known(op):
    """Operators that `export` keeps whole."""
    return op._opname in ROWS or op._opname in RANDOM or op._opname in IDENTITY


def laid_out(module, plan, map, inputs):
    """The exported graph and the plan laid over it."""
    plan = Plan(plan)
    program = program_of(module, inputs, plan.micro_batches)
    names = Names(program.graph, program.graph_signature, map)
    names.check(plan)
    stages = plan.stages(names.operators())
    if plan.micro_batches > 1:
        refuse_norms(program)
        refuse(program, doubled(module, inputs, plan.micro_batches), "micro-batches do")
    first = {}
    ties = {n: first.setdefault(p, n) for n, p in module.named_parameters(remove_duplicate=False)}
    layout = Layout(program.graph, program.graph_signature, plan, names, places.factors(len(stages[0])), stages, ties)
    return plan, program, layout


def refuse_norms(program):
    """Statistics of micro-batches are not the batch's."""
    for spec in program.graph_signature.output_specs:
        if spec.kind.name == "BUFFER_MUTATION" and not spec.target.endswith("num_batches_tracked"):
            raise Refused(f"{spec.target} is a statistic of the whole batch, which micro-batches do not see")


def doubled(module, inputs, micro_batches):
    """The graph of twice as many samples."""
    return program_of(module, tuple(torch.cat([x, x]) for x in inputs), micro_batches)


def sentences(layout, of=lambda name: True):
    return [f"{name}: {sentence}" for name, said in layout.said.items() if of(name) for sentence in said]


def apply(module, plan, *inputs, map=None, loss=None, targets=(), strict=True, mode="graph"):
    """The module, its parameters cut and stored as the plan says, on as many processes as the plan has devices.

    inputs, targets: a batch, as the graph has it; map: what `export` wrote beside it; loss: a function of the
    module's output and the targets, if the module does not return its loss.  strict: what cannot be as planned
    is refused, else it is gathered (computed whole by every device) and told in a warning.  mode: `graph` runs
    the exported graph; `modules` the module's own forward, its layers cut by parallelize_module and fully_shard.
    """
    if mode not in ("graph", "modules"):
        raise Refused(f"mode is graph or modules, not {mode}")
    trace.check_version()  # gloo of 2.8 and before has no reduce-scatter
    if not module.training:
        raise Refused("the module is in evaluation mode: call train() first")
    if loss is not None:
        module = trace.WithLoss(module, loss, len(inputs))
    plan, program, layout = laid_out(module, plan, map, inputs + tuple(targets))
    told = sentences(layout, lambda name: name not in layout.names.parameters())
    uniform = None
    if mode == "modules":
        uniform = uniform_of(module, layout)
        if uniform.data > 1:
            refuse(program, doubled(module, inputs + tuple(targets), plan.micro_batches), "a process does")
        told = told + uniform.said
    if told and strict:
        raise Refused(f"{told[0]} ({len(told)} such; strict=False allows them)")
    for sentence in dict.fromkeys(sentences(layout) + told):
        warnings.warn(sentence)
    if not torch.distributed.is_initialized():
        raise Refused("there are no processes: start with torchrun and call torch.distributed.init_process_group()")
    world = torch.distributed.get_world_size()
    if world != plan.devices:
        raise Refused(f"the plan is for {plan.devices} devices, there are {world} processes")
    if uniform:
        return Modules(module, uniform, plan.micro_batches, device_kind())
    if len(layout.stages) > 1:
        return Staged(module, program, layout, plan, device_kind())
    return Planned(module, program, layout, mesh_of(layout), plan.micro_batches)


def device_kind():
    return torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"


def mesh_of(layout):
    """The mesh; neighbouring axes are also one, so that what goes over both is one message."""
    names = tuple(f"a{i}" for i in range(len(layout.sizes)))
    mesh = torch.distributed.init_device_mesh(device_kind(), tuple(layout.sizes), mesh_dim_names=names)
    for i in range(len(names)):
        for j in range(i + 2, len(names) + 1):
            mesh[names[i:j]]._flatten("".join(names[i:j]))
    return mesh
