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
# Four tests; the second loses the device, or ends the process, and whatever comes after it there fails.
LOSES = """#!/usr/bin/env python3
import json, os, sys
names = ["First", "Loses", "Later", "Wrong"]
if "--gtest_list_tests" in sys.argv:
    print("Suite.")
    for name in names:
        print(f"  {{name}}  # GetParam() = 1")
    sys.exit()
chosen = [a.split("=Suite.", 1)[1] for a in sys.argv if a.startswith("--gtest_filter=")] or names
results = [a.split(":", 1)[1] for a in sys.argv if a.startswith("--gtest_output")]
cases, lost = [], False
for name in chosen:
    if name == "Loses" and {crashes}:
        os.abort()
    lost = lost or name == "Loses"
    failure = "an illegal memory access was encountered" if lost else "1 != 2" if name == "Wrong" else ""
    cases.append({{"name": name, "result": "COMPLETED", **({{"failures": [{{"failure": failure}}]}} if failure else {{}})}})
json.dump({{"testsuites": [{{"name": "Suite", "testsuite": cases}}]}}, open(results[0], "w"))
sys.exit(any("failures" in case for case in cases))
"""
# Three tests that need no device for themselves, and one that does; what it runs goes to a file. "Slow" ends once a file says so.
LISTS = """#!/usr/bin/env python3
import pathlib, sys, time
names = ["Suite.First", "Suite.Slow/3", "Suite.Last", "Suite.MemoryThatRunsOutIsAStatus"]
if "--gtest_list_tests" in sys.argv:
    print("Suite.\\n  First\\n  Slow/3  # GetParam() = 1\\n  Last\\n  MemoryThatRunsOutIsAStatus")
    sys.exit()
chosen = [a.split("=", 1)[1].split(":") for a in sys.argv if a.startswith("--gtest_filter=")]
for name in chosen[0] if chosen else names:
    with open("{root}/ran", "a") as ran:
        ran.write(name + "\\n")
    print("[ RUN      ]", name, flush=True)
    if "Slow" in name and not pathlib.Path("{root}/quick").exists():
        time.sleep(60)
    print("[       OK ]", name + ", where GetParam() = 1 (1 ms)" if "/" in name else name + " (0 ms)", flush=True)
"""
WAITS = """#!/usr/bin/env python3
import pathlib, sys, time
if "--gtest_list_tests" in sys.argv:
    print("Suite.\\n  {name}")
    sys.exit()
print("[ RUN      ] Suite.{name}")
pathlib.Path("{root}/begun_{name}").touch()
while not pathlib.Path("{root}/begun_{other}").exists():
    time.sleep(0.01)
print("[       OK ] Suite.{name} (5 ms)")
"""
BENCH = """#!/usr/bin/env python3
import json, sys
json.dump({cases}, open(sys.argv[sys.argv.index("--json") + 1], "w"))
sys.exit({status})
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
    tests, text, _ = check(root, 1, "--only", "tests", "--deadline", "7", "--workers", "1")
    expect(tests, {"one.Runs": "passed", "two": "not run", "three": "not run"})
    assert "# CUDA operations on GPU, 1, 2" in text and "NOT TESTED" not in text, text

    # Goes on with these alone: the first program would fail now.
    program(root, "one", failed=1)
    program(root, "two")
    tests, text, _ = check(root, 1, "--only", "tests", "--resume")
    expect(tests, {"one.Runs": "passed", "two.Runs": "passed", "three.Runs": "failed"})
    assert "1 != 2" in text, text

    expect(check(root, 0, "--only", "tests", "--programs", "wo,none")[0], {"two.Runs": "passed"})
    assert "no test program has four in its name" in check(root, 1, "--programs", "four")[2]

    # Another commit's results are no results.
    (root / "manifest.json").write_text(json.dumps({"commit": "def", "tests": ["two"]}))
    expect(check(root, 0, "--only", "tests", "--resume")[0], {"two.Runs": "passed"})

    # What fails only because the process lost its device before runs alone.
    for crashes, message in ((False, "illegal memory access"), (True, "ended with -6")):
        write(root / "bin" / "two", LOSES.format(crashes=crashes))
        tests, text, _ = check(root, 1, "--only", "tests")
        expect(tests, {"Suite.First": "passed", "Suite.Loses": "failed", "Suite.Later": "passed", "Suite.Wrong": "failed"})
        assert text.count(message) == 1 and "1 != 2" in text, text

    # Tests that had ended when the deadline came keep their results, and the others alone run later; what needs the device for
    # itself comes last.
    (root / "manifest.json").write_text(json.dumps({"commit": "ghi", "tests": ["two"]}))
    write(root / "bin" / "two", LISTS.format(root=root))
    slow, last, alone = "Suite.Slow/3", "Suite.Last", "Suite.MemoryThatRunsOutIsAStatus"
    tests, _, _ = check(root, 1, "--only", "tests", "--deadline", "12")
    expect(tests, {"Suite.First": "passed", slow: "not run", last: "not run", alone: "not run"})
    (root / "quick").touch()
    (root / "ran").unlink()
    tests, _, _ = check(root, 0, "--only", "tests", "--resume")
    expect(tests, {"Suite.First": "passed", slow: "passed", last: "passed", alone: "passed"})
    expect((root / "ran").read_text().split(), [slow, last, alone])

    # Programs run at once: each of two waits until the other has begun.
    (root / "manifest.json").write_text(json.dumps({"commit": "jkl", "tests": ["one", "two"]}))
    for name, other in (("one", "two"), ("two", "one")):
        write(root / "bin" / name, WAITS.format(root=root, name=name, other=other))
    expect(check(root, 0, "--only", "tests")[0], {"Suite.one": "passed", "Suite.two": "passed"})

    # What a small pack leaves to the checkout must be there.
    (root / "manifest.json").write_text(json.dumps({"commit": "def", "tests": ["two"], "small": True}))
    assert "has no tests/support/tiny_tokenizer.model, tests/golden" in check(root, 1, "--only", "tests")[2]

    # Two tables: by events, with what failed; by the wall clock.
    timed = {"result": "ok", "spread": 0.01, "samples": 9}
    cases = [{**timed, "case": "scan", "launch": "stream", "median_ms": 2.5, "byte_per_s": 5e9, "fraction_of_copy": 0.5, "flop_per_s": 0, "fraction_of_gemm": 0},
             {"case": "upload", "result": "FAILED: no"},
             {**timed, "case": "launches", "parts": 1, "median_us": 7.0, "us_each": 7.0},
             {**timed, "case": "64 chunks", "parts": 64, "median_us": 128.0, "us_each": 2.0, "byte_per_s": 5e9, "speed": 0.75, "beside": "one pinned copy"}]
    measured = {"cases": cases, "device": "GPU", "driver": "2", "copy_byte_per_s": 1e12, "bf16_flop_per_s": 1e14}
    write(root / "bin" / "cuda_bench", BENCH.format(cases=measured, status=1))
    (root / "sdpa.py").write_text("raise SystemExit(1)")
    text = check(root, 1, "--only", "bench")[1]
    events, _, clock = text.partition("### Uploads and launches")
    assert "| scan | stream | 2.5 | 1.0% | 9 | 5.0 | 50.0% |" in events and "| upload | FAILED: no |" in events, text
    assert "64 chunks" not in events and "scan" not in clock and "upload" not in clock, text
    assert "| 64 chunks | 128 | 1.0% | 9 | 2 | 5.00 | 0.75 | one pinned copy |" in clock, text
    assert "| launches | 7 | 1.0% | 9 | 7 |  |  |  |" in clock and "3 ok, 1 FAILED" in text, text
    assert "copy 1000 GB/s, bf16 gemm 100.0 Tflop/s; torch " in text, text

    assert "expected tests, bench or engine" in check(root, 1, "--only", "all")[2]
print("gpu-check reports, stops and goes on")
