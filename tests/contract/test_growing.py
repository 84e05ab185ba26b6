"""Exports of conversations that go on meanwhile: they hold nothing that was redacted, and a mirror stays equal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, Talk, file, user
from everthread.app import TENANT
from everthread.cli import transfer
from everthread.cli.shared import Where
from everthread.core.events import Command, Redacted
from everthread.errors import Conflict, Outdated, UnknownBlob, UnknownConversation
from everthread.store.conversations import Conversation, Owner
from everthread.store.log import Log
from everthread.store.scripts.restore import Whole
from everthread.talk import reading
from everthread.transfer import export_lines, mirror, read_file, write
from tests.waiting import PATIENCE, until


@contextmanager
def mirroring(talk: Talk, path: Path) -> Iterator[asyncio.Task[None]]:
    running = asyncio.create_task(mirror(talk._log, talk.conversation, path))
    try:
        yield running
    finally:
        running.cancel()


def holds(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


def read(path: Path) -> Whole:
    (whole,) = read_file(path, Owner(TENANT, "ana"), agent="any")
    return whole


async def lines_while(talk: Talk, seen: bytes, then: Callable[[], Any]) -> list[bytes]:
    """The lines of an export during which something happens: once a line has come with what is to be seen."""
    lines, done = [], False
    async for line in export_lines(talk._log, talk.conversation):
        lines.append(line)
        if seen in line and not done:
            done = True
            await then()
    return lines


# -- redacted meanwhile ------------------------------------------------------------------------------------


async def test_what_is_redacted_during_the_first_pass_outdates_the_export(talk: Talk) -> None:
    await talk.append(user("plum"), user("pear"))
    with pytest.raises(Outdated, match="export it again"):
        await lines_while(talk, b"plum", lambda: talk.redact(1))
    assert issubclass(Outdated, Conflict)


async def test_a_redaction_said_on_a_branch_already_passed_outdates_the_export(talk: Talk) -> None:
    await talk.append(user("plum"))
    side, other = await talk.fork(at=1, name="side"), await talk.fork(at=1, name="other")
    await other.append(user("pear"))
    with pytest.raises(Outdated):
        await lines_while(talk, b"pear", lambda: side.redact(1))


async def test_what_was_redacted_before_it_was_read_outdates_nothing(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "PAGE", 1)
    await talk.append(user("pear"), user("plum"))
    await talk.redact(2)
    await talk.redact(2)
    lines = await lines_while(talk, b"pear", lambda: talk.redact(2))
    assert len(lines) == 6, "the conversation, two events, three commands"


async def test_a_command_that_only_says_that_it_redacts_outdates_nothing(talk: Talk) -> None:
    said: list[dict[str, Any]] = [{"seq": 1, "branch": 1}, {"seq": "1", "branch": None}, {"seq": 1, "branch": 9}, {}]
    await talk.append(user("plum"), *(Command(name="redact", arguments=arguments) for arguments in said))
    assert len(await lines_while(talk, b"nothing", talk.totals)) == 6


async def test_a_file_that_was_redacted_before_it_was_fetched_outdates_the_export(talk: Talk) -> None:
    await talk.append(user("plum"), user("see", file(b"pear", name="pear.txt")))
    with pytest.raises(Outdated):
        await lines_while(talk, b"plum", lambda: talk.redact(2))


async def test_a_file_that_is_lost_is_said_to_be_lost(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    await talk.append(user("see", file(b"pear", name="pear.txt")))

    async def lost(log: Log, line: object, hash: str) -> bytes:
        raise UnknownBlob(hash)

    monkeypatch.setattr(Log, "blob", lost)
    with pytest.raises(UnknownBlob):
        await lines_while(talk, b"nothing", talk.totals)


async def test_what_is_erased_during_an_export_is_not_half_exported(talk: Talk) -> None:
    await talk.append(user("plum"), user("pear"))
    with pytest.raises(UnknownConversation):
        await lines_while(talk, b'"everthread"', talk.erase)


@pytest.fixture
def redacting(monkeypatch: pytest.MonkeyPatch, talk: Talk) -> Callable[[int], None]:
    """Lets the first exports of the command line be disturbed by redactions."""

    def disturb(times: int) -> None:
        left = iter(range(1, times + 1))

        async def disturbed(log: Log, conversation: Conversation) -> AsyncIterator[bytes]:
            seq = next(left, None)
            async for line in export_lines(log, conversation):
                yield line
                if seq and f'"seq":{seq},'.encode() in line:
                    await talk.redact(seq)
                    seq = None

        monkeypatch.setattr(reading, "export_lines", disturbed)

    return disturb


async def test_an_export_into_a_file_begins_anew_without_what_was_redacted(
    et: Everthread, talk: Talk, tmp_path: Path, redacting: Callable[[int], None], someone: str
) -> None:
    await talk.append(user("plum"), user("pear"))
    redacting(1)
    out = tmp_path / "out.jsonl"
    await transfer._export(et, _where(someone), LINES, [talk.conversation], out)
    assert len(out.read_bytes().splitlines()) == 4
    assert not holds(out, "plum")
    assert holds(out, "pear")


async def test_an_export_that_never_comes_to_an_end_leaves_the_old_file(
    et: Everthread, talk: Talk, tmp_path: Path, redacting: Callable[[int], None], someone: str
) -> None:
    await talk.append(*(user("plum") for _ in range(20)))
    redacting(20)
    out = tmp_path / "out.jsonl"
    out.write_text("good")
    with pytest.raises(Outdated):
        await transfer._export(et, _where(someone), LINES, [talk.conversation], out)
    assert out.read_text() == "good"
    assert not write.part_of(out).exists()


async def test_an_export_to_standard_output_cannot_begin_anew(
    et: Everthread, talk: Talk, redacting: Callable[[int], None], someone: str
) -> None:
    await talk.append(user("plum"))
    redacting(1)
    with pytest.raises(Outdated):
        await transfer._export(et, _where(someone), LINES, [talk.conversation], None)


LINES = transfer._Asked(
    everything=False, whole_tenant=False, whole_store=False, secrets=False, form="jsonl", branch=None
)


def _where(someone: str) -> Where:
    return Where(store="", tenant=TENANT, user=someone, json=True)


# -- a mirror ----------------------------------------------------------------------------------------------


async def test_a_mirror_forgets_what_was_redacted_while_it_was_first_written(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.append(user("plum"), user("pear"))
    real, left = write.event_line, [1]

    def disturbed(event: Any) -> bytes:
        if left:
            redactions.append(asyncio.ensure_future(talk.redact(left.pop())))
        return real(event)

    redactions: list[asyncio.Future[None]] = []
    monkeypatch.setattr(write, "event_line", disturbed)
    path = tmp_path / "mirror.jsonl"
    with mirroring(talk, path):
        await until(lambda: holds(path, '"redacted"'))
        await asyncio.gather(*redactions)
    assert not holds(path, "plum")
    assert isinstance(read(path).branches[0][1][0].event, Redacted)


async def test_a_mirror_knows_new_names_goals_settings_and_the_current_branch(talk: Talk, tmp_path: Path) -> None:
    await talk.append(user("one"), user("two"))
    path = tmp_path / "mirror.jsonl"
    with mirroring(talk, path):
        await until(lambda: holds(path, "two"))
        await talk.rename("Cake")
        await until(lambda: holds(path, "Cake"))
        await talk.set_goal("bake one")
        await talk.set_settings({"budget": 8000})
        await talk.rewind(to=1)
        await until(lambda: holds(path, "bake one") and holds(path, "8000") and holds(path, '"current":2'))
        found, kept = read(path).conversation, await talk._log.conversations.find(_owner(talk), talk.id)
    for name in ("id", "name", "goal", "settings", "current"):
        assert getattr(found, name) == getattr(kept, name)


async def test_a_mirror_that_nothing_happens_to_does_not_grow(talk: Talk, tmp_path: Path) -> None:
    await talk.append(user("one"))
    await talk.rename("Cake")
    path = tmp_path / "mirror.jsonl"
    with mirroring(talk, path):
        await until(lambda: holds(path, "one"))
        before = path.read_bytes()
        talk._log._engine.bells.ring_all()
        await asyncio.sleep(0.1)
        assert path.read_bytes() == before
    assert b"".join([line async for line in export_lines(talk._log, talk.conversation)]) == before


async def test_a_mirror_leaves_a_good_file_until_the_new_one_is_complete(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.append(user("one"))
    path = tmp_path / "mirror.jsonl"
    path.write_text("good")

    async def stuck(log: Log, conversation: Conversation, *, follow: bool) -> AsyncIterator[bytes]:
        yield b"half\n"
        await asyncio.sleep(60)

    monkeypatch.setattr(write, "export_lines", stuck)
    with mirroring(talk, path) as running:
        await until(write.part_of(path).exists)
    await asyncio.wait([running])
    assert path.read_text() == "good"
    assert not write.part_of(path).exists()


async def test_a_mirror_goes_on_in_the_file_that_took_the_place(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "mirror.jsonl"
    path.write_text("good")
    with mirroring(talk, path):
        await until(lambda: holds(path, talk.id))
        inode = path.stat().st_ino
        await talk.append(user("plum"))
        await until(lambda: holds(path, "plum"))
        assert path.stat().st_ino == inode
        assert not write.part_of(path).exists()
        await talk.redact(1)
        await until(lambda: not holds(path, "plum"))
        await talk.append(user("pear"))
        await until(lambda: holds(path, "pear"))


async def test_following_says_each_time_that_it_has_caught_up(talk: Talk) -> None:
    await talk.append(user("one"))
    following = export_lines(talk._log, talk.conversation, follow=True)
    assert [bool(await anext(following)) for _ in range(3)] == [True, True, False]
    await talk.append(user("two"))
    async with asyncio.timeout(PATIENCE):
        while not (line := await anext(following)):
            pass
    assert json.loads(line)["seq"] == 2
    assert await anext(following) == b""


def _owner(talk: Talk) -> Owner:
    return Owner(talk.conversation.tenant, talk.conversation.user)


# -- text beyond UTF-8 -------------------------------------------------------------------------------------


async def test_settings_that_utf_8_cannot_say_are_exported_and_read(talk: Talk, tmp_path: Path) -> None:
    await talk.set_settings({"voice": "\ud800 ü"})
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(await lines_while(talk, b"nothing", talk.totals)))
    assert read(path).conversation.settings == {"voice": "\ud800 ü"}
