#!/usr/bin/env python3
"""Speed and memory against sparsity: masks that keep 100, 50, 20 and 5 % of the FFN neurons at random, and the files that
`cortiq defrag` cuts from them. Writes docs/sparsity.json; scripts/plots.py draws it.

usage: scripts/sparsity.py MODEL_DIR [--quant q8] [--program build/release/cortiq]
MODEL_DIR: a dense checkpoint, large enough that decoding is bound by memory (for example 0.6 B weights).
"""
import json
import pathlib
import random
import struct
import sys
import tempfile

from program import ROOT, cortiq, option

QUANT = option("--quant", "q8")


def write_npy(path, layers, width, keep):
    """A bool array [layers, width] with round(keep·width) true values a row."""
    dice = random.Random(1)
    rows = b""
    for _ in range(layers):
        row = bytearray(width)
        for i in dice.sample(range(width), round(keep * width)):
            row[i] = 1
        rows += bytes(row)
    head = f"{{'descr': '|b1', 'fortran_order': False, 'shape': ({layers}, {width}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + rows)


def bench(file, *flags):
    said = json.loads(cortiq("bench", file, "-p", 64, "-n", 32, "-r", 5, "--json", *flags))
    return {k: said[k] for k in ("decode_tokens_per_second", "prefill_tokens_per_second", "decode_bytes_per_token", "rss_bytes", "read_bandwidth")}


def main():
    source = pathlib.Path(sys.argv[1])
    config = json.loads((source / "config.json").read_text())
    layers, width = config["num_hidden_layers"], config["intermediate_size"]
    rows = []
    with tempfile.TemporaryDirectory(prefix="cortiq-sparsity-") as work:
        work = pathlib.Path(work)
        file = work / "model.cmf"
        cortiq("convert", source, "-o", file, "--quant", QUANT)
        for sparsity in (0, 50, 80, 95):
            row = {"sparsity": sparsity}
            if sparsity == 0:
                row["masked"] = row["cut"] = bench(file, "--task", "none")
                row["masked_file"] = row["cut_file"] = file.stat().st_size
            else:
                keep = work / "keep.npy"
                write_npy(keep, layers, width, 1 - sparsity / 100)
                name = f"keep{100 - sparsity}"
                cortiq("mask", "add", file, "--name", name, "--ffn", keep)
                row["masked"] = bench(file, "--task", name)
                cut = work / "cut.cmf"
                cortiq("defrag", file, "--task", name, "-o", cut)
                row["cut"] = bench(cut)
                row["masked_file"], row["cut_file"] = file.stat().st_size, cut.stat().st_size
            rows.append(row)
            print(row, flush=True)
    (ROOT / "docs/sparsity.json").write_text(json.dumps({"model": config.get("model_type"), "layers": layers, "width": width, "quant": QUANT, "rows": rows}, indent=1))


main()
