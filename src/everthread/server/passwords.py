"""Passwords: argon2id, as its library recommends it, in a thread and only a few at a time.

A hash says with which parameters it was made, so that a password is hashed anew when these have changed. Where there
is nothing to hold a password against, it is held against a hash of chance: who waits for the answer learns nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import unicodedata
from functools import cached_property

from everthread.errors import BadPassword, MissingExtra

try:
    from argon2 import PasswordHasher
    from argon2.exceptions import Argon2Error, InvalidHashError
except ImportError:
    raise MissingExtra("server") from None

LEAST, MOST = 10, 1_000  # characters
AT_ONCE = 2  # that are hashed at a time: each takes 64 MiB and a core


class Passwords:
    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def hash(self, password: str) -> str:
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, _bytes(password))

    async def fits(self, password: str, hash: str) -> bool:
        """Whether it is the one; never where there is no hash, but only after as long."""
        async with self._turns:
            return await asyncio.to_thread(self._fits, password, hash)

    def is_outdated(self, hash: str) -> bool:
        """Whether it was made with other parameters than those of today."""
        return self._hasher.check_needs_rehash(hash)

    def _fits(self, password: str, hash: str) -> bool:
        nobodys = self._nobodys  # made the first time, whoever is asked for
        try:
            self._hasher.verify(hash or nobodys, _bytes(password))
            return bool(hash)
        except (Argon2Error, InvalidHashError):
            return False

    @cached_property
    def _nobodys(self) -> str:
        return self._hasher.hash(secrets.token_bytes(32))


def check(password: str, user: str) -> None:
    """Whether a password may be set for a user: BadPassword."""
    if len(password) < LEAST:
        raise BadPassword(f"it has fewer than {LEAST} characters")
    if len(password) > MOST:
        raise BadPassword(f"it has more than {MOST} characters")
    if len(set(password)) == 1:
        raise BadPassword("it is one character again and again")
    if _folded(user) == _folded(password):
        raise BadPassword("it is the user's name")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _bytes(password: str) -> bytes:
    """The same bytes for the same characters, however a keyboard composes them."""
    return unicodedata.normalize("NFKC", password[: MOST + 1]).encode("utf-8", "surrogatepass")
