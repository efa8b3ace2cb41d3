"""What each of a plan's operators becomes in PyTorch: exact, gathered, or refused.  No device is needed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse

from . import Refused


def arguments(words):
    p = argparse.ArgumentParser(prog="python3 -m ffsoap_torch check", description="says of every entry of a plan "
                                "whether PyTorch trains it as planned (exact) or computes it whole (gathered)")
    p.add_argument("factory", metavar="MODULE:FACTORY", help="as for export")
    p.add_argument("plan", metavar="PLAN", help="a strategy file for the graph that export wrote")
    p.add_argument("--map", metavar="FILE", required=True, help="the map that export wrote")
    p.add_argument("--all", action="store_true", help="print the exact ones, too")
    return p.parse_args(words)


def main(words):
    args = arguments(words)
    from . import trace
    from .plans.apply import laid_out
    from .plans.plan import document
    trace.check_version()
    module, inputs, _ = trace.made(trace.load(args.factory)())
    names = document(args.map, "ffsoap-torch-map")
    plan, _, layout = laid_out(module, args.plan, names, trace.with_batch(inputs, names["batch"]))
    exact = 0
    for name in plan.entries:
        said = layout.said.get(name)
        exact += not said
        if said or args.all:
            print(f"{'gathered' if said else 'exact':9} {name}{': ' if said else ''}{'; '.join(said or [])}")
    print(f"{exact} of {len(plan.entries)} entries exact, {len(plan.entries) - exact} gathered, none refused; "
          f"mesh {' x '.join(map(str, layout.sizes))}, {len(layout.stages)} stages")
    if any(layout.said.get(name) for name in set(plan.entries) - layout.names.parameters()):
        raise Refused("apply() refuses this plan unless strict=False, and then gathers what stands above")
    return 0
