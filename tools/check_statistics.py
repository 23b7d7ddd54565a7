#!/usr/bin/env python3
"""Fails where the table of statistics (engine/stats.h) has a row that message Stats (proto/recollect/v1/admin.proto) or docs/metrics.md
lacks, or the other way round. With --write, adds the fields and lines that are missing; help becomes their comment."""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE, PROTO, PAGE = (ROOT / name for name in ("engine/stats.h", "proto/recollect/v1/admin.proto", "docs/metrics.md"))
OF_THE_SERVER = {"resident_bytes", "uptime_s", "rpcs"}  # fields of Stats that the engine does not know
# Of a member: the type of its field, and that of its metric.
TYPES = {"std::string": ("string", None), "bool": ("bool", "gauge"), "int64_t": ("int64", "gauge"), "double": ("double", "gauge"),
         "Count": ("int64", "counter"), "HistogramValues": (None, "histogram")}
STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'


def joined(literals):
    """The text of string literals side by side."""
    return re.sub(r"\\(.)", r"\1", "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)))


def read_table():
    """Rows (name, type of the field, help, metric, its type, its label) in order, of which a metric with a label has one."""
    text = TABLE.read_text()
    members = {}
    for kind, names in re.findall(rf"(?m)^  ({'|'.join(TYPES)}) ([a-z]\w*(?: = \w+)?(?:,\s+\w+(?: = \w+)?)*);", text):
        members |= dict.fromkeys(re.findall(r"([a-z]\w*)(?: = \w+)?(?:,|$)", names), kind)
    labels = dict(re.findall(r'\{"(recollect_\w+)", "(\w+)",', text))
    found = re.findall(rf'\{{NAMED\((\w+)\),\s*{STRINGS}(?:,\s*"(\w+)")?(?:,\s*"(\w+)")?\}}', text)
    assert len(found) == text.count("{NAMED("), f"{TABLE}: a row in a form that tools/check_statistics.py cannot read"
    for name, text_of, metric, label in found:
        field, kind = TYPES[members[name]]
        yield name, field, joined(text_of), metric, kind, labels[metric] if label else ""


def check_proto(rows, text):
    """The text with what it lacks, and what that is."""
    begin = text.index("message Stats {")
    end = text.index("\n}", begin)
    fields = {name: (kind, int(number)) for kind, name, number in re.findall(r"(?m)^  ([\w ]+) (\w+) = (\d+);", text[begin:end])}
    wanted = {name: (field, text_of) for name, field, text_of, *_ in rows if field}
    problems = [f"message Stats has {name}, and the table has no row of it" for name in fields.keys() - wanted.keys() - OF_THE_SERVER]
    number, added = max(number for _, number in fields.values()), ""
    for name, (field, text_of) in wanted.items():
        if name in fields and fields[name][0] != field:
            problems.append(f"{name} is {fields[name][0]}, in the table {field}")
        if name not in fields:
            number += 1
            comment = "".join(f"\n  // {line}" for line in textwrap.wrap(text_of, 95))
            added += f"{comment}\n  {field} {name} = {number};"
    return text[:end] + added + text[end:], added, problems


def check_page(rows, text):
    lines, added, problems, last = text.splitlines(), "", [], None
    have = {match[1]: match[0] for line in lines if (match := re.match(r"\| `(\w+)` \|.*", line))}
    for _, _, text_of, metric, kind, label in rows:
        if not metric:
            continue
        begin = f"| `{metric}` | {kind} | " + (f"`{label}` |" if label else "|")
        if metric not in have:
            have[metric] = f"{begin} {text_of[0].lower()}{text_of[1:].removesuffix('.')} |"
            added += f"\n{have[metric]}"
            lines.insert(lines.index(have[last]) + 1, have[metric])  # behind the row before it in the table
        if not have[metric].startswith(begin):
            problems.append(f"{have[metric]!r} does not begin with {begin!r}")
        last = metric
    return "\n".join(lines) + "\n", added, problems


def main():
    rows, bad, write = list(read_table()), False, sys.argv[1:] == ["--write"]
    for path, check in ((PROTO, check_proto), (PAGE, check_page)):
        text, added, problems = check(rows, path.read_text())
        if added and write:
            path.write_text(text)
        name = path.relative_to(ROOT)
        if added:
            print(f"{name} {'has now' if write else 'lacks, and tools/check_statistics.py --write adds'}:{added}")
        for problem in problems:
            print(f"{name}: {problem}")
        bad = bad or bool(problems) or (bool(added) and not write)
    if not bad:
        print(f"statistics: {len(rows)} rows, all in {PROTO.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
