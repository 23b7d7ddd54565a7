"""The gated scan and row gathering on a CUDA device: Triton kernels, and sums in fp32. `ops.load` registers them."""

import torch
import triton
import triton.language as tl

TILE, CHANNELS = 32, 32  # positions and channels of one step of a program


@triton.jit
def _combine(a_gate, a_value, b_gate, b_value):
    return a_gate * b_gate, b_gate * a_value + b_value


@triton.jit
def _last(rows, TILE: tl.constexpr):
    """The last row of a tile [TILE, CHANNELS]."""
    return tl.sum(tl.where(tl.arange(0, TILE)[:, None] == TILE - 1, rows, 0.0), 0)


@triton.jit
def _forward(g_at, x_at, y_at, T: tl.constexpr, C, TILE: tl.constexpr, CHANNELS: tl.constexpr):
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    base = tl.program_id(0).to(tl.int64) * T * C + channel
    carry = tl.zeros([CHANNELS], tl.float32)
    for begin in range(0, T, TILE):
        row = begin + tl.arange(0, TILE)[:, None]
        here = (row < T) & (channel < C)
        g = tl.load(g_at + base + row * C, mask=here, other=0.0)
        x = tl.load(x_at + base + row * C, mask=here, other=0.0)
        gates, values = tl.associative_scan((g, (1 - g) * x), 0, _combine)
        y = values + gates * carry[None, :]
        tl.store(y_at + base + row * C, y, mask=here)
        carry = _last(y, TILE)


@triton.jit
def _backward(g_at, x_at, y_at, dy_at, dg_at, dx_at, T: tl.constexpr, C, TILE: tl.constexpr, CHANNELS: tl.constexpr):
    """From the end on, with a_t = dy_t + g_{t+1} a_{t+1}: dx_t = (1 - g_t) a_t, dg_t = (y_{t-1} - x_t) a_t."""
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    base = tl.program_id(0).to(tl.int64) * T * C + channel
    carry = tl.zeros([CHANNELS], tl.float32)
    for begin in range(0, T, TILE):
        row = T - 1 - begin - tl.arange(0, TILE)[:, None]
        here = (row >= 0) & (channel < C)
        at = base + row * C
        following = tl.load(g_at + at + C, mask=here & (row + 1 < T), other=0.0)
        dy = tl.load(dy_at + at, mask=here, other=0.0)
        gates, values = tl.associative_scan((following, dy), 0, _combine)
        a = values + gates * carry[None, :]
        g = tl.load(g_at + at, mask=here, other=0.0)
        x = tl.load(x_at + at, mask=here, other=0.0)
        before = tl.load(y_at + at - C, mask=here & (row >= 1), other=0.0)
        tl.store(dx_at + at, (1 - g) * a, mask=here)
        tl.store(dg_at + at, (before - x) * a, mask=here)
        carry = _last(a, TILE)


def _grid(x):
    return x.shape[0], triton.cdiv(x.shape[2], CHANNELS)


def scan(g, x):
    g, x = g.contiguous(), x.contiguous()
    y = torch.empty_like(x)
    _forward[_grid(x)](g, x, y, x.shape[1], x.shape[2], TILE, CHANNELS, num_warps=1)
    return y


def scan_backward(g, x, y, dy):
    g, x, y, dy = (v.contiguous() for v in (g, x, y, dy))
    dg, dx = torch.empty_like(g), torch.empty_like(x)
    _backward[_grid(x)](g, x, y, dy, dg, dx, x.shape[1], x.shape[2], TILE, CHANNELS, num_warps=1)
    return dg, dx


def gather(x, index):
    return x.index_select(0, index)


def gather_backward(dy, index, rows):
    # A row may be taken hundreds of times: the sum is in fp32.
    total = torch.zeros(rows, dy.shape[1], dtype=torch.float32, device=dy.device)
    return total.index_add_(0, index, dy.float()).to(dy.dtype)
