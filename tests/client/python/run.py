"""Builds the wheel of client/python, installs it into an environment of its own, and tests it against a real server.

    python3 tests/client/python/run.py SOURCE_DIR RECOLLECT_BINARY WORK_DIR

Packages come from PyPI. WORK_DIR keeps them, so that a second run takes seconds.
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
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = work / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    # A copy, in which is seen what a build leaves behind.
    copy = work / "source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source / "client/python", copy / "client/python")
    shutil.copytree(source / "proto", copy / "proto")
    before = sorted(copy.rglob("*"))
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, copy / "client/python"], check=True)
    left = [str(path.relative_to(copy)) for path in copy.rglob("*") if path not in before]
    if left:
        sys.exit(f"building the package has left {', '.join(left)} beside its sources")
    (wheel,) = wheels.glob("recollect-*.whl")
    subprocess.run([*pip, "install", f"recollect[test] @ file://{wheel}"], check=True)
    subprocess.run([*pip, "install", "--force-reinstall", "--no-deps", wheel], check=True)
    # From a directory where no source of the package is.
    config = source / "client/python/pyproject.toml"
    subprocess.run([python, "-m", "mypy", "--config-file", config, "-p", "recollect"], check=True, cwd=work)
    environment = dict(os.environ, RECOLLECT_BINARY=str(binary), RECOLLECT_SOURCE=str(source), MPLBACKEND="Agg")
    tests = source / "tests/client/python"
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests], cwd=work, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
