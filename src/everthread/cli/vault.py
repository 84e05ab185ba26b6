"""`everthread vault`: a tenant's keys for providers, encrypted, with which the service makes its model calls."""

from __future__ import annotations

from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.identity import asked_for, only_one, table, vault_of
from everthread.cli.shared import Where, ago, at_store, run, say_json, tell, where_of
from everthread.core.accounts import ProviderKey, operator
from everthread.core.values import plain
from everthread.language.shown import counted


@click.command("vault")
@at_store
@click.option("--put", metavar="PROVIDER", help="Keep a key: it is asked for, or piped in as one line.")
@click.option("--remove", metavar="PROVIDER", help="Forget a key.")
@click.option("--rotate", is_flag=True, help="Encrypt the keys of all tenants with the newest master key.")
@click.option("--new-key", is_flag=True, help="With a new master key in the file, which is made first.")
def vault_command(**given: Any) -> None:
    """List which providers --tenant has keys for, and how each key ends; or keep, forget or encrypt them anew. PROVIDER
    is a provider's name, or the host and port of a server. The master key is EVERTHREAD_VAULT_KEY, else the file
    vault.key in your configuration folder, which is made with the first key: back it up, apart from the database."""
    acts = {name: given.pop(name) for name in ("put", "remove", "rotate", "new_key")}
    where = where_of(**given)

    async def work(et: Everthread) -> None:
        act = only_one(acts)
        vault, by = vault_of(et), operator(where.tenant)
        if act and act[0] in ("rotate", "new_key"):
            _tell_rotated(where, await vault.rotate(by, new_key=act[0] == "new_key"))
            return
        if act and act[0] == "put":
            await vault.put(by, act[1], asked_for(f"Key for {act[1]}"))
        elif act:
            await vault.remove(by, act[1])
        _show(where, await vault.all(by))

    run(where, work)


def _tell_rotated(where: Where, count: int) -> None:
    if where.json:
        say_json({"encrypted": count})
    else:
        tell(f"{counted(count, 'key')} encrypted anew. Older master keys can go once no other process needs them.")


def _show(where: Where, found: list[ProviderKey]) -> None:
    if where.json:
        say_json(plain(found))
    elif not found:
        click.echo(f"Tenant {where.tenant!r} has no keys for providers: `--put PROVIDER` keeps one.")
    else:
        table(("provider", "key", "since"), [(one.provider, _key(one), ago(one.made)) for one in found])


def _key(one: ProviderKey) -> str:
    return f"…{one.ends}" if one.usable else "cannot be opened: put it in anew"
