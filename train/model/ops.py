"""The gated scan and row gathering: C++ on the CPU (ops.cc), Triton on a CUDA device (ops_cuda.py), plain PyTorch where neither is
loaded."""

import contextlib
import fcntl
import os

import torch

SCHEMAS = ("scan(Tensor g, Tensor x) -> Tensor", "scan_backward(Tensor g, Tensor x, Tensor y, Tensor dy) -> (Tensor, Tensor)",
           "gather(Tensor x, Tensor index) -> Tensor", "gather_backward(Tensor dy, Tensor index, int rows) -> Tensor")
_loaded = None  # the type of the device whose operations are there
_library = None


def load(device="cpu"):
    """Loads the operations of a type of device, "cpu" or "cuda", once for a process."""
    global _loaded
    if _loaded == device:
        return
    if _loaded:
        raise RuntimeError(f"the operations of {_loaded} are loaded already, not those of {device}")
    if device == "cpu":
        _build()
    else:
        _register_cuda()
    library = torch.library
    library.register_fake("recollect::scan", lambda g, x: x.new_empty(x.shape))
    library.register_fake("recollect::scan_backward", lambda g, x, y, dy: (g.new_empty(g.shape), x.new_empty(x.shape)))
    library.register_fake("recollect::gather", lambda x, i: x.new_empty(i.numel(), x.shape[1]))
    library.register_fake("recollect::gather_backward", lambda dy, i, rows: dy.new_empty(rows, dy.shape[1]))
    library.register_autograd(
        "recollect::scan", lambda ctx, dy: torch.ops.recollect.scan_backward(*ctx.saved_tensors, dy),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output))

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.rows = inputs[0].shape[0]

    library.register_autograd(
        "recollect::gather",
        lambda ctx, dy: (torch.ops.recollect.gather_backward(dy, ctx.saved_tensors[0], ctx.rows), None),
        setup_context=keep)
    _loaded = device


def _build():
    from torch.utils.cpp_extension import load as build

    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(os.path.dirname(here), "runs", "ext")
    with build_folder(folder):
        build("recollect_ops", [os.path.join(here, "ops.cc")], build_directory=folder, is_python_module=False,
              extra_cflags=["-O3", "-march=native", "-ffast-math"])


@contextlib.contextmanager
def build_folder(folder):
    """Holds a folder that PyTorch builds an extension in. PyTorch's own lock there is a file, which a build that was killed leaves
    behind, and then every later one waits for ever. Nobody else builds while the folder is held, so such a file is an old one."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "held"), "w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: another process builds the extension, waiting for it", flush=True)
            fcntl.flock(held, fcntl.LOCK_EX)
        lock = os.path.join(folder, "lock")
        if os.path.exists(lock):
            print(f"{lock}: removed, a build that was broken off has left it", flush=True)
            os.remove(lock)
        yield


def _register_cuda():
    global _library
    from model import ops_cuda

    _library = torch.library.Library("recollect", "DEF")
    for schema in SCHEMAS:
        name = schema.split("(")[0]
        _library.define(schema)
        _library.impl(name, getattr(ops_cuda, name), "CUDA")


def scan_plain(g, x):
    """y_t = g_t y_{t-1} + (1 - g_t) x_t by doubling. g, x [B, T, C] fp32."""
    y, a, step = (1 - g) * x, g, 1
    while step < x.shape[1]:
        y = torch.cat([y[:, :step], y[:, step:] + a[:, step:] * y[:, :-step]], 1)
        a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
        step *= 2
    return y


def scan(g, x):
    """y_t = g_t y_{t-1} + (1 - g_t) x_t per channel, y_{-1} = 0. g, x [B, T, C] fp32 -> [B, T, C] fp32."""
    if _loaded == x.device.type:
        return torch.ops.recollect.scan(g, x)
    return scan_plain(g, x)


def gather(x, index):
    """Rows of x [R, W] at index (n values, int64) -> [n, W]; the gradient sums rows that were taken repeatedly."""
    index = index.reshape(-1)
    if _loaded == x.device.type:
        return torch.ops.recollect.gather(x, index)
    return x.index_select(0, index)
