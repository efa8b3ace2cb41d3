"""What collectives of NCCL take: the formulas of simulator/price/collective_model.c, for bench/fit_collectives.py, which finds their
constants.  Bytes and microseconds throughout.  SPDX-License-Identifier: Apache-2.0"""
import math

PROTOCOLS = "ll", "ll128", "simple"
TREE_SHARE = 0.92  # what trees keep of a ring's bandwidth: NCCL's src/graph/tuning.cc


class Group:
    """Who takes part: `nodes` with `each` ranks, what a ring gets of the links inside, how many chains of trees
    do, and of the cards of a node."""

    def __init__(self, nodes, each, ring, chain=None, network=math.inf):
        self.nodes, self.each, self.network = nodes, each, network
        self.ring, self.chain = ring, ring / 2 if chain is None else chain
        self.n = nodes * each


def pipelined(latency, wire, ramp):
    """Chunks follow each other: the more of them, the shorter the first one's way, but the more latencies."""
    return latency + wire + ramp * math.sqrt(latency * wire)


def stages(nodes):
    return math.ceil(math.log2(nodes)) if nodes > 1 else 0


def latency(g, p, inside, between, hops, crossings):
    us = inside["collective"][p]["base_us"] + hops * inside["collective"][p]["hop_us"]
    if g.nodes > 1:
        us += between["collective"][p]["base_us"] + crossings * between["collective"][p]["hop_us"]
    return us


def ring_us(kind, g, p, inside, between, size):
    times = 2 if kind == "all-reduce" else 1
    own = inside["own"] / g.n
    carried = (times * (g.n - 1) / g.n + own) * size
    wire = 0
    if g.each > 1:
        if not g.ring > 0:
            return math.inf
        wire = carried / (g.ring * inside["collective"][p]["share"])
    if g.nodes > 1:
        wire = max(wire, carried / (g.network * between["collective"][p]["share"]))
    crossings = times * (g.nodes - 1)
    return pipelined(latency(g, p, inside, between, times * (g.n - 1) - crossings, crossings), wire, inside["ramp"])


def tree_us(g, p, inside, between, size):
    wire = 0
    if g.each > 1:
        if not g.chain > 0:
            return math.inf
        wire = size / (g.chain * TREE_SHARE * inside["collective"][p]["share"])
    if g.nodes > 1:
        passes = 2 if g.nodes > 2 else inside.get("tree_passes", 1)
        wire = max(wire, passes * size / (g.network * between["collective"][p]["share"]))
    return pipelined(latency(g, p, inside, between, 2 * (g.each - 1), 2 * stages(g.nodes)), wire, inside["ramp"])


def switch_us(g, inside, between, size):
    """Sums in the switch of a node (NVLS), between nodes a tree."""
    s = inside.get("sums")
    if not s or g.each < s["least"]:
        return math.inf
    us = s["base_us"]
    wire = size / (inside["line"] * s["share"])
    if g.nodes > 1:
        simple = between["collective"]["simple"]
        us += simple["base_us"] + 2 * stages(g.nodes) * simple["hop_us"]
        wire = max(wire, min(g.nodes - 1, 2) * size / (g.network * simple["share"]))
    return pipelined(us, wire, inside["ramp"])


def collective_us(kind, g, inside, between, size):
    best = math.inf
    for p in inside["collective"]:
        if g.nodes > 1 and p not in between["collective"]:
            continue
        best = min(best, ring_us(kind, g, p, inside, between, size))
        if kind == "all-reduce":
            best = min(best, tree_us(g, p, inside, between, size))
    if kind == "all-reduce":
        best = min(best, switch_us(g, inside, between, size))
    return best


def messages_us(rounds, sent, kept, link, where, between=None, rate=math.inf, crossing=0):
    """`rounds` messages of the busiest device: `sent` bytes inside a node over links of so many bytes a microsecond,
    `crossing` through cards of `rate`; `kept` is what it copies to itself."""
    best = math.inf
    for p, q in where["message"].items():
        us = q["base_us"] + (rounds - 1) * q["hop_us"]
        wire = (sent + where["message_own"] * kept) / (link * q["share"])
        if between:
            if p not in between["message"]:
                continue
            r = between["message"][p]
            us += r["base_us"] + (rounds - 1) * r["hop_us"]
            wire = max(wire, crossing / (rate * r["share"]))
        best = min(best, pipelined(us, wire, where["ramp"]))
    return best
