"""`everthread work`: the worker apart, for any number of processes that reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.identity import vault_of
from everthread.cli.shared import at_store, json_text, printable, run, tell, where_of
from everthread.core.values import plain
from everthread.jobs.worker import Did

if TYPE_CHECKING:
    from everthread.server.vault import Vault

PATIENCE = 30.0  # seconds to wait for a store that is away, as a service does


@click.command("work")
@at_store
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@click.option("--all", "everything", is_flag=True, help="Look at every conversation first, not only at reminders.")
@click.option("--turns", type=click.IntRange(0), metavar="N", help="As for `serve`: a user's scheduled turns at once.")
@click.option("--tokens", type=click.IntRange(0), metavar="N", help="As for `serve`: a user's tokens a day.")
@click.option("--unlocked", is_flag=True, help="Whoever writes into the store is its operator: no service's users do.")
def work_command(
    once: bool, everything: bool, turns: int | None, tokens: int | None, unlocked: bool, **rest: Any
) -> None:
    """Say what is scheduled, and do what memory has to do, for all users of the store, apart from the processes that
    reply: briefs, recaps, summaries, the index of recall. Processes leave both to this command where the setting
    `worker` is `apart` (EVERTHREAD_WORKER=apart). Any number may run; ctrl-C ends one cleanly.

    It works as `everthread serve` does: what only operators may set is passed over where a conversation says it, unless
    it is --unlocked; a tenant's model calls are made with its own keys; limits are those of `serve`."""
    where = where_of(**rest)
    allowance = {"turns": turns, "tokens": tokens}
    keys = Keys()

    def did(one: Did) -> None:
        if where.json:
            click.echo(json_text(plain(one)))
            return
        told = {"name": "from its first message", "schedule": "said, and answered"}
        by = told.get(one.what) or one.model or "in the conversation's own words"
        click.echo(printable(f"{one.conversation} {one.branch}: {one.what}, {by}"))

    async def work(et: Everthread) -> None:
        if not where.json and not once:
            tell(f"Working for {where.store}; ctrl-C ends.")
        keys.et = et
        _hold(et, {name: most for name, most in allowance.items() if most is not None}, unlocked=unlocked)
        await et.work(until_idle=once, all=everything, tell=did)

    run(where, work, makes_store=not once, patience=PATIENCE, locked=not unlocked, keys=keys.of_tenant)


class Keys:
    """The keys with which a tenant's model calls are made: its own, from the vault."""

    et: Everthread | None = None
    _vault: Vault | None = None

    async def of_tenant(self, tenant: str) -> Mapping[str, str]:
        """NoVaultKey, BadSeal, MissingExtra: then no call is made. Nobody needs the packages of the service for what it
        has never kept."""
        assert self.et is not None
        if self._vault is None and await self.et.log.accounts.sealed(tenant):
            self._vault = vault_of(self.et)
        return await self._vault.keys_of(tenant) if self._vault else {}


def _hold(et: Everthread, most: dict[str, int], *, unlocked: bool) -> None:
    """Hold what is scheduled to the limits of a service; an operator's own store has none but those given."""
    from everthread.server.limits import Allowance, held_to

    none = {"turns": 0, "tokens": 0} if unlocked else {}
    held_to(et._runtime, Allowance(**{**none, **most}))
