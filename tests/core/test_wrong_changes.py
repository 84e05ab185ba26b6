"""A change of the canvas that cannot be read is refused with what would be right in its place."""

from __future__ import annotations

from typing import Any

import pytest

from everthread.core.canvas import change_of
from everthread.errors import BadValue

KINDS = "'put', 'update', 'remove', 'mode', 'tick', 'fill'"
TYPES = "'card', 'text', 'chart', 'table', 'image', 'list', 'code', 'form'"
CHART = {"type": "chart", "id": "c"}
FIELD = {"name": "size", "kind": "colour"}

CASES = {
    "no object": (7, f"do is one of {KINDS}"),
    "no kind": ({"id": "x"}, f"do is one of {KINDS}"),
    "an unknown kind": ({"do": "paint"}, f"'paint' at do; do is one of {KINDS}"),
    "a value of a few": ({"do": "mode", "mode": "huge"}, "at mode; it is one of 'chat', 'split', 'full', 'clear'"),
    "a field too few": ({"do": "tick", "id": "x"}, "`item`; its fields are id, item, done"),
    "a field too many": ({"do": "remove", "id": "x", "why": ""}, "`why`; its fields are id"),
    "no type of element": ({"do": "put", "element": {"id": "x"}}, f"at element; type is one of {TYPES}"),
    "another type of element": ({"do": "put", "element": {"type": "crd"}}, f"at element.type; type is one of {TYPES}"),
    "a field that it has not": ({"do": "put", "element": {**CHART, "kind": "pie"}}, "its fields are id, title, chart"),
    "inside an element": ({"do": "put", "element": {**CHART, "chart": "ring"}}, "it is one of 'line', 'bar', 'pie'"),
    "deep inside": (
        {"do": "put", "element": {"type": "form", "id": "f", "fields": [FIELD]}},
        "'colour' at element.fields[0].kind; it is one of 'text', 'long', 'number'",
    ),
    "a plain type": ({"do": "tick", "id": "x", "item": 2}, "Expected `str`, got `int` at item)"),
}


@pytest.mark.parametrize(("given", "told"), CASES.values(), ids=CASES)
def test_it_says_what_is_allowed_there(given: Any, told: str) -> None:
    with pytest.raises(BadValue) as caught:
        change_of(given)
    assert told in str(caught.value)
