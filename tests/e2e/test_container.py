"""Commands on whole containers: growth, compaction, shards, signatures, differences, re-encoding."""
import fcntl
import json
import os
import signal
import subprocess
import time

from support import NANO, PROGRAM, Case, cortiq, main


def status_of(*arguments):
    return cortiq(*arguments).status


class Container(Case):
    def tensors(self, file):
        return {t["name"]: (t["dtype"], t["shape"], t["hash"]) for t in self.ok_json("tensors", file, "--json")["tensors"]}

    def test_info_shows_what_a_file_holds(self):
        file = self.convert(quant="q4tp")
        said = self.ok_json("info", file, "--json", "--tensors", "*layers.0.mlp*")
        self.assertEqual(said["arch"]["arch_name"], "qwen3")
        self.assertEqual(said["arch"]["rope_theta"], 10000.0)
        self.assertEqual(said["dtypes"]["q4tp"]["tensors"], 43)
        self.assertEqual(len(said["tensors"]), 3)
        self.assertIn("q4tp", self.ok("info", file).out)

    def test_split_opens_by_any_name_and_merges_back(self):
        file = self.convert(quant="q8")
        ids = ["--ids", "1,2,3,4", "-n", "8", "--greedy", "--json"]
        whole = self.ok_json("run", file, *ids)["ids"]
        shards = self.ok_json("split", file, "--shard-max-gb", "0.002", "-o", self.dir / "s.cmf", "--json")["outputs"]
        self.assertGreater(len(shards), 2)
        for shard in (shards[0], shards[-1]):
            self.assertEqual(self.ok_json("run", shard, *ids)["ids"], whole)
        for shard in shards:
            self.assertTrue(self.ok_json("verify", shard, "--json")["valid"])
        self.assertEqual(self.ok_json("verify", shards[0], "--set", "--json")["tensors"], 68)
        merged = self.dir / "merged.cmf"
        self.ok("merge", shards[1], "-o", merged)
        self.assertEqual(self.tensors(merged), self.tensors(file))
        self.assertIsNone(self.ok_json("info", merged, "--json")["shard"])
        os.remove(shards[1])
        self.refused("Io", "run", shards[0], *ids, naming=os.path.basename(shards[1]))

    def test_convert_into_shards(self):
        said = self.ok_json("convert", NANO, "-o", self.dir / "n.cmf", "--shard-max-gb", "0.002", "--json")
        self.assertIn("-00001-of-", said["output"])
        self.assertEqual(self.ok_json("run", said["output"], "-p", "What is the capital of France?", "--greedy", "--json")["text"], "Paris")

    def test_sign_and_verify(self):
        file, key = self.convert(), self.dir / "my.key"
        public = self.ok("keygen", key).out.split("public key ")[1].strip()
        self.assertEqual(os.stat(key).st_mode & 0o077, 0)
        self.refused("Io", "keygen", key)
        before = file.read_bytes()
        self.ok("sign", file, "--key", key)
        self.assertEqual(file.read_bytes(), before)
        self.assertEqual(self.ok_json("verify", file, "--json")["signature"], "valid")
        self.ok("verify", file, "--pubkey", public.upper())
        self.assertEqual(status_of("verify", file, "--pubkey", "00" * 32), 1)
        file.write_bytes(before + b"x")
        self.assertEqual(status_of("verify", file), 1)

    def test_requant_and_diff(self):
        a = self.convert(quant="f32")
        b = self.dir / "b.cmf"
        self.ok("requant", a, "-o", b, "--quant", "q4t", "--quant-for", "*embed*=q8")
        dtypes = {t["name"]: t["dtype"] for t in self.ok_json("tensors", b, "--json")["tensors"]}
        self.assertEqual(dtypes["model.embed_tokens.weight"], "q8_row")
        self.assertEqual(dtypes["model.layers.0.mlp.up_proj.weight"], "q4_tiled")
        direct = self.convert(name="direct.cmf", quant="q4t")
        matrices = lambda file: {n: t for n, t in self.tensors(file).items() if len(t[1]) == 2 and "embed" not in n}
        self.assertEqual(matrices(b), matrices(direct))
        self.assertEqual(status_of("diff", a, a), 0)
        self.assertEqual(status_of("diff", a, b, "--json"), 1)
        self.refused("Usage", "requant", a, "-o", a, "--quant", "q8", status=2)
        link = self.dir / "link.cmf"
        os.link(a, link)
        self.refused("Usage", "requant", a, "-o", link, "--quant", "q8", status=2)

    def test_growth_leaves_old_bytes_and_compact_frees_them(self):
        file = self.convert(quant="q8")
        before, table = file.read_bytes(), self.tensors(file)
        rows = self.dir / "rows.json"
        rows.write_text(json.dumps({"ffn_inactive": {"0": [0, 1, 2]}}))
        for name in ("one", "two"):
            self.ok("mask", "add", file, "--name", name, "--rows", rows)
        after = file.read_bytes()
        self.assertEqual(after[128 : len(before)], before[128:])
        self.assertEqual(self.tensors(file), table)
        self.ok("mask", "remove", file, "--name", "one")
        grown = file.stat().st_size
        self.ok("compact", file, "--in-place")
        self.assertLess(file.stat().st_size, grown)
        self.assertEqual(self.tensors(file), table)
        self.assertEqual([m["name"] for m in self.ok_json("masks", file, "--json")["masks"]], ["two"])
        self.refused("Usage", "compact", file, status=2)

    def test_second_writer_is_refused_while_a_reader_is_undisturbed(self):
        file = self.convert()
        rows = self.dir / "rows.json"
        rows.write_text("{\"gates_closed\": [5]}")
        with open(file, "r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.refused("Io", "mask", "add", file, "--name", "x", "--rows", rows, naming="writing")
            self.ok("run", file, "--ids", "1,2", "-n", "1", "--greedy", "--json")
        self.ok("mask", "add", file, "--name", "x", "--rows", rows)

    def test_killed_growth_leaves_a_valid_file(self):
        donor = NANO.parent / "nano-sql"
        for delay in (0.005, 0.02, 0.05):
            file = self.convert(name=f"k{delay}.cmf", quant="bf16")
            table = self.tensors(file)
            process = subprocess.Popen([PROGRAM, "skill", "add", file, "--id", "sql", "--donor", donor], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertTrue(self.ok_json("verify", file, "--json")["valid"])
            now = self.tensors(file)
            self.assertEqual({n: now[n] for n in table}, table)
            self.ok("skill", "add", file, "--id", "sql", "--donor", donor)
            self.assertEqual(len(self.tensors(file)), 77)

    def test_damage_is_named(self):
        file = self.convert(quant="q8")
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        said = json.loads(cortiq("verify", file, "--json").out)
        self.assertFalse(said["valid"])
        self.assertEqual(said["problems"][0]["kind"], "HashMismatch")
        file.write_bytes(bytes(data[: len(data) - 10]))
        self.refused("Bounds", "run", file, "--ids", "1", naming="model.cmf")


main()
