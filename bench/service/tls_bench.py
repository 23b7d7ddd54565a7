"""What TLS costs a client: time to the first token, tokens a second, and the server's CPU time, over gRPC and HTTP, with and without it.

    pip install ./client/python
    python3 bench/service/tls_bench.py build/release/bin/recollect

Two servers with the shipped model run at once, one of which speaks TLS (a certificate made by openssl for this run). They are asked in turn, so that what
else the machine does falls on both alike. Rounds are short; the median over them is printed, and the least and the most beside it.
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


class Server:
    def __init__(self, binary, directory, tls):
        self.name = "TLS" if tls else "plain"
        self.certificate = directory / "server.crt" if tls else None
        flags = []
        if tls:
            key = directory / "server.key"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", self.certificate],
                           check=True, stderr=subprocess.DEVNULL)
            flags = ["--tls-cert", self.certificate, "--tls-key", key]
        self.process = subprocess.Popen([binary, "serve", "--data-dir", ":memory:", "--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
                                         "--log-level", "warning", *flags], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("recollect ready"), line
        self.address = dict(word.split("=", 1) for word in line.split()[2:])

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def grpc(self):
        return recollect.Client(self.address["grpc"], tls_ca=self.certificate)

    def http(self):
        if self.certificate is None:
            return http.client.HTTPConnection(self.address["http"])
        return http.client.HTTPSConnection(self.address["http"], context=ssl.create_default_context(cafile=str(self.certificate)))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ask_grpc(client, tokens):
    """Seconds to the first token and from there to the last one."""
    begin = time.perf_counter()
    first = None
    for event in client.generate(PROMPT, max_tokens=tokens, ignore_eos=True):
        if first is None and isinstance(event, recollect.Tokens):
            first = time.perf_counter()
    return first - begin, time.perf_counter() - first


def ask_http(connection, tokens):
    body = json.dumps({"model": MODEL, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True})
    begin = time.perf_counter()
    connection.request("POST", "/v1/completions", body)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    first = None
    for line in answer:
        if first is None and line.startswith(b"data:"):
            first = time.perf_counter()
    return first - begin, time.perf_counter() - first


WAYS = {"gRPC": (Server.grpc, ask_grpc), "HTTP": (Server.http, ask_http)}


def spread(values, unit):
    return f"{statistics.median(values):8.2f} {unit} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=1000, help="of an answer (default: 1000)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        servers = [Server(arguments.binary, pathlib.Path(directory), tls) for tls in (False, True)]
        for server in servers:
            stack.callback(server.stop)
        for way, (connect, ask) in WAYS.items():
            measured = {server.name: {"fresh": [], "first": [], "rate": [], "cpu": []} for server in servers}
            kept = {server.name: connect(server) for server in servers}
            for server in servers:
                ask(kept[server.name], 20)
            for _ in range(arguments.rounds):
                for server in servers:
                    row = measured[server.name]
                    begin = time.perf_counter()
                    with contextlib.closing(connect(server)) as fresh:
                        row["fresh"].append((time.perf_counter() - begin + ask(fresh, 1)[0]) * 1e3)
                    row["first"].append(ask(kept[server.name], 1)[0] * 1e3)
                    before = server.cpu_s()
                    row["rate"].append((arguments.tokens - 1) / ask(kept[server.name], arguments.tokens)[1])
                    row["cpu"].append((server.cpu_s() - before) / arguments.tokens * 1e3)
            for server in servers:
                row = measured[server.name]
                print(f"{way}, {server.name}")
                print(f"  first token, new connection    {spread(row['fresh'], 'ms')}")
                print(f"  first token, kept connection   {spread(row['first'], 'ms')}")
                print(f"  tokens a second                {spread(row['rate'], '')}")
                print(f"  server's CPU time a token      {spread(row['cpu'], 'ms')}")
                kept[server.name].close()


if __name__ == "__main__":
    main()
