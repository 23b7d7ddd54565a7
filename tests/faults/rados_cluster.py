"""The cluster and the servers of tests/faults/rados_faults.py, and what is done to them."""
import concurrent.futures
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import rados_history

LEASE_S = 3
FIRST_GROUP = 6100  # of the servers' processes, by which their packets are known
TRIED = {}  # what this machine can do
IPTABLES = threading.Lock()  # two changes at once may fail
LIBC = ctypes.CDLL(None, use_errno=True)


def end_with_parent(group):
    """In the child: of that group if there is one, and killed when its parent's thread ends."""
    if group is not None:
        os.setgid(group)
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Place:
    """The cluster, the servers, and the binary."""

    def __init__(self, source, binary, scratch):
        self.binary, self.scratch = binary, scratch
        self.tool = source / "tools/ceph-cluster"
        self.directory = scratch / "ceph"
        self.conf = self.directory / "ceph.conf"
        self.store = ["--store", "rados:recollect/faults", "--ceph-conf", str(self.conf)]
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
        self.environment["RECOLLECT_MODEL"] = str(source / "models/recollect-7m")
        self.servers = [None] * 3
        self.locks = [threading.Lock() for _ in self.servers]  # of what is done to each
        self.starter = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.ended = []  # (server, status) of those that ended by themselves
        self.ports = []
        for _ in self.servers:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                self.ports.append(one.getsockname()[1])

    def cluster(self, *words):
        """Exit status. The cluster ends with this process, also when that is killed."""
        if words[0] == "start":
            words += ("--until", str(os.getpid()))
        return subprocess.run([self.tool, words[0], self.directory, *words[1:]], check=False).returncode

    def address(self, i):
        return f"127.0.0.1:{self.ports[i]}"

    def say_full(self, near, backfill, full):
        """What part of an OSD's space makes it full: an OSD takes the greatest of the three."""
        for name, ratio in (("nearfull", near), ("backfillfull", backfill), ("full", full)):
            self.ceph("ceph", "osd", f"set-{name}-ratio", ratio)

    def start_server(self, i):
        """The first has a cache on disk; each reads most chunks from the store, since little fits into memory."""
        cache = ["--cache-dir", str(self.scratch / "cache"), "--cache-budget", "32MiB"] if i == 0 else []
        group = FIRST_GROUP + i if TRIED.get("iptables") else None
        with open(self.scratch / f"server{i}.log", "ab") as log:
            command = [self.binary, "serve", "--grpc-listen", self.address(i), "--log-level", "warning", "--threads", "1", "--store-lease", str(LEASE_S),
                       "--chunk-states-budget", "2MiB", *self.store, *cache]
            # On a thread that lives as long as this process, since the server is killed with the thread that started it.
            self.servers[i] = self.starter.submit(subprocess.Popen, command, env=self.environment, stdout=log, stderr=log,
                                                  preexec_fn=lambda: end_with_parent(group)).result()

    def start_ended(self):
        """Starts what ended by itself, as a service manager does."""
        for i, lock in enumerate(self.locks):
            with lock:
                status = self.servers[i].poll()
                if status is not None:
                    self.ended.append((i, status))
                    self.start_server(i)

    def call(self, *words, timeout=60):
        """Outcome, output, error."""
        try:
            done = subprocess.run([self.binary, *map(str, words)], env=self.environment, text=True, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return "no answer", "", ""
        outcome = rados_history.EXITS.get(done.returncode, f"exit status {done.returncode}")
        return outcome, done.stdout, done.stderr.strip()

    def ceph(self, program, *words, **options):
        return subprocess.run([program, "-c", self.conf, *words], check=True, timeout=60, capture_output=True, **options).stdout


class Faults:
    """One after the other or two at once, of different things."""

    def __init__(self, place, seed):
        self.place, self.rng = place, random.Random(seed)
        self.locks = {"OSDs": threading.Lock(), "monitors": threading.Lock(), **{f"server {i}": lock for i, lock in enumerate(place.locks)}}
        self.counts = {}
        self.failed = []  # faults that could not be made
        self.kinds = {"server killed": 5, "server stopped": 3, "server stopped past its lease": 3, "server cut off": 5, "OSD killed": 3,
                      "OSD stopped": 2, "two OSDs killed": 1, "monitor killed": 1, "cluster full": 1}

    def run(self, count):
        two = threading.Semaphore(2)
        threads = []
        for _ in range(count):
            kind = self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]
            one = random.Random(self.rng.random())
            two.acquire()

            def fault(kind=kind, one=one):
                try:
                    self.apply(kind, one)
                except (OSError, subprocess.SubprocessError) as error:
                    self.failed.append(f"fault: {kind}: {error}")
                finally:
                    two.release()
            threads.append(threading.Thread(target=fault, daemon=True))
            threads[-1].start()
            self.place.start_ended()
            self.counts[kind] = self.counts.get(kind, 0) + 1
            time.sleep(self.rng.uniform(0.3, 2.5))
        for thread in threads:
            thread.join()

    def apply(self, kind, rng):
        thing = {"s": f"server {rng.randrange(3)}", "O": "OSDs", "t": "OSDs", "m": "monitors", "c": "OSDs"}[kind[0]]
        with self.locks[thing]:
            i = int(thing[-1]) if kind[0] == "s" else rng.randrange(3)
            place = self.place
            if kind == "server killed":
                place.servers[i].kill()
                place.servers[i].wait()
                time.sleep(rng.uniform(0, 2))
                place.start_server(i)
                time.sleep(3)
            elif kind.startswith("server stopped"):
                place.servers[i].send_signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.1, 1.5) if kind == "server stopped" else LEASE_S + rng.uniform(0.5, 3))
                place.servers[i].send_signal(signal.SIGCONT)
            elif kind == "server cut off":
                self.cut(i, rng.uniform(0.3, LEASE_S + 2))
            elif kind == "OSD stopped":
                pid = int((place.directory / f"osd.{i}.pid").read_text())
                os.kill(pid, signal.SIGSTOP)
                time.sleep(rng.uniform(0.3, 4))
                os.kill(pid, signal.SIGCONT)
            elif kind == "cluster full":
                place.say_full("0.00001", "0.00002", "0.00003")
                time.sleep(rng.uniform(3, 6))
                place.say_full("0.85", "0.9", "0.95")
            else:
                which = [("mon", f"m{i}")] if kind == "monitor killed" else [("osd", str(i))]
                if kind == "two OSDs killed":
                    which.append(("osd", str((i + 1) % 3)))
                for one in which:
                    place.cluster("kill", *one)
                time.sleep(rng.uniform(0.3, 4))
                for one in which:
                    place.cluster("revive", *one)

    def cut(self, i, seconds):
        if TRIED.get("iptables"):
            ports = re.findall(r"v2:127\.0\.0\.1:(\d+)", self.place.conf.read_text())
            group = ["-m", "owner", "--gid-owner", str(FIRST_GROUP + i), "-j", "DROP"]
            rules = [["OUTPUT", "-p", "tcp", "--dport", port, *group] for port in [*ports, "6800:7568"]]
            with IPTABLES:
                for rule in rules:
                    subprocess.run(["iptables", "-w", "-I", *rule], check=True)
            time.sleep(seconds)
            with IPTABLES:
                for rule in rules:
                    subprocess.run(["iptables", "-w", "-D", *rule], check=True)
            return
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shut_down(self.place.servers[i].pid, self.place.ports[i])
            time.sleep(0.05)


def shut_down(pid, but_port):
    """All connections of the process, but those to its clients."""
    process = LIBC.syscall(434, pid, 0)  # pidfd_open
    if process < 0:
        return
    for name in os.listdir(f"/proc/{pid}/fd"):
        copy = LIBC.syscall(438, process, int(name), 0)  # pidfd_getfd
        if copy < 0:
            continue
        try:
            with socket.socket(fileno=copy) as one:
                if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM and one.getsockname()[1] != but_port:
                    one.shutdown(socket.SHUT_RDWR)
        except OSError:
            os.close(copy) if pathlib.Path(f"/proc/self/fd/{copy}").exists() else None
    os.close(process)


def namespace_of_its_own():
    """Where it can, goes on as the same program in a network of its own."""
    inside = "RECOLLECT_FAULTS_INSIDE"
    if os.environ.pop(inside, None):
        TRIED["iptables"] = True
    elif os.geteuid() == 0 and shutil.which("iptables") and shutil.which("ip"):
        up = "ip link set lo up && iptables -I OUTPUT -p tcp --dport 1 -m owner --gid-owner 6100 -j DROP"
        if subprocess.run(["unshare", "-n", "sh", "-c", up], capture_output=True, check=False).returncode == 0:
            os.environ[inside] = "1"
            os.execvp("unshare", ["unshare", "-n", "sh", "-c", up + ' && exec "$@"', "sh", sys.executable, *sys.argv])
