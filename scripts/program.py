"""The program that a script measures: --program PATH, build/release/cortiq if not given."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def option(name, default):
    """The word after `name` on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


PROGRAM = option("--program", str(ROOT / "build/release/cortiq"))


def cortiq(*arguments, stdin=None):
    """Standard output of `cortiq ARGUMENTS`; the script ends with the program's own words if that fails."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cortiq {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout
