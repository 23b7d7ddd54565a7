"""Packages of PyPI for tests. One environment in the build directory has those of packages.txt; the first test that asks for it makes it."""
import fcntl
import os
import pathlib
import subprocess
import sys
import venv

SKIPPED = 77  # as ctest counts it
UNREACHABLE = ("connection broken", "Failed to establish a new connection", "Temporary failure in name resolution", "ReadTimeoutError")
LISTED = pathlib.Path(__file__).with_name("packages.txt")


def pip(python, what, *arguments):
    """Ends the test where pip fails: as skipped where PyPI cannot be reached, when `what` is not tested."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode == 0:
        return
    if not any(sign in done.stderr for sign in UNREACHABLE):
        sys.exit(1)
    print(f"SKIPPED: PyPI cannot be reached, so NOTHING was tested of {what}.", flush=True)
    sys.exit(SKIPPED)


def environment(work, what, listed=LISTED):
    """The Python of the environment in `work`, which has the packages of `listed`; tests that run beside this one wait for it."""
    work.mkdir(parents=True, exist_ok=True)
    python, installed = work / "venv/bin/python", work / "installed"
    with open(work / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists() or installed.read_text() != listed.read_text():
            venv.create(work / "venv", clear=True, with_pip=True)
            pip(python, what, "install", "--no-compile", "--requirement", listed)
            installed.write_text(listed.read_text())
    return python


def go_on(work, what):
    """Runs this program again with the packages, unless it has them."""
    if pathlib.Path(sys.prefix) != work.resolve() / "venv":
        python = environment(work.resolve(), what)
        os.execv(python, [str(python), *sys.argv])


def beside(python, work):
    """The Python of an environment of its own in `work`, which has the packages of `python` and what is installed there."""
    venv.create(work / "venv", clear=True)
    packages, = (python.parent.parent / "lib").glob("python*/site-packages")
    own, = (work / "venv/lib").glob("python*/site-packages")
    (own / "packages.pth").write_text(f"{packages}\n")
    return work / "venv/bin/python"
