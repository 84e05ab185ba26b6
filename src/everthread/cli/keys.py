"""`everthread keys`: API keys of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.identity import identity_of, only_one, table
from everthread.cli.shared import Where, ago, at_store, run, say_json, tell, was_said, where_of
from everthread.core.accounts import SCOPES, ApiKey, Caller, operator
from everthread.core.values import plain
from everthread.errors import BadValue, UnknownKey

if TYPE_CHECKING:
    from everthread.server.identity import Identity

PAGE = 500
SHORT, SHORTEST = 8, 4  # characters of an id that are shown, and by which one is named at least


@click.command("keys")
@at_store
@click.option("--make", metavar="LABEL", help="Make a key for --user, or for an --application; it is shown this once.")
@click.option("--application", metavar="NAME", help="With --make: it acts for the users that it names.")
@click.option("--users", metavar="PREFIX", help="With --application: only for users whose names begin so.")
@click.option("--scope", "scopes", type=click.Choice(SCOPES), multiple=True, help="What it may do; read and write.")
@click.option("--days", type=int, help="After how many days it runs out; 365.")
@click.option("--revoke", metavar="ID", help="Take a key no longer; its id may be shortened.")
def keys_command(make: str | None, revoke: str | None, **given: Any) -> None:
    """List the API keys of --tenant, without the keys themselves; or make or revoke one. A new key is written to
    standard output, terminal or not: whoever makes one wants to keep it somewhere. Services take a revocation up within
    five seconds."""
    what = {name: given.pop(name) for name in ("application", "users", "scopes", "days")}
    where, names_user = where_of(**given), was_said("user")

    async def work(et: Everthread) -> None:
        act = only_one({"make": make, "revoke": revoke})
        if (act is None or act[0] != "make") and any(what.values()):
            raise BadValue("the options", "--application, --users, --scope, --days", "given with --make")
        _check(what, where.user if names_user else "")
        identity, by = identity_of(et), operator(where.tenant)
        if act is None:
            _show(where, await _all(identity, by))
        elif act[0] == "make":
            await _make(where, identity, by, act[1], what)
        else:
            one = await _found(identity, by, act[1])
            await identity.revoke_key(by, one.id)
            _show(where, [await _found(identity, by, one.id)])

    run(where, work)


def _check(what: dict[str, Any], user: str) -> None:
    """A key is a person's or an application's. `user`: the one that was named with it."""
    if what["application"] and user:
        todo = "left out with --application, which names its users by itself; --users PREFIX says which it may"
        raise BadValue("--user", user, todo)
    if what["users"] and not what["application"]:
        raise BadValue("--users", what["users"], "given with --application")


async def _make(where: Where, identity: Identity, by: Caller, label: str, what: dict[str, Any]) -> None:
    asked = {name: value for name, value in what.items() if value}
    if not what["application"]:
        asked["user"] = where.user
    made = await identity.make_key(by, label=label, **asked)
    if where.json:
        say_json({**plain(made.key), "secret": str(made.secret)})
        return
    click.echo(str(made.secret))
    acts = f"the application {made.key.application!r}" if made.key.application else f"{made.key.user!r}"
    tell(f"This is the key for {acts}, and will not be shown again. It runs out on {made.key.until:%Y-%m-%d}.")


async def _all(identity: Identity, by: Caller) -> list[ApiKey]:
    found: list[ApiKey] = []
    while page := await identity.keys(by, after=found[-1].id if found else "", limit=PAGE):
        found += page
    return found


async def _found(identity: Identity, by: Caller, id: str) -> ApiKey:
    """A key by its id, or the beginning or end of it."""
    if len(id) < SHORTEST:
        raise BadValue("the id", id, f"at least {SHORTEST} characters of it")
    part = id.upper()
    matches = [one for one in await _all(identity, by) if one.id.startswith(part) or one.id.endswith(part)]
    if len(matches) != 1:
        raise UnknownKey(id) if not matches else BadValue("the id", id, f"longer: {len(matches)} are like it")
    return matches[0]


def _show(where: Where, found: list[ApiKey]) -> None:
    if where.json:
        say_json(plain(found))
    elif not found:
        click.echo(f"There are no API keys in tenant {where.tenant!r}: `--make LABEL` makes one.")
    else:
        table(("id", "for", "label", "scopes", "until", "used", "state"), [_row(one) for one in found])


def _row(one: ApiKey) -> tuple[str, ...]:
    whose = f"application {one.application} {one.users}".strip() if one.application else one.user
    state = "active" if one.revoked is None else f"revoked {ago(one.revoked)}"
    return one.id[-SHORT:], whose, one.label, " ".join(one.scopes), f"{one.until:%Y-%m-%d}", ago(one.seen), state
