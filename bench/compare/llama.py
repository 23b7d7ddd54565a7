"""llama.cpp with one context, as a process of its own, so that its memory is its own.

    python3 bench/compare/llama.py fill MODEL.gguf TOKENS STATE    # reads TOKENS random ids, generates, saves its state
    python3 bench/compare/llama.py restore MODEL.gguf TOKENS STATE # loads that state, generates

Prints one JSON object.
"""
import argparse
import ctypes
import json
import os
import pathlib
import sys
import time

import llama_cpp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running import resident_bytes  # noqa: E402

BATCH, GENERATED, SPARE = 2048, 64, 256


class Context:
    def __init__(self, path, tokens):
        llama_cpp.llama_log_set(SILENT, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        begin = time.perf_counter()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = tokens + SPARE, BATCH, 512
        params.n_threads = params.n_threads_batch = os.cpu_count()
        params.flash_attn_type = 1  # on: without it the scores of a whole batch take memory for each position of the context
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp made no context of {tokens + SPARE} tokens")
        self.load_s = time.perf_counter() - begin
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def read(self, ids):
        for begin in range(0, len(ids), BATCH):
            piece = ids[begin:begin + BATCH]
            array = (llama_cpp.llama_token * len(piece))(*piece)
            status = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(array, len(piece)))
            if status != 0:
                sys.exit(f"llama_decode: status {status} at token {begin}")
        llama_cpp.llama_synchronize(self.context)

    def generate(self, count):
        """Greedily. Milliseconds of each token."""
        found = []
        for _ in range(count):
            begin = time.perf_counter()
            logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.context, -1), (self.vocabulary,))
            self.read([int(logits.argmax())])
            found.append(1e3 * (time.perf_counter() - begin))
        return found


@llama_cpp.llama_log_callback
def SILENT(level, text, data):
    pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fill", "restore"])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("tokens", type=int)
    parser.add_argument("state", type=pathlib.Path)
    arguments = parser.parse_args()
    context = Context(arguments.model, arguments.tokens)
    found = {"load_s": context.load_s, "system": llama_cpp.llama_print_system_info().decode()}
    ids = np.random.default_rng(2).integers(3, context.vocabulary, arguments.tokens).tolist()
    begin = time.perf_counter()
    if arguments.what == "fill":
        cpu = time.process_time()
        context.read(ids)
        found |= {"read_s": time.perf_counter() - begin, "read_cpu_s": time.process_time() - cpu}
    else:
        capacity = arguments.tokens + SPARE
        kept, count = (llama_cpp.llama_token * capacity)(), ctypes.c_size_t()
        if not llama_cpp.llama_state_load_file(context.context, str(arguments.state).encode(), kept, capacity, ctypes.byref(count)):
            sys.exit(f"{arguments.state}: not loaded")
        found["restore_s"], found["restored_tokens"] = time.perf_counter() - begin, count.value
        context.read([5])  # the state has no logits of its own in newer versions
    cpu = time.process_time()
    steps = context.generate(GENERATED)
    found |= {"token_cpu_ms": 1e3 * (time.process_time() - cpu) / GENERATED, "token_ms": sorted(steps)[len(steps) // 2], "tokens_ms": steps, "resident": resident_bytes(os.getpid())}
    if arguments.what == "fill":
        begin = time.perf_counter()
        array = (llama_cpp.llama_token * len(ids))(*ids)
        if not llama_cpp.llama_state_save_file(context.context, str(arguments.state).encode(), array, len(ids)):
            sys.exit(f"{arguments.state}: not saved")
        found |= {"save_s": time.perf_counter() - begin, "state_bytes": arguments.state.stat().st_size}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
