"""How many answers are right by size and depth, as text for a terminal and as a picture by matplotlib: for each task a grid with a
column for each size and a row for each stretch of depths, the beginning of the text on top."""
import math
import pathlib
from typing import NamedTuple

from niah.report import depth_bucket

BLOCKS = ["  ", "▁▁", "▂▂", "▃▃", "▄▄", "▅▅", "▆▆", "▇▇", "██"]
SHADES = ["  ", "..", "::", "--", "==", "++", "**", "%%", "##"]
# None, half, all right: told apart also by those who see no red or no green, and in print.
COLOURS = ["#b2182b", "#f7e6a0", "#2166ac"]
NOTHING_JUDGED = "#eeeeee"
MISSING = "niah: no --heat-map: the package matplotlib is not installed"


class HeatMap(NamedTuple):
    """`tokens` of the columns, ascending. `rows`: pairs of those right and those judged, by row and column; row r of n has the depths
    from r / n to (r + 1) / n."""

    task: str
    tokens: list
    rows: list


def heat_maps(samples, depths):
    """A map for each task with judged samples, in the order of their names."""
    judged = [s for s in samples if s.right is not None]
    maps = []
    for task in sorted({s.task for s in judged}):
        tokens = sorted({s.tokens_asked for s in judged if s.task == task})
        cells = {}
        for s in judged:
            if s.task == task:
                cells.setdefault((depth_bucket(s, depths), s.tokens_asked), []).append(s.right)
        rows = [[(sum(cells.get((d, t), ())), len(cells.get((d, t), ()))) for t in tokens] for d in range(depths)]
        maps.append(HeatMap(task, tokens, rows))
    return maps


def token_count(tokens):
    """16M and 64k for multiples of 2^20 and 2^10, otherwise digits."""
    for unit, name in (1 << 20, "M"), (1 << 10, "k"):
        if tokens > 0 and tokens % unit == 0:
            return f"{tokens // unit}{name}"
    return str(tokens)


def depth_range(row, rows):
    return f"{100 * row // rows} to {100 * (row + 1) // rows} %"


def cell_text(cell, blocks):
    right, judged = cell
    if judged == 0:
        return f"{'-':>10}"
    # The full block is for those of which all are right.
    return f"  {blocks[math.floor(right / judged * (len(blocks) - 1))]}{100 * right / judged:4.0f} %"


def as_text(maps, unicode):
    """A block for each field, fuller the more answers are right, with the percentage beside it. Plain ASCII unless `unicode`."""
    lines = []
    for heat_map in maps:
        lines.append(f"{heat_map.task:<14}" + "".join(f"{token_count(t):>10}" for t in heat_map.tokens) + "   right by depth and tokens")
        for r, cells in enumerate(heat_map.rows):
            lines.append(f"{depth_range(r, len(heat_map.rows)):>14}" + "".join(cell_text(cell, BLOCKS if unicode else SHADES) for cell in cells))
        lines.append("")
    return "".join(line + "\n" for line in lines)


def can_draw():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def draw_one(axes, heat_map):
    from matplotlib.colors import LinearSegmentedColormap

    scale = LinearSegmentedColormap.from_list("right", COLOURS).with_extremes(bad=NOTHING_JUDGED)
    shares = [[right / judged if judged else math.nan for right, judged in cells] for cells in heat_map.rows]
    axes.imshow(shares, cmap=scale, vmin=0, vmax=1, aspect="auto")
    axes.set_title(heat_map.task, loc="left", fontsize=10)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(heat_map.tokens)), [token_count(t) for t in heat_map.tokens])
    axes.set_yticks(range(len(heat_map.rows)), [depth_range(r, len(heat_map.rows)) for r in range(len(heat_map.rows))])
    axes.tick_params(length=0)
    for r, cells in enumerate(heat_map.rows):
        for c, (right, judged) in enumerate(cells):
            # White is read on the dark ends of the scale, black in its middle.
            if judged:
                axes.text(c, r, f"{right}/{judged}", ha="center", va="center", color="white" if abs(right / judged - 0.5) > 0.3 else "black")


def draw(maps, title, path):
    """Writes a picture in the format of the path's suffix (.svg, .png, .pdf; else .svg). The same maps give the same bytes."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    inches = [0.9 + 0.3 * len(m.rows) for m in maps] or [1]
    wide = max(5, 1.6 + 0.7 * max((len(m.tokens) for m in maps), default=1))
    with matplotlib.rc_context({"svg.hashsalt": "niah", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = pyplot.subplots(len(inches), 1, figsize=(wide, sum(inches) + 0.8), squeeze=False, gridspec_kw={"height_ratios": inches},
                                       layout="constrained")
        figure.suptitle(title, fontsize=10)
        figure.supxlabel("right answers of those asked, by depth in the text and tokens mounted", fontsize=8)
        for place, heat_map in zip(axes[:, 0], maps):
            draw_one(place, heat_map)
        kind = pathlib.Path(path).suffix.removeprefix(".") or "svg"
        with open(path, "wb") as file:
            figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
        pyplot.close(figure)
