"""Runs all tests of niah with the packages that it may use, the client of this tree among them, against a real server.

    python3 tests/bench/niah/run.py SOURCE_DIR RECOLLECT_BINARY PACKAGES_DIR WORK_DIR

Packages come from PyPI (tests/e2e/pypi.py).
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from pypi import beside, environment, pip  # noqa: E402


def main():
    source, binary, packages, work = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    python = beside(environment(packages, "bench/niah"), work)
    pip(python, "bench/niah", "install", "--no-build-isolation", "--no-deps", source / "client/python")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")} | {"RECOLLECT_BINARY": str(binary)}
    tests = ["-m", "unittest", "discover", "-s", source / "tests/bench/niah", "-p", "*_test.py"]
    return subprocess.run([python, *tests], cwd=work, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
