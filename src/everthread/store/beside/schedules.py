"""Schedules, as the store keeps them: `core.schedules.Schedule` is a row.

They belong to a conversation, whichever of its branches is current, and go with it. A schedule also goes when a message
that it said is redacted, or the tool call that made it (`scripts.forget`); a message that is on its way from one that
is gone is refused (`scripts.append`). No export has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from everthread.core.events import TOMBSTONE
from everthread.core.ids import make_id
from everthread.core.schedules import MOST, Schedule
from everthread.core.times import microseconds, moment
from everthread.errors import Archived, BadValue, Outrun, UnknownConversation, UnknownSchedule
from everthread.store import conversations
from everthread.store.beside.leases import Lease, under
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Outcome, Row, Script, Tell

ABOUT = "schedules"  # rings when one was made or changed
_TIMES = ("at", "due", "look", "ran")

Change = Callable[[Schedule], Schedule]


def add(new: Schedule, *, now: int, chance: int, tried: list[Schedule]) -> Script[Outcome[Schedule]]:
    """Keep a new one, with an id of its own. `tried`: those of runs of this script whose commit was not confirmed."""
    there = yield from of_conversation(new.tenant, new.conversation)
    for one in tried:
        if one.id in [found.id for found in there]:
            return Outcome(one, landed=True)
    yield from _check_there(new)
    if sum(one.state != "done" for one in there) >= MOST:
        raise BadValue("the number of schedules", len(there), f"at most {MOST} in a conversation: delete some")
    new = msgspec.structs.replace(new, id=make_id(now, chance, after=there[-1].id if there else ""))
    tried.append(new)
    return Outcome(new, [Tell("insert_schedule", [_row(new)])])


def _check_there(new: Schedule) -> Script[None]:
    """Whether the conversation is still there, and so is the tool call that makes the schedule."""
    found = yield from conversations.find(Owner(new.tenant, new.user), new.conversation)
    if (yield Ask("being_erased", {"tenant": new.tenant, "conversation": found.id})):
        raise UnknownConversation(new.conversation)
    spot = {"conversation": new.made_conversation, "branch": new.made_branch, "seq": new.made_seq}
    if new.made_seq and (yield Ask("is_redacted", {"tenant": new.tenant, **spot, "tombstone": TOMBSTONE})):
        raise Outrun("The tool call that makes the schedule was redacted meanwhile")


def find(where: Mapping[str, Any], id: str) -> Script[Schedule]:
    """One of a conversation's."""
    rows = yield Ask("schedule", {"tenant": where["tenant"], "conversation": where["conversation"], "id": id})
    if not rows:
        yield from _check_live(where["tenant"], where["conversation"])
        raise UnknownSchedule(id)
    return _schedule(rows[0])


def of_conversation(tenant: str, conversation: str) -> Script[list[Schedule]]:
    yield from _check_live(tenant, conversation)
    rows = yield Ask("schedules", {"tenant": tenant, "conversation": conversation})
    return [_schedule(row) for row in rows]


def _check_live(tenant: str, conversation: str) -> Script[None]:
    """Archived: those that are done are in a file with the rest."""
    if isinstance(why := (yield from conversations.absence(tenant, conversation)), Archived):
        raise why


def of_owner(owner: Owner) -> Script[list[Schedule]]:
    rows = yield Ask("schedules_of_user", owner._asdict())
    return [_schedule(row) for row in rows]


def due(now: int, limit: int) -> Script[list[Schedule]]:
    """Those that a worker has to look at, the longest due first."""
    rows = yield Ask("schedules_to_look_at", {"now": now, "limit": limit})
    return [_schedule(row) for row in rows]


def next_look(now: int) -> Script[int | None]:
    """When a worker has to look at one next, after `now`."""
    rows = yield Ask("next_look", {"now": now})
    return int(rows[0][0]) if rows else None


def change(where: Mapping[str, Any], id: str, to: Change, *, holds: Lease | None = None) -> Script[Outcome[Schedule]]:
    """Make of a schedule, as it is now, what it shall be. `holds`: the lease under which that may be written."""
    one = yield from find(where, id)
    new = to(one)
    writes = [Tell("update_schedule", [_row(new)])] if new != one else []
    return Outcome(new, writes, under=under(holds) if holds and writes else None)


def remove(where: Mapping[str, Any], id: str, begun: Tell, *, tried: list[str]) -> Script[Outcome[None]]:
    """Delete one; `begun` writes down that it is being forgotten. `tried`: what runs of this script have removed whose
    commit was not confirmed."""
    if id not in tried:
        yield from find(where, id)
    tried.append(id)
    return Outcome(None, [forget({**where, "id": id}), begun])


def forget(key: Mapping[str, Any]) -> Tell:
    """The statement that removes a schedule."""
    return Tell("forget_schedule", [key])


def forget_made(spots: Iterable[Mapping[str, Any]]) -> Tell:
    """The statement that removes those that were made by the tool calls in some places."""
    return Tell("forget_schedules_made", [*spots])


def _row(one: Schedule) -> dict[str, Any]:
    times = {name: None if (time := getattr(one, name)) is None else microseconds(time) for name in _TIMES}
    return {**msgspec.structs.asdict(one), **times, "text": one.text.encode("utf-8", "surrogatepass")}


def _schedule(row: Row) -> Schedule:
    values = dict(zip(Schedule.__struct_fields__, row, strict=True))
    times: dict[str, datetime | None] = {
        name: None if values[name] is None else moment(values[name]) for name in _TIMES
    }
    return Schedule(**{**values, **times, "text": bytes(values["text"]).decode("utf-8", "surrogatepass")})
