"""`everthread import` and `everthread export`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
from click.core import ParameterSource

from everthread.app import AGENT, Everthread
from everthread.cli.shared import (
    Where,
    at_store,
    console,
    counted,
    every_conversation,
    find,
    progress,
    run,
    say_json,
    where_of,
)
from everthread.errors import Outdated
from everthread.store.conversations import Conversation, Owner, check_name, owner_of
from everthread.store.private_files import private_file
from everthread.transfer import document_lines, export_lines, mirror, read_all
from everthread.transfer.detect import FORMATS, Format
from everthread.transfer.read import Contents
from everthread.transfer.write import part_of

AGAIN = 4  # how often an export into a file begins anew when something was redacted meanwhile


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@at_store
@click.option(
    "--format",
    "given",
    type=click.Choice(FORMATS),
    help="Found out by default.",
)
@click.option("--agent", default=AGENT, show_default=True, help="With whom, for histories of other programs.")
def import_command(file: Path, given: str | None, agent: str, **rest: Any) -> None:
    """Import conversations from FILE: an Everthread export (same ids and times), a data export of ChatGPT or Claude
    (conversations.json), or message lists in OpenAI's format, Anthropic's, the Responses API's or Gemini's, one
    conversation a line or in one JSON value. Either all of it is imported or nothing. An Everthread export goes back to
    the users it came from, with their MEMORY.md, unless --user names another."""
    where = where_of(**rest)
    keep_users = click.get_current_context().get_parameter_source("user") is ParameterSource.DEFAULT

    async def work(et: Everthread) -> None:
        owner = owner_of(where.tenant, where.user)
        with progress(where, "reading") as step:
            format = cast("Format | None", given)
            options: dict[str, Any] = {"format": format, "keep_users": keep_users, "progress": step}
            contents = await asyncio.to_thread(read_all, file, owner, agent=check_name("agent", agent), **options)
        imported = _imported(contents)
        with progress(where, f"writing {imported['events']:,} events"):
            await et.log.restore(contents.wholes, contents.documents)
        if where.json:
            say_json(imported)
        else:
            _say(where.user, **imported)

    run(where, work, makes_store=True)


def _imported(contents: Contents) -> dict[str, Any]:
    """What was imported, as JSON tells it."""
    wholes, documents = contents
    users = {*(whole.conversation.user for whole in wholes), *(one.owner.user for one in documents)}
    return {
        "conversations": [whole.conversation.id for whole in wholes],
        "events": sum(len(drafts) for whole in wholes for _, drafts in whole.branches),
        "documents": len({(one.owner, one.document.name) for one in documents}),
        "users": sorted(users),
    }


def _say(user: str, *, conversations: list[str], events: int, documents: int, users: list[str]) -> None:
    counts = [counted(len(conversations), "conversation"), counted(events, "event")]
    counts += [counted(documents, "document")] if documents else []
    others = [one for one in users if one != user]
    whose = f", of {', '.join(map(repr, others))} (see them with --user)" if others else ""
    console().print(f"Imported {', '.join(counts)}{whose}.")


@click.command("export")
@click.argument("conversation", required=False)
@at_store
@click.option("--all", "everything", is_flag=True, help="All conversations of the user, and MEMORY.md.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file; standard output by default.",
)
@click.option("--follow", is_flag=True, help="Keep the file equal to the conversation until interrupted.")
def export_command(conversation: str | None, everything: bool, output: Path | None, follow: bool, **rest: Any) -> None:
    """Export a CONVERSATION (the last active by default) as JSON Lines, with all its branches, images and files."""
    where = where_of(**rest)
    if follow and (everything or output is None):
        raise click.UsageError("--follow mirrors one conversation into a file: name it with -o.")
    if where.json and output is None:
        raise click.UsageError("An export is JSON Lines already; --json reports on one that goes into a file (-o).")

    async def work(et: Everthread) -> None:
        if everything:
            found = await every_conversation(et, where)
            await _export(et, where, found, output, whose=owner_of(where.tenant, where.user))
            return
        talk = await find(et, where, conversation)
        if follow and output:
            await mirror(et.log, talk.conversation, output)
        await _export(et, where, [talk.conversation], output)

    run(where, work)


async def _export(
    et: Everthread, where: Where, found: list[Conversation], output: Path | None, *, whose: Owner | None = None
) -> None:
    """Export conversations, and the documents of a user; into a file, also say how much that was."""
    if output is None:
        async for line in _lines(et, found, whose):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return
    lines = await _export_into(output, et, where, found, whose)
    if where.json:
        say_json({"file": str(output), "conversations": len(found), "lines": lines})
    else:
        console().print(f"Exported {counted(len(found), 'conversation')}, {counted(lines, 'line')}, to {output}.")


async def _export_into(
    output: Path, et: Everthread, where: Where, found: list[Conversation], whose: Owner | None
) -> int:
    """Export into a file, anew where something was redacted meanwhile. Gives the number of lines."""
    for _ in range(AGAIN):
        with suppress(Outdated):
            return await _export_once(output, et, where, found, whose)
    return await _export_once(output, et, where, found, whose)


async def _export_once(
    output: Path, et: Everthread, where: Where, found: list[Conversation], whose: Owner | None
) -> int:
    # Into a file beside the goal first: an export that is interrupted does not replace a good one.
    part = part_of(output)
    lines = 0
    with progress(where, "exporting") as step, _passing(part) as file:
        async for line in _lines(et, found, whose):
            file.write(line)
            lines += 1
            step(1)
    part.replace(output)
    return lines


async def _lines(et: Everthread, found: list[Conversation], whose: Owner | None) -> AsyncIterator[bytes]:
    documents = [document_lines(et.log, whose)] if whose else []
    for source in (*documents, *(export_lines(et.log, conversation) for conversation in found)):
        async for line in source:
            yield line


@contextmanager
def _passing(path: Path) -> Iterator[BinaryIO]:
    """A file that is removed again unless it is written to its end."""
    try:
        with private_file(path) as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
