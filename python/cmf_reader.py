#!/usr/bin/env python3
"""Reads, checks and decodes CMF v2 model files: an independent second reading of the specification.

    with CmfReader("model.cmf") as model:
        weights = model.tensor("model.layers.0.mlp.up_proj.weight")

    python3 cmf_reader.py info FILE [--json] [--digest]
    python3 cmf_reader.py verify FILE [--json] [--set] [--pubkey HEX]
    python3 cmf_reader.py dump FILE NAME [-o X.npy]

Needs numpy; signatures are checked if the package `cryptography` is there. A file is either valid or opening it raises
CmfError with a kind of the specification (§1.2). Section numbers in comments are the specification's.
"""
import argparse
import base64
import hashlib
import json
import mmap
import os
import re
import struct
import sys

import numpy as np

__version__ = "0.1.0"

MAGIC = b"CMF\x01"
ENVELOPE = 128
PAGE = 4096
RECORD = 56
KNOWN_FEATURES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6
FEATURE_NAMES = {0: "TENSOR_DIR", 1: "BINARY_MASKS", 2: "QUANT_2F", 3: "DELTA_MASKS", 4: "HOT_PACKS", 5: "LOOP_MASKS",
                 6: "SKILL_FILE"}
LOOP_MASKS, SKILL_FILE = 1 << 5, 1 << 6
SECTIONS = ("header", "dir", "data", "masks", "vocab", "index")
MAX_HEADER = 64 << 20
MAX_DEPTH = 256
WIDTHS = (3, 4, 5, 6, 8)
DTYPES = {0: "f32", 1: "f16", 2: "bf16", 3: "q8_row", 4: "q4_block", 6: "u8", 8: "vbit", 9: "q8_2f", 10: "vbit_ro",
          11: "q4_tiled", 12: "q1", 13: "q1s", 14: "q1t", 15: "q4tp"}
GROUPED = ("vbit", "vbit_ro", "q4_tiled", "q1", "q1s", "q1t", "q4tp")
MATRICES = GROUPED + ("q8_row", "q8_2f")


class CmfError(ValueError):
    """`kind` is one of InvalidMagic, UnsupportedVersion, UnsupportedFeature, Bounds, Parse, HashMismatch, Io, Unsupported."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def bounds(message):
    raise CmfError("Bounds", message)


def parse(message):
    raise CmfError("Parse", message)


# ---- hash64 (§8) ------------------------------------------------------------------------------------------------------

def _mix(x):
    x = x ^ x >> np.uint64(33)
    x = x * np.uint64(0xFF51AFD7ED558CCD)
    x = x ^ x >> np.uint64(33)
    x = x * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ x >> np.uint64(33)


def hash64(data):
    """The format's hash: fmix64 of every 64-bit word, salted with its position, folded by XOR."""
    data = memoryview(data).cast("B")
    total, step = np.uint64(0), 8 << 20
    with np.errstate(over="ignore"):
        for begin in range(0, len(data), step):
            part = data[begin:begin + step]
            whole = len(part) // 8 * 8
            words = np.frombuffer(part[:whole], "<u8")
            if whole < len(part):
                words = np.append(words, np.frombuffer(bytes(part[whole:]).ljust(8, b"\0"), "<u8"))
            salt = (np.arange(len(words), dtype=np.uint64) + np.uint64(begin // 8)) * np.uint64(0x9E3779B97F4A7C15)
            total ^= np.bitwise_xor.reduce(_mix(words) ^ salt)
        return int(_mix(np.array([total ^ np.uint64(len(data))], np.uint64))[0])


# ---- payload sizes and checks (§3.1, §3.2) -----------------------------------------------------------------------------

def _count(shape):
    total = 1
    for dim in shape:
        total *= dim
    return total


def _rows_cols(shape):
    return (shape[0], shape[1]) if len(shape) == 2 else (1, _count(shape))


def check_shape(dtype, shape, where):
    """The shapes a dtype is defined for."""
    if dtype in MATRICES and len(shape) != 2:
        parse(f"{where}: {dtype} is for matrices, the shape is {list(shape)}")
    if dtype in GROUPED and shape[1] % 32:
        parse(f"{where}: {dtype} needs columns in multiples of 32, the shape is {list(shape)}")
    if dtype == "q1s" and _count(shape) > 1 << 32:
        parse(f"{where}: q1s counts its outliers' places in 32 bits, the shape is {list(shape)}")
    if dtype == "q1t" and shape[1] > 65536:
        parse(f"{where}: q1t has at most 65536 columns, the shape is {list(shape)}")


def fixed_size(dtype, shape):
    """nbytes of the dtypes with a formula, None for those whose payload says how long it is."""
    n = _count(shape)
    if dtype in ("f32", "f16", "bf16", "u8"):
        return n * {"f32": 4, "f16": 2, "bf16": 2, "u8": 1}[dtype]
    if dtype == "q4_block":
        return 18 * ((n + 31) // 32)
    rows, cols = _rows_cols(shape)
    groups = cols // 32
    return {"q8_row": n + 2 * rows, "q8_2f": n + 2 * rows + (2 * cols if rows else 0), "q4_tiled": 18 * rows * groups, "q1": 6 * rows * groups,
            "q4tp": rows * groups * 16 + 4 * rows + rows * ((5 * groups + 7) // 8)}.get(dtype)


def check_payload(dtype, shape, data, where):
    """Bounds unless the payload has exactly the length that dtype, shape and its own plan give."""
    want = fixed_size(dtype, shape)
    if want is None:
        rows, cols = shape
        groups = rows * (cols // 32)
        check = {"vbit": _check_vbit, "vbit_ro": _check_vbit, "q1s": _check_q1s, "q1t": _check_q1t}[dtype]
        check(dtype, rows, cols, groups, data, where)
    elif want != len(data):
        bounds(f"{where}: {len(data)} bytes, {dtype} of shape {list(shape)} has {want}")


def _check_vbit(dtype, rows, cols, groups, data, where):
    head = rows + 2 * groups + (4 * (rows + 1) if dtype == "vbit_ro" else 0)
    if len(data) < head:
        bounds(f"{where}: {len(data)} bytes, the widths and scales alone have {head}")
    widths = np.frombuffer(data, np.uint8, rows)
    if not np.isin(widths, WIDTHS).all():
        row = int(np.flatnonzero(~np.isin(widths, WIDTHS))[0])
        bounds(f"{where}: row {row} has {widths[row]} bits a value, allowed are {WIDTHS}")
    lengths = widths.astype(np.int64) * (cols // 8)
    if dtype == "vbit_ro":
        offsets = np.frombuffer(data, "<u4", rows + 1, rows + 2 * groups).astype(np.int64)
        if offsets[0] != 0 or not np.array_equal(np.diff(offsets), lengths):
            bounds(f"{where}: the row offsets do not follow from the widths")
    if head + int(lengths.sum()) != len(data):
        bounds(f"{where}: {len(data)} bytes, the widths need {head + int(lengths.sum())}")


def _check_q1s(dtype, rows, cols, groups, data, where):
    base = 6 * groups
    if len(data) < base + 4:
        bounds(f"{where}: {len(data)} bytes, the tiles and the count alone have {base + 4}")
    count = struct.unpack_from("<I", data, base)[0]
    if base + 4 + 6 * count != len(data):
        bounds(f"{where}: {count} outliers do not fit {len(data)} bytes")
    index = np.frombuffer(data, np.dtype([("at", "<u4"), ("value", "<f2")]), count, base + 4)["at"].astype(np.int64)
    if count and (index[-1] >= rows * cols or (np.diff(index) <= 0).any()):
        bounds(f"{where}: outlier indices are not ascending or lie outside the tensor")


def _check_q1t(dtype, rows, cols, groups, data, where):
    base = 9 * groups
    if len(data) < base + 4 * (rows + 1):
        bounds(f"{where}: {len(data)} bytes, the tiles and row table alone have {base + 4 * (rows + 1)}")
    start = np.frombuffer(data, "<u4", rows + 1, base).astype(np.int64)
    if start[0] != 0 or (np.diff(start) < 0).any() or base + 4 * (rows + 1) + 4 * int(start[-1]) != len(data):
        bounds(f"{where}: the row table does not fit the outliers")
    cells = np.frombuffer(data, np.dtype([("col", "<u2"), ("value", "<f2")]), int(start[-1]), base + 4 * (rows + 1))["col"]
    row = np.repeat(np.arange(rows), np.diff(start))
    flat = row * cols + cells.astype(np.int64)
    if len(cells) and (int(cells.max()) >= cols or (np.diff(flat) <= 0).any()):
        bounds(f"{where}: outlier columns are not ascending or lie outside the row")


# ---- decoding (§3.2) ------------------------------------------------------------------------------------------------

def _f16(data, count, offset=0):
    return np.frombuffer(data, "<f2", count, offset).astype(np.float32)


def _nibbles(packed):
    """Element 2k is the low nibble of byte k, 2k+1 the high one; values −8 … 7."""
    out = np.empty(packed.shape[:-1] + (packed.shape[-1] * 2,), np.float32)
    out[..., 0::2] = packed & 15
    out[..., 1::2] = packed >> 4
    return out - np.float32(8)


def _decode_q8_row(data, rows, cols):
    quants = np.frombuffer(data, np.int8, rows * cols).reshape(rows, cols).astype(np.float32)
    return quants * _f16(data, rows, rows * cols)[:, None]


def _decode_q8_2f(data, rows, cols):
    quants = np.frombuffer(data, np.int8, rows * cols).reshape(rows, cols).astype(np.float32)
    return quants * _f16(data, rows, rows * cols)[:, None] * _f16(data, cols, rows * cols + 2 * rows)[None, :]


def _decode_q4_block(data, n):
    groups = (n + 31) // 32
    values = _nibbles(np.frombuffer(data, np.uint8, groups * 16).reshape(groups, 16))
    return (values * _f16(data, groups, groups * 16)[:, None]).reshape(-1)[:n]


def _decode_q4_tiled(data, rows, cols):
    tiles = np.frombuffer(data, np.dtype([("scale", "<f2"), ("q", np.uint8, 16)]), rows * cols // 32)
    return (_nibbles(tiles["q"]) * tiles["scale"].astype(np.float32)[:, None]).reshape(rows, cols)


# 2^x of these halves (bits) differs in the reference's single-precision exp2 from the rounded exact value, by one unit in
# the last place: upwards for the first list, downwards for the second.
_EXP2_UP = (0x1bf5, 0x21a6, 0x22d3, 0x2d80, 0x3263, 0x3352, 0x3749, 0x3959, 0x3c58, 0x402c, 0x422c, 0x4416, 0x4516,
            0x4616, 0x4716, 0x480b, 0x488b, 0x490b, 0x498b, 0x4a0b, 0x4a8b, 0x4b0b, 0x4b8b, 0x9df8, 0x9f35, 0xb54e,
            0xbb50, 0xbfa8, 0xc1d4, 0xc3d4, 0xc4ea, 0xc5ea, 0xc6ea, 0xc7ea, 0xc875, 0xc8f5, 0xc975, 0xc9f5, 0xca75,
            0xcaf5, 0xcb75, 0xcbf5)
_EXP2_DOWN = ()


def _exp2(halves):
    """2^x of an array of halves, as the reference's exp2f gives it."""
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp2(halves.astype(np.float64)).astype(np.float32)
    bits = halves.view("<u2")
    unit = np.isin(bits, _EXP2_UP).astype(np.int32) - np.isin(bits, _EXP2_DOWN).astype(np.int32)
    return (exact.view(np.int32) + unit).view(np.float32)


def _q4tp_ladder(data, rows, groups):
    """Scale of every rung of every row: the first is 2^lo, each next one 2^step times as large, in single precision."""
    parameters = np.frombuffer(data, "<f2", rows * 2, rows * groups * 16).reshape(rows, 2)
    rungs = np.empty((rows, 32), np.float32)
    rungs[:, 0] = _exp2(np.ascontiguousarray(parameters[:, 0]))
    ratio = _exp2(np.ascontiguousarray(parameters[:, 1]))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for i in range(1, 32):
            rungs[:, i] = rungs[:, i - 1] * ratio
    return parameters, rungs


def _decode_q4tp(data, rows, cols):
    groups = cols // 32
    packed = (5 * groups + 7) // 8
    values = _nibbles(np.frombuffer(data, np.uint8, rows * groups * 16).reshape(rows, groups, 16))
    rungs = _q4tp_ladder(data, rows, groups)[1]
    codes = np.frombuffer(data, np.uint8, rows * packed, rows * groups * 16 + 4 * rows).reshape(rows, packed)
    bits = np.unpackbits(codes, axis=1, bitorder="little")[:, :groups * 5].reshape(rows, groups, 5)
    code = (bits * (1 << np.arange(5))).sum(axis=2)
    return (values * np.take_along_axis(rungs, code, axis=1)[:, :, None]).reshape(rows, cols)


def _decode_vbit(data, rows, cols, with_offsets):
    groups = cols // 32
    widths = np.frombuffer(data, np.uint8, rows)
    scales = _f16(data, rows * groups, rows).reshape(rows, groups)
    packed = np.frombuffer(data, np.uint8)[rows + 2 * rows * groups + (4 * (rows + 1) if with_offsets else 0):]
    lengths = widths.astype(np.int64) * (cols // 8)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    out = np.empty((rows, cols), np.float32)
    for width in WIDTHS:
        some = np.flatnonzero(widths == width)
        if not len(some):
            continue
        rows_of = packed[starts[some][:, None] + np.arange(width * cols // 8)]
        bits = np.unpackbits(rows_of, axis=1).reshape(len(some), cols, width)
        codes = (bits * (1 << np.arange(width - 1, -1, -1))).sum(axis=2).astype(np.float32)
        values = codes - np.float32((1 << width - 1) - 1)
        out[some] = (values.reshape(len(some), groups, 32) * scales[some][:, :, None]).reshape(len(some), cols)
    return out


def _decode_q1(data, rows, cols):
    tiles = np.frombuffer(data, np.dtype([("scale", "<f2"), ("bits", np.uint8, 4)]), rows * cols // 32)
    positive = np.unpackbits(tiles["bits"], axis=1, bitorder="little").astype(bool)
    scale = tiles["scale"].astype(np.float32)[:, None]
    return np.where(positive, scale, -scale).reshape(rows, cols)


def _overlay(data, dtype, rows, cols):
    """Outliers of q1s (at, value) and q1t (col, value); their number stands in front of them."""
    if dtype == "q1s":
        base = 6 * rows * cols // 32
        count = struct.unpack_from("<I", data, base)[0]
        return np.frombuffer(data, np.dtype([("at", "<u4"), ("value", "<f2")]), count, base + 4)
    base = 9 * rows * cols // 32
    count = struct.unpack_from("<I", data, base + 4 * rows)[0]
    return np.frombuffer(data, np.dtype([("col", "<u2"), ("value", "<f2")]), count, base + 4 * (rows + 1))


def _decode_q1s(data, rows, cols):
    out = _decode_q1(data, rows, cols).reshape(-1)
    overlay = _overlay(data, "q1s", rows, cols)
    out[overlay["at"]] = overlay["value"].astype(np.float32)
    return out.reshape(rows, cols)


def _decode_q1t(data, rows, cols):
    tiles = np.frombuffer(data, np.dtype([("scale", "<f2"), ("codes", np.uint8, 7)]), rows * cols // 32)
    codes = tiles["codes"][:, :, None] // np.array([1, 3, 9, 27, 81], np.uint8) % 3
    codes = codes.reshape(len(tiles), 35)[:, :32]
    scale = tiles["scale"].astype(np.float32)[:, None]
    out = np.where(codes == 1, scale, np.where(codes == 2, -scale, np.float32(0))).reshape(rows, cols)
    start = np.frombuffer(data, "<u4", rows + 1, 9 * rows * cols // 32).astype(np.int64)
    overlay = _overlay(data, "q1t", rows, cols)
    out[np.repeat(np.arange(rows), np.diff(start)), overlay["col"]] = overlay["value"].astype(np.float32)
    return out


def dequant(raw, dtype, shape):
    """Values of a payload: float16 for f16, uint8 for u8, float32 for everything else. `dtype`: name or id (§3.1)."""
    dtype = DTYPES.get(dtype, dtype)
    if dtype not in DTYPES.values():
        parse(f"dtype {dtype!r} is unknown or reserved")
    shape = tuple(shape)
    check_shape(dtype, shape, "payload")
    check_payload(dtype, shape, raw, "payload")
    n = _count(shape)
    if n == 0:
        return np.zeros(shape, {"f16": np.float16, "u8": np.uint8}.get(dtype, np.float32))
    rows, cols = _rows_cols(shape)
    values = {
        "f32": lambda: np.frombuffer(raw, "<f4", n).copy(),
        "f16": lambda: np.frombuffer(raw, "<f2", n).copy(),
        "bf16": lambda: (np.frombuffer(raw, "<u2", n).astype(np.uint32) << 16).view(np.float32),
        "u8": lambda: np.frombuffer(raw, np.uint8, n).copy(),
        "q8_row": lambda: _decode_q8_row(raw, rows, cols),
        "q8_2f": lambda: _decode_q8_2f(raw, rows, cols),
        "q4_block": lambda: _decode_q4_block(raw, n),
        "q4_tiled": lambda: _decode_q4_tiled(raw, rows, cols),
        "q4tp": lambda: _decode_q4tp(raw, rows, cols),
        "vbit": lambda: _decode_vbit(raw, rows, cols, False),
        "vbit_ro": lambda: _decode_vbit(raw, rows, cols, True),
        "q1": lambda: _decode_q1(raw, rows, cols),
        "q1s": lambda: _decode_q1s(raw, rows, cols),
        "q1t": lambda: _decode_q1t(raw, rows, cols),
    }
    with np.errstate(invalid="ignore", over="ignore"):  # scales that are not finite are verify's business
        return values[dtype]().reshape(shape)


def _first(bad):
    found = np.flatnonzero(bad)
    return int(found[0]) if len(found) else None


def _bad_value(data, dtype, shape):
    """Where a stored scale or value is not finite or a code is none that a writer has, in words, or None."""
    if _count(shape) == 0 or dtype == "u8":
        return None
    rows, cols = _rows_cols(shape)
    groups = cols // 32
    if dtype in ("f32", "f16", "bf16"):
        at = _first(~np.isfinite(dequant(data, dtype, shape)).reshape(-1))
        return None if at is None else f"value {at} is not finite"
    if dtype == "q4tp":
        parameters, rungs = _q4tp_ladder(data, rows, groups)
        at = _first(~np.isfinite(parameters).all(axis=1) | ~np.isfinite(rungs[:, -1]))
        return None if at is None else f"the scales of row {at} are not finite"
    tile = {"q4_tiled": 18, "q1": 6, "q1s": 6, "q1t": 9}.get(dtype)
    if tile:
        scales = np.ndarray((rows * groups,), "<f2", data, 0, (tile,))
    elif dtype == "q4_block":
        blocks = (_count(shape) + 31) // 32
        scales = np.frombuffer(data, "<f2", blocks, blocks * 16)
    elif dtype in ("vbit", "vbit_ro"):
        scales = np.frombuffer(data, "<f2", rows * groups, rows)
    else:
        scales = np.frombuffer(data, "<f2", rows + (cols if dtype == "q8_2f" else 0), rows * cols)
    at = _first(~np.isfinite(scales))
    if at is not None:
        if dtype in ("q8_row", "q8_2f"):
            return f"the scale of row {at} is not finite" if at < rows else f"the field of column {at - rows} is not finite"
        return f"the scale of group {at} is not finite"
    if dtype == "q1t":
        codes = np.ndarray((rows * groups, 7), np.uint8, data, 2, (9, 1))
        at = _first((codes >= np.array([243] * 6 + [9])).any(axis=1))
        if at is not None:
            return f"the codes of group {at} are more than ternary digits give"
    if dtype in ("q1s", "q1t"):
        at = _first(~np.isfinite(_overlay(data, dtype, rows, cols)["value"]))
        return None if at is None else f"outlier {at} is not finite"
    return None


# ---- JSON (§2) --------------------------------------------------------------------------------------------------------

def strict_json(data, where):
    """JSON as RFC 8259 has it: UTF-8 without a byte-order mark, no repeated keys, no NaN, nesting of at most 256."""
    try:
        text = bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        parse(f"{where}: not UTF-8 ({error.reason} at byte {error.start})")
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.S):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if depth > MAX_DEPTH:
            parse(f"{where}: nested deeper than {MAX_DEPTH}")

    def pairs(items):
        result = dict(items)
        if len(result) != len(items):
            seen = set()
            key = next(k for k, _ in items if k in seen or seen.add(k))
            parse(f"{where}: the key {key!r} stands twice in one object")
        if any("\ud800" <= c <= "\udfff" for key in result for c in key):
            parse(f"{where}: a key has a lone surrogate")
        return result

    def constant(name):
        parse(f"{where}: {name} is no JSON")

    def integer(digits):
        return int(digits) if len(digits) < 64 and digits != "-0" else float(digits)

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=integer)
    except CmfError:
        raise
    except (ValueError, RecursionError) as error:
        parse(f"{where}: not valid JSON: {error}")


_ABSENT = object()


class Fields:
    """The typed keys of a JSON object. Unknown keys are ignored; a key of another type is Parse, with its path."""

    def __init__(self, value, path):
        if not isinstance(value, dict):
            parse(f"{path}: must be an object")
        self.value, self.path = value, path

    def wrong(self, key, what):
        parse(f"{self.path}.{key}: {what}")

    def get(self, key, read, default=_ABSENT):
        """A default of None means that null is as good as absent; without a default the key is required."""
        found = self.value.get(key, _ABSENT)
        if found is _ABSENT or (found is None and default is None):
            if default is _ABSENT:
                self.wrong(key, "is missing")
            return default
        return getattr(self, read)(key, found)

    def integer(self, key, value):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.wrong(key, f"must be a whole number, not {value!r}")
        if value > 1 << 53:
            self.wrong(key, f"{value} is more than 2^53")
        return value

    def size(self, key, value):
        if self.integer(key, value) >= 1 << 32:
            self.wrong(key, f"{value} is not below 2^32")
        return value

    def shard_number(self, key, value):
        if self.integer(key, value) > 99999:
            self.wrong(key, f"{value} has more than five digits")
        return value

    def number(self, key, value):
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not np.isfinite(float(value)):
            self.wrong(key, f"must be a finite number, not {value!r}")
        return float(value)

    def boolean(self, key, value):
        if not isinstance(value, bool):
            self.wrong(key, f"must be true or false, not {value!r}")
        return value

    def string(self, key, value):
        if not isinstance(value, str):
            self.wrong(key, f"must be a string, not {value!r}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self.wrong(key, "has a lone surrogate")
        return value

    def array(self, key, value):
        if not isinstance(value, list):
            self.wrong(key, f"must be a list, not {value!r}")
        return value

    def object(self, key, value):
        if not isinstance(value, dict):
            self.wrong(key, f"must be an object, not {value!r}")
        return value

    def sizes(self, key, value):
        return [self.size(f"{key}[{i}]", one) for i, one in enumerate(self.array(key, value))]

    def integers(self, key, value):
        return [self.integer(f"{key}[{i}]", one) for i, one in enumerate(self.array(key, value))]

    def numbers(self, key, value):
        return [self.number(f"{key}[{i}]", one) for i, one in enumerate(self.array(key, value))]

    def strings(self, key, value):
        return [self.string(f"{key}[{i}]", one) for i, one in enumerate(self.array(key, value))]

    def choice(self, key, allowed, default=_ABSENT):
        value = self.get(key, "string", default)
        if value is not default and value not in allowed:
            self.wrong(key, f"{value!r} is none of {', '.join(allowed)}")
        return value

    def positive(self, key, default=_ABSENT):
        value = self.get(key, "number", default)
        if value is not default and value <= 0:
            self.wrong(key, f"must be larger than 0, not {value}")
        return value

    def inner(self, key):
        found = self.value.get(key)
        return None if found is None else Fields(found, f"{self.path}.{key}")


QUANT_TYPES = ("Q8_ROW", "Q4_BLOCK", "Q8_2F", "VBIT", "BF16", "F16", "F32")
LAYER_TYPES = ("FullAttention", "SlidingAttention", "LinearAttention", "ShortConv", "Kda")
HEX16 = re.compile(r"[0-9a-fA-F]{16}\Z")


def check_arch(value):
    """header.arch: every key that has a meaning, with its type and range."""
    arch = Fields(value, "header.arch")
    arch.get("arch_name", "string")
    for key in ("hidden_size", "intermediate_size", "num_layers", "num_attention_heads", "num_kv_heads", "head_dim", "vocab_size"):
        arch.get(key, "size")
    arch.get("max_position_embeddings", "integer")
    layers, heads, kv_heads = value["num_layers"], value["num_attention_heads"], value["num_kv_heads"]
    types = arch.get("layer_types", "strings")
    for i, one in enumerate(types):
        if one not in LAYER_TYPES:
            arch.wrong(f"layer_types[{i}]", f"{one!r} is none of {', '.join(LAYER_TYPES)}")
    if len(types) != layers:
        arch.wrong("layer_types", f"{len(types)} entries for {layers} layers")
    if kv_heads == 0 or heads % kv_heads:
        arch.wrong("num_kv_heads", f"{kv_heads} does not divide num_attention_heads, {heads}")
    if arch.get("rms_norm_eps", "number") < 0:
        arch.wrong("rms_norm_eps", "must not be negative")
    arch.choice("norm_style", ("qwen", "gemma"), "qwen")
    arch.positive("rope_theta", 10000.0)
    arch.get("tie_word_embeddings", "boolean", False)
    arch.get("partial_rotary_factor", "number", 1.0)
    arch.choice("hidden_act", ("silu", "gelu_tanh", "situ"), "silu")
    arch.get("embed_multiplier", "number", 1.0)
    arch.positive("query_pre_attn_scalar", None)
    arch.positive("rope_local_base_freq", None)
    for key in ("sliding_window", "sliding_window_pattern"):
        arch.get(key, "integer", None)
    for key in ("global_head_dim", "num_global_kv_heads", "head_clusters",
                "linear_conv_kernel_dim", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
                "linear_value_head_dim"):
        arch.get(key, "size", None)
    for key in ("local_partial_rotary_factor", "global_partial_rotary_factor", "final_logit_softcapping",
                "attn_logit_softcapping", "activation_situ_beta", "activation_situ_linear_beta", "logit_multiplier",
                "kda_gate_lower_bound"):
        arch.get(key, "number", None)
    for key in ("attn_v_norm", "loop_final_norm"):
        arch.get(key, "boolean", False)
    per_layer = arch.get("attention_heads_per_layer", "sizes", None)
    if per_layer is not None and (len(per_layer) != layers or any(h == 0 or h % kv_heads for h in per_layer)):
        arch.wrong("attention_heads_per_layer", "must have a multiple of num_kv_heads for each layer")
    if any(f <= 0 for f in arch.get("rope_freq_factors", "numbers", None) or []):
        arch.wrong("rope_freq_factors", "must be larger than 0")
    if not 1 <= arch.get("num_loops", "integer", 1) <= 1024:
        arch.wrong("num_loops", "must be from 1 to 1024")
    rotated = arch.get("no_rope_layers", "integers", None)
    if rotated is not None and (len(rotated) != layers or any(one > 1 for one in rotated)):
        arch.wrong("no_rope_layers", "must have a 0 or a 1 for each layer")
    _check_blocks(arch)


def _check_blocks(arch):
    """The optional objects inside arch: required keys, then optional ones."""
    blocks = {
        "yarn": ({"factor": "number", "original_max_position_embeddings": "integer"},
                 {"beta_fast": "number", "beta_slow": "number", "attention_factor": "number", "mscale_all_dim": "number?"}),
        "mla": ({"kv_lora_rank": "size", "qk_rope_head_dim": "size", "qk_nope_head_dim": "size", "v_head_dim": "size"},
                {"q_lora_rank": "size?", "nope": "boolean"}),
        "mtp": ({"num_layers": "size"}, {"share_lm_head": "boolean", "share_embed": "boolean"}),
        "moe": ({"num_experts": "size", "top_k": "size", "moe_intermediate_size": "size"},
                {"norm_topk_prob": "boolean", "shared_expert_intermediate_size": "size?", "router_sigmoid": "boolean",
                 "routed_scaling_factor": "number?", "router_resonance": "boolean"}),
        "linear_core": ({"kind": "string", "num_heads": "size", "value_head_dim": "size"}, {"nphase": "size?"}),
        "g3n": ({"altup_num_inputs": "size", "laurel_rank": "size", "ple_dim": "size", "ple_vocab": "size",
                 "num_kv_shared_layers": "size", "activation_sparsity": "numbers"}, {}),
    }
    for name, (required, optional) in blocks.items():
        block = arch.inner(name)
        if block is None:
            continue
        for key, read in required.items():
            block.get(key, read)
        for key, read in optional.items():
            block.get(key, read.rstrip("?"), None if read.endswith("?") else False)
        if name == "mtp":
            block.choice("hidden", ("pre", "post", ""), None)


def check_header(header):
    """The header's own keys (§2, §6.1, §8.1, §9, §10)."""
    top = Fields(header, "header")
    if top.get("format", "string", "cmf") != "cmf":
        top.wrong("format", "must be \"cmf\"")
    if top.get("version", "integer") != 2:
        top.wrong("version", "must be 2")
    check_arch(top.get("arch", "object"))
    top.choice("quant_type", QUANT_TYPES)
    chat = top.inner("tokenizer_config")
    if chat is not None:
        chat.get("chat_template", "string", None)
        for key, read in (("eos_token_ids", "sizes"), ("bos_token_id", "size"), ("pad_token_id", "size")):
            chat.get(key, read, [] if read == "sizes" else None)
    hashes = top.inner("section_hashes")
    if hashes is not None:
        for key in ("masks", "vocab", "index"):
            text = hashes.get(key, "string", None)
            if text is not None and not HEX16.match(text):
                hashes.wrong(key, "must be 16 hex digits")
    ids = set()
    for i, record in enumerate(top.get("skills", "array", [])):
        _check_skill(Fields(record, f"header.skills[{i}]"), ids)
    shard = top.inner("shard")
    if shard is not None:
        no, count = shard.get("no", "shard_number"), shard.get("count", "shard_number")
        if count == 0 or not 1 <= no <= count:
            shard.wrong("no", f"{no} of {count}")
    calibration = top.inner("calibration")
    if calibration is not None:
        calibration.get("temperature", "number")
    routing = top.inner("routing")
    if routing is not None:
        for key, read in (("temperature", "number"), ("novelty_theta", "number"), ("samples", "integer"), ("target_fpr", "number")):
            routing.get(key, read)


def _check_skill(skill, ids):
    name = skill.get("id", "string")
    if not 1 <= len(name.encode()) <= 256:
        skill.wrong("id", "must have 1 to 256 bytes")
    if name in ids:
        skill.wrong("id", f"{name!r} stands twice")
    ids.add(name)
    skill.get("layers", "integers", [])
    for key in ("name", "input_mask_task", "base_arch", "task"):
        skill.get(key, "string", None)
    base = skill.get("base_dir_hash", "string", None)
    if base is not None and not HEX16.match(base):
        skill.wrong("base_dir_hash", "must be 16 hex digits")
    selection = skill.inner("selection")
    if selection is not None:
        selection.get("metric", "string")
        selection.get("phi_layer", "integer")
        selection.get("mean", "string")
        selection.get("basis", "string")
        selection.get("rank", "integer", None)
        selection.get("prompt", "string", None)


# ---- masks and sparse index (§5, §7) ----------------------------------------------------------------------------------

class Mask:
    """One task mask: meta, and bool arrays `ffn` [rows, intermediate], `heads`, `gates`, `experts` (or None)."""

    def __init__(self, meta, ffn, heads, gates, experts, per_visit, tail_bits):
        self.meta, self.ffn, self.heads, self.gates, self.experts = meta, ffn, heads, gates, experts
        self.per_visit, self.tail_bits = per_visit, tail_bits


def read_masks(section, arch, features):
    """(meta, [Mask]) of the masks section."""
    if len(section) < 8:
        bounds(f"masks: {len(section)} bytes are less than the head of 8")
    count, length = struct.unpack_from("<II", section)
    if length > len(section) - 8:
        bounds(f"masks: the meta of {length} bytes does not fit the section of {len(section)}")
    meta = strict_json(section[8:8 + length], "masks")
    top = Fields(meta, "masks")
    top.get("default_task", "string")
    entries = top.get("masks", "array")
    if len(entries) != count:
        top.wrong("masks", f"{len(entries)} entries, the section says {count}")
    names, together, masks = set(), 0, []
    for i, entry in enumerate(entries):
        one = Fields(entry, f"masks.masks[{i}]")
        _check_mask_meta(one, names)
        off, size = entry["blob_off"], entry["blob_len"]
        if off > len(section) or size > len(section) - off:
            bounds(f"{one.path}: the blob of {size} bytes at {off} lies outside the section of {len(section)}")
        together += size
        if together > len(section):
            bounds(f"{one.path}: the blobs together are longer than the section")
        masks.append(_read_mask(one, section[off:off + size], arch, features))
    return meta, masks


def _check_mask_meta(one, names):
    one.get("task_id", "size")
    name = one.get("name", "string")
    if name in names:
        one.wrong("name", f"{name!r} stands twice")
    names.add(name)
    one.get("description", "string", None)
    one.get("sparsity", "number")
    one.choice("priority", ("Fallback", "Normal", "Primary"))
    for key in ("has_hot_pack", "has_expert_fields"):
        one.get(key, "boolean", False)
    for key in ("blob_off", "blob_len"):
        one.get(key, "integer")
    quality = one.inner("quality")
    if quality is not None:
        quality.get("metric", "string")
        quality.get("value", "number")


def _read_mask(one, blob, arch, features):
    layers, loops = arch["num_layers"], arch.get("num_loops", 1)
    experts = 0
    if one.value.get("has_expert_fields", False):
        if not arch.get("moe"):
            parse(f"{one.path}: has_expert_fields, but the model has no experts")
        experts = arch["moe"]["num_experts"]
    wide = [(n + 7) // 8 for n in (arch["intermediate_size"], arch["num_attention_heads"], experts)]
    rest = layers * wide[1] + (layers + 7) // 8 + layers * wide[2]
    per_visit = loops > 1 and len(blob) == layers * loops * wide[0] + rest
    rows = layers * loops if per_visit else layers
    if len(blob) != rows * wide[0] + rest:
        parse(f"{one.path}: the blob has {len(blob)} bytes, this model's masks have {layers * wide[0] + rest}")
    if per_visit and not features & LOOP_MASKS:
        parse(f"{one.path}: rows per visit need the feature LOOP_MASKS")
    at, tails, areas = 0, False, []
    for count, width, bits in ((rows, wide[0], arch["intermediate_size"]), (layers, wide[1], arch["num_attention_heads"]),
                               (1, (layers + 7) // 8, layers), (layers, wide[2], experts)):
        cells = np.frombuffer(blob, np.uint8, count * width, at).reshape(count, width)
        unpacked = np.unpackbits(cells, axis=1, bitorder="little").astype(bool) if width else np.zeros((count, 0), bool)
        tails = tails or bool(unpacked[:, bits:].any())
        areas.append(unpacked[:, :bits])
        at += count * width
    return Mask(one.value, areas[0], areas[1], areas[2][0], areas[3] if experts else None, per_visit, tails)


def read_index(section):
    """Entries (task_id, layer, groups, heads) of the deprecated sparse index."""
    if len(section) < 8:
        parse(f"index: {len(section)} bytes are less than the head of 8")
    count = struct.unpack_from("<I", section)[0]
    if count > (len(section) - 8) // 16:
        parse(f"index: {count} entries do not fit {len(section)} bytes")
    at, entries = 8, []
    for i in range(count):
        if len(section) - at < 16:
            parse(f"index: entry {i} lies outside the section")
        task, layer, groups, heads = struct.unpack_from("<IIII", section, at)
        at += 16
        size = 2 * groups + heads
        if size > len(section) - at:
            parse(f"index: entry {i} lies outside the section")
        entries.append((task, layer, np.frombuffer(section, "<u2", groups, at).copy(),
                        np.frombuffer(section, np.uint8, heads, at + 2 * groups).copy()))
        at = min(at + (size + 3) // 4 * 4, len(section))
    return entries


# ---- one file -----------------------------------------------------------------------------------------------------------

class CmfFile:
    """One file, checked whole at opening except for the hashes: `header`, `entries`, sections; payload(name)."""

    def __init__(self, path):
        self.path = os.fspath(path)
        try:
            with open(self.path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b""
        except OSError as error:
            raise CmfError("Io", f"{self.path}: {error.strerror}") from error
        self._view = memoryview(self._map)
        try:
            self._read_envelope()
            self._read_header()
            self._read_directory()
            self._check_skills()
            self.mask_meta, self.masks = None, []
            if self.section_length("masks"):
                self.mask_meta, self.masks = read_masks(self.section("masks"), self.header["arch"], self.features)
            self.index = read_index(self.section("index")) if self.section_length("index") else []
        except CmfError as error:
            self.close()
            raise CmfError(error.kind, f"{self.path}: {error}") from None

    def close(self):
        self._view.release()
        if self.size:
            try:
                self._map.close()
            except BufferError:
                pass  # an array of the caller still looks into the file; the mapping goes with it

    def _read_envelope(self):
        head = bytes(self._view[:ENVELOPE])
        if head[:4] != MAGIC:
            raise CmfError("InvalidMagic", "does not begin with CMF\\x01")
        if len(head) < ENVELOPE:
            bounds(f"{len(head)} bytes are less than the envelope of {ENVELOPE}")
        version, self.flags, self.features = struct.unpack_from("<III", head, 4)
        if version != 2:
            raise CmfError("UnsupportedVersion", f"version {version}, expected 2")
        unknown = [i for i in range(32) if self.features >> i & 1 and not KNOWN_FEATURES >> i & 1]
        if unknown:
            raise CmfError("UnsupportedFeature", f"requires unknown features: {[FEATURE_NAMES.get(i, i) for i in unknown]}")
        numbers = struct.unpack_from("<14Q", head, 16)
        self.spans = {name: numbers[2 * i:2 * i + 2] for i, name in enumerate(SECTIONS)}
        self.header_hash, self.dir_hash = numbers[12:]
        for name, (off, length) in self.spans.items():
            if length == 0:
                if name in ("header", "dir"):
                    bounds(f"the {name} section has length 0")
            elif off < ENVELOPE:
                bounds(f"the {name} section begins at {off}, inside the envelope")
            elif off > self.size or length > self.size - off:
                bounds(f"the {name} section of {length} bytes at {off} lies outside the file of {self.size}")
        if self.spans["data"][1] and self.spans["data"][0] % PAGE:
            bounds(f"the data section begins at {self.spans['data'][0]}, not at a multiple of {PAGE}")

    def section_length(self, name):
        return self.spans[name][1]

    def section(self, name):
        off, length = self.spans[name]
        return self._view[off:off + length] if length else self._view[:0]

    def _read_header(self):
        if self.section_length("header") > MAX_HEADER:
            bounds(f"a header of {self.section_length('header')} bytes, {MAX_HEADER} are allowed")
        self.header = strict_json(self.section("header"), "header")
        check_header(self.header)

    def _read_directory(self):
        section = self.section("dir")
        if len(section) < 16:
            bounds(f"the directory has {len(section)} bytes, its head alone 16")
        count, pool = struct.unpack_from("<QQ", section)
        if count > (len(section) - 16) // RECORD:
            bounds(f"the directory claims {count} tensors, its {len(section)} bytes can hold {(len(section) - 16) // RECORD}")
        if not 16 + RECORD * count <= pool <= len(section):
            bounds(f"the names begin at {pool}, outside the directory")
        entries, self.tails = [], False
        for i in range(count):
            name_off, name_len, dtype, ndim, *rest = struct.unpack_from("<IHBB6IQQQ", section, 16 + RECORD * i)
            if name_off > len(section) - pool or name_len > len(section) - pool - name_off:
                bounds(f"the name of record {i} lies outside the pool")
            try:
                name = bytes(section[pool + name_off:pool + name_off + name_len]).decode("utf-8")
            except UnicodeDecodeError:
                parse(f"the name of record {i} is not UTF-8")
            if not name or "\0" in name:
                parse(f"the name of record {i} is empty or contains a NUL")
            if dtype not in DTYPES:
                parse(f"tensor '{name}' has dtype {dtype}, which is unknown or reserved")
            if ndim > 6:
                parse(f"tensor '{name}' has {ndim} dimensions, 6 are allowed")
            self.tails = self.tails or any(rest[ndim:6])
            entry = {"dtype": DTYPES[dtype], "shape": list(rest[:ndim]), "off": rest[6], "nbytes": rest[7], "hash": rest[8]}
            entries.append((name, entry))
        for name, entry in entries:
            self._check_entry(name, entry)
        self.entries = dict(entries)
        if len(self.entries) != count:
            seen = set()
            name = next(n for n, _ in entries if n in seen or seen.add(n))
            parse(f"two tensor records have the name '{name}'")

    def _check_entry(self, name, entry):
        where = f"tensor '{name}'"
        data = self.section_length("data")
        if entry["off"] % 64:
            bounds(f"{where} begins at {entry['off']}, not at a multiple of 64")
        if entry["off"] > data or entry["nbytes"] > data - entry["off"]:
            bounds(f"{where}: {entry['nbytes']} bytes at {entry['off']} lie outside the data section of {data}")
        check_shape(entry["dtype"], entry["shape"], where)
        if _count(entry["shape"]) >= 1 << 63:
            bounds(f"{where}: the shape {entry['shape']} has more elements than 64 bits count")
        check_payload(entry["dtype"], entry["shape"], self._payload(entry), where)

    def _payload(self, entry):
        begin = self.spans["data"][0] + entry["off"]
        return self._view[begin:begin + entry["nbytes"]]

    def payload(self, name):
        return self._payload(self.entries[name])

    @property
    def skill_file(self):
        return bool(self.features & SKILL_FILE) or any("base_dir_hash" in s and s["base_dir_hash"] for s in self.header.get("skills", []))

    def _check_skills(self):
        if self.header.get("shard") is None and not self.skill_file:
            check_replacements(self.entries, self.header.get("skills", []))

    # -- verify --

    def problems(self):
        """What opening does not ask: hashes of sections and tensors, scales (§8, §8.1)."""
        found = []

        def add(kind, where, message):
            found.append({"kind": kind, "where": where, "message": message})

        recorded = {"header": self.header_hash, "dir": self.dir_hash}
        for name, text in (self.header.get("section_hashes") or {}).items():
            if name in ("masks", "vocab", "index") and text is not None:
                recorded[name] = int(text, 16)
        for name, stored in recorded.items():
            if stored and self.section_length(name):
                actual = hash64(self.section(name))
                if actual != stored:
                    add("HashMismatch", f"section {name}", f"stored {stored:016x}, actual {actual:016x}")
        if self.section_length("vocab"):
            try:
                bytes(self.section("vocab")).decode("utf-8")
            except UnicodeDecodeError:
                add("Parse", "section vocab", "the tokenizer is not UTF-8")
        for name, entry in self.entries.items():
            data = self._payload(entry)
            actual = hash64(data)
            if actual != entry["hash"]:
                add("HashMismatch", f"tensor {name}", f"stored {entry['hash']:016x}, actual {actual:016x}")
            bad = _bad_value(data, entry["dtype"], entry["shape"])
            if bad:
                add("Parse", f"tensor {name}", bad)
        return found

    def warnings(self):
        """What is odd but no error."""
        notes = []
        for name, stored in (("header", self.header_hash), ("directory", self.dir_hash)):
            if not stored:
                notes.append(f"no hash protects the {name}")
        hashes = self.header.get("section_hashes") or {}
        notes += [f"no hash protects the {name} section" for name in ("masks", "vocab", "index")
                  if self.section_length(name) and not hashes.get(name)]
        if self.flags:
            notes.append(f"the reserved flags are {self.flags:#x}")
        if not self.features & 1:
            notes.append("the feature TENSOR_DIR is not set")
        if self.tails:
            notes.append("a shape has numbers behind its last dimension")
        if bool(self.features & 2) != bool(self.section_length("masks")):
            notes.append("the feature BINARY_MASKS and the masks section contradict each other")
        notes += [f"mask '{mask.meta['name']}' has bits set behind its rows" for mask in self.masks if mask.tail_bits]
        if self.index:
            notes.append("the sparse index is deprecated")
        if "norm_style" not in self.header["arch"]:
            notes.append("arch.norm_style is missing: taken as qwen")
        return notes


def split_replacement(name, ids):
    """(skill id, replaced name) of a tensor skill.{id}.{name}; the longest known id wins."""
    if not name.startswith("skill."):
        return None
    rest = name[6:]
    fitting = [i for i in ids if rest.startswith(i + ".") and len(rest) > len(i) + 1]
    if not fitting:
        return None
    skill = max(fitting, key=len)
    return skill, rest[len(skill) + 1:]


def check_replacements(entries, skills):
    """§9: a replacement has its backbone tensor, of the same shape."""
    ids = [skill["id"] for skill in skills]
    for name, entry in entries.items():
        found = split_replacement(name, ids) if ids else None
        if not found:
            continue
        skill, replaced = found
        if replaced not in entries:
            parse(f"tensor '{name}' of skill '{skill}' replaces '{replaced}', which is not in the file")
        if entries[replaced]["shape"] != entry["shape"]:
            parse(f"tensor '{name}' of shape {entry['shape']} cannot replace '{replaced}' of shape {entries[replaced]['shape']}")


# ---- signature (§8.2) ---------------------------------------------------------------------------------------------------

def check_signature(path, pubkey=None):
    """("absent" | "valid" | "invalid" | "unchecked", reason). "unchecked": the package cryptography is missing."""
    try:
        with open(f"{path}.sig", "rb") as file:
            record = strict_json(file.read(1 << 16), "signature")
    except FileNotFoundError:
        return ("invalid", "not signed, a signer is demanded") if pubkey else ("absent", "")
    except (OSError, CmfError) as error:
        return "invalid", str(error)
    if not isinstance(record, dict) or record.get("alg") != "ed25519-sha256":
        return "invalid", "the algorithm is not ed25519-sha256"
    for key, digits in (("pubkey", 64), ("sha256", 64), ("sig", 128)):
        if not isinstance(record.get(key), str) or not re.fullmatch(f"[0-9a-fA-F]{{{digits}}}", record[key]):
            return "invalid", f"{key} is not {digits} hex digits"
    if pubkey and record["pubkey"].lower() != pubkey.lower():
        return "invalid", "signed by another key"
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 22), b""):
            digest.update(part)
    if digest.hexdigest() != record["sha256"].lower():
        return "invalid", "the file's sha256 is another one"
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return "unchecked", "the Python package cryptography is not installed"
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(record["pubkey"])).verify(bytes.fromhex(record["sig"]), digest.digest())
    except (InvalidSignature, ValueError):
        return "invalid", "the signature does not belong to the file"
    return "valid", ""


def _base64_halves(text, where):
    """Finite halves of a base64 text (RFC 4648, padded) as float32."""
    if not re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
        parse(f"{where}: not base64")
    data = base64.b64decode(text)
    values = np.frombuffer(data, "<f2", len(data) // 2).astype(np.float32)
    if len(data) % 2 or not np.isfinite(values).all():
        parse(f"{where}: not finite halves")
    return values


# ---- models, alone or in shards (§10) -------------------------------------------------------------------------------------

SHARD_NAME = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.cmf\Z", re.S)


class CmfReader:
    """A model: one file, or the whole set by any shard's name.

    header, arch, skills, vocab, masks_meta and masks are the first shard's; tensors: {name: (entry, shard index)}.
    """

    def __init__(self, path, sharded=True):
        path = os.fspath(path)
        first = CmfFile(path)
        self.shards = [first]
        if sharded and first.header.get("shard") is not None:
            self._open_set(path, first)
        self.header = self.shards[0].header
        self.tensors = {}
        for number, shard in enumerate(self.shards):
            for name, entry in shard.entries.items():
                if name in self.tensors:
                    self._fail("Parse", f"{path}: tensor '{name}' is in shard {self.tensors[name][1] + 1} and in shard {number + 1}")
                self.tensors[name] = (entry, number)
        if len(self.shards) > 1 and not self.shards[0].skill_file:
            check_replacements({name: entry for name, (entry, _) in self.tensors.items()}, self.skills)

    def _fail(self, kind, message):
        self.close()
        raise CmfError(kind, message)

    def _open_set(self, path, named):
        place, match = named.header["shard"], SHARD_NAME.match(path)
        if place["count"] == 1:
            return
        if not match:
            self._fail("Parse", f"{path}: shard {place['no']} of {place['count']} must be called NAME-00001-of-{place['count']:05}.cmf")
        stem, no, count = match.group(1), int(match.group(2)), int(match.group(3))
        if (no, count) != (place["no"], place["count"]):
            self._fail("Parse", f"{path}: its header says shard {place['no']} of {place['count']}, its name {no} of {count}")
        shards = []
        self.shards = shards
        for i in range(1, count + 1):
            if i == no:
                shards.append(named)
                self._check_sibling(named, i, count)
                continue
            sibling = f"{stem}-{i:05}-of-{count:05}.cmf"
            if not os.path.exists(sibling):
                named.close()
                self._fail("Io", f"{sibling}: this shard of {path} is missing")
            try:
                shards.append(CmfFile(sibling))
            except CmfError:
                self.close()
                raise
            self._check_sibling(shards[-1], i, count)

    def _check_sibling(self, shard, no, count):
        said = shard.header.get("shard") or {}
        if (said.get("no"), said.get("count")) != (no, count):
            self._fail("Parse", f"{shard.path}: its header says {said}, its name {no} of {count}")
        first = self.shards[0].header
        if any(json.dumps(shard.header[key]) != json.dumps(first[key]) if key in shard.header and key in first else
               (key in shard.header) != (key in first) for key in ("arch", "quant_type", "provenance")):
            self._fail("Parse", f"{shard.path}: belongs to another model than {self.shards[0].path}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for shard in self.shards:
            shard.close()

    @property
    def arch(self):
        return self.header["arch"]

    @property
    def skills(self):
        return self.header.get("skills") or []

    @property
    def vocab(self):
        """The bytes of tokenizer.json."""
        return bytes(self.shards[0].section("vocab"))

    @property
    def masks_meta(self):
        return self.shards[0].mask_meta

    @property
    def masks(self):
        return self.shards[0].masks

    @property
    def index(self):
        return self.shards[0].index

    def selection(self, skill):
        """(mean [hidden], basis [rank, hidden]) of a skill's record, as float32; CmfError if it cannot route."""
        record = next((s for s in self.skills if s["id"] == skill), None)
        if record is None or not record.get("selection"):
            raise KeyError(f"no selection of a skill '{skill}'")
        rule, where, hidden = record["selection"], f"skill '{skill}'", self.arch["hidden_size"]
        if rule["metric"] not in ("mse", "mse_unit"):
            parse(f"{where}: unknown metric {rule['metric']!r}")
        if rule["phi_layer"] >= self.arch["num_layers"]:
            parse(f"{where}: phi_layer {rule['phi_layer']} of {self.arch['num_layers']} layers")
        if rule.get("prompt") not in (None, "", "chat"):
            parse(f"{where}: unknown prompt form {rule['prompt']!r}")
        mean, basis = (_base64_halves(rule[key], f"{where}.{key}") for key in ("mean", "basis"))
        rank = rule.get("rank")
        if rank is None:
            rank = len(basis) // hidden if hidden else 0
        if len(mean) != hidden or len(basis) != rank * hidden:
            parse(f"{where}: mean or basis have the wrong length")
        return mean, basis.reshape(rank, hidden)

    def resolve(self, name, skill=None):
        """The name to read: the skill's replacement if it has one (§9)."""
        replacement = f"skill.{skill}.{name}"
        return replacement if skill is not None and replacement in self.tensors else name

    def tensor_bytes(self, name):
        entry, shard = self.tensors[name]
        return bytes(self.shards[shard].payload(name))

    def tensor(self, name, skill=None):
        """Decoded values (see dequant)."""
        name = self.resolve(name, skill)
        entry, shard = self.tensors[name]
        return dequant(self.shards[shard].payload(name), entry["dtype"], entry["shape"])

    def verify(self):
        """Sentences, one for every damage; empty if there is none."""
        return [f"{p['where']}: {p['message']}" for shard in self.shards for p in shard.problems()]


# ---- command line ---------------------------------------------------------------------------------------------------------

def verify_report(path, whole_set=False, pubkey=None):
    report = {"file": path, "valid": False, "problems": [], "warnings": [], "tensors": 0, "signature": "absent"}

    def add(kind, where, message):
        report["problems"].append({"kind": kind, "where": where, "message": message})

    try:
        with CmfReader(path, sharded=whole_set) as model:
            report["tensors"] = len(model.tensors)
            for shard in model.shards:
                report["problems"] += shard.problems()
                report["warnings"] += shard.warnings()
    except CmfError as error:
        add(error.kind, "file", str(error))
    else:
        status, reason = check_signature(path, pubkey)
        report["signature"] = status
        if status == "invalid" or (pubkey and status != "valid"):
            add("HashMismatch", "signature", reason)
        elif status == "unchecked":
            report["warnings"].append(f"the signature was not checked: {reason}")
    report["valid"] = not report["problems"]
    return report


def command_verify(options):
    report = verify_report(options.file, options.set, options.pubkey)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        for problem in report["problems"]:
            print(f"{problem['kind']}: {problem['where']}: {problem['message']}")
        for note in report["warnings"]:
            print(f"warning: {note}")
        print(f"{options.file}: {'valid' if report['valid'] else 'INVALID'}, {report['tensors']} tensors, signature {report['signature']}")
    return 0 if report["valid"] else 1


def command_info(options):
    with CmfReader(options.file, sharded=options.set) as model:
        tensors = []
        for name, (entry, shard) in model.tensors.items():
            row = {"name": name, **entry, "hash": f"{entry['hash']:016x}"}
            if options.digest:
                data = model.shards[shard].payload(name)
                row["payload_sha256"] = hashlib.sha256(data).hexdigest()
                values = dequant(data, entry["dtype"], entry["shape"]).astype("<f4")
                row["values_sha256"] = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
            tensors.append(row)
        first = model.shards[0]
        info = {"file": options.file, "bytes": sum(s.size for s in model.shards), "version": 2,
                "required_features": [FEATURE_NAMES[i] for i in range(32) if first.features >> i & 1],
                "arch": model.arch, "quant_type": model.header["quant_type"], "shard": model.header.get("shard"),
                "masks": [m.meta for m in model.masks], "skills": model.skills, "index_entries": len(model.index),
                "tokenizer_bytes": len(model.vocab), "tensors": tensors}
    if options.json:
        print(json.dumps(info, indent=1))
        return 0
    print(f"{info['file']}: {info['bytes']} bytes, {info['arch']['arch_name']}, {info['quant_type']}, {' '.join(info['required_features'])}")
    print(f"masks: {[m['name'] for m in info['masks']]}, skills: {[s['id'] for s in info['skills']]}, tokenizer: {info['tokenizer_bytes']} bytes")
    for row in tensors:
        print(f"{row['name']:60} {row['dtype']:8} {row['shape']} {row['nbytes']}")
    return 0


def command_dump(options):
    with CmfReader(options.file) as model:
        if options.name not in model.tensors:
            raise CmfError("Usage", f"{options.file}: there is no tensor '{options.name}'")
        values = model.tensor(options.name)
    if options.output:
        np.save(options.output, values)
    else:
        print(values)
    return 0


def main(arguments=None):
    top = argparse.ArgumentParser(prog="cmf_reader.py", description="Reads CMF v2 model files.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="what a file holds")
    verify = commands.add_parser("verify", help="check every hash; exit 1 if the file is not valid")
    dump = commands.add_parser("dump", help="decode a tensor")
    for command, run in ((info, command_info), (verify, command_verify), (dump, command_dump)):
        command.add_argument("file")
        command.set_defaults(run=run)
    for command in (info, verify):
        command.add_argument("--json", action="store_true")
        command.add_argument("--set", action="store_true", help="the whole set of shards")
    info.add_argument("--digest", action="store_true", help="sha256 of payloads and of decoded values")
    verify.add_argument("--pubkey", help="demand this signer (64 hex digits)")
    dump.add_argument("name")
    dump.add_argument("-o", "--output", help="write a .npy file")
    options = top.parse_args(arguments)
    try:
        return options.run(options)
    except CmfError as error:
        print(f"error: {error.kind}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
