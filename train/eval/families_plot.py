"""Validation loss against dilation of the variants of train/families.json, as a table and a picture: the mean of the seeds that
were trained, with half of what the lowest and the highest differ by.

    PYTHONPATH=train python -m eval.families_plot --run train/runs/families --out docs/families-training.svg     # needs matplotlib
"""

import argparse
import json
import pathlib


class Variant:
    """rows: `valid.json` of each seed."""

    def __init__(self, name, rows):
        self.name, self.rows = name, rows
        self.dilations = sorted(int(k.split("/")[1]) for k in rows[0] if k.startswith("valid/"))

    def values(self, dilation=None):
        return [row["valid" if dilation is None else f"valid/{dilation}"] for row in self.rows]

    def mean(self, dilation=None):
        return sum(self.values(dilation)) / len(self.rows)

    def cell(self, dilation):
        """dilation: None where the variant has no choice of one."""
        if (dilation is None) == bool(self.dilations) or (self.dilations and dilation not in self.dilations):
            return "–"
        values = self.values(dilation)
        return f"{self.mean(dilation):.3f} ± {(max(values) - min(values)) / 2:.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def read(run):
    """Variants in the order of the config they were trained with."""
    found = {}
    for path in sorted(pathlib.Path(run).glob("seed-*/*/valid.json")):
        row = json.loads(path.read_text())
        found.setdefault(row["variant"], []).append(row)
    order = list(json.loads((pathlib.Path(__file__).resolve().parents[1] / "families.json").read_text())["variants"])
    return [Variant(name, found[name]) for name in sorted(found, key=order.index)]


def print_table(variants, dilations):
    print("| nats a token | seeds | parameters | tokens | steps | minutes |" + "".join(f" D = {d} |" for d in dilations) + " no choice |")
    print("|---|" + "---|" * (len(dilations) + 6))
    for v in variants:
        first, minutes = v.rows[0], sum(row["minutes"] for row in v.rows) / len(v.rows)
        print(f"| {v.name} | {len(v.rows)} | {first['parameters'] / 1e6:.2f} M | {first['tokens'] / 1e6:.2f} M | {first['step']} | {minutes:.0f} |"
              + "".join(f" {v.cell(d)} |" for d in [*dilations, None]))


def draw(variants, out):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "families"})  # small; same numbers, same file
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5), constrained_layout=True)
    for i, v in enumerate(variants):
        if v.dilations:
            axis.plot(v.dilations, [v.mean(d) for d in v.dilations], "o-", color=f"C{i}", label=v.name, markersize=4)
            axis.fill_between(v.dilations, *([f(v.values(d)) for d in v.dilations] for f in (min, max)), color=f"C{i}", alpha=0.2)
        else:
            axis.axhline(v.mean(), color=f"C{i}", linestyle="--", label=v.name)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("dilation")
    axis.set_ylabel("nats a token, validation books")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default="train/runs/families")
    parser.add_argument("--out", help="picture; the table is printed in any case")
    args = parser.parse_args()
    variants = read(args.run)
    print_table(variants, sorted({d for v in variants for d in v.dilations}))
    if args.out:
        draw(variants, args.out)


if __name__ == "__main__":
    main()
