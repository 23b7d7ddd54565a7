"""Runs all tests of niah with the packages that it may use, the client of this tree among them, against a real server.

    python3 tests/bench/niah/run.py SOURCE_DIR RECOLLECT_BINARY WORK_DIR

Packages come from PyPI. WORK_DIR keeps them, so that a second run takes less.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from pypi import end_without, environment, install  # noqa: E402


def main():
    source, binary, work = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    python = environment(work)
    if failed := install(python, "bm25s", "matplotlib", source / "client/python"):
        end_without(failed, "bench/niah")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")} | {"RECOLLECT_BINARY": str(binary)}
    tests = ["-m", "unittest", "discover", "-s", source / "tests/bench/niah", "-p", "*_test.py"]
    return subprocess.run([python, *tests], cwd=work, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
