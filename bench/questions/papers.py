"""What is asked about: documents with plain questions, books that they are put among, and general prompts.

A document with crc32(id) % 8 == 0 is held out: nobody trains on it. Of these, crc32(id) // 8 % 2 says which half it belongs to: 0 the one that choices may be
made by, 1 the one that is reported.
"""
import hashlib
import json
import lzma
import pathlib
import zlib

from scores import ANSWERABLE, GENERAL, UNANSWERABLE, score

HALVES = ("choosing", "reporting")
GENERAL_FOLDER = pathlib.Path(__file__).with_name("general")  # prompts for which nobody needs a document, a file for each half
KEYS = ("id", "text", "qa", "none")
ALONE = ("short", "about")  # keys of the questions that are asked about a document alone
PAIRS = "pairs"
SAMPLE_BYTES = 1 << 16
FRONT_MATTER = 0.05  # of a book: title pages and contents, which no excerpt should consist of


def half_of(document):
    """"choosing" or "reporting", or None for a document that is not held out."""
    digest = zlib.crc32(document.encode())
    return HALVES[digest // 8 % 2] if digest % 8 == 0 else None


def read_papers(folder, half):
    """The documents of a half, in order of id, as their files have them. SystemExit where there are none."""
    papers = {}
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    paper = json.loads(line)
                    if half_of(paper["id"]) == half:
                        papers[paper["id"]] = {key: paper[key] for key in KEYS} | {key: paper[key] for key in ALONE if key in paper}
                except (ValueError, KeyError, TypeError) as error:
                    raise SystemExit(f"{path}:{number} is no document with questions: {error!r}") from error
    if not papers:
        raise SystemExit(f"{folder} has no documents of the half {half} (*.jsonl, crc32(id) % 8 == 0)")
    return [papers[one] for one in sorted(papers)]


def general_prompts(half):
    return (GENERAL_FOLDER / f"{half}.txt").read_text(encoding="utf-8").splitlines()


def drawn(questions, count):
    """The first `count` of an order that has nothing to do with the documents' order, so that more of them contain fewer of them; None: all."""
    return sorted(questions, key=lambda one: hashlib.sha256(one["id"].encode()).digest())[:count]


class Papers:
    """The documents of a half as a set of questions: `documents` is {id: text}, and `general` has the prompts that are for none of them."""
    piece_tokens = None  # the books beside them are one document
    alone = False        # whether only the question's document is mounted

    def __init__(self, folder, half):
        self.name, self.rows = half, read_papers(folder, half)
        self.documents = {paper["id"]: paper["text"] for paper in self.rows}
        self.digest = hashlib.sha256(json.dumps(self.rows, sort_keys=True).encode()).hexdigest()[:16]
        self.general = [{"id": f"general/{i}", "kind": GENERAL, "document": None, "q": prompt, "a": None} for i, prompt in enumerate(general_prompts(half))]

    def questions(self, limit=None):
        """[{"id", "kind", "document", "q", "a"}]: `limit` questions that have an answer, and a quarter as many that have none, as the documents have them.
        Of a document's even questions the first wording is asked, of the odd ones the second."""
        with_answer = [{"id": f"{paper['id']}/{i}", "kind": ANSWERABLE, "document": paper["id"], "q": one["q"][i % 2], "a": one["a"]}
                       for paper in self.rows for i, one in enumerate(paper["qa"])]
        without = [{"id": f"{paper['id']}/none/{i}", "kind": UNANSWERABLE, "document": paper["id"], "q": question, "a": None}
                   for paper in self.rows for i, question in enumerate(paper["none"])]
        return drawn(with_answer, limit) + drawn(without, limit and (limit + 3) // 4)

    def front(self, question):
        """What stands in front of a question whose document is to be in the prompt."""
        return self.documents[question["document"]]

    def books_beside(self, tokens, own):
        return tokens

    def mounted(self, server, tokens, texts, mode):
        pass

    def score(self, question, said, citations, document, tokens):
        return score(question, said, citations, document)


class QuestionsAlone(Papers):
    """Those questions that some documents have of somebody who has just this document open: "short" ones, or those "about" the document as a whole."""
    alone = True

    def __init__(self, folder, half, key):
        super().__init__(folder, half)
        self.key, self.rows = key, [paper for paper in self.rows if key in paper]
        self.documents = {paper["id"]: paper["text"] for paper in self.rows}

    def questions(self, limit=None):
        with_answer, without = [], []
        for paper in self.rows:
            own = paper[self.key]
            row = lambda number, kind, q, a: {"id": f"{paper['id']}/{self.key}/{number}", "kind": kind, "document": paper["id"], "q": q, "a": a}  # noqa: B023, E731
            asked = [(one["q"], one["a"]) for one in own["qa"]] if "qa" in own else [(q, own["a"]) for q in own["q"]]
            with_answer += [row(i, ANSWERABLE, q, a) for i, (q, a) in enumerate(asked)]
            without += [row(f"none/{i}", UNANSWERABLE, q, None) for i, q in enumerate(own.get("none", []))]
        return drawn(with_answer, limit) + drawn(without, limit and (limit + 3) // 4)


class PairsAlone(Papers):
    """Two questions of a document in one message. Both answers have to stand in what is said."""
    alone = True

    def questions(self, limit=None):
        row = lambda paper, i, one, other: {"id": f"{paper['id']}/{PAIRS}/{i}", "kind": ANSWERABLE, "document": paper["id"],  # noqa: E731
                                            "q": f"{one['q'][0]} {other['q'][1]}", "a": [one["a"], other["a"]]}
        return drawn([row(paper, i, *paper["qa"][i:i + 2]) for paper in self.rows for i in range(0, len(paper["qa"]) - 1, 2)], limit)

    def score(self, question, said, citations, document, tokens):
        marks = [score({**question, "a": one}, said, citations, document) for one in question["a"] or []]
        return {mark: all(one[mark] for one in marks) for mark in marks[0]} if marks else {}


def open_text(path):
    return lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8")


def read_books(folder, authors):
    """Texts of the books of a folder: every *.txt, and of *.jsonl (lines with `author` and `text`) those by `authors`; each may be packed (.xz)."""
    texts = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
        kind = path.name.removesuffix(".xz").rsplit(".", 1)[-1]
        try:
            if kind == "txt":
                with open_text(path) as file:
                    texts.append(file.read())
            elif kind == "jsonl":
                with open_text(path) as file:
                    rows = (json.loads(line) for line in file if any(json.dumps(one, ensure_ascii=False) in line[:200] for one in authors))
                    texts += [row["text"] for row in rows if row.get("author") in authors]
        except (OSError, ValueError, KeyError, lzma.LZMAError) as error:
            raise SystemExit(f"{path} is no file of books: {error!r}") from error
    if not texts:
        raise SystemExit(f"{folder} has no books by held-out authors (*.jsonl[.xz]) and no *.txt[.xz]")
    return texts


def hay(books, tokens, count_tokens):
    """One text of about `tokens` tokens: the same share of each book, in one piece of whole lines. `count_tokens` is the server's count for a text."""
    sizes = []
    for book in books:
        middle = book[len(book) // 2:len(book) // 2 + SAMPLE_BYTES]
        sizes.append(len(book) * count_tokens(middle) / max(1, len(middle)))
    share = tokens / max(1, sum(sizes))
    if share > 1:
        raise SystemExit(f"the books have about {sum(sizes):.0f} tokens, {tokens} are to be mounted")
    pieces = []
    for book in books:
        begin = book.find("\n", int(min(FRONT_MATTER, 1 - share) * len(book))) + 1
        pieces.append(book[begin:begin + int(share * len(book))].rpartition("\n")[0].strip())
    return "\n\n".join(piece for piece in pieces if piece)


def pieces(text, count):
    """The text in `count` parts of whole lines, of about the same size."""
    parts, at = [], 0
    for i in range(count):
        end = text.find("\n", max(at, len(text) * (i + 1) // count)) + 1 or len(text)
        parts.append(text[at:end])
        at = end
    return [part for part in parts if part.strip()]
