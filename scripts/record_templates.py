#!/usr/bin/env python3
"""Records what jinja2, set up as Hugging Face transformers does it, makes of templates; or compares with a record.

usage: record_templates.py FILE.jsonl            every line gets its "output", or "error" and "message"
       record_templates.py --check FILE.jsonl    exit 1 if jinja2 gives something else today
A line is {"template", "context", …}. Needs jinja2 (Debian: python3-jinja2).
"""
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = datetime.datetime(2024, 7, 26, 14, 5, 9)


class Generation(Extension):
    """{% generation %} marks the assistant's text for training; rendering prints its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                           extensions=[Generation, "jinja2.ext.loopcontrols"])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = lambda format: CLOCK.strftime(format)
    return result


def render(template, context, made=None):
    try:
        return {"output": (made or environment()).from_string(template).render(**context)}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def main():
    check = "--check" in sys.argv
    path = pathlib.Path([a for a in sys.argv[1:] if a != "--check"][0])
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    differ = 0
    for row in rows:
        now = render(row["template"], row["context"])
        if check:
            same = row.get("output") == now.get("output") and ("error" in row) == ("error" in now)
            differ += not same
            if not same:
                print(json.dumps(row)[:200], "\n  now:", json.dumps(now)[:200])
        else:
            for key in ("output", "error", "message"):
                row.pop(key, None)
            row.update(now)
    if check:
        print(f"{len(rows)} cases, {differ} differ (jinja2 {jinja2.__version__})")
        sys.exit(differ > 0)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
