"""What a trainer counts while it trains: the rows of its log."""

from collections import defaultdict

import numpy as np
import torch.distributed as dist

# Tokens between a needle and the answer, for recall by distance.
DISTANCES = (256, 512, 1 << 30)


class Meter:
    """Sums per task since the last report; `report` adds over the ranks."""

    def __init__(self):
        self.sums = defaultdict(lambda: np.zeros(2))

    def add(self, name, total, count):
        self.sums[name] += (total, count)

    def report(self, world):
        sums = dict(self.sums)
        if world > 1:
            gathered = [None] * world
            dist.all_gather_object(gathered, sums)
            sums = {k: sum(g.get(k, np.zeros(2)) for g in gathered) for k in sorted(set().union(*gathered))}
        self.sums.clear()
        return {k: float(v[0] / v[1]) for k, v in sums.items() if v[1] > 0}


def measure(meter, batch, kinds, nats, right, facts, groups):
    """Adds one batch's numbers to the meter (numpy inputs)."""
    text = batch["is_text"] & (batch["weights"] > 0)
    meter.add("text_nats", nats[text].sum(), text.sum())
    for a, (kind, straddles, distance) in enumerate(kinds):
        where = batch["answer"] == a
        if where.any():
            meter.add(f"token/{kind}", right[where].sum(), where.sum())
            meter.add(f"whole/{kind}", right[where].all(), 1)
            meter.add("whole", right[where].all(), 1)
            meter.add("token", right[where].sum(), where.sum())
            meter.add("whole_other" if kind.endswith("*") else "whole_own", right[where].all(), 1)
            if straddles:
                meter.add("whole_straddling", right[where].all(), 1)
            if distance is not None:
                meter.add(f"whole_within/{next(d for d in DISTANCES if distance < d)}", right[where].all(), 1)
    if facts:
        repeats = batch["repeats"]
        meter.add("repeat_token", right[repeats].sum(), repeats.sum())
        meter.add("repeat_nats", nats[repeats].sum(), repeats.sum())
        if "pointed" in facts:
            meter.add("pointed/repeat", facts["pointed"][repeats].sum(), repeats.sum())
            meter.add("pointed/text", facts["pointed"][text & ~repeats].sum(), (text & ~repeats).sum())
        for g, share in enumerate(facts["copied"]):
            meter.add(f"copied/{g}", share.sum(), (share > 0).sum())
        first = np.zeros_like(repeats)
        first.reshape(-1)[batch["landmarks"][batch["landmarks"] < first.size]] = True
        meter.add("repeat_first", right[repeats & first].sum(), (repeats & first).sum())
        asked = batch["gold"].sum(-1) > 0
        for g in range(groups):
            meter.add(f"retrieval_loss/{g}", facts["retrieval_loss"][g][asked].sum(), asked.sum())
            meter.add(f"gold_weight/{g}", facts["on_gold"][g, 0][asked].sum(), asked.sum())
            meter.add(f"gold_hit/{g}", facts["on_gold"][g, 1][asked].sum(), asked.sum())
