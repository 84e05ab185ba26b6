"""Memory through the providers' own SDKs: briefs and recaps are asked for, and no provider refuses to."""

from __future__ import annotations

from datetime import timedelta

import pytest

from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, Event, ModelCall, SessionEnded
from everthread.store.log import Log
from tests.journeys.stage import Stage, staged

# The model that replies, and the one that sums up. A server of one's own may have no other than the first.
MODELS = {
    "anthropic:claude-sonnet-4-6": "anthropic:claude-haiku-4-5",
    "openai:gpt-5": "openai:gpt-5",
    "openai-responses:gpt-5": "openai-responses:gpt-5",
    "google:gemini-2.5-pro": "google:gemini-2.5-flash",
}


async def hold(stage: Stage, model: str) -> tuple[list[BriefUpdated], list[SessionEnded], list[ModelCall]]:
    """Two turns, a pause of two hours, and a third; after each of them what memory has to do."""
    talk = await stage.et.begin(user="ana", name="Trip", settings=stage.settings(model))
    for number in range(3):
        if number == 2:
            stage.clock.go_on(timedelta(hours=2))
            stage.cast.turn([["With pleasure."], ["They spoke of trip 1."], ["The user plans 3 trips."]])
        else:
            stage.cast.turn([["With pleasure."], [f"The user plans {number + 1} trips."]])
        await talk.say(f"Let us plan trip {number}.")
        assert await stage.et.memory.drain(30)
    log, line = stage.et.log, await talk.line()
    briefs = [event for event in await _told(log, line, "brief_updated") if isinstance(event, BriefUpdated)]
    recaps = [event for event in await _told(log, line, "session_ended") if isinstance(event, SessionEnded)]
    calls = [event for event in await _told(log, line, "model_call") if isinstance(event, ModelCall)]
    return briefs, recaps, [call for call in calls if call.agent == "memory"]


async def _told(log: Log, line: Line, kind: str) -> list[Event]:
    return [one.event for one in reversed(await log.markers(line, kind))]


@pytest.mark.parametrize("model", MODELS)
async def test_a_small_model_of_the_same_provider_sums_up(address: str, model: str) -> None:
    async with staged(address, {"memory": True}, tools=[]) as stage:
        briefs, recaps, calls = await hold(stage, model)
        assert stage.refused == []
        assert [brief.text for brief in briefs] == [f"The user plans {number} trips." for number in (1, 2, 3)]
        assert [brief.turns for brief in briefs] == [1, 2, 3]
        assert [(recap.session, recap.recap) for recap in recaps] == [(1, "They spoke of trip 1.")]
        assert [call.model for call in calls] == [MODELS[model]] * 4
        assert all(call.input > 0 and call.output > 0 and not call.error for call in calls)
