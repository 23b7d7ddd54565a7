"""Phrasings of needles and questions, trained ones and held-out ones: train/phrases.json, which the trainer reads, too."""
import json
import pathlib
from dataclasses import dataclass

from niah.errors import InvalidInput

FILE = pathlib.Path(__file__).resolve().parents[2] / "train/phrases.json"


@dataclass(frozen=True)
class PhraseList:
    """Placeholders: {noun}, {key}, {value}. A question ends where the answer begins; the answer is a space and the value."""

    needles: list
    questions: list
    nouns: list


@dataclass(frozen=True)
class Phrases:
    """`more`: wordings that training draws as well; niah asks in none of them."""

    trained: PhraseList
    held_out: PhraseList
    more: list


def strings(values, split, name):
    part = values.get(split) if isinstance(values, dict) else None
    found = part.get(name) if isinstance(part, dict) else None
    found = [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
    if not found:
        raise InvalidInput(f"phrases: no strings at {split}.{name}")
    return found


def phrase_list(values, split):
    return PhraseList(*(strings(values, split, name) for name in ("needles", "questions", "nouns")))


def parse(text):
    """InvalidInput where a list is missing or empty."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"phrases: {error}") from None
    trained, held_out = phrase_list(values, "train"), phrase_list(values, "test")
    more = [text for name in ("needles", "questions") if "more" in values for text in strings(values, "more", name)]
    return Phrases(trained, held_out, more)
