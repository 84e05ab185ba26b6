"""Whole conversations, made up and recorded, there and back."""

from __future__ import annotations

import json

from everthread.core.events import Event, ToolCall, ToolResult, text_of
from everthread.transfer import detect, from_anthropic, from_openai, to_anthropic, to_openai
from tests.transfer.conversations import Messages, every_conversation


@every_conversation
def test_an_openai_conversation_comes_back_equal(messages: Messages) -> None:
    assert to_openai(from_openai(messages)) == messages


@every_conversation
def test_an_openai_conversation_is_known_as_one(messages: Messages) -> None:
    assert detect({"id": "x", "source": "y", "messages": messages}) == "openai"


@every_conversation
def test_tool_calls_survive_the_way_through_anthropic(messages: Messages) -> None:
    before, after = _through_anthropic(messages)
    assert _calls(after) == _calls(before)


@every_conversation
def test_tool_results_survive_the_way_through_anthropic(messages: Messages) -> None:
    before, after = _through_anthropic(messages)
    assert _results(after) == _results(before)


@every_conversation
def test_texts_survive_the_way_through_anthropic(messages: Messages) -> None:
    before, after = _through_anthropic(messages)
    assert _texts(after) == _texts(before)


def _through_anthropic(messages: Messages) -> tuple[list[Event], list[Event]]:
    events = from_openai(messages)
    return events, from_anthropic(to_anthropic(events))


def _calls(events: list[Event]) -> list[tuple[str, str, object]]:
    return [(event.id, event.name, json.loads(event.arguments)) for event in events if isinstance(event, ToolCall)]


def _results(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.id, text_of(event)) for event in events if isinstance(event, ToolResult)]


def _texts(events: list[Event]) -> str:
    """Joined, because neighbours of the same role become one message."""
    told = [event for event in events if not isinstance(event, ToolCall | ToolResult)]
    return "\n".join(f"{event.kind}: {text_of(event)}" for event in told)
