"""Documents: texts with a name and versions that only grow, such as agents.

They belong to a user, or to the tenant itself (the user ''). A version is one row that never changes; the key lets
only one writer have a number, and whoever was slower looks again. Forgetting a document removes all of its versions.
"""

from __future__ import annotations

import msgspec

from everthread.core.branches import ENDLESS
from everthread.errors import BadValue, Changed, UnknownConversation
from everthread.store.beside.leases import after
from everthread.store.conversations import Owner, check_name, find
from everthread.store.engine import Ask, Outcome, Row, Script, Tell

LONGEST_NAME = 400


class Document(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: int
    body: str
    time: int


def stored_form(body: str, *, max_bytes: int) -> bytes:
    stored = body.encode("utf-8", "surrogatepass")
    if len(stored) > max_bytes:
        raise BadValue("body", f"{len(stored):,} bytes long", f"at most {max_bytes:,} bytes long")
    return stored


def put(
    owner: Owner, name: str, body: bytes, *, expect: int | None, of: str = "", now: int, tried: list[int]
) -> Script[Outcome[Document]]:
    """A new version, unless the newest says the same. `of`: the conversation in which it is written, if in one.

    `tried`: the versions of runs of this script whose commit was not confirmed.
    """
    for version in tried:
        rows = yield Ask("document", {**_key(owner, name), "version": version})
        if rows and (bytes(rows[0][2]), rows[0][3]) == (body, now):
            return Outcome(_document(rows[0]))
    if of:
        yield from _check_there(owner, of)
    rows = yield Ask("document", {**_key(owner, name), "version": None})
    newest = rows[0][1] if rows else 0
    if rows and bytes(rows[0][2]) == body:
        return Outcome(_document(rows[0]))
    if expect not in (None, newest):
        raise Changed(name, expected=expect, found=newest)
    new = _document((name, newest + 1, body, now))
    tried.append(newest + 1)
    return Outcome(new, [version_of(owner, new)])


def _check_there(owner: Owner, conversation: str) -> Script[None]:
    """Whether a conversation is there. With a user's documents those go that are there, and who still has one of them
    in hand must not bring a document back."""
    found = yield from find(owner, conversation)
    if (yield Ask("being_erased", {"tenant": owner.tenant, "conversation": found.id})):
        raise UnknownConversation(conversation)


def version_of(owner: Owner, one: Document) -> Tell:
    """The statement that writes a version."""
    body = one.body.encode("utf-8", "surrogatepass")
    return Tell("insert_document", [{**_key(owner, one.name), "version": one.version, "body": body, "time": one.time}])


def document(owner: Owner, name: str, *, version: int | None) -> Script[Document | None]:
    if version is not None and not 0 < version <= ENDLESS:
        return None
    rows = yield Ask("document", {**_key(owner, name), "version": version})
    return _document(rows[0]) if rows else None


def documents(owner: Owner, *, prefix: str, limit: int) -> Script[list[Document]]:
    check_name("prefix", prefix, most=LONGEST_NAME, empty=True)
    rows = yield Ask("documents", {**owner._asdict(), "prefix": prefix, "end": after(prefix), "limit": limit})
    return [_document(row) for row in rows]


def versions(owner: Owner, name: str, *, limit: int) -> Script[list[Document]]:
    rows = yield Ask("versions", {**_key(owner, name), "limit": limit})
    return [_document(row) for row in rows]


def forget(owner: Owner, name: str, begun: list[Tell]) -> Script[Outcome[None]]:
    """Remove all versions; `begun` writes down that it is being done."""
    yield from ()
    return Outcome(None, [Tell("forget_document", [_key(owner, name)]), *begun])


def _key(owner: Owner, name: str) -> dict[str, str]:
    return {**owner._asdict(), "name": check_name("name", name, most=LONGEST_NAME)}


def _document(row: Row) -> Document:
    name, version, body, time = row
    return Document(name=name, version=version, body=bytes(body).decode("utf-8", "surrogatepass"), time=time)
