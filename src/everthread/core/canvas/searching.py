"""What a person would search for of a change of the canvas: titles and texts, and what was filled in. Neither what was
done (`put`, `card`), nor ids and kinds, by which everything that was ever drawn would be found."""

from __future__ import annotations

from typing import Any

_NOT_READ = frozenset(("id", "type", "chart", "kind", "blob", "media_type"))  # fields of elements that say nothing
_SAYS = {"put": "element", "update": "fields", "fill": "values"}  # what of a change holds texts, by what it does


def texts_in(changes: object) -> list[str]:
    """The texts in the changes that an event holds."""
    found = [one for one in changes if isinstance(one, dict)] if isinstance(changes, list) else []
    return [text for one in found for text in _texts(one.get(_SAYS.get(str(one.get("do")), "")))]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for name, inner in value.items() if name not in _NOT_READ for text in _texts(inner)]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else []
