"""Installs the clients of requirements.txt into an environment of their own, and runs the tests beside this file with them.

    python3 tests/e2e/http_clients/run.py SOURCE_DIR RECOLLECT_BINARY WORK_DIR

Packages come from PyPI, about 800 MB. WORK_DIR keeps them, so that a second run takes seconds. Where PyPI cannot be reached it says so and ends
with 77, which ctest counts as skipped.
"""
import os
import pathlib
import subprocess
import sys
import venv

SKIPPED = 77
UNREACHABLE = ("connection broken", "Failed to establish a new connection", "Temporary failure in name resolution", "ReadTimeoutError")


def main():
    source, binary, work = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    tests = source / "tests/e2e/http_clients"
    python = work / "venv/bin/python"
    if not python.exists():
        venv.create(work / "venv", clear=True, with_pip=True)
    install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r", tests / "requirements.txt"]
    installed = subprocess.run(install, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(installed.stderr)
    if installed.returncode != 0:
        if not any(sign in installed.stderr for sign in UNREACHABLE):
            return 1
        print("SKIPPED: PyPI cannot be reached, so NOTHING was tested with the openai package and lm_eval.", flush=True)
        return SKIPPED
    # What is fetched besides packages would be somebody's data set: there is none.
    environment = dict(os.environ, RECOLLECT_BINARY=str(binary), RECOLLECT_SOURCE=str(source), HF_HOME=str(work / "hf"), HF_HUB_OFFLINE="1",
                       HF_DATASETS_OFFLINE="1", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    command = [python, "-m", "pytest", "-q", "--durations=5", "-p", "no:cacheprovider", tests]
    return subprocess.run(command, cwd=work, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
