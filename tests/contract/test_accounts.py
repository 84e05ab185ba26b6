"""`log.accounts` on both stores: what is kept, what is refused, and that one of several wins. Who may ask for what is
decided above it (tests/server)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from everthread.core.accounts import ApiKey
from everthread.core.times import moment
from everthread.errors import (
    AccountDisabled,
    AccountExists,
    KeyRefused,
    LastAdministrator,
    LinkUsed,
    NotSignedIn,
    UnknownAccount,
    UnknownKey,
    WrongPassword,
)
from everthread.store.beside.accounts import LinkRow, SignInRow
from everthread.store.beside.keys import SealedKey
from everthread.store.conversations import Owner
from everthread.store.log import Log
from everthread.store.open import open_log
from tests.contract.support import START, Clock
from tests.migrations.databases import run

SOON, LATER = START + 60_000_000, START + 3_600_000_000


@pytest.fixture
async def log(address: str) -> AsyncIterator[Log]:
    log = await open_log(address, clock=Clock())
    yield log
    await log.close()


def link(owner: Owner, hash: str, what: str = "invitation") -> LinkRow:
    return LinkRow(owner.tenant, f"{owner.user}-{hash}", owner.user, what, "user", SOON)


def sign_in(owner: Owner, hash: str, made: int = START) -> SignInRow:
    return SignInRow(owner.tenant, f"{owner.user}-{hash}", owner.user, "link", "", "", made, made, LATER)


async def joined(log: Log, owner: Owner) -> SignInRow:
    await log.accounts.add_link(link(owner, "invited"), None)
    row = sign_in(owner, "first")
    await log.accounts.use_link(f"{owner.user}-invited", row)
    return row


async def test_a_link_is_there_until_it_is_used_and_its_sign_in_from_then_on(log: Log, someone: str) -> None:
    owner = Owner("acme", someone)
    new = link(owner, "a")
    await log.accounts.add_link(new, None)
    assert await log.accounts.link(new.hash) == new
    row = sign_in(owner, "a")
    assert await log.accounts.use_link(new.hash, row) == "user"
    assert (await log.accounts.signed_in(row.hash)).row == row
    for ask in (log.accounts.link(new.hash), log.accounts.use_link(new.hash, sign_in(owner, "b"))):
        with pytest.raises(LinkUsed):
            await ask
    found = await log.accounts.get(owner)
    assert found
    assert (found.role, found.password, found.made, found.disabled) == ("user", "", START, None)


async def test_a_link_that_has_run_out_is_refused_and_stays_unused(log: Log, someone: str) -> None:
    owner = Owner("acme", someone)
    new = link(owner, "a")
    await log.accounts.add_link(new, None)
    with pytest.raises(LinkUsed):
        await log.accounts.use_link(new.hash, sign_in(owner, "a", made=SOON))
    assert await log.accounts.get(owner) is None
    with pytest.raises(NotSignedIn):
        await log.accounts.signed_in(sign_in(owner, "a").hash)


async def test_the_same_is_written_once_when_it_is_asked_for_twice(log: Log, someone: str) -> None:
    owner = Owner("acme", someone)
    row = await joined(log, owner)
    assert await log.accounts.use_link(f"{someone}-invited", row) == "user"  # as after an answer that was lost
    again = link(owner, "again", "sign_in")
    for _ in range(2):
        await log.accounts.add_link(again, None)
    entry = log.accounts.entry(f"of-{someone}", by="root", act="look")
    for _ in range(2):
        await log.accounts.write_down(entry)
    assert await log.accounts.audited(entry.tenant) == [entry]


async def test_links_are_for_those_who_have_an_account_and_invitations_for_the_others(log: Log, someone: str) -> None:
    owner = Owner("acme", someone)
    with pytest.raises(UnknownAccount):
        await log.accounts.add_link(link(owner, "a", "sign_in"), None)
    await joined(log, owner)
    with pytest.raises(AccountExists):
        await log.accounts.add_link(link(owner, "b"), None)
    with pytest.raises(UnknownAccount):  # the wall between tenants
        await log.accounts.add_link(link(Owner("rival", someone), "c", "sign_in"), None)


async def test_a_password_that_no_longer_stands_signs_nobody_in(log: Log, someone: str) -> None:
    owner = Owner("acme", someone)
    await joined(log, owner)
    await log.accounts.change(owner, lambda row: row._replace(password="new"), None)
    with pytest.raises(WrongPassword):
        await log.accounts.sign_in(sign_in(owner, "x"), password="old")
    assert await log.accounts.sign_in(sign_in(owner, "y"), password="new", rehashed="newer") == "user"
    found = await log.accounts.get(owner)
    assert found
    assert found.password == "newer"
    assert "newer" not in repr(found)


async def test_a_change_that_is_refused_leaves_everything_as_it_was(log: Log, someone: str) -> None:
    owner = Owner(f"of-{someone}", "root")
    await log.accounts.add_link(link(owner, someone)._replace(role="administrator"), None)
    await log.accounts.use_link(link(owner, someone).hash, sign_in(owner, someone))
    before = await log.accounts.get(owner)
    entry = log.accounts.entry(owner.tenant, by="root", act="change_role", user="root")
    with pytest.raises(LastAdministrator):
        await log.accounts.change(owner, lambda row: row._replace(role="user"), entry, ends="")
    assert await log.accounts.get(owner) == before
    assert await log.accounts.audited(owner.tenant) == []
    await log.accounts.signed_in(sign_in(owner, someone).hash)


async def test_changes_of_one_account_at_once_lose_nothing(log: Log, address: str, someone: str) -> None:
    owner = Owner("acme", someone)
    await joined(log, owner)
    other = await open_log(address, clock=Clock())

    async def add(log: Log, letter: str) -> None:
        await log.accounts.change(owner, lambda row: row._replace(password=row.password + letter), None)

    await asyncio.gather(*(add(log if number % 2 else other, "x") for number in range(20)))
    await other.close()
    found = await log.accounts.get(owner)
    assert found
    assert found.password == "x" * 20


async def test_an_api_key_is_found_by_its_hash_and_within_its_tenant_by_its_id(log: Log, someone: str) -> None:
    key = ApiKey(tenant="acme", id=someone, application="shop", label="x", scopes=("read",), until=moment(LATER))
    await log.accounts.add_key(key, f"hash-{someone}", None)
    await log.accounts.add_key(key, f"hash-{someone}", None)
    assert (await log.accounts.key_of(f"hash-{someone}")).key == key
    assert await log.accounts.key("acme", someone) == key
    for ask in (log.accounts.key("rival", someone), log.accounts.revoke_key("rival", someone, None)):
        with pytest.raises(UnknownKey):
            await ask
    await log.accounts.see_key(key)
    await log.accounts.revoke_key("acme", someone, None)
    with pytest.raises(KeyRefused):
        await log.accounts.key_of(f"hash-{someone}")
    seen = await log.accounts.key("acme", someone)
    assert (seen.seen, seen.revoked) == (moment(START), moment(START))
    assert key.id in [one.id for one in await log.accounts.keys("acme", user="", limit=10_000)]


async def test_what_is_sealed_is_kept_byte_for_byte_in_its_tenant(log: Log, someone: str) -> None:
    one = SealedKey(someone, "openai", "id", bytes(range(12)), bytes(range(256)), START)
    await log.accounts.put_sealed(one, None)
    await log.accounts.put_sealed(one._replace(tenant=f"{someone}-x", sealed=b"x"), None)
    assert await log.accounts.sealed(someone) == [one]
    assert one in await log.accounts.all_sealed()
    await log.accounts.forget_sealed(someone, "openai", None)
    assert await log.accounts.sealed(someone) == []


async def test_whatever_was_written_late_holds_for_nobody_who_is_disabled_or_gone(
    log: Log, address: str, someone: str
) -> None:
    """Should a row outlive what its account was when it was written, the account decides."""
    owner = Owner("acme", someone)
    row = await joined(log, owner)
    await log.accounts.add_link(link(owner, "unused", "sign_in"), None)
    key = ApiKey(tenant="acme", id=someone, user=someone, label="x", scopes=("read",), until=moment(LATER))
    await log.accounts.add_key(key, f"hash-{someone}", None)
    mine = f"WHERE tenant = 'acme' AND \"user\" = '{someone}'"
    await run(address, f"UPDATE accounts SET disabled = 1 {mine}")
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: log.accounts.signed_in(row.hash),
        lambda: log.accounts.use_link(link(owner, "unused").hash, sign_in(owner, "late")),
        lambda: log.accounts.key_of(f"hash-{someone}"),
        lambda: log.accounts.sign_in(sign_in(owner, "late"), password=""),
        lambda: log.accounts.add_link(link(owner, "another", "sign_in"), None),
    ]
    for ask in asks:
        with pytest.raises(AccountDisabled):
            await ask()
    await run(address, f"DELETE FROM accounts {mine}")
    refusals = (NotSignedIn, LinkUsed, KeyRefused, WrongPassword, UnknownAccount)
    for ask, refusal in zip(asks, refusals, strict=True):
        with pytest.raises(refusal) as refused:
            await ask()
        assert type(refused.value) is refusal
