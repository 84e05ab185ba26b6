"""`schedule_message`: with this tool a model schedules a message to itself, in the conversation that it is in.

An application offers it by `tools=[schedule_tool()]`. Somebody approves each call, unless the application says
otherwise. What is wrong with a call, its result says, without anybody being asked first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from everthread.core.schedules import Schedule, scheduled, zone_of
from everthread.errors import BadValue
from everthread.tools.context import ToolContext
from everthread.tools.functions import Approval, FunctionTool, ToolOptions

TOOL = "schedule_message"


def schedule_tool(*, approval: Approval = True) -> FunctionTool[..., Any]:
    """The tool `schedule_message`, for `tools=[…]`. `approval`: as for `tool`; by default each call needs it."""

    return FunctionTool(_schedule_message, ToolOptions(name=TOOL, approval=approval, fits=_fits))


async def _schedule_message(
    talk: ToolContext,
    text: Annotated[str, "What you will be told then, as a message of the user's."],
    at: Annotated[str, "For one message: its local time, such as 2026-12-24T18:00. Else empty."] = "",
    cron: Annotated[str, "For repeated ones: five fields, such as '0 8 * * 1-5'. Else empty."] = "",
    zone: Annotated[str, "The time zone of at and cron, such as Europe/Berlin."] = "UTC",
) -> str:
    """Schedules a message to you in this conversation, once (at) or repeatedly (cron): to remind the user, or to do
    something later. You reply to it when it comes."""
    one = await talk.schedule(text, at=_time(at), cron=cron, zone=zone)
    assert one.due is not None
    # Nothing of the text: it is in the tool call, and is forgotten with that.
    return f"Scheduled as {one.id}, next for {one.due.astimezone(zone_of(one.zone)):%A, %Y-%m-%d %H:%M} ({one.zone})."


def _fits(arguments: dict[str, Any], talk: ToolContext) -> bool:
    """Whether these arguments can be used now; when they cannot, nobody need be asked."""
    try:
        _scheduled(**arguments, now=talk.now)
    except BadValue:
        return False
    return True


def _scheduled(text: str, at: str = "", cron: str = "", zone: str = "UTC", *, now: datetime) -> Schedule:
    return scheduled(text, at=_time(at), cron=cron, zone=zone, now=now)


def _time(at: str) -> datetime | None:
    try:
        return datetime.fromisoformat(at) if at else None
    except ValueError:
        raise BadValue("at", at, "a date and time, such as 2026-12-24T18:00") from None
