"""What clients of several servers saw, and what must hold of it.

Each id is used for one document, or for two that are ingested at the same time, of which one may win. A client's call is one entry with the times
between which it ran, so that what it must have seen follows:

- of two texts ingested under one id only one is ever answered with success: two writers never commit to one id;
- a document whose ingest was answered with success is in every list, and can be mounted, from then on until its deletion begins;
- one whose deletion was answered with success is in no list, and can not be mounted, from then on;
- every answer has the tokens that RocksDB gives for the text that was answered with success, whichever server gave it;
- every error is a status: no INTERNAL, no UNKNOWN, and no DATA_LOSS.
"""
import collections
import dataclasses
import threading
import time

EXITS = {0: "OK", 1: "INTERNAL", 2: "usage", 3: "NOT_FOUND", 4: "INVALID", 5: "UNAVAILABLE", 6: "DEADLINE", 7: "CONFLICT", 8: "EXHAUSTED", 9: "DATA_LOSS",
         10: "DENIED"}
NEVER = ("INTERNAL", "usage", "INVALID", "DATA_LOSS", "DENIED")
FOREVER = float("inf")


@dataclasses.dataclass
class Document:
    texts: list  # which ones were sent under its id
    begun: float  # its first ingest
    published: float = FOREVER  # when that was answered with success, like the last
    text: int | None = None  # the one that was answered with success
    delete_begun: float = FOREVER
    deleted: float = FOREVER
    may_come: int = 0  # ingests that may still be carried out, though the client has given them up


class History:
    """Thread-safe."""

    def __init__(self, expected):
        self.expected = expected  # the answer for each text
        self.documents = {}
        self.problems = []
        self.outcomes = collections.Counter()  # (call, outcome)
        self.lock = threading.Lock()

    def problem(self, text):
        with self.lock:
            self.problems.append(text)

    def count(self, call, outcome, error):
        with self.lock:
            self.outcomes[call, outcome] += 1
        if outcome in NEVER:
            self.problem(f"{call}: {outcome}: {error}")

    def begin(self, name, *texts):
        with self.lock:
            self.documents.setdefault(name, Document(list(texts), time.monotonic()))

    def may_ingest(self, name, more):
        with self.lock:
            self.documents[name].may_come += more

    def ingested(self, name, text, outcome, error):
        self.count("ingest", outcome, error)
        if outcome in ("OK", "CONFLICT", "EXHAUSTED"):  # the server has answered; it has ended there
            self.may_ingest(name, -1)
        if outcome == "OK":
            with self.lock:
                document = self.documents[name]
                document.published = min(document.published, time.monotonic())
                before, document.text = document.text, text
            if before not in (None, text):
                self.problem(f"{name}: text {before} and text {text} were both answered with success")
        elif outcome == "NOT_FOUND":
            self.problem(f"ingest of {name}: {outcome}: {error}")

    def begin_delete(self, name):
        with self.lock:
            document = self.documents[name]
            document.delete_begun = min(document.delete_begun, time.monotonic())

    def deleted(self, name, outcome, error):
        self.count("delete", outcome, error)
        if outcome in ("OK", "NOT_FOUND"):  # not found: the call before had removed it, and its answer was lost
            with self.lock:
                document = self.documents[name]
                document.deleted = min(document.deleted, time.monotonic())

    def listed(self, began, ended, outcome, names, error=""):
        self.count("list", outcome, error)
        if outcome != "OK":
            return
        with self.lock:
            documents = {name: dataclasses.replace(document) for name, document in self.documents.items()}
        for name, document in documents.items():
            if document.published < began and document.delete_begun > ended and name not in names:
                self.problem(f"{name}: published, and not in a list {began - document.published:.1f} s later")
            if document.deleted < began and name in names:
                self.problem(f"{name}: deleted, and in a list {began - document.deleted:.1f} s later")
        for name in set(names) - set(documents):
            self.problem(f"{name}: in a list, and never ingested")

    def generated(self, name, began, ended, outcome, answer, error=""):
        self.count("generate", outcome, error)
        with self.lock:
            document = dataclasses.replace(self.documents[name])
        if outcome == "OK" and answer != self.expected[document.text]:
            self.problem(f"{name}: other tokens: {answer!r}, expected {self.expected[document.text]!r}")
        if outcome == "OK" and document.deleted < began:
            self.problem(f"{name}: mounted {began - document.deleted:.1f} s after it was deleted")
        if outcome == "NOT_FOUND" and document.published < began and document.delete_begun > ended:
            self.problem(f"{name}: published, and not found {began - document.published:.1f} s later")

    # What may be, and what must be, in the store at the end.
    def may_be_there(self, name):
        return name in self.documents and self.documents[name].deleted == FOREVER

    def must_be_there(self, name):
        document = self.documents[name]
        return document.published < FOREVER and document.delete_begun == FOREVER

    def alive(self):
        with self.lock:
            return [name for name in self.documents if self.must_be_there(name)]

    def deletable(self):
        """Those that no ingest can bring back: a server that stood still may find a whole stream in its socket."""
        with self.lock:
            return [name for name, document in self.documents.items() if self.must_be_there(name) and document.may_come == 0]


def test_itself():
    """Each sort of wrong history is found, and a right one is not."""

    def problems(change):
        history = History(["yes", "no"])
        for name, text in (("a", 0), ("b", 1), ("gone", 0)):
            history.begin(name, text)
            history.may_ingest(name, 1)
            history.ingested(name, text, "OK", "")
        history.begin_delete("gone")
        history.deleted("gone", "OK", "")
        change(history, time.monotonic())
        return history.problems

    def expect(change, fragment):
        found = problems(change)
        assert bool(found) == bool(fragment) and all(fragment in one for one in found), (fragment, found)

    later = FOREVER
    history = History(["yes"])
    for name, outcome in (("a", "OK"), ("b", "UNAVAILABLE")):
        history.begin(name, 0)
        history.may_ingest(name, 2)
        history.ingested(name, 0, outcome, "")
        history.ingested(name, 0, "OK", "")
    assert history.alive() == ["a", "b"] and history.deletable() == ["a"], history.documents
    expect(lambda h, now: h.listed(now, later, "OK", ["a", "b"]), "")
    expect(lambda h, now: h.listed(now, later, "UNAVAILABLE", []), "")
    expect(lambda h, now: h.generated("a", now, later, "OK", "yes"), "")
    expect(lambda h, now: h.generated("gone", now, later, "NOT_FOUND", ""), "")
    expect(lambda h, now: h.listed(now - 100, now - 99, "OK", ["gone"]), "")
    expect(lambda h, now: h.listed(now, now, "OK", ["a"]), "b: published, and not in a list")
    expect(lambda h, now: h.listed(now, now, "OK", ["a", "b", "gone"]), "gone: deleted, and in a list")
    expect(lambda h, now: h.listed(now, now, "OK", ["a", "b", "x"]), "x: in a list, and never ingested")
    expect(lambda h, now: h.generated("b", now, now, "OK", "yes"), "b: other tokens")
    expect(lambda h, now: h.generated("gone", now, now, "OK", "yes"), "gone: mounted")
    expect(lambda h, now: h.generated("a", now, now, "NOT_FOUND", ""), "a: published, and not found")
    expect(lambda h, now: h.generated("a", now, now, "DATA_LOSS", ""), "DATA_LOSS")
    expect(lambda h, now: h.ingested("a", 0, "INTERNAL", ""), "INTERNAL")
    expect(lambda h, now: h.ingested("a", 0, "OK", ""), "")
    expect(lambda h, now: h.ingested("a", 1, "CONFLICT", ""), "")
    expect(lambda h, now: h.ingested("a", 1, "OK", ""), "a: text 0 and text 1 were both answered with success")
