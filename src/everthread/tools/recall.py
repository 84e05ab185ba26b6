"""The two tools by which a model looks up what it is not sent: one finds it, the other opens it in full.

They speak for one conversation: the one that the model is in, along the branch's own line, or all of its user's where
the model asks for that. What they quote is fenced when it is sent, and stands in the log as it is. A fault of the
database becomes a tool result that says so, as with every tool.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Annotated, Any, Literal

from everthread.context.items import stub
from everthread.core.events import KINDS, MESSAGES, is_kind
from everthread.core.logged import Logged
from everthread.core.quotes import Quote
from everthread.core.sections import RECALL
from everthread.errors import BadValue, NotFound
from everthread.store.recall.hits import MOST, Hit
from everthread.tools import FunctionTool, ToolContext, tool
from everthread.tools.results import Quoting

OPEN = "open_event"
FOUND = (*MESSAGES, "session_ended", "mark", "artifact_created", "flow_completed")  # kinds that are looked for
PAGE = 6_000  # characters of an event that are opened at a time
_REFERENCE = re.compile(r"(\d{1,15})(?: on branch (\d{1,9}))?(?: of conversation (\w{1,40}))?")


async def _recall_context(
    talk: ToolContext,
    query: Annotated[str, "What to look for: words that were probably used, names, numbers, ids."],
    kinds: Annotated[list[str] | None, f"Only these kinds: {', '.join(FOUND)}, or the application's own."] = None,
    since: Annotated[str | None, "Only from this day on, as 2026-01-31."] = None,
    until: Annotated[str | None, "Only up to this day."] = None,
    limit: Annotated[int, f"How many to find, {MOST} at most."] = 5,
    scope: Annotated[Literal["conversation", "user"], "This conversation, or all of the user's."] = "conversation",
) -> str | Quoting:
    """Looks up what was said earlier, beyond what you see of this conversation. Any language; any words match."""
    if not query.strip():
        raise BadValue("query", query, "words to look for")
    if limit < 1:
        raise BadValue("limit", limit, f"from 1 to {MOST}")
    first, end = _days(since, until)
    wanted = _kinds(kinds or [])
    hits = await talk.recall(query, limit=min(limit, MOST), scope=scope, kinds=wanted, since=first, until=end)
    if not hits:
        return f"Nothing was found{_among(wanted, since, until)}. Try other words, or fewer.{_there_are(wanted)}"
    return Quoting.of("\n\n".join(map(_told, hits)), chain.from_iterable(map(_quotes, hits)))


async def _open_event(
    talk: ToolContext,
    reference: Annotated[str, "As it was given; or the number of an event of this conversation."],
    page: Annotated[int, "Which page of it; the first is 1."] = 1,
) -> str | Quoting:
    """Opens an earlier event in full, page by page: what a hit, a result or a stub refers to."""
    conversation, events = await _referred(talk, reference)
    if not events:
        return f"There is no event {reference!r}."
    whole = stub(events[0], head=10**9, tail=0)
    pages = max(1, -(-len(whole) // PAGE))
    if not 1 <= page <= pages:
        return f"That event has {pages} pages."
    part = whole[(page - 1) * PAGE : page * PAGE]
    told = f"[event {events[0].seq}, {events[0].kind}, page {page} of {pages}]\n{part}"
    return Quoting.of(told, [Quote(conversation, events[0].branch, events[0].seq)])


async def _referred(talk: ToolContext, reference: str) -> tuple[str, list[Logged]]:
    """The event that a reference names, if it belongs to this user, and the id of its conversation."""
    here, found = talk.conversation.id, _REFERENCE.search(reference)
    if found is None:
        return here, []
    seq, branch, conversation = int(found[1]), found[2], found[3] or here
    try:
        there = talk if conversation == here else await talk.another(conversation)
        there = await there.on(int(branch)) if branch else there
    except NotFound:
        return conversation, []
    return conversation, await there.range(seq, seq)


def recall_tools() -> list[FunctionTool[..., Any]]:
    return [tool(_recall_context, name=RECALL), tool(_open_event, name=OPEN)]


def _told(hit: Hit) -> str:
    said = f"[{hit.reference}, {hit.kind}, {hit.time:%Y-%m-%d %H:%M}]\n{hit.text}"
    around = [f"  ({one.kind}, event {one.seq}) {one.text}" for one in hit.neighbours]
    return "\n".join([said, *around])


def _quotes(hit: Hit) -> Iterator[Quote]:
    """The events that a hit repeats: the one that was found, and its neighbours. Of an archive none is."""
    if not hit.seq:
        return
    yield Quote(hit.conversation, hit.branch, hit.seq)
    for one in hit.neighbours:
        yield Quote(hit.conversation, one.branch, one.seq)


def _kinds(named: list[str]) -> tuple[str, ...]:
    """The kinds to look for. An unknown one may be an application's, unless it looks like a known one misspelt."""
    for kind in named:
        known = kind in KINDS or difflib.get_close_matches(kind, FOUND, n=1, cutoff=0.75)
        if kind not in FOUND and (known or not is_kind(kind)):
            raise BadValue("kinds", kind, f"some of {', '.join(FOUND)}, or of the application's own kinds")
    return tuple(named)


def _among(kinds: tuple[str, ...], since: str | None, until: str | None) -> str:
    """The filters that were asked for, in words."""
    told = [f"kinds: {', '.join(kinds)}"] if kinds else []
    told += [f"{word} {day}" for word, day in (("since", since), ("until", until)) if day]
    return f" ({'; '.join(told)})" if told else ""


def _there_are(kinds: tuple[str, ...]) -> str:
    """The kinds there are, where an unknown one was asked for: it may be an application's, or a guess."""
    if not set(kinds) - set(FOUND):
        return ""
    return f" The kinds there are: {', '.join(FOUND)}, and the application's own."


def _days(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """From the beginning of one day to the end of another."""
    first, last = _day("since", since), _day("until", until)
    if first and last and first > last:
        raise BadValue("since", since, f"a day that is not after until, which is {until}")
    return first, last and _end(last)


def _day(what: str, said: str | None) -> datetime | None:
    if not said:
        return None
    try:
        return datetime.strptime(said[:10], "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise BadValue(what, said, "a day, as 2026-01-31; or left out") from None


def _end(day: datetime) -> datetime | None:
    """The end of a day; None for the last that there is."""
    return day + timedelta(days=1) if day.date() < date.max else None
