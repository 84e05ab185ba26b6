"""The catalogue of archives: which conversations are in files, and how they go there and come back.

A conversation goes in two steps: a row says that a file is being `writing`; and once the file was read back, one
transaction compares it with the live rows, removes these and says that it is `archived`. It comes back in one: the rows
are there again and the file is `owed`, that is, to be deleted. Whatever is killed in between leaves a row that is not
`archived`, which the next run finds by an index and finishes (docs/decisions/0048).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from everthread.core.events import text_of
from everthread.core.logged import Logged, logged, readable
from everthread.core.turns import Head
from everthread.errors import Corrupt, NotArchivable, Outrun
from everthread.language.naming import name_from
from everthread.store.beside import leases
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.recall.index import Hash, said_in
from everthread.store.scripts import rows
from everthread.store.scripts.rows import Rows

State = Literal["writing", "archived", "owed"]

TITLE = 50  # characters
WORDS = 200  # of an archive that recall finds it by
LOOKED = 300  # events that these are taken from, at most
COMMON = 0.25  # share of the events from which on a word that is in them says little
NOTHING = {"nothing": b""}
WHY = {
    "a turn": "a turn or a child of it runs, or was left behind by a process that was killed",
    "a schedule": "a message is scheduled in it: remove its schedules first",
    "forgetting": "something of it is being forgotten",
    "approval": "a tool call waits for approval",
}


class Archive(NamedTuple):
    """A row of the catalogue."""

    tenant: str
    conversation: str
    archive: str
    user: str
    state: State
    place: str
    title: str = ""
    hash: str = ""
    key_id: str = ""
    nonce: bytes = b""
    sealed: bytes = b""
    made: int = 0
    newest: int = 0
    events: int = 0
    messages: int = 0
    tokens: int = 0
    size: int = 0
    branches: int = 0
    versioned: int = 0

    @property
    def key(self) -> dict[str, str]:
        return {"tenant": self.tenant, "conversation": self.conversation}

    @property
    def about(self) -> str:
        return f"{self.tenant}/{self.conversation}"


class Idle(NamedTuple):
    """A conversation in which nothing has happened since the minute `active`."""

    active: int
    tenant: str
    conversation: str
    user: str

    @property
    def owner(self) -> Owner:
        return Owner(self.tenant, self.user)


FIRST = Idle(-(2**62), "", "", "")


def idle(before: int, after: Idle, limit: int) -> Script[list[Idle]]:
    """Those that were last active before this minute, the longest idle first; of every tenant and user."""
    place = {"last": after.active, "after_tenant": after.tenant, "after": after.conversation}
    return [Idle(*row) for row in (yield Ask("idle_conversations", {"active": before, **place, "limit": limit}))]


def kept_from(key: Mapping[str, str]) -> Script[list[str]]:
    """Why a conversation cannot be archived now, in words; nothing where it can."""
    prefix = leases.of_turns(key["conversation"])
    rows = yield Ask("kept_from_archive", {**key, "prefix": prefix, "end": leases.after(prefix)})
    return [WHY[row[0]] for row in rows]


# -- out --------------------------------------------------------------------------------------------------------------


def begin(new: Archive) -> Script[Outcome[None]]:
    """Say that a file is being written, so that whoever comes after a crash knows of it."""
    if why := (yield from kept_from(new.key)):
        raise NotArchivable(new.conversation, why[0])
    if any(one.archive == new.archive for one in (yield from of(new.tenant, new.conversation))):
        return Outcome(None)  # by a run whose commit was not confirmed
    return Outcome(None, [Tell("insert_archive", [new._asdict()])])


def finish(done: Archive, digest: bytes, words: Iterable[int], *, now: int) -> Script[Outcome[None]]:
    """Remove the live rows, if they are what was read back from the file. Outrun: something was written meanwhile."""
    yield Ask("hold_branches", done.key)
    own = [one for one in (yield from of(done.tenant, done.conversation)) if one.archive == done.archive]
    if own and own[0].state == "archived":
        return Outcome(None, landed=True)
    if not own or own[0].state != "writing":
        raise Outrun("Another took over the archiving of this conversation")
    if why := (yield from kept_from(done.key)):
        raise NotArchivable(done.conversation, why[0])
    if rows.digest((yield from rows.read(done.key))) != digest:
        raise Outrun("Something of the conversation was written while it was archived")
    kept = [{**done.key, "archive": done.archive, "word": word} for word in words]
    return Outcome(
        None,
        [
            Tell("keep_archived_calls", [done.key]),
            Tell("keep_archived_quotes", [done.key]),
            *(yield from rows.take_out(done.key)),
            Tell("finish_archive", [done._asdict()]),
            *([Tell("insert_archive_word", kept)] if kept else []),
            Tell("set_archived", [{**done.key, "archived": now}]),
        ],
    )


def described(one: Archive, found: Rows) -> Archive:
    """A row of the catalogue with what it tells of a conversation without its file."""
    heads = [Head(*row[3:]) for row in found["events"]]
    said = [head for head in heads if head.spoken == head.seq]
    return one._replace(
        title=_title(found),
        newest=max((head.time for head in said), default=0),
        events=len(heads),
        messages=len(said),
        tokens=sum(head.tokens for head in heads),
        branches=len(found["branches"]),
    )


def _title(found: Rows) -> str:
    """The beginning of the conversation's name, or of what was said first where it has none."""
    name = str(found["conversations"][0][3])
    for event in _logged(found) if not name else ():
        if text := name_from(text_of(event.event)) if event.kind == "user" and readable([event]) else "":
            return text[:TITLE]
    return name[:TITLE]


def _logged(found: Rows) -> list[Logged]:
    return logged([(row[0], row[3], row[4], row[1], *_of_head(row), row[2]) for row in found["events"]])


def telling_words(found: Rows, number: Hash) -> list[int]:
    """The words that tell most of a conversation, by their hashes: those that many events have and that not all have,
    names and numbers before the rest, by recall's own rules. Of a long one, events at equal distances are looked at."""
    seen, events = Counter[str](), 0
    all_events = _logged(found)
    for event in all_events[:: -(-len(all_events) // LOOKED) or 1]:
        if said := said_in(event):
            events += 1
            seen.update(said.words.keys())
    few = [word for word, count in seen.items() if events < 20 or count <= events * COMMON]
    best = sorted(few, key=lambda word: (not _names(word), -seen[word], word))
    return sorted({number(word) for word in best[:WORDS]})


def _names(word: str) -> bool:
    return any(letter.isdigit() for letter in word) and len(word) > 3


def _of_head(row: Sequence[Any]) -> tuple[Any, ...]:
    """Time, turn, session, tokens and settled, as `Logged` has them."""
    head = Head(*row[3:])
    return (head.time, head.turn, head.session, head.tokens, head.settled)


# -- back -------------------------------------------------------------------------------------------------------------


def restore(one: Archive, found: Rows) -> Script[Outcome[bool]]:
    """Put the rows back, all or none, and say that the file is to be deleted. Whether it was still archived."""
    there = [own for own in (yield from of(one.tenant, one.conversation)) if own.archive == one.archive]
    if not there or there[0].state != "archived":
        return Outcome(False, landed=True)  # somebody was faster, or it was erased
    (own,) = found["conversations"]
    if own[0] != one.conversation or own[1] != one.user:
        raise Corrupt(f"The archive {one.archive}", "it is another conversation's")
    return Outcome(
        True,
        [
            *rows.put_back(one.key, found),
            Tell("erase_archived_calls", [one.key]),
            Tell("erase_archived_quotes", [one.key]),
            Tell("erase_archive_words", [one.key]),
            Tell("owe_archive", [{**one.key, "archive": one.archive, **NOTHING}]),
            Tell("set_archived", [{**one.key, "archived": None}]),
        ],
    )


# -- files to be deleted ----------------------------------------------------------------------------------------------


def owe(one: Archive) -> Script[Outcome[bool]]:
    """Say that a file that was being written is to be deleted. Whether it is: one that the catalogue knows no more, as
    its conversation was erased meanwhile, is as well."""
    there = [own for own in (yield from of(one.tenant, one.conversation)) if own.archive == one.archive]
    if not there:
        return Outcome(True)
    if there[0].state == "archived":
        return Outcome(False)
    return Outcome(True, [Tell("owe_archive", [{**one.key, "archive": one.archive, **NOTHING}])])


def erase(key: Mapping[str, str]) -> list[Tell]:
    """The statements that leave nothing of a conversation's archives but that their files are to be deleted."""
    names = ("erase_archive_words", "erase_archived_calls", "erase_archived_quotes")
    return [*(Tell(name, [key]) for name in names), Tell("owe_archives", [{**key, **NOTHING}])]


def reseal(new: Archive, was: Archive) -> Script[Outcome[bool]]:
    """Keep an archive's key under another seal. Whether it was still there."""
    there = [own for own in (yield from of(new.tenant, new.conversation)) if own.sealed == was.sealed]
    return Outcome(bool(there), [Tell("reseal_archive", [{**new._asdict(), "was": was.sealed}])] if there else [])


def drop(one: Archive) -> Script[Outcome[None]]:
    """Its file is gone, and so is its row."""
    yield from ()
    return Outcome(None, [Tell("drop_archive", [{**one.key, "archive": one.archive}])])


# -- looking ----------------------------------------------------------------------------------------------------------


def of(tenant: str, conversation: str) -> Script[list[Archive]]:
    return [_archive(row) for row in (yield Ask("archive_of", {"tenant": tenant, "conversation": conversation}))]


def page(owner: Owner, *, offset: int, limit: int) -> Script[list[Archive]]:
    values = {**owner._asdict(), "skip": offset, "limit": limit}
    return [_archive(row) for row in (yield Ask("archives_of", values))]


def every(after: Archive | None, limit: int) -> Script[list[Archive]]:
    place = {"after_tenant": "", "after": "", "archive": ""}
    if after:
        place = {"after_tenant": after.tenant, "after": after.conversation, "archive": after.archive}
    return [_archive(row) for row in (yield Ask("all_archives", {**place, "limit": limit}))]


def unfinished(limit: int) -> Script[list[Archive]]:
    return [_archive(row) for row in (yield Ask("unfinished_archives", {"limit": limit}))]


def with_words(owner: Owner, words: Iterable[int], limit: int) -> Script[dict[tuple[str, str], int]]:
    """The archives of an owner that have some of these words, and how many."""
    found = Counter[tuple[str, str]]()
    for word in words:
        for row in (yield Ask("archives_with_word", {**owner._asdict(), "word": word, "limit": limit})):
            found[row[0], row[1]] += 1
    return found


def _archive(row: Row) -> Archive:
    one = Archive(*row)
    return one._replace(nonce=bytes(one.nonce), sealed=bytes(one.sealed))
