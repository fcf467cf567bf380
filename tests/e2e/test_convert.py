"""Conversion from outside: what is written, what is refused, and that nothing is left behind when it fails."""
import json
import os
import shutil
import signal
import subprocess
import time

from support import NANO, PROGRAM, Case, floats, main, read_safetensors, write_safetensors


class Convert(Case):
    def test_summary_and_file_agree(self):
        file = self.dir / "nano.cmf"
        said = self.ok_json("convert", NANO, "-o", file, "--quant", "q8", "--json")
        self.assertEqual(said["bytes"], file.stat().st_size)
        self.assertEqual(said["tensors"], 68)
        self.assertEqual(said["source_bytes"], (NANO / "model.safetensors").stat().st_size)
        self.assertEqual(self.ok_json("verify", file, "--json")["valid"], True)
        info = self.ok_json("info", file, "--json")
        self.assertEqual(info["quant_type"], "Q8_ROW")
        self.assertEqual(info["parameters"], 1280000)
        self.assertEqual(info["tokenizer"]["eos_token_ids"], [765, 767])

    def test_dry_run_prints_the_plan_and_writes_nothing(self):
        file = self.dir / "nano.cmf"
        said = self.ok_json("convert", NANO, "-o", file, "--dry-run", "--json")
        self.assertFalse(file.exists())
        self.assertEqual(len(said["plan"]), 68)
        self.assertEqual({"name", "source", "dtype", "shape", "nbytes", "note"}, set(said["plan"][0]))
        self.assertIn("qwen3", self.ok("convert", NANO, "--dry-run").out)

    def test_last_matching_pattern_wins(self):
        file = self.convert(quant="q4tp")
        base = {t["name"]: t["dtype"] for t in self.ok_json("tensors", file, "--json")["tensors"]}
        self.ok("convert", NANO, "-o", file, "--quant", "q4tp", "--quant-for", "*mlp*=q8", "--quant-for", "*layers.0.mlp*=f16")
        got = {t["name"]: t["dtype"] for t in self.ok_json("tensors", file, "--json")["tensors"]}
        for name, dtype in got.items():
            want = base[name]
            if ".mlp." in name:
                want = "f16" if "layers.0." in name else "q8_row"
            self.assertEqual(dtype, want, name)

    def test_bytes_do_not_depend_on_threads(self):
        for quant in ("q4tp", "q8_2f", "q4t"):
            files = [self.dir / f"{quant}-{threads}.cmf" for threads in (1, 3)]
            for file, threads in zip(files, (1, 3)):
                self.ok("convert", NANO, "-o", file, "--quant", quant, "--threads", threads)
            self.assertEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_target_directory_missing_or_target_is_a_directory(self):
        self.refused("Io", "convert", NANO, "-o", self.dir / "none/x.cmf", naming="none")
        self.refused("Io", "convert", NANO, "-o", self.dir, naming="directory")

    def test_full_disk_leaves_nothing(self):
        target = self.dir / "small"
        target.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", target], capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", target], capture_output=True)
        self.refused("Io", "convert", NANO, "-o", target / "x.cmf", "--quant", "f32", naming="x.cmf")
        self.assertEqual(list(target.iterdir()), [])

    def test_existing_file_survives_a_failed_conversion(self):
        file = self.convert()
        before = file.read_bytes()
        broken = self.writable_copy(NANO, "broken")
        tensors = read_safetensors(broken / "model.safetensors")
        dtype, shape, data = tensors["model.norm.weight"]
        tensors["model.norm.weight"] = (dtype, shape, b"\xc0\x7f" + data[2:])  # a NaN in bf16
        write_safetensors(broken / "model.safetensors", tensors)
        self.refused(("Parse", "Bounds"), "convert", broken, "-o", file, naming="model.norm.weight")
        self.assertEqual(file.read_bytes(), before)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["broken", "model.cmf"])

    def test_interrupted_conversion_leaves_nothing(self):
        big = self.writable_copy(NANO, "big")
        tensors = read_safetensors(big / "model.safetensors")
        rows = 400_000  # of the embedding: long enough to be caught in the middle
        tensors["model.embed_tokens.weight"] = ("BF16", [rows, 128], bytes(2 * 128) * rows)
        write_safetensors(big / "model.safetensors", tensors)
        config = json.loads((big / "config.json").read_text())
        config["vocab_size"] = rows
        (big / "config.json").write_text(json.dumps(config))
        for sign in (signal.SIGINT, signal.SIGTERM):
            file = self.dir / "big.cmf"
            process = subprocess.Popen([PROGRAM, "convert", big, "-o", file, "--quant", "q4tp"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            deadline = time.time() + 20
            while time.time() < deadline and process.poll() is None and not any(".tmp" in p.name for p in self.dir.iterdir()):
                time.sleep(0.001)
            process.send_signal(sign)
            out, err = process.communicate(timeout=60)
            if process.returncode == 0:
                file.unlink()  # it was faster than the signal
                continue
            self.assertEqual(process.returncode, 130, err)
            self.assertTrue(err.startswith(b"error: Cancelled"), err)
            self.assertFalse(file.exists())
            self.assertEqual([p.name for p in self.dir.iterdir() if p.name != "big"], [])

    def test_paths_with_spaces_other_letters_and_symlinks(self):
        real = self.writable_copy(NANO, "blobs")
        odd = self.dir / "mödel dir (1)"
        odd.mkdir()
        for path in real.iterdir():
            (odd / path.name).symlink_to(os.path.relpath(path, odd))
        file = self.convert(str(odd) + "/")
        self.assertEqual(file.read_bytes()[:4], b"CMF\x01")
        (odd / "model.safetensors").unlink()
        (odd / "model.safetensors").symlink_to("../gone")
        self.refused("Io", "convert", odd, "-o", self.dir / "y.cmf", naming="model.safetensors")

    def test_dequant_gives_the_source_values(self):
        file = self.convert(quant="bf16")
        out = self.dir / "norm.safetensors"
        self.ok("dequant", file, "model.norm.weight", "-o", out)
        import struct
        _, _, source = read_safetensors(NANO / "model.safetensors")["model.norm.weight"]
        want = [struct.unpack("<f", b"\0\0" + source[i : i + 2])[0] for i in range(0, len(source), 2)]
        self.assertEqual(list(floats(read_safetensors(out)["model.norm.weight"][2])), want)
        npy = self.dir / "norm.npy"
        self.ok("dequant", file, "model.norm.weight", "-o", npy)
        self.assertEqual(npy.read_bytes()[:6], b"\x93NUMPY")
        self.refused("Usage", "dequant", file, "model.nrm.weight", "-o", npy, naming="model.norm.weight", status=2)

    def test_json_and_warnings_stay_apart(self):
        result = self.ok("convert", NANO, "-o", self.dir / "q1.cmf", "--quant", "q1", "--json")
        self.assertEqual(result.err, "")
        self.assertTrue(any("one bit" in w for w in result.json()["warnings"]))

    def test_requires_a_tokenizer_to_talk_but_not_to_convert(self):
        bare = self.writable_copy(NANO, "bare")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (bare / name).unlink()
        file = self.convert(bare)
        self.refused("Unsupported", "run", file, "-p", "hello", naming="tokenizer")
        self.assertEqual(len(self.ok_json("run", file, "--ids", "1,2,3", "-n", "2", "--greedy", "--json")["ids"]), 2)
        shutil.rmtree(bare)


main()
