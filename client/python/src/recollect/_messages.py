"""Between the values of types.py and the messages of recollect.v1."""

from __future__ import annotations

import dataclasses
import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from recollect import errors, types
from recollect.v1 import documents_pb2 as documents
from recollect.v1 import generation_pb2 as generation

T = TypeVar("T")
M = TypeVar("M", bound=Message)
Prompt = str | Sequence[int] | types.Conversation

CHAT_DEFAULTS: types.GenerateArguments = {"max_tokens": 512, "retrievals": True}

_NESTED: dict[str, type[Any]] = {
    one.__name__: one
    for one in (types.Candidate, types.Document, types.Hit, types.Retrieval, types.Saved, types.Usage)
}


def decode(cls: type[T], message: Message) -> T:
    """A value of `cls`, each of whose fields is the message's field of that name."""
    assert dataclasses.is_dataclass(cls)
    return cls(**{f.name: _field(message, f.name) for f in dataclasses.fields(cls)})


def _field(message: Message, name: str) -> Any:
    """None for a message within it that is not there."""
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    value = getattr(message, name)
    if isinstance(value, Message) and not message.HasField(name):
        return None
    return _value(descriptor, value)


def _value(descriptor: Any, value: Any) -> Any:
    if isinstance(value, Message):
        return decode(_NESTED[value.DESCRIPTOR.name], value)
    if descriptor.full_name == "recollect.v1.Document.metadata":
        return json.loads(value) if value else {}
    if descriptor.enum_type is not None:
        # TIER_STORE of the enum Tier is "store".
        names = descriptor.enum_type.values_by_number
        prefix = names[0].name.removesuffix("UNSPECIFIED")
        return names[value].name.removeprefix(prefix).lower() if value in names else "unknown"
    if isinstance(value, (str, bytes, bool, int, float)):
        return value
    return tuple(_value(descriptor, item) for item in value)


def build(kind: type[M], **fields: Any) -> M:
    """A message with these fields. ValueError or TypeError naming the field that has not its type."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        for name, value in fields.items():
            try:
                kind(**{name: value})
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {reprlib.repr(value)}: {error}") from None
        raise


def number(enum: Any, prefix: str, name: str) -> Any:
    """The number of prefix_NAME. ValueError lists the names that there are."""
    names = [known.removeprefix(prefix).lower() for known in enum.keys() if not known.endswith("UNSPECIFIED")]
    if name not in names:
        raise ValueError(f"{name!r}, expected one of {', '.join(names)}")
    return enum.Value(prefix + name.upper())


def prompt(value: Prompt) -> documents.Prompt:
    """Text, token ids, or a conversation."""
    if isinstance(value, str):
        return documents.Prompt(text=value)
    if any(isinstance(item, (types.Message, Mapping)) for item in value):
        return documents.Prompt(messages=[_chat_message(i, m) for i, m in enumerate(value)])
    return build(documents.Prompt, tokens=value)


def _chat_message(index: int, value: Any) -> documents.ChatMessage:
    """TypeError or ValueError naming the message that is none."""
    if isinstance(value, Mapping) and set(value) == {"role", "content"}:
        value = types.Message(**value)
    if not isinstance(value, types.Message):
        raise TypeError(f"message {index}: {reprlib.repr(value)}, expected a recollect.Message, or a dict of role and content")
    try:
        role = number(documents.ChatRole, "CHAT_ROLE_", value.role)
        return build(documents.ChatMessage, role=role, content=value.content)
    except (TypeError, ValueError) as error:
        raise type(error)(f"message {index}: {error}") from None


def conversation(question: str | types.Conversation, system: str) -> types.Conversation:
    messages = [types.Message("user", question)] if isinstance(question, str) else list(question)
    if not messages:
        raise ValueError("a conversation of no messages, expected one that ends with a user's")
    for index, message in enumerate(messages):
        _chat_message(index, message)  # or numbers would be taken for token ids
    return [types.Message("system", system), *messages] if system else messages


def filter_text(name: str, value: types.Filter | None) -> str:
    """A filter as the server reads it; none is empty."""
    return "" if value is None else object_text(name, value)


def object_text(name: str, value: types.Metadata | types.Filter) -> str:
    """Metadata or a filter as the server reads them. TypeError or ValueError naming the argument."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: {reprlib.repr(value)}, expected a dictionary")
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {reprlib.repr(value)}: {error}") from None


def set_metadata(id: str, metadata: Mapping[str, Any], patch: bool) -> documents.SetMetadataRequest:
    return documents.SetMetadataRequest(id=id, metadata=object_text("metadata", metadata), patch=patch)


def session(mounts: Sequence[str], options: types.Options | None) -> documents.SessionOptions:
    """The options of a new session."""
    if isinstance(mounts, str):
        raise TypeError(f"mounts: {mounts!r} is one string, expected a list of document ids")
    message = documents.SessionOptions(mounts=mounts)
    for f in dataclasses.fields(options) if options is not None else ():
        value = getattr(options, f.name)
        if f.name.startswith("layer_"):
            getattr(message, f.name).extend(documents.HeadNumbers(heads=heads) for heads in value)
        elif f.name == "mount_as":
            if value:
                message.mount_as = number(documents.MountAs, "MOUNT_AS_", value)
        elif f.name == "mount_filter":
            message.mount_filter = filter_text("mount_filter", value)
        elif value is not None:
            setattr(message, f.name, value)
    return message


_SAMPLING = {f.name for f in generation.Sampling.DESCRIPTOR.fields}


def generate_request(
    text: Prompt,
    session_id: int,
    options: documents.SessionOptions | None,
    arguments: types.GenerateArguments,
) -> generation.GenerateRequest:
    stop = arguments.get("stop", ())
    if isinstance(stop, str):
        raise TypeError(f"stop: {stop!r} is one string, expected a list of them")
    fields: dict[str, Any] = dict(arguments)
    fields["with_retrievals"] = fields.pop("retrievals", False)
    fields["with_candidates"] = fields.pop("candidates", False)
    sampling = {name: fields.pop(name) for name in _SAMPLING & fields.keys()}
    save_as, replace = fields.pop("save_as", None), fields.pop("replace", False)
    if save_as is not None:
        fields["save_as"] = build(generation.SaveAs, document_id=save_as, replace=replace)
    elif replace:
        raise ValueError("replace: only together with save_as")
    return build(
        generation.GenerateRequest,
        session_id=session_id,
        session=options,
        prompt=prompt(text),
        sampling=build(generation.Sampling, **sampling),
        **fields,
    )


def score_request(
    text: Prompt,
    session_id: int,
    options: documents.SessionOptions | None,
    flush_after: Sequence[int],
    top_logprobs: int,
) -> generation.ScoreRequest:
    return generation.ScoreRequest(session_id=session_id, session=options, prompt=prompt(text),
                                   flush_after=flush_after, top_logprobs=top_logprobs)


def save_request(session_id: int, id: str, replace: bool) -> generation.SaveSessionRequest:
    return build(generation.SaveSessionRequest, session_id=session_id, document_id=id, replace=replace)


def read_text(id: str, begin: int, end: int) -> list[documents.ReadTextRequest]:
    """Requests for bytes [begin, end), each for what one may ask for."""
    most = 1 << 20
    return [documents.ReadTextRequest(id=id, begin=b, end=min(b + most, end))
            for b in range(begin, max(end, begin + 1), most)]


def whole(document: types.Document | None) -> types.Document:
    """What a stream ended with."""
    if document is None:
        raise errors.Internal("the stream ended without a document")
    return document


def event(response: generation.GenerateResponse) -> types.Event | None:
    """None for an event of a newer server."""
    kind = response.WhichOneof("event")
    if kind == "tokens":
        return decode(types.Tokens, response.tokens)
    if kind == "retrieval":
        return decode(types.Retrieval, response.retrieval)
    if kind == "candidates":
        return decode(types.Candidates, response.candidates)
    if kind == "logprobs":
        return decode(types.TokenLogprobs, response.logprobs)
    return decode(types.Done, response.done) if kind == "done" else None


class Collector:
    """Makes a result of events."""

    def __init__(self) -> None:
        self._events: list[types.Event] = []

    def add(self, event: types.Event) -> None:
        self._events.append(event)

    def result(self) -> types.Result:
        tokens = [e for e in self._events if isinstance(e, types.Tokens)]
        done = self._events[-1] if self._events else None
        if not isinstance(done, types.Done):
            raise RuntimeError("the generation was not read to its end")
        text = "".join(e.text for e in tokens)
        if done.repeats_from:
            text = text.encode()[: done.repeats_from].decode()
        return types.Result(
            text=text,
            tokens=tuple(token for e in tokens for token in e.ids),
            retrievals=tuple(e for e in self._events if isinstance(e, types.Retrieval)),
            logprobs=tuple(e for e in self._events if isinstance(e, types.TokenLogprobs)),
            finish_reason=done.reason,
            usage=done.usage,
            saved=done.saved,
            candidates=tuple(e for e in self._events if isinstance(e, types.Candidates)),
        )


# Calls that may be made twice are made again by gRPC itself while no server answers.
_IDEMPOTENT = {
    "Documents": ["GetDocument", "ListDocuments", "ListIngests", "ReadText", "Retrieve"],
    "Generation": ["GetSession", "Score"],
    "Admin": ["GetModel", "GetStats", "ListBackups"],
}
SERVICE_CONFIG: dict[str, Any] = {
    "methodConfig": [
        {
            "name": [
                {"service": f"recollect.v1.{service}", "method": method}
                for service, methods in _IDEMPOTENT.items()
                for method in methods
            ],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
CHANNEL_OPTIONS = [("grpc.service_config", json.dumps(SERVICE_CONFIG))]
