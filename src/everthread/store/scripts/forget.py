"""Forgetting on request: the one exception to "nothing is lost", and only ever done when asked for.

A redacted event keeps its place, time, kind and size, so that no number in the log moves; its content, the
images that only it showed, what recall found it by, a model call's figures and the hash that could confirm a
guess are gone. So is every copy that was made of it: what memory made after it on the branches that share it, the
name that was taken from it, and the events that quote it, with what memory made after those; of a child's task the
other place where it stands; the schedule that said it or was made by it; and why something failed after it, because a
provider's words may repeat what it was sent. Where it changed the canvas, so is every
canvas that was kept after it.

Within a conversation this is one transaction. The same transaction writes down what is still to be forgotten
(`HalfForgotten`): what quotes it in the user's other conversations, and old bytes on the disk. Whoever comes after a
crash finishes it. An erased conversation leaves one row that says there was one; an erased user's rows do not
even say whose they were.

What a model call took of the tokens of a day is still counted until that day is over: forgetting gives nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from everthread.core.branches import CANVAS, Branch, Line, Target
from everthread.core.ended import is_own_reason
from everthread.core.events import TOMBSTONE, Command, ModelCall, Redacted, User, decode, encode, redacted, text_of
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import delegated
from everthread.core.schedules import schedule_of
from everthread.core.times import microseconds
from everthread.core.turns import Head
from everthread.core.verdicts import approval_key, changed_arguments, is_verdict
from everthread.errors import BadValue, Corrupt, UnknownConversation, UnknownSeq
from everthread.language.naming import name_from
from everthread.store.beside import archives, leases, schedules, usage
from everthread.store.conversations import NEWEST, Conversation, Owner, page
from everthread.store.engine import Ask, Outcome, Script, Tell
from everthread.store.recall import index
from everthread.store.scripts import quote
from everthread.store.scripts.along import told
from everthread.store.scripts.append import kept, own_events
from everthread.store.scripts.branch import Act, branches, mark
from everthread.store.scripts.children import other_copy
from everthread.store.scripts.quote import Spot
from everthread.store.scripts.read import head, onward

PAGE = 500
EVENT, CONVERSATION, USER, DOCUMENT, SCHEDULE = "event", "conversation", "user", "document", "schedule"
# Of a conversation, in the order in which they are emptied: what refers to a row goes before it.
TABLES = (
    "blob_uses",
    "blobs",
    "receipts",
    "model_calls",
    "reminders",
    "schedules",
    "quotes",
    "canvases",
    "imports",
    "forgetting",
    "events",
    "branches",
)
CALL = "model_call"
FAILURES = ("agent_killed", "schedule_failed", CALL)  # what says why something failed
FORGET_USER = ("forget_user", "forget_forgotten_user", "forget_tokens_of_user")


class HalfForgotten(NamedTuple):
    """Something that is being forgotten, since `time`: an event, a conversation, a user, a document or a schedule."""

    tenant: str
    conversation: str
    branch: int
    seq: int
    user: str
    what: str
    time: int

    def __str__(self) -> str:
        """In words, without anything that was said."""
        if self.what == EVENT:
            return f"event {self.seq} on branch {self.branch} of conversation {self.conversation}"
        return f"conversation {self.conversation}" if self.what == CONVERSATION else f"a {self.what}"


def begun(one: HalfForgotten) -> Tell:
    return Tell("insert_forgetting", [one._asdict()])


def ended(done: Iterable[HalfForgotten]) -> Script[Outcome[None]]:
    yield from ()
    rows = [one._asdict() for one in done]
    return Outcome(None, [Tell("end_forgetting", rows)] if rows else [])


def pending(limit: int) -> Script[list[HalfForgotten]]:
    """What is being forgotten, or was when its process died; the oldest first."""
    return [HalfForgotten(*row) for row in (yield Ask("forgetting", {"limit": limit}))]


# -- events ------------------------------------------------------------------------------------------------------


def redact(line: Line, seq: int, act: Act, *, again: bool = False) -> Script[Outcome[bool]]:
    """Redact an event and every copy of it in its conversation. Whether anything was left to do.

    `again`: look whether there is a copy that was made while the others were being redacted, and do only that.
    """
    key = {"tenant": line.tenant, "conversation": line.conversation}
    if (yield from act.tries.landed(key)):
        return Outcome(True, landed=True)
    newest = yield from head(line)
    event = yield from _with_content(line, seq, last=newest.seq)
    spot = Spot(line.conversation, event.branch, seq)
    here, elsewhere = yield from _copies(key, spot, event)
    if not (again and event.body.startswith(TOMBSTONE)):
        here = {spot: _tombstone(event), **here}
    still = [begun(_still(line.tenant, one, act.now)) for one in (*here, *elsewhere)]
    if not here:
        return Outcome(False, still)
    return Outcome(True, [*(yield from _redaction(line, newest, event, here, act)), *still])


def _redaction(line: Line, newest: Head, event: Logged, here: Mapping[Spot, Redacted], act: Act) -> Script[list[Tell]]:
    """The statements that redact an event and its copies in a conversation."""
    key = {"tenant": line.tenant, "conversation": line.conversation}
    # Recorded on the branch from which it was asked for.
    commands = [Command(name="redact", arguments={"seq": one.seq, "branch": one.branch}) for one in here]
    unindexed = yield from index.forget(line.tenant, line.conversation, [one[1:] for one in here])
    # A reply that is on its way may tell of what is forgotten, so what is kept of it goes, too. The leases come first,
    # as in a turn's appends, or the two would wait for each other.
    running = leases.forget(line.tenant, line.conversation)
    writes = [running, *mark(line, newest, commands, act), Tell("count_redaction", [key]), *_unnamed(key, event)]
    writes.append(owed(key, act.now))
    return [*writes, *_gone(line.tenant, here, act.now), *_unscheduled(line, event, here), *unindexed]


def owed(key: Mapping[str, str], now: int) -> Tell:
    """The statement that has every mirror follow (transfer.mirrored), whoever runs it and whenever. Of no conversation:
    a document was forgotten."""
    return Tell("owe_mirrors", [{**key, "time": now}])


def _with_content(line: Line, seq: int, *, last: int) -> Script[Logged]:
    """An event that can be redacted."""
    found = (yield from onward(line, first=seq, last=seq)) if 0 < seq <= last else []
    if not found:
        raise UnknownSeq(seq, last=last)
    if without := _without_content(found[0]):
        raise BadValue("seq", seq, f"an event with content; {seq} is a {without} and has none")
    return found[0]


def _without_content(one: Logged) -> str:
    """What an event is that has nothing to forget; without a verdict its tool call would wait again, and without its
    command a child would be nobody's."""
    if one.kind in ("clear", "fork", "rewind"):
        return one.kind
    events = [event.event for event in readable([one])]
    if any(map(delegated, events)):
        return "command that begins a child"
    return "verdict" if any(map(is_verdict, events)) else ""


def _still(tenant: str, spot: Spot, now: int) -> HalfForgotten:
    return HalfForgotten(tenant, *spot, user="", what=EVENT, time=now)


def _gone(tenant: str, here: Mapping[Spot, Redacted], now: int) -> list[Tell]:
    """The statements that leave tombstones in place of events, and nothing else of them."""
    spots = [{"tenant": tenant, **spot._asdict()} for spot in here]
    bodies = [{**spot, "body": encode(tombstone)} for spot, tombstone in zip(spots, here.values(), strict=True)]
    names = ("forget_receipts", "forget_blob_uses", "forget_model_call", "forget_quotes")
    calls = [spot for spot, tombstone in zip(spots, here.values(), strict=True) if tombstone.was == CALL]
    drawn = [spot for spot, tombstone in zip(spots, here.values(), strict=True) if tombstone.was == CANVAS]
    return [
        Tell("redact_event", bodies),
        *(usage.forgotten(calls, now) if calls else []),
        *(Tell(name, spots) for name in names),
        *([Tell("forget_canvases", drawn)] if drawn else []),
        Tell("forget_unused_blobs", spots[:1]),
    ]


def _unnamed(key: Mapping[str, Any], said: Logged) -> list[Tell]:
    """The statements that take the name from a conversation that was named after what was said."""
    names = [name_from(text_of(one.event)) for one in readable([said]) if isinstance(one.event, User)]
    return [Tell("unname", [{**key, "name": name}]) for name in names if name]


def _unscheduled(line: Line, event: Logged, here: Iterable[Spot]) -> list[Tell]:
    """The statements that remove the schedules that said an event, or were made by a tool call that is forgotten."""
    spots, key = {*here}, {"tenant": line.tenant, "conversation": line.conversation}
    said: list[Tell] = []
    for one in readable([event]):
        if isinstance(one.event, User) and (id := schedule_of(one.event.origin)):
            said.append(schedules.forget({**key, "id": id}))
        if changed_arguments(one.event) and isinstance(one.event, Command):  # those with which a tool call was let run
            seq = one.event.arguments.get("seq")
            spots |= {Spot(line.conversation, line.owner(seq), seq)} if type(seq) is int else set()
    return [*said, schedules.forget_made({"tenant": line.tenant, **spot._asdict()} for spot in spots)]


def _tombstone(event: Logged) -> Redacted:
    try:
        return redacted(event.event)
    except Corrupt:  # damaged content can be forgotten as well
        return Redacted(was=event.kind)


# -- copies ------------------------------------------------------------------------------------------------------


def _copies(key: Mapping[str, str], of: Spot, event: Logged) -> Script[tuple[dict[Spot, Redacted], list[Spot]]]:
    """What was made of an event and is not redacted yet: in its conversation, with tombstones, and in others."""
    all_branches = yield from branches(key["tenant"], key["conversation"])
    here: dict[Spot, Redacted] = {}
    elsewhere: dict[Spot, None] = {}
    here |= yield from _changed(key, of)
    looked, queue = {of, *here}, [of, *here]
    unknown = yield from quote.unknown(key["tenant"], key["conversation"], since=event.micros)
    while queue:
        spot = queue.pop()
        quotes = yield from quote.quoted_by(key["tenant"], spot)
        quotes |= dict.fromkeys(unknown, "tool_result") if spot == of else {}
        own = {one: Redacted(was=kind) for one, kind in quotes.items() if one.conversation == of.conversation}
        elsewhere |= dict.fromkeys(one for one in quotes if one.conversation != of.conversation)
        own |= yield from other_copy(key, all_branches, spot, here[spot].was if spot in here else event.kind)
        own |= yield from _memory_since(key, all_branches, spot)
        if (here[spot].was if spot in here else event.kind) not in FAILURES:
            own |= yield from _failures_since(key, all_branches, spot)
        queue += own.keys() - looked
        looked |= own.keys()
        here |= own
    here.pop(of, None)
    return here, list(elsewhere)


def _changed(key: Mapping[str, str], of: Spot) -> Script[dict[Spot, Redacted]]:
    """The arguments with which somebody let this tool call run, if it is one: they stand right before the verdict."""
    target = Target(key["tenant"], key["conversation"])
    found: dict[Spot, Redacted] = {}
    for verdict in (yield from kept(target, approval_key(of.branch, of.seq)))[-1:]:
        before = verdict.seq - 1
        for one in readable((yield from own_events(target._asdict(), verdict.branch, before, before))):
            if changed_arguments(one.event, of.seq):
                found[Spot(of.conversation, one.branch, one.seq)] = Redacted(was=one.kind)
    return found


def _memory_since(key: Mapping[str, str], all_branches: list[Branch], spot: Spot) -> Script[dict[Spot, Redacted]]:
    """What memory made after an event, on every branch that shares it: it may tell of it."""
    pieces = told({branch: max(spot.seq, at) for branch, at in sharing(all_branches, spot)})
    rows = yield Ask("memory_since", {**key, "pieces": pieces, "tombstone": TOMBSTONE})
    return {Spot(spot.conversation, branch, seq): Redacted(was=kind) for branch, seq, kind in rows}


def _failures_since(key: Mapping[str, str], all_branches: list[Branch], spot: Spot) -> Script[dict[Spot, Redacted]]:
    """What failed after an event, on every branch that shares it, and says why in words of a provider or a tool: they
    may repeat it."""
    pieces = told({branch: max(spot.seq, at) for branch, at in sharing(all_branches, spot)})
    found: dict[Spot, Redacted] = {}
    for query in ("failures_since", "failed_calls_since"):
        for branch, seq, kind, body in (yield Ask(query, {**key, "pieces": pieces, "tombstone": TOMBSTONE})):
            if not is_own_reason(_reason(bytes(body))):
                found[Spot(spot.conversation, branch, seq)] = Redacted(was=kind)
    return found


def _reason(body: bytes) -> str:
    """Why something failed; anything but words of ours where that cannot be read."""
    try:
        event = decode(body)
    except Corrupt:
        return "damaged"
    return event.error if isinstance(event, ModelCall) else str(getattr(event, "reason", ""))


def sharing(all_branches: list[Branch], spot: Spot) -> list[tuple[int, int]]:
    """The branches that share an event, each with the seq before its own first. Parents come before children."""
    shared: dict[int, int] = {}
    for branch in all_branches:
        if branch.number == spot.branch or (branch.parent in shared and branch.at >= spot.seq):
            shared[branch.number] = branch.at
    return list(shared.items())


# -- conversations and users -------------------------------------------------------------------------------------


def erase(conversation: Conversation, *, now: int) -> Script[Outcome[None]]:
    """Remove a conversation, but for its tombstone. Doing it again changes nothing."""
    if (yield from _is_erased(conversation)):
        return Outcome(None, landed=True)
    key = {"tenant": conversation.tenant, "conversation": conversation.id}
    copies = yield from _quoting(conversation)
    held = leases.erase(conversation.tenant, conversation.id)  # first, as in `_redaction`
    unindexed = yield from index.erase(conversation.tenant, conversation.id)
    rest = [*usage.forgotten([key], now, whole=True), *(Tell(f"erase_{table}", [key]) for table in TABLES)]
    rest += archives.erase(key)
    whole = HalfForgotten(conversation.tenant, conversation.id, 0, 0, user="", what=CONVERSATION, time=now)
    still = [begun(one) for one in (whole, *(_still(conversation.tenant, copy, now) for copy in copies))]
    gone = [Tell("erase_conversation", [{**key, "time": now}]), owed(key, now)]
    return Outcome(None, [held, *unindexed, *rest, *gone, *still])


def _is_erased(conversation: Conversation) -> Script[bool]:
    owner = conversation.owner
    rows = yield Ask("conversation", {**owner._asdict(), "conversation": conversation.id})
    if not rows or rows[0][2] != conversation.agent:
        raise UnknownConversation(conversation.id)
    return rows[0][10] is not None


def _quoting(conversation: Conversation) -> Script[list[Spot]]:
    """The results in the user's other conversations that quote this one, or may."""
    found = yield from quote.quoting(conversation.tenant, conversation.id)
    found += yield from quote.unknown(conversation.tenant, conversation.id, since=microseconds(conversation.began))
    return [one for one in dict.fromkeys(found) if one.conversation != conversation.id]


def erase_user(owner: Owner, *, now: int) -> Script[Outcome[list[Conversation]]]:
    """Remove a user's documents, and write down which conversations go one by one: those that are there now, for the
    user may begin others before it is done."""
    found = yield from everything_of(owner)
    rows = [HalfForgotten(owner.tenant, "", 0, 0, owner.user, USER, now)]
    rows += [HalfForgotten(owner.tenant, one.id, 0, 0, owner.user, CONVERSATION, now) for one in found]
    documents = [Tell("erase_documents", [owner._asdict()])] if owner.user else []  # the tenant's have no user
    documents.append(owed({"tenant": owner.tenant, "conversation": ""}, now))
    return Outcome(found, [*documents, Tell("insert_forgetting", [row._asdict() for row in rows])])


def forget_user(owner: Owner) -> Script[Outcome[None]]:
    """Remove a user's name from the tombstones, and from what says that it is being done."""
    yield from ()
    return Outcome(None, [Tell(name, [owner._asdict()]) for name in FORGET_USER])


def everything_of(owner: Owner) -> Script[list[Conversation]]:
    """All of a user's conversations, to be erased one by one."""
    found: list[Conversation] = []
    while True:
        before = found[-1].id if found else NEWEST
        more = yield from page(owner, agent="", before=before, limit=PAGE)
        found += more
        if len(more) < PAGE:
            return found
