# ONNX files as exporters write them that are not here: protobuf messages by hand.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

FLOAT, INT64 = 1, 7


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def entries(number, texts):
    """metadata_props."""
    return b"".join(field(number, field(1, k) + field(2, v)) for k, v in texts.items())


def tensor(name, array):
    array = np.asarray(array)
    kind = INT64 if array.dtype.kind in "iu" else FLOAT
    array = array.astype("<i8" if kind == INT64 else "<f4")
    return (b"".join(field(1, n) for n in array.shape) + field(2, kind) + field(8, name) +
            field(9, array.tobytes()))


def info(name, shape, kind=FLOAT, **texts):
    dims = b"".join(field(1, field(1, n)) for n in shape)
    return (field(1, name) + field(2, field(1, field(1, kind) + field(2, dims))) +
            entries(4, {k.replace("__", "."): v for k, v in texts.items()}))


def attribute(name, value):
    if isinstance(value, float):
        return field(1, name) + varint(2 << 3 | 5) + np.float32(value).tobytes() + field(20, 1)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    if isinstance(value, np.ndarray):
        return field(1, name) + field(5, tensor("", value)) + field(20, 4)
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    return field(1, name) + b"".join(field(8, n) for n in value) + field(20, 7)


def node(op, inputs, outputs, texts=None, **attributes):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) +
            field(3, "node_" + outputs[0]) + field(4, op) +
            b"".join(field(5, attribute(k, v)) for k, v in attributes.items()) +
            entries(9, texts or {}))


def model(nodes, weights, inputs, outputs, values=(), texts=None, opset=20):
    """`weights`: arrays by name; the others: what functions above made."""
    graph = (b"".join(field(1, n) for n in nodes) + field(2, "main_graph") +
             b"".join(field(5, tensor(k, v)) for k, v in weights.items()) +
             b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs) +
             b"".join(field(13, v) for v in values) + entries(16, texts or {}))
    return field(1, 10) + field(2, "pytorch") + field(7, graph) + field(8, field(2, opset))
