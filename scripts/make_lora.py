#!/usr/bin/env python3
"""Makes a LoRA adapter in PEFT's layout out of a fine-tuned checkpoint, and the merged checkpoint to compare with.

usage: scripts/make_lora.py BASE DONOR OUT [--rank 4] [--alpha 8] [--merged DIR]   (standard library only)

BASE and DONOR are Hugging Face directories of one model before and after training. For every matrix of the layers that
DONOR changed the adapter holds the best approximation of that rank of the difference (subspace iteration), so that
    W_base + alpha / rank * lora_B * lora_A   is as near to W_donor as that rank allows.
OUT receives adapter_config.json and adapter_model.safetensors (f32). --merged writes a copy of BASE whose weights are
that sum, in f32: whoever applies the adapter must compute what this checkpoint computes.
"""
import argparse
import json
import math
import pathlib
import random
import shutil
import sys
from array import array

from tensor_files import bf16_floats, read_safetensors, write_safetensors


def read(directory):
    """{name: (shape, array of floats)} of model.safetensors; bf16 and f32."""
    tensors = {}
    for name, (dtype, shape, data) in read_safetensors(pathlib.Path(directory) / "model.safetensors").items():
        if dtype not in ("F32", "BF16"):
            sys.exit(f"{directory}: '{name}' has dtype {dtype}; bf16 and f32 can be read")
        tensors[name] = (shape, bf16_floats(data) if dtype == "BF16" else array("f", data))
    return tensors


def write(path, tensors):
    write_safetensors(path, {n: ("F32", shape, values.tobytes()) for n, (shape, values) in tensors.items()}, {"format": "pt"})


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def orthonormal(vectors):
    """Gram-Schmidt; a vector that lies in the span of the others becomes zero."""
    done = []
    for v in vectors:
        before = math.sqrt(dot(v, v))
        for u in done:
            along = dot(u, v)
            v = [x - along * y for x, y in zip(v, u)]
        norm = math.sqrt(dot(v, v))
        done.append([x / norm for x in v] if norm > 1e-9 * before else [0.0] * len(v))
    return done


def low_rank(rows, rank, turns=8):
    """(up, down) of a matrix given by rows: up [rows][rank], down [rank][cols], up * down nearest to it."""
    columns = list(zip(*rows))
    chance = random.Random(len(rows) * 1000003 + len(columns))
    down = orthonormal([[chance.gauss(0, 1) for _ in columns] for _ in range(rank)])
    for _ in range(turns):
        left = orthonormal([[dot(row, v) for row in rows] for v in down])
        down = orthonormal([[dot(column, u) for column in columns] for u in left])
    return [[dot(row, v) for v in down] for row in rows], down


def flat(matrix):
    return array("f", (x for row in matrix for x in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("donor")
    parser.add_argument("out")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--alpha", type=float, default=8)
    parser.add_argument("--merged")
    asked = parser.parse_args()
    base, donor = read(asked.base), read(asked.donor)
    scale = asked.alpha / asked.rank

    adapter, targets = {}, set()
    for name, (shape, values) in base.items():
        if len(shape) != 2 or ".layers." not in name or donor[name][1] == values:
            continue
        cols = shape[1]
        change = [b - a for a, b in zip(values, donor[name][1])]
        up, down = low_rank([change[i : i + cols] for i in range(0, len(change), cols)], asked.rank)
        up = [[x / scale for x in row] for row in up]
        module = name.removesuffix(".weight")
        adapter[f"base_model.model.{module}.lora_A.weight"] = ([asked.rank, cols], flat(down))
        adapter[f"base_model.model.{module}.lora_B.weight"] = ([shape[0], asked.rank], flat(up))
        targets.add(module.rsplit(".", 1)[1])
        merged = array("f", values)
        for r, row in enumerate(flat(up)[i : i + asked.rank] for i in range(0, shape[0] * asked.rank, asked.rank)):
            for k, factor in enumerate(row):
                for c, x in enumerate(adapter[f"base_model.model.{module}.lora_A.weight"][1][k * cols : (k + 1) * cols]):
                    merged[r * cols + c] += scale * factor * x
        base[name] = (shape, merged)
    if not adapter:
        sys.exit("the two checkpoints do not differ in any matrix of a layer")

    out = pathlib.Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "adapter_model.safetensors", adapter)
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(asked.base), "bias": "none",
        "fan_in_fan_out": False, "inference_mode": True, "lora_alpha": asked.alpha, "lora_dropout": 0.0,
        "modules_to_save": None, "r": asked.rank, "target_modules": sorted(targets), "use_dora": False,
        "use_rslora": False,
    }
    (out / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    if asked.merged:
        shutil.copytree(asked.base, asked.merged, dirs_exist_ok=True)
        write(pathlib.Path(asked.merged) / "model.safetensors", base)
    print(f"{out}: rank {asked.rank}, {len(adapter) // 2} matrices of {', '.join(sorted(targets))}")


main()
