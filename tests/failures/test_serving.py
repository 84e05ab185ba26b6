"""Many conversations over three processes of the service, while processes, provider and PostgreSQL fail."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.failures.children import ROOT


@pytest.mark.parametrize(
    ("conversations", "messages", "kills", "restarts"),
    [(20, 3, 2, 1), pytest.param(500, 3, 6, 2, marks=pytest.mark.prove)],
    ids=["20 conversations", "500 conversations"],
)
def test_nothing_acknowledged_is_lost_or_doubled_and_every_listener_hears_the_log(
    conversations: int, messages: int, kills: int, restarts: int
) -> None:
    given = [str(one) for one in (conversations, messages, kills, restarts, 7)]
    command = [sys.executable, "-m", "tests.failures.serving", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert report["acknowledged"] == conversations * messages
    assert sum(report["ended"].values()) == kills
    assert sum(report["provider"].values()), "the provider behaved"
    assert report["reconnects"], "nobody had to come back"
    assert report["drawn"]
