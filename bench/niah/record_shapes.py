"""The shapes of the task records. For reporting only: training must never see them, or their numbers say nothing."""
from typing import NamedTuple


class Shape(NamedTuple):
    """`key` and `value` are kinds of fields (records.py). `record` has {key}, {value} and fillers: {number}, {word}, {name}, {date},
    {time}; it starts with white space. `question` is the prompt if the value precedes the key; empty: the record up to the value."""

    name: str
    key: str
    value: str
    record: str
    question: str = ""


SHAPES = [
    Shape("address", "name", "place", "\n{key}, {number} {word} Street, {value}\n"),
    Shape("birth", "name", "date", " {key} was born on {value}, the youngest of {number}."),
    Shape("bug tracker", "identifier", "name", "\n[{key}] {word} {word} fails; assigned to {value}\n"),
    Shape("chess", "name", "place", "\n{key} - {name} 1-0 ({number}), {value}\n"),
    Shape("constant", "constant", "digits", "\n{key} = {value}\n"),
    Shape("csv", "name", "digits", "\n{number},{key},{value},{word}\n"),
    Shape("dictionary", "phrase", "words", "\n{key}, n. {value}; see {word}.\n"),
    Shape("email", "name", "handle", "\nFrom: {key} <{value}@{word}.org>\n"),
    Shape("export", "constant", "words", '\nexport {key}="{value}"\n'),
    Shape("ini", "phrase", "digits", "\n[{key}]\nport={value}\n"),
    Shape("invoice", "identifier", "money", " Invoice {key} over {value} was settled by {name}."),
    Shape("json", "name", "identifier", '\n{"owner": "{key}", "badge": "{value}", "age": 4}\n'),
    Shape("letter", "name", "name", " Do tell {key} that the {word} is now with {value}."),
    Shape("log", "handle", "hex", "\n{time} INFO session of {key} opened, id {value}\n"),
    Shape("markdown", "phrase", "iso_date", "\n| {key} | {value} | {word} |\n"),
    Shape("moved", "name", "place", " In the spring {key} moved to {value} with {name}."),
    Shape("phone list", "name", "phone", "\n{key} ....... {value}\n"),
    Shape("price first", "name", "money", " {value} was the price that {key} asked.", "The price that {key} asked was"),
    Shape("receipt", "phrase", "money", "\n2 x {key}      {value}\n"),
    Shape("recipe", "phrase", "digits", "\n- {value} g of {key}\n", "Of {key} it takes, in g:"),
    Shape("record holder", "phrase", "name", "\n{value} holds the {key} record.\n", "The {key} record is held by"),
    Shape("ship's log", "name", "place", "\n{date}. Spoke the {key}, bound for {value}.\n"),
    Shape("sql", "handle", "hex", "\nINSERT INTO seals VALUES ('{key}', '{value}');\n"),
    Shape("tabs", "identifier", "iso_date", "\n{key}\t{number}\t{value}\n"),
    Shape("timetable", "name", "time", "\n{key}   dep. {value}   platform {number}\n"),
    Shape("xml", "phrase", "identifier", '\n<part name="{key}" serial="{value}"/>\n'),
    Shape("yaml", "handle", "place", "\n- user: {key}\n  region: {value}\n"),
]
