#!/usr/bin/env python3
"""Checks the CUDA backend on a machine with a GPU, from building to benchmarks.

Where there are Debian's registries, first:

  ./run gpu-check pack     downloads what is needed into out/gpu-check/debs

There, beside the source (nothing is installed, no network is used):

  ./run gpu-check              all steps, in the order of their worth, for at most 8 minutes
  ./run gpu-check              again: goes on where it was; then what failed is tried anew
  ./run gpu-check --limit 120  for two minutes
  ./run gpu-check --jobs 1     one step after the other; what is timed always runs alone
  ./run gpu-check --only bench --again
  ./run gpu-check --double     the same steps on the host double, without a GPU
  ./run gpu-check list         what the steps are

Where the toolkit is but no GPU, say on a login node, so that no GPU waits for compilers:

  ./run gpu-check prepare --arch 90    builds for GPUs of compute capability 9.0

Logs are out/gpu-check/logs, outcomes out/gpu-check/state.json; another source or architecture
begins anew, another GPU or driver all but building.  Exit status: 0 all passed or skipped, 1 a
step failed or was not reached, 2 bad usage, 3 there is no GPU.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import os
import sys
import threading
import time

import place
import record
import steps as plan

UNDONE = 1
NO_GPU = 3
PREPARATION = [s.name for s in plan.PREPARATION]
MOST_JOBS = 6  # share one GPU's memory


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="./run gpu-check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", nargs="?", choices=("check", "pack", "prepare", "list"), default="check")
    parser.add_argument("--arch", default="90", help="for prepare: compute capability, without its point (90)")
    parser.add_argument("--double", action="store_true", help="on the host double, without a GPU")
    parser.add_argument("--limit", type=float, default=480, metavar="SECONDS",
                        help="of the whole run (480)")
    parser.add_argument("--jobs", type=int, default=max(1, min(MOST_JOBS, (os.cpu_count() or 1) // 2)),
                        metavar="N", help="steps at a time (half the cores, at most %(default)s here)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="steps whose names have it, and building; may be repeated")
    parser.add_argument("--again", action="store_true", help="forget what was done but building")
    return parser.parse_args(arguments)


def chosen(steps, only):
    """Those that are named so; where none is, those whose names have the text."""
    names = {s.name for s in steps}
    return [s for s in steps if not only or s.name in PREPARATION or
            any(text == s.name or (text not in names and text in s.name) for text in only)]


def built(name):
    """Is what a preparing step made still there?  Only some folders may have travelled."""
    return {"unpack": place.LINKS / "include", "configure": place.BUILD / "build.ninja",
            "build": place.BUILD / "runtime/ffrun"}[name].exists()


def keep(kept, steps, again):
    """Which steps are done already; without a build nothing is."""
    done = {s.name for s in steps if kept.done(s.name) and (
        built(s.name) if s.name in PREPARATION else not again)}
    ready = all(s.name in done or s.name not in ("configure", "build") for s in steps)
    return done if ready else done & {"unpack"}


def one(kept, step, check, run_step):
    """Does a step; False where the time was over before its end."""
    try:
        status, seconds, figure = run_step(step, check)
    except plan.OutOfTime:
        print(f"{step.name}: cut off", flush=True)
        kept.forget(step.name)
        return False
    kept.put(step.name, status, seconds, figure)
    print(f"{step.name}: {status} ({seconds:.1f} s) {figure}", flush=True)
    return True


def batches(steps):
    """Steps in their order: what runs side by side, and what runs alone."""
    batch = []
    for step in steps:
        if batch and (step.alone or batch[-1].alone):
            yield batch
            batch = []
        batch.append(step)
    if batch:
        yield batch


def walk(kept, steps, check, again=False, run_step=plan.run_step, jobs=1):
    """Does the steps; True when none is left for want of time."""
    done = keep(kept, steps, again)
    left = [s for s in steps if s.name not in done]
    for step in [s for s in left if s.name in PREPARATION]:
        if time.monotonic() >= check.end or not one(kept, step, check, run_step):
            return False
        if not kept.done(step.name):
            return True  # nothing can follow

    over = threading.Event()

    def in_time(step):
        if over.is_set() or time.monotonic() >= check.end or not one(kept, step, check, run_step):
            over.set()

    # what has failed, of the same source, comes behind what nobody has tried
    rest = sorted((s for s in left if s.name not in PREPARATION), key=lambda s: s.name in kept.steps)
    for batch in batches(rest):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(in_time, batch))
    return not over.is_set()


def summary(kept, names, whole):
    print(f"\n{kept.table(names)}\n")
    counts = {s: kept.count(names, s) for s in (record.PASSED, record.FAILED, record.SKIPPED,
                                                record.LEFT)}
    print(", ".join(f"{n} {status}" for status, n in counts.items()))
    if not whole:
        print("The time is over: the same command goes on from here.")
    return UNDONE if counts[record.FAILED] or counts[record.LEFT] else 0


def set_up(options, end):
    """What is to be done where: a Check and a Record; None where there is no GPU to do it on."""
    gpu = None if options.double else ("no GPU", options.arch, "") if options.verb == "prepare" else place.gpu()
    if not gpu and not options.double:
        return None, None
    arch, machine = ("double", "") if options.double else (gpu[1], f"{gpu[0]} {gpu[2]}")
    kept = record.Record(place.OUT / "state.json", f"{record.source_hash(place.ROOT)} {arch}", machine, PREPARATION)
    return plan.Check(options.double, gpu, end), kept


def main(arguments):
    options = options_of(arguments)
    steps = plan.PREPARATION if options.verb == "prepare" else chosen(plan.all_steps(), options.only)
    limit = max(options.limit, plan.PREPARATION[-1].limit) if options.verb == "prepare" else options.limit
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
    check, kept = set_up(options, time.monotonic() + limit)
    if not check:
        print("gpu-check: there is no GPU here, or no nvidia-smi that sees it "
              "(--double walks the steps without one)", file=sys.stderr)
        return NO_GPU
    print(f"gpu-check on {check.device_name}, at most {limit:.0f} s")
    whole = walk(kept, steps, check, options.again, jobs=options.jobs)
    return summary(kept, [s.name for s in steps], whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
