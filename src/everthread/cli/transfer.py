"""`everthread import` and `everthread export`"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import click
from click.core import ParameterSource

from everthread.app import AGENT, Everthread
from everthread.cli.bars import bar
from everthread.cli.shared import (
    Where,
    anywhere,
    console,
    counted,
    every_conversation,
    find,
    printable,
    progress,
    run,
    say_json,
    tell,
    where_of,
)
from everthread.core.values import plain
from everthread.errors import Outdated, UnknownArchive
from everthread.store.conversations import Conversation, check_name, owner_of
from everthread.store.private_files import private_file
from everthread.transfer import mirror
from everthread.transfer.detect import FORMATS, Format
from everthread.transfer.importing import Imported, import_path
from everthread.transfer.lines import Keeps
from everthread.transfer.message_lists import ListForm, listed
from everthread.transfer.mirrored import is_mirror
from everthread.transfer.pages import Look, shown
from everthread.transfer.whole_store import LEFT_OUT, NEVER, store_lines
from everthread.transfer.write import part_of

AGAIN = 4  # how often an export into a file begins anew when something was redacted meanwhile


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@anywhere
@click.option(
    "--format",
    "given",
    type=click.Choice(FORMATS),
    help="Found out by default.",
)
@click.option("--agent", default=AGENT, show_default=True, help="With whom, for histories of other programs.")
def import_command(path: Path, given: str | None, agent: str, **rest: Any) -> None:
    """Import conversations from FILE: an Everthread export (same ids and times), a data export of ChatGPT or Claude
    (the zip file, or its conversations.json), message lists in OpenAI's format, Anthropic's, the Responses API's or
    Gemini's, one conversation a line or in one JSON value; or a folder of these, such as a mirror. A file with a fault
    anywhere imports nothing. The same file again adds nothing, and finishes what was cut short. An Everthread export
    goes back to the tenants and users it came from, with their MEMORY.md, unless --tenant or --user names another; in a
    service (--url) all becomes the user's whose the key is, with ids of its own."""
    where = where_of(**rest)
    keeps = Keeps(users=not _is_given("user"), tenants=not _is_given("tenant"))
    torn = path.is_dir() and is_mirror(path)

    async def work(et: Everthread) -> None:
        format, given_agent = cast("Format | None", given), check_name("agent", agent)
        with bar(where) as told:
            if where.url:
                how: dict[str, Any] = {"user": where.user, "tenant": where.tenant, "agent": given_agent}
                imported = await et.import_file(path, **how, format=format, progress=told)
            else:
                how = {"agent": given_agent, "format": format, "keeps": keeps, "torn": torn}
                imported = await import_path(et.log, path, owner_of(where.tenant, where.user), **how, tell=told)
        if where.json:
            say_json(plain(imported))
        else:
            _say(where.user, imported)

    run(where, work, makes_store=True)


def _is_given(option: str) -> bool:
    """Whether somebody has said it, on the command line or in the environment."""
    return click.get_current_context().get_parameter_source(option) is not ParameterSource.DEFAULT


def _say(user: str, imported: Imported) -> None:
    counts = [counted(imported.added, "conversation"), counted(imported.events, "event")]
    counts += [counted(imported.documents, "document")] if imported.documents else []
    counts += [counted(imported.records, "record")] if imported.records else []
    others = [one for one in imported.users if one not in (user, "")]
    shown = ", ".join(map(repr, others[:10])) + (" …" if len(others) > 10 else "")
    whose = f", of {shown} (see them with --user)" if others else ""
    there = f" {counted(imported.already, 'conversation')} there already." if imported.already else ""
    console().print(printable(f"Imported {', '.join(counts)}{whose}.{there}"))


PAGES = ("markdown", "html")
FORMS = ("jsonl", *PAGES, "openai", "anthropic")


@click.command("export")
@click.argument("conversation", required=False)
@anywhere
@click.option("--all", "everything", is_flag=True, help="All conversations of the user, and MEMORY.md.")
@click.option("--whole-tenant", is_flag=True, help="All that the tenant has, agents and accounts too. JSON Lines only.")
@click.option("--whole-store", is_flag=True, help="All that the store has. JSON Lines only.")
@click.option("--secrets", is_flag=True, help="With --whole-store: passwords' hashes, API keys' and the vault, too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="jsonl",
    show_default=True,
    help="Only jsonl comes back whole.",
)
@click.option("--branch", help="For markdown, html, openai and anthropic: which; the current one by default.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file; standard output by default.",
)
@click.option("--follow", is_flag=True, help="Keep the file equal to the conversation until interrupted.")
def export_command(conversation: str | None, output: Path | None, follow: bool, **given: Any) -> None:
    """Export a CONVERSATION (the last active by default): as JSON Lines, with all its branches, images and files; as a
    page of HTML that needs nothing else, or Markdown, to read; or as a message list of OpenAI or Anthropic. Secrets are
    never exported, unless --secrets asks for them with the whole store."""
    asked = _Asked(**{name: given.pop(name) for name in _Asked._fields})
    where = where_of(**given)
    _check_export(asked, output, follow, where.json, conversation)
    if where.url and (follow or asked.wholly or asked.form != "jsonl"):
        raise click.UsageError("A service exports JSON Lines: leave out --url for --follow, --format and whole stores.")

    async def work(et: Everthread) -> None:
        if asked.whole_store or asked.whole_tenant:
            await _export(et, where, asked, [], output)
            return
        if asked.everything:
            found = [] if asked.form == "jsonl" else await _with_archived(et, where)
            await _export(et, where, asked, found, output)
            return
        talk = await find(et, where, conversation)
        if follow and output:
            await mirror(et.log, talk.conversation, output)
        await _export(et, where, asked, [talk.conversation], output)

    run(where, work)


class _Asked(NamedTuple):
    """What is to be exported, and in which form."""

    everything: bool
    whole_tenant: bool
    whole_store: bool
    secrets: bool
    form: str
    branch: str | None

    @property
    def wholly(self) -> bool:
        return self.whole_tenant or self.whole_store


def _check_export(asked: _Asked, output: Path | None, follow: bool, as_json: bool, conversation: str | None) -> None:
    """What does not go together is refused."""
    many = asked.everything or asked.wholly
    if output is not None and not output.absolute().parent.is_dir():
        raise click.UsageError(f"There is no folder {output.parent} for {output.name}: make it first, or name another.")
    refused = {
        "--follow mirrors one conversation into a file, as JSON Lines: name it with -o.": follow
        and (many or output is None or asked.form != "jsonl"),
        "An export is JSON Lines already; --json reports on one that goes into a file (-o).": as_json
        and output is None,
        "A whole tenant or store is exported as JSON Lines only.": asked.wholly and asked.form != "jsonl",
        "--secrets is for --whole-store alone.": asked.secrets and not asked.whole_store,
        "Name a CONVERSATION, or take --all, --whole-tenant or --whole-store.": (conversation is not None)
        + asked.everything
        + asked.whole_tenant
        + asked.whole_store
        > 1,
        "JSON Lines have all branches: --branch is for the other formats.": asked.branch is not None
        and asked.form == "jsonl",
    }
    for reason, wrong in refused.items():
        if wrong:
            raise click.UsageError(reason)


async def _export(et: Everthread, where: Where, asked: _Asked, found: list[Conversation], output: Path | None) -> None:
    """Export into a file, and say how much that was; or to standard output."""
    if asked.wholly and not asked.secrets:
        tell(f"Left out: {LEFT_OUT}; and always {NEVER}.")
    if output is None:
        async for line in _lines(et, where, asked, found):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return
    lines = await _export_into(output, et, where, asked, found)
    if asked.everything and asked.form == "jsonl":
        found = await every_conversation(et, where)  # those that were archived are back by now
    if where.json:
        about = {} if asked.wholly else {"conversations": len(found)}
        say_json({"file": str(output), **about} | ({} if asked.form in PAGES else {"lines": lines}))
    elif asked.wholly:
        console().print(printable(f"Exported {counted(lines, 'line')} to {output}."))
    else:
        many = f", {counted(lines, 'line')}," if asked.form == "jsonl" else ""
        console().print(printable(f"Exported {counted(len(found), 'conversation')}{many} to {output}."))


async def _export_into(output: Path, et: Everthread, where: Where, asked: _Asked, found: list[Conversation]) -> int:
    """Export into a file, anew where something was redacted meanwhile. Gives the number of lines."""
    for _ in range(AGAIN):
        with suppress(Outdated):
            return await _export_once(output, et, where, asked, found)
    return await _export_once(output, et, where, asked, found)


async def _export_once(output: Path, et: Everthread, where: Where, asked: _Asked, found: list[Conversation]) -> int:
    # Into a file beside the goal first: an export that is interrupted does not replace a good one.
    part = part_of(output)
    lines = 0
    with progress(where, "exporting") as step, _passing(part) as file:
        async for line in _lines(et, where, asked, found):
            file.write(line)
            lines += 1
            step(1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(output)
    return lines


async def _lines(et: Everthread, where: Where, asked: _Asked, found: list[Conversation]) -> AsyncIterator[bytes]:
    branch = int(asked.branch) if asked.branch and asked.branch.isdigit() else asked.branch
    sources: list[AsyncIterator[bytes]]
    if asked.wholly:
        tenant = where.tenant if asked.whole_tenant else ""
        sources = [store_lines(et.log, tenant=tenant, secrets=asked.secrets)]
    elif asked.form in PAGES:
        title = f"{where.user}'s conversations" if asked.everything else found[0].name or "A conversation"
        sources = [shown(et.log, _each(found), cast("Look", asked.form), title=title, branch=branch)]
    elif asked.form in ("openai", "anthropic"):
        sources = [listed(et.log, _each(found), cast("ListForm", asked.form), branch=branch)]
    elif asked.everything:
        sources = [et.export(user=where.user, tenant=where.tenant)]
    else:
        talk = await et.conversation(user=where.user, tenant=where.tenant, id=found[0].id)
        sources = [talk.export()]
    for source in sources:
        async for line in source:
            yield line


async def _with_archived(et: Everthread, where: Where) -> list[Conversation]:
    """All that the user has. Those that are archived are restored for it, as JSON Lines do."""
    whose: Any = {"user": where.user, "tenant": where.tenant}
    archived: list[str] = []
    while page := await et.archives(**whose, offset=len(archived), limit=500):
        archived += [one.conversation for one in page]
    for id in archived:
        with suppress(UnknownArchive):  # somebody else has restored it
            await et.restore(**whose, id=id)
    return await every_conversation(et, where)


async def _each(found: list[Conversation]) -> AsyncIterator[Conversation]:
    for one in found:
        yield one


@contextmanager
def _passing(path: Path) -> Iterator[BinaryIO]:
    """A file that is removed again unless it is written to its end."""
    try:
        with private_file(path) as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise
