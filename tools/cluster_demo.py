"""What tools/cluster-demo does with its cluster, through the recollect binary and tools/ceph-cluster alone."""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import time

SECRET = " The secret number of the amber falcon is 482135."
QUESTION = "What is the secret number of the amber falcon? The secret number of the amber falcon is"
PROSE = ["--mount", "book", "--prompt", "The captain looked at the sea and", "--max-tokens", "600", "--temperature", "0.9", "--seed", "7",
         "--ignore-eos"]
START = time.monotonic()


def say(text):
    print(f"{time.monotonic() - START:6.1f} s  {text}", flush=True)


class Demo:
    def __init__(self, binary, work):
        self.binary, self.ceph = binary, work / "ceph"
        self.servers = {}  # by address

    def start_server(self):
        process = subprocess.Popen(
            [self.binary, "serve", "--store", "rados:recollect/demo", "--ceph-conf", self.ceph / "ceph.conf", "--grpc-listen", "127.0.0.1:0",
             "--log-level", "error", "--json"], stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        if not line:
            sys.exit("a server did not start")
        address = json.loads(line)["grpc"]
        self.servers[address] = process
        say(f"a server at {address}")

    def call(self, server, *words):
        """Runs the binary to its end with standard error shown, and returns its output."""
        done = subprocess.run([self.binary, *words, "--server", server], stdout=subprocess.PIPE, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"recollect {words[0]} ended with status {done.returncode}")
        return done.stdout

    def everyone(self):
        return ",".join(self.servers)

    def begin(self, *words):
        return subprocess.Popen([self.binary, *words, "--server", self.everyone()], stdout=subprocess.PIPE, text=True)

    def kill_busy(self, field, least, call):
        """Kills the server whose statistic `field` has grown by `least`, while `call` runs."""
        before = {address: json.loads(self.call(address, "stats", "--json"))[field] for address in self.servers}
        while call.poll() is None:
            for address, process in list(self.servers.items()):
                now = json.loads(self.call(address, "stats", "--json"))[field]
                if now >= before[address] + least:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    del self.servers[address]
                    say(f"KILLED the server at {address}, after {now - before[address]} tokens")
                    return
            time.sleep(0.02)
        sys.exit("the call ended before its server could be killed")

    def kill_osd(self):
        subprocess.run([pathlib.Path(__file__).parent / "ceph-cluster", "kill", self.ceph, "osd", "1"], check=True)
        say("KILLED one of the three OSDs: two copies of everything are left")

    def check(self, what, actual, expected):
        if actual != expected:
            sys.exit(f"{what}: {actual!r}, expected {expected!r}")
        say(what)

    def run(self, book):
        for _ in range(3):
            self.start_server()
        ingest = self.begin("ingest", "--id", "book", book)
        self.kill_busy("ingested_tokens", 20000, ingest)
        self.check("the ingest went on at another server", ingest.wait(timeout=600), 0)
        document = json.loads(self.call(self.everyone(), "docs", "list", "--json"))["documents"][0]
        self.check("the document is complete", int(document["bytes"]), book.stat().st_size)
        self.start_server()

        secrets, proses = [], []
        for address in self.servers:
            secrets.append(self.call(address, "generate", "--mount", "book", "--prompt", QUESTION, "--stop", ".").strip())
            proses.append(self.call(address, "generate", *PROSE))
        self.check("every server knows the secret", secrets, ["482135"] * 3)
        self.check("every server gives the same 600 tokens at temperature 0.9", len(set(proses)), 1)

        answer = self.begin("generate", *PROSE)
        self.kill_busy("generated_tokens", 100, answer)
        self.kill_osd()
        output, _ = answer.communicate(timeout=600)
        self.check("the answer went on at another server, with the same tokens", output, proses[0])
        self.start_server()
        self.check("a new server, with an OSD missing, gives the same tokens", self.call(list(self.servers)[-1], "generate", *PROSE), proses[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    options = parser.parse_args()
    book = options.work / "book.txt"
    with open(book, "a", encoding="utf-8") as file:
        file.write(SECRET)
    demo = Demo(options.binary.resolve(), options.work)
    try:
        demo.run(book)
    finally:
        for process in demo.servers.values():
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
