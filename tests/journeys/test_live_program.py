"""What `make test-live` does with the real providers, done with servers on this machine."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.model import Called, Replies, Script
from tests.journeys.stage import Stage, staged
from tests.live.__main__ import DOLLARS, MODELS, NO_KEY, main, models
from tests.live.conversation import ONE_CALL, SETTINGS, TOOLS, TURNS, Account, converse
from tests.providers.behaviours import KEY, failing

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def replies(turns: int) -> list[Replies]:
    """A model that does what it is asked, in order."""
    asked: list[list[Replies]] = [
        [[Called("read_journal", '{"day": 1}')], ["Three knots."]],
        [[Called("distance", '{"knots": 7, "hours": 2}'), Called("distance", '{"knots": 9, "hours": 2}')], ["14, 18."]],
        [[Called("crew_member", '{"name": "Ana"}'), Called("crew_member", '{"name": "Bo"}')], ["Of the crew."]],
        [["It is noted."]],
        [[Called("crew_member", '{"name": "Dora"}')], ["There is no Dora."]],
        [["The last one."]],
    ]
    return [reply for turn in range(turns) for reply in asked[turn % len(asked)]]


async def held(stage: Stage, *, dollars: float) -> Account:
    stage.cast.turn(replies(TURNS))
    talk = await stage.et.begin(user="live")
    return await converse(talk, [stage.settings(model) for model in MODELS], dollars=dollars)


async def test_thirty_turns_go_from_provider_to_provider_and_are_accounted_for(address: str) -> None:
    async with staged(address, SETTINGS, tools=TOOLS) as stage:
        account = await held(stage, dollars=0.50)
        assert account.problems == []
        assert stage.refused == []
        assert account.turns == TURNS
        assert [row.model for row in account.rows] == list(MODELS)
        for row in account.rows:
            spent = stage.server_of(row.model).books.spent
            assert (row.calls, row.failed) == (len(spent), 0)
            assert (row.input, row.cache_read) == (sum(one.total for one in spent), sum(one.read for one in spent))
            assert row.price > 0
        assert account.spent == pytest.approx(sum(row.price for row in account.rows))
        assert account.spent < 0.50


async def test_it_ends_before_it_costs_more_than_it_may(address: str) -> None:
    async with staged(address, SETTINGS, tools=TOOLS) as stage:
        account = await held(stage, dollars=ONE_CALL + 0.01)
        assert 0 < account.turns < TURNS
        assert account.spent <= ONE_CALL + 0.01
        assert account.problems[-1].startswith(f"It was ended after {account.turns} turns")


async def test_a_turn_that_fails_is_told_and_the_next_one_is_held(address: str) -> None:
    async with staged(address, SETTINGS, tools=TOOLS) as stage:
        stage.servers["anthropic"].faults.append(failing(403, "not you"))
        account = await held(stage, dollars=0.50)
        assert account.turns == TURNS
        assert [account.problems[0], "not you" in account.problems[1]] == ["Turn 1 is interrupted.", True]
        assert len(account.problems) == 2
        assert sum(row.failed for row in account.rows) == 1


# -- the program ---------------------------------------------------------------------------------------------


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The address of a server in a thread of its own, with its own event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = AnthropicServer(script, key=KEY)
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    try:
        yield server.address
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_the_program_prints_what_the_model_calls_came_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Script(replies(TURNS))) as address:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        console = Console(file=io.StringIO(), width=140)
        main(os.environ, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "30 turns" in printed
    assert "claude-haiku-4-5" in printed


def test_without_a_key_it_says_so_and_fails() -> None:
    environ = {name: value for name, value in os.environ.items() if name not in KEYS}
    program = [sys.executable, "-m", "tests.live"]
    done = subprocess.run(program, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", NO_KEY)


def test_a_cap_that_is_no_amount_is_refused() -> None:
    for given in ("much", "0", "-1", "inf", "nan"):
        with pytest.raises(SystemExit, match="must be an amount of US dollars"):
            main({"OPENAI_API_KEY": "k", DOLLARS: given}, Console())


def test_only_providers_with_a_key_take_part() -> None:
    assert models({}) == []
    assert models({"GEMINI_API_KEY": "k"}) == ["google:gemini-2.5-flash"]
    assert models({"OPENAI_API_KEY": "k"}) == ["openai:gpt-5-mini", "openai-responses:gpt-5-mini"]
