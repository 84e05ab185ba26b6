"""A folder that mirrors a store: it grows, forgets, catches up after a crash, and the store can be rebuilt from it."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from everthread import Everthread, Talk, assistant, image, user
from everthread.core.events import Clear
from everthread.core.settings import GivenSettings
from everthread.jobs.mirror import MirrorWorker
from everthread.store.conversations import Owner
from everthread.transfer import mirrored
from everthread.transfer.importing import import_path
from everthread.transfer.lines import Keeps
from everthread.transfer.mirrored import MirrorBusy, MirrorFolder, is_mirror, safe_name
from tests.contract.lives import PNG, TENANT, live, lives, picture
from tests.examples import examples
from tests.waiting import PATIENCE, until

QUIET: GivenSettings = {"memory": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
async def mirrors(address: str, folder: Path) -> AsyncIterator[Everthread]:
    """A store that is mirrored."""
    async with Everthread.open(address, settings={"memory": False, "mirror": str(folder)}) as et:
        yield et
        if is_mirror(folder):  # the store is shared, and would owe it what other tests forget
            for one in await et.log.mirrors.all():
                await et.log.mirrors.forget(one.mirror)


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Everthread]:
    """A store of this test alone, with nobody who mirrors it."""
    async with Everthread.open(f"sqlite:///{tmp_path}/own.db", settings=QUIET) as et:
        yield et


def files(folder: Path, id: str) -> list[Path]:
    return [path for path in folder.rglob("*") if id in path.name]


def text(folder: Path, id: str) -> str:
    return "".join(path.read_text() for path in files(folder, id) if path.suffix == ".jsonl")


async def rebuilt(folder: Path, address: str, someone: str, id: str) -> dict[str, Any]:
    """A conversation, of a store that was made of nothing but the mirror."""
    async with Everthread.open(address, settings=QUIET) as et:
        keeps = Keeps(users=True, tenants=True)
        await import_path(et.log, folder, Owner(TENANT, "nobody"), agent="a", keeps=keeps, torn=True)
        return await picture(et.log, id, someone)


async def test_it_grows_with_the_log_and_the_store_can_be_rebuilt_from_it(
    mirrors: Everthread, folder: Path, someone: str, tmp_path: Path
) -> None:
    talk = await mirrors.begin(user=someone, agent="helper")
    await talk.append(user("plum", image(PNG)), assistant("pear"))
    await until(lambda: "pear" in text(folder, talk.id))
    side = await talk.fork(at=1, name="side")
    await side.append(user("quince"), Clear())
    await talk.rename("Fruit")
    await talk.write_notes("walnuts")
    await until(lambda: "quince" in text(folder, talk.id) and "Fruit" in text(folder, talk.id))
    notes = folder / safe_name(TENANT) / safe_name(someone) / "documents.jsonl"
    await until(lambda: notes.exists() and "walnuts" in notes.read_text())
    found = await rebuilt(folder, f"sqlite:///{tmp_path}/new.db", someone, talk.id)
    assert found == await picture(mirrors.log, talk.id, someone)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o600}


async def test_what_is_forgotten_is_gone_from_it_when_forgetting_returns(
    mirrors: Everthread, folder: Path, someone: str
) -> None:
    talk, other = [await mirrors.begin(user=someone) for _ in range(2)]
    await talk.append(user("plum", image(PNG)), user("pear"))
    side = await talk.fork(at=1)
    await side.append(user("quince"))
    await other.append(user("medlar"))
    await talk.write_notes("walnuts")
    notes = folder / safe_name(TENANT) / safe_name(someone) / "documents.jsonl"
    await until(lambda: "quince" in text(folder, talk.id) and "medlar" in text(folder, other.id) and notes.exists())
    await side.redact(1)
    assert "plum" not in text(folder, talk.id)
    assert "iVBOR" not in text(folder, talk.id)
    assert "quince" in text(folder, talk.id)
    await talk.erase()
    assert files(folder, talk.id) == []
    await mirrors.log.documents.forget(Owner(TENANT, someone), "memory/default")
    assert not notes.exists()
    await mirrors.erase_user(user=someone)
    assert not (folder / safe_name(TENANT) / safe_name(someone)).exists()
    assert [one for one in await mirrors.log.mirrors.owed() if one.folder == str(folder)] == []


async def test_what_was_forgotten_while_nobody_mirrored_is_owed_and_followed_later(
    own: Everthread, folder: Path
) -> None:
    talk, gone = [await own.begin(user="ana") for _ in range(2)]
    await talk.append(user("plum"), user("pear"))
    await gone.append(user("medlar"))
    worker = MirrorWorker(own.log, folder)
    await worker.sync()
    await worker.close()
    await talk.redact(1)
    await gone.erase()
    assert "plum" in text(folder, talk.id)
    assert {(one.conversation, one.folder) for one in await own.log.mirrors.owed()} == {
        (talk.id, str(folder)),
        (gone.id, str(folder)),
    }
    again = MirrorWorker(own.log, folder)
    await again.sync()
    await again.close()
    assert "plum" not in text(folder, talk.id)
    assert files(folder, gone.id) == []
    assert await own.log.mirrors.owed() == []


async def test_doctor_tells_what_is_owed(own: Everthread, folder: Path) -> None:
    talk = await own.begin(user="ana")
    await talk.append(user("plum"))
    await synced(own, folder)
    await talk.redact(1)
    (problem,) = await own.log.strays()
    assert str(folder) in problem
    (known,) = await own.log.mirrors.all()
    await own.log.mirrors.forget(known.mirror)
    assert await own.log.strays() == []


async def synced(et: Everthread, folder: Path) -> int:
    worker = MirrorWorker(et.log, folder)
    try:
        return await worker.sync()
    finally:
        await worker.close()


async def test_torn_at_any_byte_it_goes_on_at_the_right_event(own: Everthread, folder: Path) -> None:
    talk = await own.begin(user="ana")
    await talk.append(user("plum"), user("pear", image(PNG)))
    await synced(own, folder)
    path, notes = MirrorFolder(folder).path_of(talk.conversation), list(folder.rglob("*.state"))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        assert await MirrorFolder(folder).follow(own.log, talk.conversation)
        assert path.read_bytes()[first:] == whole[first:], f"torn at {length}"
        assert notes[0].exists()


@pytest.mark.parametrize("broken", ["write", "note", "replace"])
async def test_killed_at_any_write_it_ends_up_the_same(
    own: Everthread, folder: Path, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash before, within or after each thing that is done to a file; the next process finishes it."""
    talk = await own.begin(user="ana", agent="helper")
    for number in range(6):
        await talk.append(user(f"plum {number}"))
        if number == 3:
            await talk.redact(1)
        with monkeypatch.context() as patch:
            _break(patch, broken)
            with pytest.raises((OSError, ZeroDivisionError)):
                await MirrorFolder(folder).follow(own.log, talk.conversation, anew=number == 3)
    folder.mkdir(exist_ok=True)
    await synced(own, folder)
    found = await rebuilt(folder, f"sqlite:///{tmp_path}/new.db", "ana", talk.id)
    assert found == await picture(own.log, talk.id, "ana")


def _break(patch: pytest.MonkeyPatch, what: str) -> None:
    def killed(*_: object) -> None:
        raise ZeroDivisionError

    async def torn(file: Any, news: AsyncIterator[bytes]) -> int:
        written = b"".join([line async for line in news])
        file.write(written[: len(written) * 2 // 3])
        file.flush()
        raise ZeroDivisionError

    if what == "write":
        patch.setattr(mirrored, "_write", torn)
    elif what == "note":
        patch.setattr(MirrorFolder, "_note", killed)
    else:
        patch.setattr(Path, "replace", killed)


async def test_a_mirror_that_is_ahead_of_its_store_is_set_aside(own: Everthread, folder: Path, tmp_path: Path) -> None:
    """The database may be an older copy: what only the mirror has is not destroyed."""
    talk = await own.begin(user="ana")
    await talk.append(user("plum"))
    await synced(own, folder)
    path = MirrorFolder(folder).path_of(talk.conversation)
    newer = path.read_bytes()
    last = newer.splitlines()[-1].replace(b'"seq":1', b'"seq":2').replace(b"plum", b"pear")
    path.write_bytes(newer + last + b"\n")
    await synced(own, folder)
    assert "pear" not in path.read_text()
    (aside,) = folder.rglob("*.aside-*")
    assert "pear" in aside.read_text()
    await talk.erase()
    await synced(own, folder)
    assert files(folder, talk.id) == []


async def test_what_the_store_never_had_stays(own: Everthread, folder: Path, tmp_path: Path) -> None:
    """A store that was lost must not empty the mirror that it is to be rebuilt from."""
    talk = await own.begin(user="ana")
    await talk.append(user("plum"))
    await synced(own, folder)
    async with Everthread.open(
        f"sqlite:///{tmp_path}/empty.db", settings={"memory": False, "mirror": str(folder)}
    ) as empty:
        await until(lambda: _is_known(empty))
        worker = MirrorWorker(empty.log, folder)
        assert (await worker.status()).unknown == 1
        await empty.begin(user="bob")
    assert "plum" in text(folder, talk.id)


async def _is_known(et: Everthread) -> bool:
    return bool(await et.log.mirrors.all())


async def test_one_process_keeps_it_at_a_time(mirrors: Everthread, folder: Path, someone: str, address: str) -> None:
    """Another that is told to keep the same folder writes nothing, and takes over when the first one ends."""
    await until(lambda: is_mirror(folder))
    worker = MirrorWorker(mirrors.log, folder)
    with pytest.raises(MirrorBusy):
        await worker.sync()
    program = (
        "import asyncio, sys\nfrom everthread import Everthread, user\n"
        "async def main():\n"
        f"    async with Everthread.open({address!r}, settings={{'memory': False, 'mirror': {str(folder)!r}}}) as et:\n"
        f"        talk = await et.begin(user={someone!r})\n"
        "        for number in range(20):\n"
        "            await talk.append(user(f'plum {number}'))\n"
        "        print(talk.id)\n"
        "asyncio.run(main())\n"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        out, _ = await child.communicate()
    id = out.decode().strip()
    await until(lambda: "plum 19" in text(folder, id))
    lines = text(folder, id).splitlines()
    assert len(lines) == 21, "the conversation and its events, none of them twice"


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives, lives)
def test_any_conversation_can_be_rebuilt_from_its_mirror(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    engine: str,
    before: list[tuple[str, Any]],
    after: list[tuple[str, Any]],
) -> None:
    """Mirrored once, and again after it has lived on."""
    asyncio.run(_mirrored(tmp_path, request.getfixturevalue("address"), before, after))


async def _mirrored(tmp_path: Path, address: str, before: list[Any], after: list[Any]) -> None:
    async with Everthread.open(address, settings=QUIET) as et:
        talk = await live(et, "ana", before)
        folder = tmp_path / talk.id
        kept = MirrorFolder(folder)
        await kept.follow(et.log, talk.conversation)
        await live(et, "ana", after, talk=talk)
        await kept.follow(et.log, talk.conversation)
        found = await rebuilt(folder, f"sqlite:///{tmp_path}/rebuilt.db", "ana", talk.id)
        assert found == await picture(et.log, talk.id, "ana")


async def test_what_a_program_says_that_ends_at_once_is_mirrored(tmp_path: Path, folder: Path) -> None:
    address = f"sqlite:///{tmp_path}/brief.db"
    async with Everthread.open(address, settings={"memory": False, "mirror": str(folder)}) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("plum"))
    assert "plum" in text(folder, talk.id)


async def test_a_mirror_that_cannot_be_written_stops_nothing(
    address: str, tmp_path: Path, someone: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    async with Everthread.open(address, settings={"memory": False, "mirror": str(tmp_path / "file")}) as et:
        talk: Talk = await et.begin(user=someone)
        await talk.append(user("plum"))
        await until(lambda: "is behind" in caplog.text)
        assert [one.text for one in await talk.after()] == ["plum"]
