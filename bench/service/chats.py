"""What a conversation costs: a second turn beside the first, several conversations at once, and the memory of long ones.

    pip install ./client/python
    python3 bench/service/chats.py build/release/bin/recollect --text books.txt [--model smollm2]

Over HTTP, as chat clients ask: every turn sends the whole conversation, and every token is a message of its own. The first turn is a piece of the
text; its length is given in tokens. The second turn is a short question. Answers are greedy. All cases are taken in turns; medians of the rounds.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/questions")]
import server as http_server  # noqa: E402
from running import Server, machine  # noqa: E402

QUESTION = "What is this passage about? Answer in one sentence."


def turn(server, messages, tokens):
    """-> (seconds to the first text, seconds of a token after it, the answer, usage)."""
    body = {"messages": messages, "temperature": 0, "max_tokens": tokens, "stream": True, "stream_options": {"include_usage": True}}
    times, said, usage = [], [], {}
    begin = time.perf_counter()
    for event in http_server.events(server.open("POST", "/v1/chat/completions", json.dumps(body).encode())):
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            if choice["delta"].get("content"):
                times.append(time.perf_counter())
                said.append(choice["delta"]["content"])
    if not times:
        raise SystemExit(f"nothing was said to {messages[-1]['content'][:60]!r}")
    return times[0] - begin, (times[-1] - times[0]) / max(len(times) - 1, 1), "".join(said), usage


class Bench:
    def __init__(self, arguments, address):
        self.address, self.tokens, self.random = address, arguments.tokens, random.Random(1)
        self.text = arguments.text.read_text(encoding="utf-8")

    def connect(self):
        return http_server.Server(f"http://{self.address}")

    def passage(self, server, tokens):
        """A piece of the text of about so many tokens, never the same twice."""
        begin = self.random.randrange(len(self.text) - 8 * tokens)
        piece = self.text[begin:begin + 8 * tokens]
        return piece[:round(len(piece) * tokens / server.count_tokens(piece))]

    def second_turn(self, tokens):
        server = self.connect()
        said = [{"role": "user", "content": self.passage(server, tokens) + "\n\n" + QUESTION}]
        first_s, _, answer, usage = turn(server, said, self.tokens)
        said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Who is named in it?"}]
        second_s, _, _, later = turn(server, said, self.tokens)
        server.close()
        cached = later.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        return {"first turn, tokens": usage["prompt_tokens"], "first turn, first token, ms": 1e3 * first_s, "second turn, new tokens": later["prompt_tokens"] - cached,
                "second turn, first token, ms": 1e3 * second_s}

    def together(self, count):
        servers = [self.connect() for _ in range(count)]
        asked = [[{"role": "user", "content": self.passage(one, 200) + "\n\nGo on with this story."}] for one in servers]
        rows = [None] * count

        def ask(i):
            rows[i] = turn(servers[i], asked[i], 4 * self.tokens)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(count)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        for one in servers:
            one.close()
        return {"tokens/s of all": sum(row[3]["completion_tokens"] for row in rows) / seconds, "ms a token": 1e3 * statistics.median(row[1] for row in rows)}


def print_table(title, rows):
    names = list(rows[0][1])
    print(f"| {title} | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for label, row in rows:
        print(f"| {label} | " + " | ".join(f"{row[name]:.0f}" if row[name] >= 100 else f"{row[name]:.1f}" for name in names) + " |")
    print(flush=True)


def median_rows(measure, cases, rounds):
    found = {case: [] for case in cases}
    for round_number in range(rounds + 1):
        for case in cases:
            row = measure(case)
            if round_number > 0:  # the first one warms up
                found[case].append(row)
    return [(case, {name: statistics.median(row[name] for row in rows) for name in rows[0]}) for case, rows in found.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--lengths", type=int, nargs="+", default=[250, 1000, 4000, 7500], help="tokens of the first turn")
    parser.add_argument("--chats", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--tokens", type=int, default=24, help="of an answer; four times as many with several chats at once")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server(arguments.binary, arguments.model, folder, "--http-listen", "127.0.0.1:0") as server:
        bench = Bench(arguments, server.address["http"])
        print(f"{machine()}; model {arguments.model}, the median of {arguments.rounds} rounds\n")
        print_table("tokens of the passage", median_rows(bench.second_turn, arguments.lengths, arguments.rounds))
        print_table("chats at once", median_rows(bench.together, arguments.chats, arguments.rounds))
    with tempfile.TemporaryDirectory() as folder, Server(arguments.binary, arguments.model, folder, "--http-listen", "127.0.0.1:0") as server:
        bench, before, rows = Bench(arguments, server.address["http"]), server.resident(), []
        for count in (1, 2, 3):
            used = bench.second_turn(max(arguments.lengths))
            rows.append((count, {"MiB more than at the start": (server.resident() - before) / (1 << 20)}))
        print_table(f"kept conversations of {used['first turn, tokens']:.0f} tokens", rows)


if __name__ == "__main__":
    main()
