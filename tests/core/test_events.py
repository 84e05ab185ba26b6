"""Events as values: every kind comes back from its stored form exactly as it went in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.events import (
    KINDS,
    MESSAGES,
    AgentKilled,
    Assistant,
    BriefUpdated,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    ModelCall,
    Other,
    Pin,
    Redacted,
    Rewind,
    ScheduleFailed,
    SessionEnded,
    SessionStarted,
    SettingsChanged,
    Summary,
    System,
    ToolCall,
    ToolResult,
    Upload,
    User,
    assistant,
    decode,
    detach,
    encode,
    media_of,
    redacted,
    stand_in,
    system,
    text_of,
    tool_call,
    tool_result,
    user,
)
from everthread.core.parts import File, Image, Reasoning, Text, file, image, text
from everthread.errors import BadValue
from tests.core.strategies import any_text, events, messages, plain_json

NESTED: Any = {"a": [1, {"b": [None, True, 1.5, "x"]}]}

EXAMPLES: dict[str, Event] = {
    "system": system("be kind"),
    "user": User(parts=(Text(text="hi"),), origin="schedule", meta={"openai": "x"}),
    "assistant": Assistant(
        parts=(Reasoning(text="hm", meta={"anthropic": "sig=="}), Text(text="ok")),
        model="a:b",
        interrupted=True,
    ),
    "tool_call": ToolCall(id="1", name="f", arguments="not json {", waits_for="approval", meta={"g": "1"}),
    "tool_result": ToolResult(id="1", name="f", parts=(image(b"GIF89a\1\0\2\0"),), error=True, meta={"g": ""}),
    "clear": Clear(),
    "mark": Mark(name="here"),
    "fork": Fork(branch=1, at=7),
    "rewind": Rewind(branch=1, to=3),
    "command": Command(name="switch", arguments={"branch": 2, "loud": True, "why": None, "who": "ana"}),
    "settings": SettingsChanged(values={"budget": 100, "temperature": 0.5, "on": False, "off": None, "model": "x"}),
    "pin": Pin(turn=12, pinned=False),
    "brief_updated": BriefUpdated(text="Ana plans a trip.", covers=40, facts="- no walnuts", turns=9, extractive=True),
    "session_started": SessionStarted(session=4),
    "session_ended": SessionEnded(session=3, recap="They chose the night train.", extractive=True),
    "summary": Summary(text="The trip was planned.", covers=40, first=7, extractive=True),
    "agent_killed": AgentKilled(reason="out of money"),
    "model_call": ModelCall(
        model="openai:gpt-5",
        at=7,
        cutoff=3,
        factor=1.05,
        inputs={"tools": "ab"},
        input=900,
        price=0.0125,
        finish="stop",
    ),
    "redacted": Redacted(was="assistant", interrupted=True),
    "upload": Upload(parts=(Image(blob="ab", media_type="image/png"),)),
    "schedule_failed": ScheduleFailed(schedule="01J", reason="out of money", failures=5, paused=True),
    "other": Other(kind="sketch", data=NESTED),
}


@pytest.mark.parametrize("event", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_each_kind_comes_back_as_it_went_in(event: Event) -> None:
    again = decode(encode(event))
    assert again == event
    assert type(again) is type(event)
    assert again.kind == event.kind


def test_every_known_kind_has_an_example() -> None:
    assert set(EXAMPLES) - {"other"} == KINDS


@given(events)
def test_any_event_comes_back_as_it_went_in(event: Event) -> None:
    again = decode(encode(event))
    assert again == event
    assert type(again) is type(event)


@given(events)
def test_the_stored_form_is_one_object_that_names_its_kind(event: Event) -> None:
    raw = json.loads(encode(event).decode("utf-8", "surrogatepass"))
    assert raw["kind"] == ("redacted" if isinstance(event, Redacted) else event.kind)


@given(events)
def test_the_same_event_has_the_same_bytes(event: Event) -> None:
    assert encode(event) == encode(decode(encode(event)))


ODD = ["\0", "a\0b", "\ud800", "\udfff", "\ud83d\ude00", "\ude00\ud83d", "🙂\ud83d", "\x7f\x80", "\u2028", "\ufeff"]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
@pytest.mark.parametrize(
    "place", ["text", "meta value", "meta key", "arguments", "mark", "brief", "facts", "recap", "summary", "other"]
)
def test_text_that_utf8_cannot_say_survives_everywhere(odd: str, place: str) -> None:
    events: dict[str, Event] = {
        "text": user(odd),
        "meta value": User(parts=(text("x", meta={"p": odd}),), meta={"p": odd}),
        "meta key": User(meta={odd: "x"}),
        "arguments": tool_call("f", odd),
        "mark": Mark(name=odd),
        "brief": BriefUpdated(text=odd, covers=1),
        "facts": BriefUpdated(text="x", covers=1, facts=odd),
        "recap": SessionEnded(session=1, recap=odd),
        "summary": Summary(text=odd, covers=1),
        "other": Other(kind="app", data={odd: [odd]}),
    }
    assert decode(encode(events[place])) == events[place]


def test_two_lone_surrogates_do_not_become_one_character() -> None:
    again = decode(encode(user("\ud83d\ude00")))
    assert [ord(letter) for letter in text_of(again)] == [0xD83D, 0xDE00]


@given(any_text)
def test_provider_metadata_is_kept_to_the_letter(value: str) -> None:
    event = Assistant(parts=(Reasoning(text="", meta={"anthropic": value}),), meta={"openai": value})
    again = decode(encode(event))
    assert isinstance(again, Assistant)
    assert again.meta["openai"] == value
    assert again.parts[0].meta["anthropic"] == value


def test_metadata_keeps_its_order() -> None:
    event = User(meta={"z": "1", "a": "2", "m": "3"})
    again = decode(encode(event))
    assert isinstance(again, User)
    assert list(again.meta) == ["z", "a", "m"]


@given(st.dictionaries(any_text.filter(lambda key: key != "kind"), plain_json, max_size=3))
def test_applications_may_keep_any_plain_json(data: dict[str, Any]) -> None:
    again = decode(encode(Other(kind="my.app:thing-1", data=data)))
    assert isinstance(again, Other)
    assert again.data == data
    assert repr(again.data) == repr(data)  # 1, 1.0 and True are not the same


def test_a_number_larger_than_any_machine_word_is_kept() -> None:
    event = Other(kind="app", data={"n": [2**64, -(2**64), 10**400]})
    assert decode(encode(event)) == event


REFUSED: dict[str, dict[str, Any]] = {
    "not a number": {"n": math.nan},
    "infinity": {"n": [math.inf]},
    "a tuple": {"t": (1, 2)},
    "a set": {"s": {1}},
    "bytes": {"b": b"x"},
    "an object": {"o": object()},
    "a number as key": {"d": {1: "x"}},
    "a key named kind": {"kind": "x"},
    "a number too long to write down": {"n": 10**5000},
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_data_that_would_not_come_back_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        Other(kind="app", data=data)


def test_data_nested_too_deep_to_be_written_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadValue):
        Other(kind="app", data={"deep": deep})


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_application_cannot_take_a_kind_of_ours(kind: str) -> None:
    with pytest.raises(BadValue):
        Other(kind=kind)


@pytest.mark.parametrize("kind", ["", "Upper", "1st", "with space", "a" * 65, "ä", "a\n", "-a"])
def test_an_application_kind_is_a_short_plain_name(kind: str) -> None:
    with pytest.raises(BadValue):
        Other(kind=kind)


UNFAITHFUL: dict[str, Callable[[], Event]] = {
    "a command with a number beyond 64 bits": lambda: Command(name="x", arguments={"n": 2**64}),
    "settings with a number beyond 64 bits": lambda: SettingsChanged(values={"n": -(2**63) - 1}),
    "settings with infinity": lambda: SettingsChanged(values={"n": math.inf}),
    "a pin of a turn beyond 64 bits": lambda: Pin(turn=2**64),
    "a brief that covers a number beyond 64 bits": lambda: BriefUpdated(text="", covers=-(2**63) - 1),
    "a summary from a number beyond 64 bits": lambda: Summary(text="", covers=1, first=2**64),
    "the recap of a session beyond 64 bits": lambda: SessionEnded(session=2**64, recap=""),
}


@pytest.mark.parametrize("make", UNFAITHFUL.values(), ids=UNFAITHFUL.keys())
def test_a_marker_comes_back_whole_or_is_refused(make: Callable[[], Event]) -> None:
    """What must not happen: another value in its place, or an error from outside the tree."""
    try:
        event = make()
        again = decode(encode(event))
    except BadValue:
        return
    assert again == event


BROKEN = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a number": b"1",
    "no kind": b'{"a":1}',
    "a kind that is no text": b'{"kind":1}',
    "a kind that no application may have": b'{"kind":"Upper Case"}',
    "a field too many": b'{"kind":"clear","x":1}',
    "a field too few": b'{"kind":"mark"}',
    "a wrong type": b'{"kind":"mark","name":1}',
    "a pin of no turn": b'{"kind":"pin"}',
    "a pin of a turn that is no number": b'{"kind":"pin","turn":"1"}',
    "a brief that does not say what it covers": b'{"kind":"brief_updated","text":"x"}',
    "a recap of no session": b'{"kind":"session_ended","recap":"x"}',
    "a summary without its text": b'{"kind":"summary","covers":1}',
    "bytes that are no text": b'{"kind":"mark","name":"\xff"}',
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_body_is_an_error_and_never_another_event(body: bytes) -> None:
    with pytest.raises((ValueError, BadValue)):
        decode(body)


def test_values_cannot_be_changed() -> None:
    event = user("hi")
    with pytest.raises(AttributeError):
        event.origin = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        event.parts[0].text = "x"  # type: ignore[misc, union-attr]


# -- builders and looking ----------------------------------------------------------------------------------


def test_builders_take_text_and_parts() -> None:
    picture = image(b"GIF89a\1\0\2\0")
    assert user("a", picture).parts == (Text(text="a"), picture)
    assert tool_call("f", {"ä": 1}).arguments == '{"ä": 1}'
    assert tool_call("f").id == tool_result("x", name="f").id
    assert assistant("a", interrupted=True).interrupted
    assert tool_result("no", name="f", error=True).error


def test_the_text_of_a_message_is_what_a_reader_reads() -> None:
    assert text_of(user("a", "b")) == "a\nb"
    assert text_of(assistant(Reasoning(text="secret"), "said")) == "said"
    assert text_of(tool_call("f", "{}")) == "f({})"
    assert text_of(Mark(name="x")) == ""
    assert text_of(Summary(text="x", covers=1)) == text_of(BriefUpdated(text="x", covers=1)) == ""
    assert text_of(Other(kind="app", data={"text": "x"})) == ""


def test_a_detached_event_has_its_media_by_hash_only() -> None:
    picture, paper = image(b"GIF89a\1\0\2\0"), file(b"%PDF", name="a.pdf")
    event = tool_result("see", picture, paper, name="f")
    light = detach(event)
    assert [part.data for part in media_of(light)] == [None, None]
    assert [part.blob for part in media_of(light)] == [picture.blob, paper.blob]
    assert text_of(light) == "see"
    assert detach(user("no media")) == user("no media")


def test_an_image_or_file_is_known_by_the_hash_of_its_bytes() -> None:
    assert image(b"x").blob == image(b"x").blob != image(b"y").blob
    assert file(b"x").blob == image(b"x").blob
    assert len(image(b"x").blob) == 64
    assert (file(b"abc").size, file(b"abc", name="n").name) == (3, "n")
    assert isinstance(file(b""), File)
    assert isinstance(image(b""), Image)


@given(messages)
def test_a_tombstone_keeps_the_kind_and_nothing_that_was_said(event: Event) -> None:
    tombstone = redacted(event)
    assert tombstone.kind == event.kind
    assert set(json.loads(encode(tombstone))) <= {"kind", "was", "interrupted", "waits_for"}
    assert stand_in(tombstone).kind == event.kind


@pytest.mark.parametrize("kind", ["brief_updated", "session_ended", "summary"])
def test_the_tombstone_of_what_was_remembered_is_still_no_message(kind: str) -> None:
    tombstone = redacted(EXAMPLES[kind])
    assert tombstone == Redacted(was=kind)
    assert stand_in(tombstone).kind not in MESSAGES


@given(events)
def test_the_tombstone_of_a_tombstone_is_the_same(event: Event) -> None:
    once = redacted(event)
    assert redacted(once) == once


def test_message_kinds_are_those_that_are_sent() -> None:
    assert set(MESSAGES) == {"system", "user", "assistant", "tool_call", "tool_result"}
    assert {kind for kind, event in EXAMPLES.items() if event.kind in MESSAGES} == {*MESSAGES, "redacted"}
    assert isinstance(EXAMPLES["system"], System)


def test_a_piece_that_is_neither_text_nor_part_is_refused_at_once() -> None:
    with pytest.raises(BadValue, match="a piece of a message"):
        user(5)  # type: ignore[arg-type]


def test_an_image_may_be_known_by_its_url_alone() -> None:
    assert image("https://example.org/cat.png").url == "https://example.org/cat.png"
    with pytest.raises(BadValue, match="read_bytes"):
        image("cat.png")
