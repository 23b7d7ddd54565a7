#!/usr/bin/env python3
"""Refuses comments that begin without a subject, in headers and protos: a stranger reads them twice.

  tools/check_comments.py [FILE...]      all headers and protos of the tree, unless some are named

A comment begins with a verb ("Returns the bytes …") or with a noun and its verb or apposition ("The session that …"). Comments on lines of
their own are checked where they begin: after a line that is no comment, or after an empty comment line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPENINGS = ("Else", "Likewise", "Of", "One", "Ones", "Over", "That", "Those", "What", "Whatever", "Who", "Whoever", "Whom", "Whose")
FAULT = re.compile(r"\s*//+\s*(?:\w+: )?(?:" + "|".join(OPENINGS) + r")\b(?!-)")


def files():
    for folder in sorted(ROOT.iterdir()):
        if folder.is_dir() and not folder.name.startswith((".", "build")):
            yield from sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".proto"))


def faults(path):
    before = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        begins = not before.startswith("//") or before == "//"
        if begins and FAULT.match(line):
            yield number, line.strip()
        before = line.strip()


def main():
    found = 0
    for path in [pathlib.Path(name) for name in sys.argv[1:]] or files():
        for number, line in faults(path):
            print(f"{path.relative_to(ROOT) if path.is_absolute() else path}:{number}: {line}")
            found += 1
    if found:
        sys.exit(f"check_comments: {found} comments begin without a subject; begin with a verb, or with a noun and its verb")


if __name__ == "__main__":
    main()
