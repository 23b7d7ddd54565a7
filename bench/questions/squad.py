"""SQuAD v1.1 as a set of questions: a document for each article, mounted beside books, and BM25 on the same blocks. For measuring only: its authors ask that
nobody trains on it. The file is benchmark_tasks/squad_shifts/squaddev_v1.1.json of the source of bigbench 1.0.0 (PyPI).
"""
import collections
import hashlib
import json
import math
import re

from papers import drawn
from scores import contains, passages

SQUAD = "squad"
BLOCKS_OF_A_DOCUMENT = 1024  # the most that one retrieval lists
TOKENS_OF_A_PIECE = 24 << 10  # of books: at 32 tokens a block or more, less than that many blocks
EVERYWHERE = "the of and to a in that is was for on as with by at it he I 0 1 2 3 4 5 6 7 8 9 , . ; : - ! ?"  # something of it is in nearly every block
K1, B = 1.5, 0.75


class Squad:
    """What questions.py asks, as papers.Papers is."""
    name, general, piece_tokens, alone = SQUAD, [], TOKENS_OF_A_PIECE, False

    def __init__(self, path):
        try:
            raw = path.read_bytes()
            articles = json.loads(raw)["data"]
            self.documents, self.paragraphs, self.all = {}, {}, []
            for article in articles:
                self.add("squad/" + re.sub(r"[^\w.()-]", "_", article["title"]), article["paragraphs"])  # an id has no commas
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path} is no file of SQuAD's questions: {error!r}") from error
        self.digest, self.bm25 = hashlib.sha256(raw).hexdigest()[:16], {}

    def add(self, document, paragraphs):
        text = ""
        for paragraph in paragraphs:
            begin = len(text.encode())
            text += paragraph["context"] + "\n\n"
            end = begin + len(paragraph["context"].encode())
            self.paragraphs[document, begin] = paragraph["context"]
            self.all += [{"id": one["id"], "kind": SQUAD, "document": document, "q": one["question"].strip(), "begin": begin, "end": end,
                          "a": list(dict.fromkeys(answer["text"] for answer in one["answers"]))} for one in paragraph["qas"]]
        self.documents[document] = text

    def questions(self, limit):
        return drawn(self.all, limit)

    def front(self, question):
        return self.paragraphs[question["document"], question["begin"]]

    def books_beside(self, tokens, own):
        """How many tokens of books make `tokens` in all, with `own` of the articles."""
        if tokens and tokens < own:
            raise SystemExit(f"the articles alone have {own} tokens, {tokens} are to be mounted")
        return max(0, tokens - own)

    def mounted(self, server, tokens, texts, mode):
        """Has the server list its blocks of these documents, for BM25. `texts`: {id on the server: text}."""
        if tokens not in self.bm25:
            self.bm25[tokens] = Bm25([block for name, text in texts.items() for block in blocks(server, name, text.encode(), mode)])

    def score(self, question, said, citations, document, tokens):
        marks = {"right": any(contains(said, one) for one in question["a"])}
        if citations:
            given = [text for _, text in passages(citations)]
            marks |= {"found": any(contains(text, one) for text in given for one in question["a"])}
            if question["mode"] == "text":  # what layers read is no ranking: squad_ranks.py has that
                marks |= {f"among_{k}": among(question, document, [(one["document"], one["begin"], one["end"]) for one in citations[:k]]) for k in (4, 8)}
            best = self.bm25[tokens].best(question["q"], 8)
            marks |= {f"bm25_among_{k}": among(question, document, [block[:3] for block in best[:k]]) for k in (4, 8)}
            marks |= {"bm25_found": any(contains(block[3], one) for block in best for one in question["a"])}
        return marks


def among(question, document, ranges):
    """Whether one of the ranges (document, begin, end) has bytes of the question's paragraph."""
    return any(name == document and begin < question["end"] and end > question["begin"] for name, begin, end in ranges)


def blocks(server, document, text, mode):
    """[(document, begin, end, text)]: the blocks of a document as the server has cut it. What no block of the answer covers is a block of its own."""
    answer = server.call("POST", "/v1/retrieve", {"query": EVERYWHERE, "k": BLOCKS_OF_A_DOCUMENT, "mounts": [document], "mount_as": mode})
    hits = {(hit["begin"], hit["end"]) for hit in answer["data"][0]["hits"] if hit["document"] == document}
    found, at = [], 0
    for begin, end in [*sorted(hits), (len(text), len(text))]:
        for first, last in ((at, begin), (begin, end)):
            if first < last:
                found.append((document, first, last, text[first:last].decode(errors="replace")))
        at = max(at, end)
    return found


def words(text):
    return re.findall(r"\w+", text.casefold())


class Bm25:
    """Okapi's BM25 with K1 and B over blocks (document, begin, end, text); a word's weight is ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, found):
        self.blocks, self.lists, lengths = found, collections.defaultdict(list), []
        for i, block in enumerate(found):
            counts = collections.Counter(words(block[3]))
            lengths.append(sum(counts.values()))
            for word, count in counts.items():
                self.lists[word].append((i, count))
        mean = sum(lengths) / max(1, len(lengths))
        self.norms = [K1 * (1 - B + B * length / max(1e-9, mean)) for length in lengths]

    def best(self, query, k):
        scores = collections.Counter()
        for word in words(query):
            found = self.lists.get(word, [])
            weight = math.log(1 + (len(self.blocks) - len(found) + 0.5) / (len(found) + 0.5))
            for i, count in found:
                scores[i] += weight * count * (K1 + 1) / (count + self.norms[i])
        return [self.blocks[i] for i, _ in sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:k]]
