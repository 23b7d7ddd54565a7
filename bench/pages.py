"""Puts what a program has measured into a page that people write."""
import pathlib


def title(line):
    """The first cell of a table's head that has anything in it."""
    return next((cell for cell in map(str.strip, line.split("|")) if cell), "")


def replace_table(page, lines):
    """Puts a table in Markdown into a page instead of the one whose head begins with the same words. Exits where there is none."""
    old = pathlib.Path(page).read_text().split("\n")
    begin = next((i for i, line in enumerate(old) if line.startswith("|") and title(line) == title(lines[0])), None)
    if begin is None:
        raise SystemExit(f"{page} has no table of {title(lines[0])}")
    end = next((i for i in range(begin, len(old)) if not old[i].startswith("|")), len(old))
    pathlib.Path(page).write_text("\n".join([*old[:begin], *lines, *old[end:]]))
