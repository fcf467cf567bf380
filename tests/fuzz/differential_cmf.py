#!/usr/bin/env python3
"""Two readers, one opinion: mutated .cmf files through the C++ reader and the independent Python reader.

usage: differential_cmf.py DESCRIBE_CMF SECONDS [--seed N] [--out FOLDER]   new files; what parts them is kept in FOLDER
       differential_cmf.py DESCRIBE_CMF --replay [PATH…]                    the kept ones (corpus/differential_cmf)

They must agree on valid or not, on the kind of the error, on the problems that verify finds, and for what opens on the
directory's hash, tensors, decoded values, masks, skills, index and every key of arch. Exit 1 when they do not.
"""
import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "python"))
import cmf_reader  # noqa: E402
from cmf_reader import hash64  # noqa: E402

import cmf_mutants  # noqa: E402

CORPUS = HERE / "corpus" / "differential_cmf"


def digest(data):
    return f"{hash64(data):016x}"


def digest_values(values):
    values = np.array(values, "<f4").ravel()
    values[np.isnan(values)] = np.float32(np.nan)
    return digest(values.tobytes())


# ---- the Python reader's half of describe_cmf.cc ---------------------------------------------------------------------------

def describe_tensors(model):
    out = []
    for name, (entry, shard) in model.tensors.items():
        out.append([name, entry["dtype"], entry["shape"], entry["off"], entry["nbytes"], f"{entry['hash']:016x}", shard,
                    digest_values(model.tensor(name))])
    return out


def describe_masks(model):
    if model.masks_meta is None:
        return None
    bits = lambda rows: digest(np.ascontiguousarray(rows).astype(np.uint8).tobytes())
    return [model.masks_meta["default_task"]] + [
        [m.meta["task_id"], m.meta["name"], m.meta.get("description") or "", m.meta["priority"], m.meta["sparsity"],
         m.meta.get("quality"), m.per_visit, m.tail_bits, bits(m.ffn), bits(m.heads), bits(m.gates),
         None if m.experts is None else bits(m.experts)] for m in model.masks]


def describe_skills(model):
    out = []
    for skill in model.skills:
        found = None
        if skill.get("selection") is not None:
            try:
                mean, basis = model.selection(skill["id"])
                rule = skill["selection"]
                found = [rule["metric"], rule["phi_layer"], len(basis), digest_values(mean), digest_values(basis)]
            except cmf_reader.CmfError:
                found = "unusable"
        out.append([skill["id"], skill.get("name") or "", skill.get("layers", []), skill.get("input_mask_task") or "",
                    skill.get("base_dir_hash") or "", skill.get("base_arch") or "", skill.get("task") or "", found])
    return out


def describe_chat(header):
    chat = header.get("tokenizer_config")
    if chat is None:
        return None
    return [chat.get("chat_template"), chat.get("eos_token_ids", []), chat.get("bos_token_id"), chat.get("pad_token_id")]


def describe_file(path):
    with cmf_reader.CmfReader(path, sharded=False) as model:
        file = model.shards[0]
        shard = model.header.get("shard")
        return {"directory": digest(file.section("dir")), "features": file.features, "skill_file": file.skill_file,
                "shard": None if shard is None else [shard["no"], shard["count"]], "quant_type": model.header["quant_type"],
                "chat": describe_chat(model.header), "arch": model.arch, "tokenizer": digest(file.section("vocab")),
                "masks": describe_masks(model), "skills": describe_skills(model), "tensors": describe_tensors(model),
                "index": [[task, layer, digest(groups.tobytes()), digest(heads.tobytes())] for task, layer, groups, heads in model.index],
                "problems": [[p["kind"], p["where"]] for p in file.problems()]}


def describe_set(path):
    with cmf_reader.CmfReader(path) as model:
        return describe_tensors(model)


def or_kind(describe, path):
    try:
        return describe(path)
    except cmf_reader.CmfError as error:
        return error.kind


def describe(path):
    out = {"file": or_kind(describe_file, path)}
    if isinstance(out["file"], dict) and out["file"]["shard"] is not None:
        out["set"] = or_kind(describe_set, path)
    return out


# ---- comparison -----------------------------------------------------------------------------------------------------------

PLAIN = re.compile(r"tensor [!#-\[\]-~]{1,150}\Z")
PLACES = {"section header": "header", "section dir": "directory", "section vocab": "tokenizer", "section masks": "masks",
          "section index": "index"}


def places(problems):
    """As a set: one reader reports every bad row, the other the first; odd names are spelled differently."""
    return sorted({(kind, where if PLAIN.match(where) or not where.startswith("tensor ") else "tensor")
                   for kind, where in ((kind, PLACES.get(where, where)) for kind, where in problems)})


def quality(text):
    return cmf_reader.strict_json(text.encode(), "quality") if text else None


def differing_arch(ours, theirs):
    """Keys both have: one side shows every key with its default, the other what stands in the file."""
    return [key for key in ours if key in theirs and ours[key] is not None and theirs[key] not in (None, []) and
            not same_value(ours[key], theirs[key])]


def same_value(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same_value(a[key], b[key]) for key in a if key in b and a[key] is not None and b[key] is not None)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return float(a) == float(b)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def difference(ours, theirs):
    """Where the two descriptions part, or None."""
    for part in ("file", "set"):
        a, b = ours.get(part), theirs.get(part)
        if not isinstance(a, dict) or not isinstance(b, dict):
            if a != b:
                short = lambda v: v if isinstance(v, str) else "nothing" if v is None else "opens"
                return f"{part}: C++ {short(a)}, Python {short(b)}" + (f" ({ours['message']})" if "message" in ours else "")
            continue
        a, b = dict(a), dict(b)
        keys = differing_arch(a.pop("arch"), b.pop("arch"))
        if keys:
            return f"arch: {keys}"
        a["problems"], b["problems"] = places(a["problems"]), places(b["problems"])
        if a["masks"]:
            a["masks"] = a["masks"][:1] + [m[:5] + [quality(m[5])] + m[6:] for m in a["masks"][1:]]
        for key in a:
            if not same_value(a[key], b[key]):
                return f"{key}: C++ {json.dumps(a[key])[:400]}\n  Python {json.dumps(b[key])[:400]}"
    return None


class Describer:
    """The C++ reader in its own process; a crash is a finding, and the next file gets a new process."""

    def __init__(self, program):
        self.program, self.process = program, None

    def __call__(self, path):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the C++ reader ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


def compare(describer, path):
    """(what parts the readers or None, "OK" or the kind of the error)."""
    try:
        ours, theirs = describer(str(path)), describe(str(path))
    except Exception:  # neither may end in anything but an error of the format
        return traceback.format_exc(limit=-3), "crash"
    verdict = ours["file"] if isinstance(ours["file"], str) else "damaged" if ours["file"]["problems"] else "valid"
    return difference(ours, theirs), verdict


def inputs(paths):
    """Every .cmf below the paths, in archives too; of a set of shards each name is tried."""
    for path in paths:
        if path.is_dir():
            yield from inputs(sorted(path.iterdir()))
        elif path.suffix == ".zip":
            with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
                yield from inputs([pathlib.Path(folder)])
        elif path.suffix == ".cmf":
            yield path


def replay(describer, paths):
    count = bad = 0
    for path in inputs([pathlib.Path(p) for p in paths] or [CORPUS, HERE / "corpus" / "fuzz_cmf"]):
        count += 1
        found, _ = compare(describer, path)
        if found:
            bad += 1
            print(f"{path}: {found}")
    print(f"{count} files, the readers disagree on {bad}")
    return 1 if bad or not count else 0


def fuzz(describer, seconds, seed, out):
    verdicts, bad, begin = collections.Counter(), 0, time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None))
    while time.monotonic() - begin < seconds:
        number = sum(verdicts.values())
        rng = random.Random(f"{seed}.{number}")
        files, opened = cmf_mutants.shard_set(rng) if rng.random() < 0.1 else ({"m.cmf": cmf_mutants.mutant(rng)}, "m.cmf")
        for old in folder.iterdir():
            old.unlink()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        found, verdict = compare(describer, folder / opened)
        verdicts[verdict] += 1
        if found:
            bad += 1
            print(f"{seed}.{number} ({opened}): {found}", flush=True)
            if out and bad <= 1000:
                keep = pathlib.Path(out) / f"{seed}.{number}"
                shutil.copytree(folder, keep, dirs_exist_ok=True)
                (keep / "found.txt").write_text(f"{opened}: {found}\n", encoding="utf-8")
        if number % 20000 == 19999:
            print(f"{number + 1} files, {time.monotonic() - begin:.0f} s, {dict(verdicts)}, {bad} differences", flush=True)
    shutil.rmtree(folder)
    print(f"{sum(verdicts.values())} files in {time.monotonic() - begin:.0f} s: {dict(verdicts.most_common())}; "
          f"the readers disagree on {bad}")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_intermixed_args()
    describer = Describer(options.program)
    try:
        if options.replay:
            return replay(describer, options.rest)
        return fuzz(describer, float(options.rest[0]), options.seed, options.out)
    finally:
        describer.close()


if __name__ == "__main__":
    sys.exit(main())
