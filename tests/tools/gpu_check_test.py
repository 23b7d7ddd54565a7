"""tools/gpu-check --packed, with scripts for programs: what it reports, and what it does at a deadline and after it.

    python3 tests/tools/gpu_check_test.py SOURCE_DIR
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
PROGRAM = """#!/usr/bin/env python3
import json, sys, time
results = [a.split(":", 1)[1] for a in sys.argv if a.startswith("--gtest_output")]
if results:
    time.sleep({seconds})
    case = {{"name": "Runs", "result": "{result}", **({{"failures": [{{"failure": "1 != 2"}}]}} if {failed} else {{}})}}
    json.dump({{"testsuites": [{{"name": "{name}", "testsuite": [case]}}]}}, open(results[0], "w"))
    sys.exit({failed})
"""
NO_DEVICE = "#!/bin/sh\necho NOT RUN\nexit 2\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def program(root, name, result="COMPLETED", failed=0, seconds=0):
    write(root / "bin" / name, PROGRAM.format(name=name, result=result, failed=failed, seconds=seconds))


def check(root, status, *flags):
    """Runs it, expects the exit status, and returns {test: result}, the Markdown, and what it printed."""
    path = f"{root / 'path'}:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
    done = subprocess.run([sys.executable, root / "gpu-check", "--packed", *flags], env={"PATH": path}, cwd=root,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == status, f"{flags}: ended with {done.returncode}, expected {status}\n{done.stdout}"
    tests = json.loads((root / "report.json").read_text())["tests"]
    return {t["name"]: t["result"] for t in tests}, (root / "report.md").read_text(), done.stdout


def expect(found, wanted):
    assert found == wanted, f"{found}, expected {wanted}"


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    shutil.copy(SOURCE / "tools" / "gpu-check", root / "gpu-check")
    (root / "manifest.json").write_text(json.dumps({"commit": "abc", "tests": ["one", "two", "three"]}))
    write(root / "bin" / "cuda_bench", NO_DEVICE)

    # No device: every test skips, loudly.
    for name in ("one", "two", "three"):
        program(root, name, result="SKIPPED")
    tests, text, _ = check(root, 2)
    expect(tests, {"one.Runs": "skipped", "two.Runs": "skipped", "three.Runs": "skipped"})
    assert "NOT TESTED: this machine has no CUDA device; 3 tests were skipped" in text, text

    # A device that no test runs on is none.
    write(root / "path" / "nvidia-smi", "#!/bin/sh\necho GPU, 1, 2\n")
    assert "NOT TESTED: nothing passed; 3 tests" in check(root, 2, "--only", "tests")[1]

    # The deadline stops the second one; what comes later does not begin, and nothing that was found is lost.
    program(root, "one")
    program(root, "two", seconds=60)
    program(root, "three", failed=1)
    tests, text, _ = check(root, 1, "--only", "tests", "--deadline", "7")
    expect(tests, {"one.Runs": "passed", "two": "not run", "three": "not run"})
    assert "# CUDA operations on GPU, 1, 2" in text and "NOT TESTED" not in text, text

    # Goes on with these alone: the first program would fail now.
    program(root, "one", failed=1)
    program(root, "two")
    tests, text, _ = check(root, 1, "--only", "tests", "--resume")
    expect(tests, {"one.Runs": "passed", "two.Runs": "passed", "three.Runs": "failed"})
    assert "1 != 2" in text, text

    # Another commit's results are no results.
    (root / "manifest.json").write_text(json.dumps({"commit": "def", "tests": ["two"]}))
    expect(check(root, 0, "--only", "tests", "--resume")[0], {"two.Runs": "passed"})

    assert "expected tests, bench or engine" in check(root, 1, "--only", "all")[2]
print("gpu-check reports, stops and goes on")
