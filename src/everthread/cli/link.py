"""`everthread link`: a one-time link to the service, made on the machine itself."""

from __future__ import annotations

from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.identity import OPTION_OF_ADDRESS, OPTION_OF_FORCE, check_terminal, identity_of, link_to
from everthread.cli.shared import Where, at_store, guarded, is_new, run, say_json, tell, where_of
from everthread.core.accounts import ROLES, USER, operator


@click.command("link")
@at_store
@click.option("--invite", metavar="NAME", help="Invite somebody who has no account yet; holds for a week.")
@click.option("--role", type=click.Choice(ROLES), default=USER, show_default=True, help="With --invite: as what.")
@OPTION_OF_ADDRESS
@OPTION_OF_FORCE
def link_command(invite: str | None, role: Any, address: str, force: bool, **rest: Any) -> None:
    """Print a link by which --user signs in to the service in a browser, once and within ten minutes; or which invites
    somebody. Where the store has no account yet, or there is none at all, --user gets the first one, as an
    administrator. It is printed to a
    terminal only, unless --force is given, with --json too: whoever reads it can use it."""
    where = where_of(**rest)
    guarded(where.json, lambda: check_terminal(force))  # before a store is made for it
    new = not invite and is_new(where.store)

    async def work(et: Everthread) -> None:
        if new:
            tell(f"A new store was made at {where.store}.")
        identity, by = identity_of(et), operator(where.tenant)
        if invite:
            show_link(where, address, await identity.invite(by, invite, role=role), invite, "a week")
            return
        if await identity.first(where.user, tenant=where.tenant):
            tell(f"{where.user!r} has the first account of this store, and administers it.")
        show_link(where, address, await identity.link(by, where.user), where.user, "ten minutes")

    run(where, work, makes_store=not invite)


def show_link(where: Where, address: str, token: str, user: str, holds: str, *, again: bool = False) -> None:
    """Print a link, which works once, or (`again`) until its time is over."""
    link = link_to(address, token)
    if where.json:
        say_json({"link": link, "user": user, "holds": holds})
        return
    click.echo(link)
    tell(f"It shows what {user!r} sees, for {holds}." if again else f"It lets in {user!r}, once, within {holds}.")
