"""Forgetting on request: the one exception to "nothing is lost", and always asked for by name.

A redacted event keeps its place, time, kind and size, so that no number in the log moves; its content, the
images that only it showed, what recall found it by, a model call's figures and the hash that could confirm a
guess are gone. An erased conversation leaves one row that says there was one; an erased user's rows do not even
say whose.
"""

from __future__ import annotations

from everthread.core.branches import Line
from everthread.core.events import Command, Redacted, encode, redacted
from everthread.core.logged import Logged
from everthread.errors import BadValue, Corrupt, UnknownConversation, UnknownSeq
from everthread.store import leases, recalling_index
from everthread.store.branching import Act, mark
from everthread.store.conversations import NEWEST, Conversation, Owner, page
from everthread.store.engine import Ask, Outcome, Script, Tell
from everthread.store.reading import head, onward

PAGE = 500


def redact(line: Line, seq: int, act: Act) -> Script[Outcome[None]]:
    if (yield from act.tries.landed({"tenant": line.tenant, "conversation": line.conversation})):
        return Outcome(None)
    newest = yield from head(line)
    found = (yield from onward(line, first=seq, last=seq)) if 0 < seq <= newest.seq else []
    if not found:
        raise UnknownSeq(seq, last=newest.seq)
    if found[0].kind in ("clear", "fork", "rewind"):
        raise BadValue("seq", seq, f"an event with content; {seq} is a {found[0].kind} and has none")
    spot = {"tenant": line.tenant, "conversation": line.conversation, "branch": found[0].branch, "seq": seq}
    key = {"tenant": line.tenant, "conversation": line.conversation}
    gone = [Tell("count_redaction", [key]), Tell("redact_event", [{**spot, "body": encode(_tombstone(found[0]))}])]
    # Said on the branch from which it was asked for.
    note = Command(name="redact", arguments={"seq": seq, "branch": found[0].branch})
    forget = [Tell(name, [spot]) for name in ("forget_receipts", "forget_blob_uses", "forget_unused_blobs")]
    if found[0].kind == "model_call":
        forget.append(Tell("forget_model_call", [spot]))
    forget += yield from recalling_index.forget(line.tenant, line.conversation, found[0].branch, seq)
    # The leases first, as a turn's appends have them, or the two would wait for each other. A reply that is on its way
    # may tell of what is forgotten.
    running = leases.forget(line.tenant, line.conversation)
    return Outcome(None, [running, *mark(line, newest, note, act), *gone, *forget])


def _tombstone(event: Logged) -> Redacted:
    try:
        return redacted(event.event)
    except Corrupt:  # damaged content must be possible to forget as well
        return Redacted(was=event.kind)


def erase(conversation: Conversation, *, now: int) -> Script[Outcome[None]]:
    """Remove everything but the tombstone. Doing it again changes nothing."""
    owner = Owner(conversation.tenant, conversation.user)
    rows = yield Ask("conversation", {**owner._asdict(), "conversation": conversation.id})
    if not rows or rows[0][2] != conversation.agent:
        raise UnknownConversation(conversation.id)
    if rows[0][-1] is not None:
        return Outcome(None)
    key = {"tenant": conversation.tenant, "conversation": conversation.id}
    tables = ("blob_uses", "blobs", "receipts", "model_calls", "reminders", "events", "branches")
    held = leases.erase(conversation.tenant, conversation.id)  # first, as above
    index = yield from recalling_index.erase(conversation.tenant, conversation.id)
    rest = [Tell(f"erase_{table}", [key]) for table in tables]
    return Outcome(None, [held, *index, *rest, Tell("erase_conversation", [{**key, "time": now}])])


def forget_user(owner: Owner) -> Script[Outcome[None]]:
    """Remove a user's documents, and the name from the tombstones."""
    yield from ()
    if not owner.user:  # the documents without a user are the tenant's
        return Outcome(None)
    return Outcome(None, [Tell(name, [owner._asdict()]) for name in ("erase_documents", "forget_user")])


def everything_of(owner: Owner) -> Script[list[Conversation]]:
    """All of a user's conversations, to be erased one by one."""
    found: list[Conversation] = []
    while True:
        before = found[-1].id if found else NEWEST
        more = yield from page(owner, agent="", before=before, limit=PAGE)
        found += more
        if len(more) < PAGE:
            return found
