"""check_statistics.py must fail, and name what is missing or wrong, once table, proto and page differ; --write must add it.
Usage: check_statistics_test.py SOURCE_DIR"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

TABLE, PROTO, PAGE = "engine/stats.h", "proto/recollect/v1/admin.proto", "docs/metrics.md"
STEPS_ROW = '    {NAMED(steps), "Steps of the batch.", "recollect_steps_total"},\n'
CACHED_ROW = '    {NAMED(cached_words), "Words \\"kept\\" "\n     "in RAM.", "recollect_cached_words"},\n'
# A file, what stands in it, what takes its place, what is said; whether --write repairs it.
CASES = [
    (PROTO, "  int64 steps = 18;", "  reserved 18;", "int64 steps = 60;", True),
    (PROTO, "  int64 steps = 18;", "  double steps = 18;", "steps is double, in the table int64", False),
    (PROTO, "  int64 steps = 18;", "  int64 steps = 18;\n  int64 hops = 70;", "message Stats has hops", False),
    (PAGE, "| `recollect_steps_total` |", "| `recollect_hops_total` |", "| `recollect_steps_total` | counter | | steps of the batch |", True),
    (PAGE, "| `recollect_steps_total` | counter |", "| `recollect_steps_total` | gauge |", "does not begin with", False),
    (PAGE, "`recollect_budget_limit_bytes` | gauge | `budget`", "`recollect_budget_limit_bytes` | gauge | ", "does not begin with", False),
    (TABLE, STEPS_ROW, "", "message Stats has steps", False),
    (TABLE, STEPS_ROW, CACHED_ROW + STEPS_ROW, '  // Words "kept" in RAM.\n  int64 cached_words = 60;', True),
    (TABLE, STEPS_ROW, STEPS_ROW + CACHED_ROW, '| `recollect_cached_words` | gauge | | words "kept" in RAM |', True),
]


def check(root, *flags):
    return subprocess.run([sys.executable, root / "tools/check_statistics.py", *flags], capture_output=True, text=True)


def main():
    source = pathlib.Path(sys.argv[1])
    for name, old, new, said, repaired in CASES:
        with tempfile.TemporaryDirectory() as copy:
            root = pathlib.Path(copy)
            for file in ("tools/check_statistics.py", TABLE, PROTO, PAGE):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / file, root / file)
            table = root / TABLE
            table.write_text(table.read_text().replace("  int64_t sessions = 0,", "  int64_t cached_words = 0,\n      sessions = 0,"))
            text = (root / name).read_text()
            if old not in text:
                sys.exit(f"{name} has no {old!r}")
            (root / name).write_text(text.replace(old, new, 1))
            runs = check(root), check(root, "--write"), check(root)
            if runs[0].returncode != 1 or said not in runs[0].stdout or [run.returncode for run in runs[1:]] != ([0, 0] if repaired else [1, 1]):
                sys.exit(f"{new!r} for {old!r} in {name}: expected {said!r}:\n" + "\n".join(f"{run.returncode} {run.stdout}{run.stderr}" for run in runs))
    print(f"{len(CASES)} differences noticed")


if __name__ == "__main__":
    main()
