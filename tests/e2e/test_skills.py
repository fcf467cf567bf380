"""Skills, masks and expert cuts from outside, on the trained models of the repository."""
import base64
import json
import shutil
import subprocess
import sys

from support import NANO, Case, cortiq, floats, main, read_safetensors

MODELS = NANO.parent
QUESTION = "Show the title of books where price is under 18."
SQL = "SELECT title FROM books WHERE price < 18"


class Skills(Case):
    def swarm(self, quant="bf16", skills=("sql", "json")):
        file = self.convert(name=f"swarm-{quant}.cmf", quant=quant)
        for one in skills:
            self.ok("skill", "add", file, "--id", one, "--donor", MODELS / f"nano-{one}")
        return file

    def ask(self, file, *flags):
        return self.ok_json("run", file, "-p", QUESTION, "--greedy", "--json", *flags)

    def test_a_skill_holds_what_differs_and_answers(self):
        file = self.swarm()
        self.assertTrue(self.ok_json("verify", file, "--json")["valid"])
        rows = self.ok_json("skill", "list", file, "--json")["skills"]
        self.assertEqual([(r["id"], r["tensors"], r["layers"]) for r in rows], [("sql", 9, [3, 4, 5]), ("json", 9, [3, 4, 5])])
        self.assertEqual(self.ask(file, "--skill", "sql")["text"], SQL)
        self.assertNotEqual(self.ask(file)["text"], SQL)
        self.assertEqual(self.ask(file)["skill"], None)
        self.refused("Usage", "run", file, "-p", "x", "--skill", "sq", naming=["sql", "json"], status=2)

    def test_a_lora_adapter_computes_what_the_merged_checkpoint_computes(self):
        adapter, merged, logits = self.dir / "adapter", self.dir / "merged", self.dir / "logits.safetensors"
        made = [sys.executable, NANO.parents[1] / "scripts/make_lora.py", NANO, MODELS / "nano-sql", adapter, "--merged", merged]
        subprocess.run([*map(str, made), "--rank", "4", "--alpha", "8"], check=True, stdout=subprocess.DEVNULL)
        file = self.convert(quant="f32")
        self.ok("skill", "add", file, "--id", "sql", "--lora", adapter)
        self.assertEqual(self.ok_json("skill", "list", file, "--json")["skills"][0]["tensors"], 9)

        def of(model, *flags):
            self.ok("logits", model, "--text", QUESTION, "--exact", "-o", logits, *flags)
            return floats(read_safetensors(logits)["logits"][2])

        expected, said, base = of(self.convert(merged, "merged.cmf", quant="f32")), of(file, "--skill", "sql"), of(file)
        self.assertLess(max(abs(a - b) for a, b in zip(said, expected)), 1e-3)
        self.assertGreater(max(abs(a - b) for a, b in zip(base, expected)), 0.1)

    def test_mixed_batch_gives_each_row_what_it_gives_alone(self):
        file = self.swarm("q8")
        rows = [{"messages": [{"role": "user", "content": QUESTION}], "skill": s, "n": 24} for s in ("sql", "json", "none", "sql", "json", "none")]
        requests = self.dir / "in.jsonl"
        requests.write_text("".join(json.dumps(r) + "\n" for r in rows))
        together = [json.loads(line) for line in self.ok("batch", file, requests, "--greedy", "--parallel", 6).out.splitlines()]
        alone = [json.loads(line) for line in self.ok("batch", file, requests, "--greedy", "--parallel", 1).out.splitlines()]
        self.assertEqual(together, alone)
        self.assertEqual([r["skill"] for r in together], ["sql", "json", None, "sql", "json", None])

    def test_routing_chooses_by_the_prompt(self):
        file = self.swarm()
        self.refused("Usage", "route", file, "-p", QUESTION, naming="selection", status=2)
        for one in ("sql", "json", "general"):
            self.ok("skill", "select", file, "--id", one, "--prompts", MODELS / f"nano-data/routing_{one}.jsonl", "--phi-layer", 2, "--rank", 4)
        said = self.ok_json("route", file, "-p", QUESTION, "--json")
        self.assertEqual(said["choice"], "sql")
        self.assertEqual(set(said["energies"]), {"sql", "json", "general"})
        self.assertEqual(self.ask(file, "--skill", "auto")["skill"], "sql")
        self.assertEqual(self.ok_json("run", file, "-p", "What is the capital of France?", "--greedy", "--json", "--skill", "auto")["text"], "Paris")

    def test_quality_contract_is_measured_or_null(self):
        file = self.swarm(skills=("sql",))
        self.assertIsNone(self.ok_json("info", file, "--json")["skills"][0]["quality"])
        few = self.dir / "few.jsonl"
        few.write_text("".join((MODELS / "nano-data/heldout_sql.jsonl").read_text().splitlines(True)[:10]))
        said = self.ok_json("skill", "measure", file, "--id", "sql", "--answers", few, "--json")["quality"]
        self.assertLess(said["overlaid"], said["backbone"])
        self.assertEqual(self.ok_json("info", file, "--json")["skills"][0]["quality"], said)

    def test_ids_and_sources_are_checked(self):
        file = self.convert()
        for bad in ("none", "auto", "backbone", "a.b", "a/b", ""):
            self.refused("Usage", "skill", "add", file, "--id", bad, "--donor", MODELS / "nano-sql", status=2)
        self.refused("Usage", "skill", "add", file, "--id", "x", "--donor", NANO, naming="differs in nothing", status=2)
        self.refused("Parse", "skill", "add", file, "--id", "x", "--donor", MODELS / "nano-moe", naming="replaces nothing")
        self.refused("Usage", "skill", "remove", file, "--id", "x", status=2)
        selection = self.dir / "selection.json"
        good = {"metric": "mse", "phi_layer": 2, "rank": 0, "mean": base64.b64encode(bytes(256)).decode(), "basis": ""}
        for bad, word in (({**good, "phi_layer": 6}, "phi_layer"), ({**good, "mean": "AAAA"}, "mean"), ({**good, "metric": "l1"}, "metric"), (None, "null")):
            selection.write_text(json.dumps(bad))
            self.refused("Usage", "skill", "add", file, "--id", "x", "--selection", selection, naming=word, status=2)
        selection.write_text(json.dumps(good))
        self.ok("skill", "add", file, "--id", "x", "--selection", selection)

    def test_remove_takes_record_and_tensors(self):
        file = self.swarm(skills=("sql",))
        self.ok("skill", "remove", file, "--id", "sql")
        self.assertEqual(self.ok_json("skill", "list", file, "--json")["skills"], [])
        self.assertEqual(len(self.ok_json("tensors", file, "--json")["tensors"]), 68)
        self.assertTrue(self.ok_json("verify", file, "--json")["valid"])

    def test_lifecycle_bake_export_apply(self):
        base = self.convert(name="base.cmf", quant="q8")
        specialist, skill, again = (self.dir / n for n in ("s.cmf", "sql.skill.cmf", "again.cmf"))
        self.ok("skill", "bake", base, "--donor", MODELS / "nano-sql", "-o", specialist)
        self.ok("skill", "export", specialist, "--base", base, "--id", "sql", "-o", skill)
        self.refused(("Unsupported", "UnsupportedFeature"), "run", skill, "-p", "x", naming="skill apply")
        self.ok("skill", "apply", base, skill, "-o", again)
        table = lambda f: [(t["name"], t["dtype"], t["shape"], t["hash"]) for t in self.ok_json("tensors", f, "--json")["tensors"]]
        self.assertEqual(table(again), table(specialist))
        other = self.convert(name="other.cmf", quant="q4t")
        self.refused("HashMismatch", "skill", "apply", other, skill, "-o", self.dir / "x.cmf", naming="directory hash")
        self.assertFalse((self.dir / "x.cmf").exists())
        self.ok("skill", "apply", other, skill, "-o", self.dir / "x.cmf", "--force")

    def test_masks_run_and_cut_alike(self):
        file = self.convert(quant="f32")
        self.ok("mask", "add", file, "--name", "add_30", "--ffn", MODELS / "nano-masks/add_30.ffn.npy", "--heads", MODELS / "nano-masks/add_30.heads.npy")
        self.refused("Usage", "run", file, "-p", "x", "--task", "sub", naming="add_30", status=2)
        cut = self.dir / "cut.cmf"
        self.ok("defrag", file, "--task", "add_30", "-o", cut)
        outs = []
        for model, flags in ((file, ["--task", "add_30"]), (cut, [])):
            out = self.dir / "l.safetensors"
            self.ok("logits", model, "--ids", "5,6,7,8,9", "--exact", "-o", out, *flags)
            outs.append(read_safetensors(out)["logits"])
        self.assertEqual(outs[0], outs[1])  # bit for bit
        self.ok("mask", "measure", file, "--name", "add_30", "--answers", MODELS / "nano-data/heldout_add.jsonl")
        self.assertIsNotNone(self.ok_json("masks", file, "--json")["masks"][0]["quality"])

    def test_experts_masked_cut_and_restricted_alike(self):
        file = self.convert(MODELS / "nano-moe", quant="bf16")
        stats = MODELS / "nano-moe/router_stats_sql.json"
        cut, masked = self.dir / "cut.cmf", self.dir / "masked.cmf"
        self.ok("moe-defrag", file, "--stats", stats, "--cover", "0.8", "-o", cut)
        shutil.copyfile(file, masked)
        self.ok("moe-mask", masked, "--stats", stats, "--cover", "0.8", "--name", "sql")
        ids = ["--ids", "5,6,7,8,9,10", "-n", "12", "--greedy", "--ignore-eos", "--json"]
        a = self.ok_json("run", cut, *ids)["ids"]
        self.assertEqual(a, self.ok_json("run", masked, *ids, "--task", "sql")["ids"])
        self.assertEqual(a, self.ok_json("run", file, *ids, "--moe-mask", stats, "--moe-cover", "0.8")["ids"])
        self.assertEqual(a, self.ok_json("run", file, *ids, env={"CMF_MOE_MASK": str(stats), "CMF_MOE_MASK_COVER": "0.8"})["ids"])
        self.assertNotEqual(a, self.ok_json("run", file, *ids)["ids"])
        counts = self.dir / "counts.json"
        self.ok("run", file, *ids, env={"CMF_MOE_STATS": str(counts)})
        layers = json.loads(counts.read_text())
        self.assertEqual([sum(row) for row in layers.values()], [2 * 17] * 4)  # 6 + 11 rows, two experts each

    def test_speculation_changes_nothing(self):
        file = self.convert(MODELS / "nano-hybrid-mtp", quant="q8")
        ids = ["--ids", "5,6,7,8,9,10", "-n", "60", "--greedy", "--ignore-eos", "--json"]
        plain = self.ok_json("run", file, *ids, "--no-mtp")
        for hidden in ("pre", "post", "auto"):
            drafted = self.ok_json("run", file, *ids, "--mtp-hidden", hidden)
            self.assertEqual(drafted["ids"], plain["ids"])
            self.assertGreater(drafted["drafted"], 0)

    def test_bench_reports_every_figure(self):
        file = self.convert(quant="q8")
        said = self.ok_json("bench", file, "-p", 16, "-n", 8, "-r", 1, "--json")
        for key in ("prefill_tokens_per_second", "decode_tokens_per_second", "decode_bytes_per_token", "read_bandwidth", "bandwidth_fraction",
                    "load_seconds", "first_token_seconds", "rss_bytes"):
            self.assertGreater(said[key], 0, key)


main()
