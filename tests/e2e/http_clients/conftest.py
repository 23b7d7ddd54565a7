"""Servers for all tests here: the shipped model with a novel, and a chat model with the minutes of a meeting. Run by run.py."""
import contextlib
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
FACT = "Ishmael Brandt takes the minutes at the next meeting, on the 14th of March."
MINUTES = BOOKS[200_000:206_000] + f"\n\n{FACT}\n\n".encode() + BOOKS[206_000:212_000]
# A GGUF file (run.py fetches one); without it nothing of chat is tested, which run.py says.
CHAT_MODEL = os.environ.get("RECOLLECT_CHAT_MODEL")


@contextlib.contextmanager
def serving(model, data, documents):
    """The address of an HTTP listener, and the name of its model."""
    for name, text in documents.items():
        subprocess.run([BINARY, "ingest", "--model", model, "--data-dir", data, "--id", name, "-"], input=text, check=True)
    process = subprocess.Popen([BINARY, "serve", "--model", model, "--data-dir", data, "--grpc-listen", "127.0.0.1:0",
                                "--http-listen", "127.0.0.1:0", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("recollect ready"), line
    words = dict(word.split("=", 1) for word in line.split()[2:])
    yield words["http"]
    process.terminate()
    assert process.wait(60) == 0


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of its HTTP listener."""
    with serving(SOURCE / "models" / MODEL, tmp_path_factory.mktemp("data"), {"novel": NOVEL}) as address:
        yield address


@pytest.fixture(scope="session")
def chat_server(tmp_path_factory):
    """The same of a chat model, with the document "minutes"."""
    if not CHAT_MODEL:
        pytest.skip("no chat model: RECOLLECT_CHAT_MODEL names none")
    with serving(CHAT_MODEL, tmp_path_factory.mktemp("chat"), {"minutes": MINUTES}) as address:
        yield address
