"""Muon (Jordan et al., 2024): momentum whose update of every matrix is made nearly orthogonal."""

import math
from collections import defaultdict

import torch
import torch.distributed as dist

# Quintic Newton-Schulz coefficients (Jordan et al., "Muon", 2024). Chosen over sharper schedules because it stays
# bounded for singular values a little above 1, which bf16 rounding produces when a gradient has nearly rank one.
NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS = (3.4445, -4.7750, 2.0315), 5


def orthogonalise(x, dtype):
    """Nearly the nearest semi-orthogonal matrix of every x [n, rows, cols], rows <= cols, computed in `dtype`; bf16 does."""
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) * 1.02 + 1e-12)).to(dtype)
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return x.float()


class Muon:
    """Muon over matrices, shared out over the ranks: each orthogonalises its part, a sum spreads the updates."""

    def __init__(self, named, rank, world, momentum, weight_decay, split, dtype):
        # A fused projection is several matrices: each is orthogonalised on its own.
        self.items = [(p, p.shape[0] // split(name, p)) for name, p in named]
        self.mine, load = set(), [0.0] * world
        for i in sorted(range(len(self.items)), key=lambda i: -self.items[i][0].numel()):
            target = load.index(min(load))
            load[target] += self.items[i][0].numel()
            if target == rank:
                self.mine.add(i)
        self.world, self.momentum, self.weight_decay, self.dtype = world, momentum, weight_decay, dtype
        self.buffers = {i: torch.zeros_like(self.items[i][0]) for i in self.mine}

    @torch.no_grad()
    def step(self, rate):
        updates = [torch.zeros_like(p) for p, _ in self.items]
        shapes = defaultdict(list)
        for i in self.mine:
            p, parts = self.items[i]
            if p.grad is None:
                continue
            buffer = self.buffers[i].mul_(self.momentum).add_(p.grad)
            g = p.grad.add(buffer, alpha=self.momentum).reshape(parts, -1, p.shape[1])
            flip = g.shape[1] > g.shape[2]
            g = g.mT if flip else g
            shapes[g.shape[1:]].append((i, flip, g))
        for entries in shapes.values():
            done = orthogonalise(torch.cat([g for _, _, g in entries]), self.dtype).split([g.shape[0] for _, _, g in entries])
            for (i, flip, g), x in zip(entries, done):
                x = x.mT if flip else x
                updates[i].copy_(x.reshape(updates[i].shape) * 0.2 * math.sqrt(max(g.shape[1:])))
        if self.world > 1:
            flat = torch.cat([u.reshape(-1) for u in updates])
            dist.all_reduce(flat)
            updates = [u.view_as(p) for u, (p, _) in zip(flat.split([p.numel() for p, _ in self.items]), self.items)]
        for (p, _), u in zip(self.items, updates):
            if p.grad is not None:
                p.mul_(1 - rate * self.weight_decay).add_(u, alpha=-rate)
