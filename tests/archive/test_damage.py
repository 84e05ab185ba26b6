"""Whatever happened to a file is found before anything of it is restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from everthread import Everthread, Talk, user
from everthread.archive import keys, pack
from everthread.errors import ArchiveError, DamagedArchive, ForeignArchive, NewerArchive
from everthread.sealing import master_keys
from everthread.store.beside.archives import Archive
from everthread.store.scripts.rows import PARTS, Rows
from tests.archive.places import eventful, every_row, live, opened

ENVIRON = {master_keys.VARIABLE: master_keys.new_key()}
ID = "01M7NR90GH25ZXED2MSA0M8KXB"


def _archive(**more: str) -> Archive:
    row = {"tenant": "t", "conversation": ID, "archive": f"{ID}-0123456789abcdef", "user": "ana"}
    return Archive(**{**row, **more}, state="writing", place="")  # type: ignore[arg-type]


def _rows(id: str = ID, who: str = "ana") -> Rows:
    own = (id, who, "helper", "name", "", "{}", 1, 5, 0, None, "{}", 7)
    return {part: [] for part in PARTS} | {"conversations": [own], "blobs": [("h" * 8, bytes(range(40)))]}


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_every_byte_that_is_altered_and_every_length_that_is_cut_is_found(encrypted: bool) -> None:
    one, key = keys.made_for(_archive(), ENVIRON) if encrypted else (_archive(), None)
    whole = pack.pack(one, _rows(), key)
    assert pack.unpack(one, whole, key) == _rows()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 + place % 255
        with pytest.raises(ArchiveError):
            pack.unpack(one, bytes(damaged), key)
    for length in range(len(whole)):
        with pytest.raises(ArchiveError):
            pack.unpack(one, whole[:length], key)
    with pytest.raises(ArchiveError):
        pack.unpack(one, whole + b"\0", key)


def test_a_part_of_an_encrypted_archive_that_was_altered_is_found_without_any_checksum() -> None:
    """Whoever can write checksums cannot write seals: altered, exchanged, cut, or of another archive."""
    one, key = keys.made_for(_archive(), ENVIRON)
    data = b"x" * (keys.PIECE + 10)
    sealed = key.seal(2, "events", data)
    assert key.opened(2, "events", sealed) == data
    size = keys.PIECE + keys.TAG
    wrong = (sealed[:size], sealed[size:], sealed[size:] + sealed[:size], sealed[:-1], sealed[:-1] + b"\0", b"")
    for other in wrong:
        with pytest.raises(ValueError, match="altered"):
            key.opened(2, "events", other)
    for place, part in ((1, "events"), (2, "blobs")):
        with pytest.raises(ValueError, match="altered"):
            key.opened(place, part, sealed)
    again = keys.key_of(one, ENVIRON)
    assert again
    assert again.opened(2, "events", sealed) == data
    for moved in (one._replace(archive="b"), one._replace(conversation="c"), one._replace(tenant="d")):
        with pytest.raises(ArchiveError, match="altered, or moved"):
            keys.key_of(moved, ENVIRON)


BAD_COLUMNS = {
    "of different lengths": [pack._Column(0, ["a"]), pack._Column(0, ["a", "b"])],
    "of words that are said to be differences": [pack._Column(1, [1, "a"])],
}


@pytest.mark.parametrize("columns", BAD_COLUMNS.values(), ids=BAD_COLUMNS.keys())
def test_columns_that_make_no_rows_are_found_though_every_checksum_is_right(
    columns: list[pack._Column], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "_columns", lambda _: columns)
    whole = pack.pack(_archive(), _rows(), None)
    with pytest.raises(DamagedArchive, match="cannot be read"):
        pack.unpack(_archive(), whole, None)


def test_a_part_that_is_larger_than_its_header_says_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    told = pack.PartHeader
    monkeypatch.setattr(pack, "PartHeader", lambda **about: told(**{**about, "raw": 1}))
    whole = pack.pack(_archive(), _rows(), None)
    with pytest.raises(DamagedArchive, match="not as large"):
        pack.unpack(_archive(), whole, None)


def test_an_archive_of_another_conversation_user_or_tenant_is_refused() -> None:
    whole = pack.pack(_archive(), _rows(), None)
    for other in ({"archive": "x"}, {"conversation": "x"}, {"user": "bob"}, {"tenant": "u"}):
        with pytest.raises(ForeignArchive):
            pack.unpack(_archive(**other), whole, None)
    with pytest.raises(ForeignArchive):
        pack.unpack(_archive(), pack.pack(_archive(), _rows(who="bob"), None), None)


def test_an_archive_of_a_newer_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(pack, "VERSION", 2)
        whole = pack.pack(_archive(), _rows(), None)
    with pytest.raises(NewerArchive, match="format 2"):
        pack.unpack(_archive(), whole, None)


async def _archived(et: Everthread, someone: str) -> Talk:
    talk = await eventful(et, someone)
    await et.archive(user=someone, id=talk.id)
    return talk


async def test_a_damaged_archive_is_told_stays_listed_and_nothing_of_it_is_restored(
    address: str, someone: str, tmp_path: Path
) -> None:
    et = await opened(address, str(tmp_path / "a"))
    talk = await _archived(et, someone)
    (file,) = (tmp_path / "a").iterdir()
    whole, rows = file.read_bytes(), await every_row(address, talk.id)
    for damaged in (whole[:-1], whole[:200] + b"?" + whole[201:], b""):
        file.write_bytes(damaged)
        with pytest.raises(DamagedArchive):
            await talk.tail()
        with pytest.raises(DamagedArchive):
            await talk.append(user("Hello?"))
        assert await every_row(address, talk.id) == rows
        assert [one.conversation for one in await et.archives(user=someone)] == [talk.id]
        (problem,) = [one for one in await et.verify_archives() if one.conversation == talk.id]
        assert "damaged" in problem.problem
    file.write_bytes(whole)
    assert [one for one in await et.verify_archives() if one.conversation == talk.id] == []
    assert await talk.tail() != []
    await et.close()


async def test_another_archive_in_its_place_is_not_taken_for_it(address: str, someone: str, tmp_path: Path) -> None:
    """Not even a whole one, of the same user's."""
    et = await opened(address, str(tmp_path / "a"))
    talks = [await _archived(et, someone) for _ in range(2)]
    one, other = sorted((tmp_path / "a").iterdir())
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    damaged = next(talk for talk in talks if one.name.startswith(talk.id))
    with pytest.raises(ForeignArchive):
        await damaged.tail()
    one.write_bytes(kept)
    await damaged.tail()
    assert live(await every_row(address, damaged.id))["events"]
    await et.close()


async def test_a_file_that_belongs_to_nothing_is_told_by_verify(address: str, someone: str, tmp_path: Path) -> None:
    et = await opened(address, str(tmp_path / "a"))
    await _archived(et, someone)
    stray = tmp_path / "a" / f"{ID}-{'0' * 16}.archive"
    stray.write_bytes(b"x")
    assert [one.archive for one in await et.verify_archives() if not one.conversation] == [f"{ID}-{'0' * 16}"]
    await et.close()
