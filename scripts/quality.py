#!/usr/bin/env python3
"""Measures what quantisation costs on the trained models and writes docs/quality.md.

usage: scripts/quality.py [--program build/release/cortiq]   (minutes; standard library only)

Exact match: greedy answers to the held-out rows of models/nano-data, as text, equal to the recorded answer and ended by
an end token. Perplexity: the held-out text in windows of 256 ids, each a fresh context; for stories260k English prose,
far from the stories it was trained on, so that its numbers compare between dtypes only.
"""
import json
import pathlib
import tempfile

from program import ROOT, cortiq

QUANTS = ["f32", "bf16", "f16", "q8", "q8_2f", "vbit", "q4tp", "q4t", "q4"]
MODELS = [(name, "models/nano-data/heldout_text.txt") for name in ("nano", "nano-moe", "nano-hybrid-mtp")]
MODELS.append(("stories260k", "models/stories260k/english.txt"))


def exact_match(file, facts, *mode):
    tasks = [t for t in facts["exact_match"] if (ROOT / f"models/nano-data/heldout_{t}.jsonl").exists()]
    requests, answers = [], []
    for task in tasks:
        for line in (ROOT / f"models/nano-data/heldout_{task}.jsonl").read_text(encoding="utf-8").splitlines():
            messages = json.loads(line)["messages"]
            requests.append(json.dumps({"messages": messages[:-1], "n": 48}))
            answers.append((task, messages[-1]["content"]))
    rows = cortiq("batch", file, "-", "--greedy", "--parallel", 16, *mode, stdin="\n".join(requests)).splitlines()
    hits = dict.fromkeys(tasks, 0)
    counts = dict.fromkeys(tasks, 0)
    for row, (task, answer) in zip(map(json.loads, rows), answers):
        counts[task] += 1
        hits[task] += row.get("text") == answer and row.get("finish") == "stop"
    return {t: 100 * hits[t] / counts[t] for t in tasks}, 100 * sum(hits.values()) / sum(counts.values())


def perplexity(file, text, *mode):
    return json.loads(cortiq("ppl", file, "--file", text, "--windows-all", 256, "--json", *mode))["ppl"]


def measure(model, text, work):
    facts = json.loads((model / "eval.json").read_text()) if (model / "eval.json").exists() else None
    rows, by_task = [], {}
    for quant in QUANTS:
        file = work / f"{model.name}.cmf"
        said = json.loads(cortiq("convert", model, "-o", file, "--quant", quant, "--json"))
        row = {"quant": quant, "bytes": said["bytes"], "fast": perplexity(file, text), "exact": perplexity(file, text, "--exact")}
        if facts:
            by_task[quant], row["match"] = exact_match(file, facts)
        rows.append(row)
        print(model.name, row, flush=True)
    return facts, rows, by_task


def caches(models, work):
    """Perplexity and exact match of the unquantised models under each type of key/value cache."""
    for name, text in models:
        model, file = ROOT / "models" / name, work / f"{name}.cmf"
        cortiq("convert", model, "-o", file, "--quant", "f32")
        facts = json.loads((model / "eval.json").read_text()) if (model / "eval.json").exists() else None
        base = perplexity(file, ROOT / text, "--kv", "f32")
        row = [name, f"{base:.5f}"]
        for kv in ("f16", "q8"):
            row.append(f"{100 * (perplexity(file, ROOT / text, '--kv', kv) / base - 1):+.4f} %")
        row += [f"{exact_match(file, facts, '--kv', kv)[1]:.2f}" if facts else "–" for kv in ("f32", "f16", "q8")]
        print(row, flush=True)
        yield row


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---" for _ in head) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def main():
    out = ["# What quantisation costs", "",
           "Written by `scripts/quality.py`; every figure is measured on models that the repository carries. *Exact mode* decodes every weight to f32; the default multiplies quantised weights with 8-bit activations. *Recorded* is what the model's own `eval.json` says of the unquantised checkpoint, by another implementation.", ""]
    with tempfile.TemporaryDirectory(prefix="cortiq-quality-") as work:
        for name, text in MODELS:
            model = ROOT / "models" / name
            facts, rows, by_task = measure(model, ROOT / text, pathlib.Path(work))
            out += [f"## {name}", ""]
            if facts:
                recorded = facts.get("text_perplexity")
                recorded = recorded.get("value") if isinstance(recorded, dict) else recorded
                out += [f"Recorded: exact match {100 * facts['exact_match']['pooled']:.2f} %, perplexity {recorded}. Text: `{text}`.", ""]
            else:
                out += [f"Text: `{text}`, far from what the model was trained on: compare the columns, not with other models.", ""]
            head = ["`--quant`", "file, MB", "exact match, %", "perplexity", "exact mode", "default / exact"]
            body = [[r["quant"], f"{r['bytes'] / 1e6:.2f}", f"{r['match']:.2f}" if "match" in r else "–", f"{r['fast']:.5f}", f"{r['exact']:.5f}",
                     f"{100 * (r['fast'] / r['exact'] - 1):+.3f} %"] for r in rows]
            out += [*table(head, body), ""]
            if by_task:
                tasks = list(next(iter(by_task.values())))
                out += ["Exact match by task, %:", "", *table(["task", *by_task], [[t, *(f"{by_task[q][t]:.0f}" for q in by_task)] for t in tasks]), ""]
        head = ["f32 weights", "perplexity, f32 cache", "f16 cache", "q8 cache", "exact match, f32 cache, %", "f16", "q8"]
        out += ["## Key/value caches", "", "`--kv f16` is the default; `--kv q8` halves it: int8 with a scale for each head and position.", "",
                *table(head, caches(MODELS, pathlib.Path(work))), ""]
    (ROOT / "docs/quality.md").write_text("\n".join(out), encoding="utf-8")


main()
