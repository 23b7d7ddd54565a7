"""What TCP_NODELAY does for a client that reads a stream over HTTP: the times between the tokens of an answer, on loopback.

    python3 bench/service/nodelay_bench.py build/release/bin/recollect

Two servers with the shipped model run at once and are asked in turn. In one of them a library that this script compiles (needs cc) takes the option
away, so that both run the same program. Tokens that arrive in one read are together: no time is between them.
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

WITHOUT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
int setsockopt(int socket, int level, int name, const void* value, socklen_t size) {
  int (*next)(int, int, int, const void*, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
  return level == IPPROTO_TCP && name == TCP_NODELAY ? 0 : next(socket, level, name, value, size);
}
"""
FIELDS = {"model": "recollect-7m", "prompt": "Call me Ishmael. Some years ago, never mind how long precisely,", "temperature": 0,
          "ignore_eos": True, "stream": True}


class Server:
    def __init__(self, binary, preload):
        environment = dict(os.environ, LD_PRELOAD=str(preload)) if preload else None
        self.process = subprocess.Popen([binary, "serve", "--data-dir", ":memory:", "--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
                                         "--log-level", "warning"], stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        assert line.startswith("recollect ready"), line
        host, port = dict(word.split("=", 1) for word in line.split()[2:])["http"].rsplit(":", 1)
        self.connection = socket.create_connection((host, int(port)))

    def ask(self, tokens):
        """Milliseconds from the request to each event of the answer."""
        body = json.dumps({**FIELDS, "max_tokens": tokens}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        begin = time.perf_counter()
        self.connection.sendall(head.encode() + body)
        times, end = [], b""
        while not end.endswith(b"0\r\n\r\n"):
            part = self.connection.recv(1 << 16)
            assert part, "the server closed the connection"
            now = (time.perf_counter() - begin) * 1e3
            times += [now] * part.count(b"data: {")
            end = (end + part)[-5:]
        assert len(times) >= tokens, f"{len(times)} events for {tokens} tokens"
        return times

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=300, help="of an answer (default: 300)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        source, library = pathlib.Path(directory, "without.c"), pathlib.Path(directory, "without.so")
        source.write_text(WITHOUT)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        answers = {}
        servers = {"TCP_NODELAY": Server(arguments.binary, None), "without": Server(arguments.binary, library)}
        for name, server in servers.items():
            stack.callback(server.stop)
            server.ask(20)
            answers[name] = []
        for _ in range(arguments.rounds):
            for name, server in servers.items():
                answers[name].append(server.ask(arguments.tokens))
        for name, rounds in answers.items():
            gaps = sorted(after - before for times in rounds for before, after in zip(times, times[1:]))
            print(f"{name:12} first token {statistics.median(times[0] for times in rounds):.2f} ms, whole answer {statistics.median(times[-1] for times in rounds):.1f} ms; "
                  f"together with the token before {sum(gap == 0 for gap in gaps) / len(gaps):.1%}; between two tokens: median {statistics.median(gaps):.2f}, "
                  f"p99 {gaps[len(gaps) * 99 // 100]:.1f}, longest {gaps[-1]:.1f} ms")


if __name__ == "__main__":
    main()
