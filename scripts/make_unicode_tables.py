#!/usr/bin/env python3
"""Writes src/text/unicode_classes.cc and unicode_maps.cc from the probed tables in tests/data/text/unicode.

Ranges are written as pairs (gap since the end of the range before, length - 1), which keeps the numbers short.
"""
import json
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data/text/unicode"
HEAD = """// Written by scripts/make_unicode_tables.py from tests/data/text/unicode; change those and run it again.
#include "text/unicode_data.h"

namespace cortiq::text::unicode_data {
// clang-format off

"""
TAIL = """
// clang-format on
}  // namespace cortiq::text::unicode_data
"""

# The tests that components have built in, under the names that unicode.cc uses.
BUILT_IN = {
    "punctuation (Punctuation, BertPreTokenizer)": "punctuation",
    "whitespace (WhitespaceSplit, Strip, BertPreTokenizer)": "white space",
    "numeric (Digits)": "numeric",
    "word (Whitespace; single_word of added tokens uses the same class)": "word",
    "removed by StripAccents": "accent",
    "removed by BertNormalizer clean_text": "bert removed",
    "turned into a space by BertNormalizer clean_text": "bert space",
    "surrounded by spaces by BertNormalizer handle_chinese_chars": "bert chinese",
    "removed by BertNormalizer strip_accents (after NFD)": "bert accent",
    "removed by Nmt": "nmt removed",
    "turned into a space by Nmt": "nmt space",
}


def load(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def deltas(ranges):
    out, end = [], -1
    for first, last, *value in ranges:
        out += [first - end - 1, last - first, *value]
        end = last
    return out


def array(name, numbers):
    text = textwrap.fill(", ".join(map(str, numbers)), 118)
    return f"const uint32_t {name}[] = {{\n{text}}};\n[[maybe_unused]] const size_t {name}_size = {len(numbers)};\n\n"


def class_name(key):
    """The key of a class: 'onig \\p{L}' → 'l' (as property names compare), 'onig \\s' → '\\s', '[[:alpha:]]' → '[:alpha:]'."""
    if key in BUILT_IN:
        return BUILT_IN[key]
    name = key.removeprefix("onig ")
    if name.startswith("\\p{"):
        return name[3:-1].lower().replace("_", "")
    return name[1:-1] if name.startswith("[[:") else name


def classes():
    numbers, rows = [], []
    for key, ranges in load("classes.json").items():
        part = deltas(ranges)
        rows.append((class_name(key), len(numbers), len(part)))
        numbers += part
    rows.sort()
    text = HEAD + array("kRanges", numbers) + "const NamedClass kClasses[] = {\n"
    text += "".join(f"    {{{json.dumps(n)}, {at}, {size}}},\n" for n, at, size in rows)
    text += f"}};\nconst size_t kClasses_size = {len(rows)};\n" + TAIL
    (ROOT / "src/text/unicode_classes.cc").write_text(text, encoding="utf-8")


def maps():
    streams = {"kCanonical": [], "kCompatibility": [], "kLower": []}
    last = dict.fromkeys(streams, 0)
    for line in (DATA / "maps.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for name, key in (("kCanonical", "nfd"), ("kCompatibility", "nfkd"), ("kLower", "lower")):
            if key in row:
                streams[name] += [row["c"] - last[name], len(row[key]), *row[key]]
                last[name] = row["c"]
    scripts = sorted([first, last_, int(s)] for s, ranges in load("scripts.json").items() for first, last_ in ranges)
    text = HEAD + "".join(array(name, numbers) for name, numbers in streams.items())
    text += array("kCompose", [n for pair in load("compose.json")["pairs"] for n in pair])
    text += array("kCombining", deltas(load("ccc.json")["ranges"]))
    text += array("kScripts", deltas(scripts)) + TAIL
    (ROOT / "src/text/unicode_maps.cc").write_text(text, encoding="utf-8")


classes()
maps()
