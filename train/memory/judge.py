"""Trains the judge that chooses among drafts of an answer (model/judge.h), and is its oracle.

    PYTHONPATH=train python -m memory.judge --base BASE.gguf --drafts drafts.jsonl drafts-second.jsonl --memory models/smollm2-memory
    PYTHONPATH=train python -m memory.judge --golden tests/model/judge_golden.json

The first command fits it to drafts of questions for choosing (bench/questions/drafts.py) and writes it into memory.json, which needs a
minute. It prints how often the chosen draft is right, of each tenth of the documents by a judge that was fitted to the others. The
second one writes a golden case.
"""

import argparse
import json
import math
import os
import random
import sys
import zlib

import numpy as np
import torch

from data.idf import word_text

from .export import write_config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FEATURES = ("first", "likely", "rest", "mean", "tokens", "ended", "refuses", "agrees", "overlap", "run", "weight", "around", "asked",
            "echoes", "digits", "document", "from_span", "span_words", "span_share", "span_both", "nearest_span", "says_spans", "says_span", "in_span",
            "best_span", "nothing")
DRAFTS, DRAFT_TOKENS, REFUSAL = 6, 16, "The documents do not say."
SPAN_DRAFTS = 2           # as many of the reader's spans are drafts, too
LEAST_LOGPROB, LEAST_SHARE = -15.0, 1e-3  # of spans
AROUND, TELLING = 8, 3.0  # words beside a run; the idf above which a word says what an answer is about
UNITS, PARTS = 8, 3       # hidden units of each part; the judge is the mean of the parts, which begin from other numbers
STEPS, RATE, DECAY = 150, 5e-3, 3e-2
UNANSWERABLE = 0.5        # the weight of a question without an answer
FOLDS = 10


class Words:
    """Word numbers of token ids and the idf of words, as model/text/words.h has them. texts: of each id."""

    def __init__(self, texts):
        with open(os.path.join(ROOT, "model/text/idf.txt")) as file:
            rows = [line.split(" ") for line in file.read().split("\n") if line]
        absent = int(rows[0][1]) / 100
        idf = {word: int(row[0]) / 100 for row in rows[1:] for word in row[1:]}
        least = min([absent, *idf.values()])
        numbers = {}
        self.of_token = [numbers.setdefault(word_text(text), len(numbers)) for text in texts]
        self.idf = [idf.get(word, absent if any(c.isalnum() for c in word) else least) for word in numbers]
        self.digit = [any(c in "0123456789" for c in word) for word in numbers]
        self.blank = numbers.get("", -1)

    def __call__(self, tokens):
        return [self.of_token[token] for token in tokens]

    def distinct(self, words):
        return set(words) - {self.blank}

    def sum(self, words):
        return sum(self.idf[word] for word in sorted(words))


def share(part, whole):
    return part / whole if whole > 0 else 0.0


def longest_run(draft, block):
    """(words, begin in the block) of the longest run of a draft's words in a block, the first of equal ones."""
    best, before = (0, 0), [0] * (len(block) + 1)
    for word in draft:
        here = [0] * (len(block) + 1)
        for j, other in enumerate(block):
            if other == word:
                here[j + 1] = before[j] + 1
                if here[j + 1] > best[0]:
                    best = here[j + 1], j + 1 - here[j + 1]
        before = here
    return best


def says(whole, part):
    """Whether all words of a part, at least one, stand in the whole, one after the other."""
    return bool(part) and any(whole[i:i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def span_features(words, said, spans, nothing):
    """What the reader's spans say of a draft's words. spans: (words, ln p), the likeliest first."""
    if not spans:
        return [0.0] * 9
    plain = lambda some: [word for word in some if word != words.blank]  # noqa: E731
    own, whole = words.distinct(said), words.sum(words.distinct(said))
    shares, nearest, says_spans, says_span, in_span = np.zeros(3), [], 0.0, LEAST_LOGPROB, LEAST_LOGPROB
    for text, logprob in spans:
        common, least = words.sum(own & words.distinct(text)), max(logprob, LEAST_LOGPROB)
        of_span, of_draft = share(common, words.sum(words.distinct(text))), share(common, whole)
        both = share(2 * of_span * of_draft, of_span + of_draft)
        shares += math.exp(logprob) * np.array([of_span, of_draft, both])
        nearest.append(least + math.log(max(both, LEAST_SHARE)))
        if says(plain(said), plain(text)):
            says_spans, says_span = says_spans + math.exp(logprob), max(says_span, least)
        if says(plain(text), plain(said)):
            in_span = max(in_span, least)
    best = max(spans[0][1], LEAST_LOGPROB)
    return [*shares, max(nearest), says_spans, says_span - best, in_span - best, best, max(nothing, LEAST_LOGPROB)]


def features(words, question, blocks, spans, nothing, drafts, refusal):
    """[drafts, FEATURES] of one question. question, refusal: token ids; blocks: (token ids, weight, document); spans: (token ids, ln p)
    that the reader finds, none without one; nothing: ln p that there is no answer; drafts: (token ids without the end, log probabilities
    of them and of the end, whether it ended, whether it begins with a span)."""
    asked = words.distinct(words(question))
    read, refused = [words(tokens) for tokens, _, _ in blocks], words(refusal)
    said, found = [words(tokens) for tokens, *_ in drafts], [(words(tokens), logprob) for tokens, logprob in spans]
    sets = [words.distinct(one) for one in said]
    likely = [math.exp(logprobs[0]) for _, logprobs, *_ in drafts]
    likely_digits = sum(p for p, one in zip(likely, said) if words.digit[one[0]])
    rows = []
    for k, (tokens, logprobs, ended, from_span) in enumerate(drafts):
        others = [j for j in range(len(drafts)) if j != k]
        own, rest = words.sum(sets[k]), logprobs[1:]
        runs = [longest_run(said[k], block) for block in read]
        at = max(range(len(blocks)), key=lambda i: (runs[i][0], blocks[i][1], -i))
        count, begin = runs[at]
        block, end = read[at], begin + count
        around = set(block[max(0, begin - AROUND):begin] + block[end:end + AROUND]) if count else set()
        rows.append([
            logprobs[0], likely[k], sum(rest), share(sum(rest), len(rest)), len(tokens), ended, said[k][:len(refused)] == refused,
            sum(likely[j] for j in others if any(words.idf[word] > TELLING for word in sets[k] & sets[j])),
            sum(likely[j] * share(words.sum(sets[k] & sets[j]), own) for j in others),
            count, blocks[at][1], share(words.sum(asked & around), words.sum(asked)),
            share(words.sum(asked & words.distinct(block)), words.sum(asked)), share(words.sum(sets[k] & asked), own),
            1 - likely_digits if any(words.digit[word] for word in said[k]) else 0.0,
            sum(weight for _, weight, document in blocks if document == blocks[at][2]), from_span,
            *span_features(words, said[k], found, nothing)])
    return np.array(rows, dtype=np.float64)


def scores(judge, x):
    """The scores of rows of features: linear_i x_i + Σ_h out_h tanh(bias_h + in_hi x_i)."""
    hidden = np.array(judge["hidden"], dtype=np.float64).reshape(-1, len(FEATURES) + 2)
    return x @ np.array(judge["linear"]) + np.tanh(hidden[:, 1] + x @ hidden[:, 2:].T) @ hidden[:, 0]


class Questions:
    """Questions with their drafts: `x` and `right` have a row for each draft, `at` says where those of a question begin."""

    def __init__(self, paths, tokenizer, words):
        self.rows = [json.loads(line) for path in paths for line in open(path, encoding="utf-8")]
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids  # noqa: E731
        blocks, x = {}, []
        for row in self.rows:
            for block in row["blocks"]:
                blocks.setdefault(block["text"], encode(block["text"]))
            read = [(blocks[block["text"]], block["weight"], block["document"]) for block in row["blocks"]]
            spans = [(span["tokens"], span["logprob"]) for span in row["spans"]]
            x.append(features(words, encode(row["q"]), read, spans, row["nothing"], [self.cut(draft) for draft in row["drafts"]], encode(REFUSAL)))
        self.at = np.cumsum([0] + [len(one) for one in x])
        self.x = np.concatenate(x)
        self.right = np.array([draft["right"] for row in self.rows for draft in row["drafts"]])
        self.answerable = np.array([row["kind"] == "answerable" for row in self.rows])
        self.fold = np.array([zlib.crc32(row["document"].encode()[::-1]) % FOLDS for row in self.rows])

    @staticmethod
    def cut(draft):
        tokens, logprobs = draft["tokens"], draft["logprobs"]
        whole = draft["ended"] and len(tokens) < DRAFT_TOKENS
        kept = (tokens, logprobs, True) if whole else (tokens[:DRAFT_TOKENS], logprobs[:DRAFT_TOKENS], False)
        return *kept, draft["from_span"]

    def drafts(self, i):
        return slice(self.at[i], self.at[i + 1])


def fit_part(questions, chosen, scaled, seed):
    """(linear, hidden) of the scaled features: the right drafts of a question get a large share of the softmax over its drafts."""
    torch.manual_seed(seed)
    x = torch.tensor(scaled, dtype=torch.float32)
    width, useful = len(FEATURES), [i for i in chosen if 0 < questions.right[questions.drafts(i)].mean() < 1]
    most = max(np.diff(questions.at))
    index = np.zeros((len(useful), most), dtype=np.int64)
    there = np.zeros((len(useful), most), dtype=bool)
    for row, i in enumerate(useful):
        count = questions.at[i + 1] - questions.at[i]
        index[row, :count], there[row, :count] = np.arange(questions.at[i], questions.at[i + 1]), True
    index, there = torch.tensor(index), torch.tensor(there)
    right = torch.tensor(questions.right)[index] & there
    weight = torch.tensor(np.where(questions.answerable[useful], 1.0, UNANSWERABLE), dtype=torch.float32)
    hidden, out, linear = torch.nn.Linear(width, UNITS), torch.nn.Linear(UNITS, 1, bias=False), torch.nn.Linear(width, 1, bias=False)
    optimizer = torch.optim.AdamW([*hidden.parameters(), *out.parameters(), *linear.parameters()], lr=RATE, weight_decay=DECAY)
    for _ in range(STEPS):
        optimizer.zero_grad()
        z = (linear(x) + out(torch.tanh(hidden(x))))[:, 0][index].masked_fill(~there, -1e9)
        loss = torch.logsumexp(z, 1) - torch.logsumexp(z.masked_fill(~right, -1e9), 1)
        (loss * weight).mean().backward()
        optimizer.step()
    return linear.weight[0].detach().numpy(), np.column_stack([out.weight[0].detach(), hidden.bias.detach(), hidden.weight.detach()])


def fit(questions, chosen):
    """The judge of these questions, without a price of refusals."""
    rows = np.concatenate([np.arange(questions.at[i], questions.at[i + 1]) for i in chosen])
    mean, scale = questions.x[rows].mean(0), questions.x[rows].std(0) + 1e-9
    linear, hidden = np.zeros(len(FEATURES)), []
    for seed in range(PARTS):
        of_x, units = fit_part(questions, chosen, (questions.x - mean) / scale, seed)
        linear += of_x / scale / PARTS
        for out, bias, *of_x in units:
            of_x = np.array(of_x) / scale
            hidden.append([out / PARTS, bias - of_x @ mean, *of_x])
    return {"drafts": DRAFTS, "draft_tokens": DRAFT_TOKENS, "span_drafts": SPAN_DRAFTS, "refusal": REFUSAL, "linear": linear.tolist(), "hidden": hidden}


def refused_share(questions, z, price):
    """How many of the questions that have an answer are refused if a refusal's score is so much less."""
    refuses = questions.x[:, FEATURES.index("refuses")]
    best = [questions.at[i] + np.argmax((z - price * refuses)[questions.drafts(i)]) for i in range(len(questions.rows))]
    return np.mean(refuses[best][questions.answerable]), np.array(best)


def price_of_refusals(questions, z):
    """What a refusal's score has to be less by, so that as many questions that have an answer are refused as by the first drafts."""
    greedy = np.mean(questions.x[questions.at[:-1], FEATURES.index("refuses")][questions.answerable])
    low, high = -10.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if refused_share(questions, z, middle)[0] > greedy else (low, middle)
    return high


def report(questions, z, price):
    refused, best = refused_share(questions, z, price)
    greedy, has = questions.at[:-1], questions.answerable
    right, before = questions.right[best], questions.right[greedy]
    refuses = questions.x[:, FEATURES.index("refuses")]
    print(f"{has.sum()} questions with an answer: right {right[has].mean():.3f}, first drafts {before[has].mean():.3f} "
          f"(+{(right & ~before)[has].sum()} -{(before & ~right)[has].sum()}), one of the drafts "
          f"{np.mean([questions.right[questions.drafts(i)].any() for i in np.flatnonzero(has)]):.3f}; refused {refused:.3f}, "
          f"{refuses[greedy][has].mean():.3f}")
    if not has.all():
        print(f"{(~has).sum()} without an answer: refused {refuses[best][~has].mean():.3f}, first drafts {refuses[greedy][~has].mean():.3f}")


def train(arguments):
    from data.smollm import read_tokenizer, token_texts
    tokenizer = read_tokenizer(arguments.base)
    questions = Questions(arguments.drafts, tokenizer, Words(token_texts(tokenizer)))
    z = np.zeros(len(questions.x))
    for fold in range(FOLDS):
        judge = fit(questions, np.flatnonzero(questions.fold != fold))
        for i in np.flatnonzero(questions.fold == fold):
            z[questions.drafts(i)] = scores(judge, questions.x[questions.drafts(i)])
    price = price_of_refusals(questions, z)
    report(questions, z, price)
    judge = fit(questions, np.arange(len(questions.rows)))
    judge["linear"][FEATURES.index("refuses")] -= price
    with open(os.path.join(arguments.memory, "memory.json")) as file:
        config = json.load(file)
    write_config(arguments.memory, {**config, "judge": judge})


def golden(path):
    """Made-up drafts over a small vocabulary, and their scores by a made-up judge."""
    draw = random.Random(7)
    texts = ["<|end|>", " ", "\n", ".", " the", " The", " ring", " rings", " year", " 18", "4", "7", " whale", " whales", " captain", " ship", " of",
             " was", " lost", " found", " documents", " do", " not", " say", " when", " where", "?", " harbour", " lantern", " winter"]
    words = Words(texts)
    some = lambda low, high: [draw.randrange(1, len(texts)) for _ in range(draw.randint(low, high))]  # noqa: E731
    judge = {"drafts": DRAFTS, "draft_tokens": DRAFT_TOKENS, "span_drafts": SPAN_DRAFTS, "refusal": REFUSAL, "linear": [draw.gauss(0, 1) for _ in FEATURES],
             "hidden": [[draw.gauss(0, 1) for _ in range(len(FEATURES) + 2)] for _ in range(5)]}
    refusal, cases = [5, 20, 21, 22, 23, 3], []
    for _ in range(40):
        blocks = [(some(3, 12), round(draw.random(), 3), draw.randrange(2)) for _ in range(draw.randint(1, 4))]
        spans = []
        for _ in range(draw.randint(0, 3)):
            block = draw.randrange(len(blocks))
            first = draw.randrange(len(blocks[block][0]))
            spans.append([block, first, min(len(blocks[block][0]) - 1, first + draw.randint(0, 3)), round(-20 * draw.random(), 3)])
        drafts = []
        for kind in range(draw.randint(2, DRAFTS)):
            source = draw.choice(blocks)[0]
            begin = draw.randrange(len(source))
            tokens = refusal + some(0, 2) if kind == 1 and draw.random() < 0.5 else source[begin:begin + draw.randint(1, 6)] + some(0, 2)
            ended = draw.random() < 0.7
            drafts.append((tokens, [round(-3 * draw.random(), 3) for _ in range(len(tokens) + ended)], ended, draw.random() < 0.3))
        question, nothing = some(0, 6), round(-18 * draw.random(), 3)
        texts_of = [(blocks[block][0][first:last + 1], logprob) for block, first, last, logprob in spans]
        case = {"question": question, "blocks": blocks, "spans": spans, "nothing": nothing, "drafts": drafts,
                "scores": scores(judge, features(words, question, blocks, texts_of, nothing, drafts, refusal)).tolist()}
        cases.append(case)
    with open(path, "w") as file:
        json.dump({"texts": texts, "refusal": refusal, "judge": judge, "cases": cases}, file, indent=None, separators=(",", ":"))
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="GGUF file")
    parser.add_argument("--drafts", nargs="+", default=[], help="files of bench/questions/drafts.py")
    parser.add_argument("--memory", help="directory of a memory, whose memory.json gets the judge")
    parser.add_argument("--golden", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.golden:
        return golden(arguments.golden)
    if not (arguments.base and arguments.drafts and arguments.memory):
        parser.error("--base, --drafts and --memory are needed")
    return train(arguments)


if __name__ == "__main__":
    sys.exit(main())
