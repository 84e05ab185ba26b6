"""AES-256-GCM, bound to what a seal is for: whatever was altered in any bit, or moved elsewhere, is not opened."""

from __future__ import annotations

import secrets

from everthread.errors import MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    raise MissingExtra("server", otherwise=", or 'everthread[archive]' for archives alone") from None

NONCE = 12  # bytes
KEY = 32


def new_key() -> bytes:
    return secrets.token_bytes(KEY)


def seal(key: bytes, plain: bytes, bound_to: bytes, *, nonce: bytes | None = None) -> tuple[bytes, bytes]:
    """A nonce of chance, and what is sealed with it. `nonce`: one that this key is never used with again."""
    nonce = nonce or secrets.token_bytes(NONCE)
    return nonce, AESGCM(key).encrypt(nonce, plain, bound_to)


def opened(key: bytes, nonce: bytes, sealed: bytes, bound_to: bytes) -> bytes:
    """What was sealed. ValueError: it was altered, or is bound to something else."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, bound_to)
    except InvalidTag:
        raise ValueError("it was altered, or moved there from elsewhere") from None
