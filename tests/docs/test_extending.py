"""The example programs of own loops and extension points print what they promise, and the page of own loops runs."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from everthread.core import strategies
from everthread.jobs.worker import Worker
from tests.docs.test_examples import ROOT, blocks, run

EXAMPLES = {
    "own_counter": "9 tokens in the turn, exact: True",
    "own_engine": "['Hello.'] True",
    "own_kinds": "After event 3: order A-2041 for 39.5\n['order.placed', 'assistant', 'user']\nFalse",
    "own_loop_openai": "umbrella: True, because: Rain in Rome from noon on.\n2 model calls, 200 tokens in, 40 out",
    "own_provider": "HELLO THERE",
    "own_strategy": "my own strategy: 4 messages sent, 60 left out\nby importance: the allergy is sent: True",
    "own_summariser": "Ana bakes; 12 cakes were spoken of.",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    program = (ROOT / "docs" / "examples" / f"{name}.py").read_text("utf-8")
    assert run(program, tmp_path).strip() == EXAMPLES[name]


def test_every_extension_point_has_its_example() -> None:
    page = (ROOT / "docs" / "howto" / "extending.md").read_text("utf-8")
    assert set(re.findall(r"\.\./examples/(\w+)\.py", page)) == set(EXAMPLES)


def test_every_look_up_of_the_tutorial_is_where_it_says() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    named = re.findall(r"^\| `([A-Z]\w+)\(", page, re.MULTILINE)
    assert named == ["At", "Back", "From", "Upto"]
    assert all(hasattr(strategies, name) for name in named)


async def test_the_page_of_own_loops_does_what_it_says(fresh_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "remind", lambda *_: None)
    names: dict[str, Any] = {"address": fresh_address}
    for block in blocks("docs/howto/own-loops.md", "python"):
        waiting = eval(compile(block, "own-loops", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(waiting):
            await waiting
