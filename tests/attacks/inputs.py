#!/usr/bin/env python3
"""What a stranger can send to HTTP: every named input of tests/fuzz/corpus, bodies of JSON with fields and bytes changed,
and whole requests with bytes changed. Each is answered, never by an error of the server's own; afterwards the server
works, holds hardly more memory and ends with 0. Prints a table; exit code 1 when one of these is broken, with the input.

    python3 tests/attacks/inputs.py --binary build/release/bin/recollect --bodies 84000 --requests 20000
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import socket
import sys
import tempfile
import time

from server import Server

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
MOST_MORE_MIB = 256  # accepted requests make the server work, and its caches fill
# Where the inputs of a fuzz target go.
PATHS = {"http_chat": ["/v1/chat/completions"], "http_completions": ["/v1/completions"],
         "http_embeddings": ["/v1/embeddings"], "http_retrieve": ["/v1/retrieve"],
         "http_score": ["/v1/score"], "http_tokens": ["/tokenize", "/detokenize"]}
STRANGE = (None, True, -1, 0, 1, 0.5, 1e308, -1e-308, 2**31, 2**63, -2**63, 2**64, "", "m", "d",
           "*", "\0", "\ud800", "é" * 300, [], [[]], [None], {}, {"a": 1}, ["d", "d"], [-1], [2**40])


def with_changed_bytes(random_, data):
    data = bytearray(data)
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(data) + 1)
        kind = random_.randrange(4)
        if kind == 0:
            data[at:at + 1] = bytes([random_.randrange(256)])
        elif kind == 1:
            del data[at:at + random_.randint(1, 8)]
        elif kind == 2:
            data[at:at] = random_.choice((b"\0", b"\r\n", b"\xff", b'"', b"{", b"[", b"9" * 20, b"%", b": "))
        else:
            begin = random_.randrange(len(data) + 1)
            data[at:at] = data[begin:begin + random_.randint(1, 64)]
    return bytes(data)


def with_changed_fields(random_, value):
    """The same with one value of it, at any depth, replaced, left out or wrapped."""
    holder, key = None, None
    while isinstance(value, (dict, list)) and value:
        holder, key = value, random_.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value = holder[key]
        if random_.random() < 0.5:
            break
    if holder is None:
        return
    kind = random_.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder["unknown"] = random_.choice(STRANGE)
    elif kind == 2:
        holder[key] = [value]
    else:
        holder[key] = random_.choice(STRANGE)


class Inputs:
    """Sends inputs, counts answers and keeps what broke a promise."""

    def __init__(self, server):
        self.server = server
        self.host, port = server.http.rsplit(":", 1)
        self.port = int(port)
        self.connection = None
        self.broken = []
        self.begin("")

    def begin(self, name):
        self.name, self.answers, self.slowest, self.sent = name, collections.Counter(), 0.0, 0

    def row(self):
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(self.answers.items(), key=str))
        return [self.name, str(self.sent), kinds, f"{1000 * self.slowest:.0f}"]

    def count(self, status, data, since):
        self.sent += 1
        self.slowest = max(self.slowest, time.monotonic() - since)
        self.answers["closed" if not status else status if status >= 500 else f"{status // 100}xx"] += 1
        if status in (500, 502):
            self.broken.append(f"{self.name}: answered by {status}: {data[:300]!r}")

    def body(self, method, path, data):
        """On one connection, as long as the server keeps it."""
        since = time.monotonic()
        for attempt in range(2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
            try:
                self.connection.request(method, path, data)
                answer = self.connection.getresponse()
                content = answer.read()
                break
            except (http.client.HTTPException, OSError) as error:
                self.connection.close()
                self.connection = None
                if attempt:
                    self.broken.append(f"{self.name}: {path}: {error!r}: {data[:300]!r}")
                    return self.count(0, data, since)
        if answer.status >= 400:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                if json.loads(content.decode())["error"]["message"]:
                    return self.count(answer.status, data, since)
            self.broken.append(f"{self.name}: {path}: {answer.status} without a message: {data[:300]!r}")
        self.count(answer.status, data, since)

    def raw(self, data):
        """A connection of its own, which the client ends for its part."""
        since, answer = time.monotonic(), b""
        with socket.create_connection((self.host, self.port), timeout=300) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while part := connection.recv(1 << 16):
                    answer += part
        if answer and not answer.startswith(b"HTTP/1.1 "):
            self.broken.append(f"{self.name}: answered {answer[:100]!r}: {data[:300]!r}")
        self.count(int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0, data, since)


def send_named(inputs):
    inputs.begin("named inputs")
    for target, paths in PATHS.items():
        for file in sorted((CORPUS / target).iterdir()):
            for path in paths:
                inputs.body("POST", path, file.read_bytes())
    for file in sorted((CORPUS / "document_file").iterdir()):
        inputs.body("PUT", "/v1/documents/x/import", file.read_bytes())
    for target in ("http_request", "http_import", "http_upload", "ingest", "requests"):
        for file in sorted((CORPUS / target).iterdir()):
            inputs.raw(file.read_bytes())
    return inputs.row()


def send_bodies(inputs, random_, count):
    inputs.begin("changed bodies")
    seeds = [(path, file.read_bytes()) for target, paths in PATHS.items() for path in paths
             for file in sorted((CORPUS / target).iterdir())]
    for _ in range(count):
        path, data = random_.choice(seeds)
        with contextlib.suppress(ValueError, RecursionError):
            if random_.random() < 0.7:
                value = json.loads(data)
                for _ in range(random_.randint(1, 3)):
                    with_changed_fields(random_, value)
                data = json.dumps(value).encode()
                inputs.body("POST", path, data)
                continue
        inputs.body("POST", path, with_changed_bytes(random_, data))
    return inputs.row()


def send_requests(inputs, random_, count):
    inputs.begin("changed requests")
    seeds = [file.read_bytes() for file in sorted((CORPUS / "http_request").iterdir())]
    for _ in range(count):
        inputs.raw(with_changed_bytes(random_, random_.choice(seeds)))
    return inputs.row()


def check_afterwards(inputs, server, before):
    """What holds of the server behind all inputs."""
    more = server.peak() - before
    if more > MOST_MORE_MIB:
        inputs.broken.append(f"{more:.0f} MiB more, limit {MOST_MORE_MIB}")
    code, _, error = server.client("docs", "list")
    if code != 0:
        inputs.broken.append(f"the command line is not served afterwards: {error}")
    stats = server.stats()
    if stats["sessions"] or stats["ingests"] or stats["running_requests"]:
        inputs.broken.append("something runs on")
    ended = server.stop()
    if ended != 0:
        inputs.broken.append(f"SIGTERM ends it with {ended}")
    return more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/release/bin/recollect", type=os.path.abspath)
    parser.add_argument("--model", default=ROOT / "models/recollect-7m", type=os.path.abspath)
    parser.add_argument("--bodies", type=int, default=2000)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        model = os.path.join(directory, "m")  # the inputs call it so
        os.symlink(options.model, model)
        server = Server(options.binary, model, flags=("--http-listen", "127.0.0.1:0"))
        try:
            server.client("ingest", "--id", "d", "-", text="A small document with some words. " * 100)
            before = server.resident()
            inputs = Inputs(server)
            rows = [send_named(inputs), send_bodies(inputs, random_, options.bodies),
                    send_requests(inputs, random_, options.requests)]
            more = check_afterwards(inputs, server, before)
        finally:
            server.kill()
    print("| inputs | sent | answers | slowest, ms |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"\nresident memory: {before:.0f} MiB before, at most {more:.0f} MiB more")
    print("\n".join(inputs.broken[:20]), end="\n" if inputs.broken else "")
    return int(bool(inputs.broken))


if __name__ == "__main__":
    sys.exit(main())
