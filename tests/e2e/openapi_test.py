"""The description at /openapi.json against real servers: schemathesis makes requests from it, right and wrong ones, and compares the answers.

    python3 tests/e2e/openapi_test.py SOURCE_DIR RECOLLECT_BINARY CHAT_SERVER PACKAGES_DIR

CHAT_SERVER answers conversations from a script (tests/http/chat_server.cc), so that no model that talks is needed. Packages come from PyPI (pypi.py).
Where that cannot be reached it says so and ends with 77, which ctest counts as skipped.
"""
import contextlib
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

from pypi import go_on

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES = 40  # requests for each operation, besides its example and those at the bounds of its schemas
MODEL = "recollect-7m"


@contextlib.contextmanager
def recollect(source, binary, data):
    """A server of the small model with two documents, of which one may be deleted."""
    text = lzma.open(source / "examples/books.txt.xz").read(20_000) + b"\nThe pass key of Ahab is 48213.\n"
    for name in ("books", "to be deleted"):
        subprocess.run([binary, "ingest", "--model", source / "models" / MODEL, "--data-dir", data, "--id", name, "-"], input=text, check=True)
    server = subprocess.Popen([binary, "serve", "--model", source / "models" / MODEL, "--data-dir", data, "--grpc-listen", "127.0.0.1:0",
                               "--http-listen", "127.0.0.1:0", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    try:
        yield "http://" + dict(word.split("=", 1) for word in server.stdout.readline().split()[2:])["http"]
    finally:
        server.terminate()
    assert server.wait(60) == 0, f"the server ended with {server.returncode}"


@contextlib.contextmanager
def chat(program):
    server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield "http://" + server.stdout.readline().split("http=")[1].strip()
    finally:
        server.stdin.close()
    assert server.wait(60) == 0, f"the chat server ended with {server.returncode}"


def ask(url, body=None):
    return urllib.request.urlopen(urllib.request.Request(url, None if body is None else json.dumps(body).encode()))


def closed(schema):
    """The same schema of an answer for objects without other fields, so that one which is not described is seen."""
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    within = {name: closed(value) for name, value in schema.items()}
    opened = within.get("type") == "object" and "properties" in within and "additionalProperties" not in within
    return within | {"additionalProperties": False} if opened else within


def narrowed(description, model, document):
    """The same with answers closed, and with requests that find their model and document and take seconds."""
    schemas = dict(description["components"]["schemas"])
    for name in schemas:
        if name in ("Mounted", "Sampling", "Output", "TextPart", "CompletionEvent", "ChatEvent", "LastEvent") or name.endswith("Request"):
            continue  # these say of themselves whether there may be other fields
        schemas[name] = closed(schemas[name])
    for name, schema in schemas.items():
        if name.endswith("Request") and "model" in schema["properties"]:
            fields = {field: value for field, value in schema["properties"].items() if field not in ("max_tokens", "max_completion_tokens")}
            schemas[name] = schema | {"properties": fields | {"model": {"const": model}}}
    mounted = schemas["Mounted"]
    schemas["Mounted"] = mounted | {"properties": mounted["properties"] | {"mounts": {"type": "array", "maxItems": 1, "items": {"enum": [document, "*"]}}}}
    return description | {"components": description["components"] | {"schemas": schemas}}


def fuzz(url, description, root, *only):
    path = pathlib.Path(root, "openapi.json")
    path.write_text(json.dumps(description))
    command = [pathlib.Path(sys.executable).parent / "schemathesis", "run", path, "--url", url, "--checks", CHECKS, "--max-examples", str(EXAMPLES),
               "--phases", "examples,coverage,fuzzing", "--seed", "1", "--continue-on-failure", "--request-timeout", "60", "--generation-database", "none", "--no-color", *only]
    subprocess.run(command, cwd=root, check=True)


def check_events(answer, description, schema):
    """The events of a stream, each of which has to be as `schema` says."""
    from jsonschema import Draft202012Validator
    checked = Draft202012Validator(description | {"$ref": f"#/components/schemas/{schema}"})
    lines = [line.removeprefix("data: ") for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    assert len(lines) > 3 and lines[-1] == "[DONE]", lines
    for line in lines[:-1]:
        checked.validate(json.loads(line))


def test(source, binary, chat_server):
    from openapi_spec_validator import validate
    with tempfile.TemporaryDirectory(prefix="recollect-openapi.") as root, recollect(source, binary, f"{root}/data") as url, chat(chat_server) as chat_url:
        description = json.load(ask(f"{url}/openapi.json"))
        validate(description)
        scripted = json.load(ask(f"{chat_url}/v1/models"))["data"][0]["id"]
        here, there = narrowed(description, MODEL, "books"), narrowed(description, scripted, "minutes")
        check_events(ask(f"{url}/v1/completions", {"model": MODEL, "prompt": "The pass key of Ahab is", "mounts": ["books"], "stream": True, "retrievals": True, "logprobs": 2,
                                                   "stream_options": {"include_usage": True}}), here, "CompletionChunk")
        check_events(ask(f"{chat_url}/v1/chat/completions", {"model": scripted, "messages": [{"role": "user", "content": "Who?"}], "mounts": ["minutes"], "stream": True,
                                                             "retrievals": True}), there, "ChatChunk")
        fuzz(chat_url, there, root, "--include-path", "/v1/chat/completions")
        fuzz(url, here, root)


def main():
    *paths, packages = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    go_on(packages, "the description of the HTTP API by schemathesis")
    test(*paths)


if __name__ == "__main__":
    sys.exit(main())
