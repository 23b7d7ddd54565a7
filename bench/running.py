"""A recollect server as a process of its own, and what it takes of the machine. Shared by the measuring programs in Python."""
import contextlib
import os
import pathlib
import subprocess
import time

import recollect


def drop_page_cache(path):
    """Files of a folder, or one file, leave the system's page cache, as after a restart of the machine."""
    os.sync()
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def folder_bytes(path):
    total = 0
    for file in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # files come and go while a server writes
            total += file.stat().st_size if file.is_file() else 0
    return total


def resident_bytes(pid):
    return next(int(line.split()[1]) << 10 for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    flags = next((line.split(":")[1].split() for line in open("/proc/cpuinfo") if line.startswith("flags")), [])
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    has = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    return f"{os.cpu_count()} cores of {cpu} ({', '.join(has)}), {memory / (1 << 20):.0f} GiB of memory"


class Server:
    """Runs from the constructor to stop(). `ready_s`: seconds from its start until it said that it is ready."""

    def __init__(self, binary, model, data_dir, *flags):
        begin = time.perf_counter()
        self.process = subprocess.Popen([binary, "serve", "--model", model, "--data-dir", data_dir, "--grpc-listen", "127.0.0.1:0",
                                         "--log-level", "warning", *map(str, flags)], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.ready_s = time.perf_counter() - begin
        if not line.startswith("recollect ready"):
            raise SystemExit(f"the server did not start: {line!r}")
        self.address = dict(word.split("=", 1) for word in line.split()[2:])
        self.pid = self.process.pid
        self.client = recollect.Client(self.address["grpc"])

    def resident(self):
        return resident_bytes(self.pid)

    def cpu_s(self):
        return cpu_seconds(self.pid)

    def stop(self):
        self.client.close()
        self.process.terminate()
        if self.process.wait() != 0:
            raise SystemExit(f"the server ended with status {self.process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.stop()
        else:  # what went wrong is what is to be seen
            self.client.close()
            self.process.kill()
            self.process.wait()
