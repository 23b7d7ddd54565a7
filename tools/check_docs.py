#!/usr/bin/env python3
"""Checks what the pages of this repository say of it. Fails on
  - a link to a file, or to a heading of a page, that does not exist,
  - a path of the tree in backticks that does not exist (NAME in it stands for any),
  - a tool, script or program in a command (a line indented by four, or between fences) that does not exist,
  - a flag (--like-this) that no program of the repository has,
  - a test in backticks (`SuiteTest.Name`) that no file under tests/ has,
  - a field or RPC of the public API without a comment.

    tools/check_docs.py [ROOT]
"""
import pathlib
import re
import sys

FOLDERS = "base|access|kernels|model|models|store|engine|proto|service|http|client|cli|train|tests|bench|tools|docs|deploy|examples|cmake"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
PATH = re.compile(r"`((?:" + FOLDERS + r")/[\w./-]+)`")
SCRIPT = re.compile(r"(?<![\w./-])(tools/[\w-]+|(?:" + FOLDERS + r")/[\w./-]+\.(?:py|sh))\b")
PROGRAM = re.compile(r"build/[\w-]+/bin/(\w+)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
TEST = re.compile(r"`(\w+Test)\.([\w*]+)")
# Flags of other people's programs that our pages show.
FOREIGN_FLAGS = {"--cacert", "--preset", "--tasks", "--nproc-per-node", "--help", "--fail-with-body"}
# Programs and scripts that define flags. A flag with "-file" behind it is made of the one without (cli/common/session_options.cc).
PROGRAMS = ("cli", "bench", "tools", "train", "tests/attacks")

# A field or an RPC, and what stands behind it on its line.
DECLARED = re.compile(r"^\s*(?:(?:repeated |optional )?[\w.]+ (\w+) = \d+;|rpc (\w+)\()(.*)$")


def pages(root):
    skip = {"build", ".git", ".venv"}
    return sorted(p for p in root.rglob("*.md") if not skip & set(p.relative_to(root).parts))


def sources(root, folders, suffixes):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
                yield path


def headings(page):
    """The anchors that GitHub gives the headings of a page."""
    for line in page.read_text().splitlines():
        if line.startswith("#"):
            text = line.lstrip("#").strip().lower()
            yield re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def uncommented(root):
    for path in sorted((root / "proto").rglob("*.proto")):
        before = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = DECLARED.match(line)
            if match and "//" not in match.group(3) and not before.lstrip().startswith("//"):
                yield f"{path.relative_to(root)}:{number}: {match.group(1) or match.group(2)} has no comment"
            before = line


def defined_flags(root):
    quoted = re.compile(r"[\"'](--[a-z][a-z0-9-]*)")
    plain = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
    flags = set(FOREIGN_FLAGS)
    for path in sources(root, PROGRAMS, {".cc", ".h", ".py"}):
        flags.update(quoted.findall(path.read_text()))
    for path in sources(root, ("tools",), {""}):  # shell scripts
        flags.update(plain.findall(path.read_text()))
    return flags | {flag + "-file" for flag in ("--prompt", "--text", "--query")}


def broken_links(root, page, line):
    for target, anchor in LINK.findall(line):
        if "://" in target or target.startswith("mailto:"):
            continue
        there = page.parent / target if target else page
        if not there.exists():
            yield f"link to {target}, which does not exist"
        elif anchor and there.suffix == ".md" and anchor not in set(headings(there)):
            yield f"link to {target}#{anchor}: no such heading"


def missing_commands(root, targets, line):
    for script in SCRIPT.findall(line):
        if not (root / script).exists():
            yield f"runs {script}, which does not exist"
    for program in PROGRAM.findall(line):
        if not re.search(rf"\b{program}\b", targets):
            yield f"runs {program}, which no CMakeLists.txt builds"


def problems(root):
    yield from uncommented(root)
    targets = "\n".join(path.read_text() for folder in FOLDERS.split("|") for path in sorted((root / folder).rglob("CMakeLists.txt")))
    flags = defined_flags(root)
    tests = "\n".join(path.read_text() for path in sources(root, ("tests",), {".cc", ".h", ".txt"}))
    for page in pages(root):
        fenced = False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            fenced ^= line.startswith("```")
            where = f"{page.relative_to(root)}:{number}"
            commands = missing_commands(root, targets, line) if fenced or line.startswith("    ") else ()
            for problem in (*broken_links(root, page, line), *commands):
                yield f"{where}: {problem}"
            for target in PATH.findall(line):
                plain = target.rstrip(".")
                if "NAME" not in plain and not (root / plain).exists() and not list(root.glob(plain + ".*")):
                    yield f"{where}: names {target}, which does not exist"
            for flag in FLAG.findall(line):
                if flag not in flags:
                    yield f"{where}: no program has {flag}"
            for suite, name in TEST.findall(line):
                parts = [re.escape(part) for part in name.split("*")]
                if not re.search(rf"\b{suite},\s*{r'[A-Za-z0-9_]*'.join(parts)}", tests):
                    yield f"{where}: no test {suite}.{name}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = list(problems(root))
    print("\n".join(found) if found else "docs: links, paths, commands, flags and tests that pages name exist")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
