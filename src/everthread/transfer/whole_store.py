"""A whole store as lines, and back: every tenant's conversations and documents, and the records beside them.

    {"everthread": 1, "tenant": "acme", "conversation": …}    and so on, as of one conversation, with its receipts
    {"everthread": 1, "tenant": "acme", "document": …}        agents (the user ''), MEMORY.md, with all versions
    {"everthread": 1, "tenant": "acme", "account": …}         and schedule, erased (a tombstone), calibration

Secrets stay where they are unless they are asked for by name: passwords, API keys and providers' keys (sealed, as they
are kept). Links, sign-ins, leases, reminders, the audit and the store's own secret never leave it; the index of recall
and the canvases that are kept are made again from the log. For operators: what is done here crosses every wall.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

from everthread.errors import BadFormat
from everthread.store.audit import audit
from everthread.store.log import Log
from everthread.store.scripts.records import KINDS, Kind
from everthread.transfer.lines import Record
from everthread.transfer.write import VERSION, document_lines, export_lines

LEFT_OUT = "passwords, API keys and the vault's keys for providers"
NEVER = "links, sign-ins, the audit and the store's own secret"


async def store_lines(log: Log, *, tenant: str = "", secrets: bool = False) -> AsyncIterator[bytes]:
    """The lines of a whole store, or of one tenant. Outdated: as for `export_lines`."""
    what = f"tenant {tenant}" if tenant else "the whole store"
    audit.info("an operator exports %s%s", what, ", with secrets" if secrets else "")
    for owner in [one for one in await log.mirrors.everybody() if tenant in ("", one.tenant)]:
        async for line in document_lines(log, owner, tenant=True):
            yield line
    async for conversation in log.mirrors.conversations():
        if tenant in ("", conversation.tenant):
            async for line in export_lines(log, conversation, tenant=True, receipts=True):
                yield line
    for what in KINDS:
        async for line in _records(log, what, tenant, secrets=secrets):
            yield line


async def _records(log: Log, what: str, tenant: str, *, secrets: bool) -> AsyncIterator[bytes]:
    for row in await log.imports.records(what):
        if tenant in ("", row.get("tenant")) and (line := _line(what, row, secrets=secrets)):
            yield line


def _line(what: str, row: dict[str, Any], *, secrets: bool) -> bytes:
    """A record's line; nothing of what is secret."""
    kind = KINDS[what]
    if kind.secret is None and not secrets:
        return b""
    left_out = () if secrets else kind.secret or ()
    about = {name: _plain(value) for name, value in row.items() if name != "tenant" and name not in left_out}
    whose = {"tenant": row["tenant"]} if "tenant" in row else {}
    return json.dumps({"everthread": VERSION, **whose, what: about}, ensure_ascii=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    return base64.b64encode(bytes(value)).decode() if isinstance(value, bytes | bytearray | memoryview) else value


def check_record(record: Record) -> None:
    """BadFormat where a record is none."""
    row_of(record)


async def write_record(log: Log, record: Record) -> int:
    """Write a record, unless there is one with its key. How many were written."""
    return await log.imports.add_record(record.what, row_of(record))


def row_of(record: Record) -> dict[str, Any]:
    kind = KINDS[record.what]
    given = {**record.about, "tenant": record.tenant} if "tenant" in kind.texts else dict(record.about)
    if "password" in kind.texts:
        given.setdefault("password", "")  # which was left out: they sign in by a link, and choose another
    names = {*kind.texts, *kind.numbers, *kind.nullable, *kind.bytes}
    if wrong := names ^ given.keys():
        raise BadFormat(f"{sorted(wrong)[0]!r} is missing, or not known here", where=record.where)
    return {name: _stored(kind, name, given[name], record.where) for name in names}


def _stored(kind: Kind, name: str, value: object, where: str) -> Any:
    if name in kind.bytes and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise BadFormat(f"{name} is not base64", where=where) from None
    wanted = str if name in kind.texts else int
    is_right = (isinstance(value, wanted) and not isinstance(value, bool)) or (value is None and name in kind.nullable)
    if not is_right or name in kind.bytes:
        raise BadFormat(f"{name} is {value!r}, but must be {'text' if wanted is str else 'a number'}", where=where)
    return value
