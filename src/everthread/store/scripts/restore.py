"""Restoring: conversations and documents that were elsewhere are written with the ids and times they had.

Whole ones at once (`restore`), or in portions (`grow`), so that no conversation is too long for memory. A portion may
be written again: what is there already is compared and not written twice, and what is missing is added, so whoever was
killed on the way begins anew and ends up with the same. Where what is there is something else, nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from everthread.core.branches import Branch, Target
from everthread.core.events import TOMBSTONE
from everthread.core.logged import Logged
from everthread.core.outcomes import child_of, ended_key, started_key
from everthread.core.times import microseconds
from everthread.core.turns import Head
from everthread.core.verdicts import approval_key, approved
from everthread.errors import AlreadyExists, Archived, UnknownBranch, UnknownSeq
from everthread.store.beside.documents import Document, document, version_of
from everthread.store.conversations import MAIN, OWN_ID, Conversation, Owner, by_alias, conversation_of, insert, says
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.scripts.append import Batch, Draft, head_of, newest_head, number
from everthread.store.scripts.branch import branch_of


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with all its branches, parents before children, each with its own events."""

    conversation: Conversation
    branches: list[tuple[Branch, list[Draft]]]
    blobs: dict[str, bytes] = {}


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a conversation: of each branch its own events from a seq on, parents before children. `last`: with it the
    conversation is complete, and `conversation` says of itself what it did in the end. `source`: a hash by which a
    history of another program is known, from its first portion on."""

    conversation: Conversation
    pieces: list[tuple[Branch, int, list[Draft]]]
    blobs: dict[str, bytes] = {}
    last: bool = True
    source: str = ""
    receipts: list[dict[str, str | int]] = []

    @property
    def events(self) -> int:
        return sum(len(drafts) for _, _, drafts in self.pieces)


class OwnedDocument(NamedTuple):
    """A version of a document, and whose it is."""

    owner: Owner
    document: Document


def restore(
    wholes: Sequence[Whole],
    batches: Sequence[Sequence[Batch]],
    documents: Sequence[OwnedDocument] = (),
    *,
    now: int,
    gap: int,
) -> Script[Outcome[None]]:
    for whole, own in zip(wholes, batches, strict=True):
        for batch in own:
            if (
                yield from batch.tries.landed(
                    {"tenant": whole.conversation.tenant, "conversation": whole.conversation.id}
                )
            ):
                return Outcome(None)  # all or none: where one is, all are
    yield from _check_aliases(wholes)
    writes: list[Tell] = []
    for whole, own in zip(wholes, batches, strict=True):
        writes += yield from _restore(whole, own, now=now, gap=gap)
    return Outcome(None, [*writes, *(yield from missing_documents(documents))])


def _check_aliases(wholes: Sequence[Whole]) -> Script[None]:
    """An alias that is taken, in the store or by another of these, is refused: it cannot name two."""
    seen = set[tuple[Owner, str]]()
    for one in (whole.conversation for whole in wholes if whole.conversation.alias):
        if (one.owner, one.alias) in seen or (yield from by_alias(one.owner, one.alias)):
            raise AlreadyExists(OWN_ID, one.alias)
        seen.add((one.owner, one.alias))


def missing_documents(documents: Sequence[OwnedDocument]) -> Script[list[Tell]]:
    """The statements that write versions of documents; none for those that are there already, and say the same."""
    writes = []
    for owner, one in documents:
        if (there := (yield from document(owner, one.name, version=one.version))) is None:
            writes.append(version_of(owner, one))
        elif there.body != one.body:
            raise AlreadyExists("document", one.name)
    return writes


# -- in portions -------------------------------------------------------------------------------------------------


def grow(portion: Portion, batches: Sequence[Batch], *, now: int, gap: int) -> Script[Outcome[int]]:
    """Write of a portion what is not there yet. How many events that were."""
    new, key = portion.conversation, {"tenant": portion.conversation.tenant, "conversation": portion.conversation.id}
    is_new = not (yield from is_there(new))
    if is_new and portion.source and (yield from imported(new.owner, portion.source)):
        return Outcome(0)  # by another import, under another id, since this one looked
    there = {} if is_new else {row[0]: row for row in (yield Ask("branches", key))}
    grown = _Grown(key, portion, there, now, gap)
    for (branch, first, _), batch in zip(portion.pieces, batches, strict=True):
        yield from grown.grow(branch, first, batch)
    writes = [*_blobs(key, portion, grown.shown), *grown.writes, *(yield from _receipts(grown))]
    if is_new:
        yield from _check_aliases([Whole(conversation=new, branches=[])])
        begun = new if portion.last else msgspec.structs.replace(new, current=MAIN)
        writes = [*insert(begun), *_known(portion), *writes]
    elif grown.events and portion.last:
        writes += says(new)
    return Outcome(len(grown.events), writes)


class _Grown:
    """What a portion adds to a conversation, branch by branch."""

    def __init__(self, key: dict[str, str], portion: Portion, there: Mapping[int, Row], now: int, gap: int) -> None:
        self.key, self.portion, self._there, self._now, self._gap = key, portion, there, now, gap
        self.branches = {branch.number: branch for branch in map(branch_of, there.values())}
        self.events: list[Logged] = []
        self.shown: set[str] = set()
        self.writes: list[Tell] = []
        self._heads: dict[int, list[Head]] = {}

    def grow(self, branch: Branch, first: int, batch: Batch) -> Script[None]:
        is_new = branch.number not in self._there
        start = yield from (self._fork(branch) if is_new else self._newest(branch, first, batch))
        missing = Batch(batch.items[start.seq + 1 - first :], batch.blobs, tries=batch.tries)
        if is_new and branch.parent is not None:
            self.writes.append(_introduced(self.key, branch))
        target = Target(**self.key, branch=branch.number)
        numbered = number(target, start, missing, now=self._now, gap=self._gap)
        self.branches[branch.number] = branch
        self._heads[branch.number] = [start, *numbered.heads]
        self.events += numbered.events
        self.shown |= {hash for item in missing.items for hash in item.blobs}
        self.writes += numbered.writes

    def _fork(self, branch: Branch) -> Script[Head]:
        """The head with which a branch begins: its parent's, written with this portion or before."""
        if branch.parent is None or not branch.at:
            return Head()
        for one in self._heads.get(branch.parent, ()):
            if one.seq == branch.at:
                return one
        rows = yield Ask("head_at", {**self.key, "branch": branch.parent, "seq": branch.at})
        if not rows:
            raise UnknownSeq(branch.at, last=0)
        return head_of(rows[0])

    def _newest(self, branch: Branch, first: int, batch: Batch) -> Script[Head]:
        """The head after which a branch goes on; AlreadyExists where what is there is something else."""
        _check_same(self.key["conversation"], branch, self._there[branch.number])
        _, head = yield from newest_head({**self.key, "branch": branch.number})
        if head.seq + 1 < first:
            raise AlreadyExists("conversation", self.key["conversation"])
        shared = batch.items[: head.seq + 1 - first]
        ids, bodies = [item.draft.id for item in shared], [item.body for item in shared]
        yield from _check_events(self.key, branch.number, first, ids, bodies)
        last = first + len(batch.items) - 1
        rows = (yield Ask("head_at", {**self.key, "branch": branch.number, "seq": last})) if head.seq > last else ()
        return head_of(rows[0]) if rows else head  # it may have gone on here


def _receipts(grown: _Grown) -> Script[list[Tell]]:
    """Receipts of tool calls that were approved and of children that began or ended, so that none is written twice: the
    first of each; and those that came with the portion."""
    found: dict[str, dict[str, str | int]] = {}
    for one in grown.events:
        if key := _receipt_key(one, grown.branches):
            found.setdefault(key, {"key": key, "branch": one.branch, "first": one.seq, "last": one.seq, "hash": ""})
    for given in grown.portion.receipts:
        found.setdefault(str(given["key"]), given)
    missing = []
    for key, row in found.items():
        if not (yield Ask("receipt", {**grown.key, "key": key})):
            missing.append({**grown.key, **row})
    return [Tell("insert_receipt", missing)] if missing else []


def _receipt_key(one: Logged, branches: Mapping[int, Branch]) -> str:
    if one.kind == "command" and (call := approved(one.event)):
        return approval_key(_owner(branches, branches[one.branch], call), call)
    if one.kind in ("flow_started", "flow_completed") and (child := child_of(one.event)):
        return started_key(child) if one.kind == "flow_started" else ended_key(child)
    return ""


def is_there(new: Conversation) -> Script[bool]:
    """Whether a conversation is there already; AlreadyExists where it is somebody else's, or was erased."""
    found = yield Ask("conversation", {**new.owner._asdict(), "conversation": new.id})
    if not found:
        if rows := (yield Ask("conversation_exists", {"tenant": new.tenant, "conversation": new.id})):
            raise AlreadyExists("conversation", new.id, erased=bool(rows[0][0]))
        return False
    there = conversation_of(new.tenant, found[0])
    if there.erased is not None or there.agent != new.agent:
        raise AlreadyExists("conversation", new.id, erased=there.erased is not None)
    if there.archived is not None:  # its events are in a file: it has to come back before it is compared
        raise Archived(new.tenant, new.id)
    return True


def compare(portion: Portion, bodies: Sequence[Sequence[bytes]]) -> Script[None]:
    """AlreadyExists where the portion could not be written beside what is there. `bodies`: of each piece its events."""
    new, key = portion.conversation, {"tenant": portion.conversation.tenant, "conversation": portion.conversation.id}
    if not (yield from is_there(new)):
        yield from _check_aliases([Whole(conversation=new, branches=[])])
        return
    there = {row[0]: row for row in (yield Ask("branches", key))}
    for (branch, first, drafts), own in zip(portion.pieces, bodies, strict=True):
        if branch.number in there:
            _check_same(new.id, branch, there[branch.number])
            ids = [draft.id for draft in drafts]
            yield from _check_events(key, branch.number, first, ids, own)


def _check_same(conversation: str, branch: Branch, row: Row) -> None:
    if (row[1], row[2], row[3]) != (branch.name, branch.parent, branch.at):
        raise AlreadyExists("conversation", conversation)


def _check_events(
    key: dict[str, str], branch: int, first: int, ids: Sequence[str], bodies: Sequence[bytes]
) -> Script[None]:
    """Whether the events that are there are these; either may have been redacted meanwhile."""
    if not ids:
        return
    span = {"first": first, "last": first + len(ids) - 1, "limit": len(ids)}
    rows = yield Ask("events_up", {**key, "branch": branch, **span})
    for row, id, body in zip(rows, ids, bodies, strict=False):
        stored = bytes(row[-1])
        same = stored == body or stored.startswith(TOMBSTONE) or body.startswith(TOMBSTONE)
        if (id and row[2] != id) or not same:
            raise AlreadyExists("conversation", key["conversation"])


def _blobs(key: dict[str, str], portion: Portion, shown: set[str]) -> list[Tell]:
    """Those that are shown by what is written now: what was redacted here meanwhile does not come back."""
    rows = [{**key, "hash": hash, "data": data} for hash, data in portion.blobs.items() if hash in shown]
    return [Tell("insert_blob", rows)] if rows else []


def _introduced(key: dict[str, str], branch: Branch) -> Tell:
    row = {"branch": branch.number, "name": branch.name, "parent": branch.parent, "at": branch.at}
    return Tell("insert_branch", [{**key, **row, "time": microseconds(branch.time)}])


def _known(portion: Portion) -> list[Tell]:
    if not portion.source:
        return []
    new = portion.conversation
    return [Tell("insert_import", [{**new.owner._asdict(), "source": portion.source, "conversation": new.id}])]


def imported(owner: Owner, source: str) -> Script[str]:
    """The conversation as which a history of another program was imported; empty where it was not."""
    rows = yield Ask("imported", {**owner._asdict(), "source": source})
    return str(rows[0][0]) if rows else ""


# -- whole ones --------------------------------------------------------------------------------------------------


def _restore(whole: Whole, batches: Sequence[Batch], *, now: int, gap: int) -> Script[list[Tell]]:
    new = whole.conversation
    if rows := (yield Ask("conversation_exists", {"tenant": new.tenant, "conversation": new.id})):
        raise AlreadyExists("conversation", new.id, erased=bool(rows[0][0]))
    key = {"tenant": new.tenant, "conversation": new.id}
    writes = insert(new)
    writes += [Tell("insert_blob", [{**key, "hash": h, "data": data}]) for h, data in whole.blobs.items()]
    heads: dict[int, list[Head]] = {}
    for (branch, _), batch in zip(whole.branches, batches, strict=True):
        if branch.parent is not None:
            row = {"branch": branch.number, "name": branch.name, "parent": branch.parent}
            writes.append(Tell("insert_branch", [{**key, **row, "at": branch.at, "time": microseconds(branch.time)}]))
        start = _start(branch, heads, {b.number: b for b, _ in whole.branches})
        numbered = number(Target(new.tenant, new.id, branch.number), start, batch, now=now, gap=gap)
        heads[branch.number] = numbered.heads
        writes += numbered.writes
    if receipts := [*_approvals(whole), *_children(whole)]:
        writes.append(Tell("insert_receipt", [{**key, **row} for row in receipts]))
    if new.current not in heads:
        raise UnknownBranch(new.current, ", ".join(map(str, heads)))
    return writes


def _approvals(whole: Whole) -> list[dict[str, str | int]]:
    """Receipts of tool calls that were approved, so that no other branch approves them again: the first of each."""
    branches = {branch.number: branch for branch, _ in whole.branches}
    found: dict[str, dict[str, str | int]] = {}
    for branch, drafts in whole.branches:
        for seq, draft in enumerate(drafts, branch.at + 1):
            if call := approved(draft.event):
                key = approval_key(_owner(branches, branch, call), call)
                found.setdefault(key, {"key": key, "branch": branch.number, "first": seq, "last": seq, "hash": ""})
    return list(found.values())


def _children(whole: Whole) -> list[dict[str, str | int]]:
    """Receipts of the beginnings and outcomes of children, so that none is written twice: the first of each."""
    found: dict[str, dict[str, str | int]] = {}
    for branch, drafts in whole.branches:
        for seq, draft in enumerate(drafts, branch.at + 1):
            if child := child_of(draft.event):
                key = started_key(child) if draft.event.kind == "flow_started" else ended_key(child)
                found.setdefault(key, {"key": key, "branch": branch.number, "first": seq, "last": seq, "hash": ""})
    return list(found.values())


def _owner(branches: Mapping[int, Branch], branch: Branch, seq: int) -> int:
    """The branch that stores an event of another's line."""
    while branch.parent is not None and branch.parent in branches and seq <= branch.at:
        branch = branches[branch.parent]
    return branch.number


def _start(branch: Branch, heads: dict[int, list[Head]], branches: dict[int, Branch]) -> Head:
    """The head at the fork point, among the events of the parent that were just numbered."""
    if branch.at == 0 or branch.parent is None:
        return Head()
    own = heads.get(branch.parent)
    if own is None:
        raise UnknownBranch(branch.parent, ", ".join(map(str, heads)))
    place = branch.at - branches[branch.parent].at - 1
    if not 0 <= place < len(own):
        raise UnknownSeq(branch.at, last=branches[branch.parent].at + len(own))
    return own[place]
