"""Happenings: a few named texts, and whatever else was stored with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everthread.core.events import Other, decode, encode
from everthread.core.happenings import (
    HAPPENINGS,
    ArtifactCreated,
    CanvasChanged,
    FlowCompleted,
    Happening,
    artifact_created,
    canvas_changed,
    flow_completed,
    flow_started,
    user_edit,
)
from everthread.errors import BadValue

BUILT = [
    artifact_created("Timetable", address="s3://bucket/timetable.pdf", pages=3),
    user_edit("the recipe", "No walnuts.", lines=[1, 2]),
    flow_started("booking"),
    flow_completed("booking", "Two seats by the window."),
    canvas_changed("# Plan\n\ud800\0", pair="\ud83d\ude00"),
]


def test_every_kind_has_a_constructor() -> None:
    assert [event.kind for event in BUILT] == list(HAPPENINGS)


@pytest.mark.parametrize("event", BUILT, ids=lambda event: event.kind)
def test_it_comes_back_as_it_went_in(event: Happening) -> None:
    again = decode(encode(event))
    assert again == event
    assert type(again) is type(event)


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ({"kind": "canvas"}, CanvasChanged()),
        ({"kind": "canvas", "text": "a", "shapes": [1]}, CanvasChanged(text="a", data={"shapes": [1]})),
        ({"kind": "canvas", "text": {"de": "a"}}, CanvasChanged(data={"text": {"de": "a"}})),
        ({"kind": "artifact_created", "title": "", "size": 7}, ArtifactCreated(data={"title": "", "size": 7})),
        ({"kind": "flow_completed", "data": {"ok": True}}, FlowCompleted(data={"data": {"ok": True}})),
    ],
    ids=["nothing", "more than we name", "no text", "an empty text", "a field called data"],
)
def test_what_was_stored_before_there_was_a_class_is_read_and_written_as_it_was(
    stored: dict[str, Any], read: Happening
) -> None:
    found = decode(json.dumps(stored).encode())
    assert found == read
    assert json.loads(encode(found)) == stored


@pytest.mark.parametrize("data", [{"kind": "x"}, {"text": "twice"}, {"a": (1,)}, {"a": float("nan")}, {"a": object()}])
def test_data_is_plain_json_and_repeats_no_field(data: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="data"):
        CanvasChanged(data=data)


def test_a_named_field_is_text() -> None:
    with pytest.raises(BadValue, match="title"):
        artifact_created(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", HAPPENINGS)
def test_no_application_kind_has_its_name(kind: str) -> None:
    with pytest.raises(BadValue, match="kind"):
        Other(kind=kind)
