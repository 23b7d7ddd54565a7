"""check_doubled_names.py must fail, and name both places, once a name is defined twice. Usage: check_doubled_names_test.py SOURCE_DIR"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

A, B = "store/rocks/a.h", "store/rados/b.h"
STORE = "namespace recollect::store {{\n{}\n}}\n"
# What both files have, and whether that is one name for two things.
CASES = [
    (A, STORE.format("class Head {{ int a; }};"), B, STORE.format("struct Head {{ char b; }};"), True),
    (A, STORE.format("template <typename T>\nclass Head final : public Base<T> {{}};"), B, STORE.format("enum class Head {{ kA }};"), True),
    (A, STORE.format("inline int Size(int a) {{ return a; }}"), B, STORE.format("inline int Size(int a) {{ return a + 1; }}"), True),
    (A, STORE.format("class Head {{}};"), "tests/store/x_test.cc", STORE.format("class Head {{}};"), True),
    ("tests/store/support.h", STORE.format("class Head {{}};"), "tests/store/x_test.cc", STORE.format("class Head {{}};"), True),
    (A, STORE.format("class Head {{}};"), B, "namespace recollect::store::rados {\nclass Head {};\n}\n", False),
    (A, STORE.format("namespace {{\nclass Head {{}};\n}}"), B, STORE.format("namespace {{\nclass Head {{ int a; }};\n}}"), False),
    (A, STORE.format("class Head {{}};"), B, STORE.format("class Head;\nclass Tail {{ class Head {{}}; }};"), False),
    (A, STORE.format("inline int Size(int a) {{ return a; }}"), B, STORE.format("inline int Size(char a) {{ return a; }}"), False),
    (A, STORE.format("static int Size() {{ return 1; }}"), B, STORE.format("int Size();"), False),
    ("tests/store/x_test.cc", STORE.format("class Head {{}};"), "tests/http/x_test.cc", STORE.format("class Head {{}};"), False),
]


def main():
    source = pathlib.Path(sys.argv[1])
    for first, first_text, second, second_text, wrong in CASES:
        with tempfile.TemporaryDirectory() as copy:
            root = pathlib.Path(copy)
            for name, text in ((first, first_text), (second, second_text), ("tests/support/none.h", "")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text.replace("{{", "{").replace("}}", "}"))
            (root / "tools").mkdir()
            shutil.copy(source / "tools/check_doubled_names.py", root / "tools")
            run = subprocess.run([sys.executable, root / "tools/check_doubled_names.py"], capture_output=True, text=True)
            named = f"{first}:" in run.stdout and f"{second}:" in run.stdout
            if run.returncode != int(wrong) or named != wrong:
                sys.exit(f"{first}:\n{first_text}{second}:\n{second_text}expected {int(wrong)}, is {run.returncode}:\n{run.stdout}{run.stderr}")
    print(f"{len(CASES)} pairs of definitions told apart")


if __name__ == "__main__":
    main()
