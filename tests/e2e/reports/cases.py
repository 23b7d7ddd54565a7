"""What others reported of their servers, done to ours. Each case is named in reports.py and gets the servers (`At`)."""
import base64
import concurrent.futures
import contextlib
import json
import lzma
import os
import select
import struct
import subprocess
import tempfile

from server import WAIT, ChatServer, Http, Server, wait_until

MODEL = "recollect-7m"
BOOK_BYTES = 60_000
SECRET = "\nThe pass key of Ahab is 48213.\n"
# So small that chunks of one book have no room, so that each answer reads some of them from the disk, and that the prompt
# cache has none for a long prompt.
BUDGETS = ("--memory-budget", "1MiB", "--chunk-states-budget", "1MiB", "--prompt-cache", "64KiB")


class At:
    """The servers of all cases: one without keys that has the document "books", and a chat model."""

    def __init__(self, source, binary, chat_program):
        self.binary, self.model = binary, source / "models" / MODEL
        self.cleanup = contextlib.ExitStack()
        self.root = self.cleanup.enter_context(tempfile.TemporaryDirectory(prefix="recollect."))
        with lzma.open(source / "examples/books.txt.xz") as books:
            self.text = books.read(400_000)
        self.server = self.serve("data", *BUDGETS)
        self.chat = ChatServer(chat_program)
        self.cleanup.callback(self.chat.kill)
        self.book = self.text[:BOOK_BYTES].decode("utf-8", "ignore") + SECRET
        self.server.put("/v1/documents/books", self.book.encode()).accepted(201)

    def serve(self, directory, *flags):
        server = Server(self.binary, self.model, os.path.join(self.root, directory), *flags)
        self.cleanup.callback(server.kill)
        return server

    def run(self, *arguments):
        return subprocess.run([self.binary, *arguments], capture_output=True, text=True,
                              timeout=WAIT, check=False)

    def complete(self, **fields):
        given = {"model": MODEL, "prompt": "The ship", "temperature": 0, "max_tokens": 1}
        return self.server.post("/v1/completions", given | fields)

    def find(self, *mounts):
        """The text that is retrieved for the pass key."""
        query = {"query": "The pass key of Ahab is", "mounts": mounts, "with_text": True}
        groups = self.server.post("/v1/retrieve", query).accepted()["data"]
        return " ".join(hit["text"] or "" for group in groups for hit in group["hits"])


# Requests that end a server.

def empty_prompt(at):
    for prompt in ("", [], [""], [[]], ["The ship", ""]):
        at.complete(prompt=prompt).refused("prompt")


def echo_without_tokens(at):
    choice = at.complete(prompt="The ship sank.", echo=True, max_tokens=0,
                         logprobs=1).accepted()["choices"][0]
    assert choice["text"] == "The ship sank.", choice
    assert len(choice["logprobs"]["token_logprobs"]) > 2
    assert at.complete(max_tokens=0).accepted()["choices"][0]["text"] == ""


def ids_outside_the_vocabulary(at):
    outside = at.server.stats()["model"]["vocab_size"]
    at.complete(prompt=[5, outside]).refused("prompt", outside)
    at.complete(prompt=[5, -1]).refused("prompt", -1)
    at.complete(stop_token_ids=[outside]).refused("stop_token_ids")
    at.complete(logit_bias={str(outside): -100}).refused("logit_bias")
    at.server.post("/detokenize", {"tokens": [outside]}).refused("tokens", outside)


def body_in_another_encoding(at):
    for coding in ("gbk", "utf-16", "latin-1"):
        body = json.dumps({"model": MODEL, "prompt": "Müller"}, ensure_ascii=False)
        at.server.post("/v1/completions", body.encode(coding)).refused("body")


def body_that_is_no_json(at):
    for body in (b'{:\n  "model": "m"}', b"", b"{", b'{"prompt": "a"} b', b"\0", b"[]", b"null"):
        at.server.post("/v1/completions", body).refused("body")
        at.chat.post("/v1/chat/completions", body).refused("body")


def bytes_that_are_no_text(at):
    tokens = at.server.post("/tokenize", {"prompt": "日本"}).accepted()["tokens"]
    for cut in range(1, len(tokens)):
        at.complete(prompt=tokens[:cut], echo=True, logprobs=1, max_tokens=4).accepted()
        at.server.post("/detokenize", {"tokens": tokens[:cut]}).accepted()


def deep_nesting(at):
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        deep = opening * 60_000 + b"1" + closing * 60_000
        at.server.post("/v1/completions", b'{"prompt":' + deep + b"}").refused("64")


def numbers_that_are_none(at):
    for field in ("temperature", "top_p"):
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            body = f'{{"model": "{MODEL}", "prompt": "a", "{field}": {number}}}'
            at.server.post("/v1/completions", body.encode()).refused()
    for wrong in ({"temperature": -0.5}, {"top_p": 2.0}, {"top_k": -5}, {"max_tokens": 1 << 40}):
        ((field, value),) = wrong.items()
        at.complete(**wrong).refused(field, f"{value:g}" if isinstance(value, float) else value)


def logprobs_of_a_long_prompt(at):
    tokens = at.server.post("/tokenize", {"prompt": at.book}).accepted()["tokens"][:8000]
    vocabulary = at.server.stats()["model"]["vocab_size"]
    before = at.server.resident_peak(forget=True)
    scored = at.complete(prompt=tokens, echo=True, logprobs=20, max_tokens=0).accepted()
    assert len(scored["choices"][0]["logprobs"]["token_logprobs"]) == len(tokens)
    more = at.server.resident_peak() - before
    all_logits = 4 * vocabulary * len(tokens)
    assert more < all_logits / 2, f"{more} bytes more; all logits are {all_logits}"
    at.complete(prompt=tokens + tokens, echo=True, logprobs=20, max_tokens=0).refused("262144")


# Requests that are taken for something else.

def longer_than_a_prompt_may_be(at):
    at.complete(prompt=[5] * 262_145).refused("prompt", 262_145, 262_144)
    at.complete(prompt="a" * ((2 << 20) + 1)).refused("prompt", (2 << 20) + 1, 2 << 20)


def fields_that_are_not_known(at):
    at.complete(max_token=4).refused("max_token")
    at.complete(temperatur=0.9).refused("temperatur")
    message = {"role": "user", "content": "Who?", "fake_input": "2"}
    at.chat.post("/v1/chat/completions",
                 {"model": "scripted", "messages": [message]}).refused("fake_input")


def both_names_of_max_tokens(at):
    chat = {"model": "scripted", "messages": [{"role": "user", "content": "Who?"}]}
    for fields in ({"max_completion_tokens": 50}, {"max_tokens": 50},
                   {"max_tokens": 50, "max_completion_tokens": 50}):
        at.chat.post("/v1/chat/completions", chat | fields).accepted()
    at.chat.post("/v1/chat/completions",
                 chat | {"max_tokens": 50, "max_completion_tokens": 60}).refused("max_tokens")


def content_in_parts(at):
    def ask(content):
        return at.chat.post("/v1/chat/completions", {
            "model": "scripted", "messages": [{"role": "user", "content": content}]})
    ask([{"type": "text", "text": "part 0"}, {"type": "text", "text": "part 1"}]).accepted()
    ask([{"type": "image_url", "image_url": {"url": "a"}}]).refused("image_url")


def vectors_in_base64(at):
    def vector(coding):
        answer = at.server.post("/v1/embeddings", {"model": MODEL, "input": "The ship sank.",
                                                   "encoding_format": coding})
        return answer.accepted()["data"][0]["embedding"]
    packed = base64.b64decode(vector("base64"))
    numbers = list(struct.unpack(f"<{len(packed) // 4}f", packed))
    assert numbers == [struct.unpack("<f", struct.pack("<f", n))[0] for n in vector("float")]


def logprobs_of_the_prompt(at):
    answer = at.complete(prompt="The ship sank.", echo=True, logprobs=1).accepted()
    logprobs = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert len(logprobs) == answer["usage"]["prompt_tokens"] + 1, answer
    assert all(logprob < 0 for logprob in logprobs), answer  # a landmark precedes the first token


# Clients that go, too many of them, and the server's own end.

def long_answer(at):
    return {"model": MODEL, "prompt": "The ship", "temperature": 0, "ignore_eos": True,
            "max_tokens": 65536, "stream": True}


def client_gone_while_it_generates(at):
    for stream in (True, False):
        before = at.server.stats()["generated_tokens"]
        with at.server.begin("POST", "/v1/completions", long_answer(at) | {"stream": stream}):
            wait_until(lambda: at.server.stats()["running_requests"] == 1, "it generates")
        at.server.await_no_work()
        generated = at.server.stats()["generated_tokens"] - before
        assert generated < 65536, "the answer was generated to its end"


def client_gone_while_the_prompt_is_read(at):
    before = at.server.stats()
    prompt = {"model": MODEL, "prompt": at.text.decode("utf-8", "ignore"), "max_tokens": 1}
    with at.server.begin("POST", "/v1/completions", prompt):
        wait_until(lambda: at.server.stats()["steps"] > before["steps"], "the prompt is read")
    at.server.await_no_work()
    after = at.server.stats()
    assert after["prompt_tokens"] == before["prompt_tokens"], "the prompt was read to its end"


def more_than_there_is_room_for(at):
    most, waiting, refused = 800, [], []

    def one_is_refused():
        if len(waiting) < most:
            waiting.append(at.server.begin("POST", "/v1/completions", long_answer(at)))
        for connection in select.select(waiting, [], [], 0)[0]:
            head = connection.recv(1 << 16)
            assert head, "a connection was closed: are there too few descriptors (ulimit -n)?"
            if head.startswith(b"HTTP/1.1 429"):
                refused.append(head)
            assert not head.startswith(b"HTTP") or head[9:12] in (b"200", b"429"), head
        return refused
    try:
        wait_until(one_is_refused, f"one of {most} requests is refused", pause=0.001)
        assert b"Retry-After: " in refused[0], refused[0]
        assert at.server.works()
    finally:
        for connection in waiting:
            connection.close()
    at.server.await_no_work()


def sigterm_while_it_generates(at):
    with at.server.begin("POST", "/v1/completions", long_answer(at) | {"max_tokens": 3000}) as sent:
        answer = sent.recv(1 << 16)
        at.server.process.terminate()
        while part := sent.recv(1 << 16):
            answer += part
    assert b'"finish_reason":"length"' in answer and b"data: [DONE]" in answer, answer[-500:]
    at.server.ended()
    at.server.start()


def upload_that_is_broken_off(at):
    text = at.text[100_000:250_000].decode("utf-8", "ignore").encode()
    path = "/v1/documents/broken-off"
    with at.server.begin("PUT", path, text[:-20_000], length=len(text)):
        wait_until(lambda: at.server.get(path).status == 200 and
                   at.server.get(path).json()["committed_bytes"] > 0, "a part is committed")
    wait_until(lambda: at.server.stats()["ingests"] == 0, "the upload has ended")
    begun = at.server.get(path).accepted()
    assert begun["object"] == "ingest", begun
    first, before = begun["committed_bytes"], at.server.stats()["ingested_tokens"]
    at.server.put(path, text[first:], {
        "Content-Range": f"bytes {first}-{len(text) - 1}/{len(text)}"}).accepted(201)
    read = at.server.stats()["ingested_tokens"] - before
    assert read < at.server.get(path).accepted()["tokens"], "all of it was read again"
    assert at.server.get(path + "/text").accepted() == text
    at.server.ask("DELETE", path).accepted()


# Who may call.

OPEN = ("/", "/livez", "/readyz", "/health", "/openapi.json", "/page/{file}")


def every_path_without_a_key(at):
    keys = os.path.join(at.root, "keys")
    made = at.run("keys", "create", "ci", "--keys", keys, "--right", "full")
    server = at.serve("guarded", "--keys", keys)
    description = server.get("/openapi.json").accepted()
    tried = 0
    for path, methods in description["paths"].items():
        for method in methods:
            if path in OPEN or method == "parameters":
                continue
            filled = path.replace("{id}", "books").replace("{name}", MODEL)
            server.ask(method.upper(), filled, b"{}").refused(status=401)
            tried += 1
    assert tried > 20, f"only {tried} requests"
    for path in ("/invocations", "/v1/other", "/metrics/", "//v1/models"):
        assert server.get(path).status in (401, 404), path
    server.key = made.stdout.split()[-1]
    server.get("/v1/models").accepted()
    server.stop()


def every_address_without_keys(at):
    for flag in ("--http-listen", "--grpc-listen"):
        failed = at.run("serve", "--model", at.model, "--data-dir", ":memory:", flag, "0.0.0.0:0")
        assert failed.returncode != 0 and "--keys" in failed.stderr, failed


def pages_of_other_sites(at):
    rebound = {"Host": f"evil.example:{at.server.port}"}
    at.server.get("/v1/models", rebound).refused("evil.example", status=403)
    at.server.get("/v1/models", {"Origin": "https://evil.example"}).refused("evil.example",
                                                                             status=403)
    answer = at.server.get("/v1/models")
    answer.accepted()
    assert "Access-Control-Allow-Origin" not in answer.headers, answer.headers
    failed = at.run("serve", "--model", at.model, "--data-dir", ":memory:", "--http-listen",
                    "127.0.0.1:0", "--http-cors-origins", "*")
    assert failed.returncode != 0 and "--keys" in failed.stderr, failed


# What is kept.

def restarted(at):
    """The next start finds documents, their sizes and their chunks, and the same tokens."""
    question = {"prompt": "The pass key of Ahab is", "mounts": ["books"], "max_tokens": 12}
    answer = at.complete(**question).accepted()["choices"][0]["text"]
    documents, before = at.server.get("/v1/documents").accepted(), at.server.stats()
    at.server.stop()
    at.server.start()
    assert at.server.get("/v1/documents").accepted() == documents
    assert at.server.stats()["store_bytes"] > before["store_bytes"] / 2, "the disk counts as empty"
    assert at.complete(**question).accepted()["choices"][0]["text"] == answer
    after = at.server.stats()
    assert after["ingested_tokens"] == 0 and after["chunk_hits_store"] > 0, after


def strange_files_in_the_directory(at):
    at.server.stop()
    for folder, _, _ in list(os.walk(at.server.data)):
        for name in (".atomicwritepYchBt", "000999.dbtmp", "core.1234", "lost+found.txt"):
            with open(os.path.join(folder, name), "w") as file:
                file.write("left behind")
    at.server.start()
    at.server.get("/v1/documents/books").accepted()


def damaged_import(at):
    whole = at.server.get("/v1/documents/books/export").accepted()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (whole[:len(whole) // 2], bytes(flipped), b"", whole[:-1]):
        at.server.put("/v1/documents/copy/import", damaged).refused()
        assert at.server.get("/v1/documents/copy").status == 404
    at.server.stop()
    at.server.start()
    at.server.put("/v1/documents/copy/import", whole).accepted(201)
    at.server.ask("DELETE", "/v1/documents/copy").accepted()


def delete_one_of_two(at):
    at.server.put("/v1/documents/other", ("Another text." + SECRET).encode()).accepted(201)
    at.server.ask("DELETE", "/v1/documents?user=other").refused(status=405)
    at.server.ask("DELETE", "/v1/documents/other").accepted()
    listed = at.server.get("/v1/documents").accepted()["data"]
    assert [document["id"] for document in listed] == ["books"], listed
    assert "48213" in at.find("books")


def deleted_and_searched(at):
    at.server.put("/v1/documents/gone", b"The pass key of Ahab is 99999. It is a secret.").accepted(201)
    assert "99999" in at.find("gone") and "99999" in at.find("*")
    at.server.ask("DELETE", "/v1/documents/gone").accepted()
    assert "99999" not in at.find("*")
    at.server.post("/v1/retrieve", {"query": "Ahab", "mounts": ["gone"]}).refused("gone", status=404)
    assert at.server.get("/v1/documents/gone/text").status == 404
    at.server.put("/v1/documents/gone", b"The pass key of Ahab is 11111. No more.").accepted(201)
    found = at.find("gone")
    assert "11111" in found and "99999" not in found, found
    at.server.ask("DELETE", "/v1/documents/gone").accepted()


def second_server(at):
    failed = at.run("serve", "--model", at.model, "--data-dir", at.server.data, "--grpc-listen",
                    "127.0.0.1:0")
    assert failed.returncode != 0 and str(at.server.data) in failed.stderr, failed


# Memory, and the same answer each time.

def entry_above_the_limit(at):
    at.complete(prompt=at.book[:8000]).accepted()
    stats = at.server.stats()
    assert stats["prompt_cache_bytes"] <= stats["prompt_cache_budget_bytes"] == 64 << 10, stats


def budgets_are_told(at):
    stats = at.server.stats()
    for budget in ("memory", "chunk_states"):
        assert stats[f"{budget}_budget_bytes"] == 1 << 20, stats
    for budget in ("memory", "chunk_states", "prompt_cache", "state", "landmark"):
        assert stats[f"{budget}_bytes"] <= stats[f"{budget}_budget_bytes"], stats


def many_at_once(at):
    """Each gets the answer that it gets alone, while chunks come and go."""
    prompts = ["The pass key of Ahab is", "The ship", "It was", "In the beginning", "She said"]
    questions = [{"prompt": prompt, "mounts": ["books"], "max_tokens": 24} for prompt in prompts]

    def ask(question):
        return at.complete(**question).accepted()["choices"][0]["text"]
    alone = [ask(question) for question in questions]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        together = list(pool.map(ask, questions * 6))
    assert together == alone * 6
