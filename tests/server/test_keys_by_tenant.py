"""A service gives each tenant's model calls that tenant's keys, a turn's and memory's alike, and never another's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from benchmarks.loopback.http import Answer, Asked
from benchmarks.loopback.openai import OpenAIServer
from everthread import Everthread, Talk, assistant, user
from everthread.core.accounts import operator
from everthread.errors import BadSeal, WrongKey
from everthread.server.vault import Vault
from tests.migrations.databases import run

ACME, RIVAL = "sk-of-acme-0123456789", "sk-of-rival-0123456789"


class ManyKeys(OpenAIServer):
    """A provider with several customers."""

    def _respond(self, asked: Asked) -> Answer:
        given = asked.headers.get("authorization", "").removeprefix("Bearer ")
        self._key = given if given in (ACME, RIVAL) else "of nobody"
        return super()._respond(asked)

    def keys(self) -> list[str]:
        """The keys of all that was asked since the last time."""
        found = [one.headers.get("authorization", "").removeprefix("Bearer ") for one in self.asked]
        self.asked.clear()
        return found


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ManyKeys]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with ManyKeys() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        yield server


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


class Service:
    def __init__(self, et: Everthread, vault: Vault, someone: str) -> None:
        self.et, self.vault, self.user = et, vault, someone

    def tenant(self, name: str) -> str:
        return f"{name}-of-{self.user}"

    async def talk(self, tenant: str) -> Talk:
        return await self.et.begin(user=self.user, tenant=self.tenant(tenant))

    async def put(self, tenant: str, key: str) -> None:
        await self.vault.put(operator(self.tenant(tenant)), "openai", key)


@pytest.fixture
async def service(address: str, someone: str, server: ManyKeys, environ: dict[str, str]) -> AsyncIterator[Service]:
    async def keys(tenant: str) -> Mapping[str, str]:
        return await vault.keys_of(tenant)

    settings = {"model": "openai:gpt-4o", "retries": 0}
    async with Everthread.open(address, settings=settings, keys=keys) as et:  # type: ignore[arg-type]
        vault = Vault(et.log, environ=environ)
        yield Service(et, vault, someone)


@pytest.mark.usefixtures("without_memory")
async def test_each_tenants_turns_are_made_with_its_own_key(service: Service, server: ManyKeys) -> None:
    await service.put("acme", ACME)
    await service.put("rival", RIVAL)
    for tenant, key in (("acme", ACME), ("rival", RIVAL), ("acme", ACME)):
        talk = await service.talk(tenant)
        assert str(await talk.say("Hello.")) == "Well, yes."
        assert server.keys() == [key]


async def test_memory_calls_with_the_same_key(service: Service, server: ManyKeys) -> None:
    await service.put("acme", ACME)
    await service.put("rival", RIVAL)
    for tenant, key in (("rival", RIVAL), ("acme", ACME)):
        talk = await service.talk(tenant)
        await talk.append(*[event for _ in range(12) for event in (user("Walnuts, please."), assistant("Noted."))])
        await service.et.memory.once(talk.conversation)
        assert set(server.keys()) == {key}


@pytest.mark.usefixtures("without_memory")
async def test_a_tenant_without_a_key_has_none_of_anothers(service: Service, server: ManyKeys) -> None:
    await service.put("acme", ACME)
    await (await service.talk("acme")).say("Hello.")
    server.keys()
    with pytest.raises(WrongKey):
        await (await service.talk("poor")).say("Hello.")
    assert server.keys() == ["none"]  # which is said to a server that may want no key


@pytest.mark.usefixtures("without_memory")
async def test_a_key_that_is_changed_or_removed_is_used_no_more(service: Service, server: ManyKeys) -> None:
    talk = await service.talk("acme")
    await service.put("acme", "sk-mistyped-0123456789")
    with pytest.raises(WrongKey):
        await talk.say("Hello.")
    await service.put("acme", ACME)
    await talk.resume()
    assert server.keys() == ["sk-mistyped-0123456789", ACME]
    await service.vault.remove(operator(service.tenant("acme")), "openai")
    with pytest.raises(WrongKey):
        await talk.say("And now?")
    assert server.keys() == ["none"]


@pytest.mark.usefixtures("without_memory")
async def test_with_a_seal_that_is_broken_nothing_is_sent(
    service: Service, server: ManyKeys, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", RIVAL)  # nor is another key taken in its place
    await service.put("acme", ACME)
    await run(address, f"UPDATE provider_keys SET nonce = sealed WHERE tenant = '{service.tenant('acme')}'")
    with pytest.raises(BadSeal):
        await (await service.talk("acme")).say("Hello.")
    assert server.keys() == []


@pytest.mark.usefixtures("without_memory")
async def test_a_tenant_without_keys_has_those_of_the_file(
    address: str, someone: str, server: ManyKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "everthread.toml"
    file.write_text(f'[keys]\nopenai = "{RIVAL}"\n')
    monkeypatch.setenv("EVERTHREAD_CONFIG", str(file))

    async def keys(tenant: str) -> Mapping[str, str]:
        return {"openai": ACME} if tenant == "acme" else {}

    async with Everthread.open(address, settings={"model": "openai:gpt-4o"}, keys=keys) as et:
        for tenant in ("acme", "default"):
            await (await et.begin(user=someone, tenant=tenant)).say("Hello.")
    assert server.keys() == [ACME, RIVAL]
