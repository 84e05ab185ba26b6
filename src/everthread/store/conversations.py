"""Conversations: begun, found, changed, counted. Always somebody's: without a user there are none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from everthread.core.branches import ENDLESS, Branch, Current, Line
from everthread.core.ids import is_id, make_id, time_of
from everthread.core.metadata import check_metadata
from everthread.core.times import EPOCH, microseconds, moment
from everthread.core.values import Value
from everthread.errors import AlreadyExists, Archived, BadValue, NoUser, Outrun, UnknownConversation
from everthread.store.engine import Ask, Outcome, Row, Script, Tell

MAIN = 1
NEWEST = "~"  # sorts after every id
MINUTE = 60_000_000  # microseconds
OWN_ID = "conversation with the id"
OPERATOR = "*"  # in place of a tenant: whoever may see the rows of all (`store.reach`)


class Owner(NamedTuple):
    """Whose conversations: the wall that nothing crosses."""

    tenant: str
    user: str


class Conversation(msgspec.Struct, Value, frozen=True, kw_only=True):
    tenant: str
    id: str
    user: str
    agent: str
    name: str = ""
    goal: str = ""
    settings: dict[str, Any] = {}
    current: int = MAIN
    began: datetime = EPOCH
    erased: datetime | None = None
    archived: datetime | None = None  # then all but this row is in a file, until somebody reads or writes it
    alias: str = ""  # the application's own id, where it gave one
    metadata: dict[str, Any] = {}

    @property
    def about(self) -> str:
        return f"{self.tenant}/{self.id}"

    @property
    def owner(self) -> Owner:
        return Owner(self.tenant, self.user)

    @property
    def now(self) -> Current:
        """Whichever branch is current."""
        return Current(self.tenant, self.id, self.began)


class Owners:
    """Whose each conversation is and with which agent, as far as the store has said so."""

    MOST = 10_000

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def know(self, found: Conversation) -> Conversation:
        self._known[found.tenant, found.id] = (found.user, found.agent)
        if len(self._known) > self.MOST:
            del self._known[next(iter(self._known))]
        return found

    def knows(self, given: Conversation) -> bool:
        return self._known.get((given.tenant, given.id)) == (given.user, given.agent)

    def forget(self, conversation: Conversation) -> None:
        self._known.pop((conversation.tenant, conversation.id), None)


class Totals(msgspec.Struct, Value, frozen=True, kw_only=True):
    events: int
    messages: int
    tokens: int
    conversations: int = 1
    newest: datetime | None = None  # when the newest event came; None where there is none


class BranchTotals(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A branch with its sums: along its whole line, and what it added itself."""

    branch: Branch
    last: int
    newest: datetime | None
    line: Totals
    own: Totals


def begin(
    new: Conversation, *, chance: int, tried: list[str], unless_one: bool = False
) -> Script[Outcome[Conversation]]:
    """Begin a conversation; with `unless_one`, only where the user has none yet: with its alias, or else its agent.

    `tried`: the ids of runs of this script whose commit was not confirmed.
    """
    owner = new.owner
    for id in tried:
        if (yield Ask("conversation", {**owner._asdict(), "conversation": id})):
            return Outcome((yield from find(owner, id)))
    if new.alias and (taken := (yield from by_alias(owner, new.alias))):
        if not unless_one:
            raise AlreadyExists(OWN_ID, new.alias)
        return Outcome(taken)
    if unless_one and not new.alias and (found := (yield from newest(owner, new.agent))):
        return Outcome(found)
    # After the user's newest, whatever the clock says: the one begun last is the newest.
    before = yield from newest(owner, "")
    new = msgspec.structs.replace(new, id=make_id(microseconds(new.began), chance, after=before.id if before else ""))
    tried.append(new.id)
    return Outcome(new, insert(new))


def main_of(way: Current) -> Line:
    """The line of the branch with which every conversation begins."""
    main = Branch(number=MAIN, name="main", parent=None, at=0, time=way.began)
    return Line(tenant=way.tenant, conversation=way.conversation, branch=main)


def insert(new: Conversation) -> list[Tell]:
    key = {"tenant": new.tenant, "conversation": new.id}
    row = {**_details(new), "user": new.user, "agent": new.agent, "current": new.current}
    row |= {"time": microseconds(new.began), "alias": new.alias or None}
    row["active"] = (time_of(new.id) or row["time"]) // MINUTE
    main = main_of(Current(new.tenant, new.id, new.began)).branch
    branch = {"branch": main.number, "name": main.name, "parent": main.parent, "at": main.at, "time": row["time"]}
    return [Tell("insert_conversation", [row]), Tell("insert_branch", [{**key, **branch}])]


def says(now: Conversation) -> list[Tell]:
    """The statements by which a conversation says of itself what it does here."""
    key = {"tenant": now.tenant, "conversation": now.id}
    return [Tell("update_conversation", [_details(now)]), Tell("point", [{**key, "branch": now.current}])]


def newest(owner: Owner, agent: str) -> Script[Conversation | None]:
    """The newest with this agent; with any where none is named."""
    if agent:
        rows = yield Ask("newest_conversation", {**owner._asdict(), "agent": agent})
        return conversation_of(owner.tenant, rows[0]) if rows else None
    found = yield from page(owner, agent="", before=NEWEST, limit=1)
    return found[0] if found else None


def by_alias(owner: Owner, alias: str) -> Script[Conversation | None]:
    rows = yield Ask("conversation_by_alias", {**owner._asdict(), "alias": alias})
    return conversation_of(owner.tenant, rows[0]) if rows else None


def find(owner: Owner, id: str) -> Script[Conversation]:
    """The conversation with this id or alias."""
    if not is_id(id):
        # What no database could be asked for is nobody's.
        if is_name(id) and (known := (yield from by_alias(owner, id))):
            return known
        raise UnknownConversation(id)
    rows = yield Ask("conversation", {**owner._asdict(), "conversation": id})
    if not rows:
        raise UnknownConversation(id)
    found = conversation_of(owner.tenant, rows[0])
    if found.erased is not None:
        raise UnknownConversation(id, erased=f"{found.erased:%Y-%m-%d}")
    return found


def said(owner: Owner, id: str, *, first: int, last: int, limit: int, oldest_first: bool) -> Script[list[Row] | None]:
    """Events of the current branch, if the conversation is this owner's and has not been erased. Of the main branch
    those are all there are; of another one only where they fill the page, since what came before it is another's."""
    values = {**owner._asdict(), "conversation": id, "first": first, "last": min(last, ENDLESS), "limit": limit}
    rows = list((yield Ask("said_up" if oldest_first else "said_down", values)))
    if not rows or (rows[0][0] != MAIN and (oldest_first or len(rows) < limit)):
        return None
    return rows if oldest_first else rows[::-1]


def absence(tenant: str, conversation: str) -> Script[Archived | UnknownConversation]:
    """Why there is nothing of a conversation: it is archived, or there is none."""
    rows = yield Ask("archived", {"tenant": tenant, "conversation": conversation})
    return Archived(tenant, conversation) if rows and rows[0][0] is not None else UnknownConversation(conversation)


def page(owner: Owner, *, agent: str, before: str, limit: int) -> Script[list[Conversation]]:
    values = {**owner._asdict(), "agent": agent, "before": before, "limit": limit}
    rows = yield Ask("conversations", values)
    return [conversation_of(owner.tenant, row) for row in rows]


def change(
    conversation: Conversation,
    changes: Mapping[str, Any],
    *,
    under: Mapping[str, Any] | None = None,
    forgotten: int | None = None,
) -> Script[Outcome[Conversation]]:
    """Change name, goal, settings or metadata of a conversation, on top of what they are now. `forgotten`: refuse,
    unless just so often something of it has been redacted."""
    now = yield from find(conversation.owner, conversation.id)
    if now.archived is not None:
        raise Archived(now.tenant, now.id)
    if now.agent != conversation.agent:
        raise UnknownConversation(conversation.id)
    rows = yield Ask("forgotten", {"tenant": now.tenant, "conversation": now.id})
    if forgotten not in (None, rows[0][0]):
        raise Outrun("Something of the conversation was redacted meanwhile")
    changed = msgspec.structs.replace(now, **changes)
    return Outcome(changed, [Tell("update_conversation", [_details(changed)])], under=under)


def stirred(key: Mapping[str, Any], time: int, *, first: bool) -> Tell:
    """The statement that says when a conversation was last active, to the minute: the first append of each minute has
    it, so that most are one statement. It comes last: all lock the row of a conversation after their other rows."""
    row = {"tenant": key["tenant"], "conversation": key["conversation"]}
    return Tell("stir", [{**row, "active": time // MINUTE, "first": int(first)}])


def branch_totals(conversation: Conversation) -> Script[list[BranchTotals]]:
    rows = yield Ask("branch_heads", {"tenant": conversation.tenant, "conversation": conversation.id})
    if not rows:
        raise (yield from absence(conversation.tenant, conversation.id))
    return [branch_totals_of(row) for row in rows]


def user_totals(owner: Owner) -> Script[Totals]:
    rows = yield Ask("user_totals", owner._asdict())
    conversations, events, messages, tokens = map(int, rows[0])
    return Totals(conversations=conversations, events=events, messages=messages, tokens=tokens)


def total(branches: list[BranchTotals]) -> Totals:
    """Of a whole conversation: every event counted once, whichever branches share it."""
    return Totals(
        events=sum(b.own.events for b in branches),
        messages=sum(b.own.messages for b in branches),
        tokens=sum(b.own.tokens for b in branches),
        newest=max((b.newest for b in branches if b.newest), default=None),
    )


def owner_of(tenant: str, user: str) -> Owner:
    if not user:
        raise NoUser
    return Owner(check_tenant(tenant), check_name("user", user))


def check_tenant(value: str) -> str:
    if value == OPERATOR:
        raise BadValue("tenant", value, f"a name other than {OPERATOR}, which stands for all tenants")
    return check_name("tenant", value)


def check_name(what: str, value: str, *, most: int = 200, empty: bool = False) -> str:
    """Names are kept as plain text by every database: no NUL, no lone surrogates, no line breaks, not too long."""
    if not is_name(value, most=most) and not (empty and not value):
        raise BadValue(what, value, f"printable text of {0 if empty else 1} to {most} characters")
    return value


def is_name(value: str, *, most: int = 200) -> bool:
    return 0 < len(value) <= most and value.isprintable()


def check_alias(value: str) -> str:
    """An application's own id. It must not look like one of Everthread's, or it would be taken for one."""
    if check_name("id", value).isspace():
        raise BadValue("id", value, "text that is not blank")
    if is_id(value):
        raise BadValue("id", value, "text that is not in the form of Everthread's own ids: put a word before it")
    return value


def stored_object(written: str) -> dict[str, Any] | None:
    """The settings or the metadata in a conversation's row; None where they cannot be read."""
    try:
        read = json.loads(written)
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    try:
        kept = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadValue("settings", settings, f"plain JSON ({problem})") from None
    if not isinstance(kept, dict) or kept != settings:
        raise BadValue("settings", settings, "an object of plain JSON with text keys")
    return settings


def _details(c: Conversation) -> dict[str, Any]:
    settings = json.dumps(check_settings(c.settings))  # ASCII: any text in it is escaped
    metadata = json.dumps(check_metadata(c.metadata))
    says = {"name": c.name, "goal": c.goal, "settings": settings, "metadata": metadata}
    return {"tenant": c.tenant, "conversation": c.id, **says}


def conversation_of(tenant: str, row: Row) -> Conversation:
    id, user, agent, name, goal, settings, current, began, alias, metadata, erased, archived = row
    return Conversation(
        tenant=tenant,
        id=id,
        user=user,
        agent=agent,
        name=name,
        goal=goal,
        settings=stored_object(settings) or {},  # damaged: `doctor` says so, and the rest can be read
        current=current,
        began=moment(began),
        erased=None if erased is None else moment(erased),
        archived=None if archived is None else moment(archived),
        alias=alias or "",
        metadata=stored_object(metadata) or {},
    )


def branch_totals_of(row: Row) -> BranchTotals:
    number, name, parent, at, time, last, came, tokens, messages, tokens_before, messages_before = row
    newest = moment(came) if came else None
    return BranchTotals(
        branch=Branch(number=number, name=name, parent=parent, at=at, time=moment(time)),
        last=last,
        newest=newest,
        line=Totals(events=last, messages=messages, tokens=tokens, newest=newest),
        own=Totals(
            events=max(0, last - at),
            messages=messages - messages_before,
            tokens=tokens - tokens_before,
            newest=newest,
        ),
    )
