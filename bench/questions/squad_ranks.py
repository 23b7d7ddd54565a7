"""Where the paragraph of SQuAD's questions is in the list of a memory's best blocks, beside BM25 (squad.py): nothing is answered.

    python3 bench/questions/squad_ranks.py --server http://127.0.0.1:8080 --squad squaddev_v1.1.json --limit 256

The articles are uploaded if the server does not have them, and a question is searched for as the chat that asks it. A list is counted in two ways: by blocks,
and by paragraphs, where blocks of one paragraph count once and a block that has text of two counts for both. With --beside all lists are of those documents,
too, whose blocks count as paragraphs: 'questions/books-*' are the books that questions.py has put there. For SmolLM2 and its chat template.
"""
import argparse
import collections
import contextlib
import fnmatch
import os
import pathlib
import sys
import urllib.parse

from scores import share
from server import Server, ServerError
from squad import Bm25, Squad, among, blocks

PREFIX = "questions/"  # as in questions.py
START, END = 1, 2  # <|im_start|> and <|im_end|> of SmolLM2
SYSTEM = "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
LISTED = 64  # blocks, in which there are 8 paragraphs
RANKS = (4, 8)


class Chat:
    """The tokens of a chat with one question: a text cannot have control tokens."""

    def __init__(self, server):
        self.server = server
        self.front = [START, *self.tokens(SYSTEM), END, *self.tokens("\n"), START]
        self.back = [END, *self.tokens("\n"), START, *self.tokens("assistant\n")]

    def tokens(self, text):
        return self.server.call("POST", "/tokenize", {"prompt": text})["tokens"]

    def best(self, question, mounts):
        """[(document, begin, end)], best first."""
        query = self.front + self.tokens("user\n" + question) + self.back
        answer = self.server.call("POST", "/v1/retrieve", {"query": query, "k": LISTED, "mounts": mounts, "mount_as": "memory"})
        return [(hit["document"], hit["begin"], hit["end"]) for hit in answer["data"][0]["hits"]]


def paragraphs_of(source):
    """[(document, begin, end, text)]: all paragraphs, as the server calls their documents."""
    return [(PREFIX + document, begin, begin + len(text.encode()), text) for (document, begin), text in source.paragraphs.items()]


def different(ranges, paragraphs):
    """The paragraphs (document, begin, end) that have bytes of the ranges, in their order, each once."""
    return list(dict.fromkeys((name, begin, end) for document, first, last in ranges for name, begin, end, _ in paragraphs[document]
                              if begin < last and end > first))


def marks(question, listed, paragraphs):
    """Whether the question's paragraph is among the first of a list of blocks (`blocks_4`), and of their paragraphs (`paragraphs_4`)."""
    document, whole = PREFIX + question["document"], different(listed, paragraphs)
    return {f"{name}_{k}": among(question, document, ranges[:k]) for name, ranges in (("blocks", listed), ("paragraphs", whole)) for k in RANKS}


def table(rows):
    """{what ranked: marks of each question} -> lines of Markdown."""
    names = [f"{name}_{k}" for name in ("blocks", "paragraphs") for k in RANKS]
    lines = ["| ranked by | " + " | ".join(f"among {name.replace('_', ' ')}" for name in names) + " |", "|---" * (1 + len(names)) + "|"]
    return lines + [f"| {by} | " + " | ".join(share(found, name) for name in names) + " |" for by, found in rows.items()]


def documents_of(server, pattern):
    page = server.call("GET", "/v1/documents?limit=1000")
    if page["has_more"]:
        raise SystemExit(f"{server.url} has more than 1000 documents: --beside is for servers with fewer")
    return [one["id"] for one in page["data"] if fnmatch.fnmatch(one["id"], pattern)]


def blocks_of(server, document):
    return blocks(server, document, server.read(server.open("GET", f"/v1/documents/{urllib.parse.quote(document, safe='')}/text")), "memory")


def measure(server, source, questions, beside):
    _, fingerprint = server.model()
    for name, text in source.documents.items():
        server.keep(PREFIX + name, text, fingerprint)
    others = [block for name in (documents_of(server, beside) if beside else []) for block in blocks_of(server, name)]
    of_articles = [block for name, text in source.documents.items() for block in blocks(server, PREFIX + name, text.encode(), "memory")]
    all_paragraphs = paragraphs_of(source) + others
    of = collections.defaultdict(list)
    for one in all_paragraphs:
        of[one[0]].append(one)
    mounts, chat, found = list(of), Chat(server), {}
    by_blocks, by_paragraphs = Bm25(of_articles + others), Bm25(all_paragraphs)
    for question in questions:
        lists = {"the memory": chat.best(question["q"], mounts),
                 "BM25 of the same blocks": [one[:3] for one in by_blocks.best(question["q"], LISTED)],
                 "BM25 of whole paragraphs": [one[:3] for one in by_paragraphs.best(question["q"], LISTED)]}
        for by, listed in lists.items():
            found.setdefault(by, []).append(marks(question, listed, of))
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--key", default=os.environ.get("RECOLLECT_API_KEY"), help="a key of the server, or RECOLLECT_API_KEY")
    parser.add_argument("--squad", type=pathlib.Path, required=True, help="the file of squad.py")
    parser.add_argument("--limit", type=int, help="questions; all, unless given")
    parser.add_argument("--beside", default="", help="other documents of the server that are mounted as well; * stands for any text")
    arguments = parser.parse_args(argv)
    source = Squad(arguments.squad)
    try:
        with contextlib.closing(Server(arguments.server, arguments.key)) as server:
            print("\n".join(table(measure(server, source, source.questions(arguments.limit), arguments.beside))))
    except ServerError as error:
        raise SystemExit(f"{arguments.server}: {error}") from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
