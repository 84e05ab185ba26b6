"""MEMORY.md in turns, through the service and its client."""

from __future__ import annotations

from tests.agent import conftest
from tests.client.suites import through

PATCHED = (vars(conftest),)  # whose `Everthread` opens a service, too

speak, model, talk = conftest.speak, conftest.model, conftest.talk

through(
    globals(),
    "agent.test_notes",
    but={},
)
