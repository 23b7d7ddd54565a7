#!/usr/bin/env python3
"""What strangers on the port can do to a server, over the loopback address, and whether what docs/operations.md
promises holds. Each attack has a server of its own; a second client, the command line from another address, is
served meanwhile and afterwards, and SIGTERM ends the server cleanly. Prints a table; exit code 1 when a promise is
broken.

    tests/attacks/attacks.py --binary build/release/bin/recollect --streams 420000 --silence 400 --seconds 900
"""
import argparse
import os
import random
import resource
import sys
import time

import http2
from server import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from waiting import wait_until  # noqa: E402

STRANGER = "127.0.0.2"
MOST_MORE_MIB = 64  # resident memory that a stranger may cost
SMALL_TEXT = "A small document of the second client. " * 20


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def ingest_header(name):
    return field(1, field(1, name.encode()))


def ingest_piece(text):
    return field(2, field(2, text))


class Attack:
    """One row of the table. A context: what happens in it happens to a new server."""

    rows = []

    def __init__(self, options, name, descriptors=None, works=False):
        """`works`: it makes the server work, which takes memory."""
        self.name, self.broken, self.meanwhile, self.works = name, [], [], works
        self.server = Server(options.binary, options.model, descriptors)

    def __enter__(self):
        self.check(self.client_works("first"), "the second client is not served before")
        self.meanwhile.clear()
        self.before = self.server.resident()
        self.server.forget_peak()
        self.most_descriptors = self.server.descriptors()
        return self

    def check(self, holds, promise):
        if not holds:
            self.broken.append(promise)

    def client_works(self, name):
        """Whether the second client can write, read and delete."""
        server = self.server
        steps = (["ingest", "--id", name, "-", "--retries", "0"], ["docs", "list"], ["docs", "delete", name])
        for step in steps:
            code, _, error = server.client(*step, text=SMALL_TEXT, timeout=30)
            if code != 0:
                self.meanwhile.append(False)
                self.error = error
                return False
        self.meanwhile.append(True)
        return True

    def look(self):
        self.most_descriptors = max(self.most_descriptors, self.server.descriptors())

    def __exit__(self, kind, *_):
        server = self.server
        if kind is not None:
            server.kill()
            return False
        meanwhile = "%d of %d" % (sum(self.meanwhile), len(self.meanwhile))
        self.check(all(self.meanwhile), "the second client is served meanwhile")
        peak = server.peak()
        self.check(self.works or peak - self.before <= MOST_MORE_MIB, "at most %d MiB more" % MOST_MORE_MIB)
        # It may still be busy with what has come; not for long.
        afterwards = wait_until(lambda: self.client_works("last"), 20)
        self.check(afterwards, "the second client is served afterwards")
        after, descriptors = server.resident(), server.descriptors()
        code = server.stop()
        self.check(code == 0, "SIGTERM ends it with 0")
        self.rows.append([self.name, "%.0f" % self.before, "%.0f" % peak, "%.0f" % after,
                          "%d, %d" % (self.most_descriptors, descriptors), meanwhile,
                          "yes" if afterwards else "no", str(code), "; ".join(self.broken) or "holds"])
        print("%-30s %s" % (self.name, self.rows[-1][-1]), file=sys.stderr, flush=True)
        for line in server.log_text().splitlines()[-3:] if self.broken else ():
            print("    " + line[:200], file=sys.stderr)
        return False


def connect(attack, **options):
    """None where the server takes no more."""
    try:
        connection = http2.Connection(attack.server.port, STRANGER, timeout=2, **options)
        if not connection.read():
            return None
        connection.socket.settimeout(600)  # it may be the server that waits
        return connection
    except OSError:
        return None


def idle_connections(options):
    """All the descriptors that a server with few may have."""
    with Attack(options, "idle connections", descriptors=256) as attack:
        open_ones, refused = [], 0
        while len(open_ones) < 300 and refused < 3:
            connection = connect(attack)
            if connection:
                open_ones.append(connection)
            else:
                refused += 1
        attack.look()
        attack.client_works("meanwhile")
        for connection in open_ones:
            connection.close()
        attack.name += " (%d)" % len(open_ones)


def few_descriptors(options):
    """So few that it must not start."""
    try:
        Server(options.binary, options.model, descriptors=100).kill()
        said = "it starts"
    except RuntimeError as refused:
        said = str(refused).strip()
    promises = "holds" if "100 are allowed" in said and "at least 112" in said else "refuses to start: " + said
    Attack.rows.append(["100 descriptors"] + 7 * ["–"] + [promises])


def no_descriptors(options):
    """As if somebody else in the process had them all for a while."""
    with Attack(options, "no descriptor for a while", descriptors=256, works=True) as attack:
        server = attack.server
        kept = http2.Connection(server.port)
        ended = lambda kind, flags, _, __: kind == http2.HEADERS and flags & http2.END_STREAM
        stream = kept.new_stream()
        kept.send(http2.headers(stream, "Documents/ListDocuments") + http2.message(stream, b""))
        kept.read_until(ended)  # the server has by now what the connection takes
        highest = max(map(int, os.listdir("/proc/%d/fd" % server.process.pid)))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (highest + 1, 256))
        for name in (b"first", b"second"):  # writes that fail or not
            stream = kept.new_stream()
            kept.send(http2.headers(stream, "Documents/Ingest") +
                      http2.message(stream, ingest_header(name.decode()), last=False) +
                      http2.message(stream, ingest_piece(SMALL_TEXT.encode() * 200), last=False) +
                      http2.message(stream, field(3, b"")))
            kept.read_until(ended)
        server.client("docs", "list", timeout=10)  # not accepted
        attack.look()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, 256))


def begun_and_reset(stream):
    return http2.headers(stream, "Documents/GetDocument") + http2.reset(stream)


def sent_and_reset(stream):
    return http2.headers(stream, "Generation/OpenSession") + http2.message(stream, b"") + http2.reset(stream)


def resets(options):
    """As fast as the server takes them."""
    for call in (begun_and_reset, sent_and_reset):
        with Attack(options, "calls " + call.__name__.replace("_", " ")) as attack:
            end = time.monotonic() + options.seconds
            connections = [connect(attack) for _ in range(options.connections)]
            sending = set(connections)
            while sending and time.monotonic() < end:
                for connection in sorted(sending, key=connections.index):
                    count = options.random.randint(50, 150)
                    if not connection.offer(b"".join(call(connection.new_stream()) for _ in range(count))):
                        attack.check(False, "the connection lives")
                        sending.remove(connection)
                    elif connection.next_stream // 2 >= options.streams // len(connections):
                        sending.remove(connection)
                    connection.drain()
                attack.look()
                if options.random.random() < 0.01:
                    attack.client_works("meanwhile")
            attack.client_works("meanwhile")
            attack.name += " (%d)" % sum(connection.next_stream // 2 for connection in connections)
            for connection in connections:
                attack.check(connection.finish(max(end - time.monotonic(), 30)), "all is read in time")
            # A reset that waits for its turn comes when the answer is out: the session is the caller's.
            attack.check(attack.server.stats()["sessions"] <= 192, "a quarter of the sessions is for others")
            for connection in connections:
                connection.close()


def open_calls(options):
    """On as many connections as are let in, as many as are let be begun, without a message."""
    with Attack(options, "open calls") as attack:
        connections = []
        while len(connections) < 300:
            connection = connect(attack)
            if not connection:
                break
            connections.append(connection)
            connection.send(b"".join(http2.headers(connection.new_stream(), "Documents/GetDocument")
                                      for _ in range(256)))
        attack.look()
        attack.client_works("meanwhile")
        time.sleep(2)
        for connection in connections:
            connection.close()
        attack.name += " (%d connections)" % len(connections)


def abandoned_sessions(options):
    """OpenSession, cancelled before, while and after it runs. What the answer waits for is the window of flow control,
    which has no room for it: its headers say that the session is open."""
    with Attack(options, "abandoned sessions") as attack:
        connection = connect(attack, window=0)
        for i in range(options.sessions):
            stream = connection.new_stream()
            connection.send(http2.headers(stream, "Generation/OpenSession") + http2.message(stream, b""))
            if i % 2:
                connection.read_until(lambda kind, _, at, __: kind == http2.HEADERS and at == stream)
            connection.send(http2.reset(stream))
        attack.client_works("meanwhile")
        wait_until(lambda: attack.server.stats()["sessions"] == 0, 10)
        attack.check(attack.server.stats()["sessions"] == 0, "no session stays")
        attack.look()
        connection.close()


def begin_ingests(attack, connection, count, text=b""):
    """Streams of as many as are let in."""
    streams = {}
    for i in range(count):
        stream = connection.new_stream()
        streams[stream] = "stranger-%d" % stream
        connection.send(http2.headers(stream, "Documents/Ingest") +
                        http2.message(stream, ingest_header(streams[stream]), last=False))
    waiting = set(streams)
    while waiting:  # an answer, or the end
        kind, flags, stream, _ = connection.read_until(lambda kind, *_: kind in (http2.DATA, http2.HEADERS))
        if kind == http2.DATA:
            waiting.discard(stream)
        elif flags & http2.END_STREAM:
            waiting.discard(stream)
            streams.pop(stream, None)
    if text:
        for stream in streams:
            connection.send(http2.message(stream, ingest_piece(text), last=False))
    return streams


def cancelled_ingests(options):
    """Each with a piece of half a minute's work, given up at once."""
    with Attack(options, "cancelled ingests", works=True) as attack:
        connection = connect(attack)
        text = b"".join(b"%d bottles of beer. " % i for i in range(1800))  # 32 KiB
        streams = begin_ingests(attack, connection, 62, text[:1 << 15])
        wait_until(lambda: attack.server.stats()["ingested_tokens"] > 300, 60)
        connection.send(b"".join(http2.reset(stream) for stream in streams))
        connection.finish(10)
        at_once = attack.server.stats()["ingested_tokens"]
        attack.look()
        attack.client_works("meanwhile")
        # The step that ran, and the second client's document.
        more = attack.server.stats()["ingested_tokens"] - at_once
        attack.check(more <= 2 * 1024, "work ends within a step: %d tokens" % more)
        connection.close()
        attack.name += " (%d)" % len(streams)


def silent_ingests(options):
    """Which say nothing after their header."""
    with Attack(options, "silent ingests") as attack:
        connection = connect(attack)
        streams = begin_ingests(attack, connection, 64)
        attack.look()
        attack.client_works("meanwhile")
        attack.name += " (%d)" % len(streams)
        if options.silence:
            connection.socket.settimeout(options.silence)
            while streams:
                found = connection.read_until(lambda kind, flags, at, _: at in streams and
                                              kind == http2.HEADERS and flags & http2.END_STREAM)
                if found is None:
                    break
                del streams[found[2]]
            attack.check(not streams, "ended after 5 minutes")
        connection.close()


ATTACKS = (few_descriptors, idle_connections, no_descriptors, resets, open_calls, abandoned_sessions, cancelled_ingests, silent_ingests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--binary", default=os.path.join(root, "build/release/bin/recollect"))
    parser.add_argument("--model", default=os.path.join(root, "models/recollect-7m"))
    parser.add_argument("--streams", type=int, default=10000, help="that are reset")
    parser.add_argument("--connections", type=int, default=4, help="that they are on")
    parser.add_argument("--seconds", type=float, default=600, help="for the resets, at most")
    parser.add_argument("--sessions", type=int, default=300, help="that are abandoned")
    parser.add_argument("--silence", type=float, default=0, help="seconds to wait for the end of silent ingests; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("only", nargs="*", help="of " + ", ".join(a.__name__ for a in ATTACKS))
    options = parser.parse_args()
    options.random = random.Random(options.seed)
    for attack in ATTACKS:
        if not options.only or attack.__name__ in options.only:
            attack(options)
    head = ["attack", "MiB before", "most", "after", "descriptors: most, after", "served meanwhile", "afterwards",
            "SIGTERM", "promises"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in Attack.rows:
        print("| " + " | ".join(row) + " |")
    return int(any(row[-1] != "holds" for row in Attack.rows))


if __name__ == "__main__":
    sys.exit(main())
