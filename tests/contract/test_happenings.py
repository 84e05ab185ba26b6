"""Happenings in a store: kept, shown and found, those included that were written before their kinds had a class."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, artifact_created, canvas_changed, flow_completed, flow_started, user, user_edit
from everthread.cli.show import describe
from everthread.core.events import Other, kinds, stored
from everthread.core.happenings import ArtifactCreated, CanvasChanged
from tests.contract.support import assert_sound, everything


async def test_they_are_read_back_and_found(et: Everthread, talk: Talk) -> None:
    written = [
        artifact_created("Zeppelin timetable", pages=3),
        user_edit("the recipe", "No walnuts."),
        flow_started("booking"),
        flow_completed("booking", "Two seats."),
        canvas_changed("# Plan"),
    ]
    await talk.append(user("Hello"), *written)
    assert [logged.event for logged in await everything(talk)][1:] == written
    assert (await talk.recall("zeppelin"))[0].seq == 2
    await assert_sound(et, talk)


async def test_those_from_before_there_was_a_class_are_read_with_all_their_fields(
    et: Everthread, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(kinds, "HAPPENINGS", {})
        before.setattr(stored, "HAPPENINGS", {})
        old = Other(kind="artifact_created", data={"title": "Timetable", "rows": [{"from": "Ulm"}]})
        await talk.append(user("Hello"), old, Other(kind="canvas", data={"text": 7}))
    artifact, canvas = [logged.event for logged in await everything(talk)][1:]
    assert artifact == ArtifactCreated(title="Timetable", data={"rows": [{"from": "Ulm"}]})
    assert canvas == CanvasChanged(data={"text": 7})
    assert describe(artifact) == '{"title": "Timetable", "rows": [{"from": "Ulm"}]}'
    await assert_sound(et, talk)
