"""POST /v1/chat/completions by the clients that people have: the `openai` package, langchain, litellm, and as Open WebUI calls it."""
import json
import os

import langchain_openai
import litellm
import openai
import pytest
import requests
from conftest import FACT
from langchain_core.messages import HumanMessage, SystemMessage

# A small model's words differ between machines: whoever asks for these tests reads what it said.
pytestmark = pytest.mark.skipif(not os.environ.get("RECOLLECT_CHAT_CLIENTS"), reason="RECOLLECT_CHAT_CLIENTS is not set")

QUESTION = {"role": "user", "content": "Who takes the minutes at the next meeting?"}
MOUNTED = {"mounts": ["minutes"]}


@pytest.fixture(scope="module")
def client(chat_server):
    return openai.OpenAI(base_url=f"http://{chat_server}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


@pytest.fixture(scope="module")
def ask(client, model):
    return lambda messages, **fields: client.chat.completions.create(**{"model": model, "messages": messages, "max_tokens": 24, **fields})


def test_the_model_can_be_talked_to(client, model):
    assert client.models.retrieve(model).model_extra["chat"] is True


def test_an_answer_cites_where_it_comes_from(ask):
    answer = ask([QUESTION], extra_body=MOUNTED)
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
    assert "Ishmael" in choice.message.content
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    citations = answer.model_extra["citations"]
    assert any(FACT[:20] in one["text"] for one in citations), citations
    for one in citations:
        assert one["document"] == "minutes" and one["begin"] < one["end"] and 0 < one["weight"] <= 1
    without = ask([QUESTION])
    assert "citations" not in without.model_extra and "Brandt" not in without.choices[0].message.content


def test_a_stream_is_the_same_answer(ask):
    whole = ask([QUESTION], extra_body=MOUNTED)
    events = list(ask([QUESTION], extra_body=MOUNTED, stream=True, stream_options={"include_usage": True}))
    assert events[0].choices[0].delta.role == "assistant"
    assert "".join(event.choices[0].delta.content or "" for event in events if event.choices) == whole.choices[0].message.content
    assert events[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert events[-2].model_extra["citations"] == whole.model_extra["citations"]
    assert events[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(event.usage is None for event in events[:-1])


def test_a_second_turn_does_not_read_the_first_again(ask):
    first = ask([QUESTION])
    said = [QUESTION, first.choices[0].message.model_dump(), {"role": "user", "content": "Are you sure?"}]
    second = ask(said)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens
    assert second.choices[0].message.content


def test_a_stream_that_is_left_ends(ask):
    with ask([QUESTION], max_tokens=1000, stream=True, extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    assert ask([QUESTION]).choices[0].message.content


def test_stop_limit_and_logprobs(ask):
    text = ask([QUESTION]).choices[0].message.content
    word = text.split()[1]
    stopped = ask([QUESTION], stop=word).choices[0]
    assert stopped.message.content == text[:text.index(word)] and stopped.finish_reason == "stop"
    short = ask([QUESTION], max_tokens=openai.NOT_GIVEN, max_completion_tokens=3, logprobs=True, top_logprobs=2).choices[0]
    assert short.finish_reason == "length" and len(short.logprobs.content) == 3
    assert "".join(one.token for one in short.logprobs.content) == short.message.content
    for one in short.logprobs.content:
        assert bytes(one.bytes).decode() == one.token and len(one.top_logprobs) == 2
        assert one.top_logprobs[0].token == one.token and one.logprob == one.top_logprobs[0].logprob


def test_parts_of_text_are_a_message(ask):
    parts = {"role": "user", "content": [{"type": "text", "text": QUESTION["content"]}]}
    assert ask([parts]).choices[0].message.content == ask([QUESTION]).choices[0].message.content


@pytest.mark.parametrize("fields,param", [
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"), ({"n": 2}, "n"),
    ({"response_format": {"type": "json_object"}}, "response_format"), ({"temperature": 101}, "temperature"),
    ({"messages": []}, "messages"), ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages")])
def test_what_is_not_built_is_refused_by_name(ask, fields, param):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(**{"messages": [QUESTION], **fields})
    assert refused.value.param == param and refused.value.code == "invalid_argument"


def test_langchain(chat_server, model, ask):
    expected = ask([{"role": "system", "content": "Be short."}, QUESTION], extra_body=MOUNTED, temperature=0)
    chat = langchain_openai.ChatOpenAI(base_url=f"http://{chat_server}/v1", api_key="none", model=model, temperature=0, max_tokens=24, max_retries=0,
                                       stream_usage=True, extra_body=MOUNTED)
    messages = [SystemMessage("Be short."), HumanMessage(QUESTION["content"])]
    answer = chat.invoke(messages)
    assert answer.content == expected.choices[0].message.content
    assert answer.usage_metadata["output_tokens"] == expected.usage.completion_tokens
    pieces = list(chat.stream(messages))
    assert len(pieces) > 2 and "".join(piece.content for piece in pieces) == answer.content


def test_litellm(chat_server, model, ask):
    expected = ask([QUESTION], extra_body=MOUNTED, temperature=0).choices[0].message.content
    asked = {"model": f"openai/{model}", "api_base": f"http://{chat_server}/v1", "api_key": "none", "messages": [QUESTION], "max_tokens": 24, "temperature": 0,
             "extra_body": MOUNTED, "num_retries": 0}
    assert litellm.completion(**asked).choices[0].message.content == expected
    pieces = [part.choices[0].delta.content or "" for part in litellm.completion(**asked, stream=True)]
    assert len(pieces) > 2 and "".join(pieces) == expected


def test_the_calls_of_open_webui(chat_server, ask):
    """What its documentation lists of a server: models, and chat/completions as a stream; for titles of chats without one."""
    headers = {"Authorization": "Bearer anything", "Content-Type": "application/json"}
    models = requests.get(f"http://{chat_server}/v1/models", headers=headers, timeout=60).json()
    assert models["object"] == "list"
    body = {"model": models["data"][0]["id"], "messages": [QUESTION], "max_tokens": 24}
    expected = ask([QUESTION]).choices[0].message.content
    url = f"http://{chat_server}/v1/chat/completions"
    with requests.post(url, headers=headers, json={**body, "stream": True, "stream_options": {"include_usage": True}}, stream=True, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines(decode_unicode=True) if line]
    assert lines[-1] == "[DONE]"
    choices = [choice for line in lines[:-1] for choice in json.loads(line)["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == expected
    title = {**body, "stream": False, "max_completion_tokens": 24}
    assert requests.post(url, headers=headers, json=title, timeout=60).json()["choices"][0]["message"]["content"] == expected
