"""An S3-compatible store that fails, loses its answers or breaks them off: nothing is lost, and nothing is twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everthread import Everthread
from everthread.archive import places
from everthread.errors import NotReached, PlaceUnavailable
from tests.archive.conftest import made_bucket
from tests.archive.faulty import Fault, Faults, faulty
from tests.archive.places import eventful, every_row, live, opened


@pytest.fixture
def broken(s3: str, _keys: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Faults]]:
    """A bucket behind a store that misbehaves; and clients that lose patience soon."""
    monkeypatch.setattr(places, "RETRIES", 2)
    bucket = made_bucket(s3)
    with faulty(s3) as (address, faults):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield f"s3://{bucket}", faults


@pytest.mark.parametrize("fault", ["error", "lost", "cut"])
@pytest.mark.parametrize("method", ["PUT", "GET", "POST"])
async def test_what_goes_wrong_once_is_done_again(
    fresh_address: str, broken: tuple[str, Faults], method: str, fault: Fault
) -> None:
    """An answer that was lost is asked for twice: the second finds what the first has done."""
    place, faults = broken
    et = await opened(fresh_address, place)
    talk = await eventful(et, "ana")
    before = live(await every_row(fresh_address, talk.id))
    faults.next[method] = [fault]
    try:
        await et.archive(user="ana", id=talk.id)
    except PlaceUnavailable:
        assert fault == "cut"
        await et.archive(user="ana", id=talk.id)
    await talk.tail()
    assert method in faults.seen
    assert faults.next[method] == []
    assert live(await every_row(fresh_address, talk.id)) == before
    await et._archiver.finish()
    await _nothing_left(et, place)
    await et.close()


@pytest.mark.parametrize("method", ["PUT", "GET", "POST"])
async def test_a_store_that_always_fails_leaves_the_conversation_as_it_is(
    fresh_address: str, broken: tuple[str, Faults], method: str
) -> None:
    place, faults = broken
    et = await opened(fresh_address, place)
    talk = await eventful(et, "ana")
    before = live(await every_row(fresh_address, talk.id))
    faults.always[method] = "error"
    if method == "POST":  # by which files are deleted
        await et.archive(user="ana", id=talk.id)
        await talk.tail()  # it is back, and its file is still to be deleted
        assert [one.state for one in await et.log.archives.unfinished()] == ["owed"]
    else:
        with pytest.raises(PlaceUnavailable):
            await et.archive(user="ana", id=talk.id)
    assert live(await every_row(fresh_address, talk.id)) == before
    faults.always.clear()
    await et._archiver.finish()
    await _nothing_left(et, place)
    await et.close()


async def test_an_archive_out_of_reach_stays_one_and_can_be_erased_all_the_same(
    fresh_address: str, broken: tuple[str, Faults]
) -> None:
    place, faults = broken
    et = await opened(fresh_address, place)
    talk = await eventful(et, "ana")
    await et.archive(user="ana", id=talk.id)
    faults.always |= {"GET": "error", "POST": "error"}
    with pytest.raises(PlaceUnavailable):
        await talk.tail()
    assert [one.conversation for one in await et.archives(user="ana")] == [talk.id]
    with pytest.raises(NotReached, match="one file"):
        await talk.erase()
    assert await et.archives(user="ana") == []
    assert [one.user for one in await et.log.archives.unfinished()] == [""]
    faults.always.clear()
    await et.work(until_idle=True)
    await _nothing_left(et, place)
    await et.close()


async def _nothing_left(et: Everthread, place: str) -> None:
    assert await et.log.archives.unfinished() == []
    assert await et._archiver._place(place).names() == []
    assert await et.verify_archives() == []
