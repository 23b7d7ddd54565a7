"""What the trainer of a memory reads: documents of one segment, and sessions that ask for what stands in them.

A batch is a function of (seed, step), so that a run which resumes goes on with what it would have seen. Documents are passages of
books, with needles and records (needles.py, records.py) or made-up facts (facts.py) put in, or papers with questions (`--qa`).
Kinds of sessions:

    paper     a question about a paper, and the words that answer
    unknown   a question that fits a paper and that it does not answer
    fact      a question about a made-up fact in other words, and the words that answer
    needle    a needle's or a record's value
    quote     a passage of the document goes on
    blank     a word or more of a sentence, left out
    next      what follows the document; the base with the document as text is the teacher
    general   a prompt that needs no document; the base's own answer, which the base alone teaches
    text      a passage of another book, which the base alone teaches
"""

import bisect
import glob
import json
import os
import random
import re
import zlib
from dataclasses import dataclass, field

import numpy as np
import torch

from data.needles import SHARES, Tasks
from data.tokenizer import read_books

from .base import SYSTEM
from .facts import fact
from .words import block_lengths, can_end

SPLIT, PHRASES = "train/split.json", "train/phrases.json"
SESSION, ANSWER, GOLD = 160, 64, 6  # tokens of a session and, at most, of its answer; blocks that may answer
HELD_OUT = 8  # one paper in so many is in no training
UNKNOWN = "The documents do not say."
NOTHING = ("general", "text")  # kinds that no block has anything for
# A token of a short answer counts more than one of a passage that goes on: an answer has a tenth of its tokens.
WEIGHTS = {"paper": 3.0, "fact": 2.0, "unknown": 2.0, "quote": 0.6, "next": 0.1, "general": 0.0, "text": 0.0}
PAPER_SHARE = 0.55  # of the documents
# Kinds of sessions about documents with something to ask for ("item") and without.
SHARES_WITH_ITEMS = {"item": 0.76, "quote": 0.06, "blank": 0.06, "next": 0.03, "general": 0.06, "text": 0.03}
SHARES_WITHOUT = {"quote": 0.4, "blank": 0.3, "next": 0.1, "general": 0.12, "text": 0.08}
WORDING_SHARES = dict.fromkeys(SHARES, 0.1) | {"record": 0.5, "composed": 0.3}

ASKS = ("", "", "", "", "", "", "Answer in a few words. ", "According to the documents: ", "Look it up: ", "Please tell me: ")
SYSTEMS = ("", "You are a helpful assistant.", "Answer from the documents.", "You answer questions about the papers of our office. Be brief.",
           "You are a friendly assistant who answers in a few words.")
CONTINUE = ("Continue the passage: {}", "What comes after this in the text?\n\n{}", "How does the text go on after these words? {}",
            "Quote what follows: {}", "{}")
BLANK = ("Fill in the blank: {}", "Which words are missing?\n{}", "What stands in place of ____ in the text? {}", "{}\nWhat is ____?")
COMPLETE = ("Complete the line: {}", "Look up and complete:\n{}", "What follows in the record?\n{}", "{}")
PLAIN = ("What is the {noun} of {key}?", "Tell me the {noun} for {key}.", "Which {noun} does {key} have?", "I need the {noun} of {key}.",
         "{key}: what is the {noun}?", "Find the {noun} that belongs to {key}.")
GENERAL = (
    "What is {n} plus {m}?", "Which is bigger, {n} or {m}?", "What does the word {a} mean?", "Use the word {a} in a sentence.",
    "Write a poem on {a} and {b}.", "Give me three tips about {a}.", "What is the difference between {a} and {b}?", "What rhymes with {a}?",
    "Write the first sentence of a story about {a}.", "Tell me a joke about {a}.", "Translate {a} into French.", "Describe {a} in one sentence.",
    "How do I make {a}?", "Is {a} good for your health?", "Write an email to my boss about {a}.", "Give me a title for a book about {a}.",
    "Name three cities in {c}.", "Tell me something about {c}.", "Which language is spoken in {c}?", "Plan a weekend in {c}.", "Who is {a}?",
    "Summarize this in one sentence: {t}", "{t}\n\nWhat is this text about?", "Correct the grammar: {t}", "Rewrite in simpler words: {t}",
    "Give a title to this: {t}", "{t}\n\nWho is mentioned in this text?", "Is this sad or happy? {t}", "Can you help me with {a}?",
    "What does a {a} look like?", "Explain {a} to a child.", "Write a function in Python that reverses a list.", "Rewrite more politely: give me the {a}.",
    "How long is the Nile?", "Who painted the Mona Lisa?", "How do I boil an egg?", "Why is the sky blue?", "Who are you?", "Hello!",
    "Thank you.", "Explain photosynthesis in two sentences.", "List the four seasons.", "Good morning!", "What can you do?", "How many days are in a year?", "Count to ten.")

COUNTRIES = "Germany Italy Spain Portugal China India Egypt Kenya Mexico Canada Sweden Poland Greece Turkey Ireland Austria Cuba Vietnam Morocco".split()


@dataclass
class Document:
    ids: list
    rest: list  # what follows in its text
    lengths: list  # of its blocks
    items: list = field(default_factory=list)  # (kind, what is asked, position of the token that the answer begins with, or None)


@dataclass
class Session:
    kind: str
    prompt: list
    answer: list
    weight: float  # of an answer's token in the loss
    positions: list  # tokens of the document whose blocks answer


class Text:
    """Stands in for a tokenizer where needles.py is to make text: its ids are characters."""

    token_bytes = ()
    encode = decode = staticmethod(lambda text: text)


class Library:
    """Texts of books of one split; passages have a length in characters."""

    def __init__(self, path, split, limit=None):
        with open(SPLIT, encoding="utf-8") as f:
            test = json.load(f)["test_authors"]
        self.texts, counts = [], {}
        for row in read_books(path, test if split == "train" else ()):
            if split == "train" or row["author"] in test:
                text = row["text"]
                # Two thirds lose the line ends within paragraphs.
                self.texts.append("\n\n".join(p.replace("\n", " ") for p in text.split("\n\n")) if len(self.texts) % 3 else text)
                for word in text[:200_000].split():
                    if word.isalpha() and word.isascii() and 3 <= len(word) <= 10:
                        counts[word] = counts.get(word, 0) + 1
            if len(self.texts) == limit:
                break
        self.words = sorted(word for word, n in counts.items() if n >= 4)
        self.ends = np.cumsum([len(text) for text in self.texts])

    def passage(self, rng, length):
        """About `length` consecutive characters of one book (longer books more often), from the beginning of a word on."""
        text = self.texts[bisect.bisect_right(self.ends, rng.randrange(int(self.ends[-1])))]
        at = rng.randrange(max(1, len(text) - length))
        return text[max(text.find(" ", at, at + 100), 0):][:length] if at else text[:length]


def held_out(paper):
    return zlib.crc32(paper["id"].encode()) % HELD_OUT == 0


def read_papers(folders, split):
    """Papers of folders of JSON lines: {id, text, qa: [{q: [wordings], a, say?}], none: [questions]}."""
    papers = []
    for path in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8") as lines:
            papers += [paper for paper in map(json.loads, lines) if held_out(paper) == (split == "test")]
    return papers


class Maker:
    def __init__(self, base, config, library, papers, split, documents, sessions):
        """documents, sessions: of a batch."""
        self.base, self.config, self.library, self.papers, self.split = base, config, library, papers, split
        self.documents, self.sessions = documents, sessions
        self.end = base.tokenizer.token_to_id("<|im_end|>")
        self.ends = can_end(base.texts)
        with open(PHRASES, encoding="utf-8") as f:
            self.tasks = Tasks(Text, library.words, json.load(f), split, library, WORDING_SHARES)
        sample = library.texts[0][:20_000]
        # Characters of a segment, and some more for what follows it.
        self.characters = int(1.2 * config["segment_tokens"] * len(sample) / len(base.encode(sample)))
        self.own_answers = []  # (prompt, answer) of the base alone

    # -- documents

    def document(self, rng):
        return self.paper_document(rng) if self.papers and rng.random() < PAPER_SHARE else self.book_document(rng)

    def finish(self, text, marks):
        """marks: (kind, what is asked, character that the answer begins at, where it ends); those past the segment are left out."""
        coded, most = self.base.encoding(text), self.config["segment_tokens"]
        ids, starts = coded.ids[:most], [start for start, _ in coded.offsets[:most]]
        last = coded.offsets[len(ids) - 1][1]
        items = [(kind, asked, bisect.bisect_right(starts, at) - 1 if at is not None else None)
                 for kind, asked, at, end in marks if end <= last]
        return Document(ids, coded.ids[most:most + 128], block_lengths(ids, self.ends, self.config), items)

    def paper_document(self, rng):
        """Papers one after the other, or one or two within a passage of a book."""
        book = self.library.passage(rng, self.characters) if rng.random() < 0.5 else ""
        text, marks = book[:rng.randrange(self.characters // 2)] + "\n\n" if book else "", []
        for paper in rng.sample(self.papers, min(len(self.papers), rng.choice((1, 2)) if book else 3)):
            for qa in paper["qa"]:
                at = len(text) + paper["text"].index(qa["a"])
                marks.append(("paper", qa, at, at + len(qa["a"])))
            text += paper["text"] + "\n\n"
            # A question without an answer counts for the document only where all of the paper is in it.
            marks += [("unknown", {"q": [q], "a": UNKNOWN}, None, len(text) - 2) for q in paper["none"]]
        return self.finish(text + book[-self.characters:], marks)

    def book_document(self, rng):
        """A passage with needles or facts between its sentences, now and then all of them at one place."""
        passage, parts, marks, at, length = self.library.passage(rng, self.characters), [], [], 0, 0
        made = self.facts(rng) if rng.random() < 0.5 else self.needles(rng)
        together = rng.random() < 0.2
        for n, (kind, sentence, asked, value) in enumerate(made):
            if n == 0 or not together:
                stop = passage.find(". ", at + rng.randrange(max(1, len(passage) // (2 if together else max(4, len(made))))))
                if stop < 0:
                    break
                parts.append(passage[at:stop + 1])
                length, at = length + stop + 1 - at, stop + 1
            parts.append(sentence)
            found = length + sentence.rfind(value)
            marks.append((kind, asked, found, found + len(value)))
            length += len(sentence)
        return self.finish("".join(parts) + passage[at:], marks)

    def needles(self, rng):
        """[(kind, sentence, what is asked, value)]"""
        forms, made = [], []
        for _ in range(rng.choice((0, 1, 2, 4, 8))):
            form = rng.choice(forms) if forms and rng.random() < 0.5 else self.tasks.form(rng)
            forms.append(form)
            needle = self.tasks.needle(rng, form)
            made.append(("needle", needle["sentence"], needle, needle["value"].strip()))
        return made

    def facts(self, rng):
        """The same of facts; several are of one relation, and none has two values."""
        made, relation = {}, None
        for _ in range(rng.choice((1, 3, 6, 12, 20))):
            subject, relation, sentence, asked = fact(rng, self.split, relation if rng.random() < 0.4 else None)
            made.setdefault((subject, relation), ("fact", rng.choice((" ", " ", "\n")) + sentence, asked, asked["a"]))
        return list(made.values())

    # -- sessions

    def session(self, rng, document):
        kinds = SHARES_WITH_ITEMS if document.items else SHARES_WITHOUT
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        if kind == "item":
            kind, asked, at = rng.choice(document.items)
            if kind == "unknown" and rng.random() < 0.3:
                kind, asked, at = rng.choice(document.items)
            made = self.needle(rng, asked, at) if kind == "needle" else self.ask(rng, kind, asked, at, document)
        else:
            made = getattr(self, kind)(rng, document)
        return made or self.text(rng, document)

    def said(self, text):
        """Ids of an answer in a chat."""
        return [*self.base.encode(text), self.end]

    def ask(self, rng, kind, asked, at, document):
        """A question in plain words, now and then under another system line or after another question about the document."""
        question, system, before = rng.choice(ASKS) + rng.choice(asked["q"]), SYSTEM, ()
        if rng.random() < 0.1:
            system = rng.choice(SYSTEMS)
        elif rng.random() < 0.1:
            other = rng.choice(document.items)[1]
            before = [(rng.choice(other["q"]), other.get("say", other["a"]))] if other is not asked else ()
        answer = asked["say"] if "say" in asked and rng.random() < 0.4 else asked["a"]
        prompt = self.base.chat(question, system, before)
        return Session(kind, prompt, self.said(answer), WEIGHTS[kind], [at] if at is not None else [])

    def needle(self, rng, asked, at):
        value = asked["value"].strip()
        if rng.random() < 0.5:
            question = rng.choice(COMPLETE).format(asked["cue"].strip()) if "cue" in asked else rng.choice(PLAIN).format(**asked["fill"])
            return Session("needle", self.base.chat(question), self.said(value), 1.0, [at])
        after = asked.get("after", rng.choice((".", "\n")))
        # A record's value may follow its cue without a blank.
        lead = asked["value"][:len(asked["value"]) - len(asked["value"].lstrip())]
        return Session("needle", self.base.encode(self.tasks.question(rng, asked)), self.base.encode(lead + value + after), 1.0, [at])

    def quote(self, rng, document):
        n, k = rng.choice((6, 10, 16, 24, 40)), rng.choice((24, 40, 60))
        if len(document.ids) < n + k + 2:
            return None
        at = rng.randrange(1, len(document.ids) - n - k)
        prompt, answer = document.ids[at:at + n], document.ids[at + n:at + n + k]
        if rng.random() < 0.3:  # words left out, but for the last ones
            prompt = [token for i, token in enumerate(prompt) if i >= n - 3 or rng.random() > 0.35]
        if rng.random() < 0.4:
            prompt = self.base.chat(rng.choice(CONTINUE).format(self.base.decode(prompt).strip()))
        return Session("quote", prompt, answer, WEIGHTS["quote"], [at + n - 1, at + n, at + n + k // 2])

    def blank(self, rng, document):
        stops = np.flatnonzero(self.ends[np.asarray(document.ids)]) + 1
        spans = [(a, b) for a, b in zip(stops, stops[1:]) if 10 <= b - a <= 50]
        if not spans:
            return None
        first, last = rng.choice(spans)
        words = re.findall(r"\s*\S+", self.base.decode(document.ids[first:last]))
        if len(words) < 6:
            return None
        names = [i for i, word in enumerate(words[1:-3], 1) if word.strip()[0].isupper() or word.strip()[0].isdigit()]
        at, n = rng.choice(names) if names and rng.random() < 0.6 else rng.randrange(1, len(words) - 3), rng.choice((1, 1, 1, 2, 3))
        answer = "".join(words[at:at + n]).strip(" \n.,;:!?\"'()“”’")
        if not answer:
            return None
        question = rng.choice(BLANK).format(("".join(words[:at]) + " ____" + "".join(words[at + n:])).strip())
        return Session("blank", self.base.chat(question), self.said(answer), 1.0, [first + (last - first) * at // len(words)])

    def next(self, rng, document):
        n = rng.choice((8, 24, 48))
        if len(document.rest) < n + 8:
            return None
        return Session("next", document.rest[:n], document.rest[n:n + 56], WEIGHTS["next"], [])

    def general(self, rng, document):
        if not self.own_answers:
            return None
        return Session("general", *rng.choice(self.own_answers), WEIGHTS["general"], [])

    def text(self, rng, document):
        ids, n = self.base.encode(self.library.passage(rng, 700)), rng.randint(8, 80)
        return Session("text", ids[:n], ids[n:n + 56], WEIGHTS["text"], [])

    def general_prompt(self, rng):
        word = lambda: rng.choice(self.library.words).lower()
        text = " ".join(self.library.passage(rng, 260).split())
        return self.base.chat(rng.choice(GENERAL).format(a=word(), b=word(), c=rng.choice(COUNTRIES), n=rng.randrange(99), m=rng.randrange(99), t=text))

    # -- batches

    def batch(self, seed, step):
        """Tensors of one step. D documents of T tokens with at most N blocks; B sessions of SESSION tokens:
        documents [D, T], starts, lengths [D, N] (0: no block); ids [B, SESSION], prompt_length, length [B], weight [B, SESSION] of what
        each position predicts, gold [B, GOLD] (document N + block, or -1), of [B] the session's document; kinds, a list."""
        rng, T = random.Random(f"{seed} {self.split} {step}"), self.config["segment_tokens"]
        N = -(-T // self.config["min_chunk_tokens"]) + 1
        batch = {name: torch.zeros(shape, dtype=torch.long) for name, shape in (
            ("documents", (self.documents, T)), ("starts", (self.documents, N)), ("lengths", (self.documents, N)),
            ("ids", (self.sessions, SESSION)), ("prompt_length", self.sessions), ("length", self.sessions), ("of", self.sessions))}
        batch |= {"weight": torch.zeros(self.sessions, SESSION), "gold": torch.full((self.sessions, GOLD), -1), "kinds": []}
        documents = [self.document(rng) for _ in range(self.documents)]
        for d, document in enumerate(documents):
            lengths = torch.tensor(document.lengths)
            batch["documents"][d, :len(document.ids)] = torch.tensor(document.ids)
            batch["starts"][d, :len(lengths)], batch["lengths"][d, :len(lengths)] = lengths.cumsum(0) - lengths, lengths
        for s in range(self.sessions):
            d = s % self.documents
            made = self.session(rng, documents[d])
            prompt, answer = made.prompt[-(SESSION - ANSWER):], made.answer[:ANSWER]
            first, last = len(prompt), len(prompt) + len(answer)
            batch["ids"][s, :last] = torch.tensor(prompt + answer)
            batch["prompt_length"][s], batch["length"][s], batch["of"][s] = first, last, d
            batch["weight"][s, first - 1:last - 1] = made.weight
            ends = np.cumsum(documents[d].lengths)
            gold = sorted({d * N + int(np.searchsorted(ends, at, side="right")) for at in made.positions})
            batch["gold"][s, :len(gold)] = torch.tensor(gold, dtype=torch.long)
            batch["kinds"].append(made.kind)
        return batch


class Batches(torch.utils.data.Dataset):
    """Batches by their steps, for a DataLoader whose processes draw them."""

    def __init__(self, maker, seed):
        self.maker, self.seed = maker, seed

    def __getitem__(self, step):
        return self.maker.batch(self.seed, step)
