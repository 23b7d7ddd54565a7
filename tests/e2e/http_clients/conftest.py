"""One server with the shipped model and two documents for all tests here. Run by run.py."""
import lzma
import os
import pathlib
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["RECOLLECT_SOURCE"])
BINARY = os.environ["RECOLLECT_BINARY"]
MODEL = "recollect-7m"
BOOKS = lzma.open(SOURCE / "examples/books.txt.xz", "rt").read().encode("ascii", "ignore")  # can be cut anywhere
NEEDLE = b"\nThe pass key of Ahab is 48213. Remember it: 48213 is the pass key of Ahab.\n"
NOVEL = BOOKS[:60_000] + NEEDLE + BOOKS[60_000:90_000]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of its HTTP listener."""
    data = tmp_path_factory.mktemp("data")
    subprocess.run([BINARY, "ingest", "--model", SOURCE / "models" / MODEL, "--data-dir", data, "--id", "novel", "-"], input=NOVEL, check=True)
    process = subprocess.Popen([BINARY, "serve", "--model", SOURCE / "models" / MODEL, "--data-dir", data, "--grpc-listen", "127.0.0.1:0",
                                "--http-listen", "127.0.0.1:0", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("recollect ready"), line
    yield dict(word.split("=", 1) for word in line.split()[2:])["http"]
    process.terminate()
    assert process.wait(60) == 0
