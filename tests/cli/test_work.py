"""`everthread work` works for the users of a service as the service itself does: locked, with tenants' own keys, within
the limits of its users."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everthread import Everthread, Talk
from everthread.core.accounts import operator
from everthread.core.events import ModelCall
from everthread.core.schedules import scheduled
from everthread.server.vault import Vault
from everthread.testing.scripted import script
from tests.cli.conftest import Do


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERTHREAD_MODEL", "scripted:beside")
    monkeypatch.setenv("EVERTHREAD_MEMORY", "false")
    script("beside", "Very well.")


def _with(store: str, work: Callable[[Everthread, Talk], Awaitable[Any]], **settings: Any) -> Any:
    async def opened() -> Any:
        async with Everthread.open(store) as et:
            found = await et.conversations(user="ana")
            return await work(et, et.talk(found[0]) if found else await et.begin(user="ana", settings=settings))

    return asyncio.run(opened())


async def _due(et: Everthread, talk: Talk) -> None:
    now = datetime.now(UTC)
    new = scheduled("Now.", at=now - timedelta(seconds=1), now=now - timedelta(hours=1))
    await et.log.schedules.add(talk.conversation, new)


async def _said(_: Everthread, talk: Talk) -> list[str]:
    return [one.text for one in await talk.after(messages=True)]


def _worked(do: Do, *more: str) -> list[dict[str, Any]]:
    done = do("work", "--once", "--json", *more)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_only_operators_may_set_is_passed_over(do: Do, store: str) -> None:
    _with(store, _due, model="local:/models/of/a/user.gguf")
    assert [one["what"] for one in _worked(do)] == ["schedule"]
    assert _with(store, _said) == ["Now.", "Very well."]


def test_where_whoever_writes_is_the_operator_it_can_be_said_so(do: Do, store: str) -> None:
    _with(store, _due, model="local:/models/of/a/user.gguf")
    assert _worked(do, "--unlocked") == []
    assert "Very well." not in _with(store, _said)


def test_a_tenants_calls_are_made_with_its_own_keys(do: Do, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that cannot be opened ends in a failure, and not in a call with another's."""

    async def put(et: Everthread, talk: Talk) -> None:
        await Vault(et.log).put(operator("default"), "scripted", "sk-of-the-tenant-0123456789")
        await _due(et, talk)

    _with(store, put)
    monkeypatch.setenv("EVERTHREAD_VAULT_KEY", "A" * 43)
    assert _worked(do) == []
    assert "Very well." not in _with(store, _said)


def test_what_is_scheduled_is_held_to_the_tokens_of_a_day(do: Do, store: str) -> None:
    async def spend(et: Everthread, talk: Talk) -> None:
        await talk.append(ModelCall(model="scripted:beside", at=1, input=900, output=200))
        await _due(et, talk)

    _with(store, spend)
    assert _worked(do, "--tokens", "1000") == []
    assert _with(store, _said) == []
