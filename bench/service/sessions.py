"""Many sessions at once: tokens a second, the time between tokens and to the first one, and how evenly sessions are served.

    pip install ./client/python
    python3 bench/service/sessions.py build/release/bin/recollect --text books.txt
    for binary in old/recollect new/recollect; do python3 bench/service/sessions.py $binary --text books.txt --data-dir DIR --cases 1 2 --rounds 1; done

So many generations run at the same time, each in a session of its own that mounts a document of its own: with nothing else; while a text is ingested; while
one more client asks documents that nobody has read before; and while a prompt of 2048 tokens is read. All cases are taken in turns, and what is printed is the
median of the rounds. Documents in DIR are kept for the next run with the same text and sessions. The client is one process of asyncio on the same cores; a token is a message of its own.
"""
import argparse
import asyncio
import contextlib
import json
import pathlib
import random
import resource
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import recollect  # noqa: E402
from running import Server, drop_page_cache, machine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENT_CHARACTERS, PROMPT, LONG_PROMPT = 52_000, 150, 6_600  # characters: about 16 K, 47 and 2048 tokens
CASES = ("alone", "while a text is ingested", "while one asks from the disk", "while a prompt of 2048 tokens is read")
COLD = 64  # documents of that client


def percentile(values, share):
    return statistics.quantiles(values, n=100, method="inclusive")[round(100 * share) - 1] if len(values) > 1 else values[0]


async def answer(client, prompt, name, tokens):
    """Seconds to the first token, and the times at which tokens came."""
    begin, times = time.perf_counter(), []
    async for event in client.generate(prompt, mounts=[name], max_tokens=tokens, ignore_eos=True):
        if isinstance(event, recollect.Tokens):
            times.append(time.perf_counter())
    return times[0] - begin, times


class Bench:
    def __init__(self, arguments, data):
        self.tokens, self.data, self.random = arguments.tokens, data, random.Random(1)
        self.text = arguments.text.read_text(encoding="utf-8")
        names = [f"d{i}" for i in range(max(arguments.sessions))] + [f"cold{i}" for i in range(COLD)]
        self.cases = [CASES[number - 1] for number in arguments.cases]
        if len(self.text) < 2 * DOCUMENT_CHARACTERS:
            raise SystemExit(f"{arguments.text}: {len(self.text)} characters, {2 * DOCUMENT_CHARACTERS} are needed")
        step = (len(self.text) - DOCUMENT_CHARACTERS) // len(names)
        self.pieces = {name: self.text[i * step:][:DOCUMENT_CHARACTERS] for i, name in enumerate(names)}
        with Server(arguments.binary, arguments.model, data) as server:
            there = {document.id for document in server.client.documents()}
            for name, piece in self.pieces.items():
                if name not in there and (CASES[2] in self.cases or not name.startswith("cold")):
                    server.client.ingest(piece, id=name)
        drop_page_cache(data)

    def prompt(self, name, size):
        at = self.random.randrange(DOCUMENT_CHARACTERS - size)
        return self.pieces[name][at:at + size]

    async def ask_from_disk(self, client):
        """Until it is cancelled."""
        while True:
            name = f"cold{self.random.randrange(COLD)}"
            await asyncio.to_thread(drop_page_cache, self.data)
            await answer(client, self.prompt(name, PROMPT), name, 200)

    async def run(self, server, case, count):
        async with recollect.AsyncClient(server.address["grpc"]) as client:
            beside = None
            if case == CASES[1]:
                beside = asyncio.create_task(client.ingest(self.text, id="beside"))
            elif case == CASES[2]:
                beside = asyncio.create_task(self.ask_from_disk(client))
            if beside is not None:
                await asyncio.sleep(0.5)
            ingested = server.client.stats().ingested_tokens
            before = server.cpu_s(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            begin = time.perf_counter()
            asked = [asyncio.create_task(answer(client, self.prompt(f"d{i}", PROMPT), f"d{i}", self.tokens)) for i in range(count)]
            first_s = None
            if case == CASES[3]:
                await asyncio.sleep(0.1)
                first_s, _ = await answer(client, self.prompt("d0", LONG_PROMPT), "d0", 1)
            answers = await asyncio.gather(*asked)
            after = server.cpu_s(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            ingested = (server.client.stats().ingested_tokens - ingested) / (time.perf_counter() - begin)
            if beside is not None:
                if beside.done():
                    raise SystemExit(f"{case}: ended before the sessions; take more text or fewer tokens")
                beside.cancel()
                await asyncio.gather(beside, return_exceptions=True)
                if case == CASES[1]:
                    with contextlib.suppress(recollect.NotFound):  # it had committed nothing
                        await client.delete("beside")
        gaps = [1e3 * (b - a) for _, times in answers for a, b in zip(times, times[1:])]
        spans = [times[-1] - begin for _, times in answers]
        number = count * self.tokens
        return {"tokens/s": number / max(spans), "between tokens, p50 ms": percentile(gaps, 0.5), "p99 ms": percentile(gaps, 0.99),
                "p99 / p50": percentile(gaps, 0.99) / percentile(gaps, 0.5),
                "first token, median ms": 1e3 * statistics.median(first for first, _ in answers), "the last one's ms": 1e3 * max(first for first, _ in answers),
                "fastest to slowest session": min(spans) / max(spans), "server, CPU ms a token": 1e3 * (after[0] - before[0]) / number,
                "client, CPU ms a token": 1e3 * (after[1] - before[1]) / number,
                **({"ingest, tokens/s": ingested} if case == CASES[1] else {}),
                **({"first token of a prompt of 2048 tokens, ms": 1e3 * first_s} if first_s is not None else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/recollect-7m", help="a directory, or the name of an installed model")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--tokens", type=int, default=400, help="of each answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", type=int, nargs="+", choices=range(1, len(CASES) + 1), default=range(1, len(CASES) + 1),
                        help="numbers: " + "; ".join(f"{i + 1}: {case}" for i, case in enumerate(CASES)))
    parser.add_argument("--data-dir", type=pathlib.Path, help="keeps the documents there; otherwise they go away with the run")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        data = arguments.data_dir or pathlib.Path(folder) / "data"
        bench = Bench(arguments, data)
        with Server(arguments.binary, arguments.model, data) as server:
            for turn in range(arguments.rounds + 1):
                for case in bench.cases:
                    for count in arguments.sessions:
                        row = asyncio.run(bench.run(server, case, count))
                        if turn > 0:  # the first one warms up
                            found.setdefault((case, count), []).append(row)
                print(f"round {turn} of {arguments.rounds}", file=sys.stderr, flush=True)
    print(f"{machine()}; {arguments.tokens} tokens an answer, the median of {arguments.rounds} rounds\n")
    summary = {}
    for case in bench.cases:
        names = list(found[case, arguments.sessions[0]][0])
        print(f"| {case}: sessions | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
        for count in arguments.sessions:
            middle = {name: statistics.median(row[name] for row in found[case, count]) for name in names}
            summary[f"{case}, {count}"] = middle
            print(f"| {count} | " + " | ".join(f"{middle[name]:.2f}" if middle[name] < 10 else f"{middle[name]:.0f}" for name in names) + " |")
        print()
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "tokens": arguments.tokens, "rounds": arguments.rounds, "cases": summary}, indent=1))


if __name__ == "__main__":
    main()
