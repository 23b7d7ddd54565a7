"""Draws a run's log: loss, recall by task and by distance, hits and weight on the gold chunk.

    PYTHONPATH=train python -m eval.plot --run train/runs/main --out models/recollect-7m/training.png     # needs matplotlib
"""

import argparse
import json
import os

PANELS = {
    "nats a token": ["loss", "text_nats"],
    "whole answers right, by kind of value": ["whole/digits", "whole/letters", "whole/hex", "whole/words", "whole_straddling"],
    "whole answers right, by where the needle lies": ["whole_own", "whole_other", "whole_within/256", "whole_within/512",
                                                      f"whole_within/{1 << 30}"],
    "passages read again: tokens right, and the attention on what is copied": ["repeat_token", "repeat_first", "copied/0", "copied/1"],
    "retrieval: hit and weight of the gold chunk": ["gold_hit/0", "gold_hit/1", "gold_weight/0", "gold_weight/1", "open", "queue"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default="train/runs/main")
    parser.add_argument("--out", default="models/recollect-7m/training.png")
    parser.add_argument("--mean", type=int, default=1, metavar="ROWS", help="show the mean of so many rows of the log")
    args = parser.parse_args()
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with open(os.path.join(args.run, "log.jsonl")) as f:
        rows = {row["step"]: row for row in map(json.loads, f)}.values()  # a resumed run logs some steps again
    figure, axes = plt.subplots(2, 3, figsize=(17, 7), constrained_layout=True)
    for axis in axes.flat[len(PANELS):]:
        axis.set_visible(False)
    for axis, (title, names) in zip(axes.flat, PANELS.items()):
        for name in names:
            points = [(row["tokens"] / 1e6, row[name]) for row in rows if row.get(name) is not None]
            parts = [points[i:i + args.mean] for i in range(0, len(points), args.mean)]
            points = [tuple(sum(column) / len(part) for column in zip(*part)) for part in parts]
            if points:
                axis.plot(*zip(*points), label=name.replace(f"/{1 << 30}", "/farther"), linewidth=1)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("million tokens")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.savefig(args.out, dpi=80)


if __name__ == "__main__":
    main()
