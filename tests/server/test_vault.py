"""The vault: providers' keys that only their tenant can use, and nobody can read in the database."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everthread import wire
from everthread.core.accounts import ProviderKey, operator
from everthread.errors import BadSeal, BadValue, Forbidden, NoVaultKey
from everthread.sealing import master_keys
from everthread.server import known
from everthread.server.vault import Vault
from everthread.store.beside.keys import SealedKey
from tests.contract.support import files_of
from tests.migrations.databases import run
from tests.server.identities import Place

KEY = "sk-walnut-0123456789-abcd"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def vault(place: Place, environ: dict[str, str]) -> Vault:
    return vault_of(place, environ)


def vault_of(place: Place, environ: dict[str, str]) -> Vault:
    """A vault as another process opens it."""
    return Vault(place.log, environ=environ, clock=lambda: place.seconds)


async def only(place: Place) -> SealedKey:
    [one] = await place.log.accounts.sealed(place.tenant)
    return one


async def test_a_key_comes_back_to_its_tenant_and_is_shown_by_its_end(place: Place, vault: Vault) -> None:
    admin = await place.admin()
    await vault.put(admin, "openai", f" {KEY}\n")
    await vault.put(admin, "localhost:8080", "short")
    assert dict(await vault.keys_of(place.tenant)) == {"openai": KEY, "localhost:8080": "short"}
    assert await vault.keys_of(f"{place.tenant}-x") == {}
    short, long = await vault.all(admin)
    assert (long.provider, long.ends, short.provider, short.ends) == ("openai", "abcd", "localhost:8080", "")
    assert wire.loads(ProviderKey, wire.dumps(long)) == long
    await vault.put(admin, "openai", "another-key-altogether")
    assert (await vault.keys_of(place.tenant))["openai"] == "another-key-altogether"
    await vault.remove(admin, "openai")
    assert dict(await vault.keys_of(place.tenant)) == {"localhost:8080": "short"}
    acts = sorted((act, user) for _, act, user in await place.acts() if "provider" in act)
    assert acts == [("put_provider_key", "")] * 3 + [("remove_provider_key", "")]


async def test_only_administrators_put_see_and_remove_keys(place: Place, vault: Vault) -> None:
    ana = (await place.join("ana")).caller
    for ask in (vault.put(ana, "openai", KEY), vault.all(ana), vault.remove(ana, "openai"), vault.rotate(ana)):
        with pytest.raises(Forbidden):
            await ask
    with pytest.raises(Forbidden):
        await vault.rotate(await place.admin())


@pytest.mark.parametrize("bad", ["", "  ", "ü", "a\nb", "x" * 4_001])
async def test_what_is_no_key_is_refused_without_being_shown(place: Place, vault: Vault, bad: str) -> None:
    with pytest.raises(BadValue) as refused:
        await vault.put(place.operator, "openai", bad)
    assert "Secret(…)" in str(refused.value)


async def test_no_key_is_in_the_database_a_log_an_error_or_what_is_shown(
    place: Place, vault: Vault, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await vault.put(place.operator, "openai", KEY)
    said = [await place.dump(), caplog.text, repr(await vault.keys_of(place.tenant)), repr(vault)]
    said.append(repr(await vault.all(place.operator)))
    await run(place.address, f"UPDATE provider_keys SET provider = 'x' WHERE tenant = '{place.tenant}'")
    place.later(seconds=known.FRESH)
    with pytest.raises(BadSeal) as refused:
        await vault.keys_of(place.tenant)
    said.append(repr(refused.value) + repr(refused.value.__cause__))
    if engine == "sqlite":
        said += [data.decode("latin-1") for data in files_of(place.address).values()]
    assert [text for text in said if "walnut" in text] == []


async def test_a_row_from_elsewhere_or_altered_in_a_bit_is_refused(place: Place, vault: Vault) -> None:
    await vault.put(place.operator, "openai", KEY)
    other = f"{place.tenant}-x"
    await vault.put(operator(other), "openai", "sk-of-somebody-else-altogether")
    mine, [theirs] = await only(place), await place.log.accounts.sealed(other)
    tampered = [
        theirs._replace(tenant=place.tenant),
        mine._replace(sealed=bytes([mine.sealed[0] ^ 1]) + mine.sealed[1:]),
        mine._replace(sealed=mine.sealed[:-1] + bytes([mine.sealed[-1] ^ 128])),
        mine._replace(nonce=bytes(12)),
        mine._replace(nonce=b""),
        mine._replace(sealed=b""),
    ]
    for row in tampered:
        await place.log.accounts.put_sealed(row, None)
        place.later(seconds=known.FRESH)
        with pytest.raises(BadSeal):
            await vault.keys_of(place.tenant)
        assert [one.usable for one in await vault.all(place.operator)] == [False]
    await place.log.accounts.put_sealed(mine._replace(provider="anthropic"), None)
    place.later(seconds=known.FRESH)
    with pytest.raises(BadSeal):
        await vault.keys_of(place.tenant)
    await place.log.accounts.forget_sealed(place.tenant, "anthropic", None)
    await place.log.accounts.put_sealed(mine, None)
    assert dict(await vault.keys_of(place.tenant)) == {"openai": KEY}


async def test_no_two_tenants_and_providers_are_sealed_alike(place: Place, vault: Vault) -> None:
    """Whose it is goes in as a list: no name can be written so that it looks like two."""
    tricky = f'{place.tenant}","x'
    await vault.put(operator(tricky), "openai", KEY)
    [one] = await place.log.accounts.sealed(tricky)
    await place.log.accounts.put_sealed(one._replace(tenant=place.tenant, provider='x","openai'), None)
    with pytest.raises(BadSeal):
        await vault.keys_of(place.tenant)


# -- the master key ------------------------------------------------------------------------------------------------


async def test_the_file_is_made_once_for_this_account_alone(
    place: Place, environ: dict[str, str], vault: Vault
) -> None:
    path = master_keys.path_of(environ)
    assert await vault.keys_of(place.tenant) == {}
    assert await vault.all(place.operator) == []
    assert not path.exists()  # looking makes none
    others = [vault_of(place, environ) for _ in range(8)]
    names = [f"provider-{number}" for number in range(8)]
    await asyncio.gather(*(one.put(place.operator, name, KEY) for one, name in zip(others, names, strict=True)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["vault.key"]
    assert sorted(await vault_of(place, environ).keys_of(place.tenant)) == names
    assert str(path).startswith(environ["XDG_CONFIG_HOME"])


def test_the_key_is_on_disk_with_its_name_before_anything_is_sealed_with_it(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's bytes first, then the folder that has its new name, and the folders that were made for it."""
    synced: list[tuple[str, list[str]]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        inside = sorted(one.name for one in path.iterdir() if one.name == "vault.key") if path.is_dir() else []
        synced.append((path.name if path.is_dir() else "the file", inside))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    folder = Path(environ["XDG_CONFIG_HOME"])
    master_keys.read(environ, make=True)
    own, key = [folder.parent.name, "config"], ("everthread", ["vault.key"])
    assert [name for name, _ in synced] == [*own, "the file", "everthread"]
    assert synced[-1] == key
    synced.clear()
    master_keys.put_first(environ)
    assert [name for name, _ in synced] == ["the file", "everthread"]


async def test_a_file_that_others_can_read_is_not_used(place: Place, environ: dict[str, str], vault: Vault) -> None:
    await vault.put(place.operator, "openai", KEY)
    os.chmod(master_keys.path_of(environ), 0o640)
    place.later(seconds=known.FRESH)
    with pytest.raises(NoVaultKey, match="chmod 600"):
        await vault.keys_of(place.tenant)


async def test_without_its_master_key_nothing_is_opened(place: Place, environ: dict[str, str], vault: Vault) -> None:
    await vault.put(place.operator, "openai", KEY)
    id = (await only(place)).key_id
    master_keys.path_of(environ).unlink()
    place.later(seconds=known.FRESH)
    with pytest.raises(NoVaultKey, match=id):
        await vault.keys_of(place.tenant)
    assert [one.usable for one in await vault.all(place.operator)] == [False]


@pytest.mark.parametrize("written", ["nonsense", "x" * 43 + "!", base64.urlsafe_b64encode(b"short").decode(), ","])
async def test_a_master_key_that_is_none_is_told_without_being_shown(place: Place, written: str) -> None:
    vault = vault_of(place, {"EVERTHREAD_VAULT_KEY": written})
    with pytest.raises(NoVaultKey, match="EVERTHREAD_VAULT_KEY") as refused:
        await vault.put(place.operator, "openai", KEY)
    assert "nonsense" not in str(refused.value)


async def test_several_master_keys_open_and_the_newest_seals(place: Place) -> None:
    old, new = master_keys.new_key(), master_keys.new_key()
    await vault_of(place, {"EVERTHREAD_VAULT_KEY": old}).put(place.operator, "openai", KEY)
    before = await only(place)
    both = vault_of(place, {"EVERTHREAD_VAULT_KEY": f"{new}, {old}="})
    assert dict(await both.keys_of(place.tenant)) == {"openai": KEY}
    assert await only(place) == before
    with pytest.raises(NoVaultKey, match="put a new one before it"):
        await both.rotate(place.operator, new_key=True)


@pytest.fixture
async def alone(fresh_address: str) -> Any:
    """A store without others' keys: those of all tenants are encrypted anew."""
    from everthread.store.open import open_log
    from tests.contract.support import Clock

    clock = Clock()
    log = await open_log(fresh_address, clock=clock)
    yield Place(log, clock, "acme", fresh_address)
    await log.close()


async def test_rotating_encrypts_all_anew_and_the_old_key_can_go(alone: Place) -> None:
    old, new = master_keys.new_key(), master_keys.new_key()
    before = vault_of(alone, {"EVERTHREAD_VAULT_KEY": old})
    await before.put(alone.operator, "openai", KEY)
    await before.put(operator("rival"), "openai", "sk-of-the-rival")
    both = vault_of(alone, {"EVERTHREAD_VAULT_KEY": f"{new} {old}"})
    assert await both.rotate(alone.operator) == 2
    assert await both.rotate(alone.operator) == 0
    after = vault_of(alone, {"EVERTHREAD_VAULT_KEY": new})
    assert dict(await after.keys_of("acme")) == {"openai": KEY}
    assert dict(await after.keys_of("rival")) == {"openai": "sk-of-the-rival"}
    alone.later(seconds=known.FRESH)
    with pytest.raises(NoVaultKey):
        await before.keys_of("acme")


async def test_the_file_gets_a_new_key_before_the_others(alone: Place, environ: dict[str, str]) -> None:
    vault = vault_of(alone, environ)
    await vault.put(alone.operator, "openai", KEY)
    assert await vault.rotate(alone.operator, new_key=True) == 1
    path = master_keys.path_of(environ)
    assert len(path.read_text().split()) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text(path.read_text().split()[0])
    assert dict(await vault_of(alone, environ).keys_of("acme")) == {"openai": KEY}


async def test_a_key_that_was_put_in_meanwhile_is_not_replaced_by_the_old_one(alone: Place) -> None:
    old, new = master_keys.new_key(), master_keys.new_key()
    vault = vault_of(alone, {"EVERTHREAD_VAULT_KEY": f"{new} {old}"})
    await vault_of(alone, {"EVERTHREAD_VAULT_KEY": old}).put(alone.operator, "openai", KEY)
    stale = await only(alone)
    await vault.put(alone.operator, "openai", "sk-newer-than-that")
    await alone.log.accounts.reseal(stale._replace(key_id="x", sealed=b"x"), was=stale)
    assert dict(await vault.keys_of("acme")) == {"openai": "sk-newer-than-that"}


async def test_what_is_changed_here_holds_at_once_and_elsewhere_within_seconds(
    place: Place, environ: dict[str, str], vault: Vault
) -> None:
    other = vault_of(place, environ)
    await vault.put(place.operator, "openai", KEY)
    assert await other.keys_of(place.tenant) == await vault.keys_of(place.tenant)
    await vault.remove(place.operator, "openai")
    assert await vault.keys_of(place.tenant) == {}
    assert await other.keys_of(place.tenant) == {"openai": KEY}
    place.later(seconds=known.FRESH)
    assert await other.keys_of(place.tenant) == {}


def test_the_values_are_frozen() -> None:
    assert msgspec.structs.fields(ProviderKey)
    with pytest.raises(AttributeError):
        ProviderKey(tenant="a", provider="b").ends = "c"  # type: ignore[misc]
