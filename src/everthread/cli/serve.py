"""`everthread serve`: the service, on this machine or for others."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.identity import ADDRESS, identity_of, link_to
from everthread.cli.shared import (
    Where,
    agents_folder,
    at_store,
    counted,
    guarded,
    pairs_of,
    say_json,
    tell,
    where_of,
)
from everthread.config import general_sources, given_source, resolve
from everthread.core.accounts import operator
from everthread.core.locks import LOCAL
from everthread.core.loopback import LOOPBACK
from everthread.errors import InputError, OneProcessOnly
from everthread.providers.local.files import find
from everthread.routes import PORT
from everthread.store.open import takes_bus

if TYPE_CHECKING:
    from everthread.server.serve import Options


class NobodyHasAPassword(InputError):
    def __init__(self, host: str, user: str) -> None:
        super().__init__(
            f"On {host} others can reach the service, but nobody has a password yet: set one with "
            f"`everthread users --password {user}`, or serve on {LOOPBACK[0]}."
        )


class AddressTaken(InputError):
    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"Nothing can be served at {host}:{port} ({why}): end what is there, or take another --port.")


class NotOurAddress(InputError):
    def __init__(self, host: str, why: str) -> None:
        super().__init__(
            f"{host!r} is no address of this machine ({why}): --host takes one that is, such as {LOOPBACK[0]}, or "
            "0.0.0.0 for all of them. By which name it is called, --name says."
        )


class PortNotAllowed(InputError):
    def __init__(self, port: int, why: str) -> None:
        super().__init__(f"You may not serve at port {port} ({why}): take a --port from 1024 on.")


@click.command("serve")
@at_store
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True)
@click.option("--host", default=LOOPBACK[0], show_default=True, help="At which address of this machine.")
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
    "--proxy", "proxies", default=LOOPBACK[0], show_default=True, help="Whose X-Forwarded headers are believed; none."
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
    where = where_of(*(given.pop(name) for name in ("store", "user", "tenant", "as_json")))
    guarded(where.json, lambda: _serve(where, **given))


def _serve(
    where: Where, *, workers: int, agents: str | None, settings: Sequence[str], names: Sequence[str], **given: Any
) -> None:
    from everthread.server.logs import to_stderr
    from everthread.server.serve import listening_socket, run

    options = _options(where, agents, settings, names, **given)
    if workers > 1 and not takes_bus(where.store):
        raise OneProcessOnly(workers)
    try:
        at = listening_socket(options)
    except OSError as problem:
        raise _no_address(options, problem) from None
    with at:
        to_stderr(options.log_format)  # whoever waits for a store is told so
        address = _address(options.host, at.getsockname()[1])
        first, link = asyncio.run(_prepare(where, options, address))
        run(options, at, workers, began=lambda: _welcome(where, address, workers, first=first, link=link))


def _no_address(options: Options, problem: OSError) -> InputError:
    """Why nothing can be served at an address."""
    why = problem.strerror or str(problem)
    if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
        return NotOurAddress(options.host, why)
    if isinstance(problem, PermissionError):
        return PortNotAllowed(options.port, why)
    return AddressTaken(options.host, options.port, why)


def _options(where: Where, agents: str | None, settings: Sequence[str], names: Sequence[str], **given: Any) -> Options:
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


async def _prepare(where: Where, options: Options, address: str) -> tuple[bool, str]:
    """Make the store and its first account. Whether it is the first, and a link that signs in. BadSetting, NoModelFile:
    what is set for all users is wrong, which is found out here and not by them."""
    _check_settings(options.settings)
    async with Everthread.open(where.store, patience=options.patience) as et:
        identity = identity_of(et)
        first = await identity.first(where.user, tenant=where.tenant)
        if options.host not in LOOPBACK and not await identity.any_password():
            raise NobodyHasAPassword(options.host, where.user)
        link = ""
        if first and sys.stdout.isatty() and not where.json:  # into a file or log it would let in whoever reads that
            link = link_to(address, str(await identity.link(operator(where.tenant), where.user)))
        return first, link


def _check_settings(given: Mapping[str, Any]) -> None:
    settings = resolve(*general_sources(os.environ), given_source(given)).settings
    for model in (settings.model, settings.fallback, settings.summary_model):
        if model and model.startswith(LOCAL):
            find(model.removeprefix(LOCAL))


def _welcome(where: Where, address: str, workers: int, *, first: bool, link: str) -> None:
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
