"""The tools that a model is told of."""

from __future__ import annotations

from everthread.context.offer import offer
from everthread.core.estimates import Measure
from everthread.core.request import Tool
from everthread.providers.models import model


def test_a_name_of_an_argument_that_is_no_text_is_refused_or_taken_as_one() -> None:
    odd = Tool(name="odd", schema={"type": "object", "properties": {5: {"type": "string"}}})
    offered, _ = offer((odd,), (), model("anthropic:claude-sonnet-4-6"), Measure(), budget=8_000)
    assert offered.tools == (odd,)
