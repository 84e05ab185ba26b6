"""The measurement of the bus counts what it sends, both ways."""

from __future__ import annotations

import pytest

from benchmarks.bus import EVERY, STREAMS, listen
from tests.postgres_server import Server


@pytest.mark.parametrize("how", ["postgres", "each"])
async def test_all_that_was_sent_is_heard(postgres: Server, how: str) -> None:
    found = await listen(how, how, postgres.create_database(f"bus_{how}"), 3 * EVERY)
    assert STREAMS < found.sent <= 4 * STREAMS
    assert found.heard == found.sent
    assert 0 < found.p50 <= found.p99 <= found.most
