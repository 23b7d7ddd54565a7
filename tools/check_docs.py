#!/usr/bin/env python3
"""Fails when README or docs/ link to a file that is missing or name a path of the tree that does not exist, and on a field
or RPC of the public API without a comment."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# `folder/file.ext` in backticks, where folder is one of ours
PATH = re.compile(
    r"`((?:base|kernels|model|models|store|engine|proto|service|client|cli|train|tests|bench|tools|docs|deploy|examples)"
    r"/[\w./-]+)`")


# a field or an RPC, and what stands behind it on its line
DECLARED = re.compile(r"^\s*(?:(?:repeated |optional )?[\w.]+ (\w+) = \d+;|rpc (\w+)\()(.*)$")


def uncommented():
    for path in sorted((ROOT / "proto").rglob("*.proto")):
        before = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = DECLARED.match(line)
            if match and "//" not in match.group(3) and not before.lstrip().startswith("//"):
                yield f"{path.relative_to(ROOT)}:{number}: {match.group(1) or match.group(2)} has no comment"
            before = line


def problems():
    yield from uncommented()
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages += [p for d in ("train", "tests", "models", "examples", "deploy") for p in sorted((ROOT / d).rglob("*.md"))]
    for page in pages:
        name = page.relative_to(ROOT)
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for target in LINK.findall(line):
                if "://" not in target and not (page.parent / target).exists():
                    yield f"{name}:{number}: link to {target}, which does not exist"
            for target in PATH.findall(line):
                plain = target.rstrip(".")
                if not (ROOT / plain).exists() and not list(ROOT.glob(plain + ".*")):
                    yield f"{name}:{number}: names {target}, which does not exist"


def main():
    found = list(problems())
    print("\n".join(found) if found else "docs: every file named exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
