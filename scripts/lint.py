#!/usr/bin/env python3
"""What a reader should never have to find by hand: layers that look the wrong way, files that hold two ideas,
formatting, words that do not belong into the repository.

usage: scripts/lint.py   (from anywhere; exit 1 when something is found)
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 500
# A layer may include itself and these (docs/architecture.md).
LAYERS = {
    "base": [],
    "codec": ["base"],
    "cmf": ["codec", "base"],
    "text": ["base"],
    "kernels": ["codec", "base"],
    "engine": ["cmf", "text", "kernels", "codec", "base"],
    "convert": ["cmf", "text", "codec", "base"],
    "skills": ["engine", "convert", "cmf", "text", "kernels", "codec", "base"],
    "api": ["engine", "convert", "cmf", "text", "kernels", "codec", "base"],
    "cli": ["skills", "convert", "engine", "cmf", "text", "kernels", "codec", "base"],
}
FORBIDDEN = [r"/work/", r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", r"registry\.npmjs", r"deb\.debian\.org"]
INCLUDE = re.compile(r'^\s*#include "([a-z_]+)/', re.M)


def tracked(*patterns):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *patterns], capture_output=True, text=True, check=True).stdout
    return [ROOT / n for n in names.split("\0") if n and (ROOT / n).is_file()]


def layers(complain):
    for path in tracked("src/*.cc", "src/*.h", "src/**/*.cc", "src/**/*.h"):
        layer = path.relative_to(ROOT / "src").parts[0]
        for other in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if other in LAYERS and other != layer and other not in LAYERS[layer]:
                complain(path, f"layer {layer} may not include {other}/")


def lengths(complain):
    for path in tracked("src/**", "tests/**/*.cc", "tests/**/*.h", "python/*.py", "bench/*"):
        if path.suffix in {".cc", ".h", ".py"}:
            text = path.read_text(encoding="utf-8")
            count = 0 if text.startswith("// Written by scripts/") else text.count("\n")
            if count > MAX_LINES and path.name != "cmf_reader.py":  # one file by design: it is copied alone
                complain(path, f"{count} lines; more than {MAX_LINES} are two ideas")


def words(complain):
    for path in tracked("src/**", "include/**", "tests/**", "docs/**", "scripts/**", "bench/**", "python/**", "*.md", "Makefile"):
        if path == pathlib.Path(__file__).resolve() or path.suffix not in {".cc", ".h", ".py", ".md", ".txt", ".sh", ".cmake", ""}:
            continue
        if "data" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for pattern in FORBIDDEN:
            if re.search(pattern, text):
                complain(path, f"holds '{pattern}'")


def formatting(complain):
    if not shutil.which("clang-format"):
        print("lint: clang-format is not installed (scripts/setup --dev); formatting was not checked")
        return
    sources = [str(p) for p in tracked("*.cc", "*.h", "**/*.cc", "**/*.h")]
    if not sources:
        return
    done = subprocess.run(["clang-format", "--dry-run", *sources], capture_output=True, text=True)
    for name in sorted({line.split(":")[0] for line in done.stderr.splitlines() if "clang-format-violations" in line}):
        complain(pathlib.Path(name), "is not formatted: make format")


def main():
    found = []
    complain = lambda path, why: found.append(f"{path.relative_to(ROOT)}: {why}")
    for check in (layers, lengths, words, formatting):
        check(complain)
    print("\n".join(found) if found else "lint: nothing found")
    sys.exit(1 if found else 0)


main()
