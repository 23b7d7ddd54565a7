"""What TLS and API keys cost a client: time to the first token, tokens a second and the server's CPU time, over gRPC and HTTP.

    pip install ./client/python
    python3 bench/service/access_bench.py build/release/bin/recollect

Three servers with the shipped model run at once: plain, with keys, and with keys and TLS (a certificate that openssl makes for this run). Each round asks all of
them in turn, so that what else the machine does falls on all alike. Printed are the median over the rounds, and of the ratios to the plain server's in the same
round the median and, between brackets, the quartiles.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import ssl
import statistics
import subprocess
import tempfile
import time

import recollect

PROMPT = "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse,"
MODEL = "recollect-7m"
TEXT_BYTES, READS = 256 << 10, 400  # of a document, and how often it is read in a round


class Server:
    def __init__(self, binary, directory, name):
        self.name = name
        self.key = self.certificate = None
        flags = []
        if "keys" in name:
            file = directory / f"{name}.keys"
            made = subprocess.run([binary, "keys", "create", "bench", "--right", "full", "--keys", file], check=True, capture_output=True, text=True)
            self.key = made.stdout.split()[0]
            flags += ["--keys", file]
        if "TLS" in name:
            self.certificate, key = directory / "server.crt", directory / "server.key"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", self.certificate],
                           check=True, stderr=subprocess.DEVNULL)
            flags += ["--tls-cert", self.certificate, "--tls-key", key]
        self.process = subprocess.Popen([binary, "serve", "--data-dir", ":memory:", "--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
                                         "--log-level", "warning", *flags], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("recollect ready"), line
        self.address = dict(word.split("=", 1) for word in line.split()[2:])

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def grpc(self):
        return recollect.Client(self.address["grpc"], tls_ca=self.certificate, api_key=self.key)

    def http(self):
        if self.certificate is None:
            return http.client.HTTPConnection(self.address["http"])
        return http.client.HTTPSConnection(self.address["http"], context=ssl.create_default_context(cafile=str(self.certificate)))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ask_grpc(_, client, tokens):
    """Seconds to the first token and from there to the last one."""
    begin = time.perf_counter()
    first = None
    for event in client.generate(PROMPT, max_tokens=tokens, ignore_eos=True):
        if first is None and isinstance(event, recollect.Tokens):
            first = time.perf_counter()
    return first - begin, time.perf_counter() - first


def request(server, connection, method, path, body=None):
    connection.request(method, path, body, {} if server.key is None else {"Authorization": f"Bearer {server.key}"})
    answer = connection.getresponse()
    assert answer.status in (200, 201), answer.read()
    return answer


def ask_http(server, connection, tokens):
    fields = {"model": MODEL, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    begin = time.perf_counter()
    first = None
    for line in request(server, connection, "POST", "/v1/completions", json.dumps(fields)):
        if first is None and line.startswith(b"data:"):
            first = time.perf_counter()
    return first - begin, time.perf_counter() - first


WAYS = {"gRPC": (Server.grpc, ask_grpc), "HTTP": (Server.http, ask_http)}


def measure(server, connect, ask, kept, tokens):
    begin = time.perf_counter()
    with contextlib.closing(connect(server)) as fresh:
        opened = time.perf_counter() - begin
        new = opened + ask(server, fresh, 1)[0]
    first = ask(server, kept, 1)[0]
    before = server.cpu_s()
    answer = ask(server, kept, tokens)[1]
    return {"first token, new connection, ms": new * 1e3, "first token, kept connection, ms": first * 1e3,
            "time a token, ms": answer / (tokens - 1) * 1e3, "server's CPU time a token, ms": (server.cpu_s() - before) / tokens * 1e3}


def measure_text(server, connection, text):
    """A document's text over HTTP, where little but bytes is moved."""
    before, begin = server.cpu_s(), time.perf_counter()
    for _ in range(READS):
        assert len(request(server, connection, "GET", "/v1/documents/text/text").read()) == len(text)
    megabytes = READS * len(text) / 1e6
    return {"reading a text, ms a MB": (time.perf_counter() - begin) / megabytes * 1e3, "server's CPU time for it, ms a MB": (server.cpu_s() - before) / megabytes * 1e3}


def report(way, rows):
    """`rows`: by server, a list of what was measured in each round."""
    names = list(rows)
    print(f"{way:38}" + "".join(f"{name:>28}" for name in names))
    for what in rows[names[0]][0]:
        plain = [row[what] for row in rows[names[0]]]
        line = f"  {what:36}{statistics.median(plain):28.3f}"
        for name in names[1:]:
            values = [row[what] for row in rows[name]]
            low, middle, high = statistics.quantiles([value / base if base else 1 for value, base in zip(values, plain)], n=4)
            line += f"{statistics.median(values):10.3f} x{middle:.3f} ({low:.2f} {high:.2f})"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=1000, help="of an answer (default: 1000)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers = [Server(arguments.binary, pathlib.Path(directory), name) for name in ("plain", "keys", "keys and TLS")]
        for server in servers:
            stack.callback(server.stop)
        for way, (connect, ask) in WAYS.items():
            kept = {server.name: connect(server) for server in servers}
            for server in servers:
                ask(server, kept[server.name], 20)
            rows = {server.name: [] for server in servers}
            for _ in range(arguments.rounds):
                for server in servers:
                    rows[server.name].append(measure(server, connect, ask, kept[server.name], arguments.tokens))
            report(way, rows)
            for server in servers:
                kept[server.name].close()
        text = (PROMPT + "\n").encode() * (TEXT_BYTES // len(PROMPT))
        for server in servers:
            request(server, server.http(), "PUT", "/v1/documents/text", text).read()
        kept = {server.name: server.http() for server in servers}  # an idle one is closed after a minute
        rows = {server.name: [] for server in servers}
        for _ in range(arguments.rounds):
            for server in servers:
                rows[server.name].append(measure_text(server, kept[server.name], text))
        report("HTTP", rows)


if __name__ == "__main__":
    main()
