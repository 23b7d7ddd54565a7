"""Draws what families_bench measured, each kind of state beside the formula's prediction, and prints it as a table.

    build/release/bin/families_bench --json families.json
    python bench/model/plot.py --json families.json --out docs/families-cost.svg     # needs matplotlib
"""

import argparse
import json
from collections import defaultdict

# Title, points to draw (batch and rows), measured key, predicted key, factor to the unit drawn.
PANELS = [
    ("MiB of state read a token", 1, 1, "read_bytes", "read_bytes_formula", 2 ** -20),
    ("ms a token, one sequence", 1, 1, "s_per_token", "s_per_token_predicted", 1e3),
    ("ms a token and sequence, batch of {batch}", 0, 1, "s_per_token", "s_per_token_predicted", 1e3),
    ("ms a token of a prompt", 1, 64, "s_per_token", "s_per_token_predicted", 1e3),
]


def name(point):
    text = point["family"]
    if point["dilation"] > 1:
        text += f", D = {point['dilation']}"
    if point["blocks"] > 0:
        text += f", {point['blocks']} blocks"
    return text + (", mounted" if point["mounted"] else "")


def curves(points, batch, rows):
    """{name: points by context} of one batch and number of rows; batch 0: the largest."""
    batch = batch or max(p["batch"] for p in points)
    found = defaultdict(list)
    for p in points:
        if (p["batch"], p["rows"]) == (batch, rows):
            found[name(p)].append(p)
    return {k: sorted(v, key=lambda p: p["context"]) for k, v in found.items()}


def draw(data, out):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "families"})  # small; same numbers, same file
    from matplotlib import pyplot as plt

    points = data["points"]
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), constrained_layout=True)
    for axis, (title, batch, rows, key, line, unit) in zip(axes.flat, PANELS):
        for color, (label, row) in zip(plt.get_cmap("tab20").colors, curves(points, batch, rows).items()):
            contexts = [p["context"] for p in row]
            axis.plot(contexts, [p[line] * unit for p in row], color=color, linewidth=1)
            axis.plot(contexts, [p[key] * unit for p in row], "o", color=color, label=label, markersize=4)
        axis.set_title(title.format(batch=max(p["batch"] for p in points)), fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("context")
        axis.grid(alpha=0.3)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9,
                  title="dots: measured, lines: formula", title_fontsize=9)
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)


def table(points):
    """Markdown: a row for each curve, a column for each context; in brackets what is predicted."""
    batch = max(p["batch"] for p in points)
    print_table("entries a token, layer and head; MiB of all", curves(points, 1, 1),
                lambda p: f"{p['entries_per_head']:.0f}; {p['read_bytes'] / 2 ** 20:.1f}")
    for title, size, rows, key, line, unit in PANELS[1:]:
        print_table(title.format(batch=batch), curves(points, size, rows), lambda p: f"{p[key] * unit:.2f} ({p[line] * unit:.2f})")


def print_table(title, found, cell):
    contexts = sorted({p["context"] for row in found.values() for p in row})
    print(f"\n| {title} |" + "".join(f" {c // 1024} K |" for c in contexts))
    print("|---|" + "---|" * len(contexts))
    for label, row in found.items():
        cells = {p["context"]: cell(p) for p in row}
        print(f"| {label} |" + "".join(f" {cells.get(c, '–')} |" for c in contexts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default="families.json")
    parser.add_argument("--out", default="docs/families-cost.svg")
    args = parser.parse_args()
    with open(args.json) as f:
        data = json.load(f)
    draw(data, args.out)
    table(data["points"])


if __name__ == "__main__":
    main()
