# Strategies for graphs: by hand and at random.
# SPDX-License-Identifier: Apache-2.0
import json


def graph_hash(text):
    """FNV-1a of the canonical text, which is what ffzoo writes."""
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def strategy(text, devices, operators, known_hash=None):
    """`operators`: {name: ({dim: degree}, [device] or view[, replicas])}, parameters
    among them; the operators that it does not have are split by sample.
    `known_hash`: of the graph, where `text` is not the canonical one."""
    graph = json.loads(text)
    chosen = {node["name"]: ({"sample": devices}, list(range(devices)))
              for node in graph["nodes"] if node["op"] != "input"}
    chosen.update(operators)
    entries = []
    for name, (degrees, where, *replicas) in chosen.items():
        entries.append({"name": name, "degrees": degrees, "devices": where})
        if replicas:
            entries[-1]["replicas"] = replicas[0]
    return {"format": "ffsoap-strategy", "version": 2, "graph": graph["name"],
            "graph_hash": known_hash or graph_hash(text), "machine": "hand", "devices": devices,
            "operators": entries}


def dims(node, shape, depth):
    """Names and extents of the dims of a node that writes `shape` (of the loss: reads
    it); `depth` is what a product sums over, of reductions the shape of what they read.  Of a
    reshape, the samples alone."""
    def named(rank):
        if rank == 4:
            return ["sample", "channel", "height", "width"]
        return ["sample", "feature"] if rank == 2 else ["sample"] + [
            f"axis{i}" for i in range(1, rank)]
    op, rank = node["op"], len(shape)
    spatial = ["length"] if rank == 3 else ["depth", "height", "width"][5 - rank:]
    if op.startswith("conv_transpose") and node.get("groups", 1) > 1:
        return list(zip(["sample", "group", *spatial], [shape[0], node["groups"], *shape[2:]]))
    if op.startswith("conv"):
        return list(zip(["sample", "out_channel", *spatial, "in_channel"], [*shape, depth]))
    if op.startswith("pool") or op in ("adaptive_pool", "upsample"):
        return list(zip(["sample", "channel", *spatial], shape))
    if op == "linear":
        middle = [f"axis{i}" for i in range(1, rank - 1)]
        return list(zip(["sample", *middle, "out_feature", "in_feature"], [*shape, depth]))
    if op == "reshape":
        return [("sample", shape[0])]
    if op == "softmax_cross_entropy":
        return [("sample", shape[0]), *zip(named(rank)[2:], shape[2:]), ("class", shape[1])]
    if op == "embedding":
        middle = [f"axis{i}" for i in range(1, rank - 1)]
        return list(zip(["sample", *middle, "feature", "vocabulary"], [*shape, depth]))
    if op == "attention":
        return [("sample", shape[0]), ("head", shape[2] // node["head_dim"]), ("query", shape[1]),
                ("key", depth)]
    if op == "rope":
        return [("sample", shape[0]), ("head", shape[2] // node["head_dim"]), ("position", shape[1])]
    if op == "matmul":
        middle = [f"axis{i}" for i in range(1, rank - 2)]
        return list(zip(["sample", *middle, "row", "column", "inner"], [*shape, depth]))
    if op in ("rnn", "lstm", "gru"):
        return [("sample", shape[0]), ("step", shape[1])]
    if op == "route":
        return [("sample", shape[0])]
    if op == "dispatch":
        return [("sample", shape[0]), ("slot", shape[2])]
    if op == "combine":
        return [("sample", shape[0]), ("place", shape[1])]
    if op.startswith("reduce_"):  # the axes of what it reads
        return list(zip(named(len(depth)), depth))
    if op in ("layer_norm", "rms_norm"):
        lead = rank - node.get("axes", 1)
        return list(zip(named(rank)[:lead], shape))
    if op in ("batch_norm", "local_response_norm"):
        return list(zip(named(max(rank, 4) if rank == 2 else rank)[:rank], shape))
    if op == "group_norm":
        return [("sample", shape[0]), ("group", node["groups"])]
    if op == "split":
        axis = node.get("axis", 1)
        shape = [n * node["parts"] if i == axis else n for i, n in enumerate(shape)]
    return list(zip(named(rank), shape))


def random_strategy(text, devices, shapes, depths, rng, known_hash=None):
    """Legal degrees at random on devices at random.  `shapes`: of what every node
    writes, the loss' being its logits'; `depths`: of what each product sums over."""
    operators = {}
    for node in json.loads(text)["nodes"]:
        if node["op"] == "input":
            continue
        degrees, parts = {}, 1
        axes = dims(node, shapes[node["name"]], depths.get(node["name"]))
        rng.shuffle(axes)
        for name, extent in axes:
            degree = rng.randint(1, min(extent, devices // parts))
            degrees[name] = degree
            parts *= degree
        operators[node["name"]] = (degrees, rng.sample(range(devices), parts))
    return strategy(text, devices, operators, known_hash)
