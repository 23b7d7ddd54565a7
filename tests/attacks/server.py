"""The server under attack: the release binary on a free port and a directory of its own."""
import json
import os
import resource
import subprocess
import tempfile


class Server:
    def __init__(self, binary, model, descriptors=None, flags=()):
        self.binary = binary
        self.directory = tempfile.TemporaryDirectory()

        def limit():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.log = open(os.path.join(self.directory.name, "log"), "w+")
        self.process = subprocess.Popen(
            [binary, "serve", "--data-dir", os.path.join(self.directory.name, "data"), "--model", model,
             "--grpc-listen", "127.0.0.1:0", "--log-level", "warning", "--json", *flags],
            stdout=subprocess.PIPE, stderr=self.log, preexec_fn=limit, text=True)
        line = self.process.stdout.readline()
        if not line:
            self.kill()
            raise RuntimeError(self.log_text())
        ready = json.loads(line)
        self.address, self.http = ready["grpc"], ready.get("http")
        self.port = int(self.address.rsplit(":", 1)[1])

    def log_text(self):
        self.log.flush()
        with open(self.log.name) as log:
            return log.read()

    def client(self, *arguments, text=None, timeout=60):
        """The command line as a second client, from 127.0.0.1; its exit code, output and errors."""
        try:
            done = subprocess.run([self.binary, *arguments, "--server", self.address], input=text,
                                  capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return -1, "", "no answer within %d s" % timeout
        return done.returncode, done.stdout, done.stderr.strip()

    def stats(self):
        code, out, err = self.client("stats", "--json")
        if code != 0:
            raise RuntimeError("stats: " + err)
        return json.loads(out)

    def _status(self, key):
        with open("/proc/%d/status" % self.process.pid) as status:
            for line in status:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) / 1024
        return 0

    def resident(self):
        """MiB."""
        return self._status("VmRSS")

    def peak(self):
        """MiB since forget_peak."""
        return self._status("VmHWM")

    def forget_peak(self):
        with open("/proc/%d/clear_refs" % self.process.pid, "w") as file:
            file.write("5")

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def stop(self, timeout=60):
        """SIGTERM; the exit code, negative for a signal, None where it did not end."""
        self.process.terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
