"""What the service and its client have to agree on is written down once, so that they cannot differ."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import everthread

AGREED = ["/api", "everthread-user", "everthread-warning", "text/event-stream", "localhost", 8321, 1012]


@pytest.fixture(scope="module")
def constants() -> list[object]:
    """All constants of the package's code, strings in lower case."""
    trees = [ast.parse(path.read_text()) for path in Path(everthread.__file__).parent.rglob("*.py")]
    values = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [value.lower() if isinstance(value, str) else value for value in values]


@pytest.mark.parametrize("agreed", AGREED)
def test_what_is_agreed_on_is_written_once(constants: list[object], agreed: object) -> None:
    assert constants.count(agreed) == 1
