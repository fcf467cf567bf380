#!/usr/bin/env python3
"""What the draft head of models/nano-hybrid-mtp is worth: share of accepted drafts on chat and on running text, as its
eval.json counts them, and the speed of speculative decoding on a larger model of the same ids (scripts/enlarge.py).

usage: scripts/speculation.py [--program build/release/cortiq] [--rounds 5]   (a minute; standard library only)
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from program import ROOT, cortiq, option

MODEL = ROOT / "models/nano-hybrid-mtp"
DATA = ROOT / "models/nano-data"


def acceptance(file, requests):
    accepted = drafted = 0
    for request in requests:
        said = json.loads(cortiq("run", file, *request, "-n", 48, "--greedy", "--json", "--mtp-hidden", "pre"))
        accepted, drafted = accepted + said["accepted"], drafted + said["drafted"]
    return accepted, drafted


def main():
    with tempfile.TemporaryDirectory(prefix="cortiq-speculation-") as work:
        work = pathlib.Path(work)
        small, large = work / "small.cmf", work / "large.cmf"
        cortiq("convert", MODEL, "-o", small, "--quant", "bf16")
        facts = json.loads((MODEL / "eval.json").read_text())["mtp"]
        chat = []
        for path in sorted(DATA.glob("heldout_*.jsonl")):
            if path.stem.removeprefix("heldout_") in facts["per_task"]:
                rows = [json.loads(line) for line in path.read_text().splitlines()[:40]]
                chat += [("-p", r["messages"][0]["content"]) for r in rows]
        ids = json.loads(cortiq("tokenize", small, "--jsonl", stdin=json.dumps((DATA / "heldout_text.txt").read_text()) + "\n"))
        text = [("--ids", ",".join(map(str, ids[at : at + 40]))) for at in range(0, len(ids) - 40, 256)]
        for name, requests, recorded in (("chat", chat, facts["chat_rate"]), ("text", text, facts["text_rate"])):
            accepted, drafted = acceptance(small, requests)
            print(f"{name}: {accepted} of {drafted} drafts accepted, {accepted / drafted:.4f}; recorded {recorded}")

        subprocess.run([sys.executable, ROOT / "scripts/enlarge.py", MODEL, work / "large"], check=True)
        for quant in ("q8", "q4t"):
            cortiq("convert", work / "large", "-o", large, "--quant", quant)
            rates = {"with": [], "without": []}
            told = {}
            for _ in range(int(option("--rounds", "5"))):
                for name, flags in (("with", []), ("without", ["--no-mtp"])):
                    told[name] = json.loads(cortiq("run", large, "--ids", ",".join(map(str, ids[:40])), "-n", 200, "--ignore-eos", "--greedy", "--json", *flags))
                    rates[name].append((len(told[name]["ids"]) - 1) / told[name]["decode_seconds"])
            assert told["with"]["ids"] == told["without"]["ids"], "speculation changed the output"
            a, b = (statistics.median(rates[n]) for n in ("with", "without"))
            share = told["with"]["accepted"] / told["with"]["drafted"]
            print(f"{quant}, {large.stat().st_size / 1e6:.0f} MB: {a:.1f} tokens/s with drafts ({share:.3f} accepted), {b:.1f} without, {a / b:.2f} times")


main()
