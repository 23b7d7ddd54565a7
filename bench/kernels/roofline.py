"""Draws what kernels_bench measured as one roofline: what each operation computes in a second, over how much it computes for a byte.

    build/release/bin/kernels_bench --json amx.json
    ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 build/release/bin/kernels_bench --json avx512.json
    ONEDNN_MAX_CPU_ISA=AVX2 build/release/bin/kernels_bench --json avx2.json
    python3 bench/kernels/roofline.py amx.json avx512.json avx2.json --out docs/roofline.png     # needs matplotlib

Products are drawn of every file, by what computed them; all else is of the first file. "All products" are those of a step, whose weights no second-level
cache holds; of one product it holds them. Prints the numbers of the first file as a table.
"""
import argparse
import json
import math

NAMES = {"any": "any CPU", "avx2": "AVX2", "avx512": "AVX-512", "avx512_bf16": "AVX-512 bf16", "amx": "AMX bf16"}
COLORS = {"any CPU": "0.2", "AVX2": "tab:green", "AVX-512": "tab:blue", "AVX-512 bf16": "tab:purple", "AMX bf16": "tab:red"}
# operation -> its label, and what runs it: an ingest's slice of 64 rows, a prompt's, a decode step, a landmark step.
OPERATIONS = {
    "products of a step 64": ("all products, 64 rows", "prompt"),
    "products of a step 1": ("all products, 1 row", "decode"),
    "gemm 64x256x1280": ("product, 64 rows", "ingest, prompt"),
    "gemm 64x256x256": ("memory projection", "prompt, landmark"),
    "gemm 1x256x1280": ("product, 1 row", "decode"),
    "gemm 1x256x4096": ("logits, 1 row", "decode"),
    "range_attention 64": ("attention, 64 rows", "ingest, prompt"),
    "range_attention 1": ("attention, 1 row", "decode"),
    "range_attention, bf16 cache, 64": ("attention, 64 rows", "ingest, prompt"),
    "range_attention, bf16 cache, 1": ("attention, 1 row", "decode"),
    "encoder attention 64": ("encoder's attention", "ingest, prompt, landmark"),
    "encoder attention, bf16, 64": ("encoder's attention", "ingest, prompt, landmark"),
    "gca 64": ("GCA, 64 rows", "prompt"),
    "gca 1": ("GCA, 1 row", "decode"),
    "rms_norm": ("norm", "all"),
    "swiglu": ("SwiGLU", "all"),
    "sigmoid_gate": ("gate", "all"),
    "rope": ("RoPE", "all"),
    "gated_scan": ("scan", "all"),
    "add": ("add", "all"),
    "pointer_mix": ("pointer head", "decode"),
    "sample greedy": ("greedy choice", "decode"),
    "round to MXINT8": ("to MXINT8", "ingest"),
    "decode MXINT8": ("from MXINT8", "landmark"),
    "landmark_topk 290000": ("all keys, 16 M tokens", "landmark"),
    "landmark sketch 290000": ("sketch, 16 M tokens", "landmark"),
}


def code_of(data, op):
    """Who computed it: of a product what oneDNN used, where it has that format; of all else the vector code."""
    if op["code"] == "bf16":
        return NAMES[data["product_isa"]]
    if op["code"] == "fp32":
        return "AVX2" if data["product_isa"] == "avx2" else "AVX-512"
    return NAMES[op["code"]]


def points(files):
    """(label, code, flop a byte, flop/s), each pair of label and code once."""
    found = {}
    for data in files:
        for op in data["ops"]:
            is_product = op["code"] in ("bf16", "fp32")
            if op["op"] in OPERATIONS and (is_product or data is files[0]):
                found.setdefault((OPERATIONS[op["op"]][0], code_of(data, op)), (op["flops"] / op["bytes"], op["flop_per_s"]))
    return [(label, code, *at) for (label, code), at in found.items()]


def roofs(files):
    """code -> flop/s of a large product with it."""
    found = {}
    for data in files:
        found.setdefault("AVX2" if data["product_isa"] == "avx2" else "AVX-512", data["fp32_flop_per_s"])
        if data["bf16_flop_per_s"] > 0:
            found.setdefault(NAMES[data["product_isa"]], data["bf16_flop_per_s"])
    return found


def draw(files, out):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    first, drawn, tops = files[0], points(files), roofs(files)
    low, high = 0.05, 300
    figure, axis = plt.subplots(figsize=(11, 7.5), constrained_layout=True)
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.3, 2.2 * max(tops.values()) / 1e9),
             xlabel="flop for each byte that must be read or written", ylabel="Gflop/s, one thread")
    top = max(tops.values())
    for name, rate, style in [("memory", first["read_byte_per_s"], "-"), ("second-level cache", first["cache_read_byte_per_s"], "--")]:
        axis.plot([low, top / rate], [low * rate / 1e9, top / 1e9], color="0.35", linestyle=style, linewidth=1.2)
    for code, rate in tops.items():
        below = any(rate < other < 1.3 * rate for other in tops.values())  # there is no room above
        axis.plot([rate / first["cache_read_byte_per_s"], high], [rate / 1e9] * 2, color=COLORS[code], linewidth=1.2)
        axis.annotate(f"{'fp32' if 'bf16' not in code else ''} product, {code}: {rate / 1e9:.0f}".strip(), (high, rate / 1e9),
                      (-4, -3 if below else 3), textcoords="offset points", ha="right", va="top" if below else "bottom", fontsize=8, color=COLORS[code])
    for code, color in COLORS.items():
        of = [(x, y / 1e9) for _, c, x, y in drawn if c == code]
        if of:
            axis.plot(*zip(*of), "o", color=color, markersize=5, label=code)
    figure.canvas.draw()
    name_roofs(axis, first, low)
    name_points(figure, axis, drawn)
    axis.grid(alpha=0.25, which="major")
    axis.legend(loc="upper left", fontsize=9)
    axis.set_title(f"{first['cpu']}: operations and what bounds them", fontsize=11)
    figure.savefig(out, dpi=100)


def name_roofs(axis, data, low):
    for name, key, at in [("memory", "read_byte_per_s", 1.3 * low), ("second-level cache", "cache_read_byte_per_s", 40 * low)]:
        rate = data[key] / 1e9
        (x0, y0), (x1, y1) = axis.transData.transform([(at, at * rate), (10 * at, 10 * at * rate)])
        axis.annotate(f"{name}, {rate:.0f} GB/s", (at, at * rate), (0, 4), textcoords="offset points", fontsize=8, color="0.35",
                      rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)), rotation_mode="anchor")


def name_points(figure, axis, drawn):
    """One label for each operation beside its fastest point, at the first place around it where it covers no label and no point."""
    from matplotlib.text import Text

    fastest = {}
    for label, _, x, y in drawn:
        fastest[label] = max(fastest.get(label, (0, 0)), (y, x))
    dots = [axis.transData.transform((x, y / 1e9)) for _, _, x, y in drawn]
    renderer = figure.canvas.get_renderer()
    taken = [Text.get_window_extent(text, renderer) for text in axis.texts]  # names of roofs
    places = [(6, -3, "left"), (-6, -3, "right"), (0, 7, "center"), (0, -14, "center")]
    places += [(far * math.cos(turn), far * math.sin(turn), "left" if math.cos(turn) >= 0 else "right")
               for far in range(18, 160, 12) for turn in [k * math.pi / 6 for k in range(12)]]
    for label, (y, x) in sorted(fastest.items(), key=lambda item: item[1]):
        for dx, dy, align in places:
            text = axis.annotate(label, (x, y / 1e9), (dx, dy), textcoords="offset points", fontsize=8, ha=align,
                                 arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6} if abs(dx) + abs(dy) > 15 else None)
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer)  # an Annotation's own has its arrow, too
            inside = axis.bbox.x0 < box.x0 and box.x1 < axis.bbox.x1 and axis.bbox.y0 < box.y0 and box.y1 < axis.bbox.y1
            if inside and not any(box.overlaps(other) for other in taken) and not any(box.padded(2).contains(*dot) for dot in dots):
                taken.append(box)
                break
            text.remove()
        else:
            raise SystemExit(f"no place for the label of {label}")


def table(files):
    """Markdown: each operation of the picture with its fastest code, and what it reaches of the roofs."""
    first, tops = files[0], {**roofs(files), **roofs(files[:1])}
    best = {}
    for label, code, x, rate in points(files[:1]):
        best[label] = max(best.get(label, (0, "", 0)), (rate, code, x))
    yield "| operation | in | by | flop a byte | Gflop/s | of the product's | GB/s | of memory's | of the cache's |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for label, where in OPERATIONS.values():
        rate, code, x = best[label]
        of_product = percent(rate / tops[code]) if code in tops else "–"
        shares = [percent(rate / x / first[key]) for key in ("read_byte_per_s", "cache_read_byte_per_s")]
        yield f"| {label} | {where} | {code} | {x:.2f} | {rate / 1e9:.1f} | {of_product} | {rate / x / 1e9:.1f} | {shares[0]} | {shares[1]} |"


def percent(share):
    return f"{share:.0%}".replace("%", " %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", nargs="+", help="of kernels_bench; that of the CPU without limits first")
    parser.add_argument("--out", default="docs/roofline.png")
    args = parser.parse_args()
    files = []
    for path in args.json:
        with open(path) as f:
            files.append(json.load(f))
    draw(files, args.out)
    print("\n".join(table(files)))


if __name__ == "__main__":
    main()
