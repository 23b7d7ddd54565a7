"""A running recollect server over HTTP, as far as the questions need it: its model, its documents, its chat. Standard library only."""
import http.client
import json
import time
import urllib.parse

TRIES_WHEN_FULL = 6
SECONDS_WITHOUT_A_BYTE = 3600  # reading a document goes on for long without a word


class ServerError(Exception):
    """What the server said, or that it cannot be reached. `status` is HTTP's, or 0."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def error_of(status, body):
    try:
        return ServerError(status, json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ServerError(status, f"HTTP status {status}: {body[:200].decode(errors='replace')}")


def events(response):
    """The objects of a stream of server-sent events, as they come. A stream that ends without [DONE] is an error."""
    for line in response:
        line = line.decode().strip()
        if line == "data: [DONE]":
            response.read()
            return
        if line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise ServerError(0, event["error"]["message"])
            yield event
    raise ServerError(0, "the answer was cut short")


class Server:
    """Keeps one connection, and makes it anew where it has been closed. Used by one thread."""

    def __init__(self, url, key=None):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServerError(0, f"{url!r} is no address of a server such as http://127.0.0.1:8080")
        self.url = url
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        try:
            self.connection = kind(parts.hostname, parts.port, timeout=SECONDS_WITHOUT_A_BYTE)
        except ValueError as error:
            raise ServerError(0, f"{url!r} is no address of a server: {error}") from error
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def close(self):
        self.connection.close()

    def open(self, method, path, body=None, headers=None):
        """The response to a request, its body unread. ServerError for a status from 400 on and where nobody answers."""
        for left in reversed(range(TRIES_WHEN_FULL)):
            try:
                response = self.send(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self.connection.close()
                raise ServerError(0, f"no answer from {self.url}: {error or type(error).__name__}") from error
            if response.status < 400:
                return response
            said = response.read()
            if response.status not in (429, 503) or not left:
                raise error_of(response.status, said)
            time.sleep(float(response.headers.get("Retry-After") or 1))

    def send(self, method, path, body, headers):
        """Once more on a new connection where the kept one turns out to be closed."""
        kept = self.connection.sock is not None
        try:
            self.connection.request(method, path, body, {**self.headers, **headers})
            return self.connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine, http.client.CannotSendRequest):
            self.connection.close()
            if not kept:
                raise
        self.connection.request(method, path, body, {**self.headers, **headers})
        return self.connection.getresponse()

    def call(self, method, path, fields=None):
        body = None if fields is None else json.dumps(fields).encode()
        response = self.open(method, path, body)
        return json.loads(self.read(response))

    def read(self, response):
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise ServerError(0, f"the answer of {self.url} was cut short: {error or type(error).__name__}") from error

    def model(self):
        """(name, fingerprint) of the model. ServerError where it cannot be talked to."""
        models = self.call("GET", "/v1/models").get("data") or [{}]
        if not models[0].get("chat"):
            raise ServerError(0, f"the model of {self.url} has no chat template, so that it cannot be asked")
        return models[0]["id"], self.call("GET", "/v1/stats").get("model", {}).get("fingerprint", "")

    def count_tokens(self, text):
        return self.call("POST", "/tokenize", {"prompt": text})["count"]

    def keep(self, document, text, fingerprint, progress=lambda tokens: None):
        """Sees to it that the server has the text under this id, read by its present model. Returns the document's tokens."""
        path = "/v1/documents/" + urllib.parse.quote(document, safe="")
        try:
            there = self.call("GET", path)
        except ServerError as error:
            if error.status != 404:
                raise
            there = {"object": "ingest"}
        if there["object"] != "document":
            there = self.upload(path, text.encode(), progress)
        elif there["bytes"] != len(text.encode()):
            raise ServerError(409, f"{document} has {there['bytes']} bytes on the server, {len(text.encode())} here")
        if fingerprint and there.get("fingerprint", fingerprint) != fingerprint:
            there = self.call("PUT", path + "/refresh")
        return there["tokens"]

    def upload(self, path, text, progress):
        response = self.open("PUT", path, text, {"Accept": "application/x-ndjson", "Content-Type": "text/plain; charset=utf-8"})
        try:
            for line in response:
                row = json.loads(line)
                if "error" in row:
                    raise ServerError(0, row["error"]["message"])
                if "document" in row:
                    response.read()
                    return row["document"]
                progress(row.get("tokens", 0))
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise ServerError(0, f"the upload of {path} was cut short: {error or type(error).__name__}") from error
        raise ServerError(0, f"the upload of {path} was cut short")

    def ask(self, model, prompt, max_tokens, before=(), **fields):
        """What is said to one prompt, greedily, after the messages `before`. Besides "said", "finish" ("stop" or "length"), "citations" and counts of tokens:
        "first_s", seconds from the request to the first text, and "token_s", seconds a token after it (None where there is no second token)."""
        body = {"model": model, "messages": [*before, {"role": "user", "content": prompt}], "temperature": 0, "max_tokens": max_tokens, "stream": True,
                "stream_options": {"include_usage": True}, **fields}
        begin = time.perf_counter()
        response = self.open("POST", "/v1/chat/completions", json.dumps(body).encode())
        said, finish, citations, usage, first, last = [], None, [], {}, None, None
        try:
            for event in events(response):
                usage = event.get("usage") or usage
                citations = event.get("citations") or citations
                for choice in event["choices"]:
                    finish = choice["finish_reason"] or finish
                    if choice["delta"].get("content"):
                        last = time.perf_counter()
                        first = first or last
                        said.append(choice["delta"]["content"])
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise ServerError(0, f"the answer of {self.url} was cut short: {error or type(error).__name__}") from error
        tokens = usage.get("completion_tokens", 0)
        return {"said": "".join(said), "finish": finish, "citations": citations, "prompt_tokens": usage.get("prompt_tokens", 0),
                "cached_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0), "completion_tokens": tokens,
                "first_s": first and round(first - begin, 4), "token_s": round((last - first) / (tokens - 1), 5) if first and tokens > 1 else None}
