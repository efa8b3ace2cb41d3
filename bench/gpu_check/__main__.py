#!/usr/bin/env python3
"""Checks the CUDA backend on a machine with a GPU, from building to benchmarks.

Where there are Debian's registries, first:

  ./run gpu-check pack     downloads what is needed into out/gpu-check/debs

There, beside the source (nothing is installed, no network is used):

  ./run gpu-check              all steps, in the order of their worth, for at most 8 minutes
  ./run gpu-check              again: goes on where it was; what failed is tried anew
  ./run gpu-check --limit 120  for two minutes
  ./run gpu-check --only bench --again
  ./run gpu-check --double     the same steps on the host double, without a GPU
  ./run gpu-check list         what the steps are

Logs are out/gpu-check/logs, outcomes out/gpu-check/state.json; another source, GPU or driver
begins anew.  Exit status: 0 all passed or skipped, 1 a step failed or was not reached, 2 bad
usage, 3 there is no GPU.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import sys
import time

import place
import record
import steps as plan

UNDONE = 1
NO_GPU = 3
PREPARATION = ("unpack", "configure", "build")


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="./run gpu-check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", nargs="?", choices=("check", "pack", "list"), default="check")
    parser.add_argument("--double", action="store_true", help="on the host double, without a GPU")
    parser.add_argument("--limit", type=float, default=480, metavar="SECONDS",
                        help="of the whole run (480)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="steps whose names have it, and building; may be repeated")
    parser.add_argument("--again", action="store_true", help="forget what was done but building")
    return parser.parse_args(arguments)


def chosen(steps, only):
    return [s for s in steps if not only or s.name in PREPARATION or
            any(text in s.name for text in only)]


def built(name):
    """Is what a preparing step made still there?  Only some folders may have travelled."""
    return {"unpack": place.UNPACKED / "usr/bin/meson", "configure": place.BUILD / "build.ninja",
            "build": place.BUILD / "runtime/ffrun"}[name].exists()


def keep(kept, steps, again):
    """Which steps are done already; the first that is not takes what stands on it along."""
    done, whole = set(), True
    for step in steps:
        if step.name in PREPARATION:
            whole = whole and kept.done(step.name) and built(step.name)
        if whole and kept.done(step.name) and (step.name in PREPARATION or not again):
            done.add(step.name)
    return done


def walk(kept, steps, check, again=False, run_step=plan.run_step):
    """Does the steps; True when none is left for want of time."""
    done = keep(kept, steps, again)
    for step in steps:
        if step.name in done:
            continue
        if time.monotonic() >= check.end:
            return False
        print(f"{step.name} ...", end=" ", flush=True)
        try:
            status, seconds, figure = run_step(step, check)
        except plan.OutOfTime:
            print("cut off")
            kept.forget(step.name)
            return False
        kept.put(step.name, status, seconds, figure)
        print(f"{status} ({seconds:.1f} s) {figure}", flush=True)
        if status == record.FAILED and step.name in PREPARATION:
            return True  # nothing can follow
    return True


def summary(kept, names, whole):
    print(f"\n{kept.table(names)}\n")
    counts = {s: kept.count(names, s) for s in (record.PASSED, record.FAILED, record.SKIPPED,
                                                record.LEFT)}
    print(", ".join(f"{n} {status}" for status, n in counts.items()))
    if not whole:
        print("The time is over: the same command goes on from here.")
    return UNDONE if counts[record.FAILED] or counts[record.LEFT] else 0


def main(arguments):
    options = options_of(arguments)
    steps = chosen(plan.all_steps(), options.only)
    end = time.monotonic() + options.limit
    if options.verb == "list":
        print("\n".join(s.name for s in steps))
        return 0
    try:
        if options.verb == "pack":
            place.pack()
            return 0
    except place.Missing as why:
        print(f"gpu-check: {why}", file=sys.stderr)
        return UNDONE
    gpu = None if options.double else place.gpu()
    if not gpu and not options.double:
        print("gpu-check: there is no GPU here, or no nvidia-smi that sees it "
              "(--double walks the steps without one)", file=sys.stderr)
        return NO_GPU
    check = plan.Check(options.double, gpu, end)
    key = f"{record.source_hash(place.ROOT)} {' '.join(gpu or ['double'])}"
    print(f"gpu-check on {check.device_name}, at most {options.limit:.0f} s")
    kept = record.Record(place.OUT / "state.json", key)
    whole = walk(kept, steps, check, options.again)
    return summary(kept, [s.name for s in steps], whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
