"""Trains the reranker of a memory (reranker.py) on sentences that the reader finds for the questions of papers, on papers' short questions,
and on prompts for which nobody needs a document.

    PYTHONPATH=train python -m memory.train_reranker --base BASE.gguf --memory models/smollm2-memory --features train/runs/reader.pt \\
        --sentences train/runs/sentences.jsonl --qa train/memory/qa train/memory/qa-second --general train/memory/general.txt --minutes 60

`--features` are those of train_reader.py. It asks the reader about all questions for training, which takes ten minutes on two CPU cores and
is kept in `--sentences`, and trains for `--minutes`; it writes reranker.safetensors and the key "reranker" of memory.json. The judge
(judge.py) has to be trained afterwards.
"""

import argparse
import collections
import json
import math
import os
import random
import re
import time

import torch

from .base import Base
from .data import read_papers
from .fit import add_options, fit
from .reader import open_reader, spans
from .reranker import NO_DOCUMENT, Reranker, open_reranker, reranker_tokens, save
from .train_reader import BATCH as READ_TOGETHER
from .train_reader import Lessons

CONFIG = {"layers": 12, "rank": 48, "context_tokens": 16, "sentence_tokens": 40, "question_tokens": 64}
RATE, DECAY, WARMUP, KEPT_EACH = 1e-3, 0.01, 50, 250
BATCH, WRONG = 16, 3   # questions of a step, and wrong sentences of each beside a right one
UNANSWERED = 0.5       # weight of a question without a right sentence
SHORT_TIMES, GENERAL_TIMES = 2, 4  # how often short questions and general prompts are there
LIKE = 8               # sentences that are most like a short question or a general prompt
BEFORE = 120           # characters before a sentence that are kept
ENDS = re.compile(r"[.!?][\"”’)]*(?=\s|$)|\n")  # of a sentence


def sentence_around(text, begin, end):
    """(the text before, the sentence) around the characters [begin, end) of a text."""
    while begin < end - 1 and text[begin].isspace():
        begin += 1
    ends = [match.end() for match in ENDS.finditer(text)]
    first = max((at for at in ends if at <= begin), default=0)
    last = min((at for at in ends if at > begin and at >= end), default=len(text))
    while first < begin and text[first].isspace():
        first += 1
    return text[max(0, first - BEFORE):first], text[first:last].strip()


class Finder:
    """Sentences around spans of blocks, which may go on in the blocks beside them."""

    def __init__(self, lessons):
        self.lessons, self.texts, self.kept = lessons, lessons.texts, {}

    def text(self, block):
        made = self.lessons.made
        if not 0 <= block < len(made["tokens"]):
            return ""
        if block not in self.kept:
            self.kept[block] = "".join(self.texts[token] for token in made["tokens"][block][made["valid"][block]].tolist())
        return self.kept[block]

    def around(self, i, k, first, last):
        """The sentence around a span of the k-th block of question i."""
        block, tokens = int(self.lessons.made["chosen"][i, k]), self.lessons.block_tokens(i, k)
        before = self.text(block - 1)
        begin = len(before) + sum(len(self.texts[token]) for token in tokens[:first])
        end = begin + sum(len(self.texts[token]) for token in tokens[first:last + 1])
        return sentence_around(before + self.text(block) + self.text(block + 1), begin, end)


@torch.no_grad()
def find_sentences(lessons, reader):
    """A row for each question: it, and [before, sentence, whether it has the answer], those of the likeliest spans first."""
    finder, start = Finder(lessons), time.time()
    for at in range(0, len(lessons.training), READ_TOGETHER):
        part = lessons.training[at:at + READ_TOGETHER]
        with torch.autocast("cpu", torch.bfloat16):
            block, valid, *others = lessons.batch(reader, part, lessons.every_block(part))
            read = reader(block, valid, *others)
        for i, begins, ends, there in zip(part, *read, valid):
            answer, found = lessons.made["answers"][i], {}
            places = [place[1:] for place in spans(begins.float(), ends.float(), there, reader.config)] + lessons.gold[i][:2]
            for place in places:
                before, sentence = finder.around(i, *place)
                found.setdefault(sentence, [before, sentence, bool(answer) and answer.lower() in sentence.lower()])
            yield {"q": lessons.made["questions"][i], "sentences": list(found.values())}
        if at % (100 * READ_TOGETHER) == 0:
            print(f"{at} of {len(lessons.training)} questions: {time.time() - start:.0f} s", flush=True)


def sentences(args, base):
    """The rows of find_sentences, from their file or into it."""
    if not os.path.exists(args.sentences):
        lessons = Lessons(torch.load(args.features, mmap=True), base)
        S, width = lessons.made["tokens"].shape[1], lessons.made["states"].shape[-1]
        with open(args.sentences + ".tmp", "w", encoding="utf-8") as file:
            for row in find_sentences(lessons, open_reader(args.memory, base.d, width - base.d, S)):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        os.replace(args.sentences + ".tmp", args.sentences)
    with open(args.sentences, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def sentences_of(text):
    """[before, sentence] of all sentences of a text."""
    at = 0
    for end in [match.end() for match in ENDS.finditer(text)] + [len(text)]:
        sentence = text[at:end].strip()
        if sentence:
            yield text[:text.index(sentence, at)][-BEFORE:], sentence
        at = end


def words_of(text):
    return set(re.findall(r"\w+", text.lower()))


def short_rows(papers):
    """Rows as those of find_sentences, of the short questions: the right sentences of the paper, and those that share most words with the
    question."""
    for paper in papers:
        if "short" not in paper:
            continue
        there = list(sentences_of(paper["text"]))
        for q, a in [(one["q"], one["a"]) for one in paper["short"]["qa"]] + [(q, None) for q in paper["short"]["none"]]:
            like = sorted(there, key=lambda one: len(words_of(q) & words_of(one[1])), reverse=True)
            marked = [[before, sentence, a is not None and a.lower() in sentence.lower()] for before, sentence in like]
            if a is None or any(right for *_, right in marked):
                yield {"q": q, "sentences": [one for n, one in enumerate(marked) if n < LIKE or one[2]]}


def general_rows(prompts, rows):
    """The same of prompts that need no document: with the sentences of `rows` that have most of their words."""
    there = {sentence: before for row in rows for before, sentence, _ in row["sentences"]}
    places = collections.defaultdict(list)
    for sentence in there:
        for word in words_of(sentence):
            places[word].append(sentence)
    for prompt in prompts:
        score = collections.Counter()
        for word in words_of(prompt):
            for sentence in places.get(word, ())[:2000]:
                score[sentence] += math.log(len(there) / len(places[word])) / (5 + len(sentence)) ** 0.3
        yield {"q": prompt, "general": True, "sentences": [[there[one], one, False] for one, _ in score.most_common(LIKE)]}


def choose(row, rng):
    """One right sentence of a question, if there is one, some wrong ones, and NO_DOCUMENT."""
    right, wrong = ([one for one in row["sentences"] if one[2] == wanted] for wanted in (True, False))
    return ([rng.choice(right)] if right else []) + rng.sample(wrong, min(len(wrong), WRONG)) + [["", NO_DOCUMENT, row.get("general", False)]]


def loss_of(reranker, rows, rng):
    """Of each question: -ln of the right one's part of the softmax over what is chosen and "none", whose score is 0."""
    chosen = [choose(row, rng) for row in rows]
    tokens = [reranker_tokens(reranker.base, reranker.config, before, sentence, row["q"])
              for row, some in zip(rows, chosen) for before, sentence, _ in some]
    total, scores = 0, reranker.scores(tokens).split([len(some) for some in chosen])
    for own, some in zip(scores, chosen):
        log_p = torch.cat([own.float(), own.new_zeros(1)]).log_softmax(0)
        right = [i for i, one in enumerate(some) if one[2]]
        total = total - (log_p[right[0]] if right else UNANSWERED * log_p[-1])
    return total / len(rows)


def train(args):
    base = Base.load(args.base)
    rows = [row for row in sentences(args, base) if row["sentences"]]
    short = list(short_rows(read_papers(args.qa, "train")))
    with open(args.general, encoding="utf-8") as file:
        general = list(general_rows(file.read().splitlines(), rows + short))
    print(f"{len(rows)} questions, {len(short)} short ones, {len(general)} general prompts", flush=True)
    rows += SHORT_TIMES * short + GENERAL_TIMES * general
    base.to("cpu", torch.bfloat16)
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
    parser.add_argument("--sentences", required=True, help="file that keeps what the reader finds")
    parser.add_argument("--qa", required=True, nargs="+", help="folders of papers with short questions; one in eight is held out")
    parser.add_argument("--general", required=True, help="prompts that need no document, a line each")
    add_options(parser, 60, RATE)
    return parser.parse_args(words)


if __name__ == "__main__":
    train(arguments())
