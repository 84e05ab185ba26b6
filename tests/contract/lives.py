"""Conversations that have lived: appended to, forked, rewound, renamed and redacted in any order; and all of one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from everthread import Everthread, Talk, image, user
from everthread.core.events import Redacted
from everthread.errors import BadValue, EverthreadError
from everthread.store.conversations import Owner
from everthread.store.log import Log
from tests.core.strategies import storable

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10"
TENANT = "default"

_events = st.lists(storable.filter(lambda event: not isinstance(event, Redacted)), min_size=1, max_size=4)
_numbers = st.integers(0, 6)
step = st.one_of(
    st.tuples(st.just("append"), _events),
    st.tuples(st.just("append"), st.just([user("look", image(PNG))])),
    st.tuples(st.just("fork"), _numbers),
    st.tuples(st.just("rewind"), _numbers),
    st.tuples(st.just("rename"), st.sampled_from(["Cake", "Ü ber", ""])),
    st.tuples(st.just("redact"), _numbers),
)
lives = st.lists(step, max_size=7)


async def live(et: Everthread, someone: str, steps: list[tuple[str, Any]], *, talk: Talk | None = None) -> Talk:
    """A conversation in which all this happened, so far as it could."""
    talk = talk or await et.begin(user=someone, agent="helper")
    on = talk
    for what, value in steps:
        with suppress(BadValue, EverthreadError):  # such as a redaction of what is not there
            if what == "append":
                await et.log.append(on._target, value)
            elif what == "fork":
                on = await on.fork(at=value)
            elif what == "rewind":
                on = await on.rewind(to=value)
            elif what == "rename":
                await talk.rename(value)
            else:
                await on.redact(value)
    return talk


async def picture(log: Log, id: str, someone: str, tenant: str = TENANT) -> dict[str, Any]:
    """All that a store has of a conversation."""
    conversation = await log.conversations.find(Owner(tenant, someone), id)
    branches = await log.conversations.branches(conversation)
    events = {}
    for one in branches:
        line = await log.line(conversation, one.branch.number)
        events[one.branch.number] = await log.after(line, one.branch.at, limit=10_000)
    line = await log.line(conversation)
    blobs = {hash: await log.blob(line, hash) for hash in await log.blobs(line)}
    checked = await log.check(tenant, id)
    return {"conversation": conversation, "branches": branches, "events": events, "blobs": blobs, "checked": checked}
