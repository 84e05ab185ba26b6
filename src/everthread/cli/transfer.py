"""`everthread import` and `everthread export`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
from click.core import ParameterSource

from everthread.app import AGENT, Everthread
from everthread.cli.shared import Scope, console, counted, find, progress, run, say_json, scope_of, scoped
from everthread.errors import Outdated
from everthread.store.conversations import NEWEST, Owner, check_name, owner_of
from everthread.store.private_files import written
from everthread.talk import Talk
from everthread.transfer import document_lines, export_lines, mirror, read_all
from everthread.transfer.read import Format
from everthread.transfer.write import part_of

AGAIN = 4  # how often an export into a file begins anew when something was redacted meanwhile


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@scoped
@click.option(
    "--format",
    "given",
    type=click.Choice(["everthread", "openai", "anthropic", "chatgpt", "claude"]),
    help="Found out by default.",
)
@click.option("--agent", default=AGENT, show_default=True, help="With whom, for histories of other programs.")
def import_command(file: Path, given: str | None, agent: str, **scope: Any) -> None:
    """Import conversations from FILE: an export of ours (same ids and times), a data export of ChatGPT or Claude
    (conversations.json), or message lists in OpenAI's or Anthropic's format, one conversation a line or in one JSON
    value. All of it, or nothing. An export of ours goes back to those whose it was, with their MEMORY.md, unless --user
    says whose it shall be."""
    where = scope_of(**scope)
    keep_users = click.get_current_context().get_parameter_source("user") is ParameterSource.DEFAULT

    async def work(et: Everthread) -> None:
        owner = owner_of(where.tenant, where.user)
        with progress(where, "reading") as step:
            format = cast("Format | None", given)
            options: dict[str, Any] = {"format": format, "keep_users": keep_users, "progress": step}
            wholes, documents = await asyncio.to_thread(
                read_all, file, owner, agent=check_name("agent", agent), **options
            )
        events = sum(len(drafts) for whole in wholes for _, drafts in whole.branches)
        with progress(where, f"writing {events:,} events"):
            await et.log.restore(wholes, documents)
        users = sorted({*(whole.conversation.user for whole in wholes), *(one.owner.user for one in documents)})
        names = {(one.owner, one.document.name) for one in documents}
        if where.json:
            ids = [whole.conversation.id for whole in wholes]
            say_json({"conversations": ids, "events": events, "documents": len(names), "users": users})
        else:
            _say(len(wholes), events, len(names), [user for user in users if user != where.user])

    run(where, work, makes_store=True)


def _say(conversations: int, events: int, documents: int, others: list[str]) -> None:
    counts = [counted(conversations, "conversation"), counted(events, "event")]
    counts += [counted(documents, "document")] if documents else []
    whose = f", of {', '.join(map(repr, others))} (see them with --user)" if others else ""
    console().print(f"Imported {', '.join(counts)}{whose}.")


@click.command("export")
@click.argument("conversation", required=False)
@scoped
@click.option("--all", "everything", is_flag=True, help="All conversations of the user, and MEMORY.md.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file; standard output by default.",
)
@click.option("--follow", is_flag=True, help="Keep the file equal to the conversation until interrupted.")
def export_command(conversation: str | None, everything: bool, output: Path | None, follow: bool, **scope: Any) -> None:
    """Export a CONVERSATION (the newest by default) as JSON Lines, with all its branches, images and files."""
    where = scope_of(**scope)
    if follow and (everything or output is None):
        raise click.UsageError("--follow mirrors one conversation into a file: name it with -o.")
    if where.json and output is None:
        raise click.UsageError("An export is JSON Lines already; --json reports on one that goes into a file (-o).")

    async def work(et: Everthread) -> None:
        talks = await _all(et, where) if everything else [await find(et, where, conversation)]
        if follow and output:
            await mirror(et.log, talks[0].conversation, output)
        whose = owner_of(where.tenant, where.user) if everything else None
        counts = await _export(et, where, talks, output, whose=whose)
        if where.json:
            say_json({"file": str(output), "conversations": len(talks), "lines": counts})
        elif output:
            console().print(f"Exported {counted(len(talks), 'conversation')}, {counted(counts, 'line')}, to {output}.")

    run(where, work)


async def _export(
    et: Everthread, scope: Scope, talks: list[Talk], output: Path | None, *, whose: Owner | None = None
) -> int:
    """Conversations, and the documents of a user; how many lines."""
    for _ in range(AGAIN if output else 0):
        with suppress(Outdated):  # begun anew, without what was redacted
            return await _export_once(et, scope, talks, output, whose)
    return await _export_once(et, scope, talks, output, whose)


async def _export_once(
    et: Everthread, scope: Scope, talks: list[Talk], output: Path | None, whose: Owner | None
) -> int:
    # Into a file beside the goal first: an export that is interrupted does not replace a good one.
    part = part_of(output) if output else None
    lines = 0
    with progress(scope, "exporting", show=output is not None) as step, _target(part) as file:
        parts = [document_lines(et.log, whose)] if whose else []
        for part_lines in (*parts, *(export_lines(et.log, talk.conversation) for talk in talks)):
            async for line in part_lines:
                file.write(line)
                lines += 1
                step(1)
    if part and output:
        part.replace(output)
    return lines


@contextmanager
def _target(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with written(path) as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


async def _all(et: Everthread, scope: Scope) -> list[Talk]:
    talks: list[Talk] = []
    before = NEWEST
    while page := await et.conversations(user=scope.user, tenant=scope.tenant, before=before, limit=500):
        talks += [Talk(et.log, found) for found in page]
        before = page[-1].id
    return talks
