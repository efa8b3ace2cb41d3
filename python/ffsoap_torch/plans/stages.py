"""A plan with stages: each runs its nodes of the graph, torch.distributed.pipelining hands values on.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor

from .graph_mode import Run, begin, output_of, own_name, place_parameters, results, run_nodes
from .layout import operands_of, shapes_of, whole
from .moves import local_shape


def mesh_of(layout, kind):
    names = ("stage",) + tuple(f"a{i}" for i in range(len(layout.sizes)))
    devices = torch.tensor(layout.stages).reshape(len(layout.stages), *layout.sizes)
    return DeviceMesh(kind, devices, mesh_dim_names=names)


def changed_by(program, layout):
    """By buffer that changes in a step the stage that changes it."""
    pairs = zip(program.graph_signature.output_specs, output_of(program.graph).args[0])
    return {spec.target: layout.stage_of[node] for spec, node in pairs if spec.kind.name == "BUFFER_MUTATION"}


class Part(torch.nn.Module):
    """One stage.  Every micro-batch it takes what the stage before gives, and of the batch what it needs."""

    def __init__(self, module, program, run, stage):
        super().__init__()
        self.module, self.stage, self.layout = module, stage, run.layout
        self.program, self.run = [program], run
        self.batches, self.turn = [], 0
        self.nodes = [n for n in program.graph.nodes if n.op == "call_function" and self.is_here(n)]
        self.takes, self.gives = self.crossing(stage - 1), self.crossing(stage)

    def is_free(self, node):
        """Computed from the data alone, wherever it is wanted."""
        return node not in self.layout.trained

    def is_here(self, node):
        return self.is_free(node) or self.layout.stage_of[node] == self.stage

    def crossing(self, stage):
        """What stages up to this one make and later ones read."""
        found = []
        for node in self.program[0].graph.nodes:
            if node.op == "call_function":
                for o in operands_of(node):
                    made = o.op == "call_function" and not self.is_free(o) and self.layout.stage_of[o] <= stage
                    if made and self.layout.stage_of[node] > stage and o not in found:
                        found.append(o)
        return found

    def example(self, nodes):
        return tuple(torch.empty(local_shape(shapes_of(n)[0], self.layout.current(n), self.run.sizes),
                                 dtype=n.meta["val"].dtype, requires_grad=True) for n in nodes)

    def forward(self, *given):
        program = self.program[0]
        values = begin(self.module, self.run, program, self.batches[self.turn])
        self.turn += 1
        values.of.update(zip(self.takes, given if self.stage else ()))
        outputs = set(operands_of(output_of(program.graph)))
        run_nodes(self.run, self.nodes, values, set(self.gives) | outputs)
        found = results(self.module, program, values)
        if self.stage == len(self.layout.stages) - 1:
            return found[0].reshape(1)
        return tuple(values.of[n] for n in self.gives)


class Staged(torch.nn.Module):
    """A module in stages.  step() is a step of training: the loss on every process.  Parameters of other stages
    are left out."""

    def __init__(self, module, program, layout, plan, kind="cpu"):
        super().__init__()
        self.module, self.layout, self.micro_batches = module, layout, plan.micro_batches
        self.mesh, self.changed = mesh_of(layout, kind), changed_by(program, layout)
        outputs = {o.name: o.meta["val"].dtype for o in operands_of(output_of(program.graph))}
        self.type = outputs[program.graph_signature.user_outputs[0]]
        self.inner = self.mesh[self.mesh.mesh_dim_names[1:]]
        self.stage = self.mesh.get_local_rank("stage")
        read = {layout.parameters[n.name]: n for n in program.graph.nodes if n.name in layout.parameters}
        self.shapes = {name: shapes_of(n)[0] for name, n in read.items()}
        self.types = {name: n.meta["val"].dtype for name, n in read.items()}
        place_parameters(module, layout, self.inner, lambda name: self.stage in layout.reads.get(name, [0]))
        run = Run(layout, self.inner, plan.micro_batches)
        part = Part(module, program, run, self.stage)
        self.part = [part]  # its module is this one's
        last = self.stage == len(layout.stages) - 1
        given = part.example(part.takes) if self.stage else tuple(
            n.meta["val"].new_empty(n.meta["val"].shape, device="cpu") for n in program.graph.nodes
            if layout.is_input(n))
        group = self.mesh.get_group("stage")
        stage = PipelineStage(part, self.stage, len(layout.stages), torch.device(kind), given,
                              (self.zeros(1).requires_grad_(),) if last else part.example(part.gives), group=group)
        one_by_one = plan.order in ("1f1b", "zb-h1") and plan.micro_batches >= len(layout.stages)
        order = Schedule1F1B if one_by_one else ScheduleGPipe
        self.schedule = order(stage, plan.micro_batches, loss_fn=lambda output, target: output.sum())

    def step(self, *inputs):
        part = self.part[0]
        part.batches, part.turn = list(zip(*(x.chunk(self.micro_batches) for x in inputs))), 0
        before = {name: p.grad for name, p in self.tied()}
        for _, p in self.tied():
            p.grad = None
        losses, last = [], self.stage == len(self.layout.stages) - 1
        target = self.zeros(self.micro_batches) if last else None
        with self.own_draws():
            self.schedule.step(*(inputs if self.stage == 0 else ()), target=target, losses=losses if last else None)
        self.join(before)
        loss = torch.stack(losses).mean().detach() if last else self.zeros()
        distributed.broadcast(loss, self.layout.stages[-1][0])
        return loss

    @contextlib.contextmanager
    def own_draws(self):
        """What stages draw differs, though their generators are alike."""
        seed, kind = int(torch.randint(1 << 62, ())), self.mesh.device_type
        devices = [] if kind == "cpu" else [torch.accelerator.current_device_index()]
        with torch.random.fork_rng(devices, device_type=kind):
            torch.manual_seed(seed + self.stage)
            yield

    def zeros(self, *shape):
        """Of the loss's type."""
        return torch.zeros(shape, dtype=self.type)

    def tied(self):
        """Parameters that several stages read."""
        return [(n, p) for n, p in self.module.named_parameters() if len(self.layout.reads.get(n, [])) > 1]

    def join(self, before):
        """Each stage has the gradient of its own uses; the parameter's is their sum."""
        own = dict(self.tied())
        for name in sorted(n for n, stages in self.layout.reads.items() if len(stages) > 1):
            places, n = self.layout.stored[name], len(self.layout.sizes)
            p = own.get(name)
            x = p.grad.to_local() if p is not None and p.grad is not None else torch.zeros(
                local_shape(self.shapes[name], places or whole(n), self.layout.sizes))
            distributed.all_reduce(x, group=self.mesh.get_group("stage"))
            if p is not None:
                p.grad = DTensor.from_local(x, self.inner, places, run_check=False)
                if before[name] is not None:
                    p.grad += before[name]

    def weights(self):
        """Whole, by the module's names, on every process."""
        own = {n: x for n, x in self.module.named_parameters(remove_duplicate=False)}
        found = {}
        for name, shape in self.shapes.items():
            stage = min(self.layout.reads.get(name, [0]))
            x = own[name].detach().full_tensor() if name in own else torch.empty(shape, dtype=self.types[name])
            distributed.broadcast(x, self.layout.stages[stage][0])
            found[own_name(self.module, name)] = x
        for name, x in self.module.named_buffers():
            if name in self.changed:
                x = x.clone()
                distributed.broadcast(x, self.layout.stages[self.changed[name]][0])
            found[own_name(self.module, name)] = x
        return found
