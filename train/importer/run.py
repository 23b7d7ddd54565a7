"""An import from beginning to end: reads and checks everything before it writes anything."""

import dataclasses
import os
import pathlib

from sentencepiece import SentencePieceProcessor

from importer import directory
from importer.checkpoint import Checkpoint
from importer.plan import EMBEDDING, EOS_ID, HEAD, UNK_ID, check_head, plan
from importer.refusal import Refusal, naming

EXTENSIONS = (".pt", ".pth", ".ckpt", ".bin")
TOKENIZER = "tokenizer.model"
PROBE = "  A\u00a0 \ufb01 b\t\n\n c  "  # text that most normalisations change


@dataclasses.dataclass
class Options:
    source: str  # a folder with one checkpoint and tokenizer.model
    out: str  # the model directory to make; empty or absent
    family: str = "ratplus-hub"  # or "rat-hub"
    dtype: str = "bf16"  # or "fp32": of the weights that are written
    head_dim: int = None  # used if the checkpoint has no configuration
    chunk: int = None


def run(options, progress=lambda done, total: None):
    """Makes the model directory and returns a report of it, as --json prints it. Raises Refusal. `progress` is called with the number
    of values written and of all; what it raises ends the import, and nothing is left behind."""
    out = pathlib.Path(os.path.normpath(options.out)) if options.out else pathlib.Path()
    directory.check_out(out)
    path = find_checkpoint(pathlib.Path(options.source))
    checkpoint = Checkpoint(path)
    with naming(path):
        planned = plan(checkpoint.root, options.family, options.head_dim, options.chunk)
    tokenizer = pathlib.Path(options.source) / TOKENIZER
    check_tokenizer(tokenizer, planned.config["vocab_size"])
    with naming(path):
        verify(checkpoint, EMBEDDING, [planned.embedding])
        verify(checkpoint, HEAD, [planned.head])
        check_head(planned.embedding, planned.head)
    with directory.work_folder(out) as folder:
        return write(options, checkpoint, planned, tokenizer, folder, progress)


def find_checkpoint(source):
    try:
        found = sorted(entry.name for entry in source.iterdir() if entry.suffix in EXTENSIONS)
    except OSError as error:
        raise Refusal("NOT_FOUND", f"{source}: {error.strerror}") from None
    if len(found) == 1:
        return str(source / found[0])
    if not found:
        raise Refusal("NOT_FOUND", f"{source}: no checkpoint ({', '.join(EXTENSIONS)}) in it")
    raise Refusal("INVALID_ARGUMENT", f"{source}: {len(found)} checkpoints, expected one: {', '.join(found)}")


def check_tokenizer(path, vocab_size):
    """A model needs the names of its tokens; the checkpoint does not carry them."""
    if not path.exists():
        raise Refusal("NOT_FOUND", f"{path}: not there; put the SentencePiece model of the LLaMA tokenizer beside the checkpoint")
    try:
        tokenizer = SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError):
        raise Refusal("INVALID_ARGUMENT", f"{path}: not a SentencePiece model") from None
    if len(tokenizer) != vocab_size:
        raise Refusal("INVALID_ARGUMENT", f"{path}: {len(tokenizer)} pieces, vocab_size is {vocab_size}")
    missing = set(range(256)) - {int(tokenizer.id_to_piece(i)[3:5], 16) for i in range(len(tokenizer)) if tokenizer.is_byte(i)}
    if missing:
        raise Refusal("INVALID_ARGUMENT", f"{path}: no piece for byte {min(missing)}, expected a model with byte fallback")
    if tokenizer.decode(tokenizer.encode(PROBE)) != PROBE:
        raise Refusal("INVALID_ARGUMENT", f"{path}: the model changes text; expected identity normalisation, no whitespace removal")
    for name, index in (("unk_id", UNK_ID), ("eos_id", EOS_ID)):
        if not (tokenizer.is_control(index) or tokenizer.is_unknown(index)):
            raise Refusal("INVALID_ARGUMENT", f'{path}: piece {index} ({name}) is "{tokenizer.id_to_piece(index)}", expected a control symbol')


def verify(checkpoint, name, parts):
    with naming(name):
        for part in parts:
            checkpoint.verify(part)


def write(options, checkpoint, planned, tokenizer, folder, progress):
    total, done = planned.parameters(), 0
    size = total * directory.DTYPES[options.dtype].itemsize

    def count(values):
        nonlocal done
        done += values
        progress(done, total)

    directory.check_space(folder, size)
    directory.write_small_files(folder, planned.config, tokenizer)
    with naming(checkpoint.path):
        for tensor in planned.tensors:
            verify(checkpoint, tensor.name, tensor.parts)
        directory.write_weights(folder / "model.safetensors", planned.tensors, options.dtype, count)
    sha256 = directory.digests(folder)
    report = {"out": options.out, "checkpoint": checkpoint.path, "architecture": planned.config["architecture"],
              "tensors": len(planned.tensors), "parameters": total, "bytes": size, "dtype": options.dtype,
              "assumptions": planned.assumptions, "sha256": sha256, "config": planned.config,
              "fingerprint": {dtype: directory.fingerprint(sha256, planned.config, dtype) for dtype in ("bf16", "fp32")}}
    if planned.step is not None:
        report["step"] = planned.step
    return report
