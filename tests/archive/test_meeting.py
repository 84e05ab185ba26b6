"""Where archives meet what else there is: mirrors, imports, exports, retention, schedules, limits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from everthread import Everthread, Talk, user
from everthread.core.schedules import scheduled
from everthread.errors import UnknownConversation
from everthread.jobs.mirror import MirrorWorker
from everthread.store.open import open_log
from tests.archive.places import DAY, eventful, every_row, made, opened
from tests.contract.support import START, Clock


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "archives")


async def is_archived(et: Everthread, talk: Talk) -> bool:
    return (await et.log.conversations.find(talk.conversation.owner, talk.id)).archived is not None


async def test_a_mirror_keeps_its_file_of_an_archived_conversation_and_forgets_it_when_it_is_erased(
    address: str, place: str, someone: str, tmp_path: Path
) -> None:
    et, folder = await opened(address, place), tmp_path / "mirror"
    mirror = MirrorWorker(et.log, folder)
    talk = await eventful(et, someone)
    await mirror.sync()
    kept = {path: path.read_bytes() for path in folder.rglob(f"{talk.id}*")}
    assert kept
    await et.archive(user=someone, id=talk.id)
    await mirror.sync()
    assert {path: path.read_bytes() for path in folder.rglob(f"{talk.id}*")} == kept
    assert await is_archived(et, talk)  # to look at it has not brought it back
    await talk.erase()
    await mirror.sync()
    assert not list(folder.rglob(f"{talk.id}*"))
    await mirror.close()
    for one in await et.log.mirrors.all():  # the store is shared
        await et.log.mirrors.forget(one.mirror)
    await et.close()


async def test_a_mirror_that_was_behind_when_a_conversation_was_archived_catches_up(
    address: str, place: str, someone: str, tmp_path: Path
) -> None:
    et, folder = await opened(address, place), tmp_path / "mirror"
    talk = await eventful(et, someone)
    mirror = MirrorWorker(et.log, folder)
    await mirror.sync()
    await mirror.close()
    await talk.append(user("The last word."))
    await et.archive(user=someone, id=talk.id)
    mirror = MirrorWorker(et.log, folder)
    await mirror.sync()
    assert b"The last word." in b"".join(path.read_bytes() for path in folder.rglob(f"{talk.id}.jsonl"))
    await et.archive(user=someone, id=talk.id)
    await mirror.sync()
    assert await is_archived(et, talk)
    await mirror.close()
    for one in await et.log.mirrors.all():  # the store is shared
        await et.log.mirrors.forget(one.mirror)
    await et.close()


async def test_an_export_has_what_is_archived_and_its_import_adds_nothing_to_it(
    address: str, place: str, someone: str, tmp_path: Path
) -> None:
    et, path = await opened(address, place), tmp_path / "all.jsonl"
    talk = await eventful(et, someone)
    before = await every_row(address, talk.id)
    await et.archive(user=someone, id=talk.id)
    path.write_bytes(b"".join([line async for line in et.export(user=someone)]))
    assert talk.id.encode() in path.read_bytes()
    await et.archive(user=someone, id=talk.id)
    done = await et.import_file(path, user=someone)
    assert (done.added, done.events, done.already) == (0, 0, 1)
    assert await every_row(address, talk.id) == before
    await et.close()


async def test_retention_reaches_archives_and_a_look_brings_none_back(
    fresh_address: str, place: str, someone: str
) -> None:
    clock = Clock(START)
    et = made(await open_log(fresh_address, clock=clock), place)
    talk = await et.begin(user=someone)
    await talk.append(user("Walnuts."))
    clock.now += DAY
    await et.archive(user=someone, id=talk.id)
    clock.now += 400 * DAY
    et.retention.days = 365.0
    assert [one.conversation async for one in et.retention.due()] == [talk.id]
    assert await is_archived(et, talk)
    assert [one.conversation for one in await et.retention.run()] == [talk.id]
    with pytest.raises(UnknownConversation):
        await et.conversation(user=someone, id=talk.id)
    assert not [path for path in Path(place).rglob("*") if path.is_file()]
    assert await et.archives(user=someone) == []
    await et.close()


async def scheduled_by(talk: Talk, other: Talk) -> str:
    """The id of a schedule in another conversation that is done, and was made by a tool call of this one."""
    new = scheduled("Walnuts again?", at=talk.now + timedelta(days=1), now=talk.now)
    made_by = {"made_conversation": talk.id, "made_branch": 1, "made_seq": 3}
    kept = await talk._log.schedules.add(other.conversation, msgspec.structs.replace(new, **made_by, state="done"))
    return kept.id


async def test_archiving_leaves_the_schedules_that_its_tool_calls_made_in_other_conversations(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk, other = await eventful(et, someone), await eventful(et, someone)
    id = await scheduled_by(talk, other)
    await et.archive(user=someone, id=talk.id)
    assert [one.id for one in await other.schedules()] == [id]
    await et.restore(user=someone, id=talk.id)
    assert [one.id for one in await other.schedules()] == [id]
    await et.close()


async def test_what_a_tool_call_scheduled_in_a_conversation_that_is_archived_is_forgotten_with_it(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk, other = await eventful(et, someone), await eventful(et, someone)
    await scheduled_by(talk, other)
    await et.archive(user=someone, id=other.id)
    await talk.redact(3)
    await et.restore(user=someone, id=other.id)
    assert await other.schedules() == []
    await et.close()


async def test_the_schedules_of_an_archived_conversation_are_those_that_it_had(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    new = scheduled("Walnuts again?", at=talk.now + timedelta(days=1), now=talk.now)
    done = await et.log.schedules.add(talk.conversation, msgspec.structs.replace(new, state="done"))
    await et.archive(user=someone, id=talk.id)
    assert await talk.schedules() == [done]
    await et.archive(user=someone, id=talk.id)
    assert (await talk.change_schedule(done.id, text="Peanuts?")).text == "Peanuts?"
    await et.close()


async def test_archiving_gives_nobody_back_the_tokens_of_the_day(address: str, place: str, someone: str) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    owner, midnight = talk.conversation.owner, et.log.now // DAY * DAY
    taken = await et.log.usage.tokens(owner, since=midnight)
    assert taken > 0
    await et.archive(user=someone, id=talk.id)
    assert await et.log.usage.tokens(owner, since=midnight) == taken
    await talk.erase()
    assert await et.log.usage.tokens(owner, since=midnight) == taken
    await et.close()
