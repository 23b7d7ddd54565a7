"""A server for the tests of the Python client, and what they ask it."""
import lzma
import os
import pathlib
import signal
import socket
import subprocess

SOURCE = pathlib.Path(os.environ["RECOLLECT_SOURCE"])
BOOKS = lzma.open(SOURCE / "examples/books.txt.xz", "rt").read().encode("ascii", "ignore")  # can be cut anywhere
NEEDLE = b"\nThe pass key of Ahab is 48213. Remember it: 48213 is the pass key of Ahab.\n"
TEXT = BOOKS[:60_000] + NEEDLE + BOOKS[60_000:90_000]
ASKED = {"prompt": "The pass key of Ahab is", "mounts": ["novel"], "max_tokens": 6}


class Server:
    """`recollect serve` on a port of its own, which a restart keeps."""

    def __init__(self, directory, *flags):
        self.directory, self.flags = directory, flags
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [os.environ["RECOLLECT_BINARY"], "serve", "--model", SOURCE / "models/recollect-7m", "--data-dir", self.directory,
             "--grpc-listen", self.address, "--log-level", "error", *self.flags], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("recollect ready"), line

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
