"""`everthread serve`: the service, on this machine or for others."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.identity import ADDRESS, identity_of, link_to
from everthread.cli.shared import (
    Scope,
    agents_folder,
    counted,
    guarded,
    pairs_of,
    say_json,
    scope_of,
    scoped,
    tell,
)
from everthread.config import general_sources, resolve
from everthread.core.accounts import operator
from everthread.errors import InputError, OneProcessOnly
from everthread.store.open import takes_bus

if TYPE_CHECKING:
    from everthread.server.serve import Options

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class NobodyHasAPassword(InputError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"On {host} others can reach the service, but nobody has a password yet: set one with "
            "`everthread users --password`, or serve on 127.0.0.1."
        )


class AddressTaken(InputError):
    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"Nothing can be served at {host}:{port} ({why}): end what is there, or take another --port.")


@click.command("serve")
@scoped
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="At which address of this machine.")
@click.option("--name", "names", multiple=True, metavar="HOST", help="A name by which it is called; may be repeated.")
@click.option(
    "--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes; needs PostgreSQL."
)
@click.option(
    "--agents", metavar="FOLDER", help="A folder of agents' TOML files, for all tenants; also EVERTHREAD_AGENTS."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any setting; may be repeated.")
@click.option("--requests", type=click.IntRange(0), metavar="N", help="A caller's requests a minute; 0 for any number.")
@click.option("--turns", type=click.IntRange(0), metavar="N", help="A caller's turns at once; 0 for any number.")
@click.option("--tokens", type=click.IntRange(0), metavar="N", help="A caller's tokens a day; 0, the default, for any.")
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--proxy", "proxies", default="127.0.0.1", show_default=True, help="Whose X-Forwarded headers are believed; none."
)
@click.option(
    "--metrics",
    type=click.Choice(("local", "key")),
    default="local",
    show_default=True,
    help="Who is told /metrics: this machine too, or an administrator's key alone, as behind a balancer here.",
)
def serve_command(**given: Any) -> None:
    """Serve conversations over HTTP, server-sent events and WebSocket, with a page to talk on.

    The first start makes the first account, --user's, and prints a link that signs in once; `everthread link` makes
    another. Where others can reach it (--host), somebody must have a password. SIGTERM ends it in good order."""
    where = scope_of(*(given.pop(name) for name in ("store", "user", "tenant", "as_json")))
    guarded(where.json, lambda: _serve(where, **given))


def _serve(
    where: Scope, *, workers: int, agents: str | None, settings: Sequence[str], names: Sequence[str], **given: Any
) -> None:
    from everthread.server.logs import to_stderr
    from everthread.server.serve import listening_socket, run

    options = _options(where, agents, settings, names, **given)
    if workers > 1 and not takes_bus(where.store):
        raise OneProcessOnly(workers)
    try:
        at = listening_socket(options)
    except OSError as problem:
        raise AddressTaken(options.host, options.port, problem.strerror or str(problem)) from None
    with at:
        to_stderr(options.log_format)  # whoever waits for a store is told so
        address = _address(options.host, at.getsockname()[1])
        first, link = asyncio.run(_prepare(where, options, address))
        run(options, at, workers, began=lambda: _welcome(where, address, workers, first=first, link=link))


def _options(where: Scope, agents: str | None, settings: Sequence[str], names: Sequence[str], **given: Any) -> Options:
    from everthread.server.limits import Allowance
    from everthread.server.serve import Options

    allowance = {name: given.pop(name) for name in ("requests", "turns", "tokens")}
    folder: Path | None = agents_folder(agents)
    return Options(
        store=where.store,
        agents=str(folder) if folder else "",
        settings=pairs_of(settings),  # type: ignore[arg-type]
        names=tuple(names),
        allowance=Allowance(**{name: value for name, value in allowance.items() if value is not None}),
        **given,
    )


async def _prepare(where: Scope, options: Options, address: str) -> tuple[bool, str]:
    """Make the store and its first account. Whether it is the first, and a link that signs in. BadSetting: what is set
    for all users is wrong, which is found out here and not by them."""
    resolve(*general_sources(os.environ))
    async with Everthread.open(where.store, patience=options.patience) as et:
        identity = identity_of(et)
        first = await identity.first(where.user, tenant=where.tenant)
        if options.host not in LOOPBACK and not await identity.any_password():
            raise NobodyHasAPassword(options.host)
        link = ""
        if first and sys.stdout.isatty() and not where.json:  # into a file or log it would let in whoever reads that
            link = link_to(address, str(await identity.link(operator(where.tenant), where.user)))
        return first, link


def _welcome(where: Scope, address: str, workers: int, *, first: bool, link: str) -> None:
    """Say where the service is, and how to come in."""
    if where.json:
        say_json({"address": address, "workers": workers, "first": first})
        sys.stdout.flush()
        return
    several = f", from {counted(workers, 'process')}" if workers > 1 else ""
    tell(f"Everthread serves at {address}{several}; ctrl-C ends it.")
    if link:
        tell("Sign in with this link, once and within ten minutes:")
        click.echo(link)
    else:
        more = "" if address == ADDRESS else f" --address {address}"
        tell(f"`everthread link{more}` prints a link that signs you in.")


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
