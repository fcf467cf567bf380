#!/usr/bin/env python3
"""Writes src/text/jinja/unicode_tables.inc: what Python's str methods know about each code point.

Chat templates are written against Python's str (Unicode 14 in Python 3.11, the reference of the recorded renders); the
tables are taken from the interpreter itself, so that upper(), title(), isalpha(), repr() agree with it exactly.
"""
import pathlib
import sys
import unicodedata

ALPHA, DECIMAL, DIGIT, NUMERIC, LOWER, UPPER, TITLE, PRINTABLE, IGNORABLE, START, CONTINUE = (1 << i for i in range(11))
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def flags(char):
    skipped = ("A\u03a3" + char + "A").lower()[1] == "\u03c3" and ("A\u03a3" + char).lower()[1] == "\u03c2"
    return (ALPHA * char.isalpha() | DECIMAL * char.isdecimal() | DIGIT * char.isdigit() | NUMERIC * char.isnumeric()
            | LOWER * char.islower() | UPPER * (char.isupper()) | TITLE * (unicodedata.category(char) == "Lt")
            | PRINTABLE * char.isprintable() | IGNORABLE * skipped
            | START * char.isidentifier() | CONTINUE * ("a" + char).isidentifier())


def runs(mapping):
    """{code: code} as (first, last, stride, delta)."""
    result = []
    for code, target in sorted(mapping.items()):
        delta = target - code
        if result:
            first, last, stride, known = result[-1]
            step = code - last
            if known == delta and step <= 2 and (stride == step or first == last):
                result[-1] = (first, code, step, delta)
                continue
        result.append((code, code, 1, delta))
    return result


def put(out, name, kind, items):
    out.append(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 118:
            out.append(line)
            line = "   "
        line += " " + item + ","
    out.append(line)
    out.append("};")


def case_map(out, name, change, otherwise):
    single, several = {}, {}
    for code in CODES:
        char = chr(code)
        target = change(char)
        if target != otherwise(char):
            if len(target) == 1:
                single[code] = ord(target)
            else:
                several[code] = target
    put(out, name, "CaseRun", [f"{{{a:#x}, {b:#x}, {s}, {d}}}" for a, b, s, d in runs(single)])
    special = ["{%#x, {%s}}" % (c, ", ".join(f"{ord(x):#x}" for x in t)) for c, t in sorted(several.items())]
    put(out, name + "Special", "CaseSpecial", special or ["{0, {0}}"])


def main():
    out = [f"// Made by scripts/make_python_unicode.py from Python {sys.version.split()[0]}, "
           f"Unicode {unicodedata.unidata_version}; do not edit.", "// clang-format off"]
    entries, last = [], None
    for code in CODES:
        now = flags(chr(code))
        if now != last:
            entries.append(f"{code << 11 | now:#x}")
            last = now
    put(out, "kProperties", "uint32_t", entries)
    case_map(out, "kLower", str.lower, lambda c: c)
    case_map(out, "kUpper", str.upper, lambda c: c)
    case_map(out, "kTitle", str.title, str.upper)
    case_map(out, "kFold", str.casefold, str.lower)
    out.append("// clang-format on")
    path = pathlib.Path(__file__).resolve().parent.parent / "src/text/jinja/unicode_tables.inc"
    path.write_text("\n".join(out) + "\n")


main()
