"""Two servers share documents through a Ceph cluster on this machine, and give the tokens that RocksDB gives.

  python3 tests/e2e/rados_test.py . build/release/bin/recollect

Exit status 77: no Ceph daemons are installed, nothing was tested.
"""
import errno
import json
import lzma
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

SECRET = " The secret number of the amber falcon is 482135."
PROMPT = "What is the secret number of the amber falcon? The secret number of the amber falcon is"


def fill(file):
    """The rest of its disk."""
    try:
        with open(file, "ab", buffering=0) as out:
            while out.write(bytes(4096)):
                pass
    except OSError as error:
        assert error.errno == errno.ENOSPC, error


def main(source, binary):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    servers = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        cluster = [source / "tools/ceph-cluster"]
        started = subprocess.run([*cluster, "start", scratch / "ceph", "--mons", "1", "--osds", "1", "--memory", "--until", str(os.getpid())], check=False)
        if started.returncode == 3:
            print("SKIPPED: servers that share documents were not tested, because no Ceph daemons are installed")
            return 77
        started.check_returncode()
        shared = ["--store", "rados:recollect/e2e", "--ceph-conf", scratch / "ceph/ceph.conf"]

        def call(*words, fails=""):
            done = subprocess.run([binary, *words], env=environment, text=True, capture_output=True, timeout=300, check=False)
            if fails:
                assert done.returncode != 0 and fails in done.stderr, (words, done.stdout, done.stderr)
            else:
                assert done.returncode == 0, (words, done.stdout, done.stderr)
            return done.stdout

        def serve(*more):
            server = subprocess.Popen([binary, "serve", "--json", "--grpc-listen", "127.0.0.1:0", "--log-level", "off", *shared, *more],
                                      env=environment, text=True, stdout=subprocess.PIPE)
            servers.append(server)
            return server, ["--server", json.loads(server.stdout.readline())["grpc"]]

        def answers(where):
            secret = call("generate", *where, "--mount", "books", "--prompt", PROMPT, "--stop", ".", "--max-tokens", "12")
            prose = call("generate", *where, "--mount", "books", "--prompt", "The captain looked at the sea and",
                         "--max-tokens", "60", "--temperature", "0.9", "--seed", "7")
            return secret, prose

        try:
            book = scratch / "book.txt"
            text = lzma.open(source / "examples/books.txt.xz").read(150_000).decode(errors="ignore")
            book.write_text(text + SECRET)
            call("ingest", "--data-dir", scratch / "rocks", "--id", "books", book)
            expected = answers(["--data-dir", scratch / "rocks"])
            assert "482135" in expected[0], expected

            first, at_first = serve()
            _, at_second = serve()
            call("ingest", *at_first, "--id", "books", book)
            assert answers(at_second) == expected, "the other server gives other tokens"
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert answers(at_second) == expected, "without the first server there are other tokens"
            _, at_third = serve()
            assert answers(at_third) == expected, "a new server gives other tokens"
            assert answers(shared) == expected, "the command line without a server gives other tokens"

            cache = ["--cache-dir", scratch / "cache", "--cache-budget", "256MiB"]
            for state in ("empty", "full", "damaged"):
                if state == "damaged":
                    for table in (scratch / "cache").glob("*.sst"):
                        data = bytearray(table.read_bytes())
                        data[100:len(data) // 2:1000] = bytes(len(range(100, len(data) // 2, 1000)))
                        table.write_bytes(data)
                cached, at_cached = serve(*cache)
                assert answers(at_cached) == expected, f"with a cache that is {state} there are other tokens"
                stats = json.loads(call("stats", "--json", *at_cached))
                hits, misses = int(stats["store_cache_hits"]), int(stats["store_cache_misses"])
                print(f"cache {state}: {hits} hits, {misses} misses, {stats['store_cache_bytes']} bytes")
                assert misses == 0 if state == "full" else misses > 0, stats
                assert hits > 0 or state != "full", stats
                if state == "full":  # the same server once more by mistake: the first goes on
                    call("serve", "--grpc-listen", at_cached[1], *shared, fails="use")
                    call("serve", "--grpc-listen", "127.0.0.1:0", *shared, *cache, fails="is in use")
                    assert answers(at_cached) == expected
                cached.terminate()
                assert cached.wait() == 0

            small = scratch / "small"
            small.mkdir()
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=False).returncode == 0:
                try:
                    cache = ["--cache-dir", small / "cache"]
                    for state in ("new", "full"):
                        cached, at_cached = serve(*cache)
                        assert answers(at_cached) == expected, f"with a cache on a disk that is {state} there are other tokens"
                        budget = int(json.loads(call("stats", "--json", *at_cached))["store_cache_budget_bytes"])
                        assert (budget > 0) == (state == "new"), budget
                        cached.terminate()
                        assert cached.wait() == 0
                        fill(small / "others")
                    print("with its cache's disk full a server goes on without a cache")
                finally:
                    subprocess.run(["umount", "-l", small], check=True)
            else:
                print("NOT TESTED: a cache on a full disk, which needs the right to mount one")

            call("docs", "delete", *at_third, "books")
            call("generate", *at_second, "--mount", "books", "--prompt", PROMPT, fails="books")
            report = json.loads(call("store", "check", "--json", *shared))
            assert report["documents"] == 0 and not report["problems"], report
            assert json.loads(call("store", "repair", "--json", *shared))["problems"] == []
            call("serve", "--store", "rados:nowhere", "--ceph-conf", scratch / "ceph/ceph.conf", fails="has no pool nowhere")
            call("serve", "--store", "ceph:nowhere", fails="rados:POOL")
            print("the same tokens from RocksDB, from three servers, and through a cache")
            return 0
        finally:
            for server in servers:
                server.kill()
                server.wait()
            subprocess.run([*cluster, "stop", scratch / "ceph"], check=False)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()))
