# Graphs that hold every operator of rows and sequences.
# SPDX-License-Identifier: Apache-2.0
import graphs


def recurrences():
    """Cells of every kind, on their own and one behind another that shares its weights."""
    g = graphs.Graph("recurrences", [4, 3, 5, 4])

    def sequence(name, features):
        x = g.add(f"{name}.steps", "reshape", g.front(f"{name}.x", 5), shape=[0, 5, -1])
        return g.add(f"{name}.in", "linear", x, out_features=features)

    def state(name, hidden):
        x = g.add(f"{name}.reshape", "reshape", g.features(name, hidden), shape=[0, 1, -1])
        return g.add(f"{name}.bound", "tanh", x)
    for op, gates, states, kind in (("rnn", 1, 1, {}), ("lstm", 4, 2, {}), ("gru", 3, 1, {}),
                                    ("gru", 3, 1, {"reset_first": True})):
        called = op + "-reset-first" * bool(kind)
        for case, hidden, attrs in (("plain", 3, {}), ("no-bias", 1, {"bias": False}),
                                    ("reverse", 4, {"reverse": True})):
            case = f"{called}-{case}"
            x = sequence(case, gates * hidden)
            g.head(case, g.add(f"{case}.op", op, x, **attrs, **kind))
        name = f"{called}-states"
        share = {"params": {"weight": f"{called}.w", "bias": f"{called}.b"}, **kind}
        memory = {"cell": True} if op == "lstm" else {}
        first = [state(f"{name}.state{i}", 3) for i in range(states)]
        g.add(f"{name}.a", op, sequence(f"{name}.a", 3 * gates), *first, **share, **memory)
        g.add(f"{name}.last", "slice", f"{name}.a", axis=1, start=4, stop=5)
        last = [f"{name}.last"] + [f"{name}.a#1"] * bool(memory)
        g.add(f"{name}.b", op, sequence(f"{name}.b", 3 * gates), *last, **share)
        g.head(name, g.add(f"{name}.both", "concat", f"{name}.a", f"{name}.b"))
    return g.finish()


def routes():
    """Places to experts, with slots for all and for some; results, and scores, as slots have them."""
    g = graphs.Graph("routes", [5, 3, 5, 4])
    for name, experts, attrs in (("first", 3, {"capacity": 6}), ("second", 4, {"choices": 2, "capacity": 4}),
                                 ("few", 3, {"choices": 2, "capacity": 1}), ("all", 4, {"choices": 2})):
        x = g.add(f"{name}.places", "reshape", g.front(f"{name}.x", 6), shape=[0, 6, -1])
        scores = g.add(f"{name}.in", "linear", x, out_features=experts)
        scores = g.add(f"{name}.scores", "softmax", scores, axis=2)
        mask = g.add(f"{name}.op", "route", scores, **attrs)
        taken = [g.add(f"{name}.{what}", "matmul", mask, of, transpose_a=True)
                 for what, of in (("taken", x), ("shares", scores))]
        g.head(name, g.add(f"{name}.both", "concat", *taken, axis=2))
    for name, experts, attrs in (("index", 3, {"choices": 2, "capacity": 3}), ("index-wide", 4, {"capacity": 2})):
        x = g.add(f"{name}.places", "reshape", g.front(f"{name}.x", 8 if name == "index" else 3), shape=[0, 5, -1])
        scores = g.add(f"{name}.in", "linear", x, out_features=experts)
        scores = g.add(f"{name}.scores", "softmax", scores, axis=2)
        took = g.add(f"{name}.op", "route", scores, index=True, **attrs)
        shares = g.add(f"{name}.shares", "mul", scores, took)
        slots = g.add(f"{name}.dispatch", "dispatch", x, f"{took}#1")
        slots = g.add(f"{name}.experts", "conv2d", slots, out_channels=6 * experts, kernel=1, groups=experts)
        g.head(name, g.add(f"{name}.combine", "combine", slots, shares, f"{took}#1"))
    return g.finish()


def attention():
    """Rows that look at each other, or at others."""
    g = graphs.Graph("attention", [4, 1, 12, 12])

    def case(name, size=4, heads=2, shared=1, rows=12, mask=(), own=True, **attrs):
        def project(what, n, features):
            x = g.front(f"{name}.{what}", 2, bias=False)
            x = g.add(f"{name}.{what}.rows", "reshape", x, shape=[0, n, -1])
            # what is added to all keys changes nothing
            return g.add(f"{name}.{what}", "linear", x, out_features=features,
                         bias=what != "k" or not own)
        q, k = project("q", rows, heads * shared * size), project("k", 12, heads * size)
        v = project("v", 12, heads * size) if own else k
        g.head(name, g.add(f"{name}.op", "attention", q, k, v, *mask, head_dim=size, **attrs))
    case("plain")
    case("causal", causal=True)
    case("one-head", size=5, heads=1)
    case("heads-of-one", size=1, heads=3, scale=0.7)
    case("grouped", heads=2, shared=3, causal=True)
    case("multi-query", size=3, heads=1, shared=4)
    case("few-queries", rows=4)
    case("many-queries-causal", rows=24, causal=True)
    case("keys-are-values", own=False)
    case("mask", mask=["data"])
    case("mask-causal", mask=["data"], causal=True, shared=2)
    g.add("mask-of-keys.data", "slice", "data", axis=2, stop=1)
    case("mask-of-keys", mask=["mask-of-keys.data"])
    case("dropout", dropout=0.4)
    case("dropout-causal", shared=2, causal=True, dropout=0.25)
    case("dropout-mask", own=False, mask=["data"], dropout=0.5)
    for name, size, attrs in (("rope", 8, {}), ("rope-base", 4, {"base": 3})):
        x = g.add(f"{name}.rows", "reshape", g.front(name, 2), shape=[0, 12, -1])
        g.head(name, g.add(f"{name}.op", "rope", x, head_dim=size, **attrs))
    return g.finish()


def words():
    """Tables of vectors, read once, twice, and by the layer that tells words."""
    g = graphs.Graph("words", [6, 1, 4, 4])
    g.case("image", "tanh")
    for name, shape in (("one", [6]), ("two", [6, 5]), ("three", [6, 3, 2]),
                        ("four", [6, 2, 3, 2])):
        g.nodes.append({"name": name, "op": "input", "shape": shape, "dtype": "int32",
                        "classes": 11})
        x = g.add(f"{name}.embed", "embedding", name, vocabulary=11, features=7)
        g.head(name, x if len(shape) > 1 else g.add(f"{name}.row", "reshape", x, shape=[0, 7, 1]))
    x = g.add("numbers.op", "cast", "two")
    g.head("numbers", g.add("numbers.mix", "linear", x, out_features=5))
    share = {"params": {"weight": "table"}}
    x = g.add("shared.a", "embedding", "one", vocabulary=13, features=8, **share)
    y = g.add("shared.b", "embedding", "two", vocabulary=13, features=8, **share)
    y = g.add("shared.flat", "reshape", y, shape=[0, -1])
    y = g.add("shared.act", "tanh", g.add("shared.fc", "linear", y, out_features=8))
    x = g.add("shared.sum", "mul", x, y)
    g.head("shared", g.add("shared.out", "linear", x, out_features=13, **share))
    return g.finish()
