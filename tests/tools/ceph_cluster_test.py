"""tools/ceph-cluster leaves no daemons behind when the process that it was started for is killed.

  python3 tests/tools/ceph_cluster_test.py .

Exit status 77: no Ceph daemons are installed, nothing was tested.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from waiting import wait_until  # noqa: E402


def daemons(directory):
    """Command lines of all processes that name the directory, but those that have ended."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(str(directory) in word for word in words):
            found.append(" ".join(words))
    return found


def wait(what, condition, seconds):
    assert wait_until(condition, seconds), f"{what}: not within {seconds} s"


def main(source):
    tool = source / "tools/ceph-cluster"
    for when in ("started", "starting"):
        with tempfile.TemporaryDirectory() as scratch:
            directory = pathlib.Path(scratch) / "ceph"
            test = subprocess.Popen(["sleep", "600"])  # that a person or a time limit kills
            start = subprocess.Popen([tool, "start", directory, "--mons", "1", "--osds", "1", "--memory", "--until", str(test.pid)])
            if when == "started":
                status = start.wait()
                if status == 3:
                    test.kill()
                    print("SKIPPED: tools/ceph-cluster was not tested, because no Ceph daemons are installed")
                    return 77
                assert status == 0, status
                assert len([one for one in daemons(directory) if one.startswith("ceph-")]) == 2, daemons(directory)
            else:
                wait("a first daemon", lambda: (directory / "mon.m0.pid").exists(), 60)
            test.kill()
            test.wait()
            try:
                wait(f"{when}: the end of the daemons", lambda: not daemons(directory), 20)
            finally:
                subprocess.run([tool, "stop", directory], check=True)
            assert start.wait() == (0 if when == "started" else -9), start.returncode
            revived = subprocess.run([tool, "revive", directory, "mon", "m0"], capture_output=True, text=True, check=False)
            assert revived.returncode == 1 and "was stopped" in revived.stderr, revived
    print("no daemon is left, whether the cluster had started or was starting")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
