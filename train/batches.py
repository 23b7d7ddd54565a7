"""Batches of one fixed shape: book text with needles and questions, laid out in blocks."""

import itertools
import random

import numpy as np

from blocks import BLOCK_TOKENS
from sequence import Sequence, value_at
from tokenizer import LMK_ID

# Tokens on either side of a needle whose words may become its key.
NEAR = 100


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


class BatchMaker:
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

    # -- parts of a sequence

    def _text(self, seq, n):
        """n tokens of the book and, in most cases, as many more as end a word."""
        n = min(n, len(seq.source))
        if self.rng.random() < self.c["whole_words"]:
            while n < len(seq.source) and not self.begins_word[seq.source[n]]:
                n += 1
        seq.push(seq.source[:n], seq.filler_weight, is_text=True)
        seq.source = seq.source[n:]

    def _needle(self, seq):
        near = self.tasks.decode(seq.tokens[-NEAR:] + list(seq.source[:NEAR])) if seq.filler_weight else ""
        twin = self._twin(seq)
        if twin:
            needle = self.tasks.needle(self.rng, twin["form"], key=twin["fill"]["key"])
        else:
            form = seq.form or self.tasks.form(self.rng)
            needle = self.tasks.needle(self.rng, form, self.bare_nouns if self.rng.random() < 0.08 else None, near)
            needle["form"] = form
        if not needle["bare"] and not twin:
            # Two needles of one key in a batch would make the gold chunk a matter of luck.
            key = needle["fill"]["key"].lower()
            if key in self.keys:
                return
            self.keys.add(key)
        fits = BLOCK_TOKENS - seq.used
        if self.rng.random() < self.c["force_straddle"] and not seq.dense:
            # Text up to where the needle's first tokens, and no more, still fit into the block.
            first = self.rng.randrange(1, min(len(needle["ids"]), BLOCK_TOKENS))
            begin = value_at(needle)
            if begin is not None and self.rng.random() < self.c["split_value"]:
                first = min(BLOCK_TOKENS - 1, max(1, begin - 1 + self.rng.randrange(len(needle["value"]))))
            self._text(seq, (fits - first) % BLOCK_TOKENS)
        elif len(needle["ids"]) > fits and len(needle["ids"]) < BLOCK_TOKENS and self.rng.random() > self.c["straddle"]:
            self._text(seq, fits + self.rng.randrange(BLOCK_TOKENS - len(needle["ids"])))
        if not seq.room(len(needle["ids"])):
            return
        seq.push_needle(needle, self.c["weight_task"])
        if twin:
            needle["form"], needle["twins"] = twin["form"], twin.setdefault("twins", [twin])
            needle["twins"].append(needle)
        needle["asked"], needle["for_others"] = 0, self.rng.random() < self.c["for_others"]

    def _twin(self, seq):
        """An earlier needle of the sequence whose key gets another value, or None."""
        if self.rng.random() >= self.c["twins"]:
            return None
        fit = [n for n in seq.needles if not n["asked"] and not n["bare"] and "cue" not in n and len(n.get("twins", ())) < 4]
        return self.rng.choice(fit) if fit else None

    def _askable(self, seq, index, sources):
        """(sequence, needle) pairs whose chunks the landmark after a question may retrieve."""
        # Who asks again sees the earlier question among the candidates, too: rarely so in use.
        most = 2 if self.rng.random() < self.c["ask_again"] else 1
        for needle in seq.needles:
            seq.place(needle)
        own = [(index, n) for n in seq.needles if n["asked"] < most and "twins" not in n and n["chunks"][-1] <= len(seq.starts) - 2
               and not (n["for_others"] and index + 1 < self.c["batch"])]
        other = [(j, n) for j in sources for n in self.done[j].needles if n["asked"] < most and "twins" not in n]
        return own, other

    def _several(self, seq, index, sources):
        """(sequence, needles of one form): all values of one key, or several keys with a value each; None where there are none."""
        rng = self.rng
        for needle in seq.needles:
            seq.place(needle)
        closed = len(seq.starts) - 2
        of = lambda j: [n for n in (seq if j == index else self.done[j]).needles if not n["asked"] and "cue" not in n and not n["bare"]
                        and (j != index or n["chunks"][-1] <= closed)]
        for source in rng.sample([index, *sources], min(4, 1 + len(sources))):
            there = of(source)
            groups = [n["twins"] for n in there if n.get("twins", (None,))[0] is n and all(t in there for t in n["twins"])]
            if groups and rng.random() < 0.7:
                return source, rng.choice(groups)
            single = [n for n in there if "twins" not in n]
            single = [n for n in single if n["form"] is single[0]["form"]]
            if len(single) > 1:
                return source, rng.sample(single, rng.randint(2, min(4, len(single))))
        return None

    def _ask_several(self, seq, index, sources):
        """A question for several values, a flush and the values, one behind the other. -> False if nothing could be asked."""
        rng = self.rng
        found = self._several(seq, index, sources)
        if not found:
            return False
        source, needles = found
        question = self.tasks.question_for_several(rng, needles)
        comma, last = (self.tasks.encode(text) for text in rng.choice(((",", ", and"), (",", " and"), (",", ","), (";", ";"), (" and", " and"))))
        ids, copies = [], []
        for i, needle in enumerate(needles):
            if i:
                between = last if i + 1 == len(needles) else comma
                ids, copies = ids + between, copies + [None] * len(between)
            value, at = needle["value"], value_at(needle)
            known = [(source, p) for p in needle["positions"][at - 1:]] if at else []
            ids, copies = ids + value, copies + (known + [None] * len(value))[:len(value)]
        if len(ids) > BLOCK_TOKENS or not seq.room(len(question) + len(ids) + 2):
            return False
        seq.push(question, self.c["weight_task"])
        if not seq.can_flush():
            return False
        seq.flush()
        b = len(seq.starts) - 1
        if source == index and max(n["chunks"][-1] for n in needles) > b - 2:
            return False
        kind = "several" + ("*" if source != index else "")
        seq.queries.append((b, source, sorted({chunk for n in needles for chunk in n["gold"]}), kind))
        seq.kinds.append((kind, any(n["straddles"] for n in needles), None))
        seq.push(ids, self.c["weight_answer"], answer=len(seq.kinds) - 1, copies=copies)
        for needle in needles:
            needle["asked"] += 1
        seq.push(self.tasks.encode(rng.choice((".", ".", "\n", "\n\n"))), self.c["weight_end"])
        return True

    def _ask(self, seq, index, sources, lead=None):
        """A question, a flush and its answer. -> False if nothing could be asked."""
        own, other = self._askable(seq, index, sources)
        rng = self.rng
        pool = other if other and (not own or rng.random() < 0.7) else own
        if not pool:
            return False
        source, needle = rng.choice(pool)
        question, value = self.tasks.question(rng, needle, lead), needle["value"]
        if not seq.room(len(question) + len(value) + 2):
            return False
        across = rng.random() < self.c["across"] and len(value) >= 4 and seq.least == BLOCK_TOKENS
        if across:
            # The answer begins in the question's block; its rest, after the next landmark, can be known.
            gap = BLOCK_TOKENS - len(question) - rng.randint(1, len(value) - 2)
            if gap <= 0 or not seq.room(BLOCK_TOKENS * 2):
                return False
            self._text(seq, (gap - seq.used) % (BLOCK_TOKENS))
        seq.push(question, self.c["weight_task"])
        if across:
            begin, first = len(seq.starts), len(seq.tokens)
            seq.push(value, self.c["weight_answer"])
            for p in range(first, seq.starts[begin] if len(seq.starts) > begin else len(seq.tokens)):
                seq.weights[p] = 0.0
            if len(seq.starts) > begin:
                seq.queries.append((begin, source, needle["gold"], "across"))
        else:
            if not seq.can_flush():
                return False
            seq.flush()
            b = len(seq.starts) - 1
            if source == index and needle["chunks"][-1] > b - 2:
                return False
            kind = needle["kind"] + ("*" if source != index else "")
            seq.queries.append((b, source, needle["gold"], kind))
            distance = len(seq.tokens) - needle["at"] if source == index else None
            seq.kinds.append((kind, needle["straddles"], distance))
            begin, at = len(seq.tokens), value_at(needle)
            copies = [(source, p) for p in needle["positions"][at - 1:]] if at else []
            seq.push(value, self.c["weight_answer"], answer=len(seq.kinds) - 1,
                     copies=(copies + [None] * len(value))[:len(value)])
            if needle["crossing"] is not None:
                for p, weight in enumerate(self.c["weights_crossing"], begin + needle["crossing"]):
                    if p < len(seq.tokens) and seq.answer[p] >= 0:
                        seq.weights[p] = weight
        needle["asked"] += 1
        end = rng.random()
        end = needle["after"] if "after" in needle else "." if end < 0.6 else "\n" if end < 0.9 else "\n\n"
        seq.push(self.tasks.encode(end), self.c["weight_end"])
        return True

    def _fresh(self, source, tokens, at, end, n):
        """Positions of n tokens from the next word after `at` on, none if some stand in the batch twice: the gold chunk would be a
        matter of luck."""
        while at < end and not self.begins_word[tokens[at]]:
            at += 1
        positions = [p for p in range(at, end) if tokens[p] != LMK_ID][:n]
        copies = self.done[source].copies if source < len(self.done) else self.copies
        return [] if any((source, p) in self.repeated or copies[p] for p in positions) else positions

    def _repeat(self, seq, index, sources):
        """Some words of another sequence, or of this one's earlier chunks, as a reader quotes them or reads them again: after the first
        few of them, and mostly a flush, the rest can be known. -> False if there is nothing to repeat."""
        rng = self.rng
        others = [j for j in sources if self.done[j].filler_weight]
        if others and rng.random() < 0.8:
            source = rng.choice(others)
            tokens, end = self.done[source].tokens, len(self.done[source].tokens)
        else:
            # What lies in chunks that the next landmark may retrieve.
            source, tokens, end = index, seq.tokens, seq.starts[-3] if len(seq.starts) > 3 else 0
        self.copies = seq.copies
        lead = rng.randint(*self.c["repeat_lead"])
        n = lead + (rng.randint(8, 60) if rng.random() < 0.6 else rng.randint(60, 400))
        n = min(n, seq.left - n // seq.least - 4)
        last = end - n - n // BLOCK_TOKENS - 2
        if n < lead + 8 or last < 2:
            return False
        positions = self._fresh(source, tokens, rng.randrange(1, last), end, n) or self._fresh(source, tokens, rng.randrange(1, last), end, n)
        if len(positions) < lead + 4:
            return False
        self.repeated.update((source, p) for p in positions)
        ids, copies = [tokens[p] for p in positions], [(source, p) for p in positions]
        weight = seq.filler_weight * self.c["weight_repeat"]
        r = rng.random()
        if r < self.c["thinned"] + self.c["shuffled"]:
            # A question in the text's words, some of them left out, or in another order but for the last.
            words = list(itertools.accumulate(self.begins_word[i] for i in ids[:lead]))
            if r < self.c["thinned"]:
                left_out = set(rng.sample(range(lead), lead // 3))
                sure = lead - rng.choice((1, 3))
                kept = [k for k, word in enumerate(words) if word not in left_out or k >= sure]
            else:
                place = {word: rng.random() for word in words[:-1]}
                place[words[-1]] = 2.0
                kept = sorted(range(lead), key=lambda k: (place[words[k]], k))
            seq.push([ids[k] for k in kept], 0.0, copies=[copies[k] for k in kept])
        else:
            seq.push(ids[:lead], weight, copies=copies[:lead])
        if seq.can_flush() and rng.random() < 0.75:
            seq.flush()
        seq.push(ids[lead:], weight, copies=copies[lead:])
        return True

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
