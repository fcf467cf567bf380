"""Small valid .cmf files for differential_cmf.py that hold everything the format has, put together from the specification."""
import base64
import copy
import json
import struct

import numpy as np

from cmf_reader import hash64

DTYPES = {0: "f32", 1: "f16", 2: "bf16", 3: "q8_row", 4: "q4_block", 6: "u8", 8: "vbit", 9: "q8_2f", 10: "vbit_ro",
          11: "q4_tiled", 12: "q1", 13: "q1s", 14: "q1t", 15: "q4tp"}
SECTIONS = ("header", "dir", "data", "masks", "vocab", "index")
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


# ---- payloads -----------------------------------------------------------------------------------------------------------

def halves(rng, count, low=-4.0, high=4.0):
    values = np.array([rng.uniform(low, high) for _ in range(count)], "<f2")
    return values.tobytes()


def overlay_rows(rng, rows, cols):
    """q1t: row table and outliers of a few columns each."""
    start, cells = [0], b""
    for _ in range(rows):
        some = sorted(rng.sample(range(cols), rng.choice((0, 0, 1, 2))))
        cells += b"".join(struct.pack("<H", col) + halves(rng, 1) for col in some)
        start.append(start[-1] + len(some))
    return struct.pack(f"<{rows + 1}I", *start) + cells


def payload(rng, dtype, shape):
    """A payload that a reader accepts, of random values."""
    count = int(np.prod(shape, dtype=object)) if shape else 1
    name = DTYPES[dtype]
    if name in ("f32", "f16", "bf16"):
        values = np.array([rng.uniform(-3, 3) for _ in range(count)], "<f4")
        return (values if name == "f32" else values.astype("<f2") if name == "f16" else
                (values.view("<u4") >> 16).astype("<u2")).tobytes()
    if name == "u8":
        return rng.randbytes(count)
    if name == "q4_block":
        groups = (count + 31) // 32
        return rng.randbytes(16 * groups) + halves(rng, groups, 0.001, 0.1)
    rows, cols = shape
    groups = rows * cols // 32
    if name in ("q8_row", "q8_2f"):
        return rng.randbytes(count) + halves(rng, rows + (cols if name == "q8_2f" else 0), 0.001, 0.1)
    if name in ("vbit", "vbit_ro"):
        widths = [rng.choice((3, 4, 5, 6, 8)) for _ in range(rows)]
        lengths = [width * cols // 8 for width in widths]
        offsets = struct.pack(f"<{rows + 1}I", *(sum(lengths[:i]) for i in range(rows + 1)))
        return (bytes(widths) + halves(rng, groups, 0.001, 0.1) + (offsets if name == "vbit_ro" else b"") +
                rng.randbytes(sum(lengths)))
    if name == "q4tp":
        codes = (5 * (cols // 32) + 7) // 8
        ladder = b"".join(halves(rng, 1, -12, -4) + halves(rng, 1, 0, 0.3) for _ in range(rows))
        return rng.randbytes(16 * groups) + ladder + rng.randbytes(rows * codes)
    if name == "q1t":
        tiles = b"".join(halves(rng, 1, 0.001, 0.1) + bytes(rng.randrange(243 if i < 6 else 9) for i in range(7)) for _ in range(groups))
        return tiles + overlay_rows(rng, rows, cols)
    tiles = b"".join(halves(rng, 1, 0.001, 0.1) + rng.randbytes(16 if name == "q4_tiled" else 4) for _ in range(groups))
    if name == "q1s":
        some = sorted(rng.sample(range(count), min(count, rng.choice((0, 1, 3)))))
        tiles += struct.pack("<I", len(some)) + b"".join(struct.pack("<I", at) + halves(rng, 1) for at in some)
    return tiles


# ---- a file in parts ----------------------------------------------------------------------------------------------------

class Parts:
    """What a file is made of; build() lays it out. `raw` replaces a section's bytes, `patch` changes the envelope."""

    def __init__(self):
        self.version, self.flags, self.features = 2, 0, 1
        self.header, self.records, self.blobs = {}, [], []  # a record: name, dtype, ndim, shape[6], off, nbytes, hash
        self.mask_meta, self.mask_blobs, self.vocab, self.index = None, [], b"", b""
        self.raw, self.patch, self.style = {}, {}, {}
        self.data_tail, self.order, self.hashes = b"", list(SECTIONS), "right"

    def add(self, name, dtype, shape, data):
        self.records.append({"name": name.encode(), "dtype": dtype, "ndim": len(shape),
                             "shape": list(shape) + [0] * (6 - len(shape)), "off": None, "nbytes": len(data), "hash": None})
        self.blobs.append(data)

    def masks_section(self):
        if self.mask_meta is None:
            return b""
        meta = copy.deepcopy(self.mask_meta)
        size = len(dump(meta, {})) + 40 * len(self.mask_blobs) + 16
        at, body = (8 + size + 7) // 8 * 8, b""
        entries = meta.get("masks")
        for i, blob in enumerate(self.mask_blobs):
            body += bytes(-len(body) % 8)
            if isinstance(entries, list) and i < len(entries) and isinstance(entries[i], dict):
                entries[i].setdefault("blob_off", at + len(body))
                entries[i].setdefault("blob_len", len(blob))
            body += blob
        text = dump(meta, self.style)
        head = struct.pack("<II", len(self.mask_blobs), len(text)) + text
        return head.ljust(at, b"\0") + body

    def data_section(self):
        data = b""
        for record, blob in zip(self.records, self.blobs):
            data += bytes(-len(data) % 64)
            if record["off"] is None:
                record["off"] = len(data)
            if record["hash"] is None:
                record["hash"] = hash64(blob)
            data += blob
        return data + self.data_tail

    def directory(self):
        pool, out = b"", b""
        for r in self.records:
            out += struct.pack("<IHBB6IQQQ", len(pool), len(r["name"]), r["dtype"], r["ndim"], *r["shape"], r["off"],
                               r["nbytes"] & U64, r["hash"])
            pool += r["name"]
        return struct.pack("<QQ", len(self.records), 16 + len(out)) + out + pool

    def build(self):
        sections = {"data": self.data_section(), "masks": self.masks_section(), "vocab": self.vocab, "index": self.index}
        sections["dir"] = self.directory()
        sections.update({name: data for name, data in self.raw.items() if name != "header"})
        if self.hashes != "none" and isinstance(self.header, dict) and "section_hashes" not in self.header:
            some = {n: f"{hash64(sections[n]):016x}" for n in ("masks", "vocab", "index") if sections[n]}
            header = dict(self.header, section_hashes=some) if some else self.header
        else:
            header = self.header
        sections["header"] = self.raw.get("header", dump(header, self.style))
        body, spans = b"", {}
        for name in self.order:
            align = 4096 if name == "data" else 1
            body += bytes(-(128 + len(body)) % align)
            spans[name] = (128 + len(body) if sections[name] else 0, len(sections[name]))
            body += sections[name]
        numbers = [n for name in SECTIONS for n in spans[name]]
        hashed = (hash64(sections["header"]), hash64(sections["dir"])) if self.hashes != "none" else (0, 0)
        head = bytearray(b"CMF\x01" + struct.pack("<III14Q", self.version, self.flags & U32, self.features & U32, *numbers,
                                                   *hashed))
        for at, number in self.patch.items():
            struct.pack_into("<Q", head, at, number(struct.unpack_from("<Q", head, at)[0]) & U64)
        return bytes(head) + body


def dump(value, style):
    return json.dumps(value, ensure_ascii=style.get("ascii", True), indent=style.get("indent"),
                      separators=style.get("separators")).encode("utf-8", "surrogatepass")


# ---- seeds --------------------------------------------------------------------------------------------------------------

def arch(rng, experts=False, loops=1):
    layers = rng.choice((1, 2, 3, 9))
    out = {"arch_name": "llama", "hidden_size": rng.choice((32, 64)), "intermediate_size": rng.choice((8, 36, 41)),
           "num_layers": layers, "num_attention_heads": 4, "num_kv_heads": rng.choice((1, 2, 4)), "head_dim": 16,
           "vocab_size": 8, "layer_types": [rng.choice(("FullAttention", "SlidingAttention", "LinearAttention"))
                                            for _ in range(layers)],
           "rms_norm_eps": 1e-6, "norm_style": rng.choice(("qwen", "gemma")), "rope_theta": 10000.0,
           "max_position_embeddings": 128}
    if experts:
        out["moe"] = {"num_experts": rng.choice((4, 9)), "top_k": 2, "moe_intermediate_size": 8, "norm_topk_prob": True}
    if loops > 1:
        out["num_loops"] = loops
    return out


def add_masks(parts, rng, experts, per_visit):
    model = parts.header["arch"]
    layers, loops = model["num_layers"], model.get("num_loops", 1)
    entries = []
    for i in range(rng.choice((0, 1, 2))):
        with_experts = experts and rng.random() < 0.7
        blob, rows = b"", layers * loops if per_visit else layers
        sizes = [(rows, model["intermediate_size"]), (layers, model["num_attention_heads"]), (1, layers)]
        if with_experts:
            sizes.append((layers, model["moe"]["num_experts"]))
        for count, bits in sizes:
            for _ in range(count):
                blob += (rng.getrandbits(bits)).to_bytes((bits + 7) // 8, "little")
        entries.append({"task_id": i, "name": f"task{i}", "description": rng.choice((None, "coding")), "sparsity": 0.5,
                        "quality": rng.choice((None, {"metric": "ppl", "value": 0.9})), "parent": None,
                        "priority": rng.choice(("Fallback", "Normal", "Primary")), "has_hot_pack": False,
                        "has_expert_fields": with_experts})
        parts.mask_blobs.append(blob)
    parts.mask_meta = {"default_task": "task0", "masks": entries}
    parts.features |= 2 | (32 if per_visit else 0)


def add_skills(parts, rng, bound):
    hidden = parts.header["arch"]["hidden_size"]
    records = []
    for i in range(rng.choice((1, 2))):
        record = {"id": ("sql", "sql.b")[i], "name": "a skill", "layers": [0], "input_mask_task": rng.choice((None, "task0"))}
        if rng.random() < 0.7:
            rank = rng.choice((0, 1, 2))
            record["selection"] = {"metric": rng.choice(("mse", "mse_unit")), "phi_layer": 0, "rank": rank,
                                   "mean": base64.b64encode(halves(rng, hidden)).decode(),
                                   "basis": base64.b64encode(halves(rng, hidden * rank)).decode()}
        if bound:
            record.update(base_dir_hash=f"{rng.getrandbits(64):016x}", base_arch="llama", task="task0")
        records.append(record)
        for old, blob in list(zip(parts.records, parts.blobs))[:rng.choice((1, 2))]:
            shape = old["shape"][:old["ndim"]]
            parts.add(f"skill.{record['id']}.{old['name'].decode()}", old["dtype"], shape, blob)
    parts.header["skills"] = records
    parts.features |= 64 if bound else 0


def add_index(parts, rng):
    entries = b""
    count = rng.choice((0, 1, 3))
    for _ in range(count):
        groups, heads = rng.choice((0, 1, 2)), rng.choice((0, 1, 3))
        entry = struct.pack("<IIII", 0, 0, groups, heads) + struct.pack(f"<{groups}H", *range(groups)) + bytes(range(heads))
        entries += entry + bytes(-len(entry) % 4)
    parts.index = struct.pack("<II", count, 0) + entries


def seed(rng):
    """A valid file."""
    parts = Parts()
    experts, loops = rng.random() < 0.3, rng.choice((1, 1, 2))
    parts.header = {"format": "cmf", "version": 2, "arch": arch(rng, experts, loops),
                    "quant_type": rng.choice(("F32", "Q4_BLOCK", "VBIT")), "provenance": {"tool": "fuzz"}}
    hidden = parts.header["arch"]["hidden_size"]
    if rng.random() < 0.4:
        parts.header["tokenizer_config"] = {"chat_template": "{{ x }}", "eos_token_ids": [1, 2], "bos_token_id": None}
    for i, dtype in enumerate(rng.sample(sorted(DTYPES), rng.choice((1, 2, 4)))):
        matrix = DTYPES[dtype] in ("q8_row", "q8_2f", "vbit", "vbit_ro", "q4_tiled", "q1", "q1s", "q1t", "q4tp")
        shape = [rng.choice((1, 3, 4)), hidden] if matrix else rng.choice(([5], [], [3, 33], [2, 3, 4], [0, 7], [64]))
        parts.add(f"model.layers.{i}.weight", dtype, shape, payload(rng, dtype, shape))
        parts.features |= 4 if dtype in (8, 9) else 0
    if rng.random() < 0.5:
        parts.vocab = b'{"model": {"type": "BPE", "vocab": {"\xc3\xa9": 0}, "merges": []}}'
    if rng.random() < 0.4:
        add_masks(parts, rng, experts, loops > 1 and rng.random() < 0.6)
    if rng.random() < 0.35:
        add_skills(parts, rng, rng.random() < 0.3)
    if rng.random() < 0.2:
        add_index(parts, rng)
    if rng.random() < 0.1:
        rng.shuffle(parts.order)
    if rng.random() < 0.1:
        parts.hashes = "none"
    return parts
