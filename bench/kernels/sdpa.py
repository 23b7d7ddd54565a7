#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on this machine's GPU, dense, bf16, 32 heads of 64: a peer to stand beside the
cases of cuda_bench that name one of these.

  sdpa.py [--json FILE]

Exits with 2 when there is no device. A case that does not fit into memory says so."""
import argparse
import json
import statistics
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

HEADS, HEAD_DIM = 32, 64
# Name, sequences, queries of each, entries of each.
CASES = [("prefill, 262144", 1, 262144, 262144), *((f"decode, {batch} x {entries}", batch, 1, entries)
         for batch, entries in ((1, 256), (512, 256), (512, 1024), (512, 4096), (512, 16384), (128, 16384)))]


def time_ms(run):
    """About a second of calls between events, but one at least; the first, which loads code, does not count."""
    def once():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)
    return sorted(once() for _ in range(max(1, min(100, int(1000 / max(once(), 1e-3))))))


def measure(batch, queries, entries):
    q = torch.randn(batch, HEADS, queries, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(batch, HEADS, entries, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    v = torch.randn_like(k)
    times = time_ms(lambda: attention(q, k, v, is_causal=queries > 1))
    quarter = len(times) // 4
    median = statistics.median(times)
    return {"median_ms": median, "spread": (times[-1 - quarter] - times[quarter]) / median, "samples": len(times)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("NOT RUN: no CUDA device", file=sys.stderr)
        return 2
    rows = []
    for name, *sizes in CASES:
        try:
            rows.append({"case": name, "result": "ok", **measure(*sizes)})
        except torch.cuda.OutOfMemoryError:
            rows.append({"case": name, "result": "out of memory"})
        torch.cuda.empty_cache()
        print(rows[-1], flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "cases": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
