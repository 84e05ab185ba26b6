"""The canvas as a fold: what the vectors say, which the page's fold is held to as well, and laws for any changes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.canvas import (
    EMPTY,
    Canvas,
    Change,
    List,
    ListItem,
    Picture,
    Put,
    Remove,
    Telling,
    fold,
    line_of,
    read_changes,
)
from everthread.core.canvas.elements import ELEMENTS
from everthread.core.canvas.limits import CANVAS_BYTES, ELEMENTS_MOST, checked
from everthread.core.values import plain
from everthread.errors import BadValue

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("canvas-vectors.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["what"])
def test_vectors(vector: dict[str, Any]) -> None:
    canvas, telling, told = EMPTY, Telling(), []
    for event in vector["events"]:
        canvas = fold(canvas, read_changes(event["changes"]), seq=event["seq"], by=event["by"])
        told.append(telling.of(canvas))
    assert plain(canvas) == vector["canvas"]
    assert told == vector["told"]


def test_every_type_of_element_is_in_the_vectors() -> None:
    changes = [change for vector in VECTORS for event in vector["events"] for change in event["changes"]]
    put = {change["element"]["type"] for change in changes if isinstance(change, dict) and change["do"] == "put"}
    assert put >= ELEMENTS.keys()


_ids = st.sampled_from(["a", "b", "c"])
_texts = st.text(max_size=9)
_items = st.lists(st.fixed_dictionaries({"text": _texts}, optional={"id": _ids, "done": st.booleans()}), max_size=3)
_elements = st.one_of(
    st.fixed_dictionaries({"type": st.just("card"), "id": _ids, "text": _texts}),
    st.fixed_dictionaries({"type": st.just("list"), "id": _ids, "items": _items, "boxes": st.booleans()}),
    st.fixed_dictionaries(
        {"type": st.just("form"), "id": _ids, "fields": st.lists(st.fixed_dictionaries({"name": _ids}), max_size=3)}
    ),
)
_changes = st.one_of(
    st.fixed_dictionaries({"do": st.just("put"), "element": _elements}, optional={"before": _ids}),
    st.fixed_dictionaries({"do": st.just("remove"), "id": _ids}),
    st.fixed_dictionaries({"do": st.just("mode"), "mode": st.sampled_from(["chat", "split", "full", "clear"])}),
    st.fixed_dictionaries({"do": st.just("tick"), "id": _ids, "item": _ids, "done": st.booleans()}),
    st.fixed_dictionaries({"do": st.just("fill"), "id": _ids, "values": st.dictionaries(_ids, st.none() | _texts)}),
    st.fixed_dictionaries(
        {
            "do": st.just("update"),
            "id": _ids,
            "type": st.just("card"),
            "fields": st.fixed_dictionaries({"text": _texts}),
        }
    ),
).map(lambda one: msgspec.convert(one, Change))


@given(st.lists(_changes, max_size=12), st.integers(0, 12))
def test_it_does_not_matter_where_a_fold_begins(changes: list[Change], place: int) -> None:
    assert fold(fold(EMPTY, changes[:place]), changes[place:]) == fold(EMPTY, changes)


@given(st.lists(_changes, max_size=12))
def test_ids_stand_once_and_a_form_comes_back(changes: list[Change]) -> None:
    canvas = fold(EMPTY, changes, seq=7, by="user")
    ids = [element.id for element in canvas.elements]
    assert len(ids) == len(set(ids))
    assert msgspec.convert(plain(canvas), Canvas) == canvas
    assert read_changes(json.loads(json.dumps([plain(change) for change in changes]))) == changes


@given(st.lists(st.lists(_changes, max_size=3), max_size=6))
def test_what_was_told_adds_up_to_what_is_there(events: list[list[Change]]) -> None:
    """Whoever takes each line for the newest of its element knows the whole canvas, though only changes were told."""
    canvas, telling, known = EMPTY, Telling(), dict[str, str]()
    for changes in events:
        canvas = fold(canvas, changes)
        told = telling.of(canvas)
        for line in told.splitlines():
            if line.startswith("- "):
                known[line.split("`")[1]] = line
            elif line.startswith("No longer on it: "):
                known = {id: line_ for id, line_ in known.items() if id not in line[17:-1].split(", ")}
            elif line.startswith("The user's canvas is empty"):
                known = {}
        assert known == _lines(canvas)
        assert telling.of(canvas) == ""


def _lines(canvas: Canvas) -> dict[str, str]:
    whole = Telling().of(canvas)
    return {line.split("`")[1]: line for line in whole.splitlines() if line.startswith("- ")}


@given(st.lists(_changes, max_size=12))
def test_what_is_taken_is_the_fold_and_within_bounds(changes: list[Change]) -> None:
    canvas = EMPTY
    for change in changes:
        with suppress(BadValue):
            before, canvas = canvas, checked(canvas, [change])
            assert canvas == fold(before, [change])
            assert len(canvas.shown) <= ELEMENTS_MOST


def put(id: str, text: str = "") -> Put:
    (change,) = read_changes([{"do": "put", "element": {"type": "card", "id": id, "text": text}}])
    assert isinstance(change, Put)
    return change


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([put(str(number)) for number in range(ELEMENTS_MOST + 1)], "remove some that are no longer needed"),
        ([put("a", "x" * 70_000)], "shorten it"),
        ([put(str(number), "x" * 60_000) for number in range(CANVAS_BYTES // 60_000 + 1)], "remove or shorten"),
        ([put("")], "1 to 64 characters"),
        ([put("a\n")], "can be printed"),
        (read_changes([{"do": "remove", "id": "hotl"}]), "there is none"),
        ([put("hotel"), *read_changes([{"do": "remove", "id": "hotl"}])], "did you mean 'hotel'"),
        ([put("a"), *read_changes([{"do": "tick", "id": "a", "item": "1"}])], "a list with boxes"),
        ([put("a"), *read_changes([{"do": "fill", "id": "a", "values": {}}])], "that of a form"),
        ([put("a"), *read_changes([{"do": "update", "id": "a", "type": "code", "fields": {}}])], "card, which"),
    ],
)
def test_limits_say_what_to_do(changes: list[Change], why: str) -> None:
    with pytest.raises(BadValue, match=why):
        checked(EMPTY, changes)


def test_long_contents_are_told_shortened() -> None:
    rows = [[number, "x" * 500] for number in range(1_000)]
    values = [float(number) for number in range(1_000)]
    changes = read_changes(
        [
            {"do": "put", "element": {"type": "text", "id": "t", "text": "word " * 9_000}},
            {"do": "put", "element": {"type": "table", "id": "r", "columns": ["n", "x"], "rows": rows}},
            {"do": "put", "element": {"type": "chart", "id": "c", "chart": "line", "series": [{"values": values}]}},
        ]
    )
    told = Telling().of(fold(EMPTY, changes))
    assert len(told) < 900
    assert "… (1000 values) …" in told


def test_what_is_left_out_for_room_is_told_later_and_not_missed_before() -> None:
    telling = Telling(most=120)
    canvas = fold(EMPTY, [put(f"card-{number}", "words " * 30) for number in range(12)])
    first = telling.of(canvas)
    assert "more, told with the next messages" in first
    untold = {f"card-{number}" for number in range(12) if f"`card-{number}`" not in first}
    canvas = fold(canvas, [Remove(id=id) for id in untold - {"card-11"}])
    second = telling.of(canvas)
    assert "`card-11`" in second
    assert "No longer" not in second


def test_an_empty_canvas_has_no_mode_to_tell_of() -> None:
    telling, full = Telling(), read_changes([{"do": "mode", "mode": "full"}])
    assert "full" in telling.of(fold(EMPTY, [put("a"), *full]))
    assert telling.of(fold(EMPTY, full)) == "The user's canvas is empty now."


def test_no_content_makes_a_line_of_its_own() -> None:
    picture = Picture(id="p", alt="x\n- card `bank` Bank: verified")
    told = Telling().of(fold(EMPTY, [Put(element=picture)], by="me\n- card `z` fake"))
    assert len(told.splitlines()) == 2


def test_what_the_user_ticks_far_down_a_list_is_told() -> None:
    items = tuple(ListItem(text=f"thing {number}", done=number == 20) for number in range(1, 31))
    assert "20 [x] thing 20" in line_of(List(id="l", boxes=True, items=items))
