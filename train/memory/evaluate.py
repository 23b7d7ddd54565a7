"""How well a memory answers questions about held-out papers among each other and among passages of books, greedily.

    PYTHONPATH=train python -m memory.evaluate --base BASE --memory models/smollm2-memory --qa QA --json FILE

Every second held-out paper is for choosing between memories (`--choose`), the others are for reporting. A question is right when the
words of the paper that answer it stand in the answer, in any case of letters; found, when a block with a part of them is among the
n_ret best.
"""

import argparse
import json
import random

import torch

from .base import Base
from .data import Library, read_papers
from .export import load
from .oracle import Oracle

ANSWER_TOKENS = 32
# Nobody needs a document for these; none is a prompt of training (data.GENERAL).
GENERAL = ("What is the capital of France?", "Write a haiku about rain.", "Tell me a joke.", "Who wrote Hamlet?", "How many wheels has a tricycle?",
           "Nice to meet you.", "Which month comes after May?", "What do cows drink?", "How deep is the sea?", "Invent a name for a tea shop.")


def read_all(oracle, papers, library, passages):
    """-> (Blocks of all papers, then of the passages; [(paper, first block, last character of each of its blocks)])."""
    parts, places, at = [], [], 0
    for paper in papers:
        coded = oracle.base.encoding(paper["text"])
        part = oracle.read(coded.ids)
        ends = part.valid.sum(1).cumsum(0) - 1
        places.append((paper, at, [coded.offsets[end][1] for end in ends.tolist()]))
        parts.append(part)
        at += len(part.keys)
    rng = random.Random(1)
    for _ in range(passages):
        parts.append(oracle.read(oracle.base.encode(library.passage(rng, 4500))[:oracle.config["segment_tokens"]]))
    return type(parts[0])(*(torch.cat(x) for x in zip(*(vars(part).values() for part in parts)))), places


def answering(paper, first, ends, answer):
    """Numbers of the blocks that hold a part of the answer."""
    begin = paper["text"].index(answer)
    n = lambda character: next(i for i, end in enumerate(ends) if end > character)
    return set(range(first + n(begin), first + n(begin + len(answer) - 1) + 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True)
    parser.add_argument("--memory", required=True)
    parser.add_argument("--qa", nargs="+", required=True, help="folders of papers with questions")
    parser.add_argument("--books", default="train/books/books-train.jsonl.xz")
    parser.add_argument("--passages", type=int, default=20, help="of books by authors of tests, as further documents")
    parser.add_argument("--questions", type=int, default=1, help="of each paper that are answered; all are searched for")
    parser.add_argument("--choose", action="store_true", help="the papers for choosing, not those for reporting")
    parser.add_argument("--json", help="file for the result")
    args = parser.parse_args()
    torch.set_num_threads(1)
    base = Base.load(args.base)
    oracle = Oracle(base, load(args.memory, base))
    papers = read_papers(args.qa, "test")[not args.choose::2]
    library = Library(args.books, "test") if args.passages else None
    blocks, places = read_all(oracle, papers, library, args.passages)
    result = dict.fromkeys(("questions", "found", "found_with_successors", "answered", "right", "answer_retrieved", "right_base"), 0)
    for paper, first, ends in places:
        for n, qa in enumerate(paper["qa"]):
            prompt, gold = base.chat(qa["q"][n % 2]), answering(paper, first, ends, qa["a"])
            found = oracle.retrieve(prompt, blocks)
            result["questions"] += 1
            result["found"] += bool(gold & set(found.scores.topk(oracle.config["n_ret"]).indices.tolist()))
            result["found_with_successors"] += bool(gold & set(found.chosen.tolist()))
            if n < args.questions:
                said, own = (base.decode(oracle.answer(prompt, ANSWER_TOKENS, given)[0]) for given in (blocks, None))
                result["answered"] += 1
                result["right"] += qa["a"].lower() in said.lower()
                result["answer_retrieved"] += bool(gold & set(found.chosen.tolist()))
                result["right_base"] += qa["a"].lower() in own.lower()
                print(json.dumps({"question": qa["q"][n % 2], "answer": qa["a"], "said": said, "base": own}, ensure_ascii=False), flush=True)
    same = sum(oracle.answer(base.chat(q), ANSWER_TOKENS, blocks)[0] == oracle.answer(base.chat(q), ANSWER_TOKENS)[0] for q in GENERAL)
    result |= {"blocks": len(blocks.keys), "general": len(GENERAL), "general_same_as_base": same}
    print(json.dumps(result))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=2)
            f.write("\n")


if __name__ == "__main__":
    main()
