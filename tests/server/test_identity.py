"""Coming in, being in, going out: links, passwords and sign-ins on both stores."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from argon2 import PasswordHasher

from everthread.core.accounts import OWN_SCOPES, SCOPES, operator
from everthread.errors import (
    AccountDisabled,
    AccountExists,
    BadPassword,
    BadValue,
    EverthreadError,
    Forbidden,
    LinkUsed,
    NotSignedIn,
    TooManyTries,
    UnknownAccount,
    WrongPassword,
)
from everthread.server import known, tries
from everthread.server.identity import Identity
from everthread.store.conversations import Owner
from everthread.store.open import open_log
from everthread.store.postgres.engine import PostgresEngine
from tests.contract.support import engine_of, files_of
from tests.migrations.databases import rows
from tests.server.identities import GOOD, Place, quick

T = TypeVar("T")

STRANGERS = Path(__file__).with_name("strangers.py")


# -- the first account ---------------------------------------------------------------------------------------------


async def test_the_first_account_is_made_once_and_administers(fresh_address: str) -> None:
    log = await open_log(fresh_address)
    identity = Identity(log)
    made = await asyncio.gather(*(identity.first() for _ in range(5)))
    assert sorted(made) == [False] * 4 + [True]
    [one] = await identity.users(operator("default"))
    assert (one.tenant, one.user, one.role, one.has_password) == ("default", "me", "administrator", False)
    assert not await identity.first("somebody else", tenant="elsewhere")
    assert not await identity.any_password()
    await log.close()


async def begun(what: str, address: str, *given: str) -> Process:
    """Another process, ready to begin."""
    command = [sys.executable, str(STRANGERS), what, address, *given]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout
    assert await process.stdout.readline() == b"ready\n"
    return process


async def all_at_once(what: str, address: str, *given: str) -> list[str]:
    processes = [await begun(what, address, *given) for _ in range(3)]
    answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0]
    return sorted(out.decode().strip() for out, _ in answers)


async def test_of_several_processes_one_makes_the_first_account(fresh_address: str) -> None:
    await (await open_log(fresh_address)).close()
    assert await all_at_once("first", fresh_address) == ["False", "False", "True"]


async def test_of_several_processes_one_uses_a_link(fresh_address: str) -> None:
    log = await open_log(fresh_address)
    identity = Identity(log)
    await identity.first()
    token = await identity.link(operator("default"), "me")
    assert await all_at_once("link", fresh_address, token) == ["False", "False", "True"]
    assert len(await rows(fresh_address, "SELECT * FROM sign_ins")) == 1
    await log.close()


# -- links ---------------------------------------------------------------------------------------------------------


async def test_a_link_signs_in_once(place: Place) -> None:
    await place.admin()
    token = await place.identity.link(place.operator, "root")
    came = await place.identity.use_link(token)
    assert (came.caller.user, came.caller.role, came.caller.scopes) == ("root", "administrator", SCOPES)
    assert came.caller.by_link
    assert await place.identity.caller_of_sign_in(came.token) == came.caller
    for wrong in (token, token[:-1] + "~", "", came.token, "evl_" + "A" * 43):
        with pytest.raises(LinkUsed):
            await place.identity.use_link(wrong)


async def test_of_many_who_use_a_link_at_once_one_comes_in(place: Place) -> None:
    invitation = await place.identity.invite(place.operator, "ana")
    for token in (invitation, *[""] * 5):
        token = token or await place.identity.link(place.operator, "ana")
        came = await asyncio.gather(*(place.another().use_link(token) for _ in range(8)), return_exceptions=True)
        assert sorted(type(one).__name__ for one in came) == ["LinkUsed"] * 7 + ["SignedIn"]
    assert len(await place.identity.users(place.operator)) == 1


async def test_a_link_holds_for_ten_minutes_and_an_invitation_for_a_week(place: Place) -> None:
    await place.admin()
    short, long = await place.identity.link(place.operator, "root"), await place.identity.invite(place.operator, "ana")
    place.later(minutes=9, seconds=59)
    await place.identity.use_link(await place.identity.link(place.operator, "root"))
    place.later(seconds=1)
    with pytest.raises(LinkUsed):
        await place.identity.use_link(short)
    place.later(days=6)
    assert (await place.identity.use_link(long)).caller.user == "ana"
    late = await place.identity.invite(place.operator, "bob")
    place.later(days=7)
    with pytest.raises(LinkUsed):
        await place.identity.use_link(late)


async def test_an_invitation_makes_the_account_and_no_other_does_afterwards(place: Place) -> None:
    first = await place.identity.invite(place.operator, "ana", role="administrator")
    second = await place.identity.invite(place.operator, "ana")
    assert (await place.identity.use_link(first)).caller.role == "administrator"
    with pytest.raises(LinkUsed):
        await place.identity.use_link(second)
    with pytest.raises(AccountExists):
        await place.identity.invite(place.operator, "ana")
    with pytest.raises(UnknownAccount):
        await place.identity.link(place.operator, "nobody")


async def test_a_user_makes_links_for_nobody_else(place: Place) -> None:
    ana = (await place.join("ana")).caller
    await place.join("bob")
    with pytest.raises(Forbidden):
        await place.identity.link(ana, "bob")
    with pytest.raises(Forbidden):
        await place.identity.invite(ana, "eve")
    assert (await place.identity.use_link(await place.identity.link(ana, "ana"))).caller.user == "ana"
    with pytest.raises(BadValue):
        await place.identity.link(place.operator, "ana", what="key")  # type: ignore[arg-type]


# -- sign-ins ------------------------------------------------------------------------------------------------------


async def test_a_sign_in_holds_for_thirty_days_after_it_was_seen_and_a_year_at_most(place: Place) -> None:
    came = await place.join("ana")
    for _ in range(12):
        place.later(days=29, hours=23)
        assert (await place.identity.caller_of_sign_in(came.token)).user == "ana"
    place.later(days=5, hours=12)
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(came.token)
    again = await place.identity.use_link(await place.identity.link(place.operator, "ana"))
    place.later(days=30)
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(again.token)


async def test_that_it_was_seen_is_written_at_most_once_a_minute(place: Place) -> None:
    came = await place.join("ana")

    async def seen() -> int:
        [(time,)] = await rows(place.address, f"SELECT seen FROM sign_ins WHERE tenant = '{place.tenant}'")
        return int(time)

    began = await seen()
    place.later(seconds=59)
    await place.identity.caller_of_sign_in(came.token)
    assert await seen() == began
    place.later(seconds=30)
    await place.identity.caller_of_sign_in(came.token)
    assert await seen() == place.clock.now


async def test_signing_out_holds_at_once_here_and_elsewhere_within_seconds(place: Place) -> None:
    came, other = await place.join("ana"), place.another()
    assert await other.caller_of_sign_in(came.token) == came.caller
    await place.identity.caller_of_sign_in(came.token)
    await place.identity.sign_out(came.caller)
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(came.token)
    assert await other.caller_of_sign_in(came.token) == came.caller  # which has not looked again
    place.later(seconds=known.FRESH)
    with pytest.raises(NotSignedIn):
        await other.caller_of_sign_in(came.token)


async def test_what_is_looked_up_while_it_changes_is_not_kept(place: Place) -> None:
    came, identity = await place.join("ana"), place.identity
    real = identity._accounts.signed_in

    async def slow(hash: str) -> Any:
        found = await real(hash)
        await identity.sign_out(came.caller)
        return found

    identity._accounts.signed_in = slow  # type: ignore[method-assign]
    await identity.caller_of_sign_in(came.token)
    identity._accounts.signed_in = real  # type: ignore[method-assign]
    with pytest.raises(NotSignedIn):
        await identity.caller_of_sign_in(came.token)


async def test_signing_out_everywhere_ends_all_sign_ins_and_links_of_one_user(place: Place) -> None:
    one, bob = await place.join("ana"), await place.join("bob")
    two = await place.identity.use_link(await place.identity.link(one.caller, "ana"))
    unused = await place.identity.link(one.caller, "ana")
    with pytest.raises(Forbidden):
        await place.identity.sign_out_everywhere(bob.caller, "ana")
    await place.identity.sign_out_everywhere(one.caller)
    for token in (one.token, two.token):
        with pytest.raises(NotSignedIn):
            await place.identity.caller_of_sign_in(token)
    with pytest.raises(LinkUsed):
        await place.identity.use_link(unused)
    assert await place.identity.caller_of_sign_in(bob.token) == bob.caller


async def test_a_csrf_token_is_of_one_sign_in(place: Place) -> None:
    ana, bob = await place.join("ana"), await place.join("bob")
    assert ana.csrf == place.identity.csrf(ana.token) != bob.csrf
    assert place.identity.csrf_fits(ana.token, ana.csrf)
    for wrong in (bob.csrf, ana.token, "", ana.csrf[:-1], "ü\ud800"):
        assert not place.identity.csrf_fits(ana.token, wrong)


# -- passwords -----------------------------------------------------------------------------------------------------


async def with_password(place: Place, user: str = "ana", password: str = GOOD) -> None:
    came = await place.join(user)
    await place.identity.set_password(came.caller, password)


async def test_a_password_signs_in(place: Place) -> None:
    await with_password(place, password="Grüße aus Köln")
    composed = "Gru\u0308ße aus Ko\u0308ln"  # the same characters from another keyboard
    came = await place.identity.sign_in(place.tenant, "ana", composed)
    assert (came.caller.user, came.caller.scopes, came.caller.by_link) == ("ana", OWN_SCOPES, False)
    assert await place.identity.caller_of_sign_in(came.token) == came.caller
    assert await place.identity.any_password()


async def test_an_unknown_user_is_told_the_same_after_the_same_work_as_a_wrong_password(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_password(place)
    await place.join("no-password")
    worked: list[str] = []
    real = PasswordHasher.verify

    def verify(hasher: PasswordHasher, hash: str, password: bytes) -> bool:
        worked.append(hash.rpartition("$")[0].rpartition("$")[0])
        return real(hasher, hash, password)

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    said = set()
    cases = [(place.tenant, "ana"), (place.tenant, "nobody"), (place.tenant, "no-password"), ("x\0", "ana\n")]
    for tenant, user in cases:
        with pytest.raises(WrongPassword) as refused:
            await place.identity.sign_in(tenant, user, "wrong horse battery")
        said.add(str(refused.value))
    assert len(said) == 1
    assert worked == ["$argon2id$v=19$m=8,t=1,p=1"] * len(cases)


async def test_a_password_is_hashed_anew_when_the_parameters_have_changed(place: Place) -> None:
    await with_password(place)
    before = await place.log.accounts.get(Owner(place.tenant, "ana"))
    newer = Identity(place.log, passwords=quick(time_cost=2))
    await newer.sign_in(place.tenant, "ana", GOOD)
    after = await place.log.accounts.get(Owner(place.tenant, "ana"))
    assert before
    assert after
    assert "t=1" in before.password
    assert "t=2" in after.password
    await newer.sign_in(place.tenant, "ana", GOOD)
    assert await place.log.accounts.get(Owner(place.tenant, "ana")) == after


async def test_a_password_that_is_changed_while_it_is_checked_signs_nobody_in(place: Place) -> None:
    await with_password(place)
    held = await place.log.accounts.get(Owner(place.tenant, "ana"))
    assert held
    await place.identity.set_password(place.operator, "another horse battery", user="ana")
    _, row = place.identity._new(Owner(place.tenant, "ana"), "password")
    with pytest.raises(WrongPassword):
        await place.log.accounts.sign_in(row, password=held.password)


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("short", "fewer than 10"),
        ("x" * 1_001, "more than 1000"),
        ("aaaaaaaaaaaa", "again and again"),
        ("Ana.Müller@x", "the user's name"),
    ],
)
async def test_a_bad_password_is_refused_without_being_shown(place: Place, password: str, why: str) -> None:
    came = await place.join("ana.müller@x")
    with pytest.raises(BadPassword, match=why) as refused:
        await place.identity.set_password(came.caller, password)
    assert password not in str(refused.value)


async def test_whoever_has_a_password_must_know_it_to_change_it(place: Place) -> None:
    await with_password(place)
    came = await place.identity.sign_in(place.tenant, "ana", GOOD)
    other = await place.identity.sign_in(place.tenant, "ana", GOOD)
    for wrong in ("", "wrong horse battery"):
        with pytest.raises(WrongPassword):
            await place.identity.set_password(came.caller, "another horse battery", old=wrong)
    await place.identity.set_password(came.caller, "another horse battery", old=GOOD)
    assert await place.identity.caller_of_sign_in(came.token) == came.caller
    with pytest.raises(NotSignedIn):  # all others end
        await place.identity.caller_of_sign_in(other.token)
    with pytest.raises(WrongPassword):
        await place.identity.sign_in(place.tenant, "ana", GOOD)


async def test_whoever_comes_by_a_link_may_set_a_new_one_for_ten_minutes(place: Place) -> None:
    await with_password(place)
    came = await place.identity.use_link(await place.identity.link(place.operator, "ana"))
    place.later(minutes=9)
    await place.identity.set_password(came.caller, "another horse battery")
    place.later(minutes=1)
    with pytest.raises(WrongPassword):
        await place.identity.set_password(came.caller, "a third horse battery")


async def test_nobody_sets_anothers_password_but_the_operator(place: Place) -> None:
    await with_password(place)
    admin = await place.admin()
    with pytest.raises(Forbidden):
        await place.identity.set_password(admin, "another horse battery", user="ana")
    entered = await place.identity.enter(admin, "ana", "to help her", scopes=OWN_SCOPES)
    with pytest.raises(Forbidden):
        await place.identity.set_password(entered.caller, "another horse battery")
    with pytest.raises(UnknownAccount):
        await place.identity.set_password(place.operator, "another horse battery", user="nobody")
    await place.identity.set_password(place.operator, "another horse battery", user="ana")
    assert ("", "set_password", "ana") in await place.acts()


async def test_a_disabled_account_is_told_so_only_with_the_right_password(place: Place) -> None:
    await with_password(place)
    await place.identity.disable(place.operator, "ana")
    with pytest.raises(AccountDisabled):
        await place.identity.sign_in(place.tenant, "ana", GOOD)
    with pytest.raises(WrongPassword):
        await place.identity.sign_in(place.tenant, "ana", "wrong horse battery")


# -- guessing ------------------------------------------------------------------------------------------------------


async def guess(place: Place, user: str = "ana", address: str = "1.2.3.4", password: str = "wrong guess") -> str:
    try:
        await place.identity.sign_in(place.tenant, user, password, address=address)
    except EverthreadError as refused:
        return type(refused).__name__
    return "in"


async def test_after_some_failures_a_user_waits_longer_and_longer_from_that_address(place: Place) -> None:
    await with_password(place)
    assert [await guess(place) for _ in range(6)] == ["WrongPassword"] * 5 + ["TooManyTries"]
    assert await guess(place, password=GOOD) == "TooManyTries"
    assert await guess(place, address="5.6.7.8", password=GOOD) == "in"
    place.later(seconds=1)
    assert [await guess(place), await guess(place)] == ["WrongPassword", "TooManyTries"]
    with pytest.raises(TooManyTries) as refused:
        await place.identity.sign_in(place.tenant, "ana", GOOD, address="1.2.3.4")
    assert refused.value.seconds == 2
    place.later(seconds=2)
    assert await guess(place, password=GOOD) == "in"
    assert await guess(place) == "WrongPassword"  # and counts from the beginning


async def test_an_address_that_guesses_many_users_waits_and_an_hour_forgives_it(place: Place) -> None:
    guesses = [await guess(place, f"user-{number}") for number in range(21)]
    assert guesses == ["WrongPassword"] * 20 + ["TooManyTries"]
    place.later(hours=1)
    assert await guess(place, "user-99") == "WrongPassword"


async def test_guesses_from_everywhere_slow_a_user_down_by_half_a_minute_at_most(place: Place) -> None:
    assert {await guess(place, address=f"10.0.0.{number}") for number in range(50)} == {"WrongPassword"}
    assert await guess(place, address="10.0.1.1") == "TooManyTries"
    for number in range(8):
        place.later(seconds=30)
        assert await guess(place, address=f"10.0.2.{number}") == "WrongPassword"


async def test_many_guesses_at_once_are_no_way_around(place: Place) -> None:
    await with_password(place)
    answers = await asyncio.gather(*(guess(place) for _ in range(20)))
    assert (answers.count("WrongPassword"), answers.count("TooManyTries")) == (5, 15)


async def test_only_so_many_failures_are_kept_in_mind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "MOST", 30)
    for number in range(40):
        await guess(place, f"user-{number}", f"10.0.0.{number}")
    assert len(place.identity._tries._failed) == 30


# -- acting as somebody else ---------------------------------------------------------------------------------------


async def test_an_administrator_enters_for_a_while_to_read_and_it_is_written_down_before(place: Place) -> None:
    admin, ana = await place.admin(), (await place.join("ana")).caller
    entered = await place.identity.enter(admin, "ana", "ticket 17")
    caller = await place.identity.caller_of_sign_in(entered.token)
    assert (caller.user, caller.role, caller.scopes, caller.entered_by) == ("ana", "user", ("read",), "root")
    [entry] = [one for one in await place.identity.audit(admin) if one.act == "enter"]
    assert (entry.by, entry.user, entry.about) == ("root", "ana", "read: ticket 17")
    for forbidden in (place.identity.users(caller), place.identity.enter(ana, "root", "why not")):
        with pytest.raises(Forbidden):
            await forbidden
    with pytest.raises(BadValue):
        await place.identity.enter(admin, "ana", "")
    with pytest.raises(BadValue):
        await place.identity.enter(admin, "ana", "x", scopes=("admin",))
    place.later(minutes=15)
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(entered.token)


async def test_who_is_no_administrator_any_more_is_out(place: Place) -> None:
    admin = await place.admin()
    await place.admin("second")
    entered = await place.identity.enter(admin, "an application's user", "to look")
    assert (await place.identity.caller_of_sign_in(entered.token)).entered_by == "root"
    await place.identity.change_role(place.operator, "root", "user")
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(entered.token)


# -- secrets -------------------------------------------------------------------------------------------------------


async def test_no_secret_is_stored_logged_told_in_an_error_or_shown(
    place: Place, caplog: pytest.LogCaptureFixture, engine: str
) -> None:
    caplog.set_level(logging.DEBUG)
    admin, link = await place.admin(), await place.identity.invite(place.operator, "ana")
    came = await place.identity.use_link(link)
    unused = await place.identity.link(admin, "ana")
    await place.identity.set_password(came.caller, GOOD)
    made = await place.identity.make_key(came.caller, user="ana", label="laptop")
    again = await place.identity.sign_in(place.tenant, "ana", GOOD)
    secrets = [str(one) for one in (link, unused, came.token, came.csrf, again.token, made.secret, GOOD)]
    said = [repr(came), repr(again), repr(made), repr(await place.identity.keys(admin)), repr(unused), caplog.text]
    said.append(repr(await place.log.accounts.get(Owner(place.tenant, "ana"))))
    said.append(await place.dump())
    for token in secrets:
        for ask in (place.identity.use_link, place.identity.caller_of_key, place.identity.caller_of_sign_in):
            try:
                await ask(token)
            except EverthreadError as refused:
                said.append(str(refused) + repr(refused))
    if engine == "sqlite":
        said += [data.decode("latin-1") for data in files_of(place.address).values()]
    for secret in secrets:
        assert [text for text in said if secret in text or secret[4:] in text] == []
    assert hashlib.sha256(made.secret.encode()).hexdigest() in said[7]
    assert "$argon2id$" in said[7]
    assert "$argon2id$" not in "".join(said[:7])


async def test_a_commit_whose_answer_was_lost_is_made_once(place: Place) -> None:
    """PostgreSQL's answers can be lost; SQLite's come from the process itself."""
    losing = _losing(place)
    token = await losing(lambda: place.identity.invite(place.operator, "ana"))
    came = await losing(lambda: place.identity.use_link(token))
    assert await place.identity.caller_of_sign_in(came.token) == came.caller
    made = await losing(lambda: place.identity.make_key(place.operator, user="ana", label="x"))
    assert [one.id for one in await place.identity.keys(place.operator)] == [made.key.id]
    await losing(lambda: place.identity.set_password(came.caller, GOOD))
    await losing(lambda: place.identity.sign_in(place.tenant, "ana", GOOD))
    entered = await losing(lambda: place.identity.enter(place.operator, "ana", "to look"))
    assert (await place.identity.caller_of_sign_in(entered.token)).entered_by
    await losing(lambda: place.identity.revoke_key(place.operator, made.key.id))
    assert sorted(act for _, act, _ in await place.acts()) == ["enter", "invite", "make_key", "revoke_key"]


def _losing(place: Place) -> Callable[[Callable[[], Awaitable[T]]], Awaitable[T]]:
    """Do something whose commit is made, and not confirmed."""
    running = engine_of(place.log)
    lost: list[int] = []
    if isinstance(running, PostgresEngine):
        real = running._write

        async def unreliable(*given: Any) -> Any:
            outcome = await real(*given)
            if not lost:
                lost.append(1)
                raise ConnectionResetError("lost")
            return outcome

        running._write = unreliable  # type: ignore[assignment,method-assign]

    async def losing(work: Callable[[], Awaitable[T]]) -> T:
        lost.clear()
        done = await work()
        assert lost or not isinstance(running, PostgresEngine)
        return done

    return losing


async def test_a_link_is_no_sign_in_and_a_sign_in_no_key(place: Place) -> None:
    came = await place.join("ana")
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_sign_in(await place.identity.link(place.operator, "ana"))
    with pytest.raises(NotSignedIn):
        await place.identity.caller_of_key(came.token)
    assert came.until - came.caller.since == timedelta(days=30)
