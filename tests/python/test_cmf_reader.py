"""The Python reader against files, values and verdicts that other implementations recorded.

Run: python3 -m unittest discover tests/python
"""
import contextlib
import hashlib
import io
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import cmf_reader  # noqa: E402

CMF = ROOT / "tests/data/cmf"
INTEROP = CMF / "interop"
GOLDEN = ROOT / "tests/data/codec"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def values_bytes(values):
    return np.ascontiguousarray(values.astype("<f4")).tobytes()


def broken_copy(case):
    data = bytearray((INTEROP / case["base"]).read_bytes())
    for patch in case.get("patches", []):
        new = bytes.fromhex(patch["hex"])
        data[patch["off"]:patch["off"] + len(new)] = new
    if case.get("truncate_to") is not None:
        del data[case["truncate_to"]:]
    return bytes(data + bytes.fromhex(case.get("append_hex") or ""))


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, data, name="case.cmf"):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def open_kind(self, path):
        """"OK" or the kind of the error."""
        try:
            with cmf_reader.CmfReader(path):
                return "OK"
        except cmf_reader.CmfError as error:
            return error.kind


class Hash(unittest.TestCase):
    def test_recorded_values(self):
        data = bytes((31 * i + 7) % 256 for i in range(4096))
        for length, want in ((0, "0" * 16), (1, "32dfd60af560a63f"), (7, "a84dda947ce52821"), (8, "b59330e3bc6f5500"),
                             (9, "8aa423fb4a905716"), (63, "eac690ef9f202775"), (64, "82899f11a87ab749"),
                             (65, "e63e6cd1fd912282"), (4096, "10d856f65b354658")):
            self.assertEqual(f"{cmf_reader.hash64(data[:length]):016x}", want, length)


class Codecs(unittest.TestCase):
    def test_every_recorded_payload_decodes_bit_for_bit(self):
        seen = set()
        for vector in json.loads((GOLDEN / "index.json").read_text())["vectors"]:
            if not vector.get("decoded") or vector["dtype"] not in cmf_reader.DTYPES.values():
                continue
            payload, want = GOLDEN / vector["encoded"], GOLDEN / vector["decoded"]
            if not payload.exists() or not want.exists():
                continue
            values = cmf_reader.dequant(payload.read_bytes(), vector["dtype"], vector["shape"])
            self.assertEqual(list(values.shape), vector["shape"], vector["name"])
            got, expected = values.astype(np.float32).ravel(), np.frombuffer(want.read_bytes(), "<f4")
            self.assertTrue(np.array_equal(got.view(np.uint32), expected.view(np.uint32)), vector["name"])
            seen.add(vector["dtype"])
        self.assertGreaterEqual(seen, set(cmf_reader.DTYPES.values()) - {"f32", "u8"})  # those have no vector

    def test_payloads_of_another_length_are_refused(self):
        for dtype in cmf_reader.DTYPES.values():
            with self.assertRaises(cmf_reader.CmfError, msg=dtype):
                cmf_reader.dequant(b"\x03" * 5, dtype, [2, 32])


class Interop(Folder):
    def test_every_file_verifies_and_decodes_to_the_recorded_values(self):
        files = [f for f in json.loads((INTEROP / "manifest.json").read_text())["files"] if (INTEROP / f["file"]).exists()]
        self.assertGreater(len(files), 20)
        for one in files:
            path = str(INTEROP / one["file"])
            report = cmf_reader.verify_report(path)
            if one.get("spec_expectation") not in (None, "valid", "OK"):
                self.assertEqual(report["problems"][0]["kind"], one["spec_expectation"], one["file"])
                continue
            self.assertEqual(report["problems"], [], one["file"])
            with cmf_reader.CmfReader(path, sharded=False) as model:
                self.assertEqual(sorted(model.tensors), sorted(t["name"] for t in one["tensors"]))
                for tensor in one["tensors"]:
                    entry = model.tensors[tensor["name"]][0]
                    for key in ("dtype", "shape", "off", "nbytes"):
                        self.assertEqual(entry[key], tensor[key], (one["file"], tensor["name"], key))
                    self.assertEqual(f"{entry['hash']:016x}", tensor["hash"])
                    self.assertEqual(sha256(model.tensor_bytes(tensor["name"])), tensor["payload_sha256"])
                    if tensor.get("decoded_f32_sha256"):
                        self.assertEqual(sha256(values_bytes(model.tensor(tensor["name"]))), tensor["decoded_f32_sha256"],
                                         (one["file"], tensor["name"]))

    def test_every_broken_variant_is_refused_with_its_kind(self):
        for case in json.loads((INTEROP / "invalid.json").read_text())["cases"]:
            if (INTEROP / case["base"]).exists():
                kind = self.open_kind(self.write(broken_copy(case)))
                self.assertIn(kind, [case["expected"], *(case.get("also_accepted") or [])], case["name"])

    def test_verify_names_what_is_damaged(self):
        for case in json.loads((INTEROP / "invalid.json").read_text())["verify_cases"]:
            if not (INTEROP / case["base"]).exists():
                continue
            report = cmf_reader.verify_report(self.write(broken_copy(case)))
            places = " ".join(p["where"] for p in report["problems"])
            if case["verify_problem"].startswith("none"):
                self.assertTrue(report["valid"], case["name"])
            else:
                self.assertIn(case["verify_problem"].split(" and ")[0], places, case["name"])

    def test_masks_are_those_of_the_catalogue(self):
        for one in json.loads((INTEROP / "manifest.json").read_text())["files"]:
            catalogue = one.get("mask_catalog")
            if not catalogue or not (INTEROP / one["file"]).exists():
                continue
            with cmf_reader.CmfReader(str(INTEROP / one["file"])) as model:
                self.assertEqual(model.masks_meta["default_task"], catalogue["default_task"])
                self.assertEqual([m.meta["name"] for m in model.masks], [m["name"] for m in catalogue["masks"]])
                for mask in model.masks:
                    self.assertEqual(mask.ffn.shape[1], model.arch["intermediate_size"])
                    self.assertEqual(mask.heads.shape[0], model.arch["num_layers"])


class Container(Folder):
    def test_patches(self):
        base = (CMF / "container/base.cmf").read_bytes()
        for line in (CMF / "container/patches.jsonl").read_text().splitlines():
            case = json.loads(line)
            data = bytearray(base)
            for op in case["ops"]:
                if "truncate" in op:
                    del data[op["truncate"]:]
                elif "append" in op:
                    data += bytes.fromhex(op["append"])
                else:
                    new = bytes.fromhex(op["hex"])
                    data[op["at"]:op["at"] + len(new)] = new
            path, expect = self.write(bytes(data)), case["expect"]
            kind = self.open_kind(path)
            if expect["open"] == "error":
                self.assertIn(kind, expect["kind"], case["id"])
            elif expect["open"].startswith("ok"):
                self.assertEqual(kind, "OK", case["id"])
            if kind == "OK" and "HashMismatch" in expect.get("verify", ""):
                self.assertIn("HashMismatch", [p["kind"] for p in cmf_reader.verify_report(path)["problems"]], case["id"])

    def test_headers(self):
        base = (CMF / "container/base.cmf").read_bytes()
        for line in (CMF / "container/headers.jsonl").read_text().splitlines():
            case = json.loads(line)
            text = case["header_text"].encode() if case.get("header_text") is not None else bytes.fromhex(case["header_hex"])
            data = bytearray(base)
            struct.pack_into("<QQ", data, 0x10, len(data), len(text))
            data[0x70:0x80] = bytes(16)
            kind, expect = self.open_kind(self.write(bytes(data) + text)), case["expect"]
            if case["id"] == "empty":
                self.assertEqual(kind, "Bounds")  # a section of length 0
            elif expect["open"] == "error":
                self.assertEqual(kind, expect["kind"], case["id"])
            elif expect["open"] == "ok" or expect["open"].startswith("ok,"):
                self.assertEqual(kind, "OK", case["id"])
            else:
                self.assertIn(kind, ("OK", "Parse", "Io"), case["id"])

    def test_nesting_cannot_overflow_the_stack(self):
        for text in ("[" * 100000, '{"a":' * 100000, "[" * 257 + "]" * 257):
            with self.assertRaises(cmf_reader.CmfError):
                cmf_reader.strict_json(text.encode(), "test")
        self.assertEqual(cmf_reader.strict_json(b'["[[[[\\"]]]"]', "test"), ['[[[["]]]'])


class Shards(Folder):
    def setUp(self):
        super().setUp()
        self.names = sorted(p.name for p in INTEROP.glob("tiny-0000*-of-00003.cmf"))
        if len(self.names) != 3:
            self.skipTest("the sharded interop files are not in this checkout")
        for name in self.names:
            shutil.copy(INTEROP / name, self.folder / name)

    def test_any_name_opens_the_set(self):
        sets = []
        for name in self.names:
            with cmf_reader.CmfReader(str(self.folder / name)) as model:
                sets.append(sorted(model.tensors))
        self.assertTrue(sets[0] == sets[1] == sets[2])

    def test_a_missing_sibling_is_named(self):
        (self.folder / self.names[1]).unlink()
        with self.assertRaises(cmf_reader.CmfError) as caught:
            cmf_reader.CmfReader(str(self.folder / self.names[0]))
        self.assertEqual(caught.exception.kind, "Io")
        self.assertIn(self.names[1], str(caught.exception))

    def test_swapped_shards_are_refused(self):
        shutil.copy(INTEROP / self.names[2], self.folder / self.names[1])
        self.assertEqual(self.open_kind(str(self.folder / self.names[0])), "Parse")


class Signature(Folder):
    def setUp(self):
        super().setUp()
        if not (INTEROP / "signed.cmf.sig").exists():
            self.skipTest("the signed interop file is not in this checkout")
        self.facts = json.loads((INTEROP / "manifest.json").read_text())["signature"]
        self.path = self.write((INTEROP / "signed.cmf").read_bytes(), "signed.cmf")

    def test_good_signature(self):
        shutil.copy(INTEROP / "signed.cmf.sig", self.folder / "signed.cmf.sig")
        self.assertIn(cmf_reader.check_signature(self.path)[0], ("valid", "unchecked"))
        self.assertEqual(cmf_reader.check_signature(self.path, "00" * 32)[0], "invalid")

    def test_bad_signatures(self):
        for case in self.facts["negative_cases"]:
            (self.folder / "signed.cmf.sig").write_text(json.dumps(case["sig_json"]))
            status = cmf_reader.check_signature(self.path)[0]
            allowed = ("valid", "unchecked") if "invalid" not in case["expect"] and "upper case" in case["what"] else ("invalid", "unchecked")
            self.assertIn(status, allowed, case["what"])

    def test_no_signature_is_no_error_unless_demanded(self):
        self.assertEqual(cmf_reader.check_signature(self.path)[0], "absent")
        self.assertEqual(cmf_reader.check_signature(self.path, self.facts["public_key_hex"])[0], "invalid")


class Program(Folder):
    def run_program(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cmf_reader.main([str(a) for a in arguments])
        return status, out.getvalue(), err.getvalue()

    def test_verify_exit_status(self):
        base = CMF / "container/base.cmf"
        self.assertEqual(self.run_program("verify", base)[0], 0)
        self.assertEqual(self.run_program("verify", self.write(base.read_bytes()[:4000]))[0], 1)
        self.assertEqual(self.run_program("verify", self.folder / "none.cmf")[0], 1)

    def test_info_and_dump(self):
        base = CMF / "container/base.cmf"
        status, out, _ = self.run_program("info", base, "--json", "--digest")
        self.assertEqual(status, 0)
        name = json.loads(out)["tensors"][0]["name"]
        self.assertEqual(self.run_program("dump", base, name, "-o", self.folder / "x.npy")[0], 0)
        self.assertEqual(sha256(values_bytes(np.load(self.folder / "x.npy"))), json.loads(out)["tensors"][0]["values_sha256"])
        status, _, err = self.run_program("dump", base, "no.such.tensor")
        self.assertEqual((status, err.startswith("error: Usage: ")), (1, True))


class Package(Folder):
    def test_the_wheel_holds_the_module_and_its_metadata(self):
        sys.path.insert(0, str(ROOT / "python"))
        import build_backend
        with zipfile.ZipFile(self.folder / build_backend.build_wheel(self.folder)) as wheel:
            self.assertEqual(wheel.read("cmf_reader.py"), (ROOT / "python/cmf_reader.py").read_bytes())
            info = f"cmf_reader-{cmf_reader.__version__}.dist-info"
            self.assertIn(f"Version: {cmf_reader.__version__}", wheel.read(f"{info}/METADATA").decode())
            self.assertEqual(len(wheel.read(f"{info}/RECORD").decode().splitlines()), len(wheel.namelist()))


if __name__ == "__main__":
    unittest.main()
