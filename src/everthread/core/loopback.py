"""By which names a machine reaches itself, and nobody else reaches it."""

from __future__ import annotations

LOOPBACK = ("127.0.0.1", "localhost", "::1")
