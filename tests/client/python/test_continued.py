"""An answer of the shipped model that is sent again with its first tokens goes on with the same ones, in bf16 where the CPU has it."""
import pytest
import recollect
from recollect import _messages
from serving import TEXT, Server


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("data"))
    with recollect.Client(server.address) as connected:
        connected.ingest(TEXT[:20_000], id="novel")
        yield connected
    server.stop()


def generate(client, temperature, mounts, before=()):
    arguments = {"max_tokens": 200, "temperature": temperature, "seed": 3, "ignore_eos": True}
    request = _messages.generate_request("The pass key of Ahab is", 0, _messages.session(mounts, None), arguments)
    request.generated.ids.extend(before)
    return [*before, *(token for response in client._core.generation.Generate(request) for token in response.tokens.ids)]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("mounts", [[], ["novel"]])
def test_an_answer_goes_on_with_the_same_tokens(client, temperature, mounts):
    whole = generate(client, temperature, mounts)
    for count in (1, 5, 30, 62, 63, 64, 100, 150):
        assert generate(client, temperature, mounts, whole[:count]) == whole, count
