"""Trains the reader of a memory (reader.py) on the questions of papers, and on made-up facts and needles.

    PYTHONPATH=train python -m memory.train_reader --base BASE.gguf --memory models/smollm2-memory --books BOOKS.jsonl.xz \\
        --qa train/memory/qa train/memory/qa-second --features train/runs/reader.pt --minutes 24

It reads the documents with the frozen adapter, which takes a quarter of an hour on two CPU cores and is kept in `--features`, and trains for
`--minutes`; it writes reader.safetensors and the key "reader" of memory.json. It prints how many questions of papers for choosing the
likeliest span answers. The judge (judge.py) has to be trained afterwards. Letters as in reader.py; n blocks, q questions.
"""

import argparse
import json
import os
import random
import time
import zlib

import torch
import torch.nn.functional as F

from .base import Base
from .cpu import cpu_autocast, cpu_dtype
from .data import COMPLETE, HELD_OUT, PLAIN, Library, Maker, read_papers
from .export import load
from .fit import add_options, fit
from .judge import Words
from .oracle import SHARES_IN_TRAINING, Oracle, choose
from .reader import Reader, marks_of, more_blocks, save, spans

CONFIG = {"width": 128, "heads": 2, "layers": 2, "ffn": 256, "question_tokens": 48, "more_blocks": 16, "span_tokens": 16, "spans": 8}
RATE, DECAY, BATCH, WARMUP = 1e-3, 0.02, 32, 100
MORE_BLOCKS = 4            # of a question in a step, drawn from those of the config
UNANSWERED = 0.5           # weight of a question for which no block has the answer
GROUP, PROMPTS = 130, 64   # documents that are asked about beside each other; prompts that run side by side
BOOK_CHARACTERS = 260_000  # of books beside them
MADE = 650                 # segments with made-up facts and needles


class Questions:
    """Blocks of all documents, and questions with the blocks that are chosen for them. Of blocks: tokens and valid [n, S], states
    [n, S, d + d_p], document [n], a number. Of questions: rows [q, T, d], there [q, T]; chosen (-1: none) and weights [q, K], first those that the layers read
    and then those that only the reader does; lists of the texts, of the answers (None: there is none) and of whether they are for
    choosing."""

    @torch.no_grad()
    def __init__(self, base, adapter, book):
        """book: ids of a text beside all documents."""
        self.oracle, self.base, self.config = Oracle(base, adapter), base, adapter.config
        self.blocks, self.asked = [], []
        with cpu_autocast():
            self.book = self.keep(self.oracle.read(book))

    def keep(self, blocks):
        self.blocks.append((blocks.tokens, blocks.valid, torch.cat([blocks.states, blocks.pointer_keys], -1).bfloat16()))
        return blocks

    @torch.no_grad()
    def add(self, documents, choosing):
        """documents: [(ids, [(question, answer)])], which are asked about beside each other."""
        start, before = time.time(), sum(len(tokens) for tokens, *_ in self.blocks)
        number = torch.arange(len(self.book.tokens))
        with cpu_autocast():
            blocks = self.book
            for ids, _ in documents:
                blocks = blocks.join(self.keep(self.oracle.read(ids)))
            number = torch.cat([number, before + torch.arange(len(blocks.tokens) - len(number))])
            questions = sorted(((self.base.chat(q), q, a) for _, asked in documents for q, a in asked), key=lambda one: len(one[0]))
            for at in range(0, len(questions), PROMPTS):
                self.ask(questions[at:at + PROMPTS], blocks, number, choosing)
        print(f"{len(documents)} documents, {len(blocks.tokens)} blocks, {len(questions)} questions: {time.time() - start:.0f} s", flush=True)

    def ask(self, questions, blocks, number, choosing):
        """number: of each block among all that are kept."""
        prompts = [prompt for prompt, _, _ in questions]
        S, T, config, adapter = self.config["chunk_tokens"], CONFIG["question_tokens"], self.config, self.oracle.adapter
        low = self.base.lower(torch.tensor([prompt + [0] * (len(prompts[-1]) - len(prompt)) for prompt in prompts]), config["n_low"])
        at = torch.tensor([len(prompt) for prompt in prompts])[:, None] - S + torch.arange(S)
        there = at >= 0
        rows = low.gather(1, at.clamp(min=0)[..., None].expand(-1, -1, low.shape[-1])) * there[..., None]
        ids = torch.tensor([([0] * S + prompt)[-S:] for prompt in prompts])
        words = self.oracle.word_of[ids] * there
        q, weights, nothing = adapter.encode_queries(rows, words, there)
        shares = config.get("score_shares", SHARES_IN_TRAINING)
        scores = adapter.scores(shares["dense"] * q, words, shares["sparse"] * weights, blocks.keys.float(), blocks.words, blocks.word_weights)
        successor = F.softplus(adapter.score.successor)[0]
        for i, (_, question, answer) in enumerate(questions):
            own = scores[i].float(), nothing[i].float()
            chosen, weight, none = choose(*own, blocks.follows, config["n_ret"], successor)
            more, weight_of_more = more_blocks(*own, chosen, none, CONFIG["more_blocks"])
            pads = 2 * config["n_ret"] - len(chosen), CONFIG["more_blocks"] - len(more)
            self.asked.append((
                rows[i, -T:].bfloat16(), there[i, -T:],
                torch.cat([F.pad(number[some], (0, pad), value=-1) for some, pad in zip((chosen, more), pads)]),
                torch.cat([F.pad(some.float(), (0, pad)) for some, pad in zip((weight, weight_of_more), pads)]), question, answer, choosing))

    def result(self):
        tokens, valid, states = (torch.cat(parts) for parts in zip(*self.blocks))
        document = torch.repeat_interleave(torch.tensor([len(some) for some, *_ in self.blocks]))
        rows, there, chosen, weights = (torch.stack(parts) for parts in list(zip(*self.asked))[:4])
        questions, answers, choosing = list(zip(*self.asked))[4:]
        return {"tokens": tokens, "valid": valid, "states": states, "document": document, "rows": rows, "there": there, "chosen": chosen, "weights": weights,
                "questions": questions, "answers": answers, "choosing": choosing}


def of_paper(base, paper):
    asked = [(q, one["a"]) for one in paper["qa"] for q in one["q"]] + [(q, None) for q in paper["none"]]
    return base.encode(paper["text"]), asked


def made_up(maker, rng):
    """A segment with facts or needles, each asked for once."""
    while True:
        document, asked = maker.book_document(rng), []
        for kind, item, _ in document.items:
            if kind == "fact":
                asked.append((rng.choice(item["q"]), item["a"]))
            elif "cue" in item:
                asked.append((rng.choice(COMPLETE).format(item["cue"].strip()), item["value"].strip()))
            else:
                asked.append((rng.choice(PLAIN).format(**item["fill"]), item["value"].strip()))
        if asked:
            return document.ids, asked[:6]


def for_choosing(paper):
    """Of held-out papers: the half that choices are made by."""
    return zlib.crc32(paper["id"].encode()) // HELD_OUT % 2 == 0


def features(args):
    """What the frozen adapter makes of all questions."""
    base, rng = Base.load(args.base), random.Random(1)
    adapter = load(args.memory, base)
    library = Library(args.books, "train")
    maker = Maker(base, adapter.config, library, [], "train", 0, 0)
    base.to("cpu", cpu_dtype())
    questions = Questions(base, adapter, base.encode(library.passage(rng, BOOK_CHARACTERS)))
    for folder in args.qa:
        questions.add([of_paper(base, paper) for paper in read_papers([folder], "test") if for_choosing(paper)], True)
    documents = [of_paper(base, paper) for paper in read_papers(args.qa, "train")] + [made_up(maker, rng) for _ in range(args.made)]
    rng.shuffle(documents)
    for at in range(0, len(documents), GROUP):
        questions.add(documents[at:at + GROUP], False)
    return questions.result()


def occurrences(texts, tokens, answer):
    """(first, last) tokens of each place where an answer stands in a block, capitals or not."""
    text, of_character = "", []
    for i, token in enumerate(tokens):
        text += texts[token].lower()
        of_character += [i] * (len(text) - len(of_character))
    places, answer, at = [], answer.lower(), text.find(answer.lower())
    while at >= 0:
        places.append((of_character[at], of_character[at + len(answer) - 1]))
        at = text.find(answer, at + 1)
    return places


class Lessons:
    """The features with what the loss needs: where the answers stand."""

    def __init__(self, made, base):
        self.made, self.texts = made, base.texts
        words = Words(base.texts)
        self.words, self.idf = torch.tensor(words.of_token), torch.tensor(words.idf)
        encoded = [base.encode(question) for question in made["questions"]]
        self.asked = [torch.tensor(sorted(words.distinct(words(ids)))) for ids in encoded]
        self.gold = [self.places(i) for i in range(len(encoded))]
        select = lambda wanted: [i for i, one in enumerate(made["choosing"]) if one == wanted and (not wanted or made["answers"][i])]  # noqa: E731
        self.choosing, self.training = select(True), select(False)

    def block_tokens(self, i, k):
        block = self.made["chosen"][i, k]
        return self.made["tokens"][block][self.made["valid"][block]].tolist()

    def places(self, i):
        """(block, first, last) of each place where the answer stands."""
        answer, chosen = self.made["answers"][i], self.made["chosen"][i]
        return [(k, *place) for k in torch.nonzero(chosen >= 0)[:, 0].tolist() if answer
                for place in occurrences(self.texts, self.block_tokens(i, k), answer)]

    def batch(self, reader, questions, blocks):
        """The arguments of Reader.forward for some questions, of each of which `blocks` [B, K'] are read."""
        made, index = self.made, torch.tensor(questions)
        chosen, weights = made["chosen"][index].gather(1, blocks), made["weights"][index].gather(1, blocks)
        valid = made["valid"][chosen] & (chosen >= 0)[..., None]
        tokens = made["tokens"][chosen]
        marks = torch.stack([marks_of(self.words, self.idf, self.asked[i], *one) for i, *one in zip(questions, tokens, weights)])
        return reader.block_rows(made["states"][chosen]), valid, reader.question_rows(made["rows"][index]), made["there"][index], marks

    def every_block(self, questions):
        return torch.arange(self.made["chosen"].shape[1]).expand(len(questions), -1)

    def some_blocks(self, questions, rng):
        """What the layers read, and some of the others."""
        count = self.made["chosen"].shape[1] - CONFIG["more_blocks"]
        return torch.tensor([[*range(count), *(count + k for k in rng.sample(range(CONFIG["more_blocks"]), MORE_BLOCKS))] for _ in questions])

    def loss(self, reader, questions, blocks):
        begins, ends = reader(*self.batch(reader, questions, blocks))
        S, total = self.made["tokens"].shape[1], 0
        for row, i in enumerate(questions):
            at = {int(block): k for k, block in enumerate(blocks[row])}
            gold = [(1 + at[k] * S + first, 1 + at[k] * S + last) for k, first, last in self.gold[i] if k in at]
            if gold:
                first, last = torch.tensor(gold).T
                total = total - torch.logsumexp(begins[row, first] + ends[row, last], 0)
            else:
                total = total - UNANSWERED * (begins[row, 0] + ends[row, 0])
        return total / len(questions)

    @torch.no_grad()
    def right(self, reader, chosen):
        """The share of questions whose answer stands in the likeliest span."""
        reader.eval()
        right = 0
        for at in range(0, len(chosen), BATCH):
            part = chosen[at:at + BATCH]
            block, valid, *others = self.batch(reader, part, self.every_block(part))
            for i, *of_question in zip(part, *reader(block, valid, *others), valid):
                _, k, first, last = spans(*of_question, {**reader.config, "spans": 1})[0]
                said = "".join(self.texts[token] for token in self.block_tokens(i, k)[first:last + 1])
                right += self.made["answers"][i].lower() in said.lower()
        reader.train()
        return right / len(chosen)


def train(args):
    base = Base.load(args.base)
    if not os.path.exists(args.features):
        torch.save(features(args), args.features + ".tmp")
        os.replace(args.features + ".tmp", args.features)
    lessons = Lessons(torch.load(args.features, mmap=True), base)
    with open(os.path.join(args.memory, "memory.json")) as file:
        config = json.load(file)
    torch.manual_seed(args.seed)
    reader = Reader(CONFIG, base.d, config["d_pointer"], config["chunk_tokens"])
    print(f"{len(lessons.training)} questions, {len(lessons.choosing)} for choosing, {sum(p.numel() for p in reader.parameters())} parameters",
          flush=True)
    rng = random.Random(args.seed)

    def one_pass():
        order = rng.sample(lessons.training, len(lessons.training))
        yield from (order[at:at + BATCH] for at in range(0, len(order) - BATCH + 1, BATCH))

    def loss_of(part):
        with cpu_autocast():
            return lessons.loss(reader, part, lessons.some_blocks(part, rng))

    def after_pass(step):
        print(f"step {step}: {lessons.right(reader, lessons.choosing[::4]):.3f} of each fourth for choosing", flush=True)

    fit(reader, one_pass, loss_of, args, decay=DECAY, warmup=WARMUP, after_pass=after_pass)
    print(f"{lessons.right(reader, lessons.choosing):.3f} of {len(lessons.choosing)} for choosing", flush=True)
    save(reader, args.out or args.memory, config)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="GGUF file")
    parser.add_argument("--memory", required=True, help="directory of the memory that it reads for")
    parser.add_argument("--out", help="where the reader goes, if not into --memory; needs to have a copy of memory.json")
    parser.add_argument("--books", default="train/books/books-train.jsonl.xz")
    parser.add_argument("--qa", required=True, nargs="+", help="folders of papers with questions; one in eight is held out")
    parser.add_argument("--features", required=True, help="file that keeps what the adapter makes of them")
    parser.add_argument("--made", type=int, default=MADE, help="segments with made-up facts and needles")
    add_options(parser, 20, RATE)
    return parser.parse_args(words)


if __name__ == "__main__":
    train(arguments())
