"""Lines of pages that programs write, of at most 120 characters."""
import re
import textwrap

WIDTH = 120


def command(line):
    """A command over several lines, broken before its flags."""
    lines = [""]
    for part in re.split(r" (?=--)", line):
        if lines[-1] and len(lines[-1]) + 1 + len(part) > WIDTH - 2:
            lines[-1] += " \\"
            lines.append("      " + part)
        else:
            lines[-1] = f"{lines[-1]} {part}" if lines[-1] else part
    return lines


def wrapped(lines):
    """Prose, list items and commands in lines that fit; tables and all else as they are."""
    for line in lines:
        if len(line) <= WIDTH or line.startswith(("|", "#", "!")):
            yield line
        elif line.startswith("    "):
            yield from command(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            yield from textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
