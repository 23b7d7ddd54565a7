"""Builds the wheel of client/python, installs it into an environment of its own, and tests it against a real server.

    python3 tests/client/python/run.py SOURCE_DIR RECOLLECT_BINARY PACKAGES_DIR WORK_DIR

Packages come from PyPI (tests/e2e/pypi.py).
"""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from pypi import beside, environment, pip  # noqa: E402

WHAT = "the Python client"


def main():
    source, binary, packages, work = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    python = beside(environment(packages, WHAT), work)
    wheels = work / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    # A copy, in which is seen what a build leaves behind.
    copy = work / "source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source / "client/python", copy / "client/python")
    shutil.copytree(source / "proto", copy / "proto")
    before = sorted(copy.rglob("*"))
    pip(python, WHAT, "wheel", "--no-deps", "--wheel-dir", wheels, copy / "client/python")
    left = [str(path.relative_to(copy)) for path in copy.rglob("*") if path not in before]
    if left:
        sys.exit(f"building the package has left {', '.join(left)} beside its sources")
    (wheel,) = wheels.glob("recollect-*.whl")
    pip(python, WHAT, "install", f"recollect[test] @ file://{wheel}")
    # From a directory where no source of the package is.
    config = source / "client/python/pyproject.toml"
    subprocess.run([python, "-m", "mypy", "--config-file", config, "-p", "recollect"], check=True, cwd=work)
    variables = dict(os.environ, RECOLLECT_BINARY=str(binary), RECOLLECT_SOURCE=str(source), MPLBACKEND="Agg")
    tests = source / "tests/client/python"
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests], cwd=work, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
