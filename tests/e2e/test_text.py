"""`tokenize` and `template` from outside: one JSON value a line in, one a line out."""
import json
import unicodedata

from support import NANO, Case, main


class Text(Case):
    def lines(self, rows, *arguments):
        out = self.ok(*arguments, stdin="".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)).out
        return [json.loads(line) for line in out.splitlines()]

    def test_every_kind_of_path_gives_the_recorded_ids(self):
        golden = json.loads((NANO / "tokenizer_golden.json").read_text(encoding="utf-8"))
        rows = golden if isinstance(golden, list) else next(v for v in golden.values() if isinstance(v, list) and v and isinstance(v[0], dict))
        texts = [r["text"] for r in rows][:50]
        ids = [r["ids"] for r in rows][:50]
        file = self.convert()
        for path in (file, NANO, NANO / "tokenizer.json"):
            self.assertEqual(self.lines(texts, "tokenize", path, "--jsonl"), ids)
        composed = [unicodedata.normalize("NFC", text) for text in texts]
        self.assertEqual(self.lines(ids, "tokenize", file, "--jsonl", "--decode"), composed)

    def test_bad_lines_fail_alone(self):
        got = self.lines(["a", 5, "b"], "tokenize", NANO, "--jsonl")
        self.assertIsInstance(got[0], list)
        self.assertIn("error", got[1])
        self.assertIsInstance(got[2], list)
        out = self.ok("tokenize", NANO, "--jsonl", stdin='"\\ud800"\n"ok"\n').out.splitlines()
        self.assertIn("error", json.loads(out[0]))
        got = self.lines([[1], [-1], [4294967296], [99999]], "tokenize", NANO, "--jsonl", "--decode")
        self.assertIn("error", got[1])
        self.assertIn("error", got[2])
        self.assertEqual(got[3], "")

    def test_human_forms(self):
        self.assertEqual(self.ok("tokenize", NANO, "--text", "a b").out.strip().count(","), 1)
        self.assertIn("ids", self.ok("tokenize", NANO, "--text", "hello world", "--pieces").out)

    def test_template_renders_and_fails_line_by_line(self):
        golden = json.loads((NANO / "golden.json").read_text(encoding="utf-8"))["chat"][0]
        context = {"messages": golden["messages"], "add_generation_prompt": True}
        file = self.convert()
        for path in (file, NANO, NANO / "tokenizer_config.json"):
            self.assertEqual(self.lines([context], "template", path, "--jsonl"), [{"output": golden["prompt_text"]}])
        rows = [{"template": "{{ x }}", "context": {"x": 1}}, {"template": "{{ x ", "context": {}}, {"template": "{{ raise_exception('no') }}", "context": {}},
                {"template": "{{ strftime_now('%Y') }}", "context": {}}, {"template": "{% for i in range(99999999) %}x{% endfor %}", "context": {}}]
        got = self.lines(rows, "template", "-", "--jsonl", "--now", "2024-07-26T14:05:09")
        self.assertEqual(got[0], {"output": "1"})
        self.assertIn("error", got[1])
        self.assertIn("no", got[2]["error"])
        self.assertEqual(got[3], {"output": "2024"})
        self.assertIn("error", got[4])


main()
