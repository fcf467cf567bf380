#!/usr/bin/env python3
"""Makes a hybrid checkpoint with a draft head larger without changing what it computes: models/nano-hybrid-mtp becomes a
model whose decoding is bound by memory, with the ids and the draft acceptance of the trained one (scripts/speculation.py).

usage: scripts/enlarge.py MODEL OUT [--hidden 1024] [--intermediate 3584] [--layers 24]   (standard library only)

Hidden states and neurons are padded with zeros. A norm over H' instead of H values gives sqrt(H'/H) times as much, so
its weights (stored as w of 1 + w) shrink by that and its epsilon by H/H'. Further layers add nothing: their output
projections are zero.
"""
import argparse
import json
import math
import pathlib
import shutil
import struct

from tensor_files import bf16_floats, read_safetensors, write_safetensors


def to_bf16(values):
    out = bytearray()
    for value in values:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)
    return bytes(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--intermediate", type=int, default=3584)
    parser.add_argument("--layers", type=int, default=24)
    asked = parser.parse_args()
    source, out = pathlib.Path(asked.model), pathlib.Path(asked.out)
    config = json.loads((source / "config.json").read_text())
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    period = config["full_attention_interval"]
    if asked.layers < layers or (asked.layers - layers) % period:
        parser.error(f"--layers: {layers} and a multiple of {period} more")
    tensors = {}
    for name, (dtype, shape, payload) in read_safetensors(source / "model.safetensors").items():
        assert dtype == "BF16", name
        tensors[name] = (shape, payload)

    shrink = math.sqrt(hidden / asked.hidden)
    whole_norms = ("layernorm.weight", "model.norm.weight", "mtp.norm.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight")

    def enlarge(name, shape, payload):
        if name.endswith(whole_norms):
            values = [(1 + w) * shrink - 1 for w in bf16_floats(payload)]
            return [asked.hidden], to_bf16(values + [0.0] * (asked.hidden - hidden))
        rows, cols = shape[0], shape[-1]
        if len(shape) != 2:
            return shape, payload
        parts = [cols]
        if name == "mtp.fc.weight":
            parts = [hidden, hidden]  # embedding and hidden state side by side
        elif name.endswith("down_proj.weight"):
            parts = None
        pads = [asked.intermediate - inner] if parts is None else [asked.hidden - hidden if p == hidden else 0 for p in parts]
        if name.endswith(("o_proj.weight", "out_proj.weight")):
            pads = [0]  # heads are as they were
        lines, at = [], 0
        for _ in range(rows):
            line = b""
            for part, pad in zip(parts or [cols], pads):
                line += payload[at : at + 2 * part] + bytes(2 * pad)
                at += 2 * part
            lines.append(line)
        wide = len(lines[0])
        if name.endswith(("gate_proj.weight", "up_proj.weight")):
            lines += [bytes(wide)] * (asked.intermediate - rows)
        elif name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "mtp.fc.weight")):
            lines += [bytes(wide)] * (asked.hidden - rows)
        return [len(lines), wide // 2], b"".join(lines)

    larger = {name: enlarge(name, *tensor) for name, tensor in tensors.items()}
    for layer in range(layers, asked.layers):
        for name in list(tensors):
            head = f"model.layers.{layer % period}."
            if name.startswith(head):
                shape, payload = larger[name]
                if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                    payload = bytes(len(payload))
                larger[f"model.layers.{layer}." + name[len(head) :]] = (shape, payload)

    shutil.copytree(source, out, dirs_exist_ok=True)
    named = {name: ("BF16", shape, payload) for name, (shape, payload) in larger.items()}
    write_safetensors(out / "model.safetensors", named, {"format": "pt"})
    config.update(
        hidden_size=asked.hidden,
        intermediate_size=asked.intermediate,
        num_hidden_layers=asked.layers,
        rms_norm_eps=config["rms_norm_eps"] * hidden / asked.hidden,
        layer_types=["full_attention" if (i + 1) % period == 0 else "linear_attention" for i in range(asked.layers)],
    )
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    print(f"{out}: {sum(len(payload) for _, payload in larger.values()) / 1e6:.0f} MB of bf16")


main()
