"""Packages of PyPI for tests, in environments that the build directory keeps."""
import subprocess
import sys
import venv

SKIPPED = 77  # as ctest counts it
UNREACHABLE = ("connection broken", "Failed to establish a new connection", "Temporary failure in name resolution", "ReadTimeoutError")


def environment(work):
    """The Python of an environment of its own in `work`, which a second run finds there."""
    python = work / "venv/bin/python"
    if not python.exists():
        venv.create(work / "venv", clear=True, with_pip=True)
    return python


def install(python, *what):
    """What pip says if it fails; empty: it is there."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *what]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    return "" if done.returncode == 0 else done.stderr or f"pip ended with {done.returncode}"


def end_without(failed, what):
    """Ends a test whose packages `install` could not bring: as skipped where PyPI cannot be reached."""
    if not any(sign in failed for sign in UNREACHABLE):
        sys.exit(1)
    print(f"SKIPPED: PyPI cannot be reached, so NOTHING was tested with {what}.", flush=True)
    sys.exit(SKIPPED)
