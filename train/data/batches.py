"""Batches of one fixed shape: book text with needles and questions, laid out in blocks."""

import random

import numpy as np

from data.blocks import BLOCK_TOKENS
from data.contents import Contents
from data.sequence import Sequence
from data.tokenizer import LMK_ID

def key_width(model_config):
    """Numbers of a landmark key, d_k."""
    return model_config["d_r"] + (model_config["lexicon"]["d"] if model_config.get("lexicon") else 0)


def recent_tokens(before, reach, none):
    """Positions of the last `reach` tokens of `before`, landmarks not counted, from the last one back; `none` in place of those that
    are not there."""
    at = np.flatnonzero(before != LMK_ID)[::-1][:reach]
    return np.concatenate([at, np.full(reach - len(at), none, at.dtype)])


def tokens_before(tokens, reach):
    """The last `reach` tokens up to and including each position, landmarks not counted, from the last one back; -1 where there are
    no more: [T, reach] int32."""
    line = np.concatenate([np.full(reach, -1, np.int32), tokens[tokens != LMK_ID].astype(np.int32)])
    last = np.cumsum(tokens != LMK_ID) + reach - 1
    return line[last[:, None] - np.arange(reach)]


class BatchMaker(Contents):
    """Lays out batches for one process. All shapes depend on the config alone."""

    def __init__(self, config, model_config, books, tasks, seed):
        self.c, self.m, self.books, self.tasks = config, model_config, books, tasks
        self.begins_word = tasks.begins_word
        self.rng = random.Random(seed)
        self.queue = np.zeros((config["queue"], key_width(model_config)), np.float32)
        self.queue_filled = 0
        self.forms = []

    def state(self):
        return self.rng.getstate(), self.forms

    def set_state(self, state):
        self.rng.setstate(state[0])
        self.forms = state[1]

    def remember(self, keys):
        """Adds landmark keys [n, d_r] of finished chunks to the queue of negatives."""
        n = min(len(keys), len(self.queue))
        if n:
            self.queue = np.roll(self.queue, n, 0)
            self.queue[:n] = keys[:n]
            self.queue_filled = min(len(self.queue), self.queue_filled + n)

    def _form(self):
        """A form of needles that many batches share: the queue of negatives then holds needles of the same form, too."""
        if len(self.forms) < self.c["forms"]:
            self.forms.append(self.tasks.form(self.rng))
        elif self.rng.random() < 1 / self.c["form_batches"]:
            self.forms[self.rng.randrange(len(self.forms))] = self.tasks.form(self.rng)
        return self.rng.choice(self.forms)

    def _sequence(self, index, sources, tasks_share):
        rng, c = self.rng, self.c
        least = self.m["min_chunk_tokens"] if rng.random() < c["sentences"] else BLOCK_TOKENS
        seq = Sequence(c["length"], c["max_blocks"], least, self.tasks.token_bytes)
        seq.source = self.books.passage(rng, c["length"])
        seq.filler_weight = 1.0
        if rng.random() < c["random_filler"]:
            seq.source = [self.books.tokens[rng.randrange(len(self.books.tokens))].item() for _ in seq.source]
            seq.filler_weight = 0.0
        seq.form = self.form or (self.tasks.form(rng) if rng.random() < 0.5 else None)
        if rng.random() > tasks_share:
            if rng.random() < 0.5:
                # Plain text with some early-closed blocks.
                while seq.room(140):
                    self._text(seq, rng.randint(10, 130))
                    if seq.can_flush() and rng.random() < 0.6:
                        seq.flush()
            self._text(seq, seq.left + 5)
            return seq
        starts_with_question = bool(sources) and rng.random() < 0.6
        if starts_with_question:
            for _ in range(rng.randint(1, 5)):
                if rng.random() < self.c["repeat"]:
                    self._repeat(seq, index, sources)
                elif rng.random() >= self.c["several"] or not self._ask_several(seq, index, sources):
                    self._ask(seq, index, sources, lead=rng.choice(("", "", " ", "\n")) if seq.used == 0 else None)
                if rng.random() < 0.2:
                    self._text(seq, rng.randint(5, 40))
        # A text of little else than needles of one form, among which only the key tells one from the others.
        seq.dense = dense = rng.random() < c["dense"]
        if dense:
            seq.form = seq.form or self.tasks.form(rng)
        while seq.room(90):
            if not dense or rng.random() < 0.1:
                self._text(seq, 1 + min(80, int(rng.expovariate(1 / c["mean_gap"]))))
            r = rng.random()
            early = len(seq.tokens) < (0.6 if dense else 0.4) * c["length"]
            if r < ((0.9 if early else 0.3) if dense else 0.4 if early else 0.15):
                for _ in range(rng.choice((1, 1, 1, 2, 3))):
                    self._needle(seq)
            elif r < 0.85:
                if rng.random() < self.c["repeat"] and not dense:
                    self._repeat(seq, index, sources)
                elif rng.random() >= self.c["several"] or not self._ask_several(seq, index, sources):
                    self._ask(seq, index, sources)
            elif seq.can_flush():
                seq.flush()  # after most flushes the text goes on
        self._text(seq, seq.left + 5)
        return seq

    # -- a batch

    def _note_copies(self, out, i, seq):
        """What tokens of sequence i repeat: chunk and row for the attention of the row before each, and for landmarks within a
        repetition the chunks that the next block's tokens come from, if no question has said which."""
        N, T = self.c["max_blocks"], self.c["length"]
        ends = seq.starts[1:] + [min(T, len(seq.tokens))]
        last = None
        for b, (start, end) in enumerate(zip(seq.starts, ends)):
            row, chunks, led = i * N + b, {}, False
            for p in range(start + 1, end):
                copy, before, last = seq.copies[p], last, seq.copies[p]
                if copy is None:
                    continue
                j, at = copy
                block = self.done[j].block_of(at)
                chunk = j * N + block
                # The state of the token before the one repeated looks like the row that predicts it, and knows what came next.
                alike = at - 1 - self.done[j].starts[block]
                if alike > 0:
                    out["copy_chunk"][row, p - 1 - start], out["copy_row"][row, p - 1 - start] = chunk, alike
                if p == start + 1:  # whether what stands before the landmark leads here
                    led = before is not None and before[0] == j and 0 < at - before[1] < 12
                    if led and b > 0 and out["allow"][row, chunk] and p < T:
                        # There is one such row a block, and everything behind it hangs on it.
                        out["weights"][i, p - 1] *= self.c["weight_first"]
                if led:
                    chunks[chunk] = chunks.get(chunk, 0) + 1
                    out["repeats"][i, p - 1] = b > 0 and out["allow"][row, chunk] and seq.answer[p] < 0
            chunks = {c: n for c, n in chunks.items() if b > 0 and out["allow"][row, c]}
            if chunks and not out["gold"][row].any():
                for c, n in chunks.items():
                    out["gold"][row, c] = n / sum(chunks.values())

    def batch(self, open_share, queue_share, tasks_share):
        """A batch as numpy arrays, plus facts for the log. `open_share`: chance that a sequence sees another one's
        chunks; `queue_share`: chance that it sees the queue of negatives."""
        c, rng = self.c, self.rng
        B, T, N, n_ret = c["batch"], c["length"], c["max_blocks"], self.m["n_ret"]
        self.done, self.bare_nouns, self.keys, self.repeated, visible = [], set(), set(), set(), []
        self.form = self._form() if rng.random() < c["same_form"] else None
        for i in range(B):
            sees = [j for j in range(B) if j != i and rng.random() < open_share]
            seq = self._sequence(i, [j for j in sees if j < i], tasks_share)
            for needle in seq.needles:
                seq.place(needle)
            self.done.append(seq)
            visible.append(sees)
        M, Q = B * N, len(self.queue)
        out = {
            "tokens": np.zeros((B, T), np.int64), "targets": np.zeros((B, T), np.int64),
            "weights": np.zeros((B, T), np.float32), "answer": np.full((B, T), -1, np.int64),
            "is_text": np.zeros((B, T), bool),
            "dilated": np.full((B, c["max_dilated"]), T + 10_000, np.int64),
            "block_rows": np.full((M, BLOCK_TOKENS + 1), B * T, np.int64), "lengths": np.zeros(M, np.int64),
            "landmarks": np.full(M, B * T, np.int64), "token_rows": np.zeros(B * T, np.int64),
            "allow": np.zeros((M, M + Q), bool), "gold": np.zeros((M, M + Q), np.float32),
            "queue": self.queue.copy(), "follows": np.zeros(M + Q, bool),
            "copy_chunk": np.full((M, BLOCK_TOKENS + 1), -1, np.int64), "copy_row": np.zeros((M, BLOCK_TOKENS + 1), np.int64),
            "repeats": np.zeros((B, T), bool),
        }
        reach = self.m["lexicon"]["reach"] if self.m.get("lexicon") else 0
        if reach:
            out["recent"] = np.full((M, reach), B * T, np.int64)
        if self.m.get("pointer"):
            out["before"] = np.zeros((B * T, self.m["pointer"]["reach"]), np.int32)
        kinds = []
        for i, seq in enumerate(self.done):
            tokens, n = np.array(seq.tokens[:T]), len(seq.starts)
            weights = np.array(seq.weights[:T], np.float32)
            if self.m.get("pointer"):
                out["before"][i * T:(i + 1) * T] = tokens_before(tokens, self.m["pointer"]["reach"])
            out["tokens"][i], out["targets"][i, :-1] = tokens, tokens[1:]
            out["weights"][i, :-1] = weights[1:] * (tokens[1:] != LMK_ID)
            answer = np.array(seq.answer[:T])
            out["answer"][i, :-1] = np.where(answer[1:] >= 0, answer[1:] + len(kinds), -1)
            text = np.zeros(T + 1, bool)
            text[[p for p in seq.text if p < T]] = seq.filler_weight > 0
            out["is_text"][i, :-1] = text[1:T] & (tokens[1:] != LMK_ID)
            kinds += seq.kinds
            dilation = rng.choices(self.m["adapted_dilations"], c["dilation_shares"])[0]
            kept = np.arange(dilation - 1, T - self.m["local"]["window"], dilation)
            out["dilated"][i, :len(kept)] = kept
            ends = seq.starts[1:] + [T]
            for b, (s, e) in enumerate(zip(seq.starts, ends)):
                row = i * N + b
                out["block_rows"][row, :e - s] = np.arange(i * T + s, i * T + e)
                out["token_rows"][i * T + s:i * T + e] = row * (BLOCK_TOKENS + 1) + np.arange(e - s)
                out["lengths"][row] = e - s - 1
                out["landmarks"][row] = i * T + s
                out["follows"][row] = b > 0
                if reach:
                    recent = recent_tokens(tokens[:s], reach, -1)
                    out["recent"][row] = np.where(recent < 0, B * T, i * T + recent)
        exists = out["lengths"] > 0
        for i, seq in enumerate(self.done):
            queue_on = rng.random() < queue_share
            for b in range(1, len(seq.starts)):
                row = i * N + b
                out["allow"][row, i * N:i * N + max(0, b - 1)] = True
                for j in visible[i]:
                    out["allow"][row, j * N:(j + 1) * N] = exists[j * N:(j + 1) * N]
                if queue_on:
                    out["allow"][row, M:M + self.queue_filled] = True
            for b, j, chunks, kind in seq.queries:
                row = i * N + b
                cols = [j * N + ch for ch in chunks]
                if b < len(seq.starts) and out["allow"][row, cols].all():
                    out["gold"][row, cols] = 1.0 / len(cols)
            self._note_copies(out, i, seq)
        return out, kinds
