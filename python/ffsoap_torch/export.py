"""A module as a graph, its weights, and which of the module's names are which of the graph's.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import logging
import os
import sys

from . import Refused

LOSSES = {"cross_entropy": "softmax_cross_entropy",
          **{name: name for name in ("mse", "l1", "smooth_l1", "bce_with_logits")}}


class Exported:
    """`graph`, `map`: texts; `weights`: tensors by name; `notes`: sentences for the user."""

    def __init__(self, made, found, bare=False):
        self.bare, self.program, self.notes = bare, found, made.notes
        self.graph = made.graph.text()
        used = made.graph.used_parameters()
        self.weights = {p: made.graph.params[p]["tensor"].detach().reshape(made.graph.params[p]["shape"])
                        for p in sorted(used)}
        self.map = json.dumps(map_of(made, used), indent=1) + "\n"
        self.note_frozen(made, used)

    def note_frozen(self, made, used):
        frozen = sorted(p for p in used if getattr(made.graph.params[p]["tensor"], "requires_grad", True) is False
                        and "kept" not in made.graph.params[p] and made.graph.params[p].get("names") is None
                        and p not in made.stateful.values())
        if frozen:
            self.notes.append(f"{' and '.join(frozen[:3])}{' and others' if len(frozen) > 3 else ''} need no gradient "
                              "in PyTorch, and are trained unless ffrun --group NAME:factor=0,decay=0 keeps them")

    def write(self, graph, weights=None, names=None):
        from . import weights as files
        if weights and self.bare:
            raise Refused("the module was made without weights, so that none can be written")
        for path, text in ((graph, self.graph), (names, self.map)):
            if path == "-":
                sys.stdout.write(text)
            elif path:
                with open(f"{path}.part", "w") as f:
                    f.write(text)
                os.replace(f"{path}.part", path)
        if weights:
            files.write(weights, self.weights)


def map_of(made, used):
    """docs/schema/torch-map.schema.json"""
    from .layout import size_of
    from .plans.cuts import cuts_of
    tied, cuts = {}, cuts_of(made.found.graph)
    for name, tensor in made.found.state_dict.items():
        tied.setdefault(made.parameter_name(tensor, name), []).append(made.named(name))
    parameters = {}
    for p in sorted(used):
        how = made.graph.params[p]
        source = how.get("names", p)
        parameters[p] = {"names": tied.get(source, [source])}
        parameters[p].update((k, how[k]) for k in ("transpose", "rows") if k in how)
        shape = list(how["tensor"].shape)
        if shape != how["shape"]:
            parameters[p]["shape"] = shape
    inputs = {n["name"]: made.inputs[n["name"]] for n in made.graph.nodes if n["op"] == "input" and "sums" not in n}
    return {"format": "ffsoap-torch-map", "version": 1, "graph": made.graph.name,
            "batch": size_of([made.batch]),
            "operators": {n["name"]: operator_of(made.graph.names[n["name"]], cuts)
                          for n in made.graph.nodes if n["op"] != "input"},
            "parameters": parameters,
            "inputs": {name: {"input": i.source, "parts": [{"axis": a, "indices": k} for a, k in i.parts]}
                       for name, i in inputs.items()}}


def operator_of(how, cuts):
    """Of one node at most."""
    found = {"module": how["module"], "nodes": how["sources"]}
    return found | {"cuts": cuts.get(name, {}) for name in how["sources"]}


def export(module, inputs, loss=None, targets=None, batch=None, behind="cross_entropy", classes_last=False,
           name="model", below=None, dtype=None):
    """The module in training mode as a graph for ffsoap.  `loss`: a function of the module's output and of
    `targets`; without it the module may return its loss, else `behind` is put behind its first output.  `below`: by name of
    an input of integers a number that is larger, where nothing else says one.  `dtype`: float32 or bfloat16, what the
    graph computes in, if not what the module does."""
    from . import trace
    from .rows import ROWS, RANDOM
    from .translate import IDENTITY, Translator
    trace.check_version()
    bare = any(p.is_meta for p in module.parameters())
    module, inputs, prefix = trace.made((module, inputs) if loss is None else (module, inputs, loss, targets))

    def known(op):
        return op._opname in ROWS or op._opname in RANDOM or op._opname in IDENTITY
    found = trace.program(module, trace.with_batch(inputs, batch), known)
    made = Translator(found, name, prefix, below).run().computes_in(dtype).finish(LOSSES[behind], classes_last)
    return Exported(made, found, bare)


def whole_batch(made, batch=None):
    """Why the batch cannot go in micro-batches in PyTorch, a sentence; None: it can, but for norms, which the graph
    tells."""
    from . import trace
    from .plans.apply import doubled, program_of
    from .plans.parts import refuse
    module, inputs, _ = trace.made(made)
    inputs = trace.with_batch(inputs, batch)
    try:
        refuse(program_of(module, inputs), doubled(module, inputs, 1), "micro-batches do")
    except Refused as why:
        return str(why)
    return None


def arguments(words):
    p = argparse.ArgumentParser(prog="python3 -m ffsoap_torch export", description="writes the graph of a PyTorch "
                                "module in training mode, and its weights")
    p.add_argument("factory", metavar="MODULE:FACTORY", help="a function without arguments that returns (module, "
                   "inputs), or (module, inputs, loss, targets); MODULE is importable, or a file")
    p.add_argument("-o", dest="graph", required=True, metavar="GRAPH", help="the graph to write (-: to stdout)")
    p.add_argument("--weights", metavar="FILE", help="write the module's weights, as safetensors")
    p.add_argument("--map", metavar="FILE", help="write which operators and parameters are the module's")
    p.add_argument("--batch", type=int, metavar="N", help="samples of a step (as many as the inputs have)")
    p.add_argument("--loss", choices=sorted(LOSSES), default="cross_entropy", help="put behind the first output of "
                   "a module that returns no loss (%(default)s)")
    p.add_argument("--classes-last", action="store_true", help="classes are the output's last axis, not axis 1")
    p.add_argument("--dtype", choices=["float32", "bfloat16"], help="what the graph computes in (as the module does; "
                   "say bfloat16 if what trains it has autocast around it)")
    p.add_argument("--below", type=bound, action="append", default=[], metavar="INPUT=N", help="integers of an "
                   "input of which only numbers are made are below N, as steps of diffusion are")
    return p.parse_args(words)


def bound(word):
    name, _, number = word.partition("=")
    if not name or not number.isdecimal() or not 0 < int(number) < 1 << 24:
        raise argparse.ArgumentTypeError(f"expected INPUT=N with N from 1 to {(1 << 24) - 1}, not {word}")
    return name, int(number)


def main(words):
    args = arguments(words)
    paths = [p for p in (args.graph, args.weights, args.map) if p and p != "-"]
    if len({os.path.realpath(p) for p in paths}) < len(paths):
        raise Refused("the graph, the weights and the map are files of their own")
    from . import trace
    trace.check_version()
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # what cannot be is said in one sentence
    made = trace.load(args.factory)()
    if not isinstance(made, tuple) or len(made) not in (2, 4):
        raise Refused("the factory returns (module, inputs), or (module, inputs, loss, targets)")
    name = args.factory.rpartition(":")[2]
    done = export(*made, batch=args.batch, behind=args.loss, classes_last=args.classes_last, name=name,
                  below=dict(args.below), dtype=args.dtype)
    why = whole_batch(made, args.batch) if args.map else None
    if why:
        done.map = json.dumps(dict(json.loads(done.map), whole_batch=why), indent=1) + "\n"
        done.notes.append(f"plans in PyTorch have one micro-batch: {why}")
    done.write(args.graph, args.weights, args.map)
    for note in done.notes:
        print(f"ffsoap_torch: {note}", file=sys.stderr)
    return 0
