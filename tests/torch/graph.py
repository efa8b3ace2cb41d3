# A graph of cases, as JSON.  SPDX-License-Identifier: Apache-2.0

CLASSES = 10


class Graph:
    """A graph of cases.  Each case's nodes are called CASE.SOMETHING; in front of
    the operator lies a 1x1 convolution or a linear layer, so that a wrong input
    gradient shows up as that layer's wrong weight gradient."""

    def __init__(self, name, shape):
        self.name, self.shape, self.heads = name, shape, []
        self.nodes = [{"name": "data", "op": "input", "shape": shape},
                      {"name": "labels", "op": "input", "shape": shape[:1], "dtype": "int32",
                       "classes": CLASSES}]

    def add(self, name, op, *ins, **attrs):
        self.nodes.append({"name": name, "op": op, "in": list(ins), **attrs})
        return name

    def front(self, case, channels=4, n=1, **attrs):
        """`n` trained tensors of the shape of the data but for the channels."""
        fronts = [self.add(f"{case}.front{i}", "conv2d", "data", out_channels=channels, kernel=1,
                           **attrs) for i in range(n)]
        return fronts[0] if n == 1 else fronts

    def features(self, case, features=12, **attrs):
        """A trained tensor [N, features]."""
        flat = self.add(f"{case}.flat", "reshape", "data", shape=[0, -1])
        return self.add(f"{case}.front", "linear", flat, out_features=features, **attrs)

    def head(self, case, x):
        """Whatever the case makes becomes a few bounded features among all cases'."""
        x = self.add(f"{case}.flatten", "reshape", x, shape=[0, -1])
        x = self.add(f"{case}.head", "linear", x, out_features=6)
        self.heads.append(self.add(f"{case}.bound", "tanh", x))

    def case(self, case, op, channels=4, **attrs):
        """One operator behind a 1x1 convolution."""
        self.head(case, self.add(f"{case}.op", op, self.front(case, channels), **attrs))

    def finish(self):
        features = self.add("features", "concat", *self.heads)
        logits = self.add("logits", "linear", features, out_features=CLASSES)
        self.add("loss", "softmax_cross_entropy", logits, "labels")
        return {"format": "ffsoap-graph", "version": 2, "name": self.name, "nodes": self.nodes}
