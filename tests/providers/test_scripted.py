"""The scripted model: it says what it was told to say, and breaks where it was told to break."""

from __future__ import annotations

from typing import Any

import pytest

from everthread.core.deltas import ReasoningDelta, TextDelta
from everthread.core.events import Assistant, ToolCall, text_of
from everthread.core.parts import Reasoning, Text
from everthread.core.tokens import count
from everthread.errors import BadValue, BrokenOff, Overloaded
from everthread.providers.client import Access, Replied, StreamPiece
from everthread.providers.scripted.client import connect
from everthread.testing.scripted import broken, call, left, script, thought

TOOL = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {}}}


async def ask(name: str, said: str = "Hi", **options: Any) -> list[StreamPiece]:
    body = {"model": name, "messages": [{"role": "user", "content": said}], **options}
    async with connect(Access(provider="scripted")).reply(body) as stream:
        return [piece async for piece in stream]


async def collect(name: str, into: list[str]) -> None:
    """As `ask`, but what came before an error is there to see."""
    async with connect(Access(provider="scripted")).reply({"model": name, "messages": []}) as stream:
        async for piece in stream:
            into += [str(piece)]


def last(pieces: list[StreamPiece]) -> Replied:
    assert isinstance(pieces[-1], Replied)
    return pieces[-1]


async def test_it_says_its_replies_in_order_word_by_word() -> None:
    """The pieces joined are the reply, to the last space."""
    assert script("ordered", "One  two\nthree. ", "Next.") == "scripted:ordered"
    pieces = await ask("ordered")
    assert [str(piece) for piece in pieces[:-1]] == ["One", "  two", "\nthree. "]
    reply = last(pieces)
    assert reply.events == (Assistant(parts=(Text(text="One  two\nthree. "),), model="scripted:ordered"),)
    assert (reply.finish, reply.model, reply.usage.output) == ("stop", "ordered", count("One  two\nthree. "))
    assert left("ordered") == 1
    assert text_of(last(await ask("ordered")).events[0]) == "Next."


async def test_what_is_not_scripted_is_repeated() -> None:
    """The user's last message, of a model that nobody scripted or that has said all it had to say."""
    script("spent")
    for name in ("spent", "never heard of"):
        assert text_of(last(await ask(name, "Good morning")).events[0]) == "You said: “Good morning”"
    pictured = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    reply = last(await ask("spent", messages=[{"role": "user", "content": pictured}]))
    assert text_of(reply.events[0]) == "You said: “Look”"
    silent = last(await ask("spent", messages=[{"role": "system", "content": "Be brief."}]))
    assert text_of(silent.events[0]) == "I am listening."


async def test_it_thinks_and_calls_tools() -> None:
    """Texts and thoughts are parts of one message; calls follow it, each with an id of its own."""
    script(
        "busy",
        [thought("Hm, the time."), "Let me ", "look.", call("clock", {"zone": "Köln"}), call("clock", "{", id="x")],
    )
    pieces = await ask("busy", tools=[TOOL])
    assert [type(piece) for piece in pieces[:-1]] == [ReasoningDelta] * 3 + [TextDelta] * 3
    reply = last(pieces)
    assert reply.events == (
        Assistant(parts=(Reasoning(text="Hm, the time."), Text(text="Let me look.")), model="scripted:busy"),
        ToolCall(id="call_1", name="clock", arguments='{"zone": "Köln"}'),
        ToolCall(id="x", name="clock", arguments="{"),
    )
    assert (reply.finish, reply.usage.reasoning) == ("tools", count("Hm, the time."))


async def test_a_call_alone_is_no_message() -> None:
    script("silent", call("clock"), call("clock"))
    ids = [event.id for _ in range(2) for event in last(await ask("silent")).events if isinstance(event, ToolCall)]
    assert ids == ["call_1", "call_2"]


async def test_a_function_decides_by_what_it_was_asked() -> None:
    """It sees the request's body and returns any reply, another function among them."""
    script("clever", lambda body: lambda _: f"{len(body['messages'])} message", lambda _: [call("clock")])
    assert text_of(last(await ask("clever")).events[0]) == "1 message"
    assert last(await ask("clever")).finish == "tools"


async def test_an_error_is_raised_before_the_first_piece() -> None:
    script("down", Overloaded("scripted", "too many", after=2.0), "Back.")
    with pytest.raises(Overloaded, match="too many") as caught:
        await ask("down")
    assert caught.value.after == 2.0
    assert text_of(last(await ask("down")).events[0]) == "Back."


@pytest.mark.parametrize(("words", "came"), [(0, ""), (2, "One two"), (9, "One two three")])
async def test_a_reply_breaks_off_where_it_was_told_to(words: int, came: str) -> None:
    script("fragile", ["One two three", broken(after_words=words)])
    pieces: list[str] = []
    with pytest.raises(BrokenOff):
        await collect("fragile", pieces)
    assert "".join(pieces) == came


async def test_a_reply_ends_at_the_length_that_was_allowed() -> None:
    script("long", "one two three four five", "one two three four five")
    for name in ("max_tokens", "max_completion_tokens"):
        allowed: dict[str, Any] = {name: 3}
        reply = last(await ask("long", **allowed))
        assert (text_of(reply.events[0]), reply.finish, reply.usage.output) == ("one two three", "length", 3)


async def test_what_is_sent_is_counted() -> None:
    """Texts, tools and tool calls; the same before a model call and after it."""
    called = {"id": "1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    messages = [{"role": "user", "content": "What time is it?"}]
    more = [*messages, {"role": "assistant", "content": None, "tool_calls": [called]}]
    client = connect(Access(provider="scripted"))
    sizes = [
        await client.count({"model": "sized", "messages": messages}),
        await client.count({"model": "sized", "messages": more}),
        await client.count({"model": "sized", "messages": more, "tools": [TOOL]}),
    ]
    assert sizes[0] == last(await ask("sized", "What time is it?")).usage.input
    assert None not in sizes
    assert sizes == sorted(set(sizes), key=lambda size: size or 0)
    await client.close()


async def test_a_slow_model_says_the_same() -> None:
    """Its pace changes when the pieces come, not what they are."""
    script("slow", "One two three", pace=0.001)
    assert [str(piece) for piece in (await ask("slow"))[:-1]] == ["One", " two", " three"]


@pytest.mark.parametrize("name", ["", " x", "a\nb"])
def test_a_name_that_no_setting_could_say_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="name"):
        script(name, "Hello.")
