"""Questions that only the question before explains ("And how much did he charge?"): how often their place is found and the answer is right.

    recollect serve --model smollm2 --http-listen 127.0.0.1:8080
    python3 bench/questions/follow_ups.py --server http://127.0.0.1:8080 --qa train/memory/qa --half choosing --mount questions/books

follow_ups.jsonl has them. All documents of the half are mounted beside those of --mount, which the server has. Each is asked in four ways:

    conversation  after the question before and its answer
    repeated      the same, with the question before once more in front of it
    joined        both questions in one message, without a conversation
    alone         without the question before
"""
import argparse
import contextlib
import json
import pathlib

import papers
from questions import PREFIX
from scores import ANSWERABLE, score, share
from server import Server, ServerError

FILE = pathlib.Path(__file__).with_name("follow_ups.jsonl")
WAYS = ("conversation", "repeated", "joined", "alone")
MARKS = ("right", "found", "document_found", "refused")


def read_follow_ups(half):
    """[{"document", "before": [question, answer], "q", "a"}] of a half."""
    with FILE.open(encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if row["half"] == half]


def messages(way, row):
    """(the messages before, the last message) of a follow-up that is asked in one of WAYS."""
    asked, answered = row["before"]
    before = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return before if way in ("conversation", "repeated") else [], f"{asked} {row['q']}" if way in ("repeated", "joined") else row["q"]


def ask(server, model, way, row, mounts, max_tokens):
    """The marks of an answer. A mark that an answer cannot have is missing, such as those of blocks where none was read."""
    before, last = messages(way, row)
    answer = server.ask(model, last, max_tokens, before, mounts=mounts)
    marks = score({"kind": ANSWERABLE, **row}, answer["said"], answer["citations"], PREFIX + row["document"])
    return {"found": False, "document_found": False, **marks}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--qa", type=pathlib.Path, required=True, help="the folder of documents, train/memory/qa")
    parser.add_argument("--half", choices=papers.HALVES, default="choosing")
    parser.add_argument("--mount", action="append", default=[], help="a document that the server has; repeat for several")
    parser.add_argument("--limit", type=int, help="follow-ups; all, unless given")
    parser.add_argument("--max-tokens", type=int, default=40, help="of an answer")
    arguments = parser.parse_args(argv)
    rows = {way: [] for way in WAYS}
    with contextlib.closing(Server(arguments.server)) as server:
        model, fingerprint = server.model()
        documents = papers.Papers(arguments.qa, arguments.half).documents
        for name, text in documents.items():
            server.keep(PREFIX + name, text, fingerprint)
        mounts = [PREFIX + name for name in documents] + arguments.mount
        for row in read_follow_ups(arguments.half)[:arguments.limit]:
            for way in WAYS:
                rows[way].append(ask(server, model, way, row, mounts, arguments.max_tokens))
    print("| asked | number | right | answer in the blocks | its document found | refused |\n|---|---|---|---|---|---|")
    for way in WAYS:
        print(f"| {way} | {len(rows[way])} | " + " | ".join(share(rows[way], mark) for mark in MARKS) + " |")


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        raise SystemExit(str(error)) from error
