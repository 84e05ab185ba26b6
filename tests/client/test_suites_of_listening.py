"""Listening, through the service and its client."""

from __future__ import annotations

from tests.client.suites import through

through(globals(), "contract.test_listen", but={})
