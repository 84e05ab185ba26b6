"""API keys on both stores: whose they are, what they may do, and when they are taken no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from everthread.core.accounts import SCOPES, Caller, operator
from everthread.errors import AccountDisabled, BadValue, Forbidden, KeyRefused, UnknownAccount, UnknownKey
from everthread.server import known
from everthread.store.beside import keys as stored
from tests.migrations.databases import rows
from tests.server.identities import Place


async def test_a_persons_key_acts_as_that_person(place: Place) -> None:
    ana = (await place.join("ana")).caller
    made = await place.identity.make_key(ana, user="ana", label="laptop", scopes=("write", "read", "write"))
    caller = await place.identity.caller_of_key(made.secret)
    assert (caller.tenant, caller.user, caller.role) == (place.tenant, "ana", "user")
    assert (caller.scopes, caller.via, caller.id) == (("read", "write"), "key", made.key.id)
    assert caller.may("write")
    assert not caller.may("forget")
    assert await place.identity.caller_of_key(made.secret, user="ana") == caller
    with pytest.raises(Forbidden):
        await place.identity.caller_of_key(made.secret, user="bob")
    assert made.secret.startswith("evk_")
    assert len(made.secret) == 47
    assert made.key.until - made.key.made == (await place.identity.keys(ana))[0].until - made.key.made


async def test_an_applications_key_acts_for_the_users_that_it_names(place: Place) -> None:
    admin = await place.admin()
    made = await place.identity.make_key(admin, application="shop", users="shop-", label="web")
    assert (await place.identity.caller_of_key(made.secret, user="shop-17")).user == "shop-17"
    nobody = await place.identity.caller_of_key(made.secret)
    assert (nobody.user, nobody.role, nobody.name) == ("", "user", "application shop")
    for other in ("root", "Shop-17", "sho"):
        with pytest.raises(Forbidden):
            await place.identity.caller_of_key(made.secret, user=other)
    with pytest.raises(BadValue):
        await place.identity.caller_of_key(made.secret, user="shop-\n17")


async def test_an_application_is_an_administrator_by_its_scope_alone(place: Place) -> None:
    admin = await place.admin()
    plain = await place.identity.make_key(admin, application="shop", label="x", scopes=SCOPES[:3])
    strong = await place.identity.make_key(admin, application="ops", label="x", scopes=("admin",))
    for_admin = await place.identity.caller_of_key(plain.secret, user="root")
    assert not for_admin.may("admin")
    with pytest.raises(Forbidden):
        await place.identity.users(for_admin)
    ops = await place.identity.caller_of_key(strong.secret)
    assert len(await place.identity.users(ops)) == 1
    with pytest.raises(Forbidden):
        await place.identity.enter(ops, "root", "because")


async def test_an_administrators_own_key_needs_the_scope_and_the_role(place: Place) -> None:
    admin = await place.admin()
    await place.admin("second")
    weak = await place.identity.make_key(admin, user="root", label="x")
    strong = await place.identity.make_key(admin, user="root", label="x", scopes=("admin",))
    with pytest.raises(Forbidden):
        await place.identity.users(await place.identity.caller_of_key(weak.secret))
    assert (await place.identity.caller_of_key(strong.secret)).may("admin")
    await place.identity.change_role(place.operator, "root", "user")
    assert not (await place.identity.caller_of_key(strong.secret)).may("admin")


async def test_nobody_makes_a_key_that_may_more_than_they(place: Place) -> None:
    admin, ana = await place.admin(), (await place.join("ana")).caller
    entered = (await place.identity.enter(admin, "ana", "to help", scopes=("read", "write"))).caller
    own = (await place.identity.make_key(ana, user="ana", label="x")).secret
    by_key = await place.identity.caller_of_key(own)
    cases: list[tuple[Caller, dict[str, Any]]] = [
        (ana, {"user": "ana", "scopes": ("admin",)}),
        (ana, {"user": "root"}),
        (ana, {"application": "shop"}),
        (admin, {"user": "ana"}),
        (entered, {"user": "ana"}),
        (by_key, {"user": "ana"}),
    ]
    for by, what in cases:
        with pytest.raises(Forbidden):
            await place.identity.make_key(by, label="x", **what)
    assert len(await place.identity.keys(admin)) == 1


@pytest.mark.parametrize(
    "what",
    [
        {"user": "ana", "application": "shop"},
        {},
        {"user": "ana", "days": 0},
        {"user": "ana", "days": 3_651},
        {"user": "ana", "days": True},
        {"user": "ana", "scopes": ()},
        {"user": "ana", "scopes": "read"},
        {"user": "ana", "scopes": ("everything",)},
        {"user": "ana", "label": ""},
        {"application": "a\nb"},
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(place: Place, what: dict[str, Any]) -> None:
    await place.join("ana")
    with pytest.raises(BadValue):
        await place.identity.make_key(place.operator, **{"label": "x", **what})


async def test_a_key_is_for_somebody_who_has_an_account(place: Place) -> None:
    with pytest.raises(UnknownAccount):
        await place.identity.make_key(place.operator, user="nobody", label="x")
    await place.join("ana")
    await place.identity.disable(place.operator, "ana")
    with pytest.raises(AccountDisabled):
        await place.identity.make_key(place.operator, user="ana", label="x")


async def test_there_are_only_so_many_keys_that_hold(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST", 2)
    await place.join("ana")
    made = [await place.identity.make_key(place.operator, user="ana", label="x") for _ in range(2)]
    with pytest.raises(BadValue, match="revoke some"):
        await place.identity.make_key(place.operator, user="ana", label="x")
    await place.identity.revoke_key(place.operator, made[0].key.id)
    monkeypatch.setattr(stored, "MOST", 3)
    await place.identity.make_key(place.operator, user="ana", label="x")


async def test_a_key_runs_out_is_revoked_or_goes_with_its_account(place: Place) -> None:
    ana = (await place.join("ana")).caller
    await place.admin()
    short = await place.identity.make_key(ana, user="ana", label="x", days=1)
    long = await place.identity.make_key(ana, user="ana", label="x")
    await place.identity.caller_of_key(short.secret)
    place.later(days=1)
    with pytest.raises(KeyRefused, match="has run out"):
        await place.identity.caller_of_key(short.secret)
    await place.identity.disable(place.operator, "ana")
    with pytest.raises(AccountDisabled):
        await place.identity.caller_of_key(long.secret)
    app = await place.identity.make_key(place.operator, application="shop", label="x")
    with pytest.raises(AccountDisabled):
        await place.identity.caller_of_key(app.secret, user="ana")
    await place.identity.enable(place.operator, "ana")
    await place.identity.caller_of_key(long.secret)
    place.later(days=364)
    with pytest.raises(KeyRefused, match="has run out"):
        await place.identity.caller_of_key(long.secret)
    for unknown in ("evk_" + "A" * 43, "evk_", "", "Bearer x", long.secret + "\n"):
        with pytest.raises(KeyRefused, match="not known"):
            await place.identity.caller_of_key(unknown)


async def test_a_revocation_holds_at_once_here_and_elsewhere_within_seconds(place: Place) -> None:
    ana, other = (await place.join("ana")).caller, place.another()
    made = await place.identity.make_key(ana, user="ana", label="x")
    caller = await other.caller_of_key(made.secret)
    assert await place.identity.caller_of_key(made.secret) == caller
    await place.identity.revoke_key(ana, made.key.id)
    with pytest.raises(KeyRefused, match="revoked"):
        await place.identity.caller_of_key(made.secret)
    assert await other.caller_of_key(made.secret) == caller
    place.later(seconds=known.FRESH)
    with pytest.raises(KeyRefused, match="revoked"):
        await other.caller_of_key(made.secret)


async def test_a_request_within_seconds_of_another_costs_no_round_trip(place: Place) -> None:
    ana = (await place.join("ana")).caller
    made = await place.identity.make_key(ana, user="ana", label="x")
    asked: list[int] = []
    real: Callable[..., Any] = place.log.accounts.key_of

    async def counted(*given: Any, **more: Any) -> Any:
        asked.append(1)
        return await real(*given, **more)

    place.log.accounts.key_of = counted  # type: ignore[method-assign]
    for _ in range(5):
        await place.identity.caller_of_key(made.secret)
    assert len(asked) == 1


async def test_only_so_many_callers_are_kept_in_mind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", 3)
    made = await place.identity.make_key(place.operator, application="shop", label="x")
    for number in range(5):
        await place.identity.caller_of_key(made.secret, user=f"user-{number}")
    assert len(place.identity._known._kept) == 3


async def test_when_a_key_was_last_used_is_written_at_most_once_a_minute(place: Place) -> None:
    ana = (await place.join("ana")).caller
    made = await place.identity.make_key(ana, user="ana", label="x")

    async def seen() -> Any:
        [(time,)] = await rows(place.address, f"SELECT seen FROM api_keys WHERE tenant = '{place.tenant}'")
        return time

    assert await seen() is None
    await place.identity.caller_of_key(made.secret)
    first = await seen()
    assert first == place.clock.now
    place.later(seconds=59)
    await place.identity.caller_of_key(made.secret)
    assert await seen() == first
    place.later(seconds=10)
    await place.identity.caller_of_key(made.secret)
    assert await seen() == place.clock.now


async def test_nobody_sees_or_revokes_anothers_keys(place: Place) -> None:
    admin, ana, bob = await place.admin(), (await place.join("ana")).caller, (await place.join("bob")).caller
    own = (await place.identity.make_key(ana, user="ana", label="x")).key
    app = (await place.identity.make_key(admin, application="shop", label="x")).key
    assert [one.id for one in await place.identity.keys(ana)] == [own.id]
    assert await place.identity.keys(bob) == []
    assert {one.id for one in await place.identity.keys(admin)} == {own.id, app.id}
    elsewhere = operator("elsewhere")
    assert own.id not in [one.id for one in await place.identity.keys(elsewhere)]
    for by, id in ((bob, own.id), (ana, app.id), (elsewhere, own.id), (admin, "nothing")):
        with pytest.raises(UnknownKey):
            await place.identity.revoke_key(by, id)
    entered = (await place.identity.enter(admin, "ana", "to help", scopes=("read", "write"))).caller
    with pytest.raises(UnknownKey):
        await place.identity.revoke_key(entered, own.id)
    await place.identity.revoke_key(ana, own.id)
    assert [one.id for one in await place.identity.keys(ana, after=own.id)] == []
