"""JSON of any size as a stream: the same values wherever the text is divided, and faults named by their line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.errors import BadFormat
from everthread.transfer import streams

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def read(text: bytes) -> list[Any]:
    return [one.value for one in streams.value(io.BytesIO(text), "a.json", lambda _: None)]


@given(st.lists(values, max_size=6), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_the_items_of_a_list_are_the_same_wherever_it_is_divided(
    items: list[Any], piece: int, indent: int | None, ascii: bool
) -> None:
    text = json.dumps(items, indent=indent, ensure_ascii=ascii)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "PIECE", piece)
        assert read(b" \n" + text.encode("utf-8", "replace") + b"\n") == json.loads(text.encode("utf-8", "replace"))


FAULTS = {
    "a comma is missing": ('[{"a": 1}\n{"a": 2}]', "line 2", "comma"),
    "a value is missing": ("[1,\n\n]", "line 3", "not JSON"),
    "it is cut off": ('[{"a": 1},\n {"a": "b', "line 2", "not JSON"),
    "more follows": ("[1]\n[2]", "line 2", "more follows"),
    "it is no UTF-8": ('["\udcff"]', "a.json", "not UTF-8"),
    "it is nested too deeply": ("[" + "[" * 100_000, "a.json", "nested too deeply"),
}


@pytest.mark.parametrize("piece", [3, 1_000_000])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_by_its_line(name: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text, where, reason = FAULTS[name]
    monkeypatch.setattr(streams, "PIECE", piece)
    with pytest.raises(BadFormat) as fault:
        read(text.encode("utf-8", "surrogateescape"))
    assert fault.value.where == where
    assert reason in fault.value.reason


def test_a_value_or_line_that_is_too_large_is_refused_before_it_is_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LARGEST", 1_000)
    monkeypatch.setattr(streams, "PIECE", 100)
    file = io.BytesIO(b'["' + b"a" * 1_000_000)
    with pytest.raises(BadFormat, match="larger than"):
        list(streams.value(file, "a.json", lambda _: None))
    assert file.tell() < 10_000
    with pytest.raises(BadFormat, match="a line is larger"):
        list(streams.lines(io.BytesIO(b"a" * 5_000), "a.jsonl", lambda _: None))


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ('{"a": 1}\n{"a": 2}\n', False),
        ('{"a": 1}\n', True),
        ('{\n"a": 1}\n', True),
        ("[1, 2]", True),
        ("[1]\n\n[2]", False),
        ("", True),
        ("[" + "1," * 50 + "1]\n", True),
        ('{"a": "' + "b" * 90 + '"}\n{"a": 1}', False),
        ('{"a": "' + "b" * 90 + '"}\n  \n', True),
    ],
)
def test_one_value_a_line_is_told_from_one_that_fills_the_file(
    text: str, one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONG", 64)
    monkeypatch.setattr(streams, "PIECE", 8)
    assert streams.is_one_value(io.BytesIO(text.encode())) is one


def test_a_torn_last_line_is_passed_over_where_it_may_be() -> None:
    text = b'{"a": 1}\n{"a": 2'
    assert [one.value for one in streams.lines(io.BytesIO(text), "m", lambda _: None, torn=True)] == [{"a": 1}]
    with pytest.raises(BadFormat, match="line 2"):
        list(streams.lines(io.BytesIO(text), "m", lambda _: None))
