"""The canonical size of an event: counted once, by what a model would be charged for."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings

from everthread.core.events import (
    AgentKilled,
    Assistant,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    Other,
    Redacted,
    Rewind,
    Settings,
    User,
    assistant,
    system,
    tool_call,
    tool_result,
    user,
)
from everthread.core.parts import Image, Reasoning, Text, file, image
from everthread.core.tokens import LARGE_RESULT, count, sizes
from tests.core.pictures import png
from tests.core.strategies import any_text, events

MARKERS: list[Event] = [
    Clear(),
    Mark(name="a long name, but never sent"),
    Fork(branch=1, at=1),
    Rewind(branch=1, to=1),
    Command(name="x", arguments={"y": "z"}),
    Settings(values={"model": "x"}),
    AgentKilled(reason="long reason"),
    Redacted(was="user"),
    Other(kind="canvas", data={"text": "x" * 1000}),
]


@pytest.mark.parametrize("marker", MARKERS, ids=lambda marker: marker.kind)
def test_markers_have_no_size_because_they_are_never_sent(marker: Event) -> None:
    assert sizes(marker) == (0, 0)


@pytest.mark.parametrize("message", [system(""), user(), user(""), assistant(), tool_call("f"), tool_result(name="f")])
def test_even_an_empty_message_costs_its_wrapping(message: Event) -> None:
    full, settled = sizes(message)
    assert full == settled > 0


def test_counts_are_those_of_the_o200k_encoding() -> None:
    assert count("") == 0
    assert count("hello world") == 2
    assert count("The quick brown fox jumps over the lazy dog.") == 10
    assert count("<|endoftext|>") > 1  # plain text, not a control token


def test_more_text_is_larger() -> None:
    assert sizes(user("one"))[0] < sizes(user("one two"))[0] < sizes(user("one two", "three"))[0]


@settings(deadline=None, max_examples=200)
@given(events)
def test_any_event_has_a_size_and_never_settles_larger(event: Event) -> None:
    full, settled = sizes(event)
    assert 0 <= settled <= full


@given(any_text)
def test_any_text_can_be_counted(content: str) -> None:
    assert count(content) >= (1 if content else 0)


@pytest.mark.parametrize("odd", ["\ud800", "\udfff" * 100, "a\ud83db", "\0" * 50, "\ud83d\ude00"], ids=ascii)
def test_surrogates_and_nul_do_not_crash_the_counting(odd: str) -> None:
    assert sizes(user(odd))[0] > sizes(user())[0]
    assert sizes(tool_result(odd * LARGE_RESULT, name="f"))[1] > 0


LONG = {
    "one letter": "a" * 1_000_000,
    "spaces": " " * 1_000_000,
    "Chinese": "龍" * 333_333,
    "line breaks": "\n" * 1_000_000,
    "a surrogate in the middle": "a" * 500_000 + "\ud800" + "a" * 500_000,
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG.keys())
def test_a_megabyte_of_the_same_is_counted(content: str) -> None:
    """Encoders that go quadratic on one long word would not come back."""
    assert 1_000 < count(content) <= len(content.encode("utf-8", "surrogatepass"))


# -- large tool results ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "is_stubbed"),
    [
        ("word " * 2047 + "abcd", False),  # 10,239 bytes
        ("word " * 2048, True),  # 10,240
        ("龍" * 3413, False),  # 10,239 bytes in fewer characters
        ("龍" * 3414, True),
        ("word " * 20_000, True),
    ],
    ids=["a byte short", "exactly", "Chinese, a byte short", "Chinese, two bytes over", "far over"],
)
def test_a_tool_result_of_ten_kilobytes_settles_smaller(content: str, is_stubbed: bool) -> None:
    full, settled = sizes(tool_result(content, name="f"))
    assert (settled < full) is is_stubbed


def test_a_large_result_in_many_parts_settles_smaller_too() -> None:
    full, settled = sizes(tool_result(*["word " * 500] * 10, name="f"))
    assert settled < full / 4


def test_only_tool_results_settle_smaller() -> None:
    large = "word " * 20_000
    for message in (user(large), assistant(large), system(large), tool_call("f", large)):
        full, settled = sizes(message)
        assert full == settled


def test_a_stub_is_never_larger_than_the_whole() -> None:
    full, settled = sizes(tool_result(" " * LARGE_RESULT, name="f"))  # compresses to very few tokens
    assert settled <= full


def test_an_image_beside_a_large_result_is_still_charged() -> None:
    picture = image(png(1000, 750))
    without = sizes(tool_result("word " * 20_000, name="f"))
    beside = sizes(tool_result("word " * 20_000, picture, name="f"))
    assert beside[0] - without[0] == beside[1] - without[1] == 1_000


# -- images, files, metadata -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(750, 1, 1), (751, 1, 2), (1, 1, 1), (1000, 750, 1000), (10_000, 10_000, 1600), (2**31, 2**31, 1600)],
)
def test_an_image_is_charged_by_its_area(width: int, height: int, tokens: int) -> None:
    bare = sizes(user())[0]
    assert sizes(user(image(png(width, height))))[0] - bare == tokens


def test_an_image_is_not_charged_as_the_text_of_its_bytes() -> None:
    noise = bytes(range(256)) * 4_000
    heavy = image(png(100, 100) + noise)
    assert sizes(user(heavy)) == sizes(user(image(png(100, 100))))
    assert sizes(user(heavy))[0] < count(base64.b64encode(noise).decode()) / 100


def test_an_image_that_cannot_be_measured_has_a_size_all_the_same() -> None:
    assert sizes(user(Image(url="https://example.org/a.png")))[0] > 500


def test_an_image_has_the_same_size_with_and_without_its_bytes() -> None:
    with_bytes = image(png(100, 100))
    without = Image(blob=with_bytes.blob, width=100, height=100)
    assert sizes(user(with_bytes)) == sizes(user(without))


def test_a_file_is_charged_by_its_length() -> None:
    assert sizes(user(file(b"x" * 1200)))[0] - sizes(user(file(b"")))[0] == 100


def test_what_a_provider_wants_echoed_is_charged() -> None:
    signed = Assistant(parts=(Reasoning(text="hm", meta={"anthropic": "s" * 400}),))
    assert sizes(signed)[0] - sizes(assistant(Reasoning(text="hm")))[0] == 100


@pytest.mark.parametrize(
    "message", [User(parts=(Text(text="x"),), meta={"p": "s" * 400})], ids=lambda message: message.kind
)
def test_the_metadata_of_a_whole_message_is_charged_like_that_of_a_part(message: User) -> None:
    plain = sizes(User(parts=message.parts))[0]
    assert sizes(message)[0] - plain == 100
