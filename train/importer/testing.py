"""Checkpoints for the checks of the importer: those of tests/golden/hub, and ones made by hand, so that a check can make any mistake in one."""

import contextlib
import pathlib
import shutil
import struct
import sys
import tempfile
import types
import zipfile

import numpy as np
import torch

from importer.refusal import Refusal
from importer.run import Options, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
HUB = ROOT / "tests" / "golden" / "hub"
TOKENIZER = ROOT / "tests" / "support" / "llama_tokenizer.model"


def values(name, shape, coarse=False):
    """The weights of the checkpoints in tests/golden/hub: fp32 in [-1/8, 1/8) with all 24 bits in use, or in few bits that every
    format holds exactly."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (np.arange(np.prod(shape), dtype=np.uint64) * 2654435761 + seed) % 2**32
    x ^= x >> 16
    x = x * 0x45D9F3B % 2**32
    x ^= x >> 16
    if coarse:
        y = ((x >> 24).astype(np.int64) - 128) * 2.0**-10
    else:
        y = ((x >> 8).astype(np.int64) - 2**23) * 2.0**-26
    return torch.from_numpy(y.astype(np.float32).reshape(shape))


class Place:
    """A folder to import from, with a tokenizer, and one to import into."""

    def __init__(self, root):
        self.root, self.source, self.out = root, root / "in", root / "out"
        self.source.mkdir()
        shutil.copy(TOKENIZER, self.source / "tokenizer.model")
        self.file = self.source / "a.pt"

    def use(self, name):
        shutil.copy(HUB / name, self.source)
        return self.source / name

    def save(self, weights, config=None):
        torch.save({"task": weights} if config is None else {"task": weights, "config": config}, self.file)

    def run(self, progress=lambda done, total: None, **options):
        return run(Options(**{"source": str(self.source), "out": str(self.out), "dtype": "fp32", **options}), progress)

    def left(self):
        return sorted(path.name for path in self.root.iterdir())

    def refuses(self, code, *fragments, **options):
        """The import ends with this code and a message with these fragments, and leaves nothing behind. Returns the message."""
        before = self.left()
        try:
            self.run(**options)
        except Refusal as refusal:
            assert refusal.code == code, (refusal, code)
            for fragment in fragments:
                assert fragment in refusal.message, (refusal.message[:3000], fragment)
            assert self.left() == before, self.left()
            return refusal.message
        raise AssertionError(f"imported, expected {code} {fragments}")


@contextlib.contextmanager
def place():
    with tempfile.TemporaryDirectory() as root:
        yield Place(pathlib.Path(root))


def tiny_ratplus():
    """All weights of a RAT+ model of two layers, width 4, vocabulary 400, with the head tied."""
    shapes = {"embedding.wte.weight": (400, 4)}
    for i in range(2):
        layer = f"backbone.layers.{i}."
        shapes.update({layer + "seq_layer.input_norm.weight": (4,), layer + "seq_layer.in_proj.weight": (20, 4),
                       layer + "seq_layer.out_proj.weight": (4, 4), layer + "hidden_layer.ln.weight": (4,),
                       layer + "hidden_layer.fc1.weight": (16, 4), layer + "hidden_layer.fc2.weight": (4, 16)})
    shapes["backbone.ln.weight"] = (4,)
    weights = {name: values(name, shape) for name, shape in shapes.items()}
    weights["head.lm_head.weight"] = weights["embedding.wte.weight"]
    return weights


def easydict(content):
    """`content` and the dicts in it as the published configurations are pickled: as objects of easydict, which need not be there."""
    module = sys.modules.setdefault("easydict", types.ModuleType("easydict"))
    if not hasattr(module, "EasyDict"):
        module.EasyDict = type("EasyDict", (dict,), {"__module__": "easydict"})
    if not isinstance(content, dict):
        return content
    result = module.EasyDict({key: easydict(value) for key, value in content.items()})
    result.__dict__.update(result)  # what the library does
    return result


def backbone(**keys):
    """A configuration with these keys of model.backbone."""
    return {"model": {"backbone": keys}}


# -- Pickles and containers by hand


def write_container(path, entries, compressed=False):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def plain(value):
    """An int, or a tuple of ints, pickled."""
    if isinstance(value, tuple):
        return b"(" + b"".join(map(plain, value)) + b"t"
    return b"J" + struct.pack("<i", value) if -2**31 <= value < 2**31 else b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def storage(key, items, kind="FloatStorage"):
    return b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu") + plain(items) + b"tQ"


def rebuild(stored, offset, shape, strides):
    """A tensor, as torch pickles it."""
    return (name("torch._utils", "_rebuild_tensor_v2") + b"(" + stored + plain(offset) + plain(shape) + plain(strides) + b"\x89" +
            name("collections", "OrderedDict") + b")RtR")


def pickled(weights):
    """The pickle of {"task": weights}, whose storages are called 0, 1, … in this order."""
    pieces = [b"\x80\x02}(" + text("task") + b"}("]
    for key, (title, tensor) in enumerate(weights.items()):
        pieces += [text(title), rebuild(storage(str(key), tensor.numel()), 0, tuple(tensor.shape), tensor.stride())]
    return b"".join(pieces) + b"uu."


def container(weights):
    """The entries of a checkpoint of these weights."""
    data = {f"archive/data/{key}": tensor.numpy().tobytes() for key, tensor in enumerate(weights.values())}
    return {"archive/data.pkl": pickled(weights), "archive/byteorder": b"little", "archive/version": b"3\n", **data}
