"""Draws the log of a run of memory.train: its losses, and by kind of session what is found, what is said right and the weight of nothing.

    PYTHONPATH=train python -m memory.plot --log models/smollm2-memory/training.jsonl --out models/smollm2-memory/training.png   # needs matplotlib
"""

import argparse
import json

LOSSES = ("answer", "retrieval", "base", "text")
BY_KIND = {"nats": "nats a token of the answer", "hit": "share of sessions with an answering block among those found",
           "whole": "share of answers with every token right (teacher-forced)", "nothing": "weight of nothing"}


def panels(rows):
    """-> [(title, {name: [(minutes, value)]})]"""
    minutes = lambda row: row["seconds"] / 60
    found = [("losses, nats", {name: [(minutes(row), row[name]) for row in rows if name in row] for name in LOSSES})]
    with_kinds = [row for row in rows if row["kinds"]]
    kinds = sorted({kind for row in with_kinds for kind in row["kinds"]})
    for key, title in BY_KIND.items():
        found.append((title, {kind: [(minutes(row), row["kinds"][kind][key]) for row in with_kinds if kind in row["kinds"]] for kind in kinds}))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with open(args.log) as f:
        rows = list({row["step"]: row for row in map(json.loads, f)}.values())  # a resumed run logs some steps again
    figure, axes = plt.subplots(2, 3, figsize=(17, 8), constrained_layout=True)
    for axis, (title, curves) in zip(axes.flat, panels(rows)):
        for name, points in curves.items():
            axis.plot(*zip(*points), label=name)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("minutes of training")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    axes.flat[-1].set_visible(False)
    figure.savefig(args.out, dpi=70)


if __name__ == "__main__":
    main()
