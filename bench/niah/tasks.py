"""All tasks by name, in the order of help texts."""
from niah.needle_task import Needles
from niah.prose import Prose
from niah.quote import Quote
from niah.records import Records
from niah.reread import Reread
from niah.ruler import Ruler

TASKS = {
    "passkey": lambda options, material: Needles("passkey", options, material),
    "distractors": lambda options, material: Needles("distractors", options, material),
    "hex": lambda options, material: Needles("hex", options, material),
    "quote": lambda options, _: Quote(options),
    "reread": lambda options, _: Reread(options),
    "prose": lambda options, material: Prose(options, material),
    "records": lambda options, material: Records(options, material),
    "ruler": lambda _, material: Ruler(material),
}
