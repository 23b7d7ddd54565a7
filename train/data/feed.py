"""Batches by processes of their own, for a device that trains faster than one process lays out."""

import random

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class _Batches(IterableDataset):
    def __init__(self, maker, shares, seed):
        self.maker, self.shares, self.seed = maker, shares, seed

    def __iter__(self):
        self.maker.rng = random.Random(self.seed * 1009 + get_worker_info().id)
        while True:
            batch, kinds = self.maker.batch(*self.shares.tolist())
            yield {name: torch.from_numpy(array) for name, array in batch.items()}, kinds


class Feed:
    """Endless batches of `maker`, drawn by `workers` processes. A batch's shares are those that were asked for when a worker began it.
    The processes' random numbers are in no checkpoint: a run that resumes, with another `seed`, draws others."""

    def __init__(self, maker, workers, seed):
        if len(maker.queue):
            raise SystemExit(f"data.workers is {workers} and data.queue {len(maker.queue)}: other processes do not see the queue, set it to 0")
        self.shares = torch.zeros(3).share_memory_()
        self.maker, self.workers, self.seed, self.batches = maker, workers, seed, None

    def next(self, shares):
        """(batch of numpy arrays, kinds), as BatchMaker.batch."""
        self.shares.copy_(torch.tensor(shares))
        if self.batches is None:
            loader = DataLoader(_Batches(self.maker, self.shares, self.seed), batch_size=None, num_workers=self.workers, prefetch_factor=2)
            self.batches = iter(loader)
        batch, kinds = next(self.batches)
        return {name: tensor.numpy() for name, tensor in batch.items()}, kinds
