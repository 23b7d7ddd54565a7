"""Says how often an answer of the shipped model goes on otherwise when it is sent again with its first tokens: 32 cases.

    RECOLLECT_BINARY=build/release/bin/recollect RECOLLECT_SOURCE=. PYTHON tests/client/python/continued.py [FLAG OF SERVE …]

PYTHON has the package recollect and pytest, as build/python-client/venv/bin/python after run.py. Exits with 1 if any differs.
"""
import pathlib
import sys
import tempfile

import recollect
from recollect import _messages
from test_client import TEXT, Server


def generate(client, temperature, mounts, before=()):
    arguments = {"max_tokens": 200, "temperature": temperature, "seed": 3, "ignore_eos": True}
    request = _messages.generate_request("The pass key of Ahab is", 0, _messages.session(mounts, None), arguments)
    request.generated.ids.extend(before)
    return [*before, *(token for response in client._generation.Generate(request) for token in response.tokens.ids)]


def main():
    differing = cases = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(pathlib.Path(folder), *sys.argv[1:])
        with recollect.Client(server.address) as client:
            client.ingest(TEXT[:20_000], id="novel")
            for temperature in (0.0, 0.9):
                for mounts in ([], ["novel"]):
                    whole = generate(client, temperature, mounts)
                    for count in (1, 5, 30, 62, 63, 64, 100, 150):
                        cases += 1
                        differing += generate(client, temperature, mounts, whole[:count]) != whole
        server.stop()
    print(f"{differing} of {cases} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
