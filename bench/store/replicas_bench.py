"""Servers that share documents through Ceph RADOS against one on RocksDB, on the same disk: ingest, cold landmark steps, and one to three servers.

    pip install ./client/python
    python3 bench/store/replicas_bench.py . build/release/bin/recollect [--rounds 3] [--tokens 1500] [--dir DIR]

Three monitors, three OSDs on files in DIR and the servers run on this machine (tools/ceph-cluster). Servers have so little memory for chunks that landmark
steps read them from the store; files of RocksDB and of the cache are dropped from the page cache before, what the OSDs keep in memory stays. Each round
does everything once, one after the other, so that what else the machine does falls on all alike. Printed are the median over the rounds and, between
brackets, the quartiles; ratios are to RocksDB in the same round. Every answer must have the same tokens.
"""
import argparse
import json
import lzma
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running import cpu_seconds, drop_page_cache, resident_bytes  # noqa: E402

SMALL = ["--chunk-states-budget", "1MiB", "--memory-budget", "1MiB"]
ROWS = ("RocksDB", "RADOS", "RADOS, empty cache", "RADOS, full cache")


def summary(values, digits=1):
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return f"{quartiles[1]:.{digits}f} ({quartiles[0]:.{digits}f}, {quartiles[2]:.{digits}f})"


class Bench:
    def __init__(self, options, scratch):
        self.binary, self.tokens, self.scratch = options.binary.resolve(), options.tokens, scratch
        self.source = options.source.resolve()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
        self.rocks, self.cache, self.ceph = scratch / "rocks", scratch / "cache", scratch / "ceph"
        self.shared = ["--store", "rados:recollect/bench", "--ceph-conf", self.ceph / "ceph.conf"]
        self.prose = None

    def flags(self, row):
        if row == "RocksDB":
            return ["--data-dir", self.rocks]
        return self.shared + (["--cache-dir", self.cache, "--cache-budget", "256MiB"] if "cache" in row else [])

    def call(self, *words):
        done = subprocess.run([self.binary, *map(str, words)], env=self.environment, text=True, capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def serve(self, row):
        server = subprocess.Popen([self.binary, "serve", "--json", "--grpc-listen", "127.0.0.1:0", "--log-level", "error", *SMALL, *self.flags(row)],
                                  env=self.environment, text=True, stdout=subprocess.PIPE)
        return server, json.loads(server.stdout.readline())["grpc"]

    def ask(self, address):
        return subprocess.Popen([self.binary, "generate", "--server", address, "--mount", "book", "--prompt", "The captain looked at the sea and",
                                 "--max-tokens", str(self.tokens), "--temperature", "0.9", "--seed", "7", "--ignore-eos"],
                                env=self.environment, text=True, stdout=subprocess.PIPE)

    def check(self, asked):
        prose, _ = asked.communicate()
        assert asked.returncode == 0
        self.prose = self.prose or prose
        assert prose == self.prose, "other tokens"

    def ingest(self, row, book, name):
        begin = time.monotonic()
        self.call("ingest", "--id", name, book, *self.flags(row))
        took = time.monotonic() - begin
        documents = json.loads(self.call("docs", "list", "--json", *self.flags(row)))["documents"]
        return next(int(one["tokens"]) for one in documents if one["id"] == name) / took

    def steps(self, row):
        """Statistics of a server that has answered once."""
        if row == "RADOS, empty cache" and self.cache.exists():
            subprocess.run(["rm", "-r", self.cache], check=True)
        for directory in (self.rocks, self.cache):
            drop_page_cache(directory)
        server, address = self.serve(row)
        try:
            self.check(self.ask(address))
            return json.loads(self.call("stats", "--json", "--server", address))
        finally:
            server.terminate()
            server.wait()

    def replicas(self, count):
        """CPU time of a server and of the storage cluster for each token in ms, and tokens a second of all; each server answers once."""
        osds = [int(file.read_text()) for file in self.ceph.glob("*.pid")]
        servers = [self.serve("RADOS") for _ in range(count)]
        try:
            before, begin = [cpu_seconds(one.pid) for one, _ in servers], time.monotonic()
            storage = sum(map(cpu_seconds, osds))
            for asked in [self.ask(address) for _, address in servers]:
                self.check(asked)
            took = time.monotonic() - begin
            used = [cpu_seconds(one.pid) - at for (one, _), at in zip(servers, before)]
            memory = [resident_bytes(one.pid) / 2**20 for one, _ in servers]
            return (1e3 * statistics.mean(used) / self.tokens, 1e3 * (sum(map(cpu_seconds, osds)) - storage) / self.tokens / count,
                    count * self.tokens / took, statistics.mean(memory))
        finally:
            for one, _ in servers:
                one.terminate()
                one.wait()


def run(options, bench):
    book = bench.scratch / "book.txt"
    book.write_text(lzma.open(bench.source / "examples/books.txt.xz").read(options.bytes).decode(errors="ignore"))
    ingests = {row: [] for row in ROWS[:2]}
    steps = {row: [] for row in ROWS}
    replicas = {count: [] for count in (1, 2, 3)}
    for round_ in range(options.rounds):
        for row, speeds in ingests.items():
            speeds.append(bench.ingest(row, book, "book" if round_ == 0 else f"book{round_}"))
        for row, found in steps.items():
            found.append(bench.steps(row))
        for count, found in replicas.items():
            found.append(bench.replicas(count))
        print(f"round {round_ + 1} of {options.rounds}", flush=True)
    print(f"\n{options.bytes} bytes of text, {bench.tokens} tokens an answer, {options.rounds} rounds; nice {os.nice(0)}, {os.cpu_count()} CPUs\n")
    print("| ingest | tokens/s | of RocksDB's |\n|---|---|---|")
    for row, speeds in ingests.items():
        print(f"| {row} | {summary(speeds, 0)} | {summary([a / b for a, b in zip(speeds, ingests['RocksDB'])], 2)} |")
    fields = ("landmark_step_p50_ms", "landmark_step_p99_ms", "store_read_p50_ms", "store_read_p99_ms")
    print("\n| | " + " | ".join(f"{field[:-3]}, ms | of RocksDB's" for field in fields) + " |\n|---|" + "---|" * 2 * len(fields))
    for row, found in steps.items():
        cells = []
        for field in fields:
            values = [float(one[field]) for one in found]
            cells += [summary(values), summary([a / float(b[field]) for a, b in zip(values, steps["RocksDB"])], 2)]
        print(f"| {row} | " + " | ".join(cells) + " |")
    print("\n| servers | CPU of a server for a token, ms | CPU of the storage cluster for a token, ms | tokens/s of all | resident MiB of a server |")
    print("|---|---|---|---|---|")
    for count, found in replicas.items():
        print(f"| {count} | " + " | ".join(summary([one[i] for one in found], 2 if i < 2 else 0) for i in range(4)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--bytes", type=int, default=400_000)
    parser.add_argument("--dir", type=pathlib.Path, help="on the disk to measure; default: the temporary directory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        bench = Bench(options, pathlib.Path(scratch))
        tool = bench.source / "tools/ceph-cluster"
        subprocess.run([tool, "start", bench.ceph, "--until", str(os.getpid())], check=True)
        try:
            run(options, bench)
        finally:
            subprocess.run([tool, "stop", bench.ceph], check=True)


if __name__ == "__main__":
    main()
