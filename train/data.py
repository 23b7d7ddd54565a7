"""Training data: book text with needles, questions and quotes, laid out in blocks of fixed batch shape.

`Books` holds tokenised books, `Tasks` draws keys, values and phrasings, `BatchMaker` lays out batches.

    python train/data.py prepare --config train/config.json      # tokenises the books once
"""

import argparse
import json
import os
import random
import zlib

import numpy as np

from tokenizer import LMK_ID, Tokenizer, read_books

HEX, DIGITS = "0123456789abcdef", "0123456789"
BLOCK_TOKENS = 63
LOOSE_SHARE = 0.25
BRACES = str.maketrans("", "", "{}")


def is_test_word(word):
    """One word in ten is never drawn as a key or value in training."""
    return zlib.crc32(word.lower().encode()) % 10 == 0


class Books:
    """Token ids of many books as one array, with the places where a word begins."""

    def __init__(self, path):
        data = np.load(path)
        self.tokens, self.starts = data["tokens"], data["starts"]
        self.words = [w for w in str(data["words"]).split("\n") if w]

    @staticmethod
    def prepare(rows, tokenizer, path, unwrap=0.3, seed=3):
        """Tokenises rows and writes the arrays. A share of the books loses its hard line ends."""
        rng, parts, starts, counts, at = random.Random(seed), [], [], {}, 0
        for row in rows:
            text = row["text"]
            for word in text[:200_000].split():
                if word.isalpha() and word.isascii() and 3 <= len(word) <= 10:
                    counts[word] = counts.get(word, 0) + 1
            if rng.random() < unwrap:
                text = "\n\n".join(p.replace("\n", " ") for p in text.split("\n\n"))
            ids = np.array(tokenizer.encode(text), np.uint16)
            parts.append(ids)
            starts.append(at)
            at += len(ids)
        words = sorted(w for w, n in counts.items() if n >= 15)
        temporary = path + ".tmp.npz"
        np.savez(temporary, tokens=np.concatenate(parts), starts=np.array(starts + [at]), words=np.array("\n".join(words)))
        os.replace(temporary, path)

    def passage(self, rng, length):
        """`length` consecutive tokens of one random book (longer books more often)."""
        while True:
            at = rng.randrange(len(self.tokens) - length)
            book = np.searchsorted(self.starts, at, side="right")
            if at + length <= self.starts[book]:
                return self.tokens[at:at + length].tolist()


class Tasks:
    """Draws needles: {noun, key, value, kind} and their wordings. `split` is "train" or "test"."""

    def __init__(self, tokenizer, words, phrases, split, books=None):
        """With `books`, a share of the wordings is made of their fragments, so that no list of phrasings can be learned."""
        self.encode, self.p, self.split = tokenizer.encode, phrases[split], split
        self.books, self.decode = books, tokenizer.decode
        self.words = [w for w in words if is_test_word(w) == (split == "test")]
        self.begins_word = [tokenizer.decode_bytes([i])[:1] in (b" ", b"\n") for i in range(tokenizer.vocab_size)]

    def key(self, rng):
        r = rng.random()
        if r < 0.12:
            return "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(2, 6)))
        if r < 0.2:
            return rng.choice(self.words).capitalize() + " " + str(rng.randrange(1000))
        words = [rng.choice(self.words) for _ in range(rng.choice((1, 1, 2, 2, 2, 3)))]
        if r < 0.55:
            return " ".join(words).lower()
        if r < 0.65:
            return "-".join(words).lower()
        return ("the " if r < 0.75 else "") + " ".join(w.capitalize() for w in words)

    def value(self, rng, kind):
        if kind == "digits":
            return "".join(rng.choice(DIGITS) for _ in range(rng.choice((4, 5, 5, 6, 6, 7, 7, 8))))
        if kind == "letters":
            letters = rng.choice(("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
            return "".join(rng.choice(letters) for _ in range(rng.randint(5, 9)))
        if kind == "hex":
            return "".join(rng.choice(HEX) for _ in range(rng.choice((8, 12, 16, 32, 32))))
        return " ".join(rng.choice(self.words) for _ in range(rng.randint(1, 4))).lower()

    def fragment(self, rng, fewest, most):
        """`fewest` to `most` consecutive words of a book, each with a space before it."""
        words = self.decode(self.books.passage(rng, 4 * most + 8)).translate(BRACES).split()[1:]
        return "".join(" " + word for word in words[:rng.randint(fewest, most)])

    def loose(self, rng, parts):
        """A wording of the given placeholders, in any order, with fragments of books around them."""
        rng.shuffle(parts)
        text = self.fragment(rng, 0, 5)
        for part in parts:
            text += " " + part + (rng.choice(",.:;?") if rng.random() < 0.25 else "") + self.fragment(rng, 0, 4)
        return text.strip()

    def loosely(self, rng):
        return self.books is not None and rng.random() < LOOSE_SHARE

    def template(self, rng):
        if not self.loosely(rng):
            return rng.choice(self.p["needles"])
        return self.loose(rng, ["{key}", "{value}"] + ["{noun}"] * (rng.random() < 0.6)) + rng.choice((".", ".", ".", "", ";"))

    def form(self, rng):
        """What needles of the same form share."""
        kind = rng.choices(("digits", "letters", "hex", "words"), (0.42, 0.15, 0.25, 0.18))[0]
        noun = rng.choice(self.p["nouns"])
        if self.split == "train" and rng.random() < 0.35:
            noun = " ".join(rng.choice(self.words) for _ in range(rng.randint(1, 2))).lower()
        return {"kind": kind, "noun": noun, "template": self.template(rng)}

    def needle(self, rng, form=None, bare_nouns=None):
        """A needle: ids of its sentence, ids of its answer, wording of a question. `bare_nouns` is the set of nouns
        already taken by needles without a key; when given, this needle has no key either."""
        form = form or self.form(rng)
        noun, kind, template = form["noun"], form["kind"], form["template"]
        key, value = self.key(rng), self.value(rng, kind)
        bare = bare_nouns is not None and noun not in bare_nouns
        if bare:
            bare_nouns.add(noun)
            template = rng.choice(self.p["bare_needles"])
        fill = {"noun": noun, "key": key, "value": value}
        sentence = template.format(**fill)
        if not sentence.startswith("\n"):
            sentence = rng.choice((" ", " ", "\n")) + sentence[0].upper() + sentence[1:]
        questions = self.p["bare_questions" if bare else "questions"]
        return {"ids": self.encode(sentence), "value": self.encode(" " + value), "kind": kind, "fill": fill,
                "questions": questions, "sentence": sentence, "bare": bare}

    def question(self, rng, needle, lead=None):
        if self.loosely(rng) and not needle["bare"]:
            form = self.loose(rng, ["{key}"] + ["{noun}"] * (rng.random() < 0.6))
        else:
            form = rng.choice(needle["questions"])
        text = form.format(**needle["fill"])
        lead = rng.choice((" ", "\n", "\n\n")) if lead is None else lead
        return self.encode(lead + rng.choice(self.p.get("prefixes", ("",))) + text[0].upper() + text[1:])


def crossing(needle, fits):
    """Index of the token of a needle's value that begins a chunk, when `fits` tokens of the needle end the one before; or
    None. What comes there can be told only from how the next chunk goes on, so it is learned last."""
    tail = needle["value"][1:]
    for at in range(len(needle["ids"]) - len(tail) + 1):
        if needle["ids"][at:at + len(tail)] == tail and 0 <= fits - at < len(tail):
            return fits - at + 1
    return None


class Sequence:
    """One sequence being laid out: tokens, weights, block starts, needles and questions."""

    def __init__(self, length, max_blocks):
        self.length, self.max_blocks = length, max_blocks
        self.tokens, self.weights, self.answer = [], [], []
        self.starts, self.needles, self.queries = [], [], []
        self.kinds, self.text = [], []
        self._open()

    def _open(self):
        self.starts.append(len(self.tokens))
        self.tokens.append(LMK_ID)
        self.weights.append(0.0)
        self.answer.append(-1)

    @property
    def left(self):
        return self.length - len(self.tokens)

    @property
    def used(self):
        """Tokens in the open block."""
        return len(self.tokens) - self.starts[-1] - 1

    def room(self, n):
        """Whether n more tokens (and their landmarks) surely fit."""
        return self.left >= n + n // BLOCK_TOKENS + 2

    def push(self, ids, weight, answer=-1, is_text=False):
        """Appends tokens, opening blocks as they fill; -> chunk indices touched."""
        touched = set()
        for i in ids:
            if self.left <= 0:
                break
            if self.used == BLOCK_TOKENS:
                self._open()
                if self.left <= 0:
                    break
            if is_text:
                self.text.append(len(self.tokens))
            self.tokens.append(i)
            self.weights.append(weight)
            self.answer.append(answer)
            touched.add(len(self.starts) - 1)
        return touched

    def can_flush(self):
        """A flush must leave enough blocks for the rest of the sequence."""
        blocks_left = self.max_blocks - len(self.starts) - 1
        return self.left > 4 and self.used > 0 and blocks_left * (BLOCK_TOKENS + 1) >= self.left

    def flush(self):
        self._open()


class BatchMaker:
    """Lays out batches for one process. All shapes depend on the config alone."""

    def __init__(self, config, model_config, books, tasks, seed):
        self.c, self.m, self.books, self.tasks = config, model_config, books, tasks
        self.begins_word = tasks.begins_word
        self.rng = random.Random(seed)
        self.noise = np.random.default_rng(seed)
        self.queue = np.zeros((config["queue"], model_config["d_r"]), np.float32)
        self.queue_filled = 0

    def state(self):
        return self.rng.getstate(), self.noise.bit_generator.state

    def set_state(self, state):
        self.rng.setstate(state[0])
        self.noise.bit_generator.state = state[1]

    def remember(self, keys):
        """Adds landmark keys [n, d_r] of finished chunks to the queue of negatives."""
        n = min(len(keys), len(self.queue))
        if n:
            self.queue = np.roll(self.queue, n, 0)
            self.queue[:n] = keys[:n]
            self.queue_filled = min(len(self.queue), self.queue_filled + n)

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
        needle = self.tasks.needle(self.rng, seq.form, self.bare_nouns if self.rng.random() < 0.08 else None)
        fits = BLOCK_TOKENS - seq.used
        if self.rng.random() < self.c["force_straddle"]:
            # Text up to where the needle's first tokens, and no more, still fit into the block.
            first = self.rng.randrange(1, min(len(needle["ids"]), BLOCK_TOKENS))
            self._text(seq, (fits - first) % BLOCK_TOKENS)
        elif len(needle["ids"]) > fits and len(needle["ids"]) < BLOCK_TOKENS and self.rng.random() > self.c["straddle"]:
            self._text(seq, fits + self.rng.randrange(BLOCK_TOKENS - len(needle["ids"])))
        if not seq.room(len(needle["ids"])):
            return
        needle["at"], needle["crossing"] = len(seq.tokens), crossing(needle, BLOCK_TOKENS - seq.used)
        needle["chunks"] = sorted(seq.push(needle["ids"], self.c["weight_task"]))
        needle["asked"], needle["for_others"] = 0, self.rng.random() < self.c["for_others"]
        needle["straddles"] = len(needle["chunks"]) > 1
        seq.needles.append(needle)

    def _askable(self, seq, index, sources):
        """(sequence, needle) pairs whose chunks the landmark after a question may retrieve."""
        # Who asks again sees the earlier question among the candidates, too: rarely so in use.
        most = 2 if self.rng.random() < self.c["ask_again"] else 1
        own = [(index, n) for n in seq.needles if n["asked"] < most and n["chunks"][-1] <= len(seq.starts) - 2
               and not (n["for_others"] and index + 1 < self.c["batch"])]
        other = [(j, n) for j in sources for n in self.done[j].needles if n["asked"] < most]
        return own, other

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
        across = rng.random() < self.c["across"] and len(value) >= 4
        if across:
            # The answer begins in the question's block; its rest, after the next landmark, can be known.
            gap = BLOCK_TOKENS - len(question) - rng.randint(1, len(value) - 2)
            if gap <= 0 or not seq.room(BLOCK_TOKENS * 2):
                return False
            self._text(seq, (gap - seq.used) % (BLOCK_TOKENS))
        seq.push(question, self.c["weight_task"])
        if across:
            begin = len(seq.starts)
            seq.push(value, self.c["weight_answer"])
            for p in range(seq.starts[begin - 1], seq.starts[begin] if len(seq.starts) > begin else len(seq.tokens)):
                if seq.weights[p] == self.c["weight_answer"]:
                    seq.weights[p] = 0.0
            if len(seq.starts) > begin:
                seq.queries.append((begin, source, needle["chunks"], "across"))
        else:
            if not seq.can_flush():
                return False
            seq.flush()
            b = len(seq.starts) - 1
            if source == index and needle["chunks"][-1] > b - 2:
                return False
            kind = needle["kind"] + ("*" if source != index else "")
            seq.queries.append((b, source, needle["chunks"], kind))
            distance = len(seq.tokens) - needle["at"] if source == index else None
            seq.kinds.append((kind, needle["straddles"], distance))
            begin = len(seq.tokens)
            seq.push(value, self.c["weight_answer"], answer=len(seq.kinds) - 1)
            if needle["crossing"] is not None and begin + needle["crossing"] < len(seq.tokens):
                seq.weights[begin + needle["crossing"]] = self.c["weight_crossing"]
        needle["asked"] += 1
        end = rng.random()
        seq.push(self.tasks.encode("." if end < 0.6 else "\n" if end < 0.9 else "\n\n"), self.c["weight_end"])
        return True

    def _quote(self, seq, index, sources):
        """A cue copied from an earlier chunk, a flush, and the chunk's continuation."""
        rng = self.rng
        j = rng.choice(sources) if sources and rng.random() < 0.5 else index
        other = self.done[j] if j != index else seq
        last = len(other.starts) - 1 if j != index else len(seq.starts) - 2
        if last < 1 or not seq.can_flush():
            return
        chunk = rng.randrange(last)
        begin, end = other.starts[chunk] + 1, other.starts[chunk + 1]
        cue, go_on = rng.randint(5, 14), rng.randint(8, 40)
        if end - begin < cue + 8 or not seq.room(cue + go_on + 4):
            return
        at = rng.randrange(begin, end - cue - 6)
        seq.push(other.tokens[at:at + cue], self.c["weight_task"])
        if not seq.can_flush():
            return
        seq.flush()
        b = len(seq.starts) - 1
        if j == index and chunk > b - 2:
            return
        seq.queries.append((b, j, [chunk], "quote" + ("*" if j != index else "")))
        rest = [t for t in other.tokens[at + cue:at + cue + go_on] if t != LMK_ID]
        distance = len(seq.tokens) - begin if j == index else None
        seq.kinds.append(("quote" + ("*" if j != index else ""), False, distance))
        seq.push(rest, self.c["weight_quote"], answer=len(seq.kinds) - 1)

    def _sequence(self, index, sources, tasks_share):
        rng, c = self.rng, self.c
        seq = Sequence(c["length"], c["max_blocks"])
        seq.source = self.books.passage(rng, c["length"])
        seq.filler_weight = 1.0
        if rng.random() < c["random_filler"]:
            seq.source = [self.books.tokens[rng.randrange(len(self.books.tokens))].item() for _ in seq.source]
            seq.filler_weight = 0.0
        seq.form = self.tasks.form(rng) if rng.random() < 0.5 else None
        if rng.random() > tasks_share:
            if rng.random() < 0.5:
                # Plain text with some early-closed blocks.
                while seq.room(140):
                    self._text(seq, rng.randint(10, 130))
                    if seq.can_flush() and rng.random() < 0.4:
                        seq.flush()
            self._text(seq, seq.left + 5)
            return seq
        starts_with_question = bool(sources) and rng.random() < 0.6
        if starts_with_question:
            for _ in range(rng.randint(1, 5)):
                self._ask(seq, index, sources, lead=rng.choice(("", "", " ", "\n")) if seq.used == 0 else None)
                if rng.random() < 0.2:
                    self._text(seq, rng.randint(5, 40))
        while seq.room(90):
            self._text(seq, 1 + min(80, int(rng.expovariate(1 / c["mean_gap"]))))
            r = rng.random()
            early = len(seq.tokens) < 0.4 * c["length"]
            if r < (0.45 if early else 0.2):
                for _ in range(rng.choice((1, 1, 1, 2, 3))):
                    self._needle(seq)
            elif r < 0.9 - c["quote_share"]:
                self._ask(seq, index, sources)
            elif r < 0.9:
                self._quote(seq, index, sources)
        self._text(seq, seq.left + 5)
        return seq

    # -- a batch

    def batch(self, open_share, queue_share, tasks_share, noise_scale):
        """A batch as numpy arrays, plus facts for the log. `open_share`: chance that a sequence sees another one's
        chunks; `queue_share`: chance that it sees the queue of negatives."""
        c, rng = self.c, self.rng
        B, T, N, n_ret = c["batch"], c["length"], c["max_blocks"], self.m["n_ret"]
        self.done, self.bare_nouns, visible = [], set(), []
        for i in range(B):
            sees = [j for j in range(B) if j != i and rng.random() < open_share]
            seq = self._sequence(i, [j for j in sees if j < i], tasks_share)
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
            "queue": self.queue.copy(),
        }
        kinds = []
        for i, seq in enumerate(self.done):
            tokens, n = np.array(seq.tokens[:T]), len(seq.starts)
            weights = np.array(seq.weights[:T], np.float32)
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
        G = len(self.m["groups"])
        out["noise"] = self.noise.gumbel(size=(G, M, M + Q)).astype(np.float32) * noise_scale
        return out, kinds


def prepare(config):
    folder = config["cache"]
    os.makedirs(folder, exist_ok=True)
    tokenizer = Tokenizer(config["tokenizer"])
    with open(config["split"]) as f:
        skip = set(json.load(f)["test_authors"])
    path = os.path.join(folder, "train.npz")
    if not os.path.exists(path):
        Books.prepare(read_books(config["books"], skip), tokenizer, path)
    path = os.path.join(folder, "valid.npz")
    if not os.path.exists(path):
        Books.prepare(read_books(config["books_valid"]), tokenizer, path, unwrap=0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["prepare"])
    parser.add_argument("--config", default="train/config.json")
    args = parser.parse_args()
    with open(args.config) as f:
        prepare(json.load(f)["data"])


if __name__ == "__main__":
    main()
