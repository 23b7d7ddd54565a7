"""check_docs.py must fail, and name the line, for a page with each kind of mistake. Usage: check_docs_test.py SOURCE_DIR"""
import pathlib
import subprocess
import sys
import tempfile

GOOD = "See [the design](docs/design.md#1-words), `tools/demo`, `--mount`, `--prompt-file` and `StatusTest.*`.\n"
MISTAKES = {
    "See [this](docs/nowhere.md).": "docs/nowhere.md",
    "See [this](docs/design.md#nowhere).": "docs/design.md#nowhere",
    "It is in `kernels/nowhere.h`.": "kernels/nowhere.h",
    "Call `recollect generate --nowhere`.": "--nowhere",
    "`GcaTest.IsNowhere` shows it.": "GcaTest.IsNowhere",
    "    tools/nowhere 3": "tools/nowhere",
    "    python train/nowhere.py --out models/mine": "train/nowhere.py",
    "    build/release/bin/nowhere_bench": "nowhere_bench",
}


def run(source, text):
    """What check_docs.py says of a tree with one page, PAGE.md, beside links to everything else."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for entry in source.iterdir():
            if entry.name not in ("build", ".git"):
                (root / entry.name).symlink_to(entry)
        (root / "PAGE.md").write_text(text)
        done = subprocess.run([sys.executable, source / "tools/check_docs.py", root], capture_output=True, text=True)
        return done.returncode, done.stdout


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    status, said = run(source, GOOD)
    assert status == 0, said
    for line, named in MISTAKES.items():
        status, said = run(source, GOOD + line + "\n")
        assert status == 1 and "PAGE.md:2:" in said and named in said, f"{line!r} was not noticed:\n{said}"
    print(f"{len(MISTAKES)} mistakes noticed")


if __name__ == "__main__":
    main()
