"""What the service itself costs: a token over gRPC and over HTTP beside the same engine within the calling process, the start, and an idle server.

    pip install ./client/python
    python3 bench/service/overhead.py build/release/bin/recollect

All three answer the same prompt in turns, so that what else the machine does falls on all alike. "Embedded" is `recollect generate` without a
server; its CPU time is that of a long answer less that of a short one. Each token is a message or an event of its own. Clients run on the same cores.
"""
import argparse
import http.client
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running import Server, machine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROMPT = "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse,"
SHORT, DOCUMENT = 8, "read"


def own_cpu():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def ask_grpc(server, tokens, _):
    """Milliseconds a token by the client's clock, from the first to the last."""
    first = None
    for _ in server.client.generate(PROMPT, mounts=[DOCUMENT], max_tokens=tokens, ignore_eos=True):
        first = time.perf_counter() if first is None else first
    return 1e3 * (time.perf_counter() - first) / (tokens - 1)


def ask_http(server, tokens, connection):
    fields = {"model": "recollect-7m", "prompt": PROMPT, "mounts": [DOCUMENT], "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(fields))
    answer, first, events = connection.getresponse(), None, 0
    if answer.status != 200:
        raise SystemExit(answer.read().decode())
    for line in answer:
        if line.startswith(b"data:"):
            first = time.perf_counter() if first is None else first
            events += 1
    return 1e3 * (time.perf_counter() - first) / (tokens - 1)


def served(ask, server, tokens, connection):
    before = server.cpu_s(), own_cpu()
    wall_ms = ask(server, tokens, connection)
    after = server.cpu_s(), own_cpu()
    return {"ms a token": wall_ms, "engine's process, CPU ms a token": 1e3 * (after[0] - before[0]) / tokens, "client, CPU ms a token": 1e3 * (after[1] - before[1]) / tokens}


def embedded(binary, model, data, tokens):
    def call(count):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)[:2]
        done = subprocess.run([binary, "generate", "--json", "--model", model, "--data-dir", data, "--mount", DOCUMENT, "--prompt", PROMPT,
                               "--max-tokens", str(count), "--ignore-eos"], check=True, stdout=subprocess.PIPE, text=True)
        usage = json.loads(done.stdout)["usage"]
        if usage["generated_tokens"] != count:
            raise SystemExit(f"{usage['generated_tokens']} tokens, expected {count}")
        return usage["generation_ms"], sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - sum(before)

    _, short = call(SHORT)
    wall_ms, cpu = call(tokens)
    return {"ms a token": wall_ms / (tokens - 1), "engine's process, CPU ms a token": 1e3 * (cpu - short) / (tokens - SHORT), "client, CPU ms a token": 0.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/recollect-7m")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=30, help="seconds for which an idle server is watched")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    text = (PROMPT + " I thought I would sail about a little and see the watery part of the world.\n") * 200
    rows, starts = {"embedded": [], "gRPC": [], "HTTP": []}, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for _ in range(5):
            with Server(arguments.binary, arguments.model, folder / "served", "--http-listen", "127.0.0.1:0") as server:
                starts.append(1e3 * server.ready_s)
        subprocess.run([arguments.binary, "ingest", "--model", arguments.model, "--data-dir", folder / "embedded", "--id", DOCUMENT, "-"], check=True,
                       input=text, text=True, stdout=subprocess.DEVNULL)
        with Server(arguments.binary, arguments.model, folder / "served", "--http-listen", "127.0.0.1:0") as server:
            fresh = server.resident()
            time.sleep(2)
            before = server.cpu_s()
            time.sleep(arguments.idle)
            idle = {"cpu_percent": 100 * (server.cpu_s() - before) / arguments.idle, "resident_bytes": fresh}
            server.client.ingest(text, id=DOCUMENT)
            connection = http.client.HTTPConnection(server.address["http"])
            for turn in range(arguments.rounds + 1):
                found = {"embedded": embedded(arguments.binary, arguments.model, folder / "embedded", arguments.tokens),
                         "gRPC": served(ask_grpc, server, arguments.tokens, None), "HTTP": served(ask_http, server, arguments.tokens, connection)}
                for name, row in found.items() if turn > 0 else ():  # the first one warms up
                    rows[name].append(row)
            connection.close()
    print(machine())
    print(f"{'median; the median of the differences to embedded in the same round':70}" + "".join(f"{name:>20}" for name in rows))
    summary = {"machine": machine(), "start_ms": statistics.median(starts), "idle": idle, "tokens": arguments.tokens, "rounds": arguments.rounds}
    for what in rows["embedded"][0]:
        line = f"{what:70}"
        for name, found in rows.items():
            middle = statistics.median(row[what] for row in found)
            more = [row[what] - base[what] for row, base in zip(found, rows["embedded"])]
            summary.setdefault(name, {})[what] = {"median": middle, "more": statistics.quantiles(more, n=4)}
            line += f"{middle:11.3f} {statistics.median(more):+8.3f}"
        print(line)
    print(f"start until ready: {summary['start_ms']:.0f} ms; idle: {idle['cpu_percent']:.2f} % of a core, {idle['resident_bytes'] / (1 << 20):.0f} MiB resident")
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
