"""The file: what torch.save writes is read, code in it is refused, and damage is found before anything is written.

    python tests/train/run_check.py train importer/test_container.py
"""

import pathlib
import random
import sys
import tempfile
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from importer.checkpoint import Checkpoint  # noqa: E402
from importer.refusal import Refusal  # noqa: E402
from importer.testing import (HUB, container, easydict, name, pickled, rebuild, storage, text, tiny_ratplus,  # noqa: E402
                              values, write_container)

WRONG, DAMAGED = "INVALID_ARGUMENT", "DATA_LOSS"
SMALL = {"w": values("w", (3,)), "v": values("v", (2, 2))}
ORDERED = name("collections", "OrderedDict")

warnings.filterwarnings("ignore")  # the loader's, of protocols and of what it validates


class File:
    """A file that checks write again and again. It is never written over: an earlier one may still be mapped."""

    def __init__(self, folder):
        self.folder, self.count = pathlib.Path(folder), 0

    def path(self):
        self.count += 1
        return self.folder / f"{self.count}.pt"

    def write(self, data):
        path = self.path()
        path.write_bytes(data)
        return str(path)

    def pack(self, entries, **options):
        path = self.path()
        write_container(path, entries, **options)
        return str(path)

    def pickle(self, data):
        return self.pack({"a/data.pkl": data, "a/version": b"3\n", "a/data/0": bytes(24)})


def file(check):
    """Calls `check` with a File."""
    def run():
        with tempfile.TemporaryDirectory() as folder:
            check(File(folder))

    run.__name__ = check.__name__
    return run


def read_all(path):
    """The values of a file, every tensor of its "task" verified."""
    checkpoint = Checkpoint(path)
    tensors = checkpoint.root["task"] if isinstance(checkpoint.root, dict) and isinstance(checkpoint.root.get("task"), dict) else {}
    for tensor in tensors.values():
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.device.type == "cpu":
            checkpoint.verify(tensor)
    return checkpoint.root


def refusal(path):
    """The Refusal of a file, or None. Anything else that is raised is an error of the check."""
    try:
        read_all(path)
    except Refusal as refused:
        return refused
    return None


def refuses(path, code, *fragments):
    refused = refusal(path)
    assert refused is not None and refused.code == code, (refused, fragments)
    for fragment in fragments:
        assert fragment in refused.message, (refused.message, fragment)
    assert path in refused.message or "storage" in refused.message, refused.message


def test_reads_what_torch_saved():
    root = read_all(str(HUB / "ratplus.pt"))
    assert root["step"] == 52452 and isinstance(root["optimizer"], dict)
    assert root["config"]["model"]["backbone"]["seq_cell"]["dilation_size"] == 64  # of an EasyDict
    weights = root["task"]["embedding.wte.weight"]
    assert torch.equal(weights, values("embedding.wte.weight", (400, 8)))


@file
def test_reads_containers_made_by_hand(at):
    root = read_all(at.pack(container(SMALL)))
    assert all(torch.equal(root["task"][key], x) for key, x in SMALL.items())
    path = at.path()
    torch.save({"config": easydict({"a": {"b": [1, 2.5, None, True]}})}, path)
    assert read_all(str(path))["config"] == {"a": {"b": [1, 2.5, None, True]}}


@file
def test_other_files(at):
    refuses(str(at.path()), "NOT_FOUND", "no such file")
    refuses(at.write(b""), DAMAGED, "the file is empty: 0 bytes")
    # What torch.save of PyTorch 1.5 begins with: its magic number as a pickle.
    refuses(at.write(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."), WRONG,
            "a pickle, as torch.save wrote before PyTorch 1.6, 15 bytes; expected the zip file")
    refuses(at.write(b"GGUF, say"), WRONG, "neither zip nor pickle, 9 bytes; expected the zip file")
    refuses(at.pack({"readme.txt": b"no checkpoint"}), WRONG, "0 entries */data.pkl")
    refuses(at.pack({"a/data.pkl": b"N.", "b/data.pkl": b"N."}), WRONG, "2 entries */data.pkl")
    refuses(at.pack({"a/data.pkl": b"N.", "a/byteorder": b"big"}), WRONG, 'byte order "big", expected "little"')
    refuses(at.pack({"a/data.pkl": b"N" * (2**24 + 1)}), WRONG, "has 16777217 bytes, limit 16777216")
    refuses(at.pack({"a/data.pkl": b"N." + b" " * 1000}, compressed=True), WRONG, "entry a/data.pkl is compressed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refuses(at.pack({"a/data.pkl": b"N.", "a/version": b"3\n", "a/code/x.py": b"", "a/constants.pkl": b"N."}), WRONG, "TorchScript")


@file
def test_code_is_refused_and_nothing_runs(at):
    """Every usual way to make a pickle run code. The marker file is what each of them would create."""
    marker = at.folder / "was_here"
    call = b"(" + text(f"touch {marker}") + b"tR."
    never = "nothing was executed"
    for module, attribute in (("os", "system"), ("posix", "system"), ("subprocess", "Popen"), ("sys", "exit"), ("torch", "load"),
                              ("torch._utils", "_rebuild_tensor_v2.__globals__"), ("collections", "OrderedDict.__reduce__")):
        refuses(at.pickle(name(module, attribute) + call), WRONG, f"global {module}.{attribute} is not among", never)
    for function in ("eval", "exec", "getattr"):
        refuses(at.pickle(name("builtins", function) + call), WRONG, f"global {function} is not among", never)
    refuses(at.pickle(b"\x80\x02}" + text("task") + name("os", "system") + call), WRONG, "global os.system", never)
    refuses(at.pickle(b"\x8c\x02os\x8c\x06system\x93" + call), WRONG, never)  # STACK_GLOBAL
    refuses(at.pickle(f"(S'touch {marker}'\nios\nsystem\n.".encode()), WRONG, "Unsupported operand 83", never)  # STRING, INST
    refuses(at.pickle(b"(ios\nsystem\n."), WRONG, "Unsupported operand 105", never)  # INST
    refuses(at.pickle(b"(cos\nsystem\no."), WRONG, "global os.system", never)  # OBJ
    refuses(at.pickle(b"\x82\x01."), WRONG, "Unsupported operand 130", never)  # EXT1
    refuses(at.pickle(b"\x92."), WRONG, "Unsupported operand 146", never)  # NEWOBJ_EX
    refuses(at.pickle(b"P1\n."), WRONG, "Unsupported operand 80", never)  # PERSID
    refuses(at.pickle(text("system") + call), WRONG, "call reduce for unrecognized function system", never)
    refuses(at.pickle(name("torch", "FloatStorage") + call), WRONG)
    refuses(at.pickle(ORDERED + call), WRONG)
    refuses(at.pickle(name("torch._utils", "_rebuild_tensor_v2") + b")\x81."), WRONG)
    refuses(at.pickle(ORDERED + b"}b."), WRONG, "Can only build", never)  # BUILD on the class itself
    refuses(at.pickle(b"c" + b"x" * 300 + b"\n\x1b]0;title\n."), WRONG, "global xxxx", never)
    refuses(at.pickle(b"c" + b"x" * 300 + b"\n\xff\x01\n."), WRONG)
    assert not marker.exists()


@file
def test_misuse_of_stack_and_memo(at):
    for data in (b".", b"(.", b"t.", b"K\x01\x86.", b"](K\x01a.", b"Na.", b"NNa.", b"](NNu.", b"}(Nu.", b"}]Ns.", b"h\x05.", b"q\x01.", b"}Nb.",
                 b"N\x80\x06\x95N.", b"X\x01\0\0\0\xff.", b"NN\x93."):
        refuses(at.pickle(data), WRONG)
    # A list inside itself is legal, and harmless as long as nothing walks it without end.
    assert refusal(at.pickle(b"]q\x01h\x01a.")) is None


@file
def test_tensors_that_lie_elsewhere(at):
    six = storage("0", 6)
    assert refusal(at.pickle(rebuild(six, 0, (2, 3), (3, 1)) + b".")) is None
    for offset, shape, strides in ((1, (2, 3), (3, 1)), (0, (2, 3), (4, 1)), (0, (2**62, 8), (0, 0)), (0, (-1,), (1,)), (-1, (2,), (1,))):
        refuses(at.pickle(rebuild(six, offset, shape, strides) + b"."), WRONG)
    refuses(at.pickle(rebuild(six, 1, (2, 3), (3, 1)) + b"."), WRONG, "a tensor reaches beyond its storage")
    refuses(at.pickle(rebuild(b"N", 0, (2,), (1,)) + b"."), WRONG)
    for items in (-1, 2**62, 2**40):
        refuses(at.pickle(rebuild(storage("0", items), 0, (2**40,), (1,)) + b"."), WRONG)
    refuses(at.pickle(storage("\x1b[2J", 1) + b"."), DAMAGED, "\\x1b[2J")
    refuses(at.pickle(b"NQ."), WRONG, "persistent_load id must be tuple or int")
    refuses(at.pickle(b"(" + text("module") + b"NNNNtQ."), WRONG, "Only persistent_load of storage is allowed")
    refuses(at.pickle(b"(" + text("storage") + ORDERED + b"NNNtQ."), WRONG)


@file
def test_every_truncation_of_a_pickle_is_refused(at):
    whole = pickled(SMALL)
    entries = container(SMALL)
    for size in range(len(whole)):
        refused = refusal(at.pack({**entries, "archive/data.pkl": whole[:size]}))
        assert refused is not None and refused.code in (DAMAGED, WRONG), (size, refused)


@file
def test_storages_must_be_there_and_whole(at):
    entries = container(SMALL)
    missing = {key: x for key, x in entries.items() if key != "archive/data/1"}
    refuses(at.pack(missing), DAMAGED, "failed locating file data/1: file not found")
    # Shorter than the tensor, which then begins in what follows in the file: another length, and another checksum.
    refuses(at.pack({**entries, "archive/data/0": entries["archive/data/0"][:11]}), DAMAGED, "its storage of 12 bytes has the checksum")


@file
def test_entries_are_not_longer_than_the_file(at):
    """Or little would ask for much memory."""
    whole = pathlib.Path(at.pack(container(SMALL))).read_bytes()
    # Compressed size, then size, 20 bytes after the begin of an entry of the directory.
    sizes = whole.index(b"PK\1\2") + 20
    for places in ((sizes + 7,), (sizes + 3, sizes + 7)):
        damaged = bytearray(whole)
        for place in places:
            damaged[place] = 0x40  # a gigabyte more
        refuses(at.write(bytes(damaged)), DAMAGED, "are stored in a file of")


@file
def test_an_entry_without_its_offset_is_damage(at):
    whole = pathlib.Path(at.pack(container(SMALL))).read_bytes()
    offset = whole.index(b"PK\1\2") + 42
    refuses(at.write(whole[:offset] + b"\xff\xff\xff\xff" + whole[offset + 4:]), DAMAGED, "entry archive/data.pkl: ")


@file
def test_every_truncation_of_a_file_is_damage(at):
    whole = pathlib.Path(at.pack(container(SMALL))).read_bytes()
    for size in range(len(whole)):
        refused = refusal(at.write(whole[:size]))
        assert refused is not None and refused.code in ((DAMAGED, WRONG) if size < 4 else (DAMAGED,)), (size, refused)


@file
def test_flipped_bits_never_change_values(at):
    """A changed byte is refused, or lies where nothing is read from (dates, attributes), or changes a name; it is never an error of
    another kind, and never gives other values."""
    whole = pathlib.Path(at.pack(container(SMALL))).read_bytes()
    first = SMALL["w"].numpy().tobytes()
    data = range(whole.index(first), whole.index(first) + len(first))
    for place in range(len(whole)):
        for bit in range(0, 8, 1 if place in data else 5):
            path = at.write(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1:])
            refused = refusal(path)
            if place in data:
                assert refused is not None and refused.code == DAMAGED and "checksum (CRC)" in refused.message, (place, refused)
            elif refused is None:
                tensors = [x for x in read_all(path)["task"].values()]
                assert all(torch.equal(x, y) for x, y in zip(tensors, SMALL.values())), place


@file
def test_changed_bytes_of_a_pickle_are_read_or_refused(at):
    """Any outcome but another error or a hang."""
    weights = dict(list(tiny_ratplus().items())[:4])
    entries, chance, read = container(weights), random.Random(7), 0
    for place in range(len(entries["archive/data.pkl"])):
        changed = bytearray(entries["archive/data.pkl"])
        changed[place] = chance.randrange(256)
        if place % 3 == 0:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        if place % 4 == 0:
            changed.insert(place, chance.randrange(256))
        read += refusal(at.pack({**entries, "archive/data.pkl": bytes(changed)})) is None
    assert read > 0
