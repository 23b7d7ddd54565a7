"""What Recollect costs and gives beside what people would use, on the same cores in one run: llama.cpp and dense attention for a long
context, BM25 and a flat vector search for finding a passage.

    pip install -r bench/compare/requirements.txt ./client/python
    python3 bench/compare/compare.py --text books.txt --work DIR --page docs/results/beside.md

Everything is made anew below DIR, except results of parts that are not asked for: `--parts finding` keeps what an earlier run found of `context`.
"""
import argparse
import json
import pathlib
import shutil
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import context  # noqa: E402
import finding  # noqa: E402
import report  # noqa: E402
from running import machine  # noqa: E402


def count(text):
    """1m, 16k: of 2^20, 2^10."""
    unit = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower())
    return int(text[:-1]) * unit if unit else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, help="of real books that the model was not trained on: xz -dc examples/books.txt.xz")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bin/recollect")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/recollect-7m")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "models/ratplus-5m", help="of a model without landmarks, for the dense one")
    parser.add_argument("--parts", default="context,window,finding")
    parser.add_argument("--sizes", default="16k,128k,1m", help="in tokens, of what Recollect mounts")
    parser.add_argument("--dense-most", default="1m", help="in tokens, of llama.cpp and of dense attention")
    parser.add_argument("--dense-limit", type=float, default=270, help="seconds for each of these two")
    parser.add_argument("--shared", action="store_true", help="others use the machine: llama.cpp's threads wait without spinning")
    parser.add_argument("--find-in", default="1m", help="in tokens, of the document in which passages are looked for")
    parser.add_argument("--samples", type=int, default=100, help="of each kind of question")
    parser.add_argument("--page", type=pathlib.Path, help="docs/results/beside.md: its tables are replaced, and its plots beside it")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    kept = arguments.work / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    work = arguments.work / "made"
    for part in filter(None, arguments.parts.split(",")):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        begin = time.perf_counter()
        if part == "context":
            most = count(arguments.dense_most)
            found = {"recollect": context.run_recollect(arguments.binary, work, arguments.model, arguments.text, [count(s) for s in arguments.sizes.split(",")]),
                     "llama": context.run_llama(work, arguments.model, arguments.dense_limit, most, arguments.shared),
                     "dense": context.run_dense(arguments.binary, work, arguments.model, arguments.tokenizer, arguments.dense_limit, most)}
        elif part == "window":
            found = context.run_window(arguments.binary, work, arguments.model, arguments.tokenizer, arguments.text, count(arguments.sizes.split(",")[-1]))
        elif part == "finding":
            found = finding.run(arguments.binary, work, arguments.model, arguments.text, arguments.find_in, arguments.samples)
        else:
            parser.error(f"--parts: {part} is none of context, window, finding")
        results[part] = found | {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "took_s": time.perf_counter() - begin, "shared": arguments.shared}
        kept.write_text(json.dumps(results, indent=1))
        shutil.rmtree(work)
    report.write(results, arguments.page)


if __name__ == "__main__":
    main()
