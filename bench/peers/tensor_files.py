# SPDX-License-Identifier: MIT
"""Tensors of PyTorch to and from safetensors files (f32 alone), and the weights that Belfry keeps
channels last."""
import json
import struct

import numpy
import torch


def write_safetensors(path, tensors):
    """{name: tensor} as f32."""
    header, parts, at = {}, [], 0
    for name, t in tensors.items():
        raw = t.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_safetensors(path):
    """{name: f32 tensor}."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + x for x in entry["data_offsets"])
        out[name] = torch.from_numpy(numpy.frombuffer(raw[begin:end], "<f4").copy()).view(
            entry["shape"]
        )
    return out


def channels_last(t):
    """A convolution's weights [out, in, rows, columns] as [out, rows, columns, in]."""
    return t.permute(0, 2, 3, 1).contiguous() if t.dim() == 4 else t


def channels_first(t):
    """The reverse."""
    return t.permute(0, 3, 1, 2).contiguous() if t.dim() == 4 else t
