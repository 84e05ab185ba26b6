"""Whatever a tool gives becomes parts that a model can read and the log can keep."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from everthread import Everthread, tool_call, user
from everthread.core.events import ToolResult
from everthread.core.parts import File, Image, Part, Text, image
from everthread.tools.results import MOST, MOST_BYTES, MOST_ITEMS, gathered, in_a_line, parts_of
from tests.core.pictures import png


@dataclass
class Stop:
    name: str
    nights: int


class Limits(msgspec.Struct):
    most: int


class Person(pydantic.BaseModel):
    name: str


class Odd:
    def __repr__(self) -> str:
        raise ValueError("nobody knows me")

    def __eq__(self, other: object) -> bool:
        raise ValueError("nobody is like me")

    __hash__ = None  # type: ignore[assignment]


class Own(BaseException):
    pass


class Mute(Exception):
    """One whose words cannot be had."""

    def __init__(self, why: BaseException) -> None:
        self.why = why

    def __str__(self) -> str:
        raise self.why

    __repr__ = __str__

    def __sizeof__(self) -> int:
        raise self.why


def text_of(value: object) -> str:
    (part,) = parts_of(value)
    assert isinstance(part, Text)
    return part.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("22 °C", "22 °C", id="text"),
        pytest.param("\ud800\0", "\ud800\0", id="text beyond Unicode"),
        pytest.param(None, "(no output)", id="nothing"),
        pytest.param("", "(no output)", id="no text"),
        pytest.param(True, "true", id="truth"),
        pytest.param(5, "5", id="a number"),
        pytest.param({"a": [1, None, "é"]}, '{"a":[1,null,"é"]}', id="data"),
        pytest.param([], "[]", id="an empty list"),
        pytest.param(["a", "b"], '["a","b"]', id="a list of texts"),
        pytest.param({1: 2}, '{"1":2}', id="numbers as keys"),
        pytest.param({"a": "\ud800"}, '{"a":"\ud800"}', id="data beyond Unicode"),
        pytest.param(Stop("Porto", 2), '{"name":"Porto","nights":2}', id="a dataclass"),
        pytest.param(Limits(3), '{"most":3}', id="a struct"),
        pytest.param([Person(name="Ana")], '[{"name":"Ana"}]', id="pydantic"),
        pytest.param(datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z", id="a moment"),
        pytest.param({"at": Path("/x"), "cost": Decimal("1.50")}, '{"at":"/x","cost":"1.50"}', id="inside data"),
        pytest.param(Path("/x"), "/x", id="a path"),
        pytest.param({7}, "[7]", id="a set"),
        pytest.param(deque([1, 2]), "[1,2]", id="a deque"),
        pytest.param(range(3), "[0,1,2]", id="a range"),
        pytest.param({"a": 1}.values(), "[1]", id="a view"),
        pytest.param(iter(["a", "b"]), "ab", id="an iterator of texts"),
        pytest.param(iter([1, "b"]), '[1,"b"]', id="an iterator"),
        pytest.param(iter([]), "(no output)", id="an empty iterator"),
    ],
)
def test_a_value_is_told_in_words(value: object, text: str) -> None:
    assert text_of(value) == text


def _circle() -> Any:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    return circle


def _depth() -> Any:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param({"a": float("nan")}, ["{'a': nan}", "JSON cannot say it"], id="NaN"),
        pytest.param(_circle(), ["{'again': {...}}", "in a circle"], id="a circle"),
        pytest.param(_depth(), ["a list", "cannot be shown", "too deep"], id="a depth"),
        pytest.param(1j, ["1j", "there is a complex in it"], id="an object"),
        pytest.param({(1, 2): 3}, ["{(1, 2): 3}", "JSON cannot say it"], id="keys that are no text"),
        pytest.param(10**5000, ["a int", "cannot be shown"], id="too many digits"),
        pytest.param(Odd(), ["a Odd", "cannot be shown"], id="what raises when it is looked at"),
        pytest.param([Odd()], ["a list", "there is a Odd in it"], id="with such a thing in it"),
    ],
)
def test_what_json_cannot_say_is_shown_as_python_shows_it(value: object, words: list[str]) -> None:
    found = text_of(value)
    assert [word for word in words if word not in found] == []


def test_parts_stay_as_they_are_with_texts_between_them() -> None:
    picture = image(png(3, 4))
    assert parts_of(picture) == (picture,)
    assert parts_of(["Look:", picture]) == (Text(text="Look:"), picture)


@pytest.mark.parametrize(
    ("data", "kind", "media_type"),
    [
        pytest.param(png(3, 4), Image, "image/png", id="a picture"),
        pytest.param(b"%PDF-1.7\xff", File, "application/pdf", id="a PDF"),
        pytest.param("é".encode(), File, "text/plain", id="text"),
        pytest.param(b"\xff\xfe", File, "application/octet-stream", id="anything else"),
        pytest.param(b"a\0b", File, "application/octet-stream", id="with a NUL"),
        pytest.param(bytearray(png(3, 4)), Image, "image/png", id="a bytearray"),
    ],
)
def test_bytes_become_a_picture_or_a_file(data: bytes, kind: type, media_type: str) -> None:
    (part,) = parts_of(data)
    assert isinstance(part, Image | File)
    assert isinstance(part, kind)
    assert (part.media_type, part.data) == (media_type, bytes(data))


# -- sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("word " * 4_000_000, id="20 MB of text"),
        pytest.param([{"line": "word " * 20, "n": n} for n in range(180_000)], id="20 MB of data"),
        pytest.param([Text(text="x" * 900_000)] * 20, id="many parts"),
        pytest.param(b"\x00" * 20_000_000, id="20 MB of bytes"),
        pytest.param(itertools.repeat("word " * 1000), id="texts without end"),
        pytest.param(itertools.count(), id="numbers without end"),
    ],
)
async def test_what_is_too_large_is_made_small_and_says_so(value: object, tmp_path: Path) -> None:
    parts = parts_of(value)
    shown = "".join(part.text for part in parts if isinstance(part, Text))
    assert len(shown) < MOST + 2_000
    assert "left out" in shown or "too large to be kept" in shown
    await _kept(parts, tmp_path)


async def _kept(parts: tuple[Part, ...], tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        call = tool_call("f", id="1")
        *_, last = await talk.append(user("Go."), call, ToolResult(id="1", name="f", parts=parts))
        assert (await talk.tail())[-1].event == last.event


def test_head_and_tail_of_a_long_text_are_kept() -> None:
    found = text_of(f"begin{'x' * 3 * MOST}end")
    assert found.startswith("beginx")
    assert found.endswith("xend")
    assert f"[… {2 * MOST + 8:,} characters were left out here …]" in found


def test_what_just_fits_is_whole() -> None:
    assert text_of("x" * MOST) == "x" * MOST
    assert json.loads(text_of(iter(range(MOST_ITEMS)))) == list(range(MOST_ITEMS))
    (part,) = parts_of(b"\0" * MOST_BYTES)
    assert isinstance(part, File)


def test_a_generator_that_is_not_read_to_its_end_is_closed() -> None:
    closed = []

    def numbers() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    found = json.loads(text_of(numbers()))
    assert found[:2] == [0, 1]
    assert found[-1] == f"[there were more than {MOST_ITEMS:,} items; the rest was left out]"
    assert closed == [True]


async def test_an_asynchronous_generator_is_read_so_far_and_no_further() -> None:
    closed = []

    async def words() -> Any:
        try:
            while True:
                yield "word"
        finally:
            closed.append(True)

    found = await gathered(words())
    assert found.startswith("wordword")
    assert found.endswith("left out …]")
    assert closed == [True]


@pytest.mark.parametrize(
    "why", [ValueError(), KeyboardInterrupt(), SystemExit(), GeneratorExit(), asyncio.CancelledError(), Own()], ids=repr
)
def test_an_error_that_cannot_be_told_is_told_by_its_type(why: BaseException) -> None:
    assert in_a_line(Mute(why)) == "Mute"
    assert text_of(Mute(why)).startswith("<a Mute that cannot be shown>")
    assert "cannot be shown" in text_of({"key": [Mute(why)]})
