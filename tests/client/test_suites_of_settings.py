"""Settings and the account of a context, through the service and its client."""

from __future__ import annotations

from tests.client.suites import through

through(globals(), "contract.test_explain", "contract.test_outcomes_told", but={})
