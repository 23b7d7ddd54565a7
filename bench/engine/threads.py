"""What an ingest would gain from more threads than the machine has cores, on paper, from measured parts.

    tools/build release engine_bench
    xz -dc examples/books.txt.xz > books.txt
    python3 bench/engine/threads.py build/release/bin/engine_bench --model models/recollect-7m --text books.txt

Measures ingests with one thread and with two, in turns; of these, the part of a slice that only one thread does (what is the same with both). Then it runs the engine's own
order of tiles on so many simulated threads: the wavefront of base/sync/thread_pool.cc, in which a layer takes its tiles one after the other, and the chunk encoder's
tiles wait for the last layer alone. A tile of the encoder, two layers, takes two thirds of what a tile of the three lower layers takes.
"""
import argparse
import heapq
import json
import pathlib
import statistics
import subprocess
import tempfile

TILES, LAYERS, ENCODER = 16, 3, 2  # of a slice of 1024 tokens: tiles of 64 rows; time units of a tile in a lower layer (1) and in the encoder


def wavefront(threads):
    """Time units until all tiles of a slice are done; the earliest ready tile first."""
    done = [0] * TILES  # layers; LAYERS + 1 with the encoder
    running, time, free = [], 0, threads
    while min(done) <= LAYERS or running:
        for tile in range(TILES):
            busy = any(tile == other for _, other in running)
            ready = done[tile] == LAYERS or (done[tile] < LAYERS and (tile == 0 or done[tile - 1] > done[tile]))
            if free and ready and not busy:
                heapq.heappush(running, (time + (ENCODER if done[tile] == LAYERS else 1), tile))
                free -= 1
        time, tile = heapq.heappop(running)
        done[tile] += 1
        free += 1
    return time


def measure(arguments, threads):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "bench.json"
        subprocess.run([arguments.binary, "--model", arguments.model, "--text", arguments.text, "--tokens", str(arguments.tokens), "--threads", str(threads), "--only-ingest",
                        "--data-dir", f"{folder}/data", "--json", out], check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())["ingest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--tokens", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found = {1: [], 2: []}
    for _ in range(arguments.rounds):
        for threads, rows in found.items():
            rows.append(measure(arguments, threads))
    seconds = {threads: statistics.median(1024 * row["wall_s"] / row["tokens"] for row in rows) for threads, rows in found.items()}
    # seconds[1] = alone + tiles, seconds[2] = alone + tiles * wavefront(2) / wavefront(1)
    one, two = wavefront(1), wavefront(2)
    tiles = (seconds[1] - seconds[2]) / (1 - two / one)
    alone = seconds[1] - tiles
    print(f"a slice of 1024 tokens: {1e3 * seconds[1]:.1f} ms with one thread, {1e3 * seconds[2]:.1f} with two; of that {1e3 * alone:.1f} ms are one thread's alone")
    print("| threads | tokens/s | of one thread | |\n|---|---|---|---|")
    for threads in (1, 2, 4, 8):
        expected = alone + tiles * wavefront(threads) / one
        rate = 1024 / seconds.get(threads, expected)
        print(f"| {threads} | {rate:,.0f} | {rate * seconds[1] / 1024:.2f} | {'measured' if threads in seconds else 'simulated'} |".replace(",", " "))


if __name__ == "__main__":
    main()
