"""Weights as safetensors: https://github.com/huggingface/safetensors.  SPDX-License-Identifier: Apache-2.0"""
import json
import os
import struct


def write(path, tensors):
    """Float32 tensors by name, one behind the other; the file appears whole or not at all."""
    header, at = {}, 0
    for name, t in tensors.items():
        size = 4 * t.numel()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{path}.part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            t = t.detach().cpu().float().contiguous()
            f.write(memoryview(t.view(-1).numpy()).cast("B") if t.numel() else b"")
    os.replace(f"{path}.part", path)
