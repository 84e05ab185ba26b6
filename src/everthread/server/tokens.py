"""Tokens: what a link, a sign-in or an API key is known by. 256 bits of chance each, of which the store has the hash.

A fast hash is enough, because there is nothing to guess: that is for passwords (`passwords`). The prefixes are there
for programs that look for secrets in places where none should be.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

LINK, SIGN_IN, KEY = "evl_", "evs_", "evk_"
_TOKEN = re.compile(r"ev[lsk]_[A-Za-z0-9_-]{43}")


class Secret(str):
    """A text that is not shown by whatever shows the values of a program: `repr`, tracebacks, `%r` in a log. Written
    out it is what it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(…)"


def make(prefix: str) -> Secret:
    return Secret(prefix + secrets.token_urlsafe(32))


def hash_of(token: str, prefix: str) -> str:
    """The hash by which a token is found; empty for what cannot be one of this kind."""
    if not token.startswith(prefix) or not _TOKEN.fullmatch(token):
        return ""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_of(sign_in: str) -> Secret:
    """What a page must send along with everything that it changes: made from the sign-in's token, which it cannot be
    turned back into, so that no other site knows it and none has to be kept."""
    return Secret(hmac.digest(sign_in.encode(), b"everthread csrf", "sha256").hex())


def csrf_fits(sign_in: str, given: str) -> bool:
    """Whether this is the one, found out in the same time wherever they differ."""
    return hmac.compare_digest(csrf_of(sign_in).encode(), given.encode("utf-8", "surrogatepass"))
