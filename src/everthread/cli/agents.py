"""`everthread agents`: which agents there are, and what each of their versions says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from everthread.agent.personas import HIDDEN, Agent, Versioned
from everthread.app import Everthread
from everthread.cli.shared import (
    Where,
    agents_folder,
    ago,
    anywhere,
    console,
    how_to_write,
    printable,
    run,
    say_json,
    where_of,
)
from everthread.cli.speaking import FOLDER
from everthread.transfer.write import timestamp

if TYPE_CHECKING:
    from rich.console import Console


@click.command("agents")
@click.argument("name", required=False)
@anywhere
@FOLDER
def agents_command(name: str | None, folder: str | None, **rest: Any) -> None:
    """List the agents there are, with the version, model and description of each; or show the one with this NAME, all
    that it says, and its versions."""
    where, agents = where_of(**rest), agents_folder(folder)

    async def work(et: Everthread) -> None:
        if name:
            newest = await et.agents.must_be(where.tenant, name)
            versions = await et.agents.history(where.tenant, name)
            say_json(_one_as_json(newest, versions)) if where.json else _one(newest, versions)
        else:
            found = await et.agents.list(where.tenant)
            say_json([_as_json(one) for one in found]) if where.json else _table(where, found)

    run(where, work, makes_store=agents is not None, agents=agents)


def _as_json(found: Versioned) -> dict[str, Any]:
    about = {"name": found.agent.name, "version": found.version, "time": timestamp(found.time)}
    return {**about, "hash": found.agent.hash, **_said(found.agent)}


def _one_as_json(newest: Versioned, versions: list[Versioned]) -> dict[str, Any]:
    listed = [
        {"version": one.version, "time": timestamp(one.time), "hash": one.agent.hash, "changed": changed}
        for one, changed in _changes(versions)
    ]
    return {**_as_json(newest), "versions": listed}


def _said(agent: Agent) -> dict[str, Any]:
    """All that an agent says, without the secrets of its MCP servers."""
    said: dict[str, Any] = msgspec.structs.asdict(agent)
    said["mcp"] = {name: _open(msgspec.to_builtins(server)) for name, server in agent.mcp.items()}
    return said


def _open(server: dict[str, Any]) -> dict[str, Any]:
    secret = {key: dict.fromkeys(server[key], HIDDEN) for key in ("env", "headers") if key in server}
    return server | secret


def _changes(versions: list[Versioned]) -> list[tuple[Versioned, list[str]]]:
    """The versions, newest first, each with the names of the fields that differ from the version before."""
    befores = [*(one.agent for one in versions[1:]), Agent(name="")]
    fields = [field for field in Agent.__struct_fields__ if field != "name"]
    return [
        (one, [field for field in fields if getattr(one.agent, field) != getattr(before, field)])
        for one, before in zip(versions, befores, strict=True)
    ]


def _table(where: Where, found: list[Versioned]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console(table=True)
    if not found:
        words = f"No agents yet: {how_to_write(where, 'NAME')}."
        out.print(words, markup=False, soft_wrap=True)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("agent", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("model", no_wrap=True, overflow="ellipsis")
    table.add_column("description", overflow="ellipsis", no_wrap=True, ratio=1)
    for one in found:
        texts = (one.agent.name, str(one.version), one.agent.model or "–", one.agent.description)
        table.add_row(*(Text(" ".join(printable(text).split())) for text in texts))
    out.print(table)


def _one(newest: Versioned, versions: list[Versioned]) -> None:
    out, said = console(), _said(newest.agent)
    out.print(f"{said.pop('name')} · version {newest.version}", style="bold", markup=False)
    instructions, description = said.pop("instructions"), said.pop("description")
    if description:
        out.print(printable(description), markup=False)
    for name, value in said.items():
        if value:
            out.print(printable(f"{name}: {_in_words(name, value)}"), style="dim", markup=False)
    if instructions:
        out.print(f"\n{printable(instructions.strip())}", markup=False)
    _list_versions(out, versions)


def _list_versions(out: Console, versions: list[Versioned]) -> None:
    out.print("\nVersions", style="bold")
    for one, changed in _changes(versions):
        words = ", ".join(changed) if one.version > 1 else "the first"
        out.print(f"{one.version:>4}  {ago(one.time):<12} {one.agent.hash[:8]}  {words}", style="dim", markup=False)


def _in_words(name: str, value: Any) -> str:
    match name:
        case "settings":
            return ", ".join(f"{setting}={given}" for setting, given in value.items())
        case "mcp":
            return ", ".join(f"{server} ({_reached(about)})" for server, about in value.items())
    return value if isinstance(value, str) else ", ".join(value)


def _reached(server: dict[str, Any]) -> str:
    """How an MCP server is reached: by a command or an address."""
    return " ".join(server.get("command", ())) or str(server.get("url"))
