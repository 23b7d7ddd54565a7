"""The `openai` package: completions whole and streamed, logprobs, mounts, embeddings, errors."""
import openai
import pytest
from conftest import MODEL

ASKED = {"model": MODEL, "prompt": "The pass key of Ahab is", "max_tokens": 6, "temperature": 0}
NOVEL = {"extra_body": {"mounts": ["novel"]}}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"http://{server}/v1", api_key="none", max_retries=0)


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]


def test_a_completion_reads_what_is_mounted(client):
    answer = client.completions.create(**ASKED, **NOVEL)
    assert "48213" in answer.choices[0].text
    assert answer.choices[0].finish_reason in ("length", "stop")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert "48213" not in client.completions.create(**ASKED).choices[0].text


def test_a_stream_gives_the_same_text(client):
    whole = client.completions.create(**ASKED, **NOVEL)
    events = list(client.completions.create(**ASKED, **NOVEL, stream=True, stream_options={"include_usage": True}))
    assert "".join(event.choices[0].text for event in events if event.choices) == whole.choices[0].text
    assert events[-1].usage == whole.usage
    assert events[-2].choices[0].finish_reason == whole.choices[0].finish_reason


def test_a_stream_shows_what_is_retrieved(client):
    events = list(client.completions.create(**ASKED, stream=True, extra_body={"mounts": ["novel"], "retrievals": True}))
    retrievals = [event.model_extra["retrieval"] for event in events if not event.choices]
    assert {retrieval["group"] for retrieval in retrievals} == {0, 1}
    best = max((hit for retrieval in retrievals for hit in retrieval["hits"]), key=lambda hit: hit["weight"])
    assert best["document"] == "novel" and 59_000 < best["begin"] < best["end"] < 61_500


def test_a_stream_that_is_left_ends(client):
    with client.completions.create(**{**ASKED, "max_tokens": 5000}, stream=True, extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    assert client.completions.create(**ASKED).choices[0].text


def test_logprobs_of_prompt_and_answer(client):
    choice = client.completions.create(**ASKED, **NOVEL, echo=True, logprobs=1).choices[0]
    logprobs = choice.logprobs
    assert choice.text.startswith(ASKED["prompt"]) and "".join(logprobs.tokens) == choice.text
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
    assert all(value <= 0 for value in logprobs.token_logprobs)
    # At temperature 0 the answer's tokens are those that were most likely.
    answer = [i for i, offset in enumerate(logprobs.text_offset) if offset >= len(ASKED["prompt"])]
    assert answer and all(logprobs.token_logprobs[i] == max(logprobs.top_logprobs[i].values()) for i in answer)
    assert any(len(row) == 2 for row in logprobs.top_logprobs)


@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_has_the_same_logprobs(client, echo):
    asked = {**ASKED, **NOVEL, "echo": echo, "logprobs": 5}
    whole = client.completions.create(**asked).choices[0]
    events = [event.choices[0] for event in client.completions.create(**asked, stream=True) if event.choices]
    assert "".join(choice.text for choice in events) == whole.text
    streamed = [choice.logprobs for choice in events if choice.logprobs]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [value for logprobs in streamed for value in getattr(logprobs, name)] == getattr(whole.logprobs, name)
    rows = whole.logprobs.top_logprobs
    assert len(rows) == len(whole.logprobs.tokens) and all(len(row) in (5, 6) for row in rows)
    # The chosen token is in its row, with the probability that it has; of five, the likeliest is the greedy choice.
    assert all(row[token] == value for row, token, value in
               zip(rows, whole.logprobs.tokens, whole.logprobs.token_logprobs, strict=True))
    assert all(max(row.values()) == value for row, value in zip(rows[-6:], whole.logprobs.token_logprobs[-6:], strict=True))
    # Those of the answer do not depend on whether the prompt is shown.
    if echo:
        without = client.completions.create(**{**asked, "echo": False}).choices[0].logprobs
        assert without.token_logprobs == whole.logprobs.token_logprobs[-6:]
        assert without.text_offset == [offset - len(ASKED["prompt"]) for offset in whole.logprobs.text_offset[-6:]]
    with pytest.raises(openai.BadRequestError, match="logprobs: 21, limit 0 to 20"):
        client.completions.create(**{**asked, "logprobs": 21})


def test_stop_and_seed(client):
    drawn = {**ASKED, "prompt": "She said that", "max_tokens": 30, "temperature": 1, "top_p": 0.9, "seed": 5}
    first, again = (client.completions.create(**drawn).choices[0].text for _ in range(2))
    assert first == again
    stopped = client.completions.create(**ASKED, **NOVEL, stop=["8213"]).choices[0]
    assert stopped.text.endswith("4") and stopped.finish_reason == "stop"


def test_errors_are_the_packages_own(client):
    with pytest.raises(openai.NotFoundError, match="model"):
        client.completions.create(**{**ASKED, "model": "other"})
    with pytest.raises(openai.NotFoundError, match="nobody"):
        client.completions.create(**ASKED, extra_body={"mounts": ["nobody"]})
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**ASKED, n=2)
    assert refused.value.param == "n" and refused.value.code == "invalid_argument"


def test_embeddings_are_what_retrieval_compares(client):
    needle = "The pass key of Ahab is 48213."
    answer = client.embeddings.create(model=MODEL, input=[needle, "It was raining in the town of Highbury."])
    assert [entry.index for entry in answer.data] == [0, 1] and answer.usage.prompt_tokens > 0
    assert {entry.model_extra["kind"] for entry in answer.data} == {"landmark"}
    floats = client.embeddings.create(model=MODEL, input=needle, encoding_format="float").data[0]
    assert floats.embedding == pytest.approx(answer.data[0].embedding)
    asked = client.embeddings.create(model=MODEL, input=ASKED["prompt"], extra_body={"kind": "query", "group": 1}).data[0]
    assert asked.model_extra["kind"] == "query" and asked.model_extra["group"] == 1

    def score(entry):
        return sum(a * b for a, b in zip(asked.embedding, entry.embedding, strict=True))
    assert score(answer.data[0]) > score(answer.data[1])
    with pytest.raises(openai.BadRequestError, match="a landmark stands for a chunk of 1 to 63"):
        client.embeddings.create(model=MODEL, input="word " * 200)
