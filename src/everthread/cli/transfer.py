"""`everthread import` and `everthread export`: from and to a store, or a service."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
from click.core import ParameterSource

from everthread.app import AGENT, Everthread
from everthread.cli.shared import (
    Where,
    anywhere,
    console,
    counted,
    every_conversation,
    find,
    progress,
    run,
    say_json,
    where_of,
)
from everthread.core.values import plain
from everthread.errors import Outdated
from everthread.store.private_files import private_file
from everthread.transfer import mirror
from everthread.transfer.detect import FORMATS, Format
from everthread.transfer.read import Imported
from everthread.transfer.write import part_of

AGAIN = 4  # how often an export into a file begins anew when something was redacted meanwhile

Lines = Callable[[], AsyncIterator[bytes]]


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@anywhere
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
    the users it came from, with their MEMORY.md, unless --user names another; of a service (--url) all becomes the
    user's whose the key is."""
    where = where_of(**rest)
    nobody_named = click.get_current_context().get_parameter_source("user") is ParameterSource.DEFAULT

    async def work(et: Everthread) -> None:
        with progress(where, "sending" if where.url else "importing") as step:
            imported = await et.import_file(
                file,
                user=where.user,
                tenant=where.tenant,
                agent=agent,
                format=cast("Format | None", given),
                keep_users=nobody_named and not where.url,
                progress=step,
            )
        if where.json:
            say_json(plain(imported))
        else:
            _say(where.user, imported)

    run(where, work, makes_store=True)


def _say(user: str, imported: Imported) -> None:
    counts = [counted(len(imported.conversations), "conversation"), counted(imported.events, "event")]
    counts += [counted(imported.documents, "document")] if imported.documents else []
    others = [one for one in imported.users if one != user]
    whose = f", of {', '.join(map(repr, others))} (see them with --user)" if others else ""
    console().print(f"Imported {', '.join(counts)}{whose}.")


@click.command("export")
@click.argument("conversation", required=False)
@anywhere
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
    if follow and where.url:
        raise click.UsageError("--follow needs the store itself: run it where that is, without --url.")
    if where.json and output is None:
        raise click.UsageError("An export is JSON Lines already; --json reports on one that goes into a file (-o).")

    async def work(et: Everthread) -> None:
        if everything:
            count = len(await every_conversation(et, where))
            await _export(partial(et.export, user=where.user, tenant=where.tenant), where, count, output)
            return
        talk = await find(et, where, conversation)
        if follow and output:
            await mirror(et.log, talk.conversation, output)
        await _export(talk.export, where, 1, output)

    run(where, work)


async def _export(lines: Lines, where: Where, conversations: int, output: Path | None) -> None:
    """Export to standard output; or into a file, and say how much that was."""
    if output is None:
        async for line in lines():
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return
    count = await _export_into(output, lines, where)
    if where.json:
        say_json({"file": str(output), "conversations": conversations, "lines": count})
    else:
        console().print(f"Exported {counted(conversations, 'conversation')}, {counted(count, 'line')}, to {output}.")


async def _export_into(output: Path, lines: Lines, where: Where) -> int:
    """Export into a file, anew where something was redacted meanwhile. Gives the number of lines."""
    for _ in range(AGAIN):
        with suppress(Outdated):
            return await _export_once(output, lines, where)
    return await _export_once(output, lines, where)


async def _export_once(output: Path, lines: Lines, where: Where) -> int:
    # Into a file beside the goal first: an export that is interrupted does not replace a good one.
    part = part_of(output)
    count = 0
    with progress(where, "exporting") as step, _passing(part) as file:
        async for line in lines():
            file.write(line)
            count += 1
            step(1)
    part.replace(output)
    return count


@contextmanager
def _passing(path: Path) -> Iterator[BinaryIO]:
    """A file that is removed again unless it is written to its end."""
    try:
        with private_file(path) as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
