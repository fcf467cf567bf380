"""Changed .cmf files for differential_cmf.py: seeds with one to four changes, made so that most of what surrounds a change
stays valid and the deeper checks are reached.
"""
import copy
import struct

from cmf_reader import hash64

from cmf_seeds import DTYPES, U32, U64, dump, payload, seed

# ---- changes ------------------------------------------------------------------------------------------------------------

VALUES = (None, True, False, 0, 1, -1, 2, 3, 7, 32, 1.5, -0.5, 0.0, -0.0, 1.0, 1e300, 1e-310, 5e-324, 255, 65536, U32, U32 + 1,
          (1 << 63) - 1, 1 << 63, U64, U64 + 1, -(1 << 63), 10 ** 30, "", "x", "mse", "silu", "gelu_tanh", "situ", "qwen",
          "gemma", "FullAttention", "Kda", "Normal", "0123456789abcdef", "0123456789ABCDEF", "AAAA", "AAA=", "AA==", "chat",
          "\ud800", "\u0000", "é", "\U0001F600", [], {}, [1], [1, 2], [[]], {"x": 1}, [None], ["a"], "pre", "gated_delta_net")
ARCH_KEYS = ("yarn", "mla", "mtp", "moe", "linear_core", "g3n", "attention_heads_per_layer", "no_rope_layers", "num_loops",
             "loop_final_norm", "hidden_act", "embed_multiplier", "query_pre_attn_scalar", "sliding_window",
             "sliding_window_pattern", "rope_local_base_freq", "local_partial_rotary_factor", "final_logit_softcapping",
             "attn_logit_softcapping", "rope_freq_factors", "logit_multiplier", "linear_conv_kernel_dim",
             "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
             "global_head_dim", "num_global_kv_heads", "head_clusters", "attn_v_norm", "kda_gate_lower_bound",
             "tie_word_embeddings", "partial_rotary_factor", "activation_situ_beta", "global_partial_rotary_factor")
TOP_KEYS = ("format", "version", "tokenizer_config", "section_hashes", "skills", "shard", "calibration", "routing",
            "provenance", "unknown")
BLOCKS = ({"factor": 4.0, "original_max_position_embeddings": 64}, {"num_layers": 1}, {"num_layers": 1, "hidden": "pre"},
          {"num_experts": 4, "top_k": 2, "moe_intermediate_size": 8},
          {"kind": "gated_delta_net", "num_heads": 2, "value_head_dim": 8},
          {"kv_lora_rank": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4},
          {"altup_num_inputs": 1, "laurel_rank": 1, "ple_dim": 1, "ple_vocab": 1, "num_kv_shared_layers": 0,
           "activation_sparsity": [0.5]}, {"no": 1, "count": 1}, {"temperature": 1.0}, {"masks": "0" * 16},
          {"temperature": 1, "novelty_theta": 0.3, "samples": 8, "target_fpr": 0.05})


def containers(value):
    found = []
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, (dict, list)):
            found.append(one)
            todo += one.values() if isinstance(one, dict) else one
    return found


def change_json(rng, value):
    """One change somewhere in a JSON document."""
    place = rng.choice(containers(value))
    new = copy.deepcopy(rng.choice(VALUES + BLOCKS))
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    what = rng.random()
    if what < 0.15 and keys:
        del place[rng.choice(keys)]
    elif what < 0.35 and isinstance(place, dict):
        place[rng.choice(ARCH_KEYS if "num_layers" in place else TOP_KEYS + ("selection", "rank", "prompt", "quality"))] = new
    elif what < 0.4 and keys:
        one = copy.deepcopy(place[rng.choice(keys)])
        if isinstance(place, list):
            place.append(one)
        else:
            place[rng.choice(keys)] = one
    elif keys:
        key = rng.choice(keys)
        old = place[key]
        if isinstance(old, int) and not isinstance(old, bool) and rng.random() < 0.5:
            new = rng.choice((old + 1, old - 1, float(old), str(old), old + 0.5, -old, old * 2))
        elif isinstance(old, str) and rng.random() < 0.5:
            at = rng.randrange(len(old) + 1)
            new = old[:at] + rng.choice(("", "a", "=", "\0", ".", "-", "Z", "\n", "+", "/")) + old[at + rng.randrange(2):]
        place[key] = new


def change_arch(rng, parts):
    model = parts.header.get("arch") if isinstance(parts.header, dict) else None
    if not isinstance(model, dict):
        return
    key = rng.choice(ARCH_KEYS)
    layers = model.get("num_layers") if isinstance(model.get("num_layers"), int) else 1
    model[key] = copy.deepcopy(rng.choice(VALUES + BLOCKS + ([4] * min(abs(layers), 9), [1] * min(abs(layers), 9), [0.5, 2.0])))


def change_header(rng, parts):
    if isinstance(parts.header, dict):
        change_json(rng, parts.header)


def change_text(rng, parts):
    """The header as text: spellings that a document cannot hold."""
    text = bytearray(parts.raw.get("header") or dump(parts.header, parts.style))
    at = rng.randrange(len(text) + 1)
    bits = (b",", b" ", b"\t", b"\0", b"\xff", b"\xc3", b"1", b"-", b".", b"e5", b"E+2", b"01", b"NaN", b"Infinity", b"// x\n", b"{",
            b"[", b"]", b"}", b'"', b"\\", b"\\u12", b"\\ud800", b"\\ud83d\\ude00", b"null", b"\xef\xbb\xbf", b"'", b"\x7f",
            b"\xe2\x80\xa8", b"\x0b", b"[" * 300, b'"a":1,"a":1,', b'"format":"cmf",', b"-0", b"1e400", b"1E-400", b"0.0", b"\r\n")
    numbers = [i for i in range(len(text)) if 48 <= text[i] <= 57]
    if rng.random() < 0.3 and numbers:
        at = rng.choice(numbers)
    if rng.random() < 0.5:
        del text[at:at + rng.choice((0, 1, 1, 4))]
    text[at:at] = rng.choice(bits) if rng.random() < 0.85 else b""
    parts.raw["header"] = bytes(text)


def change_style(rng, parts):
    parts.style = rng.choice(({"ascii": False}, {"indent": 1}, {"separators": (",", ":")}))


def change_record(rng, parts):
    if not parts.records:
        return
    i = rng.randrange(len(parts.records))
    record, blob = parts.records[i], parts.blobs[i]
    numbers = (0, 1, 31, 32, 33, 64, 65536, U32)
    what = rng.randrange(9)
    if what == 0:
        record["dtype"] = rng.choice(list(DTYPES) + [5, 7, 16, 255])
    elif what == 1:
        record["ndim"] = rng.choice((0, 1, 2, 3, 6, 7, 255))
    elif what == 2:
        record["shape"][rng.randrange(6)] = rng.choice(numbers)
    elif what == 3:
        record["shape"] = rng.sample(record["shape"], 6)
    elif what == 4:
        record["off"] = rng.choice((0, 32, 64, 128, 4096, U64, U64 - 63, 1 << 63))
    elif what == 5:
        record["nbytes"] = rng.choice((0, len(blob) + 1, len(blob) - 1, len(blob) + 64, U64, 1 << 63))
    elif what == 6:
        record["name"] = rng.choice((b"", b"\xff", b"a\0b", b"skill.sql.x", b"skill.sql.", b"skill.sql", b"skill.sql.b.x", b"\xed\xa0\x80",
                                     b"n" * 65535, "é".encode(), parts.records[0]["name"], b"skill." + record["name"],
                                     b"skill.sql." + record["name"], b"skill.sql.b." + record["name"], b"\xf4\x90\x80\x80"))
        record["name"] = record["name"][:65535]
    elif what == 7:
        record["hash"] = rng.choice((0, U64))
    else:  # a payload of another dtype or shape altogether, all of it right
        record["dtype"] = dtype = rng.choice(list(DTYPES))
        shape = [rng.choice((1, 2, 5)), rng.choice((32, 64, 96))]
        record["ndim"], record["shape"] = 2, shape + [0] * 4
        parts.blobs[i] = payload(rng, dtype, shape)
        record["nbytes"] = len(parts.blobs[i])


def change_payload(rng, parts):
    if not parts.records:
        return
    i = rng.randrange(len(parts.records))
    data = bytearray(parts.blobs[i])
    if rng.random() < 0.3:
        parts.records[i]["hash"] = hash64(bytes(data))  # of the old bytes
    if rng.random() < 0.15:
        data = data[:rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data + rng.randbytes(rng.choice((1, 4, 6)))
        if rng.random() < 0.8:
            parts.records[i]["nbytes"] = len(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if len(data) >= 4:
            at = rng.randrange(len(data) - 3)
            word = rng.choice((rng.randbytes(1), b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\x7c", b"\1\x7e", b"\0\xfc", b"\xff\x7b", b"\1\0",
                               b"\3", b"\7", b"\xf3", b"\1\0\0\0", b"\0\0\x80\x7f", b"\0\0\xc0\xff"))
            data[at:at + len(word)] = word[:len(data) - at]
    parts.blobs[i] = bytes(data)


def change_masks(rng, parts):
    if parts.mask_meta is None:
        return
    if rng.random() < 0.5:
        return change_json(rng, parts.mask_meta)
    if rng.random() < 0.3 and isinstance(parts.mask_meta.get("masks"), list):
        for entry in parts.mask_meta["masks"]:
            if isinstance(entry, dict) and rng.random() < 0.6:
                entry[rng.choice(("blob_off", "blob_len"))] = rng.choice((0, 8, 64, 200, U32, U64, 1 << 63, -1, 8.0, None))
        return
    if parts.mask_blobs:
        i = rng.randrange(len(parts.mask_blobs))
        blob = parts.mask_blobs[i]
        parts.mask_blobs[i] = rng.choice((blob + b"\0", blob[:-1], bytes(b ^ 255 for b in blob), blob * 2, b"", bytes(len(blob)),
                                          rng.randbytes(len(blob))))


def change_raw(rng, parts):
    """A section of another's making, or none."""
    name = rng.choice(("dir", "masks", "vocab", "index", "header"))
    data = bytearray({"dir": lambda: (parts.data_section(), parts.directory())[1], "masks": parts.masks_section,
                      "vocab": lambda: parts.vocab, "index": lambda: parts.index,
                      "header": lambda: dump(parts.header, parts.style)}[name]())
    what = rng.random()
    if what < 0.2 or not data:
        data = bytearray(rng.choice((b"", b"\0" * 7, b"\0" * 8, b"\0" * 12, b"\0" * 16, b"\1" + b"\0" * 23, b"\xff" * 8, b"\xff" * 40,
                                     b"\xed\xa0\x80", b"\xc0\x80", b"{}", b"\0\0\0\0\2\0\0\0{}")))
    elif what < 0.4:
        del data[rng.randrange(len(data)):]
    elif what < 0.9:
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(min(len(data), rng.choice((16, 80, 1 << 20))))
            data[at] = rng.choice((0, 1, 2, 127, 128, 255, data[at] ^ 1, data[at] ^ 128, (data[at] + 1) & 255))
    else:
        data += rng.randbytes(rng.choice((1, 16, 56)))
    parts.raw[name] = bytes(data)


def change_envelope(rng, parts):
    what = rng.random()
    if what < 0.15:
        parts.version = rng.choice((0, 1, 3, U32))
    elif what < 0.45:
        parts.features ^= 1 << rng.choice((0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 31))
    elif what < 0.5:
        parts.flags = rng.choice((1, U32))
    else:
        number = rng.choice((lambda n: 0, lambda n: n + 1, lambda n: n - 1, lambda n: n + 64, lambda n: U64, lambda n: 127,
                             lambda n: 1 << 63, lambda n: n // 2, lambda n: n + 4096, lambda n: 4096, lambda n: n ^ 1 << 40))
        parts.patch[16 + 8 * rng.randrange(14)] = number


def change_vocab(rng, parts):
    parts.vocab = rng.choice((b"\xff\xfe", b"{}", b"\xed\xbf\xbf", b"\xf0\x9f\x98\x80", b"", b"a\0b", b"\xe2\x82"))


def change_hashes(rng, parts):
    if isinstance(parts.header, dict):
        parts.header["section_hashes"] = {rng.choice(("masks", "vocab", "index")): rng.choice(
            ("0" * 16, "f" * 16, "F" * 16, "0" * 15, "g" * 16, "0x" + "0" * 14, None, 0, " " + "0" * 15, "\uff10" * 16, "0" * 17))}


CHANGES = (change_header, change_header, change_arch, change_arch, change_text, change_style, change_record, change_record,
           change_payload, change_payload, change_masks, change_masks, change_raw, change_raw, change_envelope, change_vocab,
           change_hashes)


def change_bytes(rng, data):
    data = bytearray(data)
    what = rng.random()
    if what < 0.3:
        del data[rng.choice((rng.randrange(len(data)), rng.randrange(200), len(data) - 1)):]
    elif what < 0.4:
        data += rng.randbytes(rng.choice((1, 64)))
    else:
        for _ in range(rng.choice((1, 2, 5))):
            at = rng.randrange(len(data)) if rng.random() < 0.6 else rng.randrange(128)
            data[at:at + 1] = rng.randbytes(1)
    return bytes(data)


def mutant(rng):
    """The bytes of one file: most are changed, a few are not."""
    parts = seed(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        rng.choice(CHANGES)(rng, parts)
    data = parts.build()
    return change_bytes(rng, data) if rng.random() < 0.08 else data


def shard_set(rng):
    """{name: bytes} of a model in two or three files, one of which may be wrong, and the name to open."""
    count = rng.choice((2, 2, 3))
    whole = seed(rng)
    files, names = {}, [f"m-{i:05}-of-{count:05}.cmf" for i in range(1, count + 1)]
    for i, name in enumerate(names, 1):
        part = copy.deepcopy(whole)
        part.header["shard"] = {"no": i, "count": count}
        mine = [k for k in range(len(whole.records)) if k % count == i - 1]
        if rng.random() < 0.05:
            mine = list(range(len(whole.records)))
        part.records, part.blobs = [part.records[k] for k in mine], [part.blobs[k] for k in mine]
        if i > 1:
            part.mask_meta, part.mask_blobs, part.vocab, part.index = None, [], b"", b""
            part.header.update(tokenizer_config=None, skills=[])
        if rng.random() < 0.2:
            rng.choice((change_header, change_header, change_arch, change_record, change_payload, change_envelope))(rng, part)
        if rng.random() < 0.06:
            part.header["shard"] = rng.choice(({"no": 1, "count": count}, {"no": i, "count": count + 1}, {"no": 0, "count": count},
                                               {"no": i}, None, {"no": i, "count": count, "x": 1}, {"no": float(i), "count": count}))
        files[name] = part.build()
    if rng.random() < 0.05:
        del files[rng.choice(names)]
    if rng.random() < 0.05 and len(files) > 1:
        files[names[0]] = files[rng.choice(list(files))]
    opened = rng.choice(list(files))
    if rng.random() < 0.05:
        other = rng.choice(("m.cmf", "m-1-of-2.cmf", "m-00001-of-00009.cmf", "m-00001-of-00002.cmf.cmf"))
        files[other] = files[opened]
        opened = other
    return files, opened
