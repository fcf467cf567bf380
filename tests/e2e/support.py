"""What the end-to-end tests share: the program under test ($CORTIQ), running it, small files to feed it.

Standard library only. Every test works in a directory of its own.
"""
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("CORTIQ", str(ROOT / "build/release/cortiq"))
NANO = ROOT / "models/nano"

sys.path.append(str(ROOT / "scripts"))
from tensor_files import read_safetensors, write_safetensors  # for the tests, one definition with the scripts


class Result:
    def __init__(self, done):
        self.status = done.returncode
        self.out = done.stdout.decode("utf-8", "replace")
        self.err = done.stderr.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.out)


def cortiq(*arguments, stdin=None, env=None, timeout=300, cwd=None):
    """Runs `cortiq ARGUMENTS` to its end."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    environment = {**os.environ, **(env or {})}
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout, env=environment, cwd=cwd)
    return Result(done)


class Case(unittest.TestCase):
    """A test with a scratch directory, and words for what is asked of the program again and again."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cortiq-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def ok(self, *arguments, **more):
        result = cortiq(*arguments, **more)
        self.assertEqual(result.status, 0, f"cortiq {' '.join(map(str, arguments))}: {result.err[:500]}")
        return result

    def ok_json(self, *arguments, **more):
        return self.ok(*arguments, **more).json()

    def refused(self, kind, *arguments, naming=(), status=1, **more):
        """The command fails with one error line of this kind that names these words."""
        result = cortiq(*arguments, **more)
        self.assertEqual(result.status, status, f"cortiq {' '.join(map(str, arguments))}: {result.out[:200]} {result.err[:500]}")
        lines = [line for line in result.err.splitlines() if line]
        self.assertEqual(len(lines), 1, result.err)
        kinds = [kind] if isinstance(kind, str) else kind
        self.assertTrue(any(lines[0].startswith(f"error: {k}: ") for k in kinds), lines[0])
        for word in [naming] if isinstance(naming, str) else naming:
            self.assertIn(word, lines[0])
        return lines[0]

    def convert(self, source=NANO, name="model.cmf", **flags):
        """Converts a checkpoint into the scratch directory and returns the file."""
        file = self.dir / name
        arguments = []
        for flag, value in flags.items():
            arguments += ["--" + flag.replace("_", "-"), value]
        self.ok("convert", source, "-o", file, *arguments)
        return file

    def writable_copy(self, source, name):
        target = self.dir / name
        shutil.copytree(source, target)
        return target


class Terminal:
    """The program on a terminal of its own: send keys, wait for words."""

    def __init__(self, command, env=None):
        self.leader, follower = pty.openpty()
        self.process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
                                        env={**os.environ, **(env or {})}, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(follower)
        self.all, self.seen = b"", b""

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.leader)

    def send(self, keys):
        os.write(self.leader, keys)

    def until(self, words, seconds=60):
        deadline = time.time() + seconds
        while words not in self.seen and time.time() < deadline:
            if select.select([self.leader], [], [], 0.2)[0]:
                try:
                    part = os.read(self.leader, 65536)
                except OSError:
                    break
                self.all += part
                self.seen += part
        assert words in self.seen, f"{words!r} did not appear in {self.all[-800:]!r}"
        self.seen = self.seen[self.seen.index(words) + len(words) :]

    def wait(self, seconds=30):
        deadline = time.time() + seconds
        while self.process.poll() is None and time.time() < deadline:
            if select.select([self.leader], [], [], 0.1)[0]:
                try:
                    self.all += os.read(self.leader, 65536)
                except OSError:
                    break
        return self.process.wait(timeout=seconds)


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


main = unittest.main
