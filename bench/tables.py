"""Tables of measured numbers in pages of the documentation. Shared by the measuring programs in Python."""
import pathlib


def replace_table(page, lines):
    """Puts a table in Markdown into a page instead of the one whose first column has the same name. Exits where there is none."""
    first_cell = lines[0].split("|")[1]
    old = pathlib.Path(page).read_text().split("\n")
    begin = next((i for i, line in enumerate(old) if line.startswith(f"|{first_cell}|")), None)
    if begin is None:
        raise SystemExit(f"{page} has no table of {first_cell.strip()}")
    end = next((i for i in range(begin, len(old)) if not old[i].startswith("|")), len(old))
    pathlib.Path(page).write_text("\n".join([*old[:begin], *lines, *old[end:]]))
