"""Trains the reranker of a memory (reranker.py) on passages of what the reader finds for the questions of papers, on questions of somebody who
has one paper open, and on prompts for which nobody needs a document.

    PYTHONPATH=train python -m memory.train_reranker --base BASE.gguf --memory models/smollm2-memory --features train/runs/reader.pt \\
        --passages train/runs/passages.jsonl --qa train/memory/qa train/memory/qa-second --general train/memory/general.txt --minutes 60

`--features` are those of train_reader.py. It asks the reader about all questions for training, which takes a quarter of an hour on two CPU cores
and is kept in `--passages`, and trains for `--minutes`; it writes reranker.safetensors and the key "reranker" of memory.json. The judge
(judge.py) has to be trained afterwards.
"""

import argparse
import collections
import itertools
import json
import math
import os
import random
import re
import time

import torch

from .base import Base
from .cpu import cpu_autocast, cpu_dtype
from .data import read_papers
from .fit import add_options, fit
from .judge import PASSAGE_BLOCKS
from .reader import open_reader, spans
from .reranker import Reranker, open_reranker, reranker_tokens, save
from .train_reader import BATCH as READ_TOGETHER
from .train_reader import Lessons

CONFIG = {"layers": 12, "rank": 48, "sentence_tokens": 48, "question_tokens": 64}
RATE, DECAY, WARMUP, KEPT_EACH = 1e-3, 0.01, 50, 250
BATCH, PASSAGES = 16, 2  # questions of a step, and passages of each
UNANSWERED = 0.5         # weight of a question without an answer
OWN_TIMES, GENERAL_TIMES = 1, 2  # how often questions about one paper and general prompts are there
PASSAGE_CHARACTERS = 200
BLOCKS = PASSAGE_BLOCKS + 1  # of a question: as many as its passages have when it is asked, with the opening
LIKE = 6               # passages that are most like a question about one paper or a general prompt
ENDS = re.compile(r"[.!?][\"”’)]*(?=\s|$)|\n")  # of a sentence


def sentences_of(text, begin=0, end=None):
    """The sentences of a text that have words in the characters [begin, end)."""
    at, sentences = 0, []
    for stop in [match.end() for match in ENDS.finditer(text)] + [len(text)]:
        if text[max(at, begin):min(stop, len(text) if end is None else end)].strip():
            sentences.append(" ".join(text[at:stop].split()))
        at = stop
    return sentences


class Finder:
    """Passages: the sentences of blocks that follow each other, the first and the last of which may go on in the blocks beside them."""

    def __init__(self, lessons):
        self.lessons, self.texts, self.kept = lessons, lessons.texts, {}

    def text(self, block, beside):
        """The text of a block, if it is of the same document as the one beside it."""
        made = self.lessons.made
        if not 0 <= block < len(made["tokens"]) or made["document"][block] != made["document"][beside]:
            return ""
        if block not in self.kept:
            self.kept[block] = "".join(self.texts[token] for token in made["tokens"][block][made["valid"][block]].tolist())
        return self.kept[block]

    def passages(self, i, order):
        """Those of the first blocks of question i by `order`, which has numbers of its blocks."""
        chosen, document = self.lessons.made["chosen"][i].tolist(), self.lessons.made["document"]
        blocks = list(dict.fromkeys(chosen[k] for k in order if chosen[k] >= 0))[:BLOCKS]
        while blocks:
            first = last = blocks[0]
            there = {block for block in blocks if document[block] == document[first]}
            while first - 1 in there:
                first -= 1
            while last + 1 in there:
                last += 1
            blocks = [block for block in blocks if not first <= block <= last]
            before, inside = self.text(first - 1, first), "".join(self.text(block, block) for block in range(first, last + 1))
            yield sentences_of(before + inside + self.text(last + 1, last), len(before), len(before + inside))


@torch.no_grad()
def find_passages(lessons, reader):
    """A row for each question: it, and the passages of the blocks with the likeliest spans and the largest weights in turn, and of those
    that have the answer if these do not: of each its sentences, each with whether it has the answer."""
    finder, start = Finder(lessons), time.time()
    for at in range(0, len(lessons.training), READ_TOGETHER):
        part = lessons.training[at:at + READ_TOGETHER]
        with cpu_autocast():
            block, valid, *others = lessons.batch(reader, part, lessons.every_block(part))
            read = reader(block, valid, *others)
        for i, begins, ends, there in zip(part, *read, valid):
            answer = lessons.made["answers"][i]
            found = [place[1] for place in spans(begins.float(), ends.float(), there, reader.config)]
            by_weight = lessons.made["weights"][i].argsort(descending=True, stable=True).tolist()
            order = [k for both in itertools.zip_longest(found, by_weight) for k in both if k is not None]
            marked = lambda order: [[[one, bool(answer) and answer.lower() in one.lower()] for one in passage]  # noqa: E731
                                    for passage in finder.passages(i, order)]
            passages = marked(order)
            if answer and not has_answer(passages):
                passages += [one for one in marked([place[0] for place in lessons.gold[i]]) if has_answer([one])]
            yield {"q": lessons.made["questions"][i], "passages": passages}
        if at % (100 * READ_TOGETHER) == 0:
            print(f"{at} of {len(lessons.training)} questions: {time.time() - start:.0f} s", flush=True)


def found_passages(args, base):
    """The rows of find_passages, from their file or into it."""
    if not os.path.exists(args.passages):
        lessons = Lessons(torch.load(args.features, mmap=True), base)
        S, width = lessons.made["tokens"].shape[1], lessons.made["states"].shape[-1]
        with open(args.passages + ".tmp", "w", encoding="utf-8") as file:
            for row in find_passages(lessons, open_reader(args.memory, base.d, width - base.d, S)):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        os.replace(args.passages + ".tmp", args.passages)
    with open(args.passages, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def has_answer(passages):
    return any(right for passage in passages for _, right in passage)


def passages_of(text):
    """The sentences of a text in passages of about a block."""
    passages = [[]]
    for sentence in sentences_of(text):
        if sum(map(len, passages[-1])) > PASSAGE_CHARACTERS:
            passages.append([])
        passages[-1].append(sentence)
    return passages


def words_of(text):
    return set(re.findall(r"\w+", text.lower()))


def own_rows(papers):
    """Rows as those of find_passages, of the questions of somebody who has one paper open: short ones, with the passages that share most words
    with the question, and those about the paper as a whole."""
    for paper in papers:
        there = passages_of(paper["text"])
        short, about = (paper.get(key, {"qa": [], "none": [], "q": []}) for key in ("short", "about"))
        asked = [(one["q"], one["a"]) for one in short["qa"]] + [(q, None) for q in short["none"]] + [(q, about["a"]) for q in about["q"]]
        for q, a in asked:
            like = sorted(there, key=lambda one: len(words_of(q) & words_of(" ".join(one))), reverse=True)
            marked = [[[one, a is not None and a.lower() in one.lower()] for one in passage] for passage in like]
            if a is None or has_answer(marked):
                yield {"q": q, "passages": [one for n, one in enumerate(marked) if n < LIKE or has_answer([one])]}


def general_rows(prompts, rows):
    """The same of prompts that need no document: with the passages of `rows` that have most of their words."""
    there = {" ".join(one for one, _ in passage): passage for row in rows for passage in row["passages"]}
    places = collections.defaultdict(list)
    for text in there:
        for word in words_of(text):
            places[word].append(text)
    for prompt in prompts:
        score = collections.Counter()
        for word in words_of(prompt):
            for text in places.get(word, ())[:2000]:
                score[text] += math.log(len(there) / len(places[word])) / (5 + len(text)) ** 0.3
        yield {"q": prompt, "general": True, "passages": [[[one, False] for one, _ in there[text]] for text, _ in score.most_common(LIKE)]}


def choose(row, rng):
    """Some passages of a question, one of which has the answer if there is such a one; an empty one if there is none."""
    right, wrong = ([one for one in row["passages"] if has_answer([one]) == wanted] for wanted in (True, False))
    right = [rng.choice(right)] if right else []
    return right + rng.sample(wrong, min(len(wrong), PASSAGES - len(right))) or [[]]


def loss_of(reranker, rows, rng):
    """Of each question: -ln of the right sentences' part of the softmax over all that are chosen, NO_DOCUMENT, and "none", whose score is 0."""
    chosen = [choose(row, rng) for row in rows]
    tokens = [reranker_tokens(reranker.base, reranker.config, row["q"], [one for one, _ in passage])
              for row, passages in zip(rows, chosen) for passage in passages]
    total, scores = 0, iter(reranker.scores(tokens))
    for row, passages in zip(rows, chosen):
        own = [next(scores).float() for _ in passages]
        log_p = torch.cat([own[0][:1], *[one[1:] for one in own], own[0].new_zeros(1)]).log_softmax(0)
        right = [0] if row.get("general") else [1 + i for i, (_, is_right) in enumerate(itertools.chain(*passages)) if is_right]
        total = total - (torch.logsumexp(log_p[torch.tensor(right)], 0) if right else UNANSWERED * log_p[-1])
    return total / len(rows)


def train(args):
    base = Base.load(args.base)
    rows = [row for row in found_passages(args, base) if row["passages"]]
    own = list(own_rows(read_papers(args.qa, "train")))
    with open(args.general, encoding="utf-8") as file:
        general = list(general_rows(file.read().splitlines(), rows + own))
    print(f"{len(rows)} questions, {len(own)} of somebody who has the document open, {len(general)} general prompts", flush=True)
    rows += OWN_TIMES * own + GENERAL_TIMES * general
    base.to("cpu", cpu_dtype())
    with open(os.path.join(args.memory, "memory.json")) as file:
        config = json.load(file)
    torch.manual_seed(args.seed)
    reranker = open_reranker(args.init, base).train() if args.init else Reranker(CONFIG, base)
    print(f"{sum(p.numel() for p in reranker.parameters())} parameters", flush=True)
    rng = random.Random(args.seed)

    def one_pass():
        rng.shuffle(rows)
        yield from (rows[at:at + BATCH] for at in range(0, len(rows) - BATCH + 1, BATCH))

    def keep(step):
        if step % KEPT_EACH == 0:
            save(reranker, args.out or args.memory, config)

    fit(reranker, one_pass, lambda part: loss_of(reranker, part, rng), args, decay=DECAY, warmup=WARMUP, after_step=keep)
    save(reranker, args.out or args.memory, config)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="GGUF file")
    parser.add_argument("--memory", required=True, help="directory of the memory, with its reader")
    parser.add_argument("--out", help="where the reranker goes, if not into --memory")
    parser.add_argument("--init", help="directory of a reranker to go on from")
    parser.add_argument("--features", required=True, help="file of train_reader.py")
    parser.add_argument("--passages", required=True, help="file that keeps what the reader finds")
    parser.add_argument("--qa", required=True, nargs="+", help="folders of papers with short questions; one in eight is held out")
    parser.add_argument("--general", required=True, help="prompts that need no document, a line each")
    add_options(parser, 60, RATE)
    return parser.parse_args(words)


if __name__ == "__main__":
    train(arguments())
