"""Runs all tests of niah with the packages that it may use, the client of this tree among them, against a real server.

    python3 tests/bench/niah/run.py SOURCE_DIR RECOLLECT_BINARY WORK_DIR

Packages come from PyPI. WORK_DIR keeps them, so that a second run takes less.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import venv


def main():
    source, binary, work = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    python = work / "venv/bin/python"
    if not python.exists():
        venv.create(work / "venv", clear=True, with_pip=True)
    # A copy, because a build writes beside its sources.
    copy = work / "source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source / "client/python", copy / "client/python")
    shutil.copytree(source / "proto", copy / "proto")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "bm25s", "matplotlib", copy / "client/python"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")} | {"RECOLLECT_BINARY": str(binary)}
    tests = ["-m", "unittest", "discover", "-s", source / "tests/bench/niah", "-p", "*_test.py"]
    return subprocess.run([python, *tests], cwd=work, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
