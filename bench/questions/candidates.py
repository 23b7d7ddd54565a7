"""What the answers to questions for choosing are chosen among, from a running server, for train/memory/judge.py.

    recollect serve --model smollm2 --http-listen 127.0.0.1:8080
    python3 bench/questions/questions.py --server http://127.0.0.1:8080 --qa DIR --books DIR --tokens 64k --mode memory --json answers.jsonl
    python3 bench/questions/candidates.py --server 127.0.0.1:50051 --qa DIR --out candidates.jsonl

All documents of the half that questions.py has put there are mounted, with its books. Both wordings of a question are asked. A line for each question: what was
read, and the candidates, of each of which it says whether it is right. Questions whose answers read nothing have no line. Lines that are there are not asked for
again. Needs a memory with a judge, and the package of client/python.
"""
import argparse
import json
import pathlib
import sys

import grpc
import papers
from questions import PREFIX, Progress
from recollect.v1 import documents_pb2, documents_pb2_grpc, generation_pb2, generation_pb2_grpc
from scores import ANSWERABLE, contains


def both_wordings(source):
    """Each question as questions.py asks it, and those with an answer in their other wording."""
    asked = source.questions()
    other = {f"{paper['id']}/{i}": one["q"][1 - i % 2] for paper in source.rows for i, one in enumerate(paper["qa"])}
    return asked + [{**one, "q": other[one["id"]]} for one in asked if one["kind"] == ANSWERABLE]


class Asker:
    def __init__(self, address, mounts):
        channel = grpc.insecure_channel(address)
        self.generation, self.documents = generation_pb2_grpc.GenerationStub(channel), documents_pb2_grpc.DocumentsStub(channel)
        self.session = documents_pb2.SessionOptions(mounts=mounts)
        self.texts = {}

    def ask(self, question):
        """The candidates of an answer and what they are judged by; None where there are none."""
        message = documents_pb2.ChatMessage(role=documents_pb2.CHAT_ROLE_USER, content=question)
        request = generation_pb2.GenerateRequest(session=self.session, prompt=documents_pb2.Prompt(messages=[message]), max_tokens=1, with_candidates=True)
        return next((event.candidates for event in self.generation.Generate(request) if event.HasField("candidates")), None)

    def text(self, hit):
        place = hit.document, hit.text_begin, hit.text_end
        if place not in self.texts:
            answer = self.documents.ReadText(documents_pb2.ReadTextRequest(id=place[0], begin=place[1], end=place[2]))
            self.texts[place] = answer.text.decode(errors="replace")
        return self.texts[place]

    def row(self, question):
        """The line of a question; None where its answer reads nothing."""
        judged = self.ask(question["q"])
        if judged is None:
            return None
        answers = question["kind"] == ANSWERABLE
        right = lambda one: contains(one.text, question["a"]) if answers else one.block < 0  # noqa: E731
        return {
            **question, "nothing": round(judged.nothing, 4),
            "blocks": [{"document": hit.document, "weight": round(hit.weight, 6), "text": self.text(hit)} for hit in judged.blocks],
            "candidates": [{"tokens": list(one.ids), "block": one.block, "logprob": round(one.logprob, 4), "reranked": round(one.reranked, 4), "said": one.text, "right": right(one)}
                           for one in judged.candidates]}


def mounted(address, source):
    """The documents of the source and the books, as questions.py has put them there."""
    stub = documents_pb2_grpc.DocumentsStub(grpc.insecure_channel(address))
    books = [one.id for one in stub.ListDocuments(documents_pb2.ListDocumentsRequest(page_size=1000)).documents if one.id.startswith(PREFIX + "books-")]
    return [PREFIX + name for name in source.documents] + books


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="127.0.0.1:50051", help="its address for gRPC")
    parser.add_argument("--qa", type=pathlib.Path, required=True, help="folder of documents with questions (*.jsonl)")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    source, progress = papers.Papers(arguments.qa, "choosing"), Progress()
    asker = Asker(arguments.server, mounted(arguments.server, source))
    there = {(row["id"], row["q"]) for row in map(json.loads, arguments.out.open(encoding="utf-8"))} if arguments.out.exists() else set()
    questions = [one for one in both_wordings(source) if (one["id"], one["q"]) not in there]
    with arguments.out.open("a", encoding="utf-8") as file:
        for i, question in enumerate(questions, 1):
            progress.say(f"question {i} of {len(questions)}")
            row = asker.row(question)
            if row:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
    progress.end()


if __name__ == "__main__":
    sys.exit(main())
