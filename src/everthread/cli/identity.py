"""What the commands about the service's users share. On the machine itself one is the operator; the audit says so."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from everthread.app import Everthread
from everthread.cli.shared import console, printable, somebody_types
from everthread.core.loopback import LOOPBACK
from everthread.errors import BadValue, InputError
from everthread.routes import PORT

if TYPE_CHECKING:
    from everthread.server.identity import Identity
    from everthread.server.vault import Vault

ADDRESS = f"http://{LOOPBACK[0]}:{PORT}"
OPTION_OF_ADDRESS = click.option("--address", default=ADDRESS, show_default=True, help="Where the service is.")
OPTION_OF_FORCE = click.option("--force", is_flag=True, help="Print a link even where no terminal is.")


class NotATerminal(InputError):
    def __init__(self) -> None:
        super().__init__(
            "A link lets whoever reads it in, so it is printed to a terminal and not into a file or log: say --force "
            "to print it here all the same."
        )


def identity_of(et: Everthread) -> Identity:
    """Raises MissingExtra where the packages of the service are not installed, which is found out only here."""
    from everthread.server.identity import Identity

    return Identity(et.log)


def vault_of(et: Everthread) -> Vault:
    from everthread.server.vault import Vault

    return Vault(et.log)


def link_to(address: str, token: str) -> str:
    """The address of a link: its token is in the fragment, which browsers send to nobody."""
    return f"{address.rstrip('/')}/#link={token}"


def check_terminal(force: bool) -> None:
    """Whether a link may be printed: before it is made, or it would be there for nothing."""
    if not force and not sys.stdout.isatty():
        raise NotATerminal


def only_one(acts: Mapping[str, Any]) -> tuple[str, Any] | None:
    """What is to be done, by the name of its option; nothing to be done is None."""
    named = {name: value for name, value in acts.items() if value not in (None, False)}
    if len(named) > 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in named)
        raise BadValue("the options", options, "one of them at a time")
    return next(iter(named.items())) if named else None


def asked_for(what: str, *, twice: bool = False) -> str:
    """A secret: typed unseen, or the first line of what is piped in. Never an argument, which others could see."""
    if somebody_types():
        return str(click.prompt(what, hide_input=True, confirmation_prompt=twice, err=True))
    line = sys.stdin.readline().rstrip("\r\n") if sys.stdin else ""
    if not line:
        raise BadValue(what, "", "typed, or piped in as one line")
    return line


def table(columns: tuple[str, ...], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        drawn.add_column(name, no_wrap=True)
    for row in rows:
        drawn.add_row(*(Text(" ".join(printable(cell).split())) for cell in row))
    console(table=True).print(drawn)
