"""The gated scan and row gathering: C++ on the CPU (ops.cc), plain PyTorch elsewhere."""

import os

import torch

_loaded = False


def load():
    """Builds and loads the CPU extension once. Without a compiler the plain versions are used."""
    global _loaded
    if _loaded:
        return
    from torch.utils.cpp_extension import load as build

    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(here, "runs", "ext")
    os.makedirs(folder, exist_ok=True)
    build("recollect_ops", [os.path.join(here, "ops.cc")], build_directory=folder, is_python_module=False,
          extra_cflags=["-O3", "-march=native", "-ffast-math"])
    library = torch.library
    library.register_fake("recollect::scan", lambda g, x: torch.empty(x.shape, dtype=x.dtype))
    library.register_fake("recollect::scan_backward", lambda g, x, y, dy: (torch.empty(g.shape, dtype=g.dtype), torch.empty(x.shape, dtype=x.dtype)))
    library.register_fake("recollect::gather", lambda x, i: torch.empty((i.numel(), x.shape[1]), dtype=x.dtype))
    library.register_fake("recollect::gather_backward", lambda dy, i, rows: torch.empty((rows, dy.shape[1]), dtype=dy.dtype))
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
    _loaded = True


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
    if _loaded and x.device.type == "cpu":
        return torch.ops.recollect.scan(g, x)
    return scan_plain(g, x)


def gather(x, index):
    """Rows of x [R, W] at index (n values, int64) -> [n, W]; the gradient sums rows that were taken repeatedly."""
    if _loaded and x.device.type == "cpu":
        return torch.ops.recollect.gather(x, index)
    return x.index_select(0, index.reshape(-1))
