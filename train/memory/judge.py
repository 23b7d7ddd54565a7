"""Trains the judge that chooses what a question about documents is answered with (model/judge.h), and is its oracle.

    PYTHONPATH=train python -m memory.judge --base BASE.gguf --candidates first.jsonl second.jsonl --memory models/smollm2-memory
    PYTHONPATH=train python -m memory.judge --golden tests/model/judge_golden.json

The first command fits it to candidates of questions for choosing (bench/questions/candidates.py) and writes it into memory.json, which needs
half a minute. It prints how often the chosen candidate is right, of each tenth of the documents by a judge that was fitted to the others. The
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
FEATURES = ("refuses", "own_words", "unneeded", "nothing", "best", "weight", "document", "asked", "block", "span", "words",
            "reranked", "best_reranked")
WITHOUT_RERANKER = len(FEATURES) - 2
PASSAGE_BLOCKS, SENTENCE_TOKENS, MARGIN, REFUSAL = 5, 80, 2, "The documents do not say."
REFUSED_BLOCK, OWN_WORDS_BLOCK = -1, -2  # of candidates that are no sentences
LEAST_LOGPROB, MOST_LOG_ODDS = -15.0, 15.0
UNITS, PARTS = 8, 3       # hidden units of each part; the judge is the mean of the parts, which begin from other numbers
STEPS, RATE, DECAY = 500, 5e-3, 3e-2
UNANSWERABLE = 0.5        # the weight of a question without an answer
PRICES = {"refuses": 0.04, "own_words": 0.005}  # of the questions that have an answer, what is refused and left to the model at most
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
        self.blank = numbers.get("", -1)

    def __call__(self, tokens):
        return [self.of_token[token] for token in tokens]

    def distinct(self, words):
        return set(words) - {self.blank}

    def sum(self, words):
        return sum(self.idf[word] for word in sorted(words))


def share(part, whole):
    return part / whole if whole > 0 else 0.0


def log_odds(p):
    if not 0 < p < 1:
        return math.copysign(MOST_LOG_ODDS, p - 0.5)
    return min(max(math.log(p) - math.log1p(-p), -MOST_LOG_ODDS), MOST_LOG_ODDS)


def features(words, question, blocks, unneeded, nothing, candidates):
    """[candidates, FEATURES] of one question: its token ids; blocks: (token ids, weight, document); unneeded: the weight of nothing;
    nothing: ln p that there is no answer; candidates: (token ids, block, ln p, score of the reranker)."""
    asked = words.distinct(words(question))
    overlap = lambda tokens: share(words.sum(asked & words.distinct(words(tokens))), words.sum(asked))  # noqa: E731
    at_least = lambda logprob: max(logprob, LEAST_LOGPROB)  # noqa: E731
    best = max(at_least(logprob) for _, block, logprob, _ in candidates if block >= 0)
    best_reranked = max(reranked for _, block, _, reranked in candidates if block >= 0)
    rows = []
    for tokens, at, logprob, reranked in candidates:
        shared = [at == REFUSED_BLOCK, at == OWN_WORDS_BLOCK, log_odds(unneeded), at_least(nothing), best]
        if at < 0:
            rows.append([*shared, sum(weight for _, weight, _ in blocks), 0, 0, 0, 0, 0, reranked, best_reranked])
            continue
        block, weight, document = blocks[at]
        rows.append([*shared, weight, sum(w for _, w, of in blocks if of == document), overlap(tokens), overlap(block),
                     at_least(logprob), len(words.distinct(words(tokens))), reranked, best_reranked])
    return np.array(rows, dtype=np.float64)


def scores(judge, x):
    """The scores of rows of features: linear_i x_i + Σ_h out_h tanh(bias_h + in_hi x_i)."""
    hidden = np.array(judge["hidden"], dtype=np.float64).reshape(-1, len(FEATURES) + 2)
    return x @ np.array(judge["linear"]) + np.tanh(hidden[:, 1] + x @ hidden[:, 2:].T) @ hidden[:, 0]


class Questions:
    """Questions with their candidates: `x` and `right` have a row for each, `at` says where those of a question begin."""

    def __init__(self, paths, tokenizer, words):
        self.rows = [json.loads(line) for path in paths for line in open(path, encoding="utf-8")]
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids  # noqa: E731
        blocks, x = {}, []
        for row in self.rows:
            for block in row["blocks"]:
                blocks.setdefault(block["text"], encode(block["text"]))
            read = [(blocks[block["text"]], block["weight"], block["document"]) for block in row["blocks"]]
            candidates = [(one["tokens"], one["block"], one["logprob"], one["reranked"]) for one in row["candidates"]]
            x.append(features(words, encode(row["q"]), read, row["unneeded"], row["nothing"], candidates))
        self.at = np.cumsum([0] + [len(one) for one in x])
        self.x = np.concatenate(x)
        self.right = np.array([one["right"] for row in self.rows for one in row["candidates"]])
        self.answerable = np.array([row["kind"] == "answerable" for row in self.rows])
        self.kind = np.array([next((key + " " for key in ("short", "about") if f"/{key}/" in row["id"]), "") + row["kind"] for row in self.rows])
        self.fold = np.array([zlib.crc32(row["q" if row["kind"] == "general" else "document"].encode()[::-1]) % FOLDS for row in self.rows])

    def candidates(self, i):
        return slice(self.at[i], self.at[i + 1])


def fit_part(questions, chosen, scaled, seed):
    """(linear, hidden) of the scaled features: the right candidates of a question get a large share of the softmax over all of them."""
    torch.manual_seed(seed)
    x = torch.tensor(scaled, dtype=torch.float32)
    width, useful = len(FEATURES), [i for i in chosen if 0 < questions.right[questions.candidates(i)].mean() < 1]
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
    return {"features": FEATURES, "passage_blocks": PASSAGE_BLOCKS, "sentence_tokens": SENTENCE_TOKENS, "margin": MARGIN, "refusal": REFUSAL, "linear": linear.tolist(), "hidden": hidden}


def chosen(questions, z):
    """The row of the best candidate of each question."""
    return np.array([questions.at[i] + np.argmax(z[questions.candidates(i)]) for i in range(len(questions.rows))])


def price_of(feature, questions, z):
    """What the score of the candidate with this feature has to be less by, so that not more than PRICES of the questions that have an answer
    get it."""
    is_it, low, high = questions.x[:, FEATURES.index(feature)], -10.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        too_many = np.mean(is_it[chosen(questions, z - middle * is_it)][questions.answerable]) > PRICES[feature]
        low, high = (middle, high) if too_many else (low, middle)
    return high


def report(questions, z):
    best, likeliest = chosen(questions, z), chosen(questions, questions.x[:, FEATURES.index("span")] - 1e3 * (questions.x[:, :2].sum(1)))
    refused, own = (questions.x[best, FEATURES.index(feature)] for feature in PRICES)
    for kind in sorted(set(questions.kind)):
        of = questions.kind == kind
        print(f"{of.sum()} {kind}: right {questions.right[best][of].mean():.3f}, the sentence of the likeliest span "
              f"{questions.right[likeliest][of].mean():.3f}, one of the candidates "
              f"{np.mean([questions.right[questions.candidates(i)].any() for i in np.flatnonzero(of)]):.3f}; refused {refused[of].mean():.3f}, "
              f"left to the model {own[of].mean():.3f}")


def train(arguments):
    from data.smollm import read_tokenizer, token_texts
    tokenizer = read_tokenizer(arguments.base)
    questions = Questions(arguments.candidates, tokenizer, Words(token_texts(tokenizer)))
    z = np.zeros(len(questions.x))
    for fold in range(FOLDS):
        judge = fit(questions, np.flatnonzero(questions.fold != fold))
        for i in np.flatnonzero(questions.fold == fold):
            z[questions.candidates(i)] = scores(judge, questions.x[questions.candidates(i)])
    prices = {}
    for feature in PRICES:
        prices[feature] = price_of(feature, questions, z)
        z -= prices[feature] * questions.x[:, FEATURES.index(feature)]
    report(questions, z)
    judge = fit(questions, np.arange(len(questions.rows)))
    for feature, price in prices.items():
        judge["linear"][FEATURES.index(feature)] -= price
    with open(os.path.join(arguments.memory, "memory.json")) as file:
        config = json.load(file)
    if "reranker" not in config:
        judge["features"], judge["linear"] = judge["features"][:WITHOUT_RERANKER], judge["linear"][:WITHOUT_RERANKER]
        judge["hidden"] = [unit[:WITHOUT_RERANKER + 2] for unit in judge["hidden"]]
    write_config(arguments.memory, {**config, "judge": judge})


def golden(path):
    """Made-up candidates over a small vocabulary, and their scores by a made-up judge."""
    draw = random.Random(7)
    texts = ["<|end|>", " ", "\n", ".", " the", " The", " ring", " rings", " year", " 18", "4", "7", " whale", " whales", " captain", " ship", " of",
             " was", " lost", " found", " documents", " do", " not", " say", " when", " where", "?", " harbour", " lantern", " winter"]
    words = Words(texts)
    some = lambda low, high: [draw.randrange(1, len(texts)) for _ in range(draw.randint(low, high))]  # noqa: E731
    judge = {"features": FEATURES, "passage_blocks": PASSAGE_BLOCKS, "sentence_tokens": SENTENCE_TOKENS, "refusal": REFUSAL, "linear": [draw.gauss(0, 1) for _ in FEATURES],
             "hidden": [[draw.gauss(0, 1) for _ in range(len(FEATURES) + 2)] for _ in range(5)]}
    logprob = lambda: round(-20 * draw.random(), 3)  # noqa: E731
    cases = []
    for _ in range(40):
        blocks = [(some(3, 12), round(draw.random(), 3), draw.randrange(2)) for _ in range(draw.randint(1, 4))]
        candidates = [(some(1, 9), draw.randrange(len(blocks)), logprob(), round(draw.gauss(0, 3), 3)) for _ in range(draw.randint(1, 5))]
        candidates += [([5, 20, 21, 22, 23, 3], REFUSED_BLOCK, 0, 0), ([], OWN_WORDS_BLOCK, 0, round(draw.gauss(0, 3), 3))]
        question, nothing, unneeded = some(0, 6), logprob(), draw.choice([0, 1, round(draw.random(), 6)])
        case = {"question": question, "blocks": blocks, "unneeded": unneeded, "nothing": nothing, "candidates": candidates,
                "scores": scores(judge, features(words, question, blocks, unneeded, nothing, candidates)).tolist()}
        cases.append(case)
    with open(path, "w") as file:
        json.dump({"texts": texts, "judge": judge, "cases": cases}, file, indent=None, separators=(",", ":"))
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="GGUF file")
    parser.add_argument("--candidates", nargs="+", default=[], help="files of bench/questions/candidates.py")
    parser.add_argument("--memory", help="directory of a memory, whose memory.json gets the judge")
    parser.add_argument("--golden", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.golden:
        return golden(arguments.golden)
    if not (arguments.base and arguments.candidates and arguments.memory):
        parser.error("--base, --candidates and --memory are needed")
    return train(arguments)


if __name__ == "__main__":
    sys.exit(main())
