#!/usr/bin/env python3
"""Finds the constants of NCCL's collectives (graphs/machines/interconnects) from tables that were measured, and
checks them on tables and sizes that they were not fitted to.  The formulas are in bench/collectives.py.

usage: fit_collectives.py FOLDER [-o FILE] [--check [--results FILE]]

FOLDER has (docs/machines.md says from where)
  nccl_collectives.csv: source, gpu, gpus, nodes, topology, collective, dtype, bytes, us
  vidur_all_reduce.csv, vidur_send_recv.csv: system, gpus, gpus_per_node, bytes, min_us, median_us
  vtrain_nccl_allreduce.csv: gpu, gpus, topology, bytes, dtype, us_outofplace, us_inplace
  deepbench_allreduce.csv: gpu, gpus, bytes, us, algo
SPDX-License-Identifier: Apache-2.0"""
import argparse
import collections
import csv
import datetime
import json
import math
import pathlib
import re
import sys

import collectives as nccl
from figures import scatter

HERE = pathlib.Path(__file__).resolve().parent
INTERCONNECTS = HERE.parent / "graphs/machines/interconnects/nccl.json"
MEBI = 1 << 20
LEAST = 512  # bytes: below, nothing but noise changes
STEPS = 500  # of the search for constants, three times

# ---- what was measured ----

AIC = "ai-dynamo/aiconfigurator @ 095f58a (Apache-2.0)"
AWS = "aws-samples/awsome-distributed-training @ 7217859 (MIT-0)"
VIDUR = "microsoft/vidur @ 7d47513 (MIT)"
VTRAIN = "VIA-Research/vTrain @ f8dda84 (MIT)"
DEEPBENCH = "baidu-research/DeepBench @ da81ba7 (Apache-2.0)"
WEAVE = "coreweave/nccl-tests @ cb86553"
STAS = "stas00/ml-engineering"

# Bytes a microsecond of a link in one direction: its vendor's figure.
LINE = {"nvswitch-3": 300e3, "nvswitch-4": 450e3, "nvswitch-5": 900e3, "nvlink-2": 25e3, "nvlink-bridge": 300e3,
        "pcie-3": 15.75e3, "pcie-4": 31.5e3, "pcie-5": 63e3}
# How many rings of one link each close among the first so many devices of a DGX-1 with V100; where none does a chain
# is left (simulator/price/mesh.c finds both).
MESH = {2: (1, 0), 3: (2, 1), 4: (4, 2), 5: (0, 1), 6: (2, 1), 7: (4, 2), 8: (6, 3)}
KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
         "alltoall": "all-to-all"}

Row = collections.namedtuple("Row", "table inside between kind group size us")


def group_of(inside, nodes, each, network=math.inf):
    line = LINE[inside]
    if inside == "nvlink-2":
        rings, chains = MESH[each]
        return nccl.Group(nodes, each, rings * line, chains * line, network)
    return nccl.Group(nodes, each, line, None, network)


def table(folder, name):
    path = pathlib.Path(folder) / name
    try:
        with open(path, newline="") as f:
            return list(csv.DictReader(f))
    except OSError as e:
        sys.exit(f"fit_collectives.py: {path}: {e.strerror}")


def read_nccl_tests(folder):
    """nccl-tests and what wraps them.  Of the eight B200 and four nodes of them, and of twelve nodes of H100, the
    network is InfiniBand or RoCE of 400 Gb/s a GPU; the sources say no more."""
    inside = {"a100_sxm80": "nvswitch-3", "h100_sxm80": "nvswitch-4", "h200_sxm141": "nvswitch-4",
              "b200_sxm": "nvswitch-5"}
    network = {("a100_sxm80", 2): ("efa-100", 50e3), ("h100_sxm80", 2): ("efa-3200", 400e3),
               ("h100_sxm80", 12): ("infiniband", 400e3), ("b200_sxm", 4): ("infiniband", 400e3)}
    for r in table(folder, "nccl_collectives.csv"):
        nodes, gpus = int(r["nodes"]), int(r["gpus"])
        between, rate = network.get((r["gpu"], nodes), (None, math.inf))
        where = inside[r["gpu"]]
        yield Row(f"{r['source']} {r['gpu']} {r['collective']} {nodes}x{gpus // nodes}", where, between,
                  KINDS[r["collective"]], group_of(where, nodes, gpus // nodes, rate), int(r["bytes"]), float(r["us"]))


def read_vtrain(folder):
    for r in table(folder, "vtrain_nccl_allreduce.csv"):
        where = {"a100": "nvswitch-3", "v100": "nvlink-2"}[r["gpu"]]
        yield Row(f"vtrain {r['gpu']} all_reduce 1x{r['gpus']}", where, None, "all-reduce",
                  group_of(where, 1, int(r["gpus"])), int(r["bytes"]), float(r["us_inplace"]))


def read_vidur(folder):
    where = {("a100_dgx", 2): "nvswitch-3", ("a100_dgx", 4): "nvswitch-3", ("a100_dgx", 8): "nvswitch-3",
             ("h100_dgx", 2): "nvswitch-4", ("h100_dgx", 4): "nvswitch-4", ("h100_dgx", 8): "nvswitch-4",
             ("a100_pairwise_nvlink", 2): "nvlink-bridge", ("a100_pairwise_nvlink", 4): "pcie-4",
             ("h100_pairwise_nvlink", 2): "nvlink-bridge", ("h100_pairwise_nvlink", 4): "pcie-5"}
    for name, kind in ("vidur_all_reduce.csv", "all-reduce"), ("vidur_send_recv.csv", "message"):
        for r in table(folder, name):
            gpus, each = int(r["gpus"]), int(r["gpus_per_node"])
            if gpus != each or (kind == "message" and r["system"] == "h100_pairwise_nvlink"):
                continue  # a network that is not named; the same figures as a100_pairwise_nvlink
            inside = where[r["system"], each]
            yield Row(f"vidur {r['system']} {kind} {gpus // each}x{each}", inside, None, kind,
                      group_of(inside, 1, each), int(r["bytes"]), float(r["min_us"]))


def read_deepbench(folder):
    for r in table(folder, "deepbench_allreduce.csv"):
        if r["gpu"] in ("P100", "M40", "TitanX-Maxwell") and int(r["gpus"]) <= 8 and r["algo"].startswith("NCCL"):
            yield Row(f"deepbench {r['gpu']} all_reduce 1x{r['gpus']}", "pcie-3", None, "all-reduce",
                      group_of("pcie-3", 1, int(r["gpus"])), int(r["bytes"]), float(r["us"]))


def read_all(folder):
    rows = [r for read in (read_nccl_tests, read_vtrain, read_vidur, read_deepbench) for r in read(folder)]
    return [r for r in rows if r.size >= LEAST]


# ---- what is fitted ----

HOPS = "base_us", "hop_us", "share"
START = {"ll": (6.0, 0.7, 0.15), "ll128": (8.0, 1.3, 0.5), "simple": (12.0, 3.0, 0.8)}
FAR = {"ll": (1.0, 20.0, 0.2), "ll128": (1.0, 25.0, 0.5), "simple": (1.0, 40.0, 0.8)}
MESSAGE = {"ll": (6.0, 0.1), "simple": (10.0, 0.8)}
SUMS = 20.0, 0.6
ALL = "ll", "ll128", "simple"

Kind = collections.namedtuple("Kind", "name side tables protocols sums source like note", defaults=(None, None))


def kinds():
    """In an order in which what another is like comes first.  `tables`: names begin so.  A kind that is like another
    has its constants but for what its own tables tell."""
    bridge, mbridge = "vidur a100_pairwise_nvlink", "vidur h100_pairwise_nvlink"
    return [
        Kind("nvswitch-3", "inside", ("aiconfigurator a100", "vtrain a100", "vidur a100_dgx message"), ALL, False,
             [AIC, VTRAIN, VIDUR]),
        Kind("nvswitch-4", "inside", ("aiconfigurator h100", "vidur h100_dgx message"), ALL, True, [AIC, VIDUR]),
        Kind("nvswitch-5", "inside", ("stas00-ml-engineering b200_sxm all_reduce 1x8",), (), True, [STAS], "nvswitch-4",
             "Sums in the switch are fitted to one table; the rest is nvswitch-4's, as shares of the line rate."),
        Kind("nvswitch-2", "inside", (), (), False, [], "nvswitch-3", "Inferred, no table: nvswitch-3's constants."),
        Kind("nvlink-2", "inside", ("vtrain v100",), ("simple",), False, [VTRAIN], "nvswitch-3",
             "The line rate is that of one link between two GPUs.  No table tells of less than 1 MiB, nor of messages: "
             "latencies of ll, ll128 and messages are nvswitch-3's.  Two nodes take rings, as steps of 2020 and 2021 "
             "show (bench/unseen.csv, dlperf)."),
        Kind("nvlink-1", "inside", (), (), False, [], "nvlink-2", "Inferred, no table: nvlink-2's constants."),
        Kind("nvlink-bridge", "inside", (bridge + " all-reduce 1x2", bridge + " message"), ("simple",), False, [VIDUR],
             "nvswitch-3", "Pairs of PCIe cards.  ll and ll128 are nvswitch-3's."),
        Kind("pcie-3", "inside", ("deepbench P100", "deepbench M40", "deepbench TitanX-Maxwell"), ("simple",), False,
             [DEEPBENCH], "pcie", "ll and messages are inferred."),
        Kind("pcie-4", "inside", (bridge + " all-reduce 1x4",), ("simple",), False, [VIDUR], "pcie",
             "ll and messages are inferred."),
        Kind("pcie-5", "inside", (mbridge + " all-reduce 1x4",), ("simple",), False, [VIDUR], "pcie",
             "ll and messages are inferred."),
        Kind("efa-100", "between", ("aws-awsome-distributed a100",), ALL, False, [AWS], None,
             "Four cards of 100 Gb/s a node.  Messages are inferred from collectives."),
        Kind("efa-3200", "between", ("aws-awsome-distributed h100",), ALL, False, [AWS], None,
             "32 cards of 100 Gb/s a node.  Of two nodes the links inside are the limit, so the share of simple is "
             "inferred: 0.9.  Messages are inferred from collectives."),
        Kind("infiniband", "between", (), (), False, [TUNING], "far",
             "Latencies of hops and shares of the line rate are NCCL's own.  Sums in the network (SHARP), which a "
             "machine file asks for, send bytes once instead of twice: inferred."),
        Kind("ethernet", "between", (), (), False, [], "infiniband",
             "Inferred, no table: RDMA over Ethernet is taken to be as InfiniBand.  TCP is slower."),
    ]


TUNING = "NVIDIA/nccl, src/graph/tuning.cc, hwLat (BSD-3-Clause)"
# What NCCL takes a network's hop for, where no table tells.
INFINIBAND = {"ll": (0.0, 5.0, 0.25), "ll128": (0.0, 8.5, 0.85), "simple": (0.0, 14.0, 0.95)}
# A hop over PCI Express beside one over NVLink, as NCCL has them for ll, which has a quarter of simple's bandwidth.
PCI_HOPS, LL_SHARE = 1.0 / 0.6, 0.25
GIVEN_SHARE = {"efa-3200": 0.9}  # of simple, where no table tells
# Steps of 2020 and 2021 (bench/unseen.csv, dlperf) take two nodes' cards twice the bytes that trees would.
TREE_PASSES = {"nvlink-2": 2}


def named(values):
    return dict(zip(HOPS, values))


# ---- least absolute error of logarithms, by Nelder and Mead (Computer Journal 1965) ----

def simplex(loss, start, steps, size):
    n = len(start)
    points = [(loss(start), start)]
    for i in range(n):
        at = list(start)
        at[i] += size
        points.append((loss(at), at))
    for _ in range(steps):
        points.sort(key=lambda p: p[0])
        worst = points[-1]
        if worst[0] - points[0][0] < 1e-7:
            break
        mean = [sum(p[1][i] for p in points[:-1]) / n for i in range(n)]

        def on_line(t):
            at = [m + t * (w - m) for m, w in zip(mean, worst[1])]
            return loss(at), at

        turned = on_line(-1)
        if turned[0] < points[0][0]:
            points[-1] = min(turned, on_line(-2), key=lambda p: p[0])
        elif turned[0] < points[-2][0]:
            points[-1] = turned
        else:
            near = on_line(-0.5 if turned[0] < worst[0] else 0.5)
            if near[0] < min(turned[0], worst[0]):
                points[-1] = near
            else:
                best = points[0][1]
                moved = [[b + 0.5 * (v - b) for b, v in zip(best, p[1])] for p in points[1:]]
                points = [points[0]] + [(loss(at), at) for at in moved]
    return min(points, key=lambda p: p[0])[1]


def fit(make, rows, start, price):
    """The constants, positive numbers, by which `price` of `make(constants)` is nearest to what was measured."""
    def loss(logs):
        model = make([math.exp(v) for v in logs])
        error = sum(abs(math.log(price(model, r) / r.us)) for r in rows) / len(rows)
        shares = [v for v, is_share in zip(logs, make.shares) if is_share]
        return error + sum(max(v, 0) for v in shares)  # no share is over one

    at = [math.log(v) for v in start]
    for _ in range(3):
        at = simplex(loss, at, STEPS, 0.3)
    return [math.exp(v) for v in at]


# ---- models ----

def price_us(models, r):
    inside, between = models[r.inside], models.get(r.between)
    if r.kind == "message":
        return nccl.messages_us(1, r.size, 0, inside["line"], inside)
    if r.kind == "all-to-all":
        part = r.size / r.group.n
        return nccl.messages_us(r.group.n - 1, r.size - part, part, inside["line"], inside)
    return nccl.collective_us(r.kind, r.group, inside, between, r.size)


def collective_maker(kind, base):
    """Makes the model of a list of numbers, which `start` is the first of."""
    inside = kind.side == "inside"

    def make(v):
        model = {**base, "collective": dict(base.get("collective", {}))}
        v = list(v)
        if kind.protocols and inside:
            model["own"], model["ramp"] = v.pop(0), v.pop(0)
        for p in kind.protocols:
            model["collective"][p] = named([v.pop(0) for _ in HOPS])
        if kind.name in GIVEN_SHARE:
            model["collective"]["simple"]["share"] = GIVEN_SHARE[kind.name]
        if kind.sums:
            model["sums"] = {"base_us": v.pop(0), "share": v.pop(0), "least": 8}
        if kind.name.startswith("pcie"):
            simple = model["collective"]["simple"]
            model["collective"]["ll"] = {**base["collective"]["ll"], "share": LL_SHARE * simple["share"]}
        return model

    make.start = [0.4, 0.4] if kind.protocols and inside else []
    make.shares = [False] * len(make.start)
    for p in kind.protocols:
        make.start += (START if inside else FAR)[p]
        make.shares += [False, False, True]
    if kind.sums:
        make.start, make.shares = make.start + list(SUMS), make.shares + [False, True]
    return make


def message_maker(base):
    def make(v):
        each = {"hop_us": v[0]}
        return {**base, "message_own": v[1], "message": {
            p: {"base_us": v[2 + 2 * i], **each, "share": v[3 + 2 * i]} for i, p in enumerate(MESSAGE)}}

    make.start = [0.5, 0.4] + [v for p in MESSAGE for v in MESSAGE[p]]
    make.shares = [False, False] + [False, True] * len(MESSAGE)
    return make


def find_base(kind, models):
    """What a kind has before its tables are heard."""
    if kind.like == "far":
        return {"collective": {p: named(v) for p, v in INFINIBAND.items()}}
    if kind.like == "pcie":
        like = models["nvswitch-3"]
        ll = like["collective"]["ll"]
        return {**like, "collective": {"ll": {**ll, "hop_us": PCI_HOPS * ll["hop_us"]}}}
    return dict(models[kind.like]) if kind.like else {}


def add_messages(kind, base):
    """Inferred: at the share of collectives.  Between nodes a message is a hop, and the next waits for the card."""
    simple = base["collective"]["simple"]["share"]
    if kind.side == "between":
        base["message"] = {p: {"base_us": base["collective"][p]["hop_us"], "hop_us": 1.0,
                               "share": base["collective"][p]["share"]} for p in MESSAGE}
    else:
        scale = simple / base["message"]["simple"]["share"]
        base["message"] = {p: {**q, "share": scale * q["share"]} for p, q in base["message"].items()}
        base["message_own"] *= base["line"] / LINE["nvswitch-3"]  # a copy does not pass the links


def fit_kind(kind, rows, models):
    """Adds the kind to `models`; `rows`: those of its tables."""
    base = find_base(kind, models)
    if kind.name in TREE_PASSES:
        base["tree_passes"] = TREE_PASSES[kind.name]
    if kind.side == "inside":
        base["line"] = LINE.get(kind.name, 0)

    def price(model, r):
        return price_us({**models, kind.name: model}, r)

    told = [r for r in rows if r.kind not in ("all-to-all", "message")]
    if told:
        make = collective_maker(kind, base)
        base = make(fit(make, told, make.start, price))
    told = [r for r in rows if r.kind in ("all-to-all", "message")]
    if told:
        make = message_maker(base)
        base = make(fit(make, told, make.start, price))
    elif kind.protocols or kind.like == "far":
        add_messages(kind, base)
    if kind.name == "infiniband":
        base["sums"] = {"base_us": base["collective"]["simple"]["hop_us"], "share": 0.95, "least": 2}
    models[kind.name] = rounded(base)


def rounded(model):
    """To four digits, as files have them."""
    if isinstance(model, dict):
        return {k: rounded(v) for k, v in model.items()}
    return float(f"{model:.4g}") if isinstance(model, float) else model


def rows_of(kind, rows):
    return [r for r in rows if kind.tables and r.table.startswith(kind.tables)]


def fit_all(rows):
    models = {}
    for kind in kinds():
        fit_kind(kind, rows_of(kind, rows), models)
    return models


# ---- how far off it is ----

def told_of(rows):
    tables = collections.OrderedDict()
    for r in rows:
        tables.setdefault(r.table, []).append(r)
    return tables


def held_sizes(rows, models):
    """Every other size of a table is held out, then the others."""
    for kind in kinds():
        mine = rows_of(kind, rows)
        if not mine:
            continue
        tables, found = told_of(mine), {}
        for turn in 0, 1:
            kept = [r for t in tables.values() for i, r in enumerate(sorted(t, key=lambda r: r.size)) if i % 2 != turn]
            fitted = dict(models)
            fit_kind(kind, kept, fitted)
            for name, t in tables.items():
                found.setdefault(name, []).extend(
                    (fitted, r) for i, r in enumerate(sorted(t, key=lambda r: r.size)) if i % 2 == turn)
        for name, pairs in found.items():
            yield kind.name, name, pairs


def held_tables(rows, models):
    """Each table is held out while the others of its kind are fitted; what nothing was fitted to, as it is."""
    fitted_to = tuple(p for k in kinds() for p in k.tables)
    for kind in kinds():
        mine = told_of(rows_of(kind, rows))
        for name in mine if len(mine) > 1 else ():
            fitted = dict(models)
            fit_kind(kind, [r for r in rows_of(kind, rows) if r.table != name], fitted)
            yield kind.name, name, [(fitted, r) for r in mine[name]]
    for name, t in told_of(rows).items():
        if not name.startswith(fitted_to):
            yield t[0].between or t[0].inside, name, [(models, r) for r in t]


def errors(pairs):
    found = []
    for above in True, False:
        off = [abs(price_us(m, r) / r.us - 1) for m, r in pairs if (r.size >= MEBI) == above]
        found.append(round(100 * sum(off) / len(off), 1) if off else None)
    return found


def shown(percent):
    return f"{'-' if percent is None else percent:>6}"


def check(rows, models):
    """Prints errors; returns what results have of them, and the points of a figure."""
    figures, points = [], {}
    for what, held in ("sizes", held_sizes), ("tables", held_tables):
        every = []
        print(f"held out: {what}; mean absolute error in percent from 1 MiB on, and below")
        for kind, name, pairs in held(rows, models):
            above, below = errors(pairs)
            every += pairs
            if held is held_tables:
                points.setdefault(kind, []).extend(
                    (r.us, price_us(m, r), f"{name}, {r.size} bytes: {r.us:g} us, predicted {price_us(m, r):.3g}")
                    for m, r in pairs)
            print(f"  {kind:14} {name:62} {shown(above)} {shown(below)}")
            for size, value in ("from 1 MiB on", above), ("below 1 MiB", below):
                if value is not None:
                    figures.append({"of": f"{what} held out, {name}, {size}", "value": value, "unit": "%"})
        above, below = errors(every)
        print(f"  {'all':77} {above:>6} {below:>6}")
        for size, value in ("from 1 MiB on", above), ("below 1 MiB", below):
            figures.append({"of": f"{what} held out, all of them, {size}", "value": value, "unit": "%"})
    return figures, points


# ---- files ----

def file_of(models):
    rows = []
    for kind in kinds():
        m = models[kind.name]
        row = {"name": kind.name, "side": kind.side, "source": kind.source}
        if kind.note:
            row["note"] = kind.note
        row |= {key: m[key] for key in ("tree_passes", "own", "ramp", "message_own") if key in m}
        row |= {key: m[key] for key in ("collective", "message", "sums") if key in m}
        rows.append(row)
    return {"format": "ffsoap-interconnects", "version": 1,
            "source": "Fitted by bench/fit_collectives.py to tables of the repositories named beside each; the "
                      "formulas are in docs/simulator.md, \"As NCCL does them\".",
            "kinds": rows}


def write(models, path):
    text = json.dumps(file_of(models), indent=2)
    for _ in range(3):  # constants of a protocol stand in one line
        text = re.sub(r"\{\s+((?:\"\w+\": [-\d.e]+,?\s*)+)\}", lambda m: "{" + " ".join(m[1].split()) + "}", text)
    path.write_text(text + "\n")


def read(path):
    models = {k["name"]: k for k in json.loads(path.read_text())["kinds"]}
    for name, m in models.items():
        m["line"] = LINE.get(name, 0)
    return models


def save_results(path, figures):
    entry = {"id": "collectives-held-out", "machine": "tables", "date": datetime.date.today().isoformat(),
             "what": "Collectives of NCCL as simulator/price/collective_model.c prices them, against tables that the constants were not "
                     "fitted to: every other size of a table, and whole tables",
             "command": "bench/fit_collectives.py FOLDER --check --results FILE",
             "wanted": "a mean absolute error of 15 % from 1 MiB on, 30 % below", "figures": figures,
             "text": "Below 1 MiB sources differ among each other by what they count beside the kernel: 8 A100 take "
                     "26 us for 32 KiB in one, 44 us in another."}
    file = {"format": "ffsoap-results", "version": 1, "subject": "Collectives of NCCL, predicted", "machines": {},
            "entries": []}
    if path.exists():
        file = json.loads(path.read_text())
    file["machines"]["tables"] = "None: " + ", ".join((AIC, AWS, VIDUR, VTRAIN, DEEPBENCH, WEAVE, STAS))
    file["entries"] = [entry] + [e for e in file["entries"] if e["id"] != entry["id"]]
    path.write_text(json.dumps(file, indent=2, ensure_ascii=False) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("-o", type=pathlib.Path, metavar="FILE", help="where the constants go")
    p.add_argument("--check", action="store_true",
                   help="cross-validate (minutes); constants are read where -o is not given")
    p.add_argument("--results", type=pathlib.Path, metavar="FILE", help="with --check: the errors, for bench/results")
    p.add_argument("--svg", type=pathlib.Path, metavar="FILE",
                   help="with --check: a scatter plot of tables that were held out")
    args = p.parse_args()
    rows = read_all(args.folder)
    models = fit_all(rows) if args.o or not args.check else read(INTERCONNECTS)
    if args.o:
        write(models, args.o)
    if args.check:
        figures, points = check(rows, models)
        if args.svg:
            scatter(args.svg, "Collectives of tables held out, predicted and measured", points, unit="us")
        if args.results:
            save_results(args.results, figures)
    else:
        for name, t in told_of(rows).items():
            above, below = errors([(models, r) for r in t])
            print(f"{name:70} {shown(above)} {shown(below)}")


if __name__ == "__main__":
    main()
