"""What counts as right, shares with their intervals, and the table."""
import math
import statistics

ANSWERABLE, UNANSWERABLE, GENERAL = "answerable", "unanswerable", "general"  # the kinds of questions about papers
REFUSAL = "the documents do not say"  # what is to be said to a question that no document answers
Z95 = 1.959964


def plain(text):
    """Without difference of case, of blanks and line ends, of curly and straight quotation marks."""
    for curly, straight in (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"')):
        text = text.replace(curly, straight)
    return " ".join(text.casefold().split())


def contains(text, answer):
    """Whether the answer stands in the text. A number does not stand in a longer one: 4 is not in 24, 1,310 not in 11,310."""
    text, answer = plain(text), plain(answer)
    at = text.find(answer) if answer else -1
    while at >= 0:
        end = at + len(answer)
        if not (answer[0].isdigit() and text[at - 1:at].isdigit()) and not (answer[-1].isdigit() and text[end:end + 1].isdigit()):
            return True
        at = text.find(answer, at + 1)
    return False


def refuses(said):
    return REFUSAL in plain(said)


def passages(citations):
    """[(document, text)]: blocks that follow one another in a document are one passage, so that an answer may begin in one and end in the next."""
    joined = []
    for one in sorted((one for one in citations if one["text"]), key=lambda one: (one["document"], one["begin"])):
        if joined and joined[-1][0] == one["document"] and joined[-1][1] == one["begin"]:
            joined[-1] = (one["document"], one["end"], joined[-1][2] + one["text"])
        else:
            joined.append((one["document"], one["end"], one["text"]))
    return [(document, text) for document, _, text in joined]


def score(question, said, citations, document):
    """The marks of one answer; `document` is the server's id of the question's document. `found`: an accepted answer stands in a retrieved block,
    `found_there`: in one of the right document."""
    if question["kind"] == GENERAL:
        return {}
    marks = {"refused": refuses(said)}
    if citations:
        marks["document_found"] = any(one["document"] == document for one in citations)
    if question["kind"] == ANSWERABLE:
        marks["right"] = contains(said, question["a"])
        if citations:
            blocks = passages(citations)
            marks["found"] = any(contains(text, question["a"]) for _, text in blocks)
            marks["found_there"] = any(contains(text, question["a"]) for name, text in blocks if name == document)
    return marks


def wilson(hits, count):
    """Bounds of the 95 % interval of a share, as Wilson gives it."""
    if not count:
        return 0.0, 1.0
    share, z2 = hits / count, Z95 * Z95
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    reach = Z95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return max(0.0, centre - reach), min(1.0, centre + reach)


def share(rows, mark):
    """Percent of the rows that have the mark, and its interval; a dash where none can have it."""
    marks = [row[mark] for row in rows if mark in row]
    if not marks:
        return "–"
    low, high = wilson(sum(marks), len(marks))
    return f"{100 * sum(marks) / len(marks):.0f} % ({100 * low:.0f}–{100 * high:.0f})"


def median(values, form):
    values = [value for value in values if value is not None]
    return form.format(statistics.median(values)) if values else "–"


def read_anew(row):
    """Whether the model read the prompt for this answer. Where all of it had been read for an earlier one the time says nothing."""
    return row["cached_tokens"] < row["prompt_tokens"] - 1


def same_as_with_nothing(rows, base):
    """The general prompts of a mode: whether the same was said as with nothing mounted."""
    return [{"same": row["said"] == base[row["id"]]} for row in rows if row["kind"] == GENERAL and row["id"] in base]


def tokens_text(tokens):
    """64 K, 1 M or the number itself; a dash for none."""
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if tokens and tokens % size == 0:
            return f"{tokens // size} {unit}"
    return str(tokens) if tokens else "–"


class Group:
    """The answers of one mode and number of tokens. `base`: what was said to the general prompts with nothing mounted."""

    def __init__(self, mode, tokens, rows, base):
        self.mode, self.tokens, self.rows = mode, tokens, rows
        self.asked = [row for row in rows if row["kind"] not in (UNANSWERABLE, GENERAL)]
        self.without = [row for row in rows if row["kind"] == UNANSWERABLE]
        self.timed = [row for row in rows if row["kind"] != GENERAL and read_anew(row)]
        self.general = same_as_with_nothing(rows, base) if mode != "nothing" else []


# A column's head, whether it is for questions about papers (True), SQuAD's (False) or both (None), and its cell of a group.
COLUMNS = [
    ("mode", None, lambda group: group.mode),
    ("tokens of books", True, lambda group: tokens_text(group.tokens)),
    ("tokens in all", False, lambda group: tokens_text(group.tokens)),
    ("questions", None, lambda group: str(len(group.asked))),
    ("right", None, lambda group: share(group.asked, "right")),
    ("answer in the blocks", None, lambda group: share(group.asked, "found")),
    ("in those of its document", True, lambda group: share(group.asked, "found_there")),
    ("its document found", True, lambda group: share(group.asked, "document_found")),
    ("refused", True, lambda group: share(group.asked, "refused")),
    ("without an answer", True, lambda group: str(len(group.without))),
    ("says so", True, lambda group: share(group.without, "refused")),
    ("general as with nothing", True, lambda group: share(group.general, "same")),
    ("paragraph among the first 4", False, lambda group: share(group.asked, "among_4")),
    ("8", False, lambda group: share(group.asked, "among_8")),
    ("BM25: among 4", False, lambda group: share(group.asked, "bm25_among_4")),
    ("8", False, lambda group: share(group.asked, "bm25_among_8")),
    ("answer in its 8", False, lambda group: share(group.asked, "bm25_found")),
    ("s to first token", None, lambda group: median([row["first_s"] for row in group.timed], "{:.2f}")),
    ("ms a token", None, lambda group: median([1e3 * row["token_s"] for row in group.timed if row["token_s"]], "{:.1f}")),
]


def table(rows):
    """Lines of Markdown, a line for each mode and number of tokens in the order of their first rows. Shares with their 95 % intervals, times as medians."""
    base = {row["id"]: row["said"] for row in rows if row["kind"] == GENERAL and row["mode"] == "nothing"}
    papers = any(row["kind"] in (ANSWERABLE, UNANSWERABLE) for row in rows)
    columns = [column for column in COLUMNS if column[1] in (None, papers)]
    lines = ["| " + " | ".join(head for head, _, _ in columns) + " |", "|---" * len(columns) + "|"]
    for mode, tokens in dict.fromkeys((row["mode"], row["tokens"]) for row in rows):
        group = Group(mode, tokens, [row for row in rows if (row["mode"], row["tokens"]) == (mode, tokens)], base)
        lines.append("| " + " | ".join(cell(group) for _, _, cell in columns) + " |")
    return lines
