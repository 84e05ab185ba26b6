"""Forgotten means gone, from archives too: and nobody sees another's."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx2
import pytest

from everthread import user
from everthread.archive.places import Folder
from everthread.core.accounts import operator
from everthread.errors import NoArchiveKey, NotReached, PlaceUnavailable, StillVersioned, UnknownConversation
from everthread.sealing import master_keys
from everthread.server.vault import Vault
from everthread.store.reach import within
from tests.archive.conftest import made_bucket
from tests.archive.places import eventful, every_row, opened
from tests.migrations.databases import rows


async def test_erasing_an_archived_conversation_leaves_no_file_no_title_and_no_word(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    other = await et.begin(user=someone)
    await et.archive(user=someone, id=talk.id)
    assert await other.recall("walnut", scope="user")
    await talk.erase()
    assert {table for table, kept in (await every_row(address, talk.id)).items() if kept} == {"conversations"}
    assert await et.archives(user=someone) == []
    assert await et.archives(user=someone, query="walnut") == []
    assert await other.recall("walnut", scope="user") == []
    assert talk.id not in "".join(await et._archiver._place(place).names())
    with pytest.raises(UnknownConversation, match="erased"):
        await et.conversation(user=someone, id=talk.id)
    assert await et.log.archives.unfinished() == []
    await et.close()


async def test_erasing_a_user_reaches_archives(fresh_address: str, place: str) -> None:
    et = await opened(fresh_address, place)
    talks = [await eventful(et, "ana") for _ in range(3)]
    bobs = await eventful(et, "bob")
    for talk in (*talks[:2], bobs):
        await et.archive(user=talk.conversation.user, id=talk.id)
    assert await et.erase_user(user="ana") == 3
    assert [name[:26] for name in await et._archiver._place(place).names()] == [bobs.id]
    for table in ("archives", "archive_words", "archived_calls", "archived_quotes"):
        assert await rows(fresh_address, f"SELECT 1 FROM {table} WHERE conversation <> '{bobs.id}'") == []
    assert [one.conversation for one in await et.archives(user="bob")] == [bobs.id]
    await et.close()


async def test_nobody_is_told_of_anothers_file_that_cannot_be_reached(
    address: str, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    et = await opened(address, str(tmp_path / "archives"))
    talk, mine = await eventful(et, someone), await eventful(et, f"{someone}-2")
    await et.archive(user=someone, id=talk.id)

    async def unreachable(self: Folder, archive: str) -> None:
        raise PlaceUnavailable(self.shown, "gone")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "delete", unreachable)
        with pytest.raises(NotReached):
            await talk.erase()
        await mine.redact(1)
        await mine.erase()
    await et.log.forgetting.finish()
    assert not [path for path in (tmp_path / "archives").rglob("*") if path.is_file()]
    await et.close()


async def test_what_is_erased_while_its_file_is_written_leaves_no_file(
    address: str, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    et = await opened(address, str(tmp_path / "archives"))
    talk, put = await eventful(et, someone), Folder.put

    async def late(self: Folder, archive: str, data: bytes) -> bool:
        await talk.erase()
        return await put(self, archive, data)

    monkeypatch.setattr(Folder, "put", late)
    with pytest.raises(UnknownConversation):
        await et.archive(user=someone, id=talk.id)
    assert not [path for path in (tmp_path / "archives").rglob("*") if path.is_file()]
    await et.close()


async def test_what_is_erased_while_its_file_is_written_by_one_who_is_killed_is_deleted_by_the_next_run(
    address: str, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    et = await opened(address, str(tmp_path / "archives"))
    talk, put = await eventful(et, someone), Folder.put

    async def killed(self: Folder, archive: str, data: bytes) -> bool:
        await talk.erase()
        await put(self, archive, data)
        raise asyncio.CancelledError

    monkeypatch.setattr(Folder, "put", killed)
    with pytest.raises(asyncio.CancelledError):
        await et.archive(user=someone, id=talk.id)
    await et._archiver.finish()
    assert not [path for path in (tmp_path / "archives").rglob("*") if path.is_file()]
    assert (await every_row(address, talk.id))["archives"] == []
    await et.close()


async def test_redacting_in_an_archived_conversation_restores_and_redacts_it(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    seq = (await talk.append(user("I live in Trieste.")))[0].seq
    await et.archive(user=someone, id=talk.id)
    assert await et.archives(user=someone, query="Trieste")
    await talk.redact(seq)
    assert talk.id not in "".join(await et._archiver._place(place).names())
    await et.archive(user=someone, id=talk.id)
    assert await et.archives(user=someone, query="Trieste") == []
    held = await et.log.archives.of("default", talk.id)
    assert held
    assert "Trieste" not in str(await et._archiver.opened(held))
    assert "Trieste" not in str([one.text for one in await talk.after(messages=True)])
    await et.close()


async def test_redacting_reaches_what_an_archived_conversation_quotes(address: str, place: str, someone: str) -> None:
    from everthread.testing.scripted import call, script

    script(someone, [call("recall_context", {"query": "zebra", "scope": "user"})], "You saw one.")
    et = await opened(address, place, model=f"scripted:{someone}", memory=True)
    talk = await et.begin(user=someone)
    await talk.append(user("I saw a zebra in Trieste."))
    quoting = await et.begin(user=someone)
    await quoting.say("What did I see?")
    await et.memory.drain()
    assert "Trieste" in str([one.text for one in await quoting.after(messages=True)])
    await et.archive(user=someone, id=quoting.id)
    await talk.redact(1)
    assert "Trieste" not in str([one.text for one in await quoting.after(limit=100)])
    await et.close()


async def test_usage_is_the_same_while_a_conversation_is_archived(address: str, place: str, someone: str) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    before = await et.usage(user=someone), await et.usage(user=someone, by="model"), await et.totals(user=someone)
    own = await talk.usage()
    await et.archive(user=someone, id=talk.id)
    assert (await et.usage(user=someone), await et.usage(user=someone, by="model")) == before[:2]
    assert await talk.usage() == own
    totals = await et.totals(user=someone)
    assert (totals.conversations, totals.events, totals.messages, totals.tokens) == (
        before[2].conversations,
        before[2].events,
        before[2].messages,
        before[2].tokens,
    )
    await talk.tail()
    assert (await et.usage(user=someone), await et.usage(user=someone, by="model")) == before[:2]
    await et.close()


async def test_recall_says_that_a_conversation_is_archived(address: str, place: str, someone: str) -> None:
    et = await opened(address, place)
    talk, here = await eventful(et, someone), await et.begin(user=someone)
    await et.archive(user=someone, id=talk.id)
    (hit,) = await here.recall("peanut", scope="user")
    assert (hit.kind, hit.conversation, hit.text) == (
        "archived",
        talk.id,
        "Walnuts and other nuts: archived, restore to read",
    )
    assert await here.recall("peanut") == []
    assert await here.recall("peanut", scope="user", kinds=("user",)) == []
    await et.restore(user=someone, id=talk.id)
    (found,) = await here.recall("peanut", scope="user", limit=1)
    assert (found.kind != "archived", found.conversation) == (True, talk.id)
    await et.close()


async def test_archives_of_others_are_neither_listed_nor_found_nor_restored(
    address: str, place: str, someone: str
) -> None:
    et = await opened(address, place)
    talk = await eventful(et, someone)
    theirs = await eventful(et, someone, tenant="acme")
    for one in (talk, theirs):
        await et.archive(user=someone, id=one.id, tenant=one.conversation.tenant)
    strangers = ((f"{someone}-2", "default"), (someone, "elsewhere"))
    for who, tenant in strangers:
        assert await et.archives(user=who, tenant=tenant) == []
        assert await et.archives(user=who, tenant=tenant, query="walnut peanut") == []
        here = await et.begin(user=who, tenant=tenant)
        assert await here.recall("walnut", scope="user") == []
        for verb in (et.restore, et.archive, et.conversation):
            with pytest.raises(UnknownConversation):
                await verb(user=who, tenant=tenant, id=talk.id)
    with within("acme"):
        assert [one.conversation for one in await et.archives(user=someone, tenant="acme")] == [theirs.id]
        if not address.startswith("sqlite"):
            assert {one.tenant for one in await et.log.archives.all()} == {"acme"}
    assert [one.conversation for one in await et.archives(user=someone)] == [talk.id]
    await et.close()


# -- encryption ------------------------------------------------------------------------------------------------


async def test_nothing_that_was_said_can_be_read_in_an_encrypted_archive(tmp_path: Path) -> None:
    et = await opened(f"sqlite:///{tmp_path}/talk.db", str(tmp_path / "a"), archive_encryption=True)
    talk = await et.begin(user="ana-the-user")
    await talk.append(user("zebra"))
    await et.archive(user="ana-the-user", id=talk.id)
    (file,) = (tmp_path / "a").iterdir()
    assert b"ana-the-user" not in file.read_bytes()
    assert b"zebra" not in file.read_bytes()
    await et.close()


async def test_without_its_key_no_copy_of_an_archive_can_be_opened(address: str, someone: str, tmp_path: Path) -> None:
    """Erasing destroys the key in the catalogue, so that a version or a back-up of the file tells nothing any more."""
    et = await opened(address, str(tmp_path / "a"), archive_encryption=True)
    talk = await eventful(et, someone)
    await et.archive(user=someone, id=talk.id)
    held = await et.log.archives.of("default", talk.id)
    assert held
    assert held.sealed
    (file,) = (tmp_path / "a").iterdir()
    file.rename(tmp_path / "a copy")
    (tmp_path / "a").rmdir()
    (tmp_path / "a").write_bytes(b"")  # so that the place cannot be used
    with pytest.raises(NotReached):
        await talk.erase()
    (owed,) = [one for one in await et.log.archives.unfinished() if one.conversation == talk.id]
    assert (owed.sealed, owed.nonce, owed.key_id, owed.title, owed.user) == (b"", b"", "", "", "")
    (tmp_path / "a").unlink()
    await et._archiver.finish()
    assert [one for one in await et.log.archives.unfinished() if one.conversation == talk.id] == []
    await et.close()


async def test_a_master_key_that_is_missing_or_another_is_told(
    address: str, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    et = await opened(address, str(tmp_path / "a"), archive_encryption=True)
    talk = await eventful(et, someone)
    await et.archive(user=someone, id=talk.id)
    with monkeypatch.context() as changed:
        changed.setenv(master_keys.VARIABLE, master_keys.new_key())
        with pytest.raises(NoArchiveKey, match="is missing"):
            await talk.tail()
        changed.setenv(master_keys.VARIABLE, "nonsense")
        with pytest.raises(NoArchiveKey):
            await talk.tail()
    assert await talk.tail() != []
    await et.close()


async def test_the_keys_of_archives_are_sealed_anew_with_the_others(
    fresh_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = master_keys.new_key(), master_keys.new_key()
    monkeypatch.setenv(master_keys.VARIABLE, old)
    et = await opened(fresh_address, str(tmp_path / "a"), archive_encryption=True)
    talk = await eventful(et, "ana")
    await et.archive(user="ana", id=talk.id)
    monkeypatch.setenv(master_keys.VARIABLE, f"{new} {old}")
    vault = Vault(et.log)
    assert await vault.rotate(operator("default")) == 1
    assert await vault.rotate(operator("default")) == 0
    monkeypatch.setenv(master_keys.VARIABLE, new)
    assert await talk.tail() != []
    await et.close()


@pytest.mark.usefixtures("_keys")
async def test_a_bucket_that_keeps_versions_is_told_unless_archives_are_encrypted(
    address: str, someone: str, s3: str, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = made_bucket(s3)
    on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    httpx2.put(f"{s3}/{bucket}?versioning", content=on).raise_for_status()
    for encrypted in (False, True):
        et = await opened(address, f"s3://{bucket}", archive_encryption=encrypted)
        talk = await eventful(et, someone)
        with caplog.at_level(logging.WARNING, "everthread.archive"):
            await et.archive(user=someone, id=talk.id)
        assert ("keeps versions" in caplog.text) is not encrypted
        caplog.clear()
        if encrypted:
            await talk.erase()
        else:
            with pytest.raises(StillVersioned, match="keeps versions"):
                await talk.erase()
        assert [one for one in await et.log.archives.unfinished() if one.conversation == talk.id] == []
        await et.close()
