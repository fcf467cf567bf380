#!/usr/bin/env python3
"""Random chat templates through cortiq and jinja2: the same text, or an error in both.

usage: differential_templates.py CORTIQ SECONDS [--seed N] [--out FILE.jsonl]   live, against jinja2 (python3-jinja2)
       differential_templates.py CORTIQ --replay [FILE.jsonl…]                  against what jinja2 gave when recorded
       differential_templates.py CORTIQ --record COUNT                          records random.jsonl anew

Differences go to FILE.jsonl with what jinja2 gives. Without jinja2 the first form does the second. Exit 1 on differences.
"""
import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import template_grammar  # noqa: E402

CORPUS = HERE / "corpus" / "differential_templates"
NOW = "2024-07-26T14:05:09"
BATCH = 500
# What docs/templates.md says is not alike: addresses, what is refused by name, a namespace inside itself, slices of
# constants that cannot be sliced.
OTHERS = re.compile(r" at 0x[0-9a-f]+|<(bound|built-in) method|<function |<class |\{\.\.\.\}", re.I)
REFUSED = re.compile(r"nsupported|not supported|bytes object|columns|budget|too (many|long|deep|large)|more than|nested deeper")
CONSTANT_SLICE = re.compile(r"""[\w'")\]}]\[[-\d]*:""")
NOT_SLICEABLE = re.compile(r"not subscriptable|unhashable type: 'slice'")


def render_ours(program, cases):
    text = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([program, "template", "-", "--jsonl", "--now", NOW], input=text, capture_output=True, text=True, encoding="utf-8")
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    if done.returncode or len(answers) != len(cases):
        raise RuntimeError(f"cortiq ended with {done.returncode} after {len(answers)} of {len(cases)}: {done.stderr[-300:]}")
    return answers


def difference(case, ours, theirs):
    """None, or what differs. An error is compared by failing, a template's own by its message."""
    if "error" in ours and "error" in theirs:
        own = theirs["error"] == "TemplateError"
        return None if not own or theirs["message"] in ours["error"] else "another message"
    if ours.get("output") == theirs.get("output") and "output" in ours:
        return None
    if "error" in ours and REFUSED.search(ours["error"]):
        return None
    if "error" in ours and NOT_SLICEABLE.search(ours["error"]) and CONSTANT_SLICE.search(case["template"]):
        return None
    if "output" in theirs and OTHERS.search(theirs["output"]):
        return None
    return "only ours fails" if "error" in ours else "only jinja2 fails" if "error" in theirs else "another text"


def replay(program, paths):
    files = [pathlib.Path(p) for p in paths] or sorted(CORPUS.glob("*.jsonl"))
    cases = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").split("\n") if line]
    bad = 0
    for case, ours in zip(cases, render_ours(program, [{"template": c["template"], "context": c["context"]} for c in cases])):
        found = difference(case, ours, case)
        if found:
            bad += 1
            print(f"{found}: {json.dumps(case)[:600]}\n  ours {json.dumps(ours)[:300]}")
    print(f"{len(cases)} recorded templates, {bad} differ")
    return 1 if bad or not cases else 0


def limit_memory():
    """A random product may be a text of gigabytes: jinja2 has no budgets."""
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def oracle():
    """jinja2's render, with objects whose text has an address shown as cortiq shows them."""
    import functools
    import record_templates
    from jinja2.utils import Cycler, Joiner

    class generator:
        def __init__(self, items):
            self.items = items

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.items)

        def __repr__(self):
            return "<generator object>"

    def shown(function):
        return functools.wraps(function)(lambda *args, **kwargs: generator(function(*args, **kwargs)))

    class ShownCycler(Cycler):
        __repr__ = lambda self: "<Cycler object>"

    class ShownJoiner(Joiner):
        __repr__ = lambda self: "<Joiner object>"

    plain = record_templates.environment

    def environment():
        made = plain()
        for name in ("map", "select", "reject", "selectattr", "rejectattr", "items", "batch", "slice", "unique"):
            made.filters[name] = shown(made.filters[name])
        made.globals.update(cycler=ShownCycler, joiner=ShownJoiner)
        return made

    record_templates.environment = environment
    return record_templates.render


def record(count, seed):
    """Random templates with what jinja2 gives, each context without the variables that its template does not name."""
    from record_templates import environment, render
    shown, rng, kept = oracle(), random.Random(f"record.{seed}"), []
    limit_memory()
    while len(kept) < count:
        source, context = template_grammar.template(rng), template_grammar.context(rng)
        context = {key: one for key, one in context.items() if re.search(rf"\b{key}\b", source)}
        answer = render(source, context, environment())
        line = json.dumps({"template": source, "context": context, **answer})
        # Errors are the more frequent half and say less.
        if len(line) < 1200 and not OTHERS.search(line) and answer == shown(source, context) and (answer.get("output") or len(kept) % 8 == 0):
            kept.append(line + "\n")
    CORPUS.mkdir(parents=True, exist_ok=True)
    (CORPUS / "random.jsonl").write_text("".join(kept), encoding="utf-8")
    print(f"{count} templates recorded")
    return 0


def fuzz(options):
    warnings.simplefilter("ignore")
    try:
        render = oracle()
        limit_memory()
    except ImportError:
        print("jinja2 is not installed: only what it gave when it was is compared")
        return replay(options.program, [])
    seconds, counts, bad, batch, begin = float(options.rest[0]), collections.Counter(), 0, 0, time.monotonic()
    out = open(options.out, "a", encoding="utf-8") if options.out else None
    while time.monotonic() - begin < seconds:
        rng = random.Random(f"{options.seed}.{batch}")
        batch += 1
        cases = [{"template": template_grammar.template(rng), "context": template_grammar.context(rng)} for _ in range(BATCH)]
        for case, ours in zip(cases, render_ours(options.program, cases)):
            theirs = render(case["template"], case["context"])
            counts["text" if "output" in theirs else theirs["error"]] += 1
            found = difference(case, ours, theirs)
            if found:
                bad += 1
                print(f"{found}: {json.dumps(case)[:1500]}\n  ours {json.dumps(ours)[:300]}\n  jinja2 {json.dumps(theirs)[:300]}", flush=True)
                if out:
                    out.write(json.dumps({**case, **theirs}) + "\n")
                    out.flush()
    print(f"{sum(counts.values())} templates in {time.monotonic() - begin:.0f} s: {dict(counts.most_common())}; {bad} differ")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--record", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_intermixed_args()
    if options.record:
        return record(options.record, options.seed)
    return replay(options.program, options.rest) if options.replay else fuzz(options)


if __name__ == "__main__":
    sys.exit(main())
