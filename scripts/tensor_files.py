"""Safetensors files, with nothing but the standard library."""
import json
import pathlib
import struct
from array import array


def read_safetensors(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    return {
        name: (info["dtype"], info["shape"], data[8 + length + info["data_offsets"][0] : 8 + length + info["data_offsets"][1]])
        for name, info in header.items()
        if name != "__metadata__"
    }


def write_safetensors(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def bf16_floats(data):
    """The values of bf16 bytes: the upper halves of singles."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[::2], data[1::2]
    return array("f", bytes(wide))
