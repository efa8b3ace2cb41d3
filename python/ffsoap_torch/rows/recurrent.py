"""Recurrent layers: a linear layer of all steps, and what the state adds.  SPDX-License-Identifier: Apache-2.0"""
import torch

from . import row
from .. import Refused
from ..layout import Value, fresh
from ..operands import as_value, picked, whole
from .draws import drop
from .moving import concat
from .products import layer, weight_of


class Layers:
    """The arguments of PyTorch's `lstm`, `gru` and `rnn_tanh`."""

    def __init__(self, t, op, x, states, params, has_bias, layers, dropout, both, batch_first, steps):
        self.t, self.op, self.params, self.has_bias = t, op, list(params), has_bias
        self.layers, self.dropout, self.both = layers, dropout, both
        self.states, self.steps = states, steps
        x = as_value(t, x)
        # [N, T, F]
        self.x = x if batch_first else x.like(dims=[x.dims[1], x.dims[0], x.dims[2]])
        self.batch_first = batch_first
        if len(self.params) != layers * (2 if both else 1) * (4 if has_bias else 2):
            raise Refused("projects its state (proj_size)")
        if self.x.dims[0] != [t.batch]:
            raise Refused("takes sequences that are not one a sample")

    def state(self, at, number):
        """[N, 1, H], or None for zeros."""
        state = self.states[at]
        if isinstance(state, torch.Tensor):
            if not bool((state == 0).all()):
                raise Refused("begins with a state of numbers that are not zero")
            return None
        state = whole(self.t, as_value(self.t, state))
        state = picked(self.t, state, 0, [number]) if state.shape[0] > 1 else state
        state = state.like(dims=[state.dims[1], [], state.dims[2]])
        return self.t.graph.full(state, [[self.t.batch], [], state.dims[2]])

    def run(self):
        lasts, cells = [], []
        x = self.x
        for i in range(self.layers):
            made = []
            for reverse in (False, True) if self.both else (False,):
                y, cell = self.one(x, len(lasts), reverse)
                n = y.shape[1]
                lasts.append(picked(self.t, y, 1, [0 if reverse else n - 1]) if n > 1 else y)
                cells.append(cell)
                made.append(y)
            x = made[0] if len(made) == 1 else concat(self.t, made, 2)
            if i + 1 < self.layers:
                x = drop(self.t, x, self.dropout)
        return x, lasts, cells

    def one(self, x, number, reverse):
        """A layer in one direction: its outputs [N, T, H], and the cell behind the last step."""
        t, per = self.t, 4 if self.has_bias else 2
        own = self.params[number * per:number * per + per]
        gates = layer(t, x, own[0], own[2] if self.has_bias else None)
        gates = t.graph.arranged(gates, gates.canonical())
        hidden = own[1].shape[1]
        params = {"weight": weight_of(t, own[1], own[1].shape)}
        if self.has_bias:
            params["bias"] = weight_of(t, own[3], own[3].shape)
        ins = [s for s in (self.state(at, number) for at in range(len(self.states))) if s is not None]
        if ins and len(ins) < len(self.states):
            raise Refused("begins with a state and no cell")
        node = t.add(self.op, [gates.node, *(s.node for s in ins)], params=params, reverse=reverse or None,
                     bias=None if self.has_bias else False, cell=(self.op == "lstm" and self.wants_cell()) or None)
        atoms = fresh(hidden)
        y = Value(node, gates.axes[:2] + [atoms], gates.dims[:2] + [atoms])
        cell = Value(f"{node}#1", [[t.batch], [], atoms], [[t.batch], [], atoms])
        return y, cell

    def wants_cell(self):
        return any(u.args[1] == 2 and len(u.users) for u in self.t.node.users)

    def stacked(self, parts):
        """[layers, N, H]"""
        parts = [p.like(dims=[[], p.dims[0], p.dims[2]]) for p in parts]
        return concat(self.t, parts, 0)

    def outputs(self):
        x, lasts, cells = self.run()
        used = {u.args[1] for u in self.t.node.users if len(u.users)}
        y = x if self.batch_first else x.like(dims=[x.dims[1], x.dims[0], x.dims[2]])
        made = [y, self.stacked(lasts) if 1 in used else None]
        return made + ([self.stacked(cells) if 2 in used else None] if self.op == "lstm" else [])


@row("lstm")
def lstm(t, x, states, params, has_bias, layers, dropout, train, both, batch_first):
    return Layers(t, "lstm", x, states, params, has_bias, layers, dropout, both, batch_first, 2).outputs()


@row("gru", "rnn_tanh")
def gru(t, x, state, params, has_bias, layers, dropout, train, both, batch_first):
    op = "gru" if t.node.target._opname == "gru" else "rnn"
    return Layers(t, op, x, [state], params, has_bias, layers, dropout, both, batch_first, 1).outputs()
