"""Writes a model directory (docs/model-format.md), completely or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import pathlib
import shutil
import tempfile

import torch

from importer.refusal import Refusal

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
# The data begins at a multiple of this, so that a mapped file can be read in place.
ALIGNMENT = 64
PIECE = 1 << 20  # values that are converted at once
RECORD_LAYOUT_VERSION = 1  # kRecordLayoutVersion of model/weights/fingerprint.h
UNBOUNDED_SPAN = 2**40
FULL = (errno.ENOSPC, errno.EDQUOT)


def cannot_make(out, error):
    return Refusal("FAILED_PRECONDITION", f"{out} cannot be made: {error.strerror}")


def check_out(out):
    """Refuses a place that is taken, before any work."""
    if not out.name:
        raise Refusal("INVALID_ARGUMENT", "the model directory to make has no name")
    try:
        out.lstat()
        empty = out.is_dir() and not any(out.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_make(out, error) from None
    if not empty:
        raise Refusal("ALREADY_EXISTS", f"{out} is there and not an empty folder; choose another --out")
    # It will be replaced: not possible where another file system is mounted, say. Tried now, before an hour of work.
    try:
        out.rmdir()
        out.mkdir()
    except OSError as error:
        raise Refusal("FAILED_PRECONDITION", f"{out} cannot be replaced: {error.strerror}; name a folder that is not there yet") from None


def locked(folder):
    """The folder's descriptor with its lock, which ends with the process; None: somebody has it, or it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_abandoned(out, prefix):
    """Removes the folders of imports to the same place that were killed: nobody holds their lock."""
    for path in list(out.parent.iterdir()):
        if not path.name.startswith(prefix) or not path.is_dir():
            continue
        lock = locked(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


@contextlib.contextmanager
def work_folder(out):
    """A new folder beside `out`, renamed to it at the end; removed when anything fails before."""
    prefix = out.name + ".importing-"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(out, prefix)
        folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=out.parent))
    except OSError as error:
        raise cannot_make(out, error) from None
    lock = locked(folder)
    try:
        yield folder
        rename(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def rename(folder, out):
    # mkdtemp keeps others out; the model is as readable as any folder made here.
    mask = os.umask(0)
    os.umask(mask)
    try:
        folder.chmod(0o777 & ~mask)
        folder.rename(out)
    except OSError as error:
        raise cannot_make(out, error) from None


@contextlib.contextmanager
def writing(path):
    """Turns an error of the system into a refusal with the path."""
    try:
        yield
    except OSError as error:
        code = "RESOURCE_EXHAUSTED" if error.errno in FULL else "INVALID_ARGUMENT"
        raise Refusal(code, f"{path}: {error.strerror}") from None


def check_space(folder, needed):
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Refusal("RESOURCE_EXHAUSTED", f"the weights need {needed} bytes on the disk, it has {free}")


def header(tensors, dtype):
    """The header of a safetensors file whose tensors follow each other in this order. The library's own writer sorts them, and takes
    all of them from memory at once."""
    entries, end = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        begin, end = end, end + math.prod(tensor.shape) * DTYPES[dtype].itemsize
        entries[tensor.name] = {"dtype": dtype.upper().replace("FP", "F"), "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def pieces(tensor, dtype):
    """The values of an Output as bytes. Refuses what is not finite."""
    for part in tensor.parts:
        flat = part.reshape(-1)
        for begin in range(0, flat.numel(), PIECE):
            values = flat[begin:begin + PIECE].float()
            written = values.to(DTYPES[dtype])
            finite = written.isfinite()
            if not finite.all():
                index = int((~finite).nonzero()[0])
                value = values[index].item()
                # The largest floats round to infinity, which no model may hold.
                reason = ", which is too large for bf16" if math.isfinite(value) else ""
                raise Refusal("INVALID_ARGUMENT", f"{tensor.name}: value {begin + index} is {value:g}{reason}")
            yield written.view(torch.uint8).numpy()
    for begin in range(0, tensor.zeros, PIECE):
        yield torch.zeros(min(PIECE, tensor.zeros - begin), dtype=DTYPES[dtype]).view(torch.uint8).numpy()


def write_weights(path, tensors, dtype, progress):
    """Writes model.safetensors front to back. `progress` is called with the number of values of each piece."""
    with writing(path), open(path, "xb") as file:
        file.write(header(tensors, dtype))
        for tensor in tensors:
            for piece in pieces(tensor, dtype):
                file.write(piece)
                progress(piece.nbytes // DTYPES[dtype].itemsize)
        file.flush()
        os.fsync(file.fileno())


def write_small_files(folder, config, tokenizer):
    with writing(folder / "config.json"):
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    with writing(folder / "tokenizer.model"):
        shutil.copyfile(tokenizer, folder / "tokenizer.model")


def digests(folder):
    """Hex SHA-256 by name of the three files."""
    result = {}
    for name in ("config.json", "model.safetensors", "tokenizer.model"):
        with open(folder / name, "rb") as file:
            result[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return result


def patterns(config):
    """Window, dilation, initial and span by layer; a single entry where all layers are alike."""
    layers = range(config["layers"])
    if "local" in config:
        at = lambda key, layer: config["local"][key][layer] if isinstance(config["local"][key], list) else config["local"][key]
        rows = [(at("window", i), at("dilation", i), at("initial", i), UNBOUNDED_SPAN) for i in layers]
    else:
        mixers = [config["mixers"][i % len(config["mixers"])] for i in layers]
        rows = [(0, m["chunk"], 0, UNBOUNDED_SPAN) if m["kind"] == "rat" else (m["window"], -1, 0, UNBOUNDED_SPAN) for m in mixers]
    return rows[:1] if len(set(rows)) == 1 else rows


def fingerprint(sha256, config, dtype):
    """What documents are bound to when the model runs in `dtype` (docs/model-format.md, "Fingerprint")."""
    text = "".join(sha256[name] + "\n" for name in ("config.json", "model.safetensors", "tokenizer.model"))
    text += "".join(" ".join(map(str, row)) + "\n" for row in patterns(config))
    return hashlib.sha256(f"{text}{RECORD_LAYOUT_VERSION}\n{dtype}".encode()).hexdigest()
