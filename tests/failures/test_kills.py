"""Processes killed inside redact, erase, approve, resume and updates of memory leave nothing half-done."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.failures.children import ROOT


@pytest.mark.parametrize(("kills", "seed"), [(10, 1), pytest.param(100, 2, marks=pytest.mark.prove)])
def test_nothing_is_half_done_after_a_kill_and_doctor_is_honest(fresh_address: str, kills: int, seed: int) -> None:
    """A hundred on each store make two hundred."""
    command = [sys.executable, "-m", "tests.failures.killing", fresh_address, str(kills), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert sum(report["killed inside"].values()) == kills
    assert report["half-done when killed"], "no kill has hit anything"
