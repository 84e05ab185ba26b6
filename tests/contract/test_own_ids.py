"""An application's own ids of conversations: found or begun, each user's own, gone when they are to be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from everthread import Everthread, user
from everthread.errors import AlreadyExists, BadFormat, BadValue, UnknownConversation
from everthread.store.conversations import Owner
from everthread.transfer import export_lines, read_file
from tests.contract.support import module, run, texts


async def test_an_unknown_id_begins_a_conversation_which_it_finds_from_then_on(et: Everthread, someone: str) -> None:
    first = await et.conversation(user=someone, agent="helper", id="thread-17")
    await first.append(user("hello"))
    again = await et.conversation(user=someone, id="thread-17")
    assert again.conversation == first.conversation
    assert (again.conversation.alias, again.conversation.agent) == ("thread-17", "helper")
    assert await texts(again) == ["hello"]
    assert (await et.conversation(user=someone, id=first.id)).conversation == first.conversation
    assert (await first.another("thread-17")).id == first.id


async def test_without_an_id_of_its_own_a_conversation_has_none(et: Everthread, someone: str) -> None:
    assert (await et.begin(user=someone)).conversation.alias == ""
    assert (await et.begin(user=someone)).conversation.alias == ""


async def test_begin_refuses_an_id_that_is_taken(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone, id="thread-17")
    with pytest.raises(AlreadyExists, match="There already is a conversation with the id 'thread-17'"):
        await et.begin(user=someone, id="thread-17")
    assert [found.id for found in await et.conversations(user=someone)] == [talk.id]


@pytest.mark.parametrize("id", ["thread-17", "01M7JGCYXMRCTGR30FQQPQ4HR8", None], ids=str)
async def test_who_wants_no_new_conversation_is_told_that_there_is_none(
    et: Everthread, someone: str, id: str | None
) -> None:
    await et.begin(user=f"{someone}-else", id="thread-17")
    with pytest.raises(UnknownConversation, match=id or "with the agent 'default'"):
        await et.conversation(user=someone, id=id, begin=False)
    assert await et.conversations(user=someone) == []


async def test_who_wants_no_new_conversation_is_given_the_one_that_is_there(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone, agent="helper", id="thread-17")
    for id in ("thread-17", talk.id, None):
        found = await et.conversation(user=someone, agent="helper", id=id, begin=False)
        assert found.conversation == talk.conversation
    await talk.erase()
    for id in ("thread-17", talk.id, None):
        with pytest.raises(UnknownConversation):
            await et.conversation(user=someone, agent="helper", id=id, begin=False)
    assert await et.conversations(user=someone) == []


async def test_an_unknown_id_in_the_form_of_everthreads_own_is_still_unknown(et: Everthread, someone: str) -> None:
    own = "01M7JGCYXMRCTGR30FQQPQ4HR8"
    with pytest.raises(UnknownConversation):
        await et.conversation(user=someone, id=own)
    with pytest.raises(BadValue, match="put a word before it"):
        await et.begin(user=someone, id=own)
    assert await et.conversations(user=someone) == []


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "\0", "\ud800", "x" * 201, 17, None], ids=ascii)
async def test_an_id_is_printable_text_of_at_most_200_characters(et: Everthread, someone: str, bad: object) -> None:
    if bad is not None:
        with pytest.raises(BadValue):
            await et.begin(user=someone, id=bad)  # type: ignore[arg-type]
        with pytest.raises(BadValue):
            await et.conversation(user=someone, id=bad)  # type: ignore[arg-type]
        with pytest.raises(BadValue):
            await et.conversation(user=someone, id=bad, begin=False)  # type: ignore[arg-type]
    assert await et.conversations(user=someone) == []


@pytest.mark.parametrize("odd", ["'; DROP TABLE events; --", "Größe 5 %", "_", "线程/17", "x" * 200, "~"], ids=ascii)
async def test_any_other_text_will_do(et: Everthread, someone: str, odd: str) -> None:
    talk = await et.conversation(user=someone, id=odd)
    assert (await et.conversation(user=someone, id=odd)).id == talk.id
    assert (await et.conversation(user=someone, id=f"{odd[:-1]}?")).id != talk.id


async def test_another_users_conversation_of_the_same_id_is_another(et: Everthread, someone: str) -> None:
    mine = await et.conversation(user=someone, id="thread-17")
    others = await et.conversation(user=f"{someone}-else", id="thread-17")
    elsewhere = await et.conversation(user=someone, tenant="elsewhere", id="thread-17")
    assert len({mine.id, others.id, elsewhere.id}) == 3
    await mine.append(user("secret"))
    assert await texts(others) == await texts(elsewhere) == []
    await others.erase()
    assert await texts(await et.conversation(user=someone, id="thread-17")) == ["secret"]


async def test_two_openings_that_ask_at_once_get_the_same(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        for number in range(15):
            asked = [et.conversation(user=someone, id=f"thread-{number}") for et in (one, two, one, two)]
            assert len({talk.id for talk in await asyncio.gather(*asked)}) == 1


async def test_two_processes_that_ask_at_once_get_the_same(address: str, someone: str) -> None:
    async with Everthread.open(address):
        pass
    done = await asyncio.gather(*(run(*module("own_ids.py", address, someone)) for _ in range(3)))
    assert [one.status for one in done] == [0, 0, 0], done[0].err
    assert len(done[0].out) == 20
    assert done[0].out == done[1].out == done[2].out


# -- forgetting and moving ---------------------------------------------------------------------------------


async def test_an_erased_conversation_leaves_its_id_free(et: Everthread, someone: str) -> None:
    talk = await et.conversation(user=someone, id="thread-17")
    await talk.erase()
    with pytest.raises(UnknownConversation):
        await talk.another("thread-17")
    again = await et.begin(user=someone, id="thread-17")
    assert again.id != talk.id


async def test_an_erased_user_leaves_no_ids(et: Everthread, someone: str) -> None:
    talk = await et.conversation(user=someone, id="thread-17")
    assert await et.erase_user(user=someone) == 1
    assert (await et.conversation(user=someone, id="thread-17")).id != talk.id


async def test_an_id_goes_with_an_export_and_comes_back(et: Everthread, someone: str, tmp_path: Path) -> None:
    talk = await et.begin(user=someone, id="thread-17", metadata={"team": "blue"})
    await talk.append(user("hello", metadata={"row": 7}))
    file = tmp_path / "out.jsonl"
    file.write_bytes(b"".join([line async for line in export_lines(et.log, talk.conversation)]))
    other = Owner("default", f"{someone}-else")
    async with Everthread.open(f"sqlite:///{tmp_path}/other.db") as there:
        await there.log.restore(read_file(file, other, agent="a"))
        found = await there.conversation(user=other.user, id="thread-17")
        assert (found.id, found.conversation.metadata) == (talk.id, {"team": "blue"})
        (event,) = await found.after(metadata={"row": 7})
        assert event.text == "hello"


async def test_an_import_of_an_id_that_is_taken_is_refused_as_a_whole(
    et: Everthread, someone: str, tmp_path: Path
) -> None:
    talk = await et.begin(user=someone, id="thread-17")
    plain = await et.begin(user=someone)
    lines = [line for c in (plain, talk) for line in [one async for one in export_lines(et.log, c.conversation)]]
    (tmp_path / "out.jsonl").write_bytes(b"".join(lines))
    wholes = read_file(tmp_path / "out.jsonl", Owner("default", someone), agent="a")
    async with Everthread.open(f"sqlite:///{tmp_path}/other.db") as there:
        taken = await there.begin(user=someone, id="thread-17")
        with pytest.raises(AlreadyExists, match="'thread-17'"):
            await there.log.restore(wholes)
        assert [found.id for found in await there.conversations(user=someone)] == [taken.id]
        with pytest.raises(AlreadyExists, match="'thread-17'"):  # of two in one file, too
            await there.log.restore([wholes[1]] * 2)


async def test_a_file_with_an_id_that_is_none_is_refused(et: Everthread, someone: str, tmp_path: Path) -> None:
    talk = await et.begin(user=someone, id="thread-17")
    text = b"".join([line async for line in export_lines(et.log, talk.conversation)]).decode()
    for bad in (f'"{talk.id}"', "17", '"a\\nb"'):
        (tmp_path / "bad.jsonl").write_text(text.replace('"thread-17"', bad))
        with pytest.raises(BadFormat):
            read_file(tmp_path / "bad.jsonl", Owner("default", someone), agent="a")
