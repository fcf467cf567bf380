#!/usr/bin/env python3
"""Compares tokenizers with the Hugging Face library on random texts, and records hashes of what the library gives.

usage: record_tokenizers.py PARITY ROOT [--record] [--blocks N] [--first N] [--only WORD] [--beside ROOT2] [--seconds N]

PARITY: the program tokenizer_parity of a build. ROOT: a folder of tokenizers (tests/data/text/tokenizers).
--record writes ROOT/random.json: for every tokenizer a hash of each of N blocks (default 20) of 1,000 texts.
Without it: every text is compared, and the recorded hashes with the library's; --seconds goes on with further blocks until
the time is up; --beside leaves out what ROOT2 has too. Exit 1 if anything differs. Needs node and the npm package @anush008/tokenizers (BINDING: its folder).
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import gzip

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 1000
# Where two segmentations have one score the library's choice depends on its hash map: either is right.
TIES = ("t5-style",)


def read(path):
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


def definition(folder):
    """The bytes of a folder's tokenizer.json; a variant is applied to its base."""
    if not (folder / "variant.json").exists():
        return read(folder / "tokenizer.json")
    change = json.loads(read(folder / "variant.json"))
    base = json.loads(definition(folder.parent / change["base"]))
    base.update(change.get("set", {}))
    base["model"].update(change.get("set_model", {}))
    return json.dumps(base, ensure_ascii=False).encode()


def lines(command, text=None):
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True)
    return done.stdout.split(b"\n")[:-1]


def record(line):
    """The bytes that are hashed; tests/parity/tokenizer_parity.cc has them too."""
    if line is None:
        return b"error\n"
    ids, special, decoded = line
    return b"%s|%s|%s\n" % (",".join(map(str, ids)).encode(), ",".join(map(str, special)).encode(), decoded.encode())


class Comparison:
    def __init__(self, parity):
        self.parity, self.texts, self.differ = parity, 0, 0

    def block(self, folder, file, first, count):
        """Hashes of the library's answers for these blocks; differences are printed."""
        where = [str(folder), str(first), str(count)]
        texts = lines([self.parity, "strings", *where])
        theirs = lines(["node", str(HERE / "hf_tokenizers.js"), file], b"".join(t + b"\n" for t in texts))
        ours = lines([self.parity, "encode", *where])
        if not len(texts) == len(theirs) == len(ours) == count * BLOCK:
            sys.exit(f"{folder.name}: {len(texts)} texts, {len(theirs)} and {len(ours)} answers")
        hashes, shown = [], 0
        for begin in range(0, len(texts), BLOCK):
            digest = hashlib.sha256()
            for i in range(begin, begin + BLOCK):
                a, b = json.loads(ours[i]), json.loads(theirs[i])
                digest.update(record(b))
                if a != b and not (folder.name in TIES and a and b and a[2] == b[2]):
                    self.differ += 1
                    shown += 1
                    if shown <= 3:
                        print(f"{folder.name} {first + begin // BLOCK}: {texts[i].decode()}\n  ours {a}\n  theirs {b}", flush=True)
            hashes.append(digest.hexdigest()[:12])
        self.texts += len(texts)
        return hashes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parity")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--beside", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=0)
    options = parser.parse_args()
    begin, comparison = time.monotonic(), Comparison(options.parity)
    folders = sorted(p.parent for pattern in ("*/tokenizer.json*", "*/variant.json") for p in options.root.glob(pattern))
    folders = [folder for folder in folders if options.only in folder.name and
               not (options.beside and (options.beside / folder.name).is_dir())]
    kept = options.root / "random.json"
    recorded = json.loads(kept.read_text())["tokenizers"] if kept.exists() and not options.record else {}
    found, first = {}, options.first
    with tempfile.TemporaryDirectory() as scratch:
        files = {folder: os.path.join(scratch, folder.name + ".json") for folder in folders}
        for folder, file in files.items():
            pathlib.Path(file).write_bytes(definition(folder))
        while True:
            for folder in folders:
                if options.seconds and time.monotonic() - begin > options.seconds:
                    break
                hashes = comparison.block(folder, files[folder], first, options.blocks)
                found[folder.name] = hashes
                known = recorded.get(folder.name, [])[first:first + options.blocks]
                if known and known != hashes[:len(known)]:
                    comparison.differ += 1
                    print(f"{folder.name}: the library gives something else than what is recorded")
            first += options.blocks
            if time.monotonic() - begin > options.seconds:
                break
    print(f"{len(folders)} tokenizers, {comparison.texts} random texts, {comparison.differ} differ, "
          f"{time.monotonic() - begin:.0f} s")
    if options.record:
        rows = ",\n".join(f'  "{name}": {json.dumps(hashes)}' for name, hashes in sorted(found.items()))
        kept.write_text(f'{{"library": "tokenizers 0.22.2 (npm @anush008/tokenizers 0.6.0)", "tokenizers": {{\n{rows}\n}}}}\n')
    return 1 if comparison.differ or not comparison.texts else 0


if __name__ == "__main__":
    sys.exit(main())
