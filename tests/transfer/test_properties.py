"""Whatever a format can express survives being written in it and read again."""

from __future__ import annotations

import json
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from everthread.core.events import (
    Assistant,
    Clear,
    Event,
    Mark,
    Other,
    System,
    ToolCall,
    ToolResult,
    User,
)
from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from everthread.transfer import from_anthropic, from_openai, to_anthropic, to_openai

# Any text but the empty one, which the formats cannot tell from no text at all.
words = st.text(st.characters(), min_size=1, max_size=20)
urls = st.builds("https://{}.example/".format, st.integers())
texts = st.builds(Text, text=words)
content: st.SearchStrategy[Part] = st.one_of(
    texts,
    st.builds(image, st.binary(max_size=20)),
    st.builds(Image, url=urls),
    st.builds(file, st.binary(max_size=20), name=words, media_type=st.just("application/pdf")),
    st.builds(File, url=urls, name=words),
)
some = st.lists(content, max_size=3).map(tuple)
markers = st.sampled_from([Clear(), Mark(name="m"), Other(kind="app.note", data={"a": 1})])


# -- OpenAI: any order of any messages, with markers between ------------------------------------------------

thoughts = st.lists(st.builds(Reasoning, text=words), max_size=1).map(tuple)
openai_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(System, parts=some),
    st.builds(User, parts=some),
    st.builds(Assistant, parts=st.builds(lambda thought, rest: thought + rest, thoughts, some)),
    st.builds(ToolCall, id=st.text(max_size=3), name=words, arguments=st.text()),
    st.builds(ToolResult, id=words, name=st.text(max_size=3), parts=some),
    markers,
)


@given(st.lists(openai_events, max_size=12))
def test_messages_survive_being_written_for_openai(events: list[Event]) -> None:
    assert from_openai(to_openai(events)) == [event for event in events if not isinstance(event, Clear | Mark | Other)]


@given(st.lists(openai_events, max_size=12))
def test_openai_messages_survive_being_read(events: list[Event]) -> None:
    messages = to_openai(events)
    assert to_openai(from_openai(messages)) == messages


@given(st.lists(openai_events, max_size=12))
def test_openai_messages_are_plain_json(events: list[Event]) -> None:
    messages = to_openai(events)
    assert json.loads(json.dumps(messages, allow_nan=False)) == messages


# -- Anthropic: roles take turns, and in the user's results come first ---------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=3).map(
    lambda body: json.dumps(body, ensure_ascii=False)
)
broken = st.sampled_from(['{"a": ', "[1]", "null", "nonsense", '{"a": NaN}'])
thinking = st.builds(
    lambda text: Reasoning(
        text=text,
        meta={"anthropic": json.dumps({"type": "thinking", "thinking": text, "signature": "s"}, ensure_ascii=False)},
    ),
    words,
)
replies = st.builds(Assistant, parts=st.lists(content | thinking, min_size=1, max_size=3).map(tuple))
tool_calls = st.builds(ToolCall, id=st.text(max_size=3), name=words, arguments=objects | broken)
results = st.builds(ToolResult, id=st.text(max_size=3), parts=some, error=st.booleans())
questions = st.builds(User, parts=st.lists(content, min_size=1, max_size=3).map(tuple))


def _apart(events: list[Assistant | ToolCall]) -> list[Event]:
    """No two replies side by side: Anthropic would make them one."""
    return [event for kind, run in groupby(events, type) for event in ([*run][:1] if kind is Assistant else run)]


from_the_assistant = st.lists(replies | tool_calls, min_size=1, max_size=4).map(_apart)
from_the_user = st.builds(
    lambda answers, asked: [*answers, *asked],
    st.lists(results, min_size=1, max_size=3),
    st.lists(questions, max_size=1),
)
rounds = st.builds(lambda said, back: [*said, *back], from_the_assistant, from_the_user)
anthropic_events: st.SearchStrategy[list[Event]] = st.builds(
    lambda told, asked, more: [*told, asked, *(event for one in more for event in one)],
    st.lists(st.builds(System, parts=st.lists(texts, min_size=1, max_size=2).map(tuple)), max_size=1),
    questions,
    st.lists(rounds, max_size=4),
)


# Without system events: Anthropic's instructions are text only, and these may hold images.
disorder = openai_events.filter(lambda event: not isinstance(event, System))


@given(anthropic_events)
def test_a_conversation_survives_being_written_for_anthropic(events: list[Event]) -> None:
    assert from_anthropic(to_anthropic(events)) == events


@given(st.lists(disorder, max_size=12))
def test_tool_calls_survive_anthropic_in_any_disorder(events: list[Event]) -> None:
    read = from_anthropic(to_anthropic(events))
    assert _names(read) == _names(events)


@given(st.lists(disorder, max_size=12))
def test_what_was_written_for_anthropic_once_stays_as_it_is(events: list[Event]) -> None:
    body = to_anthropic(events)
    assert to_anthropic(from_anthropic(body)) == body


@given(st.lists(openai_events, max_size=12))
def test_neighbours_never_have_the_same_role_for_anthropic(events: list[Event]) -> None:
    roles = [message["role"] for message in to_anthropic(events)["messages"]]
    assert all(one != other for one, other in pairwise(roles))


def _names(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.id, event.name) for event in events if isinstance(event, ToolCall)]
