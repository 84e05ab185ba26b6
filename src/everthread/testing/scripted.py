"""A model for tests and demonstrations: `scripted:NAME` says what `script` gave it, offline and the same every time."""

from __future__ import annotations

from everthread.providers.scripted.client import broken, call, left, script, thought

__all__ = ["broken", "call", "left", "script", "thought"]
