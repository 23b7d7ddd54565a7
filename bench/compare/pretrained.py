"""A pretrained model by Recollect and by llama.cpp: the same GGUF, the same cores, in turns.

    pip install llama-cpp-python ./client/python    # the versions of bench/compare/requirements.txt
    python3 bench/compare/pretrained.py MODEL.gguf [--threads 1,2] [--prompts 128,512,2048,7900] [--rounds 3]

Prompts are random tokens, answers are greedy. Recollect is asked through a server over HTTP, each token a message of its own; llama.cpp within a
process of its own (`--of-llama`), with flash attention. Prints the medians of the rounds as a table, the ratios by round, and which instructions
llama.cpp says that it uses.
"""
import argparse
import ctypes
import http.client
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

ANSWER = 64
BATCH = 2048


def draw(tokens):
    return random.Random(tokens).choices(range(1000, 40000), k=tokens)


def of_llama(model, threads, prompts):
    """-> {"system", "rows": [(seconds of the prompt, seconds of an answer's token)]}, of llama.cpp in this process."""
    import llama_cpp
    import numpy as np

    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    loaded = llama_cpp.llama_model_load_from_file(str(model).encode(), llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = max(prompts) + 2 * ANSWER, BATCH, 512
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = 1
    context = llama_cpp.llama_init_from_model(loaded, params)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(loaded))

    def read(ids):
        for begin in range(0, len(ids), BATCH):
            piece = ids[begin:begin + BATCH]
            array = (llama_cpp.llama_token * len(piece))(*piece)
            status = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(piece)))
            if status != 0:
                sys.exit(f"llama_decode: status {status}")
        llama_cpp.llama_synchronize(context)

    rows = []
    read(draw(64))  # the file is in memory afterwards
    for tokens in prompts:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        begin = time.perf_counter()
        read(draw(tokens))
        between = time.perf_counter()
        for _ in range(ANSWER):
            logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (vocabulary,))
            read([int(logits.argmax())])
        rows.append((between - begin, (time.perf_counter() - between) / ANSWER))
    return {"system": llama_cpp.llama_print_system_info().decode().strip(), "rows": rows}


def ask(address, model, tokens):
    """-> (seconds until the first token, seconds of a token after it)."""
    connection = http.client.HTTPConnection(address)
    body = {"model": model, "prompt": draw(tokens), "max_tokens": ANSWER + 1, "temperature": 0, "ignore_eos": True, "stream": True}
    begin = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(f"HTTP {response.status}: {response.read().decode()}")
    times = [time.perf_counter() for line in response if line.startswith(b'data: {"')]
    if len(times) < ANSWER:
        sys.exit(f"{len(times)} events of {ANSWER + 1} tokens came")
    return times[0] - begin, (times[-1] - times[0]) / (len(times) - 1)


def of_recollect(binary, model, threads, prompts):
    from running import Server

    with tempfile.TemporaryDirectory() as data, Server(binary, model, data, "--threads", threads, "--http-listen", "127.0.0.1:0") as server:
        address = server.address["http"].removeprefix("http://")
        connection = http.client.HTTPConnection(address)
        connection.request("GET", "/v1/models")
        name = json.loads(connection.getresponse().read())["data"][0]["id"]
        ask(address, name, 64)
        return [ask(address, name, tokens) for tokens in prompts]


def measure(arguments, threads):
    """-> (what llama.cpp says of itself, [round][prompt] of it, the same of Recollect)."""
    llama, ours, system = [], [], ""
    for _ in range(arguments.rounds):
        command = [sys.executable, __file__, str(arguments.model), "--of-llama", "--threads", str(threads), "--prompts", ",".join(map(str, arguments.prompts))]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
        system = found["system"]
        llama.append(found["rows"])
        ours.append(of_recollect(arguments.binary, arguments.model, threads, arguments.prompts))
    return system, llama, ours


def table(arguments, threads, llama, ours):
    for at, tokens in enumerate(arguments.prompts):
        cells = []
        for what, scale in ((0, tokens), (1, 1)):
            rates = [[scale / rounds[at][what] for rounds in side] for side in (ours, llama)]
            ratios = [a / b for a, b in zip(*rates)]
            cells.append(f"{statistics.median(rates[0]):.0f} | {statistics.median(rates[1]):.0f} | {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
        print(f"| {threads} | {tokens} | {' | '.join(cells)} |", flush=True)


def numbers(text):
    return [int(one) for one in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bin/recollect")
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--prompts", type=numbers, default=[128, 512, 2048, 7900], help="in tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--of-llama", action="store_true", help="measures llama.cpp alone and prints JSON")
    arguments = parser.parse_args()
    if arguments.of_llama:
        print(json.dumps(of_llama(arguments.model, arguments.threads[0], arguments.prompts)))
        return
    from running import machine

    print(f"{machine()}, {time.strftime('%Y-%m-%d')}\n")
    print("| threads | tokens of the prompt | prompt: Recollect, tokens/s | llama.cpp | ratio | answer: Recollect, tokens/s | llama.cpp | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for threads in arguments.threads:
        system, llama, ours = measure(arguments, threads)
        table(arguments, threads, llama, ours)
    print(f"\nllama.cpp: {system}")


if __name__ == "__main__":
    main()
