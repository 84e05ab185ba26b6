"""Kinds that only Everthread writes: an append of one is refused, and the error names the verb that writes it.

Everthread's own files bring them all back: `test_transfer.py`."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.events import (
    AgentKilled,
    BriefUpdated,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    ModelCall,
    Pin,
    Redacted,
    Rewind,
    SessionEnded,
    SessionStarted,
    SettingsChanged,
    Summary,
)
from everthread.errors import BadValue
from tests.contract.support import assert_sound, everything

OURS: dict[str, tuple[Event, str]] = {
    "a tombstone": (Redacted(was="user"), "talk.redact"),
    "a tombstone of no kind": (Redacted(was="No Kind"), "talk.redact"),
    "a fork": (Fork(branch=7, at=7), "talk.fork"),
    "a rewind": (Rewind(branch=7, to=7), "talk.rewind"),
    "a session": (SessionStarted(session=9), "by itself"),
}
THEIRS: dict[str, Event] = {
    "an own loop ends its turn": AgentKilled(reason="the user left"),
    "an own memory writes its brief": BriefUpdated(text="Ana bakes.", covers=1),
    "an own memory writes its recap": SessionEnded(session=1, recap="Ana bakes."),
    "an own memory writes its summary": Summary(text="Ana bakes.", covers=1),
    "usage comes along with a history": ModelCall(model="openai:gpt-5", at=1, input=10),
    "a clear": Clear(),
    "a mark": Mark(name="here"),
    "a pin": Pin(turn=1),
    "a command": Command(name="help"),
    "settings": SettingsChanged(values={"budget": 9_000}),
}


@pytest.mark.parametrize("case", OURS)
async def test_what_only_everthread_writes_is_refused(et: Everthread, talk: Talk, case: str) -> None:
    """Nothing of the append is written, and the error names what to do instead."""
    event, instead = OURS[case]
    with pytest.raises(BadValue, match=instead):
        await talk.append(user("Before."), event)
    assert await everything(talk) == []
    await assert_sound(et, talk)


@pytest.mark.parametrize("case", THEIRS)
async def test_what_an_application_may_say_is_appended(et: Everthread, talk: Talk, case: str) -> None:
    await talk.append(user("I bake."), assistant("Good."), THEIRS[case])
    assert (await everything(talk))[-1].event == THEIRS[case]
    await assert_sound(et, talk)
