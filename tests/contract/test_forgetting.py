"""Forgotten means gone: redacting a message, erasing a conversation, erasing a user."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from unittest.mock import AsyncMock

import apsw
import msgspec
import pytest

from everthread import Everthread, Talk, assistant, file, image, tool_call, tool_result, user
from everthread.core.branches import ENDLESS
from everthread.core.events import AgentKilled, Clear, Command, Mark, Other, Redacted, ToolCall
from everthread.core.parts import Reasoning
from everthread.errors import BadValue, KeyReused, NotYetGone, UnknownBlob, UnknownConversation, UnknownMark, UnknownSeq
from tests.contract.support import assert_sound, everything, files_of, module, run, texts

SECRET = "the walnut code is 7391-KESTREL"
PICTURE = image(b"GIF89a\x01\0\x02\0" + SECRET.encode() * 50)


async def test_the_content_is_gone_and_a_tombstone_keeps_its_place(et: Everthread, talk: Talk) -> None:
    before = await talk.append(user("a"), user(SECRET), assistant("c"))
    await talk.redact(2)
    found = await everything(talk)
    assert [event.text for event in found[:3]] == ["a", "", "c"]
    assert found[1].event == Redacted(was="user")
    # place, id, kind, time, turn, sizes: all but the body
    assert msgspec.structs.replace(found[1], body=b"") == msgspec.structs.replace(before[1], body=b"")
    assert [found[0], found[2]] == [before[0], before[2]]
    await assert_sound(et, talk)


async def test_a_redaction_is_logged_where_it_was_asked_for(talk: Talk) -> None:
    await talk.append(user("a"), user(SECRET))
    side = await talk.fork()
    await side.redact(2)
    assert (await everything(side))[-1].event == Command(name="redact", arguments={"seq": 2, "branch": 1})
    assert len(await everything(talk)) == 2


async def test_an_operator_reads_of_it_in_the_audit_log(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="everthread.audit"):
        await talk.append(user(SECRET))
        await talk.redact(1)
        await talk.erase()
    assert [record.message.split()[0] for record in caplog.records if record.name == "everthread.audit"] == [
        "redacted",
        "erased",
    ]
    assert SECRET not in caplog.text


async def test_it_is_gone_on_every_branch_that_shares_it(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), user(SECRET), user("c"))
    child = await talk.fork(at=3)
    grandchild = await child.fork(at=4)
    await grandchild.redact(2)
    for side in (talk, child, grandchild):
        assert SECRET not in await texts(side)
        assert [event.seq for event in await everything(side)][:3] == [1, 2, 3]
    await assert_sound(et, talk)


async def test_nothing_moves_when_something_is_forgotten(et: Everthread, talk: Talk) -> None:
    """Turns, sessions, sums and states are what they were."""
    waiting = ToolCall(id="1", name="f", waits_for="approval")
    await talk.append(assistant("hi"), user(SECRET), waiting, tool_result("x" * 12_000, name="f"))
    await talk.append(assistant("half", interrupted=True), user("b"), tool_call("g"), AgentKilled(reason=SECRET))
    await talk.append(Other(kind="note", data={"a": SECRET}), tool_result("late", name="g"), Mark(name="m"))
    turns, totals = await talk.turns(), await talk.totals()
    for seq in range(1, 12):
        await talk.redact(seq)
        await assert_sound(et, talk)
    after = await talk.turns()
    assert [(t.number, t.first, t.state, t.tokens, t.settled, t.before) for t in after] == [
        (t.number, t.first, t.state, t.tokens, t.settled, t.before) for t in turns
    ]
    assert (await talk.totals()).tokens == totals.tokens
    assert (await talk.totals()).messages == totals.messages
    assert all(isinstance(event.event, Redacted) for event in (await everything(talk))[:11])
    await talk.append(user("and on it goes"))
    await assert_sound(et, talk)


async def test_what_is_forgotten_twice_is_forgotten(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant(SECRET, interrupted=True), ToolCall(id="1", name="f", waits_for="job"))
    for _ in range(2):
        await talk.redact(2)
        await talk.redact(3)
    await assert_sound(et, talk)


@pytest.mark.parametrize("seq", [-1, 0, 3, 10**12])
async def test_what_is_not_there_cannot_be_forgotten(talk: Talk, seq: int) -> None:
    await talk.append(user("a"), user("b"))
    with pytest.raises(UnknownSeq):
        await talk.redact(seq)
    assert len(await everything(talk)) == 2


async def test_a_marker_that_the_branches_rest_on_cannot_be_forgotten(talk: Talk) -> None:
    await talk.append(user("a"), Clear())
    side = await talk.fork(at=2)
    with pytest.raises(BadValue):
        await side.redact(2)
    with pytest.raises(BadValue):
        await side.redact(3)


async def test_a_forgotten_mark_is_no_longer_found(et: Everthread, talk: Talk) -> None:
    await talk.mark("here")
    await talk.mark(SECRET)
    await talk.append(user("a"))
    await talk.redact(2)
    with pytest.raises(UnknownMark):
        await talk.rewind(to=SECRET)
    await talk.rewind(to="here")
    await assert_sound(et, talk)


async def test_a_forgotten_mark_is_forgotten_by_whoever_went_back_to_it(et: Everthread, talk: Talk) -> None:
    """A rewind cannot be redacted, so it must not repeat the name of the mark."""
    await talk.append(user("a"), Mark(name=SECRET), user("b"))
    await talk.rewind(to=SECRET)
    await talk.redact(2)
    assert not any(SECRET.encode() in event.body for event in await everything(talk))
    await assert_sound(et, talk)


async def test_one_can_still_fork_and_rewind_at_a_tombstone(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), user(SECRET), user("c"))
    await talk.redact(2)
    side = await talk.fork(at=2)
    await side.append(user("d"))
    await talk.rewind(to=2)
    await talk.append(user("e"))
    await assert_sound(et, talk)


async def test_an_append_with_a_key_can_be_repeated_after_its_content_is_gone(et: Everthread, talk: Talk) -> None:
    """The receipt keeps no hash that could confirm a guess, so nothing can be compared: the first result stands."""
    await talk.append(user(SECRET), assistant("b"), key="k")
    await talk.append(user("other"), key="other")
    await talk.redact(1)
    again = await talk.append(user(SECRET), assistant("b"), key="k")
    assert [event.seq for event in again] == [1, 2]
    assert again[0].event == Redacted(was="user")
    with pytest.raises(KeyReused):
        await talk.append(user("another"), key="other")
    await assert_sound(et, talk)


# -- images ------------------------------------------------------------------------------------------------


async def test_an_image_that_only_the_forgotten_event_showed_is_gone(et: Everthread, talk: Talk) -> None:
    paper = file(b"paper", name="a.txt")
    await talk.append(user("look", PICTURE), user(paper))
    await talk.redact(1)
    with pytest.raises(UnknownBlob):
        await talk.blob(PICTURE.blob)
    assert await talk.blob(paper.blob) == b"paper"
    await assert_sound(et, talk)


async def test_an_image_that_another_event_shows_stays(et: Everthread, talk: Talk) -> None:
    await talk.append(user(PICTURE))
    side = await talk.fork(at=0)
    await side.append(user(PICTURE))
    await talk.redact(1)
    assert await side.blob(PICTURE.blob) == PICTURE.data
    await side.redact(2)
    with pytest.raises(UnknownBlob):
        await side.blob(PICTURE.blob)
    await assert_sound(et, talk)


async def test_an_image_of_another_conversation_stays(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.begin(user=someone)
    await talk.append(user(PICTURE))
    await other.append(user(PICTURE))
    await talk.redact(1)
    await talk.erase()
    assert await other.blob(PICTURE.blob) == PICTURE.data
    await assert_sound(et, other)


# -- erasing -----------------------------------------------------------------------------------------------


async def test_an_erased_conversation_is_nowhere(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user(SECRET, PICTURE), key="k")
    side = await talk.fork()
    line = await side.line()
    await talk.erase()
    for ask in (
        et.conversation(user=someone, id=talk.id),
        talk.append(user("more")),
        side.append(user("more")),
        talk.range(1, ENDLESS),
        talk.fork(),
        talk.mark("m"),
        talk.rename("x"),
        side.redact(1),
        et.log.fork(line, at=1),
        et.log.rewind(line, to=1),
        et.log.switch(line),
    ):
        with pytest.raises(UnknownConversation):
            await ask
    with pytest.raises((UnknownBlob, UnknownConversation)):
        await talk.blob(PICTURE.blob)
    assert await et.conversations(user=someone) == []
    assert (await et.totals(user=someone)).events == 0
    assert await et.log.check(talk.conversation.tenant, talk.id) == (0, [])


async def test_erasing_one_conversation_leaves_the_others(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.begin(user=someone)
    await other.append(user("stays"), key="k")
    await talk.append(user(SECRET), key="k")
    await talk.erase()
    assert await texts(other) == ["stays"]
    assert [found.id for found in await et.conversations(user=someone)] == [other.id]
    await assert_sound(et, other)


async def test_the_id_of_an_erased_conversation_is_not_used_again(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.erase()
    assert (await et.conversation(user=someone, agent="helper")).id != talk.id


async def test_erasing_twice_is_no_harm(et: Everthread, talk: Talk) -> None:
    await talk.erase()
    with suppress(UnknownConversation):
        await talk.erase()


async def test_erasing_a_user_erases_all_of_theirs_and_nobody_elses(et: Everthread, someone: str) -> None:
    for number in range(5):
        await (await et.begin(user=someone, agent=f"agent {number}")).append(user(SECRET))
    neighbour = await et.begin(user=f"{someone}-neighbour")
    await neighbour.append(user("stays"))
    assert await et.erase_user(user=someone) == 5
    assert await et.conversations(user=someone) == []
    assert await et.erase_user(user=someone) == 0
    assert await texts(neighbour) == ["stays"]
    fresh = await et.conversation(user=someone)
    assert await texts(fresh) == []


async def test_appends_and_an_erasure_at_the_same_moment(et: Everthread, someone: str) -> None:
    """Each append is before or after it: written and gone, or refused. Nothing is left over."""
    for _ in range(5):
        talk = await et.begin(user=someone)
        await talk.append(user("a"))
        results = await asyncio.gather(
            *(talk.append(user(SECRET), PICTURE_MESSAGE) for _ in range(5)),
            talk.erase(),
            *(talk.append(user(SECRET)) for _ in range(5)),
            return_exceptions=True,
        )
        assert all(isinstance(result, list | None | UnknownConversation) for result in results)
        assert await et.log.check(talk.conversation.tenant, talk.id) == (0, [])


PICTURE_MESSAGE = user(PICTURE)


# -- on the disk -------------------------------------------------------------------------------------------


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/secrets.db"


def assert_nowhere(address: str, secret: str) -> None:
    for name, content in files_of(address).items():
        for form in (secret.encode(), secret.encode("utf-16-le"), PICTURE.blob.encode()):
            assert form not in content, f"{form!r} is still in {name}"


async def tell_the_secret(talk: Talk) -> None:
    """In every place that an event has, small and large, between other things."""
    for number in range(20):
        await talk.append(user(f"before {number}" * 50))
    await talk.append(user(SECRET), assistant(SECRET, Reasoning(text=SECRET, meta={"p": SECRET})), key="k")
    await talk.append(tool_call(SECRET, SECRET), tool_result(SECRET * 2_000, name=SECRET), user(SECRET, PICTURE))
    await talk.append(Mark(name=SECRET), Other(kind="note", data={SECRET: SECRET}), AgentKilled(reason=SECRET))
    for number in range(20):
        await talk.append(user(f"after {number}" * 50))


async def test_a_redacted_secret_is_nowhere_in_the_files(sqlite: str) -> None:
    async with Everthread.open(sqlite) as et:
        talk = await et.begin(user="ana")
        await tell_the_secret(talk)
        for event in await everything(talk):
            if SECRET.encode() in event.body or PICTURE.blob.encode() in event.body:
                await talk.redact(event.seq)
        assert_nowhere(sqlite, SECRET)  # while it is open, the write-ahead log included
        await assert_sound(et, talk)
    assert_nowhere(sqlite, SECRET)


async def test_an_erased_secret_is_nowhere_in_the_files(sqlite: str) -> None:
    async with Everthread.open(sqlite) as et:
        talk = await et.begin(user="ana", name=SECRET, goal=SECRET, settings={"a": SECRET})
        await tell_the_secret(talk)
        await talk.fork(name=SECRET)
        await talk.rewind(to=SECRET)
        await talk.erase()
        assert_nowhere(sqlite, SECRET)
    assert_nowhere(sqlite, SECRET)


async def test_an_erased_user_is_nowhere_in_the_files(sqlite: str) -> None:
    """Not even their name, also on the tombstone of a conversation that was erased before."""
    name = "anastasia-of-the-walnuts"
    async with Everthread.open(sqlite) as et:
        await (await et.begin(user=name)).erase()
        await tell_the_secret(await et.begin(user=name))
        await et.erase_user(user=name)
        assert_nowhere(sqlite, SECRET)
        assert_nowhere(sqlite, name)
    assert_nowhere(sqlite, name)


async def test_an_old_name_and_goal_are_gone_once_the_conversation_is_erased(sqlite: str) -> None:
    async with Everthread.open(sqlite) as et:
        talk = await et.begin(user="ana", name=SECRET)
        await talk.rename("something else that is much longer than the first name " * 3)
        await talk.erase()
        assert_nowhere(sqlite, SECRET)


async def test_a_secret_is_gone_although_others_read_and_write_all_the_time(sqlite: str) -> None:
    async with Everthread.open(sqlite) as et, Everthread.open(sqlite) as reader:
        talk = await et.begin(user="ana")
        other = await reader.conversation(user="ana", id=talk.id)
        busy = True

        async def read() -> None:
            while busy:
                await other.range(1, ENDLESS)
                await asyncio.sleep(0)

        async def write() -> None:
            while busy:
                await other.append(*(user("x" * 100) for _ in range(20)))
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
        for _ in range(5):
            (event,) = await talk.append(user(SECRET))
            await talk.redact(event.seq)
            assert_nowhere(sqlite, SECRET)
        busy = False
        await asyncio.gather(*tasks)
        await assert_sound(et, talk)


async def test_a_secret_that_another_program_still_reads_is_not_called_gone(sqlite: str) -> None:
    """Its old pages cannot leave the write-ahead log before that ends; asking again then finishes the work."""
    async with Everthread.open(sqlite, patience=0.2) as et:
        talk = await et.begin(user="ana")
        await talk.append(user(SECRET))
        reader = apsw.Connection(sqlite.removeprefix("sqlite:///"))
        reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
        with pytest.raises(NotYetGone):
            await talk.redact(1)
        assert SECRET not in await texts(talk)
        reader.close()
        await talk.redact(1)
        assert_nowhere(sqlite, SECRET)
        await assert_sound(et, talk)


async def test_forgetting_and_large_appends_at_the_same_moment(et: Everthread, talk: Talk) -> None:
    """Large ones are written by a thread; the clean-up after a redaction must wait for it."""
    for _ in range(3):
        (event,) = await talk.append(user(SECRET))
        large = [talk.append(*(user("y" * 50) for _ in range(1_100))) for _ in range(2)]
        await asyncio.gather(*large, talk.redact(event.seq), talk.append(user("small")))
    assert SECRET not in await texts(talk)
    await assert_sound(et, talk)


async def test_many_processes_forget_at_once(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        done = await asyncio.gather(
            *(run(*module("writers.py", "redact", address, someone, talk.id, n, 5)) for n in range(4))
        )
        assert [(process.status, process.err) for process in done] == [(0, "")] * 4
        assert not any(text.startswith("secret") for text in await texts(talk))
        await assert_sound(et, talk)
        if address.startswith("sqlite"):
            assert not any(b"secret of" in content for content in files_of(address).values())


@pytest.mark.parametrize("half", [False, True], ids=["erased", "being erased"])
async def test_who_still_holds_a_talk_of_an_erased_user_writes_no_document(
    address: str, et: Everthread, talk: Talk, someone: str, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.write_notes("Likes walnuts.")
    async with Everthread.open(address) as other:
        with monkeypatch.context() as patched:
            if half:  # its documents are gone, and its conversations are not yet
                patched.setattr(other.log.forgetting, "finish", AsyncMock())
            await other.erase_user(user=someone)
        with pytest.raises(UnknownConversation):
            await talk.write_notes("Likes walnuts.")
        await other.log.forgetting.finish()
        with pytest.raises(UnknownConversation):
            await talk.write_notes("Likes walnuts.")
        again = await other.begin(user=someone, agent="helper")
        assert await again.notes() == ""
        assert await again.write_notes("Is somebody else.") == 1
    assert await et.log.strays() == []
