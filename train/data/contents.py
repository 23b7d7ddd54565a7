"""What stands in one sequence of a batch besides its book: needles, questions with their answers, and passages that are read again."""

import itertools

from data.blocks import BLOCK_TOKENS
from data.sequence import value_at
from data.tokenizer import LMK_ID

# Tokens on either side of a needle whose words may become its key.
NEAR = 100


class Contents:
    """Puts parts into a sequence. Who makes the batch (BatchMaker) has the config `c`, `rng`, `tasks`, `begins_word`, the sequences
    `done`, and of the batch so far `keys`, `bare_nouns` and `repeated`."""

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
