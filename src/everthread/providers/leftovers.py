"""Fields of a foreign format that our values have no place for: kept as a note, so that the way back is exact.

A note is one JSON object in `meta` under the provider's name. Its entry `fields` holds fields of the original
object as they were; writers lay them over what they made. Anything else under that name, such as a text that the
provider wants back, is left alone: a text without the entry asked for is not a note.
"""

from __future__ import annotations

import json
from typing import Any


def note(provider: str, *, fields: dict[str, Any] | None = None, **entries: Any) -> dict[str, str]:
    """The `meta` that holds these entries; empty where there is nothing to note. `fields` comes first: a note is known
    by it, and has no size (`core.tokens`). Texts come before it: the provider wants them back, so they have one."""
    texts = {name: value for name, value in entries.items() if isinstance(value, str)}
    others = {name: value for name, value in entries.items() if value is not None and name not in texts}
    if not (fields or texts or others):
        return {}
    return {provider: json.dumps({**texts, "fields": fields or None, **others}, ensure_ascii=False)}


def noted(meta: dict[str, str], provider: str, entry: str = "fields") -> dict[str, Any] | None:
    """An entry of the note, or None where there is no such note."""
    try:
        kept = json.loads(meta.get(provider, "null"))
    except ValueError:
        return None
    value = kept.get(entry) if isinstance(kept, dict) else None
    return value if isinstance(value, dict) else None


def left(given: dict[str, Any], *known: str) -> dict[str, Any]:
    """The fields besides the known ones; null says no more than an absent field."""
    return {name: value for name, value in given.items() if name not in known and value is not None}


def overlaid(made: dict[str, Any], fields: dict[str, Any] | None) -> dict[str, Any]:
    """What was made, the noted fields laid over it, one level deep: `image_url` gets back its `detail`."""
    out = dict(made)
    for name, value in (fields or {}).items():
        below = out.get(name)
        out[name] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return out
