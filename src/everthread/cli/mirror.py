"""`everthread mirror`: keep a folder equal to the store, look how it stands, and rebuild a store from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from everthread.app import AGENT, TENANT, Everthread
from everthread.cli.bars import bar
from everthread.cli.shared import USER, at_store, console, counted, printable, progress, run, say_json, tell, where_of
from everthread.core.times import moment
from everthread.core.values import plain
from everthread.errors import BadValue
from everthread.jobs.mirror import MirrorWorker
from everthread.store.conversations import Owner
from everthread.transfer.importing import import_path
from everthread.transfer.lines import Keeps
from everthread.transfer.mirrored import MirrorBusy, is_mirror


@click.group("mirror")
def mirror_command() -> None:
    """A mirror is a folder with a file of JSON Lines for each conversation, which grows with it and forgets with it.
    With the setting `mirror` (EVERTHREAD_MIRROR=FOLDER) the processes that have the store open keep it, one at a
    time."""


_FOLDER = click.Path(file_okay=False, path_type=Path)


@mirror_command.command("keep")
@click.argument("folder", type=_FOLDER)
@at_store
@click.option("--once", is_flag=True, help="Bring it up to date, and end.")
def keep_command(folder: Path, once: bool, **rest: Any) -> None:
    """Mirror the store into FOLDER until interrupted: all tenants and users."""
    where, folder = where_of(**rest), folder.absolute()

    async def work(et: Everthread) -> None:
        worker = MirrorWorker(et.log, folder)
        if not once:
            worker.begin()
            tell(f"Mirroring {where.store} into {folder}; ctrl-C ends.")
        try:
            if not once:
                await asyncio.Event().wait()
            with progress(where, "mirroring") as step:
                added = await worker.sync(step)
        except MirrorBusy:
            raise BadValue("the folder", str(folder), "one that no other process mirrors into at this moment") from None
        finally:
            await worker.close()
        if where.json:
            say_json({"folder": str(folder), "lines": added})
        else:
            console().print(f"The mirror is up to date: {counted(added, 'line')} added.")

    run(where, work)


@mirror_command.command("status")
@at_store
def status_command(**rest: Any) -> None:
    """Which folders mirror the store, and what they have still to follow of what was forgotten."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        owed = await et.log.mirrors.owed()
        found = []
        for one in await et.log.mirrors.all():
            about: dict[str, Any] = {
                "mark": one.mirror,
                "folder": one.folder,
                "seen": f"{moment(one.seen):%Y-%m-%d %H:%M}",
            }
            about |= {"owed": sum(each.mirror == one.mirror for each in owed)}
            if is_mirror(Path(one.folder)):
                state = plain(await MirrorWorker(et.log, Path(one.folder)).status())
                about |= {"conversations": state["conversations"], "unknown": state["unknown"]}
            found.append(about)
        if where.json:
            say_json(found)
            return
        for about in found:
            console().print(printable(_told(about)))
        if not found:
            console().print("No folder mirrors this store.")

    run(where, work)


def _told(about: dict[str, Any]) -> str:
    there = f"{counted(about['conversations'], 'conversation')}" if "conversations" in about else "not on this machine"
    unknown = f", {about['unknown']} of which the store never had" if about.get("unknown") else ""
    owed = f"; {counted(about['owed'], 'conversation')} to follow of what was forgotten" if about["owed"] else ""
    return f"{about['folder']} ({about['mark'][:8]}), seen {about['seen']}: {there}{unknown}{owed}."


@mirror_command.command("rebuild")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@at_store
def rebuild_command(folder: Path, **rest: Any) -> None:
    """Rebuild a store from the mirror in FOLDER: all tenants, users, conversations and documents. What the store has
    already stays, and what is missing is added."""
    where = where_of(**rest)
    if not is_mirror(folder):
        raise click.UsageError(f"{folder} is no mirror: name the folder that `everthread mirror keep` was given.")

    async def work(et: Everthread) -> None:
        keeps = Keeps(users=True, tenants=True)
        with bar(where) as told:
            done = await import_path(
                et.log, folder, Owner(TENANT, USER), agent=AGENT, keeps=keeps, torn=True, tell=told
            )
        if where.json:
            say_json(plain(done))
        else:
            console().print(f"Rebuilt {counted(done.added, 'conversation')}, {counted(done.events, 'event')}.")

    run(where, work, makes_store=True)


@mirror_command.command("forget")
@click.argument("mark")
@at_store
def forget_command(mark: str, **rest: Any) -> None:
    """Strike out the mirror with this MARK (or its beginning), of a folder that is gone: nothing is owed to it any
    more. The folder itself is left alone."""
    where = where_of(**rest)

    async def work(et: Everthread) -> None:
        found = [one for one in await et.log.mirrors.all() if one.mirror.startswith(mark)]
        if len(found) != 1:
            raise BadValue("the mark", mark, "the beginning of one that `everthread mirror status` tells")
        await et.log.mirrors.forget(found[0].mirror)
        if where.json:
            say_json({"forgotten": found[0].mirror})
        else:
            console().print(printable(f"{found[0].folder} is no mirror of this store any more."))

    run(where, work)
