"""The tables and plots of what compare.py found."""
import matplotlib
import numpy as np
from pages import replace_table

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

MIB = 1 << 20
KINDS = ["passkey", "hexadecimal number", "quote", "quote, a third left out", "fact, its own words", "fact, other words"]


def number(value, digits=0):
    return f"{value:,.{digits}f}".replace(",", " ")


def time_of(seconds):
    return f"{number(seconds)} s" if seconds >= 100 else f"{seconds:.1f} s" if seconds >= 2 else f"{1e3 * seconds:.0f} ms"


def quadratic(rows):
    """CPU seconds to read n tokens, as a n + b n²: through the two longest. A function."""
    a = np.array([[row["tokens"], row["tokens"] ** 2] for row in rows[-2:]], float)
    first, second = np.linalg.solve(a, [row["read_cpu_s"] for row in rows[-2:]])
    return lambda tokens: first * tokens + second * tokens ** 2


def context_table(part):
    yield ("| | tokens of context | read in | CPU time | tokens/s | tokens per CPU s | ms a token generated after it | CPU ms | resident memory | state on disk | "
           "restart until the context is there |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name, key in ("llama.cpp", "llama"), ("dense, Recollect's engine", "dense"), ("Recollect", "recollect"):
        for row in part[key]["rows"]:
            yield (f"| {name} | {number(row['tokens'])} | {time_of(row['read_s'])} | {time_of(row['read_cpu_s'])} | {number(row['tokens'] / row['read_s'])} | "
                   f"{number(row['tokens'] / row['read_cpu_s'])} | {row['token_ms']:.2f} | {row['token_cpu_ms']:.2f} | "
                   f"{number(row['resident'] / MIB)} MiB | {number(row['state_bytes'] / MIB)} MiB | {time_of(row['restart_s'])} |")


def estimates(part):
    """What the longest contexts of either would take, by the two longest that it reached."""
    largest = part["recollect"]["rows"][-1]
    for name, key in ("llama.cpp", "llama"), ("dense attention", "dense"):
        rows = part[key]["rows"]
        if len(rows) > 1:
            last, same = quadratic(rows), largest["tokens"]
            yield (f"{name} ended at {number(rows[-1]['tokens'])} tokens: {part[key]['ended']}. By a n + b n², {number(same)} tokens would take "
                   f"{number(last(same) / 3600, 1)} hours of CPU time, {number(last(same) / largest['read_cpu_s'])} times Recollect's.")


def context_plot(part, path):
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for key, name in ("llama", "llama.cpp"), ("dense", "dense, Recollect's engine"), ("recollect", "Recollect"):
        rows = part[key]["rows"]
        for axis, values in zip(axes, ([row["read_s"] for row in rows], [row["token_ms"] for row in rows], [row["resident"] / MIB for row in rows])):
            axis.plot([row["tokens"] for row in rows], values, "o-", label=name)
    for axis, title in zip(axes, ("seconds to read the context", "ms a token generated after it", "resident memory, MiB")):
        axis.set_title(title)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("tokens of context")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(path, dpi=100)


def window_table(part):
    names = {"window": "a plain window model", "nothing": "Recollect, nothing mounted", "mounted": f"Recollect, {number(part['tokens'])} tokens mounted"}
    yield "| | ms a token | of the window model's | CPU ms a token | of the window model's |"
    yield "|---|---|---|---|---|"
    for key, name in names.items():
        row, base = part["rows"][key], part["rows"]["window"]
        yield f"| {name} | {row['ms']:.3f} | {row['ms'] / base['ms']:.2f} | {row['cpu_ms']:.3f} | {row['cpu_ms'] / base['cpu_ms']:.2f} |"


def share(found, what):
    return f"{100 * found[what] / found['asked']:.0f}"


def finding_rows(part):
    """(row's name, method, shares by kind) of each list of passages."""
    for method in part["methods"].values():
        for row, kinds in method["shares"].items():
            yield row, method, kinds


def controls(part):
    return max(round(100 * found["control"] / found["asked"]) for _, _, kinds in finding_rows(part) for found in kinds.values())


def finding_table(part):
    asked = {kind: found["asked"] for _, _, kinds in finding_rows(part) for kind, found in kinds.items()}
    kinds = [kind for kind in KINDS if kind in asked]
    yield "| among the first 8; first, in % | " + " | ".join(f"{kind} ({asked[kind]})" for kind in kinds) + " |"
    yield "|---|" + "---|" * len(kinds)
    for row, _, found in finding_rows(part):
        yield f"| {row} | " + " | ".join(f"{share(found[kind], 'hit')}; {share(found[kind], 'first')}" for kind in kinds) + " |"


def cost_table(part):
    yield "| | passages | built in | index | ms a query, median; 90 % below |"
    yield "|---|---|---|---|---|"
    for name, method in part["methods"].items():
        yield f"| {name} | {number(method['passages'])} | {time_of(method['build_s'])} | {method['bytes'] / MIB:.1f} MiB | {method['median_ms']:.2f}; {method['p90_ms']:.2f} |"


def answers_table(part):
    yield "| control | right |"
    yield "|---|---|"
    for found in part["answers"]:
        yield f"| {found['control']} | {'; '.join(f'{task} {got[0]} of {got[1]}' for task, got in found.items() if task != 'control')} |"


def finding_plot(part, path):
    rows = list(finding_rows(part))
    kinds = [kind for kind in KINDS if kind in rows[0][2]]
    figure, axis = plt.subplots(figsize=(12, 4.5), layout="constrained")
    width = 0.8 / len(rows)
    for i, (row, _, found) in enumerate(rows):
        axis.bar(np.arange(len(kinds)) + (i - (len(rows) - 1) / 2) * width, [100 * found[kind]["hit"] / found[kind]["asked"] for kind in kinds], width, label=row)
    axis.set_xticks(range(len(kinds)), kinds)
    axis.set_ylabel("% among the first 8")
    axis.legend(ncols=3, loc="lower left")
    axis.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=100)


TABLES = {"context": [context_table], "window": [window_table], "finding": [finding_table, cost_table, answers_table]}
PLOTS = {"context": context_plot, "finding": finding_plot}


def write(results, page):
    """Prints the tables and what a page says beside them; with a page puts the tables into it, and draws its plots beside it."""
    for name, part in results.items():
        for table in TABLES[name]:
            lines = list(table(part))
            print("\n".join(lines))
            if page:
                replace_table(page, lines)
        if page and name in PLOTS:
            PLOTS[name](part, page.with_name(f"{page.stem}-{name}.png"))
    for line in estimates(results["context"]) if "context" in results else ():
        print(line)
    if "finding" in results:
        print(f"found in the place of another question of the same kind: at most {controls(results['finding'])} %; "
              f"{results['finding']['lost']} samples left out")
