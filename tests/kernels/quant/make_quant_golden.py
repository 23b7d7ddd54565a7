"""Writes quant_golden.bin: blocks of every format and their numbers by the Python package gguf.

    pip install gguf==0.19.0 numpy
    python tests/kernels/quant/make_quant_golden.py tests/kernels/quant/quant_golden.bin

For each format, in the order of FORMATS: uint32 blocks, the blocks' bytes, the numbers as fp32. All little-endian.
Random bytes, so that every bit of a block matters; the fp16 fields go through SCALES, one block each, and are random
and finite after that.
"""

import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Format and the byte offsets of its fp16 fields.
FORMATS = {
    "Q8_0": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
# Zeros, the smallest and largest subnormals, the smallest normal, one, the largest, infinity.
SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]
RANDOM_BLOCKS = 6


def blocks_of(name, rng):
    count = len(SCALES) + RANDOM_BLOCKS
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for field, offset in enumerate(FORMATS[name]):
        for block in range(count):
            scale = SCALES[(block + 5 * field) % len(SCALES)] if block < len(SCALES) else int(rng.integers(0, 0x7C00))
            blocks[block, offset : offset + 2] = np.frombuffer(struct.pack("<H", scale), dtype=np.uint8)
    return blocks


def main():
    rng = np.random.default_rng(41)
    with open(sys.argv[1], "wb") as out, np.errstate(all="ignore"):
        for name in FORMATS:
            blocks = blocks_of(name, rng)
            numbers = dequantize(blocks, GGMLQuantizationType[name]).astype("<f4")
            out.write(struct.pack("<I", len(blocks)) + blocks.tobytes() + numbers.tobytes())


main()
