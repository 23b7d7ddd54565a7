"""Texts and material that the tests of niah share. Importing it makes the package niah and tests/e2e found."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/e2e")]

from niah import phrases  # noqa: E402
from niah.haystack import Haystack  # noqa: E402
from niah.task import Material  # noqa: E402

WORDS = ["amber", "putney", "ledger", "quill", "harbor", "walnut", "thistle", "copper", "lantern", "meadow", "falcon", "orchard"]
MATERIAL = Material(phrases.parse(phrases.FILE.read_text()), WORDS)


def numbered_text(count):
    return "".join(f"word{i}" + ("\n" if i % 9 == 8 else " ") for i in range(count)).encode()


def numbered_haystack(shards, count=4000):
    text = numbered_text(count)
    return Haystack.cut(text, 0, len(text), shards)


def at(haystack, place):
    return haystack.shards[place.shard][place.begin:place.end]


def contains(haystack, text):
    return any(text in shard for shard in haystack.shards)
