"""Random faults of servers that share documents in a Ceph cluster, both on this machine, and a checker of what their clients saw.

  python3 tests/faults/rados_faults.py . build/release/bin/recollect [--faults 200] [--seed 1]

Three monitors, three OSDs on files and three servers are started. Clients ingest documents (some twice at once at two servers, some of these with two texts that begin alike), ask, list and
delete; meanwhile servers are killed and stopped, cut off from the cluster, OSDs and monitors are killed and stopped, and the cluster is said to be
full. tests/faults/rados_history.py says what must hold. Afterwards all documents are read and compared, unfinished ingests are finished, and the store
is checked. Then losses are planted, one of each sort, and the checker must find each. Exit status 77: no Ceph daemons are installed.

As root it runs in a network namespace of its own, where packets of a server to the cluster are dropped; otherwise connections are shut down.
"""
import argparse
import copy
import hashlib
import json
import lzma
import pathlib
import random
import re
import sys
import tempfile
import threading
import time

import rados_history
from rados_cluster import LEASE_S, TRIED, Faults, Place, namespace_of_its_own

SECRET = " The secret number of the amber falcon is %d."
PROMPT = "What is the secret number of the amber falcon? The secret number of the amber falcon is"
UNAVAILABLE = 5  # exit status
RECORDS = r"o[0-9a-f]{16}\.\d+\.\d+"  # their objects
LONG = 6  # the text of several commits
ASK = ["--prompt", PROMPT, "--max-tokens", "40", "--temperature", "0.9", "--seed", "7", "--ignore-eos"]


class Clients:
    def __init__(self, place, history, texts, seed):
        self.place, self.history, self.texts = place, history, texts
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(random.Random(seed * 100 + i), i), daemon=True) for i in range(4)]

    def run(self, rng, number):
        made = 0
        while not self.stopping.is_set():
            alive = self.history.alive()
            what = rng.random()
            if what < 0.3 and len(alive) < 30 or not alive:
                made += 1
                self.ingest(rng, f"d{number}.{made}")
            elif what < 0.45 and len(alive) > 5 and (deletable := self.history.deletable()):
                self.delete(rng, rng.choice(deletable))
            elif what < 0.65:
                self.list(rng)
            else:
                self.generate(rng, rng.choice(alive))

    def where(self, rng):
        if rng.random() < 0.3:
            return ",".join(self.place.address(i) for i in range(3))
        return self.place.address(rng.randrange(3))

    def ingest(self, rng, name):
        text = rng.randrange(len(self.texts))
        second = {0: text, 1: text ^ 1}.get(rng.randrange(5))  # an even one and the next begin alike
        self.history.begin(name, *{text, text if second is None else second})
        self.history.may_ingest(name, 1)  # until all of this has ended

        def send(where, text=text):
            self.history.may_ingest(name, 1)
            outcome, _, error = self.place.call("ingest", "--id", name, self.texts[text], "--server", where)
            self.history.ingested(name, text, outcome, error)
            return outcome

        other = threading.Thread(target=send, args=(self.where(rng), second), daemon=True) if second is not None else None
        if other:
            other.start()
        for _ in range(6):
            outcome = send(self.where(rng))
            if outcome == "OK" or outcome == "CONFLICT" and second == text ^ 1 or self.stopping.is_set():
                break
            time.sleep(0.5)
        if other:
            other.join()
        self.history.may_ingest(name, -1)

    def delete(self, rng, name):
        self.history.begin_delete(name)
        for _ in range(6):
            outcome, _, error = self.place.call("docs", "delete", name, "--server", self.where(rng), "--timeout", "20")
            self.history.deleted(name, outcome, error)
            if outcome in ("OK", "NOT_FOUND") or self.stopping.is_set():
                break

    def list(self, rng):
        began = time.monotonic()
        outcome, out, error = self.place.call("docs", "list", "--json", "--server", self.where(rng), "--timeout", "20")
        names = [one["id"] for one in json.loads(out)["documents"]] if outcome == "OK" else []
        self.history.listed(began, time.monotonic(), outcome, names, error)

    def generate(self, rng, name):
        began = time.monotonic()
        outcome, out, error = self.place.call("generate", "--mount", name, *ASK, "--server", self.where(rng), "--timeout", "30")
        self.history.generated(name, began, time.monotonic(), outcome, out, error)


def check_store(place, history, texts, asks=True):
    """Reads everything, without a server, and asks each document. Returns what is wrong."""
    problems = []
    outcome, out, error = place.call("docs", "list", "--json", *place.store, "--log-level", "error", timeout=120)
    if outcome != "OK":
        return [f"list: {outcome}: {error}"]
    there = {one["id"]: one for one in json.loads(out)["documents"]}
    for name in history.documents:
        if name not in there and history.must_be_there(name):
            problems.append(f"{name}: published, and missing")
    for name, info in there.items():
        if not history.may_be_there(name):
            problems.append(f"{name}: deleted, and there")
            continue
        text = history.documents[name].text
        if text is None:
            problems.append(f"{name}: there, and no ingest was answered with success")
            continue
        data = texts[text].read_bytes()
        if info["sha256"] != hashlib.sha256(data).hexdigest():
            problems.append(f"{name}: another text")
            continue
        file = place.scratch / "exported"
        outcome, _, error = place.call("docs", "export", name, file, *place.store)  # every record, with its checksum
        file.unlink(missing_ok=True)
        if outcome != "OK":
            problems.append(f"{name}: {outcome}: {error}")
            continue
        if not asks:
            continue
        outcome, out, error = place.call("docs", "text", name, *place.store)
        if outcome != "OK" or out.rstrip("\n") != data.decode().rstrip("\n"):
            problems.append(f"{name}: its text: {outcome} {error}")
        outcome, out, error = place.call("generate", "--mount", name, *ASK, *place.store)
        if outcome != "OK" or out != history.expected[text]:
            problems.append(f"{name}: its tokens: {outcome} {error}")
    outcome, out, error = place.call("store", "check", "--json", *place.store)
    report = json.loads(out) if out else {"problems": [error], "orphans": []}
    return problems + [f"check: {one}" for one in report["problems"]] + [f"of nobody: {one}" for one in report["orphans"]]


def finish(place, history, texts):
    """What was not answered is done again, and now nothing fails."""
    for name, document in history.documents.items():
        if document.deleted < rados_history.FOREVER:
            continue
        if document.delete_begun < rados_history.FOREVER:
            history.deleted(name, *[place.call("docs", "delete", name, *place.store)[i] for i in (0, 2)])
        elif document.published == rados_history.FOREVER:
            for text in document.texts:  # the first may have lost against the second
                outcome, _, error = place.call("ingest", "--id", name, texts[text], *place.store)
                history.ingested(name, text, outcome, error)
                if outcome == "OK":
                    break
    time.sleep(LEASE_S + 1)  # pins and locks of what was killed
    outcome, _, error = place.call("store", "repair", *place.store)
    if outcome != "OK":
        history.problem(f"repair: {outcome}: {error}")


def plant(place, history, texts):
    """Losses of each sort, behind the checker's back. Returns those that it did not find."""
    missed = []

    def expect(fragment, what):
        found = check_store(place, history, texts, asks=False)
        print(f"planted: {what}: {found[0] if found else 'NOT FOUND'}", flush=True)
        if not any(fragment in one for one in found):
            missed.append(what)

    def must(outcome, _, error):
        assert outcome == "OK", (outcome, error)

    def pool(*words, data=b""):
        return place.ceph("rados", "-p", "recollect", "-N", "faults", *words, input=data)

    while len(history.alive()) < 2:
        name = f"planted{len(history.documents)}"
        history.begin(name, 0)
        must(*place.call("ingest", "--id", name, texts[0], *place.store))
        history.ingested(name, 0, "OK", "")
    first = history.alive()[0]
    other = texts[history.documents[first].text ^ 1]
    must(*place.call("docs", "delete", first, *place.store))
    expect(f"{first}: published, and missing", "a document that is gone")
    must(*place.call("ingest", "--id", first, other, *place.store))
    expect(f"{first}: another text", "a document with another text")
    history.begin_delete(first)
    history.deleted(first, "OK", "")
    expect(f"{first}: deleted, and there", "a deleted document that is back")
    must(*place.call("docs", "delete", first, *place.store))

    pool("put", "o00000000000fffff.1.0", "-", data=b"x")
    expect("of nobody: o00000000000fffff.1.0", "an object of nobody")
    pool("rm", "o00000000000fffff.1.0")
    victim = min(name for name in pool("ls").decode().split() if re.fullmatch(RECORDS, name))
    data = pool("get", victim, "-")
    pool("put", victim, "-", data=data[:100] + bytes([data[100] ^ 1]) + data[101:])
    expect("DATA_LOSS", "a flipped bit")
    pool("rm", victim)
    expect("check:", "an object that is gone")
    pool("put", victim, "-", data=data)

    left = check_store(place, history, texts)
    return missed + [f"still: {one}" for one in left]


def plant_two_writers(place, texts):
    """As if a writer that had lost its id had committed after the one that published. Returns what was not found.

    Two texts that begin alike are ingested into stores of their own, so that their records have the same owner. Then the second document gets the records
    of the first, and what its head says of where they lie.
    """

    def ingest(text):
        one, history = copy.copy(place), rados_history.History(["?"] * len(texts))
        one.store = ["--store", f"rados:recollect/writer{text}", "--ceph-conf", str(place.conf)]
        history.begin("one", text)
        outcome, _, error = one.call("ingest", "--id", "one", texts[text], *one.store)
        assert outcome == "OK", error
        history.ingested("one", text, outcome, "")
        history.expected[text] = one.call("generate", "--mount", "one", *ASK, *one.store)[1]
        pool = ["rados", "-p", "recollect", "-N", f"writer{text}"]
        names = [name for name in one.ceph(*pool, "ls").decode().split() if re.fullmatch(RECORDS, name)]
        return one, history, pool, {name: one.ceph(*pool, "get", name, "-") for name in names}

    key, value = place.scratch / "key", place.scratch / "value"
    (_, _, stale, old), (after, history, pool, new) = ingest(LONG), ingest(LONG ^ 1)
    changed = [name for name in old if old[name] != new.get(name)]
    assert 0 < len(changed) < len(old) and not check_store(after, history, texts)
    for name in changed:
        after.ceph(*pool, "put", name, "-", input=old[name])
    head = changed[0].split(".")[0]
    commits = after.ceph(*pool, "listomapkeys", head).count(b"e\0")
    assert commits > 1
    for commit in range(commits):
        key.write_bytes(b"e" + commit.to_bytes(8, "big"))
        after.ceph(*stale, "getomapval", head, "--omap-key-file", key, value)
        after.ceph(*pool, "setomapval", head, "--omap-key-file", key, "--input-file", value)
    found = check_store(after, history, texts)
    print(f"planted: {len(changed)} of {len(old)} objects are of a writer that had lost its id: {found[0] if found else 'NOT FOUND'}", flush=True)
    # Each record for itself is as it was written, so that only the text as a whole tells.
    return [] if any("one: its text" in problem for problem in found) else ["records of another writer"]


def make_texts(source, scratch):
    """Pairs of the same length that begin alike; short ones, and one of several commits."""
    book = lzma.open(source / "examples/books.txt.xz").read(1_000_000).decode("ascii", errors="ignore")
    texts = []
    for i, size in enumerate((6_000, 12_000, 20_000, 110_000)):
        begin = book[i * 200_000:][:size]
        for j, end in enumerate((begin[size // 2:], book[i * 200_000 + size:][:size - size // 2])):
            texts.append(scratch / f"text{len(texts)}.txt")
            texts[-1].write_text(begin[:size // 2] + end + SECRET % (482135 + 2 * i + j))
    return texts


def wait_ready(place, seconds=120):
    """Returns the servers that do not answer, and what they say."""
    end = time.monotonic() + seconds
    problems = []
    for i in range(3):
        while True:
            place.start_ended()
            outcome, _, error = place.call("docs", "list", "--server", place.address(i), "--timeout", "5")
            if outcome == "OK":
                break
            if time.monotonic() > end:
                log = (place.scratch / f"server{i}.log").read_text()[-1000:]
                problems.append(f"server {i} is not ready: {outcome}: {error}\n{log}")
                break
            time.sleep(0.3)
    return problems


def run(options, place):
    texts = make_texts(options.source, place.scratch)
    expected = []
    for i, text in enumerate(texts):
        data = ["--data-dir", place.scratch / "rocks"]
        assert place.call("ingest", "--id", f"t{i}", text, *data)[0] == "OK"
        expected.append(place.call("generate", "--mount", f"t{i}", *ASK, *data)[1])
    assert len(set(expected)) == len(texts), expected
    history = rados_history.History(expected)
    for i in range(3):
        place.start_server(i)
    history.problems += wait_ready(place)
    began = time.monotonic()
    clients, faults = Clients(place, history, texts, options.seed), Faults(place, options.seed)
    for thread in clients.threads:
        thread.start()
    faults.run(options.faults)
    took = time.monotonic() - began
    if place.cluster("wait") != 0:
        history.problem("the cluster is not whole again")
    history.problems += wait_ready(place)  # each server goes on by itself
    time.sleep(5)
    clients.stopping.set()
    for thread in clients.threads:
        thread.join()
    for server in place.servers:
        server.kill()
        server.wait()
    # A server that can not reach its store when it starts says so and ends; no other end is right.
    history.problems += [f"server {i} ended with status {status}" for i, status in place.ended if status != UNAVAILABLE]
    finish(place, history, texts)
    history.problems += faults.failed + check_store(place, history, texts)
    print(f"seed {options.seed}: {options.faults} faults in {took:.0f} s; servers cut off by {'iptables' if TRIED.get('iptables') else 'shutdown()'}")
    print(f"servers that ended since they could not reach the cluster, and were started again: {len(place.ended)}")
    for kind, count in sorted(faults.counts.items()):
        print(f"| {kind} | {count} |")
    for (call, outcome), count in sorted(history.outcomes.items()):
        print(f"| {call} | {outcome} | {count} |")
    print(f"{len(history.documents)} documents, {len(history.alive())} at the end; {len(history.problems)} problems")
    for problem in {re.sub(r"[0-9.]+ s later", "", one): one for one in reversed(history.problems)}.values():
        print(f"PROBLEM {problem}")
    missed = plant(place, history, texts) + plant_two_writers(place, texts) if not history.problems else []
    for one in missed:
        print(f"NOT FOUND {one}")
    return 1 if history.problems or missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.source, options.binary = options.source.resolve(), options.binary.resolve()
    rados_history.test_itself()
    namespace_of_its_own()
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(options.source, options.binary, pathlib.Path(scratch))
        started = place.cluster("start")
        if started == 3:
            print("SKIPPED: no fault was tried, because no Ceph daemons are installed")
            return 77
        if started != 0:
            return 1
        try:
            return run(options, place)
        finally:
            for server in place.servers:
                if server is not None:
                    server.kill()
                    server.wait()
            place.cluster("stop")


if __name__ == "__main__":
    sys.exit(main())
