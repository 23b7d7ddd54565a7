"""Validation loss against dilation of the variants of train/families.json, as a table and a picture.

    python train/families_plot.py --run train/runs/families --out families.svg     # needs matplotlib
"""

import argparse
import json
import pathlib


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default="train/runs/families")
    parser.add_argument("--out", help="picture; the table is printed in any case")
    args = parser.parse_args()
    rows = [json.loads(p.read_text()) for p in sorted(pathlib.Path(args.run).glob("*/valid.json"))]
    dilations = sorted({int(k.split("/")[1]) for row in rows for k in row if k.startswith("valid/")})
    print("| nats a token | million parameters | million tokens | steps |" + "".join(f" D = {d} |" for d in dilations) + " no choice |")
    print("|---|" + "---|" * (len(dilations) + 4))
    for row in rows:
        cells = [row.get(f"valid/{d}") for d in dilations] + [row.get("valid")]
        print(f"| {row['variant']} | {row['parameters'] / 1e6:.2f} | {row['tokens'] / 1e6:.1f} | {row['step']} |" + "".join(
            " – |" if x is None else f" {x:.3f} |" for x in cells))
    if not args.out:
        return
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 5), constrained_layout=True)
    for i, row in enumerate(rows):
        points = [(d, row[f"valid/{d}"]) for d in dilations if f"valid/{d}" in row]
        if points:
            axis.plot(*zip(*points), "o-", color=f"C{i}", label=row["variant"])
        else:
            axis.axhline(row["valid"], color=f"C{i}", linestyle="--", label=row["variant"])
    axis.set_xscale("log", base=2)
    axis.set_xlabel("dilation")
    axis.set_ylabel("nats a token, validation books")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(args.out)


if __name__ == "__main__":
    main()
