"""A server under random work for a given time: ingests, mounts, generations, retrievals, deletions, restarts and kills. Does it grow?

    pip install ./client/python numpy matplotlib
    python3 bench/service/soak.py --text books.txt --work DIR --minutes 60

Writes DIR/soak.csv (a row every --every seconds), DIR/soak.json and DIR/soak.png, and prints a slope with its error and a verdict for resident
memory, disk, open files, threads and the time of one request that is always the same. Answers are checked: the probe's tokens must be the same
each time, whatever was mounted, deleted or restarted between.
"""
import argparse
import csv
import json
import pathlib
import random
import shutil
import sys
import time

import matplotlib
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running import Server, folder_bytes, machine, open_files  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Small, so that caches are full after a minute, and what grows after that is no cache.
BUDGETS = ["--memory-budget", "16MiB", "--chunk-states-budget", "16MiB"]
MOST_DOCUMENTS, PROBE_TOKENS, WARM_S, BLOCKS = 12, 64, 300, 24
PROMPT = "The captain of the ship looked at the sea and said"
# name in the CSV: what it is called, and what a unit of it is
MEASURED = {"resident": ("resident memory, MiB", 1 << 20), "beside": ("disk beyond the documents' records, MiB", 1 << 20), "files": ("open files", 1),
            "threads": ("threads", 1), "probe_ms": ("probe, ms", 1)}


class Soak:
    def __init__(self, arguments):
        self.arguments, self.random = arguments, random.Random(arguments.seed)
        self.text = arguments.text.read_bytes()
        self.data = arguments.work / "data"
        shutil.rmtree(self.data, ignore_errors=True)
        self.counts = dict.fromkeys(["ingest", "generate", "session", "retrieve", "delete", "restart", "kill"], 0)
        self.life, self.number, self.expected, self.documents, self.ready = 0, 0, None, {}, []
        self.start()
        self.ingest("probe", 100_000)

    def start(self):
        self.server = Server(self.arguments.binary, self.arguments.model, self.data, *BUDGETS)
        self.ready.append(self.server.ready_s)
        self.born = time.perf_counter()
        self.life += 1

    def piece(self, count):
        begin = self.random.randrange(len(self.text) - count)
        return self.text[begin:begin + count].decode("utf-8", "ignore")

    def ingest(self, name, count):
        self.documents[name] = self.server.client.ingest(self.piece(count), id=name).stored_bytes

    def some(self):
        return self.random.sample(sorted(self.documents), self.random.randint(1, min(3, len(self.documents))))

    def step(self):
        """One act at random. A restart or a kill about every five minutes each."""
        kind = self.random.choices(["ingest", "generate", "session", "retrieve", "delete"], [2, 5, 1, 4, 1.8])[0]
        if time.perf_counter() > self.next_end:
            kind = self.random.choice(["restart", "kill"])
            self.next_end = time.perf_counter() + self.random.expovariate(1 / self.arguments.life)
        others = sorted(set(self.documents) - {"probe"})
        client = self.server.client
        if kind == "ingest" and len(others) < MOST_DOCUMENTS:
            self.number += 1
            self.ingest(f"book-{self.number}", int(10 ** self.random.uniform(3.5, 5.3)))
        elif kind == "delete" and others:
            name = self.random.choice(others)
            client.delete(name)
            del self.documents[name]
        elif kind == "retrieve":
            client.retrieve(self.piece(100), mounts=self.some())
        elif kind == "generate":
            client.generate(self.piece(200), mounts=self.some(), max_tokens=self.random.randint(1, 200), temperature=1, seed=self.number, ignore_eos=True).result()
        elif kind == "session":
            with client.session(mounts=self.some()) as session:
                for _ in range(3):
                    session.generate(self.piece(500), max_tokens=70, ignore_eos=True).result()
        elif kind == "restart":
            self.server.stop()
            self.start()
        elif kind == "kill":
            self.server.client.close()
            self.server.process.kill()
            self.server.process.wait()
            self.start()
        else:
            return
        self.counts[kind] += 1

    def figures(self, begin):
        """The probe, which must always say the same, and what the server holds."""
        stamp = time.perf_counter()
        answer = self.server.client.generate(PROMPT, mounts=["probe"], max_tokens=PROBE_TOKENS, ignore_eos=True).result()
        probe_ms = 1e3 * (time.perf_counter() - stamp)
        self.expected = answer.tokens if self.expected is None else self.expected
        if answer.tokens != self.expected:
            raise SystemExit(f"the probe's tokens changed: {answer.tokens} instead of {self.expected}")
        found = {d.id: d.stored_bytes for d in self.server.client.documents()}
        if found != self.documents:
            raise SystemExit(f"documents: {sorted(found)}, expected {sorted(self.documents)}")
        disk, pid = folder_bytes(self.data), self.server.pid
        threads = next(int(line.split()[1]) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Threads"))
        return {"time_s": stamp - begin, "life": self.life, "age_s": stamp - self.born, "resident": self.server.resident(), "disk": disk,
                "documents": len(found), "beside": disk - sum(found.values()), "files": open_files(pid), "threads": threads, "probe_ms": probe_ms}

    def run(self):
        arguments, begin = self.arguments, time.perf_counter()
        self.next_end = begin + self.random.expovariate(1 / arguments.life)
        next_figures = begin
        with open(arguments.work / "soak.csv", "w", newline="") as file:
            writer = None
            while time.perf_counter() < begin + 60 * arguments.minutes:
                self.step()
                if time.perf_counter() >= next_figures:
                    row = self.figures(begin)
                    if writer is None:
                        writer = csv.DictWriter(file, row)
                        writer.writeheader()
                    writer.writerow(row)
                    file.flush()
                    next_figures = time.perf_counter() + arguments.every
        self.server.stop()
        return time.perf_counter() - begin


def slope(rows, name, unit):
    """An hour's growth within the lives of the processes, and its standard error: least squares of means over blocks of neighbouring rows, which
    are less alike than rows are, with a level for each process. Rows of a process's first five minutes, while caches fill, are left out."""
    rows = [row for row in rows if row["age_s"] >= WARM_S]
    size = max(1, len(rows) // BLOCKS)
    blocks = []
    for life in sorted({row["life"] for row in rows}):
        mine = [row for row in rows if row["life"] == life]
        blocks += [(life, np.mean([row["time_s"] for row in mine[i:i + size]]) / 3600, np.mean([row[name] for row in mine[i:i + size]]) / unit)
                   for i in range(0, len(mine) - size + 1, size)]
    lives = sorted({life for life, _, _ in blocks})
    free = len(blocks) - len(lives) - 1
    if free < 3:
        return None
    matrix = np.array([[hours, *[float(life == one) for one in lives]] for life, hours, _ in blocks])
    values = np.array([value for _, _, value in blocks])
    solution, *_ = np.linalg.lstsq(matrix, values, rcond=None)
    variance = np.sum((values - matrix @ solution) ** 2) / free
    error = float(np.sqrt(variance * np.linalg.pinv(matrix.T @ matrix)[0, 0]))
    return {"mean": float(np.mean(values)), "per_hour": float(solution[0]), "error": error, "blocks": len(blocks), "lives": len(lives)}


def verdict(found):
    if found is None:
        return "too few figures"
    if abs(found["per_hour"]) <= 2 * found["error"] or found["per_hour"] == 0:
        return "flat: the slope is within two errors of none"
    return "grows" if found["per_hour"] > 0 else "falls"


def plot(rows, path, summary):
    figure, axes = plt.subplots(len(MEASURED), 1, figsize=(9, 11), sharex=True, layout="constrained")
    for axis, (name, (title, unit)) in zip(axes, MEASURED.items()):
        for life in sorted({row["life"] for row in rows}):
            mine = [row for row in rows if row["life"] == life]
            axis.plot([row["time_s"] / 60 for row in mine], [row[name] / unit for row in mine], ".-", linewidth=0.7, markersize=3)
        found = summary["slopes"][name]
        axis.set_title(title if found is None else f"{title}: {found['per_hour']:+.2f} ± {found['error']:.2f} an hour", fontsize=10)
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
    axes[-1].set_xlabel("minutes; a colour is the life of one process")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bin/recollect")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/recollect-7m")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=3, help="seconds between two rows")
    parser.add_argument("--life", type=float, default=240, help="mean seconds of work between two ends of the server")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    soak = Soak(arguments)
    took = soak.run()
    rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(open(arguments.work / "soak.csv"))]
    summary = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "minutes": took / 60, "acts": soak.counts, "rows": len(rows), "ready_s": soak.ready,
               "slopes": {name: slope(rows, name, unit) for name, (_, unit) in MEASURED.items()}}
    (arguments.work / "soak.json").write_text(json.dumps(summary, indent=1))
    plot(rows, arguments.work / "soak.png", summary)
    shutil.rmtree(arguments.work / "data")
    print(f"{took / 60:.1f} minutes: " + ", ".join(f"{count} x {kind}" for kind, count in soak.counts.items()))
    for name, (title, _) in MEASURED.items():
        found = summary["slopes"][name]
        numbers = "" if found is None else f"{found['mean']:9.1f}, {found['per_hour']:+9.2f} ± {found['error']:.2f} an hour; "
        print(f"{title:45}{numbers}{verdict(found)}")


if __name__ == "__main__":
    main()
