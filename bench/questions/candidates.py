"""What the answers to questions for choosing are chosen among, from a running server, for train/memory/judge.py.

    recollect serve --model smollm2 --http-listen 127.0.0.1:8080
    python3 bench/questions/questions.py --server http://127.0.0.1:8080 --qa DIR --books DIR --tokens 64k --mode memory --json answers.jsonl
    python3 bench/questions/candidates.py --server 127.0.0.1:50051 --qa DIR --out candidates.jsonl

All documents of the half that questions.py has put there are mounted, with its books. Both wordings of a question are asked; the questions of somebody who has
one document open with that alone; the general prompts with all, and with one of them alone. A line for each: what was read, and the candidates, of each of which it says whether it
is right. A question for which no sentence is found has no line. Lines that are there are not asked for again. Needs a memory with a judge, and the package of
client/python.
"""
import argparse
import json
import pathlib
import sys

import papers
import recollect
from questions import PREFIX, Progress
from scores import ANSWERABLE, GENERAL, UNANSWERABLE, contains

BLOCK_OF = {UNANSWERABLE: -1, GENERAL: -2}  # Candidate.block of the right answer where no sentence is


def both_wordings(source):
    """Each question as questions.py asks it, and those with an answer in their other wording."""
    asked = source.questions()
    other = {f"{paper['id']}/{i}": one["q"][1 - i % 2] for paper in source.rows for i, one in enumerate(paper["qa"])}
    return asked + [{**one, "q": other[one["id"]]} for one in asked if one["kind"] == ANSWERABLE]


def everything(folder):
    """All that is asked about the documents of a folder: (question, whether its document alone is mounted). A general prompt has a document here, too."""
    source, own = papers.Papers(folder, "choosing"), [papers.QuestionsAlone(folder, "choosing", key) for key in papers.ALONE]
    names = list(source.documents)
    general = [{**one, "document": names[i % len(names)]} for i, one in enumerate(source.general)]
    return source, ([(one, False) for one in both_wordings(source) + general] + [(one, True) for some in own for one in some.questions()]
                    + [({**one, "id": one["id"] + "/alone"}, True) for one in general])


class Asker:
    def __init__(self, client, source):
        """Asks with the documents of the source and the books, as questions.py has put them there."""
        books = [one.id for one in client.documents() if one.id.startswith(PREFIX + "books-")]
        self.client, self.mounts, self.texts = client, [PREFIX + name for name in source.documents] + books, {}

    def text(self, hit):
        place = hit.document, hit.text_begin, hit.text_end
        if place not in self.texts:
            self.texts[place] = self.client.text(*place).decode(errors="replace")
        return self.texts[place]

    def row(self, question, alone):
        """The line of a question; None where there are no candidates, or where it is taken for several questions."""
        mounts = [PREFIX + question["document"]] if alone else self.mounts
        judged = self.client.chat(question["q"], mounts=mounts, max_tokens=1, candidates=True).result().candidates
        if len(judged) != 1:
            return None
        judged, = judged
        answers = question["kind"] == ANSWERABLE
        right = lambda one: contains(one.text, question["a"]) if answers else one.block == BLOCK_OF[question["kind"]]  # noqa: E731
        return {
            **question, "unneeded": judged.unneeded, "nothing": round(judged.nothing, 4),
            "blocks": [{"document": hit.document, "weight": round(hit.weight, 6), "text": self.text(hit)} for hit in judged.blocks],
            "candidates": [{"tokens": one.ids, "block": one.block, "logprob": round(one.logprob, 4), "reranked": round(one.reranked, 4), "said": one.text,
                            "right": right(one)} for one in judged.candidates]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="127.0.0.1:50051", help="its address for gRPC")
    parser.add_argument("--qa", type=pathlib.Path, required=True, help="folder of documents with questions (*.jsonl)")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    (source, all_questions), progress = everything(arguments.qa), Progress()
    there = {(row["id"], row["q"]) for row in map(json.loads, arguments.out.open(encoding="utf-8"))} if arguments.out.exists() else set()
    questions = [(one, alone) for one, alone in all_questions if (one["id"], one["q"]) not in there]
    with recollect.Client(arguments.server) as client, arguments.out.open("a", encoding="utf-8") as file:
        asker = Asker(client, source)
        for i, (question, alone) in enumerate(questions, 1):
            progress.say(f"question {i} of {len(questions)}")
            row = asker.row(question, alone)
            if row:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
    progress.end()


if __name__ == "__main__":
    sys.exit(main())
