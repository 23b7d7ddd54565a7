"""Plain questions about documents to a running server: how often the answer is right, whether its place was found, how long it takes.

    recollect serve --model smollm2 --http-listen 127.0.0.1:8080
    python3 bench/questions/questions.py --server http://127.0.0.1:8080 --qa DIR --books DIR --tokens 64k,1m --mode nothing,whole,text --json answers.jsonl

The documents of a half (papers.py says which) are mounted beside that many tokens of books, and asked in turns:

    nothing   nothing is mounted
    whole     the question's document stands in the prompt, in front of the question, and nothing is mounted
    text      blocks are retrieved and stand in the prompt (`mount_as`)
    memory    layers read retrieved blocks
    both      both

--alone short asks short questions ("Can I bring a friend?"), --alone about what a document is about, --alone pairs two questions in one message, each with
that document alone mounted.

Right is an answer in whose first 40 tokens (--max-tokens) the accepted words stand, without difference of case. --json gets a line for each answer, with what was said and
which blocks were given; answers that it has already are not asked again, and Ctrl+C ends with the table of what there is. With a document mounted general
prompts are asked, too (papers.py), and compared with what is said with nothing mounted, so let the modes have `nothing`. Only the standard library is needed.
"""
import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import statistics
import sys
import time

import facts
import papers
from scores import GENERAL, table, tokens_text
from server import Server, ServerError
from squad import Squad

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOUNTED = ("text", "memory", "both")
MODES = ("nothing", "whole", *MOUNTED)
PREFIX = "questions/"  # of the ids of documents that are uploaded
PIECE = "/piece-"
SECONDS_BETWEEN_LINES = 15  # of progress, where it goes into a file


class Progress:
    """A line on standard error that is written over, or now and then a new one where that is no terminal."""

    def __init__(self):
        self.terminal, self.said = sys.stderr.isatty(), time.monotonic() - SECONDS_BETWEEN_LINES

    def say(self, text):
        if self.terminal:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.said >= SECONDS_BETWEEN_LINES:
            self.said = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def end(self):
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Answers:
    """A file of lines of JSON: what was measured with, then an answer each. A last line that was cut off is dropped."""

    def __init__(self, path, settings):
        self.rows, self.file, whole = {}, None, []
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n") if path.exists() else []
        lines = lines if lines != [""] else []
        for number, line in enumerate(lines, 1):
            try:
                whole.append(json.loads(line))
            except ValueError:
                if number < len(lines):
                    raise SystemExit(f"{path}:{number} is no JSON") from None
        if not whole:
            whole = [{"settings": settings}]
        if "settings" not in whole[0]:
            raise SystemExit(f"{path} is no file of answers")
        self.settings = whole[0]["settings"]
        if settings is not None and self.settings != settings:
            other = [f"{key} is {self.settings.get(key)!r} there, {value!r} now" for key, value in settings.items() if self.settings.get(key) != value]
            raise SystemExit(f"{path} has answers of other settings ({'; '.join(other)}): name another file")
        for row in whole[1:]:
            self.rows[self.key(row)] = row
        if settings is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            rewritten = path.with_name(path.name + ".new")
            rewritten.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in whole), encoding="utf-8")
            rewritten.replace(path)
            self.file = path.open("a", encoding="utf-8")

    @staticmethod
    def key(row):
        return row["mode"], row["tokens"], row["books"], row["id"], row["q"]

    def write(self, row):
        self.file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.file.flush()

    def close(self):
        if self.file:
            self.file.close()

    def add(self, row):
        self.rows[self.key(row)] = row
        self.write(row)


class Ways:
    """The modes to ask in, each with 0 tokens or with each of --tokens, and what is mounted for it."""

    def __init__(self, arguments, source):
        self.source = source
        self.all = [(mode, tokens) for mode in arguments.mode for tokens in (arguments.tokens if mode in MOUNTED else [0])]
        self.books = {0: {}}  # tokens: {id on the server: text}
        self.options = {key: value for key, value in (("text_tokens", arguments.text_tokens), ("quotes", arguments.quotes)) if value is not None}

    def books_id(self, tokens):
        """One id for all of the books beside the documents; empty for none."""
        return next(iter(self.books[tokens]), "").partition(PIECE)[0]

    def mounts(self, tokens, document=None):
        """{id on the server: text}; of a source that asks alone only this document's, if there is one."""
        alone = self.source.alone and document is not None
        return {PREFIX + name: text for name, text in self.source.documents.items() if not alone or name == document} | self.books[tokens]

    def request(self, mode, tokens, question):
        """(prompt, fields of the request) of a question."""
        if mode == "whole":
            return f"{self.source.front(question)}\n\n{question['q']}", {}
        if mode not in MOUNTED:
            return question["q"], {}
        return question["q"], {"mounts": list(self.mounts(tokens, question["document"])), "mount_as": mode, **self.options}


def upload(server, fingerprint, ways, arguments, progress):
    """Puts what is missing on the server. Returns its tokens: {"documents": n, tokens of --tokens: n of books}."""
    modes, source = [mode for mode in arguments.mode if mode in MOUNTED], ways.source
    if not modes:
        return {}
    own = 0
    for i, (name, text) in enumerate(source.documents.items()):
        progress.say(f"document {i + 1} of {len(source.documents)}")
        own += server.keep(PREFIX + name, text, fingerprint)
        if i == 0:  # a mode that the server lacks is known before hours of reading
            for mode in modes:
                check_mode(server, arguments.model, PREFIX + name, mode)
    mounted = {"documents": own}
    books = papers.read_books(arguments.books, held_out_authors()) if any(arguments.tokens) else []
    for tokens in arguments.tokens:
        beside = source.books_beside(tokens, own)
        ways.books[tokens] = name_pieces(papers.hay(books, beside, server.count_tokens), beside, source.piece_tokens) if beside else {}
        mounted[tokens] = 0
        for name, text in ways.books[tokens].items():
            mounted[tokens] += server.keep(name, text, fingerprint, lambda done, at=mounted[tokens], all=beside: progress.say(
                f"the server reads books: {at + done} of about {all} tokens"))
        source.mounted(server, tokens, ways.mounts(tokens), modes[0])
    return mounted


def name_pieces(text, tokens, piece_tokens):
    """{id on the server: text} of books, in pieces of at most about `piece_tokens`; None: as one."""
    name = f"{PREFIX}books-{tokens}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if piece_tokens is None:
        return {name: text}
    return {f"{name}{PIECE}{i:03}": part for i, part in enumerate(papers.pieces(text, -(-tokens // piece_tokens)))}


def check_mode(server, model, document, mode):
    try:
        server.ask(model, "Hello", 1, mounts=[document], mount_as=mode)
    except ServerError as error:
        if not error.status:
            raise
        raise SystemExit(f"{server.url} does not offer the mode {mode}: {error}") from error


def held_out_authors():
    split = json.loads((ROOT / "train/split.json").read_text(encoding="utf-8"))
    return split["test_authors"] + split["valid_authors"]


class Clock:
    """How long the rest takes, from the seconds that each way took so far."""

    def __init__(self):
        self.seconds = {}

    def add(self, way, seconds):
        self.seconds.setdefault(way, []).append(seconds)

    def left_s(self, missing):
        """`missing`: the way of each answer that is still to come. A way without answers counts as the slowest."""
        means = {way: statistics.fmean(values) for way, values in self.seconds.items()}
        return sum(means.get(way, max(means.values(), default=0)) for way in missing)


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def ask_all(server, ways, questions, arguments, answers, progress):
    """Asks what the file does not have, each question in all ways in turns, so that the ways see the machine in the same state."""
    todo = []
    for question in questions:
        for mode, tokens in ways.all:
            row = {"mode": mode, "tokens": tokens, "books": ways.books_id(tokens), **question}
            if mode == "whole" and question["kind"] == GENERAL or answers.key(row) in answers.rows:
                continue
            todo.append(row)
    clock, there = Clock(), len(answers.rows)
    for i, row in enumerate(todo):
        way = row["mode"], row["tokens"]
        left = f", about {duration(clock.left_s([(one['mode'], one['tokens']) for one in todo[i:]]))} left" if i else ""
        progress.say(f"answer {i + 1} of {len(todo)}{f' ({there} were there)' if there else ''}{left}")
        prompt, fields = ways.request(*way, row)
        begin = time.perf_counter()
        answer = server.ask(arguments.model, prompt, arguments.max_tokens, **fields)
        clock.add(way, time.perf_counter() - begin)
        marks = ways.source.score(row, answer["said"], answer["citations"], PREFIX + (row["document"] or ""), row["tokens"])
        answers.add({**row, **marks, **answer})


def chosen(answers, ways, questions):
    """The rows of the answers to these questions in these ways, ways in their order."""
    keys = [(mode, tokens, ways.books_id(tokens), one["id"], one["q"]) for mode, tokens in ways.all for one in questions]
    return [answers.rows[key] for key in keys if key in answers.rows]


def tokens(text):
    scale = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower(), 1)
    number = int(float(text[:-1] if scale > 1 else text) * scale)
    if number < 0:
        raise ValueError
    return number


def listed(kind, allowed=None):
    def parse(text):
        values = list(dict.fromkeys(kind(one) for one in text.split(",")))
        for one in values:
            if allowed and one not in allowed:
                raise argparse.ArgumentTypeError(f"{one!r} is none of {', '.join(allowed)}")
        return values
    return parse


def other_set(arguments):
    """Whether the questions are not those of --qa."""
    return arguments.squad or arguments.facts


def needs_books(arguments):
    return arguments.facts or set(arguments.mode) & set(MOUNTED) and any(arguments.tokens)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--key", default=os.environ.get("RECOLLECT_API_KEY"), help="a key of the server, or RECOLLECT_API_KEY")
    parser.add_argument("--qa", type=pathlib.Path, help="folder of documents with questions (*.jsonl)")
    parser.add_argument("--books", type=pathlib.Path, help="folder of books: *.txt, and of *.jsonl those by held-out authors; .xz too")
    parser.add_argument("--squad", type=pathlib.Path, help="asks SQuAD's questions in place of --qa (squad.py); --tokens are with its articles then")
    parser.add_argument("--facts", action="store_true", help="asks for made-up facts in place of --qa (facts.py); --tokens are with their documents then")
    parser.add_argument("--alone", choices=(*papers.ALONE, papers.PAIRS), help="asks these questions of --qa, each with its own document alone mounted")
    parser.add_argument("--half", choices=papers.HALVES, default="choosing", help="held-out documents that choices may be made by, or those that are reported")
    parser.add_argument("--tokens", type=listed(tokens), default=[1 << 16], help="of books, beside the documents: 64k,1m; 0: none")
    parser.add_argument("--mode", type=listed(str, MODES), default=["nothing", "whole", "text"], help=",".join(MODES))
    parser.add_argument("--limit", type=int, help="questions with an answer, and a quarter as many without one; all, unless given")
    parser.add_argument("--max-tokens", type=int, help="of an answer; 40 unless given, and 160 of two")
    parser.add_argument("--text-tokens", type=int, help="of blocks that stand in the prompt; the server's default, unless given")
    parser.add_argument("--no-quotes", dest="quotes", action="store_const", const=False, help="answers in the model's own words")
    parser.add_argument("--json", type=pathlib.Path, required=True, help="answers, a line each; those that are there are not asked again")
    parser.add_argument("--only-table", action="store_true", help="asks nothing, prints the table of --json")
    arguments = parser.parse_args(argv)
    if arguments.max_tokens is None:
        arguments.max_tokens = 160 if arguments.alone == papers.PAIRS else 40
    if arguments.only_table:
        return arguments
    wrong = [said for is_wrong, said in (
        (arguments.limit is not None and arguments.limit < 1, "--limit is below 1"),
        (arguments.max_tokens < 1, "--max-tokens is below 1"),
        (not other_set(arguments) and not arguments.qa, "--qa is missing"),
        (not other_set(arguments) and arguments.qa and not arguments.qa.is_dir(), f"--qa: {arguments.qa} is no folder"),
        (needs_books(arguments) and not arguments.books, "--books is missing"),
        (needs_books(arguments) and arguments.books and not arguments.books.exists(), f"--books: {arguments.books} is not there")) if is_wrong]
    if wrong:
        raise SystemExit("; ".join(wrong))
    return arguments


def print_table(settings, rows, note=""):
    half = settings["half"] + (" half" if settings["half"] in papers.HALVES else "")
    print(f"model {settings['model']} ({settings['fingerprint'][:12]}), {half}, {settings['max_tokens']} tokens, greedy{note}")
    print("\n".join(table(rows)))


def source_of(arguments):
    if arguments.squad:
        return Squad(arguments.squad)
    if arguments.facts:
        return facts.Facts(papers.read_books(arguments.books, held_out_authors()))
    if arguments.alone == papers.PAIRS:
        return papers.PairsAlone(arguments.qa, arguments.half)
    if arguments.alone:
        return papers.QuestionsAlone(arguments.qa, arguments.half, arguments.alone)
    return papers.Papers(arguments.qa, arguments.half)


def run(arguments):
    source = source_of(arguments)
    with contextlib.closing(Server(arguments.server, arguments.key)) as server:
        arguments.model, fingerprint = server.model()
        settings = {"half": source.name, "model": arguments.model, "fingerprint": fingerprint, "max_tokens": arguments.max_tokens,
                    "text_tokens": arguments.text_tokens, "quotes": arguments.quotes, "papers": source.digest} | ({"alone": arguments.alone} if source.alone else {})
        with contextlib.closing(Answers(arguments.json, settings)) as answers:
            return ask_and_print(server, answers, Ways(arguments, source), arguments)


def ask_and_print(server, answers, ways, arguments):
    questions, progress, status = ways.source.questions(arguments.limit), Progress(), 0
    if set(arguments.mode) & set(MOUNTED):  # what is said to these is compared with what is said with nothing mounted
        questions += ways.source.general
    mounted = upload(server, answers.settings["fingerprint"], ways, arguments, progress)
    try:
        ask_all(server, ways, questions, arguments, answers, progress)
    except KeyboardInterrupt:  # the table is of what there is
        status = 130
    finally:
        progress.end()
    sizes = ", ".join(f"{tokens_text(size)}: {count} tokens of books" for size, count in mounted.items() if size in ways.books and count)
    note = f"; {len(ways.source.documents)} documents of {mounted['documents']} tokens{'; ' + sizes if sizes else ''}" if mounted else ""
    print_table(answers.settings, chosen(answers, ways, questions), note)
    return status


def main(argv=None):
    arguments = parse(argv)
    if arguments.only_table:
        if not arguments.json.exists():
            raise SystemExit(f"{arguments.json} is not there")
        answers = Answers(arguments.json, None)
        print_table(answers.settings, list(answers.rows.values()))
        return 0
    try:
        return run(arguments)
    except ServerError as error:
        raise SystemExit(str(error) if arguments.server in str(error) else f"{arguments.server}: {error}") from error
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
