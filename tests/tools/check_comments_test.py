"""check_comments.py must fail, and name the line, once a comment without a subject is added. Usage: check_comments_test.py SOURCE_DIR"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

REFUSED = ("// Of a session with these mounts.", "  // What a case keeps.", "// A session.\n//\n// Whoever opens it.", "int x;\n// One session more.",
           "// layer: Those of the layer.")
ALLOWED = ("// Keys of a session with these mounts.", "// Returns what a case keeps,\n// Of which there is one.", "int x;  // Of a session",
           "// One-pass scan.", "// Offset of the first byte.", "// Overlap of two pieces.")


def run(text):
    with tempfile.TemporaryDirectory() as copy:
        root = pathlib.Path(copy)
        for folder in ("tools", "engine"):
            (root / folder).mkdir()
        shutil.copy(pathlib.Path(sys.argv[1]) / "tools/check_comments.py", root / "tools")
        (root / "engine/session.h").write_text(text + "\n")
        done = subprocess.run([sys.executable, root / "tools/check_comments.py"], capture_output=True, text=True)
        return done.returncode, done.stdout


def main():
    for text in REFUSED:
        code, said = run(text)
        line = len(text.splitlines())
        if code != 1 or f"engine/session.h:{line}:" not in said:
            sys.exit(f"{text!r} was not noticed:\n{said}")
    for text in ALLOWED:
        code, said = run(text)
        if code != 0:
            sys.exit(f"{text!r} was refused:\n{said}")
    print(f"{len(REFUSED)} comments refused, {len(ALLOWED)} allowed")


if __name__ == "__main__":
    main()
