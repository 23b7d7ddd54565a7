"""Bits per byte by position in one session of up to a million tokens, which has its own past as memory, and what a token costs there.

    pip install ./client/python numpy matplotlib
    python3 bench/service/positions.py build/release/bin/recollect --text book1.txt book2.txt … --tokens 1m --plot positions.png

The same text is scored piece by piece in three ways, in turns: in one session from its beginning to its end; in one session whose memory is chosen at random
(the control: what the chosen chunks are good for); and in sessions of 16 K tokens each, which see nothing of what was before. Text differs from place to place, so
what counts is the difference between them at the same place.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time

import matplotlib
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import recollect  # noqa: E402
from running import Server, machine  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PIECE_BYTES, FRESH_TOKENS, FIRST_RANGE = 16384, 16384, 16384
WAYS = {"one": "one session", "random": "one session, random chunks", "fresh": "a new session every 16 K tokens"}


def pieces(text):
    """Whole lines of at most PIECE_BYTES together; a longer line is a piece of its own."""
    piece = ""
    for line in text.splitlines(keepends=True):
        if piece and len((piece + line).encode()) > PIECE_BYTES:
            yield piece
            piece = ""
        piece += line
    yield piece


class Way:
    """One of the three ways of reading, and the figures of its pieces."""

    def __init__(self, client, name):
        self.client, self.name, self.session, self.read = client, name, None, 0
        self.options = recollect.Options(random_chunks=True) if name == "random" else None

    def score(self, piece):
        if self.session is None or (self.name == "fresh" and self.read >= FRESH_TOKENS):
            self.close()
            self.session, self.read = self.client.session(options=self.options), 0
        begin = time.perf_counter()
        scores = self.session.score(piece)
        seconds = time.perf_counter() - begin
        self.read += len(scores.tokens)
        return {"tokens": len(scores.tokens), "bytes": scores.text_bytes, "bits": -float(np.sum(scores.logprobs)) / np.log(2), "seconds": seconds}

    def close(self):
        if self.session is not None:
            self.session.close()


def run(arguments, client):
    ways = [Way(client, name) for name in WAYS]
    text = "\n\n".join(path.read_text(encoding="utf-8").strip() for path in arguments.text)
    rows, position = [], 0
    for piece in pieces(text):
        if position >= arguments.tokens:
            break
        row = {"position": position, **{way.name: way.score(piece) for way in ways}}
        rows.append(row)
        position += row["one"]["tokens"]
        print(f"\r{position} tokens", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for way in ways:
        way.close()
    if position < arguments.tokens:
        print(f"the text has {position} of {arguments.tokens} tokens", file=sys.stderr)
    return rows, position


def ranges(rows, end):
    """[begin, end) of tokens, each as long as all before it, with what lies in it."""
    begin, limit = 0, FIRST_RANGE
    while begin < end:
        inside = [row for row in rows if begin <= row["position"] < limit]
        yield begin, min(limit, end), inside
        begin, limit = limit, 2 * limit


def bits_per_byte(rows, way):
    return sum(row[way]["bits"] for row in rows) / sum(row[way]["bytes"] for row in rows)


def gain(rows, way, other):
    """How many percent fewer bits `way` has than `other`, and the standard error, over pieces."""
    ratios = np.array([row[way]["bits"] / row[other]["bits"] - 1 for row in rows])
    return -100 * float(np.mean(ratios)), 100 * float(np.std(ratios, ddof=1) / np.sqrt(len(ratios))) if len(ratios) > 1 else float("nan")


def table(rows, end):
    print("| tokens | one session, bits per byte | random chunks | new sessions | fewer bits than with random chunks | than in new sessions | ms a token |")
    print("|---|---|---|---|---|---|---|")
    for begin, limit, inside in ranges(rows, end):
        if not inside:
            continue
        numbers = [f"{bits_per_byte(inside, way):.3f}" for way in WAYS]
        gains = ["{:.2f} ± {:.2f} %".format(*gain(inside, "one", other)) for other in ("random", "fresh")]
        ms = 1e3 * sum(row["one"]["seconds"] for row in inside) / sum(row["one"]["tokens"] for row in inside)
        print(f"| {begin // 1024} K to {limit // 1024} K | " + " | ".join(numbers + gains) + f" | {ms:.3f} |")


def plot(rows, path):
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained")
    size = max(1, len(rows) // 60)
    groups = [rows[i:i + size] for i in range(0, len(rows), size)]
    x = [group[0]["position"] / 1e3 for group in groups]
    for way, title in WAYS.items():
        upper.plot(x, [bits_per_byte(group, way) for group in groups], linewidth=0.9, label=title)
    upper.set_ylabel("bits per byte")
    upper.legend(fontsize=8)
    for other, title in (("random", "than with random chunks"), ("fresh", "than in new sessions")):
        lower.plot(x, [gain(group, "one", other)[0] for group in groups], linewidth=0.9, label=title)
    lower.axhline(0, color="black", linewidth=0.5)
    lower.set_ylabel("fewer bits, %")
    lower.set_xlabel("thousands of tokens that the session has read")
    lower.legend(fontsize=8)
    for axis in (upper, lower):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def tokens(text):
    scale = {"k": 1 << 10, "m": 1 << 20}.get(text[-1].lower(), 1)
    return int(float(text[:-1] if scale > 1 else text) * scale)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/recollect-7m")
    parser.add_argument("--text", type=pathlib.Path, nargs="+", required=True, help="read one after the other")
    parser.add_argument("--tokens", type=tokens, default=1 << 20, help="k and m are 2^10 and 2^20")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data, Server(arguments.binary, arguments.model, pathlib.Path(data)) as server:
        rows, end = run(arguments, server.client)
        memory = server.resident()
    print(f"{machine()}; {end} tokens in {len(rows)} pieces; {memory >> 20} MiB resident at the end, of two such sessions")
    table(rows, end)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "tokens": end, "pieces": rows}, indent=1))
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
