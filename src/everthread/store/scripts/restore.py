"""Restoring: whole conversations and documents are written at once. Import does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from everthread.core.branches import Branch, Target
from everthread.core.outcomes import child_of, ended_key, started_key
from everthread.core.times import microseconds
from everthread.core.turns import Head
from everthread.core.verdicts import approval_key, approved
from everthread.errors import AlreadyExists, UnknownBranch, UnknownSeq
from everthread.store.beside.documents import Document, document, version_of
from everthread.store.conversations import OWN_ID, Conversation, Owner, by_alias, insert
from everthread.store.engine import Ask, Outcome, Script, Tell
from everthread.store.scripts.append import Batch, Draft, number


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with all its branches, parents before children, each with its own events."""

    conversation: Conversation
    branches: list[tuple[Branch, list[Draft]]]
    blobs: dict[str, bytes] = {}


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
    return Outcome(None, [*writes, *(yield from _documents(documents))])


def _check_aliases(wholes: Sequence[Whole]) -> Script[None]:
    """An alias that is taken, in the store or by another of these, is refused: it cannot name two."""
    seen = set[tuple[Owner, str]]()
    for one in (whole.conversation for whole in wholes if whole.conversation.alias):
        if (one.owner, one.alias) in seen or (yield from by_alias(one.owner, one.alias)):
            raise AlreadyExists(OWN_ID, one.alias)
        seen.add((one.owner, one.alias))


def _documents(documents: Sequence[OwnedDocument]) -> Script[list[Tell]]:
    """The statements that write versions of documents; none for those that are there already, and say the same."""
    writes = []
    for owner, one in documents:
        if (there := (yield from document(owner, one.name, version=one.version))) is None:
            writes.append(version_of(owner, one))
        elif there.body != one.body:
            raise AlreadyExists("document", one.name)
    return writes


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
