"""`make test-live`: thirty turns with the real providers whose keys are in the environment. It costs money.

One conversation, with tools, goes from provider to provider, so that each is told what the others said. At most
EVERTHREAD_LIVE_DOLLARS are spent (0.50 unless set), by the prices that are known. It prints what the model calls came
to beside what was reckoned with, and ends with an error where a turn failed. Never part of `make test`, nor of CI.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from everthread import Everthread
from everthread.providers.choose import provider_key
from tests.live.conversation import SETTINGS, TOOLS, Account, converse

MODELS = (
    "anthropic:claude-haiku-4-5",
    "openai:gpt-5-mini",
    "openai-responses:gpt-5-mini",
    "google:gemini-2.5-flash",
)
DOLLARS = "EVERTHREAD_LIVE_DOLLARS"
NO_KEY = "There is no key to test with: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY."


def models(environ: Mapping[str, str]) -> list[str]:
    """Those whose provider's key is there."""
    return [model for model in MODELS if provider_key(model.partition(":")[0], environ, {})]


def dollars(environ: Mapping[str, str]) -> float:
    given = environ.get(DOLLARS, "0.50")
    try:
        if 0 < (most := float(given)) < float("inf"):
            return most
    except ValueError:
        pass
    raise SystemExit(f"{DOLLARS} is {given!r}, but must be an amount of US dollars, such as 0.50.")


async def hold(names: list[str], most: float) -> Account:
    """The conversation, in a store that is gone afterwards."""
    with TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder, 'live.db')}"
        async with Everthread.open(store, settings=SETTINGS, tools=TOOLS, keys={}) as et:
            talk = await et.begin(user="live")
            return await converse(talk, [{"model": name} for name in names], dollars=most)


def table(account: Account) -> Table:
    drawn = Table(title=f"{account.turns} turns, {account.spent:.4f} US dollars")
    drawn.add_column("model")
    for column in ("calls", "failed", "estimate", "input", "±", "predicted", "cache read", "±", "output", "price"):
        drawn.add_column(column, justify="right")
    for row in account.rows:
        figures = [f"{row.calls:,}", f"{row.failed:,}", f"{row.estimate:,}", f"{row.input:,}"]
        figures += [_off(row.estimate, row.input), f"{row.predicted:,}", f"{row.cache_read:,}"]
        figures += [_off(row.predicted, row.cache_read), f"{row.output:,}", f"{row.price:.4f}"]
        drawn.add_row(row.model, *figures)
    return drawn


def _off(reckoned: int, reported: int) -> str:
    """By how much what was reckoned with was too high."""
    return f"{reckoned / reported - 1:+.1%}" if reported else "–"


def main(environ: Mapping[str, str], console: Console) -> None:
    names = models(environ)
    if not names:
        raise SystemExit(NO_KEY)
    account = asyncio.run(hold(names, dollars(environ)))
    console.print(table(account))
    if account.problems:
        raise SystemExit("\n".join(account.problems))


if __name__ == "__main__":
    main(os.environ, Console(width=None if sys.stdout.isatty() else 140))
