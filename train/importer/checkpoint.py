"""Reads a file that torch.save wrote, as data: nothing that it names is called.

The container is a zip file with one pickle and one stored entry per storage. `zipfile` checks the container, PyTorch's
`weights_only` loader reads the pickle, and the weights stay in the file, which is mapped.
"""

import collections
import os
import pickle
import re
import struct
import zipfile
import zlib

import torch

from importer.refusal import Refusal, printable

# A state dict of the largest model, with its optimizer, pickles to a few hundred kilobytes; the pickle is read into memory.
PICKLE_BYTES = 16 << 20
CHECKED_AT_ONCE = 16 << 20  # bytes, between which an interrupt is noticed
# The published configurations are pickled as EasyDict, a dict whose keys are attributes as well. A dict is all that is read of it.
EASYDICT = (collections.OrderedDict, "easydict.EasyDict")


class Checkpoint:
    """The values of a file, in `root`. Its tensors are views of the mapped file."""

    def __init__(self, path):
        self.path = path
        with open_container(path) as archive:
            self._checksums = collections.defaultdict(set)  # of entries, by their length
            for entry in archive.infolist():
                self._checksums[entry.file_size].add(entry.CRC)
            check_pickle(archive, path)
        self.root = load(path)
        self._verified = set()

    def verify(self, tensor):
        """Raises DATA_LOSS unless the tensor's storage has the length and the checksum of an entry of the container. The loader
        compares neither when it maps a file."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._verified:
            return
        size, checksum = storage.nbytes(), 0
        values = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        for begin in range(0, size, CHECKED_AT_ONCE):
            checksum = zlib.crc32(values[begin:begin + CHECKED_AT_ONCE], checksum)
        expected = self._checksums.get(size, ())
        if checksum not in expected:
            among = f"expected {' or '.join(f'{c:08x}' for c in sorted(expected)[:4])}" if expected else "no entry is that long"
            raise Refusal("DATA_LOSS", f"its storage of {size} bytes has the checksum (CRC) {checksum:08x}, {among}")
        self._verified.add(storage.data_ptr())


def open_container(path):
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise Refusal("NOT_FOUND", f"{path}: no such file") from None
    except OSError as error:
        raise Refusal("INVALID_ARGUMENT", f"{path}: {error.strerror}") from None
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error) as error:
        raise no_container(path, error) from None
    try:
        check_entries(archive, path)
    except Refusal:
        archive.close()
        raise
    return archive


def no_container(path, error):
    """What a file is that is no zip file. `zipfile` finds one by its end; one that lost its end is told by its beginning."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        begin = file.read(4)
    if size == 0:
        return Refusal("DATA_LOSS", f"{path}: the file is empty: 0 bytes")
    if begin == b"PK\3\4":
        return Refusal("DATA_LOSS", f"{path}: the zip directory at the end of {size} bytes is missing or damaged ({error})")
    # A pickle begins with the byte of its protocol, of which torch.save took the second.
    if begin[:1] == b"\x80" and begin[1] in range(2, 6):
        return Refusal("INVALID_ARGUMENT", f"{path}: a pickle, as torch.save wrote before PyTorch 1.6, {size} bytes; expected the "
                       "zip file that torch.save writes: load it with PyTorch and save it again")
    return Refusal("INVALID_ARGUMENT", f"{path}: neither zip nor pickle, {size} bytes; expected the zip file that torch.save writes")


def check_entries(archive, path):
    size, seen = os.path.getsize(path), set()
    for entry in archive.infolist():
        what = f"{path}: entry {printable(entry.filename)}"
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise Refusal("INVALID_ARGUMENT", f"{what} is compressed or encrypted; expected stored entries, as torch.save writes them")
        if entry.file_size != entry.compress_size or entry.file_size > size:
            raise Refusal("DATA_LOSS", f"{what}: {entry.file_size} bytes, of which {entry.compress_size} are stored in a file of {size} bytes")
        if entry.filename in seen:
            raise Refusal("INVALID_ARGUMENT", f"{what} appears twice")
        seen.add(entry.filename)


def check_pickle(archive, path):
    found = [entry for entry in archive.infolist() if re.fullmatch(r"[^/]*/data\.pkl", entry.filename)]
    if len(found) != 1:
        raise Refusal("INVALID_ARGUMENT", f"{path}: a zip file with {len(found)} entries */data.pkl, expected the one of torch.save")
    if found[0].file_size > PICKLE_BYTES:
        raise Refusal("INVALID_ARGUMENT", f"{path}: entry {found[0].filename} has {found[0].file_size} bytes, limit {PICKLE_BYTES}")
    read_entry(archive, found[0].filename, path)
    order = found[0].filename.replace("data.pkl", "byteorder")
    if order in archive.namelist():  # older files have none and are little-endian
        text = read_entry(archive, order, path).decode(errors="replace")
        if text != "little":
            raise Refusal("INVALID_ARGUMENT", f'{path}: byte order "{printable(text)}", expected "little"')


def read_entry(archive, name, path):
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError, struct.error) as error:
        raise Refusal("DATA_LOSS", f"{path}: entry {printable(name)}: {error}") from None


def load(path):
    try:
        with torch.serialization.safe_globals([EASYDICT]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (EOFError, struct.error):
        raise Refusal("DATA_LOSS", f"{path}: the pickle ends early") from None
    except pickle.UnpicklingError as error:
        raise Refusal("INVALID_ARGUMENT", f"{path}: {refused_pickle(str(error))}") from None
    except MemoryError:
        raise Refusal("RESOURCE_EXHAUSTED", f"{path}: no memory for what the pickle asks for") from None
    except Exception as error:  # Whatever an ill-formed pickle provokes in the loader comes through.
        raise unreadable(path, error) from None


def unreadable(path, error):
    reason = (str(error).splitlines() or [""])[0][:500]
    if "PytorchStreamReader" in reason:  # The zip reader of PyTorch: an entry is missing or not where the directory says.
        return Refusal("DATA_LOSS", f"{path}: {printable_line(reason.partition('. This is')[0])}")
    if "not resizable" in reason:
        return Refusal("INVALID_ARGUMENT", f"{path}: a tensor reaches beyond its storage")
    return Refusal("INVALID_ARGUMENT", f"{path}: no checkpoint of plain values and tensors: {type(error).__name__}: {printable_line(reason)}")


def printable_line(text):
    return "".join(c if c.isprintable() else printable(c) for c in text)


def refused_pickle(text):
    """The loader's message without its advice, which is to load the file with code and all."""
    found = re.search(r"(?:GLOBAL (\S+) (?:was not|whose module))", text)
    if found:
        return f"global {printable(found.group(1))} is not among those that a state dict needs; nothing was executed"
    reason = text.split("WeightsUnpickler error:")[-1].strip().partition("\n")[0]
    return f"the pickle asks for more than data: {printable_line(reason[:500])}; nothing was executed"
