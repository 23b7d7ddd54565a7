"""A server of the program `recollect` and a client of its HTTP, for the cases beside this file."""
import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import waiting  # noqa: E402

WAIT = 300  # seconds; on a busy machine everything takes its time


def wait_until(condition, what, pause=0.02):
    assert waiting.wait_until(condition, WAIT, pause), f"not within {WAIT} s: {what}"


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.bytes = response.status, response.headers, response.read()

    def json(self):
        """Refuses what is no UTF-8 or no JSON."""
        return json.loads(self.bytes.decode("utf-8"))

    def error(self):
        return self.json()["error"]["message"]

    def refused(self, *words, status=400):
        """Checks that the request was refused, in a message that has these words."""
        assert self.status == status, f"{self.status}, not {status}: {self.bytes[:500]}"
        for word in words:
            assert str(word) in self.error(), f"no {word} in: {self.error()[:500]}"

    def accepted(self, status=200):
        assert self.status == status, f"{self.status}, not {status}: {self.bytes[:500]}"
        return self.json() if "json" in self.headers.get("Content-Type", "") else self.bytes


class Http:
    """The client; each request has a connection of its own."""

    def __init__(self, address, key=None):
        self.host, port = address.rsplit(":", 1)
        self.port, self.key = int(port), key

    def ask(self, method, path, body=None, headers=None):
        sent = dict(headers or {})
        if self.key:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, WAIT)) as made:
            made.request(method, path, body, sent)
            return Answer(made.getresponse())

    def get(self, path, headers=None):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body):
        return self.ask("POST", path, body)

    def put(self, path, body, headers=None):
        return self.ask("PUT", path, body, headers)

    def begin(self, method, path, body, length=None):
        """Sends a request, or the beginning of one of `length` bytes, and gives its socket."""
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        connection = socket.create_connection((self.host, self.port), WAIT)
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
                           f"Content-Length: {length or len(body)}\r\n\r\n".encode() + body)
        return connection

    def stats(self):
        return self.get("/v1/stats").accepted()


class Server(Http):
    """The program on a directory of its own. `flags` come behind those that all have."""

    def __init__(self, binary, model, directory, *flags):
        self.data = pathlib.Path(directory)
        self.command = [binary, "serve", "--model", model, "--data-dir", self.data, "--grpc-listen",
                        "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--log-level", "error",
                        "--json", *flags]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, "the server does not start"
        super().__init__(json.loads(line)["http"], getattr(self, "key", None))

    def stop(self):
        self.process.terminate()
        self.ended()

    def ended(self):
        code = self.process.wait(WAIT)
        self.process.stdout.close()
        assert code == 0, f"the server ended with {code}"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def alive(self):
        return self.process.poll() is None

    def works(self):
        return self.alive() and self.get("/readyz").status == 200

    def resident_peak(self, forget=False):
        """Bytes; `forget`: from now on."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        if forget:
            (process / "clear_refs").write_text("5")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) << 10

    def await_no_work(self):
        def idle():
            stats = self.stats()
            return stats["running_requests"] == stats["queued_requests"] == 0
        wait_until(idle, "no request runs")


class ChatServer(Http):
    """A chat model that answers from a script (tests/http/chat_server.cc)."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        super().__init__(self.process.stdout.readline().split("http=")[1].strip())

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(WAIT) == 0

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
