"""The installed library from outside: find_package and pkg-config, an example program that converts, proves and asks."""
import os
import shutil
import subprocess

from support import NANO, PROGRAM, ROOT, Case, main


class Install(Case):
    def run_ok(self, *command, **more):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def test_example_builds_against_the_installed_package(self):
        build = os.path.dirname(PROGRAM)
        prefix = self.dir / "prefix"
        self.run_ok("cmake", "--install", build, "--prefix", prefix)
        work = self.dir / "build"
        self.run_ok("cmake", "-S", ROOT / "tests/example", "-B", work, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.run_ok("cmake", "--build", work)
        out = self.run_ok(work / "example", NANO, self.dir / "x.cmf")
        self.assertIn("68 tensors, 128 norm weights", out)
        self.assertIn("Paris", out)
        self.assertTrue((prefix / "bin/cortiq").exists())

        if not shutil.which("pkg-config"):
            self.skipTest("pkg-config is not installed")
        pc = next(prefix.rglob("cortiq.pc")).parent
        env = {**os.environ, "PKG_CONFIG_PATH": str(pc)}
        flags = self.run_ok("pkg-config", "--cflags", "--libs", "cortiq", env=env).split()
        self.run_ok("g++", ROOT / "tests/example/main.cc", "-o", self.dir / "plain", *flags)
        self.assertIn("Paris", self.run_ok(self.dir / "plain", NANO, self.dir / "y.cmf"))


main()
