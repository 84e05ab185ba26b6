"""`everthread users`: who may use the service, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.identity import (
    OPTION_OF_ADDRESS,
    OPTION_OF_FORCE,
    asked_for,
    check_terminal,
    identity_of,
    only_one,
    table,
)
from everthread.cli.link import show_link
from everthread.cli.shared import Where, ago, at_store, run, say_json, where_of
from everthread.core.accounts import ROLES, USER, Account, AuditEntry, Caller, operator
from everthread.core.values import plain
from everthread.errors import BadValue, UnknownAccount

if TYPE_CHECKING:
    from everthread.server.identity import Identity

PAGE = 500


@click.command("users")
@at_store
@click.option("--invite", metavar="NAME", help="Print a link that gives somebody an account, with --role.")
@click.option("--change", metavar="NAME", help="Change what a user is: --role.")
@click.option("--role", type=click.Choice(ROLES), help="With --invite or --change.")
@click.option("--disable", metavar="NAME", help="Let a user in no more, by whatever.")
@click.option("--enable", metavar="NAME", help="Let a user in again.")
@click.option("--password", metavar="NAME", help="Set a password: it is asked for, or piped in as one line.")
@click.option(
    "--enter", metavar="NAME", help="Print a link that shows what a user sees, for a quarter of an hour: --why."
)
@click.option("--why", metavar="REASON", help="With --enter: for the audit.")
@click.option("--sign-out", metavar="NAME", help="End all of a user's sign-ins and links.")
@click.option("--audit", is_flag=True, help="Show what administrators and operators did, newest first.")
@OPTION_OF_ADDRESS
@OPTION_OF_FORCE
def users_command(role: Any, why: str | None, address: str, force: bool, **given: Any) -> None:
    """List the accounts of --tenant, or change one. Whoever runs this is the operator: --user does not matter here, and
    what is done is written into the audit."""
    names = ("invite", "enter", "change", "disable", "enable", "password", "sign_out", "audit")
    acts = {name: given.pop(name) for name in names}
    where = where_of(**given)

    async def work(et: Everthread) -> None:
        act = only_one(acts)
        if role is not None and (act is None or act[0] not in ("invite", "change")):
            raise BadValue("--role", role, "given with --invite or --change")
        if bool(why) != (act is not None and act[0] == "enter"):
            raise BadValue("--why", why or "", "given with --enter, which needs it")
        identity, by = identity_of(et), operator(where.tenant)
        if act is None:
            _show(where, await _all(identity, by))
        elif act[0] == "invite":
            check_terminal(force)
            show_link(where, address, await identity.invite(by, act[1], role=role or USER), act[1], "a week")
        elif act[0] == "enter":
            check_terminal(force)
            entered = await identity.enter(by, act[1], why or "")
            show_link(where, address, entered.token, act[1], "a quarter of an hour", again=True)
        elif act[0] == "audit":
            _show_audit(where, await identity.audit(by, limit=PAGE))
        else:
            _show(where, [await _changed(identity, by, *act, role)])

    run(where, work)


async def _changed(identity: Identity, by: Caller, act: str, user: str, role: Any) -> Account:
    match act:
        case "disable":
            return await identity.disable(by, user)
        case "enable":
            return await identity.enable(by, user)
        case "password":
            return await identity.set_password(by, asked_for("Password", twice=True), user=user)
        case "sign_out":
            await identity.sign_out_everywhere(by, user)
            return await _one(identity, by, user)
    if role is None:
        raise BadValue("--change", user, "given with --role")
    return await identity.change_role(by, user, role)


async def _all(identity: Identity, by: Caller) -> list[Account]:
    found: list[Account] = []
    while page := await identity.users(by, after=found[-1].user if found else "", limit=PAGE):
        found += page
    return found


async def _one(identity: Identity, by: Caller, user: str) -> Account:
    for one in await _all(identity, by):
        if one.user == user:
            return one
    raise UnknownAccount(user)


def _show(where: Where, found: list[Account]) -> None:
    if where.json:
        say_json(plain(found))
    elif not found:
        click.echo(f"Nobody has an account yet in tenant {where.tenant!r}: `everthread link` gives the first.")
    else:
        rows = [(one.user, one.role, "yes" if one.has_password else "–", ago(one.made), _state(one)) for one in found]
        table(("user", "role", "password", "made", "state"), rows)


def _state(one: Account) -> str:
    return "active" if one.disabled is None else f"disabled {ago(one.disabled)}"


def _show_audit(where: Where, found: list[AuditEntry]) -> None:
    if where.json:
        say_json(plain(found))
        return
    rows = [(f"{one.time:%Y-%m-%d %H:%M:%S}", one.by or "operator", one.act, one.user, one.about) for one in found]
    table(("time", "by", "act", "user", "about"), rows)
