"""Users on both stores: what administrators may do with them, what is written down of it, and how they are erased."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from everthread import Everthread, wire
from everthread.core.accounts import Account, ApiKey, AuditEntry, Caller, operator
from everthread.errors import (
    AccountDisabled,
    BadValue,
    Forbidden,
    KeyRefused,
    LastAdministrator,
    LinkUsed,
    NotSignedIn,
    UnknownAccount,
)
from everthread.server import known
from everthread.server.identity import Identity
from everthread.store.verbs.forgetting import Forgetting
from tests.contract.support import files_of
from tests.migrations.databases import rows
from tests.server.identities import GOOD, Place


async def test_users_are_listed_page_by_page(place: Place) -> None:
    admin = await place.admin()
    for name in ("ana", "bob", "zoe"):
        await place.join(name)
    page = await place.identity.users(admin, limit=3)
    rest = await place.identity.users(admin, after=page[-1].user)
    assert [one.user for one in (*page, *rest)] == ["ana", "bob", "root", "zoe"]
    assert await place.identity.user(admin) == page[-1]
    assert await place.identity.user(place.operator) is None


async def test_a_disabled_user_is_out_at_once_and_back_when_enabled(place: Place) -> None:
    came = await place.join("ana")
    made = await place.identity.make_key(came.caller, user="ana", label="x")
    unused = await place.identity.link(came.caller, "ana")
    disabled = await place.identity.disable(place.operator, "ana")
    assert disabled.disabled
    assert await place.identity.disable(place.operator, "ana") == disabled
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(came.token)
    with pytest.raises(AccountDisabled):
        await place.identity.caller_of_key(made.secret)
    with pytest.raises(LinkUsed):
        await place.identity.use_link(unused)
    with pytest.raises(AccountDisabled):
        await place.identity.link(place.operator, "ana")
    assert (await place.identity.enable(place.operator, "ana")).disabled is None
    await place.identity.caller_of_key(made.secret)
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(came.token)


async def test_the_last_administrator_stays(place: Place, et: Everthread) -> None:
    admin = await place.admin()
    await place.join("ana")
    for act in (
        lambda: place.identity.change_role(admin, "root", "user"),
        lambda: place.identity.disable(admin, "root"),
        lambda: place.identity.erase(admin, "root", et),
    ):
        with pytest.raises(LastAdministrator):
            await act()
    await place.identity.change_role(admin, "ana", "administrator")
    await place.identity.disable(place.operator, "ana")
    with pytest.raises(LastAdministrator):  # one who is disabled administers nothing
        await place.identity.change_role(admin, "root", "user")
    await place.identity.enable(place.operator, "ana")
    assert (await place.identity.change_role(admin, "root", "user")).role == "user"


async def test_of_all_administrators_who_leave_at_once_one_stays(place: Place) -> None:
    names = [f"admin-{number}" for number in range(8)]
    for name in names:
        await place.admin(name)
    others = [place.another() for _ in names]
    leave = [one.change_role(place.operator, name, "user") for one, name in zip(others, names[:4], strict=False)]
    leave += [one.disable(place.operator, name) for one, name in zip(others, names[4:], strict=False)]
    done = await asyncio.gather(*leave, return_exceptions=True)
    assert sorted(type(one).__name__ for one in done) == ["Account"] * 7 + ["LastAdministrator"]


Leave = Callable[[Identity, Caller, str, Everthread], Awaitable[Any]]
LEAVING: dict[str, Leave] = {
    "erase": lambda identity, by, user, et: identity.erase(by, user, et),
    "demote": lambda identity, by, user, et: identity.change_role(by, user, "user"),
    "disable": lambda identity, by, user, et: identity.disable(by, user),
}


@pytest.mark.parametrize("first", LEAVING)
@pytest.mark.parametrize("second", LEAVING)
async def test_of_two_administrators_who_remove_each_other_at_once_one_stays(
    place: Place, et: Everthread, first: str, second: str
) -> None:
    ada, bea = await place.admin("ada"), await place.admin("bea")
    removed = [LEAVING[first](place.another(), ada, "bea", et), LEAVING[second](place.another(), bea, "ada", et)]
    done = await asyncio.gather(*removed, return_exceptions=True)
    assert sorted(isinstance(one, LastAdministrator) for one in done) == [False, True], done
    left = [one for one in await place.identity.users(place.operator) if one.role == "administrator"]
    assert [one.disabled for one in left if one.disabled is None] == [None]


async def test_who_forgets_himself_while_the_other_is_removed_stays(place: Place, et: Everthread) -> None:
    ada, _ = await place.admin("ada"), await place.admin("bea")
    gone = [place.another().forget_me(ada, et), place.another().erase(place.operator, "bea", et)]
    done = await asyncio.gather(*gone, return_exceptions=True)
    assert sorted(isinstance(one, LastAdministrator) for one in done) == [False, True], done
    assert len(await place.identity.users(place.operator)) == 1


Ask = Callable[[Identity, Caller, Everthread], Any]
ADMINISTRATORS: list[Ask] = [
    lambda identity, by, et: identity.users(by),
    lambda identity, by, et: identity.invite(by, "eve"),
    lambda identity, by, et: identity.disable(by, "root"),
    lambda identity, by, et: identity.enable(by, "root"),
    lambda identity, by, et: identity.change_role(by, "ana", "administrator"),
    lambda identity, by, et: identity.erase(by, "root", et),
    lambda identity, by, et: identity.audit(by),
    lambda identity, by, et: identity.enter(by, "root", "why not"),
    lambda identity, by, et: identity.sign_out_everywhere(by, "root"),
]


@pytest.mark.parametrize("number", range(len(ADMINISTRATORS)))
async def test_what_administrators_do_is_forbidden_to_others(place: Place, et: Everthread, number: int) -> None:
    admin, ana = await place.admin(), (await place.join("ana")).caller
    entered = (await place.identity.enter(admin, "root", "to look")).caller
    weak = await place.identity.make_key(admin, user="root", label="x", scopes=("read", "write", "forget"))
    before = await place.acts()
    for by in (ana, entered, await place.identity.caller_of_key(weak.secret)):
        with pytest.raises(Forbidden):
            await ADMINISTRATORS[number](place.identity, by, et)
    assert await place.acts() == before


async def test_nobody_reaches_into_another_tenant(place: Place, et: Everthread) -> None:
    await place.join("ana")
    other = operator(f"{place.tenant}-x")
    assert await place.identity.users(other) == []
    assert await place.identity.audit(other) == []
    for ask in (
        place.identity.disable(other, "ana"),
        place.identity.change_role(other, "ana", "administrator"),
        place.identity.link(other, "ana"),
        place.identity.set_password(other, GOOD, user="ana"),
    ):
        with pytest.raises(UnknownAccount):
            await ask
    await place.identity.erase(other, "ana", et)
    assert [one.user for one in await place.identity.users(place.operator)] == ["ana"]


async def test_what_administrators_and_operators_do_is_written_down(place: Place) -> None:
    admin = await place.admin()
    await place.identity.invite(admin, "bob")
    await place.join("ana")
    place.later(seconds=1)
    await place.identity.change_role(admin, "ana", "administrator")
    place.later(seconds=1)
    made = await place.identity.make_key(admin, application="shop", label="x")
    place.later(seconds=1)
    await place.identity.revoke_key(admin, made.key.id)
    newest = await place.identity.audit(admin, limit=3)
    assert [(one.by, one.act, one.user, one.about) for one in newest] == [
        ("root", "revoke_key", "", made.key.id),
        ("root", "make_key", "", f"{made.key.id} shop"),
        ("root", "change_role", "ana", "administrator"),
    ]
    older = await place.identity.audit(admin, before=newest[-1].id)
    assert sorted((one.by, one.act, one.user) for one in older) == [
        *[("", "invite", "ana"), ("", "invite", "root")],
        ("root", "invite", "bob"),
    ]
    with pytest.raises(BadValue):
        await place.identity.change_role(admin, "ana", "king")  # type: ignore[arg-type]


async def test_an_erased_user_is_nowhere_and_the_audit_says_that_somebody_was(
    place: Place, et: Everthread, engine: str
) -> None:
    name = f"walnut-{place.tenant}"
    admin = await place.admin()
    came = await place.join(name, "administrator")
    await place.identity.set_password(came.caller, GOOD)
    made = await place.identity.make_key(came.caller, user=name, label="laptop")
    unused = await place.identity.link(admin, name)
    entered = await place.identity.enter(came.caller, "root", "to help")
    await place.identity.enter(admin, name, f"{name} has asked for it")
    talk = await et.begin(user=name, tenant=place.tenant)
    ana = await place.join("ana")
    assert name in await place.dump()
    assert await place.identity.erase(admin, name, et) == 1
    assert name not in await place.dump()
    for gone in (place.identity.caller_of_sign_in(came.token), place.identity.caller_of_sign_in(entered.token)):
        with pytest.raises(NotSignedIn):
            await gone
    with pytest.raises(KeyRefused):
        await place.identity.caller_of_key(made.secret)
    with pytest.raises(LinkUsed):
        await place.identity.use_link(unused)
    if engine == "sqlite":
        assert [file for file, data in files_of(place.address).items() if name.encode() in data] == []
    entry = next(one for one in await place.identity.audit(admin) if one.act == "erase")
    assert (entry.by, entry.about) == ("root", "")
    assert entry.user.startswith("erased-")
    assert await place.identity.caller_of_sign_in(ana.token) == ana.caller
    assert await et.conversations(user=name, tenant=place.tenant) == []
    assert talk.id not in [one.id for one in await et.conversations(user="ana", tenant=place.tenant)]


async def test_what_a_crash_leaves_of_a_user_is_erased_by_whoever_opens_the_store_next(
    place: Place, et: Everthread, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = await place.join("ana")

    async def killed(*_: Any, **__: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Forgetting, "finish", killed)
        with pytest.raises(OSError, match="killed"):
            await et.erase_user(user="ana", tenant=place.tenant)
    assert (await place.identity.caller_of_sign_in(came.token)).user == "ana"
    async with Everthread.open(place.address):
        pass
    place.later(seconds=known.FRESH)
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(came.token)
    assert await place.identity.users(place.operator) == []


async def test_the_librarys_own_erasing_takes_the_account_along(place: Place, et: Everthread) -> None:
    await place.join("ana")
    await place.join("bob")
    await et.erase_user(user="ana", tenant=place.tenant)
    assert [one.user for one in await place.identity.users(place.operator)] == ["bob"]
    assert "ana" not in {user for _, _, user in await place.acts()}
    again = await place.join("ana")  # somebody else of that name
    assert again.caller.user == "ana"


async def test_every_value_comes_back_from_its_json_form(place: Place) -> None:
    came = await place.join("ana", "administrator")
    made = await place.identity.make_key(came.caller, user="ana", label="x")
    [account], [entry, *_] = await place.identity.users(came.caller), await place.identity.audit(came.caller)
    forms: list[tuple[Any, Any]] = [(Account, account), (ApiKey, made.key), (AuditEntry, entry), (Caller, came.caller)]
    for form, value in forms:
        assert wire.loads(form, wire.dumps(value)) == value


async def test_rows_that_have_run_out_go_with_the_next(place: Place) -> None:
    await place.join("ana")
    await place.identity.link(place.operator, "ana")
    place.later(days=400)
    came = await place.identity.use_link(await place.identity.link(place.operator, "ana"))
    mine = f"WHERE tenant = '{place.tenant}'"
    assert await rows(place.address, f"SELECT * FROM links {mine}") == []
    assert [row[0] for row in await rows(place.address, f"SELECT hash FROM sign_ins {mine}")] == [came.caller.id]
