"""What a long context costs: llama.cpp and Recollect's own dense attention, which keep every position, and Recollect with the shipped model."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import dense
import numpy as np
from running import Server, drop_page_cache, folder_bytes

KIB = 1 << 10
PROMPT = "The captain of the ship looked at the sea and said"
FIRST = 16 * KIB


def doubled(limit_s, most, run):
    """Calls run(tokens) for 16 K tokens and twice as many again and again, as long as the next one, at four times the time of the last (what
    attention to everything takes), fits into what is left of the limit. Rows, and why it ended."""
    rows, begin, tokens = [], time.perf_counter(), FIRST
    while True:
        started = time.perf_counter()
        rows.append({"tokens": tokens} | run(tokens))
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "tokens_ms"}), flush=True)
        now, tokens = time.perf_counter(), 2 * tokens
        if tokens > most:
            return rows, f"up to {most // KIB} K tokens, as asked"
        if now - begin + 4 * (now - started) > limit_s:
            return rows, f"{tokens // KIB} K tokens would have taken about {4 * (now - started):.0f} s more, past the limit of {limit_s:.0f} s"


def run_llama(work, model, limit_s, most, shared):
    path = work / "dense.gguf"
    parameters = dense.write_gguf(path, model)
    # Where others run too, threads that wait for each other by spinning would burn the time that the one they wait for needs.
    environment = os.environ | ({"OMP_WAIT_POLICY": "passive"} if shared else {})

    def call(what, tokens):
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("llama.py"), what, path, str(tokens), work / "llama.state"],
                              check=True, stdout=subprocess.PIPE, text=True, env=environment)
        return json.loads(done.stdout)

    def run(tokens):
        row = call("fill", tokens)
        drop_page_cache(work / "llama.state")
        again = call("restore", tokens)
        if again["restored_tokens"] != tokens:
            raise SystemExit(f"llama.cpp restored {again['restored_tokens']} tokens of {tokens}")
        return row | {"restart_s": again["load_s"] + again["restore_s"], "restored_token_ms": again["token_ms"]}

    rows, ended = doubled(limit_s, most, run)
    (work / "llama.state").unlink()
    return {"parameters": parameters, "rows": rows, "ended": ended, "system": rows[0]["system"]}


def generated_ms(server, mount, count, repeats):
    """Of a token: milliseconds, and of the server's CPU time those of all of the call, medians of the repeats; milliseconds to the first token of
    the first repeat, which mounts."""
    first, found, cpu = None, [], []
    for _ in range(repeats):
        begin, cpu_begin, usage, stamp = time.perf_counter(), server.cpu_s(), None, None
        for event in server.client.generate(PROMPT, mounts=[mount] if mount else [], max_tokens=count, ignore_eos=True):
            stamp = time.perf_counter() if stamp is None else stamp
            usage = getattr(event, "usage", usage)
        first = 1e3 * (stamp - begin) if first is None else first
        found.append(usage.generation_ms / (usage.generated_tokens - 1))
        cpu.append(1e3 * (server.cpu_s() - cpu_begin) / usage.generated_tokens)
    return statistics.median(found), statistics.median(cpu), first


def restarted(binary, model, data, mount, count, flags):
    """A new server, without the page cache: until it is ready, until the first token with the document mounted, and from there a token."""
    drop_page_cache(data)
    with Server(binary, model, data, *flags) as server:
        empty = server.resident()
        token_ms, token_cpu_ms, first_ms = generated_ms(server, mount, count, 3)
        return {"ready_s": server.ready_s, "first_token_ms": first_ms, "restart_s": server.ready_s + first_ms / 1e3, "token_ms": token_ms,
                "token_cpu_ms": token_cpu_ms, "resident_empty": empty, "resident": server.resident()}


def run_dense(binary, work, model, tokenizer, limit_s, most):
    directory, data = work / "dense-model", work / "dense-data"
    parameters = dense.write_recollect(directory, model, tokenizer, dense.DENSE)
    vocabulary = dense.sizes(model)["vocab"]
    flags = ["--state-budget", "16GiB"]  # of sessions and ingests: these keep every position

    def run(tokens):
        ids = np.random.default_rng(2).integers(3, vocabulary, tokens).tolist()
        with Server(binary, directory, data, *flags) as server:
            begin, cpu = time.perf_counter(), server.cpu_s()
            document = server.client.ingest(ids, id=f"d{tokens}")
            read = {"read_s": time.perf_counter() - begin, "read_cpu_s": server.cpu_s() - cpu}
        row = read | {"state_bytes": document.stored_bytes} | restarted(binary, directory, data, document.id, 64, flags)
        with Server(binary, directory, data, *flags) as server:
            server.client.delete(document.id)
        return row

    rows, ended = doubled(limit_s, most, run)
    return {"parameters": parameters, "rows": rows, "ended": ended}


def run_recollect(binary, work, model, text, sizes):
    data, rows = work / "recollect-data", []
    content = text.read_bytes()
    with Server(binary, model, data) as server:
        parameters = server.client.model().parameters
        nothing_ms, nothing_cpu_ms, _ = generated_ms(server, None, 512, 3)
        sample = server.client.ingest(content[:200_000].decode("utf-8", "ignore"), id="warm")
        for tokens in sizes:
            piece = content[:int(tokens * sample.bytes / sample.tokens)].decode("utf-8", "ignore")
            begin, cpu = time.perf_counter(), server.cpu_s()
            document = server.client.ingest(piece, id=f"d{tokens}")
            rows.append({"asked": tokens, "tokens": document.tokens, "read_s": time.perf_counter() - begin,
                         "read_cpu_s": server.cpu_s() - cpu, "state_bytes": document.stored_bytes})
    for row in rows:
        row |= restarted(binary, model, data, f"d{row['asked']}", 512, [])
        print(json.dumps(row), flush=True)
    return {"parameters": parameters, "nothing_ms": nothing_ms, "nothing_cpu_ms": nothing_cpu_ms, "rows": rows, "disk": folder_bytes(data)}


def run_window(binary, work, model, tokenizer, text, tokens):
    """Time a token of the shipped model with a document mounted and with nothing, and of a plain window model of its size, in turns."""
    directory, rounds = work / "window-model", 15
    parameters = dense.write_recollect(directory, model, tokenizer, dense.WINDOW)
    found = {"mounted": [], "nothing": [], "window": []}
    with Server(binary, model, work / "recollect-data") as shipped, Server(binary, directory, work / "window-data") as window:
        content = text.read_bytes()
        sample = shipped.client.ingest(content[:200_000].decode("utf-8", "ignore"), id="sample")
        document = shipped.client.ingest(content[:int(tokens * sample.bytes / sample.tokens)].decode("utf-8", "ignore"), id="large")
        for turn in range(rounds + 1):
            for name, server, mount in ("mounted", shipped, document.id), ("nothing", shipped, None), ("window", window, None):
                ms, cpu_ms, _ = generated_ms(server, mount, 512, 1)
                if turn > 0:  # the first one warms up
                    found[name].append({"ms": ms, "cpu_ms": cpu_ms})
        shipped_parameters = shipped.client.model().parameters
    rows = {name: {key: statistics.median(row[key] for row in rows) for key in ("ms", "cpu_ms")} for name, rows in found.items()}
    ratios = {key: statistics.median(a[key] / b[key] for a, b in zip(found["mounted"], found["window"])) for key in ("ms", "cpu_ms")}
    return {"tokens": document.tokens, "rounds": rounds, "rows": rows, "mounted_to_window": ratios,
            "parameters": {"window": parameters, "shipped": shipped_parameters}}
