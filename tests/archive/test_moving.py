"""A conversation goes into a file and comes back, on both databases, in a folder and in an S3-compatible store."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, user
from everthread.archive.catalogue import ArchiveProgress
from everthread.archive.places import Folder
from everthread.errors import MissingArchive, NoPlace, NotArchivable, UnknownArchive, UnknownConversation
from everthread.store.open import open_log
from everthread.store.scripts.rows import PARTS, columns_of
from everthread.testing.scripted import call, script
from everthread.tools import tool
from tests.archive.places import CATALOGUE, DAY, eventful, every_row, live, made, opened
from tests.contract.support import Clock, assert_sound, everything


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
async def test_every_row_of_every_table_comes_back_as_it_was(
    address: str, place: str, someone: str, encrypted: bool
) -> None:
    et = await opened(address, place, archive_encryption=encrypted)
    talk = await eventful(et, someone)
    before = await every_row(address, talk.id)
    listed = await et.archive(user=someone, id=talk.id)
    gone = await every_row(address, talk.id)
    assert [table for table, kept in gone.items() if kept and table not in CATALOGUE] == ["conversations"]
    assert listed.title == "Walnuts and other nuts"
    assert listed.encrypted is encrypted
    assert listed == (await et.archives(user=someone))[0]
    again = await et.restore(user=someone, id=talk.id)
    assert await every_row(address, talk.id) == before
    assert await et.archives(user=someone) == []
    await assert_sound(et, again)
    await et.close()


async def test_opening_reading_or_writing_an_archived_conversation_restores_it(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    before = [event.id for event in await everything(talk)]
    side = await talk.on("aside")

    async def moved_out() -> None:
        await et.archive(user=someone, id=talk.id)
        assert (await et.log.conversations.find(talk.conversation.owner, talk.id)).archived

    await moved_out()
    found = await et.conversation(user=someone, agent=talk.conversation.agent)
    assert found.id == talk.id  # it is still the newest
    assert [event.id for event in await everything(found)] == before
    for verb in (talk.totals, talk.branches, side.tail, talk.turns, talk.sessions, talk.canvas, talk.waiting):
        await moved_out()
        assert await verb() is not None
    await moved_out()
    assert (await talk.append(user("Back again.")))[0].seq == len(before) + 1
    await moved_out()
    await talk.rename("Nuts")
    await moved_out()
    assert (await talk.context(model="openai:gpt-4o")).sent
    await moved_out()
    await talk.fork(at=3)
    await et.close()


async def test_a_reply_in_an_archived_conversation_goes_on_where_it_was(address: str, place: str, someone: str) -> None:
    script(someone, "Hello.", "Hello again.")
    et = await opened(address, place, model=f"scripted:{someone}")
    talk = await et.begin(user=someone)
    await talk.say("Good day.")
    await et.archive(user=someone, id=talk.id)
    assert (await talk.say("And again.")).text == "Hello again."
    assert [event.text for event in await talk.after(messages=True)][::2] == ["Good day.", "And again."]
    await et.close()


async def test_another_process_finds_what_this_one_archived(address: str, place: str, someone: str) -> None:
    """With what it remembers of heads, lines and windows from before."""
    et, other = await opened(address, place), await opened(address, place)
    talk = await eventful(et, someone)
    theirs = await other.conversation(user=someone, id=talk.id)
    await theirs.append(user("From there."))
    found = [hit.seq for hit in await theirs.recall("walnut")]
    await et.archive(user=someone, id=talk.id)
    assert (await theirs.append(user("Once more.")))[0].text == "Once more."
    await et.archive(user=someone, id=talk.id)
    assert (await theirs.context(model="openai:gpt-4o")).sent
    await et.archive(user=someone, id=talk.id)
    assert [hit.seq for hit in await theirs.recall("walnut")] == found != []
    await assert_sound(et, talk)
    await et.close()
    await other.close()


async def test_what_is_under_way_is_not_archived(address: str, place: str, someone: str) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    line = await talk.line()
    name = f"turn/{talk.id}/{line.branch.number}"
    await et.log.leases.take("default", name, holder="x", seconds=60)
    with pytest.raises(NotArchivable, match="a turn or a child of it runs"):
        await et.archive(user=someone, id=talk.id)
    await et.log.leases.release("default", name, holder="x")
    schedule = await talk.schedule("Say something", cron="0 8 * * *")
    for _ in range(2):
        with pytest.raises(NotArchivable, match="scheduled"):
            await et.archive(user=someone, id=talk.id)
        await talk.pause_schedule(schedule.id)
    await talk.unschedule(schedule.id)
    await et.archive(user=someone, id=talk.id)
    await et.close()


async def test_a_tool_call_that_waits_for_approval_keeps_its_conversation(
    address: str, place: str, someone: str
) -> None:
    def pay() -> str:
        """Pays."""
        return "paid"

    script(someone, [call("pay", {})], "Done.")
    et = Everthread(
        await open_log(address),
        {"memory": False, "archive_place": place, "model": f"scripted:{someone}"},
        environment=False,
        tools=[tool(pay, approval=True)],
    )
    talk = await et.begin(user=someone)
    await talk.say("Pay.")
    with pytest.raises(NotArchivable, match="approval"):
        await et.archive(user=someone, id=talk.id)
    await et.close()


async def test_those_that_are_idle_are_archived_and_one_failure_does_not_stop_the_rest(
    fresh_address: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    et = await opened(fresh_address, place, clock)
    talks = [await et.begin(user=f"u{n}") for n in range(4)]
    for talk in talks:
        await talk.append(user("Long ago."))
    clock.now += 31 * DAY
    young = await et.begin(user="u9")
    await young.append(user("Just now."))
    rows = et.log.archives.rows

    async def failing(tenant: str, conversation: str) -> Any:
        if conversation == talks[1].id:
            raise RuntimeError("a fault")
        return await rows(tenant, conversation)

    monkeypatch.setattr(et.log.archives, "rows", failing)
    told: list[ArchiveProgress] = []
    assert await et.archive_idle(tell=told.append) == 3
    assert [(one.archived, one.failed, one.problem) for one in told][-1][:2] == (3, 1)
    assert {one.problem for one in told} == {"", "RuntimeError"}
    monkeypatch.undo()
    assert [len(await et.archives(user=f"u{n}")) for n in (0, 1, 2, 3, 9)] == [1, 0, 1, 1, 0]
    assert await et.archive_idle() == 1
    assert await et.verify_archives() == []
    assert await et.log.archives.unfinished() == []
    await et.close()


async def test_the_worker_archives_where_the_setting_says_so(fresh_address: str, tmp_path: Path) -> None:
    clock = Clock()
    log = await open_log(fresh_address, clock=clock)
    et = made(log, str(tmp_path / "a"), archive=True, archive_after=2.0)
    talk = await et.begin(user="ana")
    await talk.append(user("Hello."))
    clock.now += 3 * DAY
    off = made(log, str(tmp_path / "a"))
    await off.work(until_idle=True)
    assert await et.archives(user="ana") == []
    await et.work(until_idle=True)
    assert [one.conversation for one in await et.archives(user="ana")] == [talk.id]
    await et.close()


async def test_archives_are_listed_newest_first_page_by_page(fresh_address: str, tmp_path: Path) -> None:
    clock = Clock()
    et = await opened(fresh_address, str(tmp_path / "a"), clock)
    ids = []
    for n in range(5):
        talk = await et.begin(user="ana")
        await talk.append(user(f"Number {n}, about a thing that takes many more than fifty characters to say."))
        clock.now += DAY
        await et.archive(user="ana", id=talk.id)
        ids.append(talk.id)
    pages = [await et.archives(user="ana", offset=offset, limit=2) for offset in (0, 2, 4, 6)]
    assert [one.conversation for page in pages for one in page] == ids[::-1]
    first = pages[0][0]
    assert (first.messages, first.events, first.branches, len(first.title) <= 50) == (1, 1, 1, True)
    assert first.title.startswith("Number 4, about")
    assert first.newest
    assert (first.archived - first.newest).days == 1
    assert await et.archives(user="") == []
    assert (await et.totals(user="ana")).messages == 5
    await et.close()


async def test_archives_are_beside_the_file_unless_a_setting_says_otherwise(tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", environment=False) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("Hello."))
        await et.archive(user="ana", id=talk.id)
    (file,) = (tmp_path / "talk.db.archives").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "moved").mkdir()
    for path in tmp_path.glob("talk.db*"):
        path.rename(tmp_path / "moved" / path.name)
    async with Everthread.open(f"sqlite:///{tmp_path}/moved/talk.db", environment=False) as et:
        assert [event.text for event in await (await et.conversation(user="ana")).tail()] == ["Hello."]


async def test_a_place_that_is_named_from_here_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    et = await opened(f"sqlite:///{tmp_path}/talk.db", "archives")
    talk = await eventful(et, "ana")
    await et.archive(user="ana", id=talk.id)
    monkeypatch.chdir("/")
    assert len(await talk.tail()) > 0
    await et.close()


async def test_a_store_without_a_folder_of_its_own_must_be_told_the_place(postgres: Any) -> None:
    async with Everthread.open(postgres.create_database("no_place"), environment=False) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("Hello."))
        with pytest.raises(NoPlace):
            await et.archive(user="ana", id=talk.id)
        assert await et.log.archives.unfinished() == []


async def test_what_is_not_archived_cannot_be_restored(address: str, place: str, someone: str) -> None:
    et = await opened(address, place)
    talk = await et.begin(user=someone)
    with pytest.raises(UnknownArchive):
        await et.restore(user=someone, id=talk.id)
    with pytest.raises(UnknownConversation):
        await et.restore(user=someone, id="nothing")
    await et.close()


async def test_a_missing_file_is_told_and_the_conversation_stays_listed(
    address: str, tmp_path: Path, someone: str
) -> None:
    et = await opened(address, str(tmp_path / "a"))
    talk = await eventful(et, someone)
    await et.archive(user=someone, id=talk.id)
    (file,) = (tmp_path / "a").iterdir()
    aside = file.rename(tmp_path / file.name)
    for reading in (talk.tail, lambda: et.restore(user=someone, id=talk.id), lambda: talk.append(user("x"))):
        with pytest.raises(MissingArchive):
            await reading()
    assert [one.conversation for one in await et.archives(user=someone)] == [talk.id]
    assert [one.conversation for one in await et.verify_archives() if one.conversation == talk.id] == [talk.id]
    aside.rename(file)
    assert await talk.tail() != []
    await et.close()


async def test_work_beside_a_conversation_does_not_restore_it(address: str, tmp_path: Path, someone: str) -> None:
    et = await opened(address, str(tmp_path / "a"), memory=True)
    talk = await eventful(et, someone)
    await et.archive(user=someone, id=talk.id)  # while the worker was reminded of it, and waits for a moment of quiet
    await et.memory.drain()
    assert [one.conversation for one in await et.archives(user=someone)] == [talk.id]
    await et.close()


async def test_two_archivers_and_two_restorers_at_once_leave_one_conversation(
    address: str, place: str, someone: str
) -> None:
    et, other = await opened(address, place), await opened(address, place)
    talk = await eventful(et, someone)
    before = live(await every_row(address, talk.id))
    for _ in range(3):
        done = await asyncio.gather(
            *(one.archive(user=someone, id=talk.id) for one in (et, other, et)), return_exceptions=True
        )
        assert any(not isinstance(one, BaseException) for one in done)
        assert all(isinstance(one, NotArchivable) for one in done if isinstance(one, BaseException))
        theirs = await other.conversation(user=someone, id=talk.id)
        await asyncio.gather(talk.tail(), theirs.tail(), talk.totals())
        await et._archiver.finish()
        assert live(await every_row(address, talk.id)) == before
        assert await et.archives(user=someone) == []
    await et.close()
    await other.close()


async def test_who_writes_while_it_is_archived_loses_nothing(address: str, place: str, someone: str) -> None:
    et, other = await opened(address, place), await opened(address, place)
    talk = await eventful(et, someone)
    theirs = await other.conversation(user=someone, id=talk.id)
    at = (await talk.totals()).events

    async def write() -> list[str]:
        return [(await theirs.append(user(f"w{n}")))[0].id for n in range(12)]

    async def archive() -> None:
        for _ in range(4):
            with suppress(NotArchivable):
                await et.archive(user=someone, id=talk.id)

    wrote, _ = await asyncio.gather(write(), archive())
    assert [event.id for event in await everything(talk)][-12:] == wrote
    assert (await talk.totals()).events == at + 12
    await assert_sound(et, talk)
    await et.close()
    await other.close()


async def test_who_writes_while_the_file_of_one_that_is_back_is_deleted_keeps_nobody_from_it(
    address: str, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    et = await opened(address, str(tmp_path))
    talk, delete = await eventful(et, someone), Folder.delete

    async def late(self: Folder, archive: str) -> None:
        await delete(self, archive)
        await talk.append(user("Already here."))

    monkeypatch.setattr(Folder, "delete", late)
    await et.archive(user=someone, id=talk.id)
    again = await et.restore(user=someone, id=talk.id)
    assert (await again.tail())[-1].text == "Already here."
    assert (await every_row(address, talk.id))["archives"] == []
    await et.close()


def test_the_columns_that_are_packed_are_those_that_are_put_back() -> None:
    from everthread.store.engine import statements

    known = statements("?{n}")
    for part in PARTS[1:]:
        selected = known[f"pack_{part}"].sql.removeprefix("SELECT").split("FROM")[0].replace('"', "")
        assert tuple(name.strip() for name in selected.split(",")) == columns_of(part)
