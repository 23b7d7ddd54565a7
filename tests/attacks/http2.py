"""HTTP/2 by hand, as far as attacks on a gRPC server need it: frames, no compression of headers."""
import socket
import struct

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL = 8
INITIAL_WINDOW_SIZE = 4  # a setting


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def headers(stream, method):
    """Begins a call of `method`, as "Documents/ListDocuments"."""
    path = b"/recollect.v1." + method.encode()
    block = b"\x83\x86" + b"\x04" + bytes([len(path)]) + path + b"\x01\x01x"
    block += literal(b"te", b"trailers") + literal(b"content-type", b"application/grpc")
    return frame(HEADERS, END_HEADERS, stream, block)


def message(stream, payload, last=True):
    """One message of gRPC."""
    body = b"\0" + struct.pack(">I", len(payload)) + payload
    parts = [body[i:i + 16384] for i in range(0, len(body), 16384)]
    ends = [0] * (len(parts) - 1) + [END_STREAM if last else 0]
    return b"".join(frame(DATA, end, stream, part) for end, part in zip(ends, parts))


def reset(stream):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


class Connection:
    """To a port of the loopback address, from `source`. Calls have the odd streams 1, 3, 5 …"""

    def __init__(self, port, source="127.0.0.1", window=65535, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.next_stream = 1
        self.pending = self.owed = b""
        setting = struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, setting))

    def send(self, data=b""):
        """And the answers that are owed."""
        data, self.owed = self.owed + data, b""
        self.socket.sendall(data)

    def new_stream(self):
        self.next_stream += 2
        return self.next_stream - 2

    def read(self):
        """The next frame as (kind, flags, stream, payload); None once the server has closed.
        TimeoutError."""
        while len(self.pending) < 9 or len(self.pending) < 9 + int.from_bytes(self.pending[:3], "big"):
            try:
                if self.owed and self.socket.gettimeout() != 0:
                    self.send()
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self.pending += data
        length = int.from_bytes(self.pending[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.pending[3:9])
        payload, self.pending = self.pending[9:9 + length], self.pending[9 + length:]
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.owed += frame(kind, ACK, 0, payload if kind == PING else b"")
        return kind, flags, stream, payload

    def read_until(self, wanted):
        """The first frame for which wanted(kind, flags, stream, payload); None as read."""
        while True:
            found = self.read()
            if found is None or wanted(*found):
                return found

    def offer(self, data):
        """Sends it, as fast as the server takes it. False once it has closed or takes nothing for a while."""
        try:
            self.send(data)
            return True
        except OSError:
            return False

    def finish(self, timeout):
        """Waits until the server has read all that was sent: it answers a ping then. False: it does not."""
        self.socket.settimeout(timeout)
        try:
            self.send(frame(PING, 0, 0, b"finished"))
            return self.read_until(lambda kind, flags, *_: kind == PING and flags & ACK) is not None
        except OSError:
            return False

    def drain(self):
        """Reads what has come and throws it away."""
        timeout = self.socket.gettimeout()
        self.socket.settimeout(0)
        try:
            self.read_until(lambda *_: False)
        except BlockingIOError:
            pass
        finally:
            self.socket.settimeout(timeout)

    def close(self):
        self.socket.close()
