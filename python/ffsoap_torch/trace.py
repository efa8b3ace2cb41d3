"""A module in training mode as an exported program, and where in the module's text its nodes are from.
SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import functools
import importlib
import io
import os
import re
import sys
from unittest import mock

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from . import Refused, backward, functions

evaluate = ShapeEnv.evaluate_expr
LEAST = (2, 11)
CHECKS = ("_assert_async", "_assert_tensor_metadata")


def check_version():
    if tuple(int(n) for n in re.findall(r"\d+", torch.__version__)[:2]) < LEAST:
        raise Refused("this is PyTorch %s, and 2.11 or newer is needed" % torch.__version__)


def load(spec):
    """MODULE:FACTORY, a module's name or a file."""
    name, _, factory = spec.rpartition(":")
    if not name or not factory:
        raise Refused(f"{spec} is not MODULE:FACTORY")
    sys.path.insert(0, os.path.dirname(os.path.abspath(name)) if name.endswith(".py") else os.getcwd())
    try:
        found = importlib.import_module(os.path.basename(name)[:-3] if name.endswith(".py") else name)
    except ImportError as why:
        raise Refused(f"{name} cannot be imported: {why}") from why
    if not callable(getattr(found, factory, None)):
        raise Refused(f"{name} has no function {factory}")
    return getattr(found, factory)


class WithLoss(torch.nn.Module):
    """A module and the function of its output that is trained; the module's names stay."""

    def __init__(self, module, loss, inputs):
        super().__init__()
        self.module, self.loss, self.inputs = module, loss, inputs

    def forward(self, *tensors):
        return self.loss(self.module(*tensors[:self.inputs]), *tensors[self.inputs:])


def made(result):
    """What a factory returns: (module, inputs), or (module, inputs, loss, targets).  Returns the module
    to export, all its inputs, and what is to be taken off names in front."""
    if not isinstance(result, tuple) or len(result) not in (2, 4):
        raise Refused("the factory returns (module, inputs), or (module, inputs, loss, targets)")
    module, inputs = result[0], result[1]
    with_memory(module)
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    if len(result) == 2:
        return module, inputs, ""
    targets = (result[3],) if isinstance(result[3], torch.Tensor) else tuple(result[3])
    return WithLoss(module, result[2], len(inputs)), inputs + targets, "module."


@contextlib.contextmanager
def without_weights():
    """Modules made in here have no memory for their parameters, but buffers as they are."""
    register = torch.nn.Module.register_parameter

    def bare(self, name, param):
        if param is not None and not param.is_meta:  # a tied one stays the one it is
            param = torch.nn.Parameter(param.detach().to("meta"), param.requires_grad)
        register(self, name, param)
    with mock.patch.object(torch.nn.Module, "register_parameter", bare):
        yield


def with_memory(module):
    """Parameters without memory as ones on the CPU that nobody reads or writes, so that they take none either."""
    found = {}
    for name, buffer in module.named_buffers():
        if buffer.is_meta:
            raise Refused(f"buffer {name} is on the meta device, so that its numbers are not known: make the module "
                          "with ffsoap_torch.without_weights(), which keeps buffers")
    for owner in list(module.modules()):
        for name, p in list(owner._parameters.items()):
            if p is not None and p.is_meta:
                if p not in found:
                    found[p] = torch.nn.Parameter(torch.empty(p.shape, dtype=p.dtype), p.requires_grad)
                owner._parameters[name] = found[p]


def with_batch(inputs, batch):
    """Inputs of another batch.  Nothing is computed with them, so they have no elements."""
    return tuple(torch.empty(batch or x.shape[0], *x.shape[1:], dtype=x.dtype) if isinstance(x, torch.Tensor) and (
        batch or x.is_meta) else x for x in inputs)


def asked_by_module():
    """Whether a module's own code asks if something is so, rather than PyTorch's."""
    frame, folder = sys._getframe(1), os.path.dirname(torch.__file__)
    while frame and frame.f_code.co_name != "__bool__":
        frame = frame.f_back
    return bool(frame) and not frame.f_back.f_code.co_filename.startswith(folder)


def as_many_as_can_be(self, expr, *args, **kwargs):
    """What depends on how many elements a condition leaves is as if it left all: those that it does not count
    nothing.  So a module may ask whether there are any, but not how many."""
    try:
        return evaluate(self, expr, *args, **kwargs)
    except GuardOnDataDependentSymNode:
        most = {s: self.var_to_range[s].upper for s in expr.free_symbols if s in self.size_like}
        if set(most) != set(expr.free_symbols) or not expr.is_Boolean and not expr.is_Relational:
            raise
        said = bool(expr.subs(most))
        if asked_by_module() and bool(expr.subs({s: 1 for s in most})) != said:
            raise
        return said


def check_names(module):
    """An exported program is a module itself, with members of its own."""
    for name in (*module._modules, *module._parameters, *module._buffers):
        if isinstance(getattr(torch.fx.GraphModule, name, None), property):
            raise Refused(f"the module has a member called {name}, as torch.export calls one of its own: give it another "
                          "name")


@mock.patch.object(ShapeEnv, "evaluate_expr", as_many_as_can_be)
def program(module, inputs, known):
    """The exported program; operators that are not `known` are decomposed, where PyTorch has a way."""
    module.train()
    check_names(module)
    backward.check_hooks(module)
    try:
        with mock.patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", told_causal), \
                mock.patch.multiple(torch.nn.functional, ctc_loss=functions.ctc_loss,
                                    gaussian_nll_loss=functions.gaussian_nll_loss), \
                with_static_experts(module), backward.known(), \
                contextlib.redirect_stderr(io.StringIO()):  # PyTorch prints the graph so far before it fails
            found = torch.export.export(module, inputs, strict=False)
        forget_checks(found)
        stop_gradients(found)
        found = found.run_decompositions({})
    except Refused:
        raise
    except Exception as why:
        raise Refused("torch.export cannot export the module: " + first_line(why)) from why
    for _ in range(4):
        table = {}
        for node in varying(found):
            op = node.target
            if isinstance(op, torch._ops.OpOverload) and not known(op):
                way = decomposition(op)
                if way:
                    table[op] = way
        if not table:
            break
        try:
            found = found.run_decompositions(table)
        except RecursionError:  # an operator that PyTorch decomposes into itself: the rows refuse it
            break
        except Exception as why:
            names = " or ".join(sorted({op._opname for op in table}))
            raise Refused(f"PyTorch fails to make simpler operators of {names}") from why
    return found


@contextlib.contextmanager
def with_static_experts(module):
    """Experts of the transformers package that are asked in the order of the tokens, by all weights that tokens chose:
    the other ways sort the tokens, or look at them."""
    configs = {id(c): c for c in (getattr(m, "config", None) for m in module.modules())
               if hasattr(c, "_experts_implementation_internal")}
    with contextlib.ExitStack() as stack:
        for config in configs.values():
            stack.enter_context(mock.patch.object(config, "_experts_implementation_internal", "batched_mm"))
        yield


def told_causal(mask, is_causal=None, size=None):
    """Whether torch.nn.Transformer's caller said so.  It would look at the mask's elements, which has no graph; the
    mask is read in any case."""
    return bool(is_causal)


def forget_checks(found):
    """What is computed only to be checked, as by torch.distributions, is left out with the check."""
    pending = [n for n in found.graph.nodes if getattr(n.target, "_opname", "") in CHECKS]
    while pending:
        node = pending.pop()
        if not node.users and node.op == "call_function":
            pending += node.all_input_nodes
            found.graph.erase_node(node)
    found.graph_module.recompile()


def stop_gradients(found):
    """What is computed without gradient is decomposed into operators that have one: it is detached behind them."""
    graph = found.graph
    for node in list(graph.nodes):
        if getattr(node.target, "_name", "") != "wrap_with_set_grad_enabled" or node.args[0] is not False:
            continue
        for out in list(node.users):
            if isinstance(out.meta.get("val"), torch.Tensor) and out.meta["val"].dtype.is_floating_point:
                with graph.inserting_after(out):
                    kept = graph.call_function(torch.ops.aten.detach.default, (out,))
                kept.meta = dict(out.meta)
                out.replace_all_uses_with(kept, lambda user, kept=kept: user is not kept)
    found.graph_module.recompile()


def varying(found):
    """Nodes that depend on inputs or parameters; all others are folded."""
    fixed = {spec.arg.name for spec in found.graph_signature.input_specs
             if spec.kind.name in ("BUFFER", "CONSTANT_TENSOR")}
    seen = set()
    for node in found.graph.nodes:
        if node.op == "placeholder" and node.name not in fixed or seen & set(node.all_input_nodes):
            seen.add(node)
            if node.op == "call_function":
                yield node


def decomposition(op):
    """What PyTorch makes of an operator; not `op.decompose`, which asks the table that this is put into."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    if op.has_kernel_for_dispatch_key(composite):
        return functools.partial(op._op_dk, composite)
    return torch._decomp.get_decompositions([op]).get(op)


def first_line(why):
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    where = [line for line in lines if re.match(r'File ".*", line \d+', line)]
    text = lines[0] if lines else type(why).__name__
    if "fake tensor in the exported program" in text:
        text = "it computes what cannot be traced, as gradients within forward (torch.autograd.grad)"
    return text[:300] + (f" ({where[-1]})" if where else "")


def module_of(node, prefix):
    """The innermost module's name, and its class."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    name, kind = stack[-1] if stack else ("", "")
    name = re.sub(r"@\d+", "", name)
    if (name + ".").startswith(prefix):
        name = name[len(prefix):]
    return name, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def line_of(node):
    """The line of the innermost frame that is not PyTorch's own."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n\s*([^\n]*)', node.meta.get("stack_trace") or "")
    own = [f for f in frames if not f[0].startswith((os.path.dirname(torch.__file__) + os.sep, "<"))] or frames
    return f"{own[-1][0]}:{own[-1][1]}: {own[-1][2].strip()}" if own else "an unknown line"
