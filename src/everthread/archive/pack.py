"""The file of an archive: one conversation, self-describing, every part of it with its checksum.

    magic                 8 bytes
    length of the header  4 bytes, big-endian
    header                JSON: format, version, which archive of which conversation, whether it is encrypted, and for
                          each part its name, its sizes and the SHA-256 of its bytes as they stand in the file
    parts                 one after another: a table each, column by column (MessagePack, zstd), and where the archive
                          is encrypted, sealed in pieces with the archive's own key
    checksum              SHA-256 of all before it

Numbers of a column stand as differences from one row to the next, which compress to almost nothing. Any byte that was
altered, and any that is missing, is found before anything is read of a part.
"""

from __future__ import annotations

import hashlib
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import msgspec
import zstandard

from everthread.archive.keys import DataKey
from everthread.errors import DamagedArchive, ForeignArchive, NewerArchive
from everthread.store.beside.archives import Archive
from everthread.store.scripts.rows import PARTS, Rows, columns_of

MAGIC = b"EVTARCH\n"
FORMAT = "everthread-archive"
VERSION = 1
LEVEL = 6  # of zstd: half-way between speed and size
LENGTH, SUM = 4, 32  # bytes


class PartHeader(msgspec.Struct, frozen=True, kw_only=True):
    """`size`: of its bytes in the file. `raw`: of these when they are unpacked. `sha256`: of its bytes in the file."""

    name: str
    rows: int
    size: int
    raw: int
    sha256: str


class FileHeader(msgspec.Struct, frozen=True, kw_only=True):
    """`tenant` and `user` are empty where the archive is encrypted."""

    format: str
    version: int
    archive: str
    conversation: str
    tenant: str = ""
    user: str = ""
    made: int
    encrypted: bool
    parts: list[PartHeader]


class _Version(msgspec.Struct):
    format: str
    version: int


class _Column(NamedTuple):
    """`how`: 1 where the values are differences, 0 where they are as they were."""

    how: int
    values: list[Any]


def pack(one: Archive, rows: Rows, key: DataKey | None) -> bytes:
    """The file of an archive. `key`: with which it is encrypted."""
    parts, headers = [], []
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    for place, name in enumerate(PARTS):
        raw = msgspec.msgpack.encode([columns_of(name), _columns(rows[name])])
        data = compressor.compress(raw)
        data = key.seal(place, name, data) if key else data
        headers.append(PartHeader(name=name, rows=len(rows[name]), size=len(data), raw=len(raw), sha256=_sum(data)))
        parts.append(data)
    whose = {} if key else {"tenant": one.tenant, "user": one.user}
    header = FileHeader(
        format=FORMAT,
        version=VERSION,
        archive=one.archive,
        conversation=one.conversation,
        made=one.made,
        encrypted=key is not None,
        parts=headers,
        **whose,
    )
    written = msgspec.json.encode(header)
    whole = b"".join([MAGIC, len(written).to_bytes(LENGTH, "big"), written, *parts])
    return whole + hashlib.sha256(whole).digest()


def unpack(one: Archive, data: bytes, key: DataKey | None) -> Rows:
    """All rows of an archive, once everything about its file was found to be right."""
    header, rest = _header(one, data)
    whose = ("", "") if header.encrypted else (one.tenant, one.user)
    found = (header.archive, header.conversation, (header.tenant, header.user))
    if found != (one.archive, one.conversation, whose) or header.encrypted != (key is not None):
        raise ForeignArchive(one.archive)
    rows, start = Rows(), 0
    for place, part in enumerate(header.parts):
        rows[part.name] = _part(one, place, part, rest[start : start + part.size], key)
        start += part.size
    if start != len(rest) or tuple(rows) != PARTS:
        raise DamagedArchive(one.archive, "its parts are not those that it should have")
    if [row[:2] for row in rows["conversations"]] != [(one.conversation, one.user)]:
        raise ForeignArchive(one.archive)
    return rows


def hash_of(data: bytes) -> str:
    """What the catalogue knows a file by."""
    return hashlib.sha256(data).hexdigest()


def _header(one: Archive, data: bytes) -> tuple[FileHeader, memoryview]:
    """The header and what follows it, up to the checksum, which is right."""
    start = len(MAGIC) + LENGTH
    whole, checksum = memoryview(data)[:-SUM], data[-SUM:]
    if len(data) < start + SUM or hashlib.sha256(whole).digest() != checksum:
        raise DamagedArchive(one.archive, "its checksum is wrong")
    length = int.from_bytes(data[len(MAGIC) : start], "big")
    try:
        told = msgspec.json.decode(whole[start : start + length], type=_Version)
        if data[: len(MAGIC)] != MAGIC or told.format != FORMAT:
            raise DamagedArchive(one.archive, "it is no archive")
        if told.version > VERSION:
            raise NewerArchive(one.archive, version=told.version, known=VERSION)
        return msgspec.json.decode(whole[start : start + length], type=FileHeader), whole[start + length :]
    except msgspec.MsgspecError as problem:
        raise DamagedArchive(one.archive, f"its header cannot be read: {problem}") from None


def _part(one: Archive, place: int, part: PartHeader, data: memoryview, key: DataKey | None) -> list[tuple[Any, ...]]:
    """The rows of a part."""
    if len(data) != part.size or _sum(data) != part.sha256:
        raise DamagedArchive(one.archive, f"the checksum of its part {part.name} is wrong")
    if part.name not in PARTS:
        raise NewerArchive(one.archive, version=VERSION + 1, known=VERSION)
    try:
        plain = key.opened(place, part.name, bytes(data)) if key else data
        if zstandard.frame_content_size(plain) != part.raw:  # which the decompressor would believe
            raise ValueError("it is not as large as the header says")
        raw = zstandard.ZstdDecompressor().decompress(plain)
        names, columns = msgspec.msgpack.decode(raw, type=tuple[tuple[str, ...], list[_Column]])
        rows = list(zip(*map(_values, columns), strict=True)) if part.rows else []
    except (TypeError, ValueError, zstandard.ZstdError, msgspec.MsgspecError) as problem:
        raise DamagedArchive(one.archive, f"its part {part.name} cannot be read: {problem}") from None
    if names != columns_of(part.name):
        raise NewerArchive(one.archive, version=VERSION + 1, known=VERSION)
    if len(rows) != part.rows:
        raise DamagedArchive(one.archive, f"its part {part.name} has {len(rows)} of {part.rows} rows")
    return rows


def _columns(rows: list[tuple[Any, ...]]) -> list[_Column]:
    return [_column(list(values)) for values in zip(*rows, strict=True)]


def _column(values: list[Any]) -> _Column:
    """Whole numbers as differences, all else as it is."""
    if set(map(type, values)) != {int}:
        return _Column(0, values)
    return _Column(1, [values[0], *(after - before for before, after in pairwise(values))])


def _values(column: _Column) -> list[Any]:
    return list(accumulate(column.values)) if column.how else column.values


def _sum(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
