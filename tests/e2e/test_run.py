"""Running the demo's model: recorded answers, streams, batches, limits, and one result on every machine."""
import json
import os
import signal
import subprocess
import time

from support import NANO, PROGRAM, ROOT, Case, Terminal, cortiq, floats, main, read_safetensors

GOLDEN = json.loads((NANO / "golden.json").read_text())


class Run(Case):
    @classmethod
    def setUpClass(cls):
        import pathlib, tempfile
        cls.shared = tempfile.TemporaryDirectory(prefix="cortiq-run-")
        cls.files = {}
        for quant in ("f32", "bf16", "q8", "q4tp"):
            cls.files[quant] = pathlib.Path(cls.shared.name) / f"{quant}.cmf"
            assert cortiq("convert", NANO, "-o", cls.files[quant], "--quant", quant).status == 0

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def test_recorded_answers_in_both_modes(self):
        for quant in ("f32", "bf16"):
            for row in GOLDEN["chat"][:8]:
                if row["min_margin"] < 0.05:
                    continue
                for mode in ([], ["--exact"]):
                    said = self.ok_json("run", self.files[quant], "--ids", ",".join(map(str, row["prompt_ids"])), "-n", 48, "--greedy", "--json", *mode)
                    self.assertEqual(said["ids"], row["generated_ids"])
                    self.assertEqual(said["finish"], "stop")

    def test_chat_prompt_is_rendered_as_recorded(self):
        row = GOLDEN["chat"][0]
        said = self.ok_json("run", self.files["bf16"], "-p", row["messages"][-1]["content"], "--greedy", "--json",
                            *(["--system", row["messages"][0]["content"]] if row["messages"][0]["role"] == "system" else []))
        self.assertEqual(said["prompt_tokens"], len(row["prompt_ids"]))
        self.assertEqual(said["ids"], row["generated_ids"])

    def test_streamed_text_equals_whole_text(self):
        streamed = self.ok("run", self.files["q8"], "-p", "Spell the word garden.", "--greedy").out
        whole = self.ok_json("run", self.files["q8"], "-p", "Spell the word garden.", "--greedy", "--json")["text"]
        self.assertEqual(streamed.split("\n[")[0], whole)

    def test_prompt_from_standard_input_is_taken_as_it_is(self):
        a = self.ok_json("run", self.files["q8"], "--greedy", "--json", stdin="What is the capital of France?")
        b = self.ok_json("run", self.files["q8"], "-p", "What is the capital of France?", "--greedy", "--json")
        c = self.ok_json("run", self.files["q8"], "--greedy", "--json", stdin="What is the capital of France?\r\n")
        self.assertEqual(a["prompt_tokens"], b["prompt_tokens"])
        self.assertEqual(a["ids"], b["ids"])
        self.assertGreater(c["prompt_tokens"], a["prompt_tokens"])
        escaped = self.ok_json("run", self.files["q8"], "-p", "a\\nb", "--raw", "-n", 1, "--greedy", "--json")
        newline = self.ok_json("run", self.files["q8"], "-p", "a\nb", "--raw", "-n", 1, "--greedy", "--json")
        self.assertGreater(escaped["prompt_tokens"], newline["prompt_tokens"])

    def test_context_limits(self):
        file = self.files["q8"]
        ids = lambda n: ",".join(["5"] * n)
        for n, want in ((63, 1), (64, 0)):
            said = self.ok_json("run", file, "--ids", ids(n), "-n", 10, "--context", 64, "--greedy", "--ignore-eos", "--json")
            self.assertEqual((len(said["ids"]), said["finish"]), (want, "length"))
        line = self.refused(("Bounds", "Usage"), "run", file, "--ids", ids(65), "-n", 10, "--context", 64, "--json", status=1)
        self.assertIn("65", line)
        self.assertIn("64", line)
        said = self.ok_json("run", file, "--ids", "5,6", "-n", 0, "--json")
        self.assertEqual((said["ids"], said["finish"]), ([], "length"))

    def test_same_seed_same_text_whatever_the_threads(self):
        texts = {self.ok_json("run", self.files["q8"], "-p", "Tell me a story.", "-n", 24, "--seed", 7, "--ignore-eos", "--json", "--threads", t)["text"]
                 for t in (1, 2, 3)}
        self.assertEqual(len(texts), 1)
        a = self.ok_json("run", self.files["q8"], "-p", "Tell me a story.", "-n", 24, "--ignore-eos", "--json")
        self.assertIsInstance(a["seed"], int)
        b = self.ok_json("run", self.files["q8"], "-p", "Tell me a story.", "-n", 24, "--ignore-eos", "--json", "--seed", a["seed"])
        self.assertEqual(a["ids"], b["ids"])

    def test_one_result_on_every_instruction_set_thread_count_and_batch(self):
        row = GOLDEN["chat"][0]
        ids = ",".join(map(str, row["prompt_ids"]))
        levels = self.ok("--version").out.split("instruction sets: ")[1].split(";")[0].split(", ")
        print("levels:", levels)
        for quant in ("q8", "q4tp", "bf16"):
            seen = set()
            for level in levels:
                for threads in (1, 2):
                    for chunk in (0, 1, 7):
                        out = self.dir / "l.safetensors"
                        self.ok("logits", self.files[quant], "--ids", ids, "--threads", threads, "--chunk", chunk, "-o", out, env={"CORTIQ_ISA": level})
                        seen.add(out.read_bytes())
            self.assertEqual(len(seen), 1, quant)
        requests = self.dir / "in.jsonl"
        requests.write_text("".join(json.dumps({"ids": r["prompt_ids"], "n": 48}) + "\n" for r in GOLDEN["chat"][:8]))
        together = [json.loads(l)["ids"] for l in self.ok("batch", self.files["q8"], requests, "--greedy", "--parallel", 8).out.splitlines()]
        alone = [json.loads(l)["ids"] for l in self.ok("batch", self.files["q8"], requests, "--greedy", "--parallel", 1).out.splitlines()]
        self.assertEqual(together, alone)

    def test_batch_keeps_order_and_reports_bad_rows_alone(self):
        requests = self.dir / "in.jsonl"
        rows = [{"id": 1, "messages": [{"role": "user", "content": "What is the capital of France?"}]}, {"id": "two"},
                {"id": 3, "prompt": "Once", "n": 3}, {"id": 4, "ids": [999999], "n": 3}, {"id": 5, "ids": [5, 6], "n": 2}, {"id": 6, "ids": [5], "temperature": -1},
                {"id": 10**30, "ids": [5, 6], "n": 1}]
        requests.write_text("".join(json.dumps(r) + "\n" for r in rows) + "{not json\n\n")
        out = self.dir / "out.jsonl"
        self.ok("batch", self.files["q8"], requests, "-o", out, "--greedy")
        got = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual([g.get("id") for g in got], [1, "two", 3, 4, 5, 6, 10**30, None])
        self.assertEqual(got[0]["text"], "Paris")
        self.assertEqual([("error" in g) for g in got], [False, True, False, True, False, True, False, True])
        self.assertEqual(len(got[4]["ids"]), 2)

    def test_a_copy_in_huge_pages_runs_alike(self):
        asked = ("run", self.files["q8"], "-p", "What is 17 plus 25?", "--greedy", "--json")
        self.assertEqual(self.ok_json(*asked, "--load", "huge")["ids"], self.ok_json(*asked, "--load", "mmap")["ids"])
        self.refused("Usage", *asked, "--load", "all", naming="huge", status=2)

    def test_perplexity_windows(self):
        text = ROOT / "models/nano-data/heldout_text.txt"
        one = self.ok_json("ppl", self.files["bf16"], "--file", text, "--json")
        self.assertEqual(one["windows"], 1)
        for mode in ([], ["--exact"]):
            many = self.ok_json("ppl", self.files["bf16"], "--file", text, "--windows-all", 256, "--json", *mode)
            self.assertEqual((many["windows"], many["tokens"]), (38, 9524))
            self.assertAlmostEqual(many["ppl"], 1.74794, delta=1.74794 * 0.005)  # models/nano/README.md

    def test_hidden_states_have_the_documented_names(self):
        out = self.dir / "h.safetensors"
        self.ok("logits", self.files["f32"], "--ids", "1,2,3", "--hidden", "--last", 2, "-o", out)
        tensors = read_safetensors(out)
        self.assertEqual(tensors["logits"][1], [2, 768])
        for name in ("hidden.embed", "hidden.0", "hidden.5", "hidden.final"):
            self.assertEqual(tensors[name][1], [2, 128])
        self.assertTrue(all(abs(x) < 1e4 for x in floats(tensors["logits"][2])))

    def test_interrupt_stops_with_partial_text(self):
        process = subprocess.Popen([PROGRAM, "run", self.files["f32"], "-p", "Tell me a story.", "-n", "400", "--ignore-eos", "--exact", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "CORTIQ_ISA": "scalar"})
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        if process.returncode == 0:
            self.skipTest("the model was faster than the signal")
        self.assertEqual(process.returncode, 130, err)
        if out:
            self.assertEqual(json.loads(out)["finish"], "cancelled")

    def test_conversation_on_a_terminal(self):
        with Terminal([PROGRAM, "run", str(self.files["q8"]), "--greedy"]) as terminal:
            terminal.until(b"/help")
            terminal.send(b"/help\n")
            terminal.until(b"/clear")
            terminal.send(b"What is the capital of France?\n")
            terminal.until(b"Paris")
            terminal.until(b"tokens")
            terminal.send(b"/exit\n")
            self.assertEqual(terminal.wait(), 0)

    def test_interrupt_stops_the_answer_and_not_the_conversation(self):
        with Terminal([PROGRAM, "run", str(self.files["f32"]), "--exact", "--ignore-eos", "-n", "480"], {"CORTIQ_ISA": "scalar"}) as terminal:
            terminal.until(b"/help")
            terminal.send(b"Tell me a story.\n")
            time.sleep(0.5)
            terminal.send(b"\x03")
            terminal.until(b"cancelled")
            terminal.send(b"/exit\n")
            self.assertEqual(terminal.wait(), 0)

    def test_file_that_shrinks_while_it_is_read_is_an_io_error(self):
        copy = self.dir / "shrinking.cmf"
        copy.write_bytes(self.files["f32"].read_bytes())
        with Terminal([PROGRAM, "run", str(copy), "--greedy", "--exact"]) as terminal:
            terminal.until(b"/help")
            os.truncate(copy, 8192)
            terminal.send(b"What is the capital of France?\n")
            terminal.until(b"shortened while it was in use")
            self.assertIn(b"shrinking.cmf", terminal.all)
            self.assertEqual(terminal.wait(), 1)


main()
