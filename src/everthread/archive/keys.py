"""Encryption of archives: a key for each, kept in the catalogue, sealed with a master key that is not in the database.

A part is sealed in pieces of a megabyte, each bound to its archive, its part and its place in it, and to whether it is
the last: nothing can be altered, exchanged, cut off or moved to another archive. Whoever erases a conversation destroys
its archive's key, and with it every copy of the file, wherever it is (docs/decisions/0049).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from everthread.errors import MissingExtra, NoArchiveKey, NoVaultKey
from everthread.sealing import master_keys
from everthread.sealing.master_keys import REMEDY, MasterKeys
from everthread.store.beside.archives import Archive

if TYPE_CHECKING:
    from everthread.store.verbs.archives import Archives

PIECE = 1024 * 1024
TAG = 16  # bytes that a seal adds


class DataKey:
    """The key of one archive."""

    def __init__(self, one: Archive, key: bytes) -> None:
        self._aead = _aead()
        self._about, self._key = (one.tenant, one.conversation, one.archive), key

    def seal(self, place: int, part: str, data: bytes) -> bytes:
        """A part, sealed piece by piece. `place`: which part it is; with the piece it makes a nonce of its own."""
        pieces = [data[start : start + PIECE] for start in range(0, max(1, len(data)), PIECE)]
        return b"".join(
            self._aead.seal(self._key, piece, self._bound_to(part, n, len(pieces)), nonce=_nonce(place, n))[1]
            for n, piece in enumerate(pieces)
        )

    def opened(self, place: int, part: str, data: bytes) -> bytes:
        """ValueError: it is not what was sealed."""
        size = PIECE + TAG
        pieces = [data[start : start + size] for start in range(0, max(1, len(data)), size)]
        return b"".join(
            self._aead.opened(self._key, _nonce(place, n), piece, self._bound_to(part, n, len(pieces)))
            for n, piece in enumerate(pieces)
        )

    def _bound_to(self, part: str, number: int, of: int) -> bytes:
        return msgspec.json.encode(["everthread archive part", *self._about, part, number, of])


def made_for(one: Archive, environ: Mapping[str, str]) -> tuple[Archive, DataKey]:
    """A new key for an archive, and its row of the catalogue with that key sealed in it."""
    key, masters = _aead().new_key(), _masters(one, environ, make=True)
    return _sealed(one, key, masters), DataKey(one, key)


def key_of(one: Archive, environ: Mapping[str, str]) -> DataKey | None:
    """The key of an archive; None where it is not encrypted. NoArchiveKey: it cannot be opened."""
    if not one.key_id:
        return None
    return DataKey(one, _unsealed(one, _masters(one, environ)))


async def reseal_all(catalogue: Archives, masters: MasterKeys) -> int:
    """Seal the keys of all archives with the newest master key; how many were sealed with another."""
    newest, count, last = next(iter(masters)), 0, None
    while page := await catalogue.all(last):
        for one in page:
            if one.key_id and one.key_id != newest:
                count += await catalogue.reseal(_sealed(one, _unsealed(one, masters), masters), was=one)
        last = page[-1]
    return count


def _sealed(one: Archive, key: bytes, masters: MasterKeys) -> Archive:
    id = next(iter(masters))
    nonce, sealed = _aead().seal(masters[id], key, _bound_to(one, id))
    return one._replace(key_id=id, nonce=nonce, sealed=sealed)


def _unsealed(one: Archive, masters: MasterKeys) -> bytes:
    if one.key_id not in masters:
        raise NoArchiveKey(one.archive, f"its master key {one.key_id} is missing: {REMEDY}")
    try:
        key: bytes = _aead().opened(masters[one.key_id], one.nonce, one.sealed, _bound_to(one, one.key_id))
    except ValueError as problem:
        raise NoArchiveKey(one.archive, f"its key in the catalogue is not what it was: {problem}") from None
    return key


def _masters(one: Archive, environ: Mapping[str, str], *, make: bool = False) -> MasterKeys:
    try:
        return master_keys.read(environ or os.environ, make=make)
    except NoVaultKey as problem:
        raise NoArchiveKey(one.archive, problem.why) from None


def _bound_to(one: Archive, key_id: str) -> bytes:
    return msgspec.json.encode(["everthread archive key", one.tenant, one.conversation, one.archive, key_id])


def _nonce(place: int, piece: int) -> bytes:
    """No two pieces of an archive have the same, and no two archives have the same key."""
    return place.to_bytes(4, "big") + piece.to_bytes(8, "big")


def _aead() -> ModuleType:
    """Imported where an archive is encrypted: others need no package for it."""
    try:
        from everthread.sealing import aead
    except MissingExtra:
        raise MissingExtra("archive") from None
    return aead
