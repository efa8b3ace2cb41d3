#!/usr/bin/env python3
"""What the compiler says of each CUDA kernel: registers, shared memory, spills, and how many of a multiprocessor's
threads are in use at the kernel's launch bounds.  Needs a build with CUDA, and no GPU.
SPDX-License-Identifier: Apache-2.0"""
import argparse
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
REGISTERS, SHARED, GRAIN = 65536, 48 << 10, 8  # of a block at most; registers of a thread are given out by eights
# threads, blocks and bytes of shared memory of a multiprocessor, of which 1 KiB a block is the system's ("Compute
# Capabilities", CUDA C++ Programming Guide)
DEVICES = {"80": (2048, 32, 164 << 10), "90": (2048, 32, 228 << 10), "100": (2048, 32, 228 << 10)}
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)a?'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")
KERNEL = re.compile(r"\b(FF_KERNEL|FF_WIDE_KERNEL)(?:_BESIDE\(\d\))?\s+void\s+(\w+)\(")


def stop(sentence):
    print(f"cuda_kernels.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def kernels_of(usage):
    """What ptxas -v wrote, a dict a kernel and architecture."""
    found = []
    for line in usage.splitlines():
        if m := ENTRY.search(line):
            found.append({"symbol": m[1], "arch": m[2]})
        elif found and (m := SPILLS.search(line)):
            found[-1].update(stack=int(m[1]), spilled=int(m[2]) + int(m[3]))
        elif found and (m := USED.search(line)):
            found[-1].update(registers=int(m[1]), shared=int(m[2] or 0))
    return found


def bounds_of(sources):
    """Threads a block, at most, by the kernel's name."""
    return {name: 1024 if kind == "FF_WIDE_KERNEL" else 256
            for source in sources for kind, name in KERNEL.findall(source)}


def occupancy(kernel):
    """Threads of a multiprocessor that run, of those that it has room for, where blocks are as large as they may be."""
    threads, blocks, shared = DEVICES[kernel["arch"]]
    registers = -(-kernel["registers"] // GRAIN) * GRAIN
    fit = min(blocks, threads // kernel["threads"], REGISTERS // (registers * kernel["threads"]),
              shared // (kernel["shared"] + 1024))
    return fit * kernel["threads"] / threads


def faults_of(kernel):
    """Why a launch of it could not start, or would be slow without need."""
    of = f"{kernel['name']} (sm_{kernel['arch']})"
    registers = -(-kernel["registers"] // GRAIN) * GRAIN
    if registers * kernel["threads"] > REGISTERS:
        yield f"{of}: {registers} registers of {kernel['threads']} threads are more than {REGISTERS}"
    if kernel["shared"] > SHARED:
        yield f"{of}: {kernel['shared']} bytes of shared memory are more than {SHARED}"
    if kernel["spilled"]:
        yield f"{of}: {kernel['spilled']} bytes of registers are spilled"


def named(symbols):
    """C++ names, without their arguments."""
    plain = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    return [re.sub(r"^void ", "", name.partition("(")[0]) for name in plain.stdout.splitlines()]


def read(folder, source=HERE.parent):
    """All kernels of a build."""
    found = []
    for path in sorted(pathlib.Path(folder, "runtime/cuda").glob("*.usage")):
        found += [dict(k, file=path.name.partition(".")[0]) for k in kernels_of(path.read_text(encoding="utf-8"))]
    if not found:
        stop(f"{folder} has no kernels: expected a folder that was built with CUDA")
    folder = pathlib.Path(source, "runtime/cuda")
    headers = bounds_of(path.read_text(encoding="utf-8") for path in folder.rglob("*.cuh"))
    bounds = {path.stem: headers | bounds_of([path.read_text(encoding="utf-8")]) for path in folder.rglob("*.cu")}
    for k, name in zip(found, named([k["symbol"] for k in found])):
        k["name"] = f"{k['file']}: {name}"
        k["threads"] = bounds[k["file"]][re.split(r"[<(]", name)[0].split("::")[-1]]
    return found


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("folder", nargs="?", default="build", help="of the build (build)")
    found = read(args.parse_args().folder)
    print("registers  shared  stack  spilled  threads  occupancy  kernel")
    for k in sorted(found, key=lambda k: (-k["registers"], k["name"], k["arch"])):
        print(f"{k['registers']:9} {k['shared']:7} {k['stack']:6} {k['spilled']:8} {k['threads']:8} "
              f"{occupancy(k):9.0%}   sm_{k['arch']} {k['name']}")
    wrong = [fault for k in found for fault in faults_of(k)]
    print("\n".join(wrong) if wrong else
          f"{len(found)} kernels: each can start, none spills; occupancy at least {min(map(occupancy, found)):.0%}, "
          f"below a half in {sum(occupancy(k) < 0.5 for k in found)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
