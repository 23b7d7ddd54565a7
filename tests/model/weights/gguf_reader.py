"""Prints the keys and tensors of a GGUF file as gguf_hashes.cc does, read by the Python package gguf; or makes one.

    python gguf_reader.py FILE.gguf
    python gguf_reader.py --make FILE.gguf    writes a tensor of each format, of random blocks
"""
import hashlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

FORMATS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
SCALE_OFFSETS = {"Q6_K": [208], "Q8_0": [0], "Q4_0": [0], "Q5_0": [0]}  # elsewhere a minimum follows the scale
ROWS, COLUMNS = 37, 512


def make(path):
    rng = np.random.default_rng(1)
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.add_array("words", ["", "a", "\u00e9\n"])
    writer.add_array("numbers", [-1, 2, 3])
    writer.add_array("scores", [0.5, -1.0])
    writer.add_bool("flag", True)
    writer.add_tensor("F32", rng.standard_normal((3, 5)).astype(np.float32))
    writer.add_tensor("F16", rng.standard_normal((3, 5)).astype(np.float16))
    bf16 = rng.standard_normal((3, 8)).astype(np.float32).view(np.uint32) >> 16
    writer.add_tensor("BF16", bf16.astype(np.uint16).view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
    for name in FORMATS:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        blocks = rng.integers(0, 256, (ROWS * COLUMNS // block, size), dtype=np.uint8)
        for offset in SCALE_OFFSETS.get(name, [0, 2]):
            scales = rng.standard_normal(len(blocks)).astype(np.float16)
            blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
        writer.add_tensor(name, blocks.reshape(ROWS, -1), raw_dtype=GGMLQuantizationType[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def value_hash(field):
    """Of a list of one or more: strings with their lengths, whole numbers as int64, others as float32."""
    item = field.types[-1]
    parts = [field.parts[index] for index in field.data]
    if item == GGUFValueType.STRING:
        data = b"".join(b"%d:%s\n" % (len(part), bytes(part)) for part in parts)
    else:
        numbers = np.concatenate(parts) if parts else np.empty(0)
        is_float = item in (GGUFValueType.FLOAT32, GGUFValueType.FLOAT64)
        data = numbers.astype(np.float32 if is_float else np.int64).tobytes()
    return hashlib.sha256(data).hexdigest()


def main():
    if sys.argv[1] == "--make":
        make(sys.argv[2])
        return
    reader = GGUFReader(sys.argv[1])
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):  # what the package calls the header
            print("KEY", key, value_hash(field))
    for tensor in reader.tensors:
        numbers = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        shape = "x".join(str(extent) for extent in reversed(tensor.shape.tolist()))
        print("TENSOR", tensor.name, tensor.tensor_type.name, shape, hashlib.sha256(numbers.tobytes()).hexdigest())


main()
