"""Documents: versions only grow, nobody's writing is lost over another's, and forgotten means gone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from everthread import Everthread
from everthread.errors import BadValue, Changed, Conflict
from everthread.store.beside.documents import Document
from everthread.store.conversations import Owner
from everthread.store.log import Log
from everthread.store.open import open_log
from tests.contract.support import START, Clock, engine_of, files_of
from tests.waiting import PATIENCE

TEXTS = {
    "nothing": "",
    "many lines": "# Ana\n\n- no walnuts\n",
    "NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "every plane": "\u00e9\u2028\U0001f980\U0010ffff",
}


@pytest.fixture
def log(et: Everthread) -> Log:
    return et.log


@pytest.fixture
def owner(someone: str) -> Owner:
    return Owner("default", someone)


@pytest.fixture
def agents(someone: str) -> Owner:
    """A tenant of the test's own, itself."""
    return Owner(f"tenant-{someone}", "")


async def test_a_document_is_read_back_with_its_version_and_time(address: str, owner: Owner) -> None:
    log = await open_log(address, clock=Clock())
    written = await log.documents.put(owner, "MEMORY.md", "no walnuts")
    assert written == Document(name="MEMORY.md", version=1, body="no walnuts", time=START)
    assert await log.documents.get(owner, "MEMORY.md") == written
    await log.close()


@pytest.mark.parametrize("text", [pytest.param(text, id=word) for word, text in TEXTS.items()])
async def test_any_text_comes_back_as_it_was(log: Log, owner: Owner, text: str) -> None:
    assert (await log.documents.put(owner, "a", text)).body == text
    found = await log.documents.get(owner, "a")
    assert found is not None
    assert found.body == text


async def test_each_version_stays_as_it_was(log: Log, owner: Owner) -> None:
    written = [await log.documents.put(owner, "a", text) for text in ("one", "two", "one")]
    assert [document.version for document in written] == [1, 2, 3]
    assert await log.documents.versions(owner, "a") == written[::-1]
    assert await log.documents.versions(owner, "a", limit=2) == written[:0:-1]
    assert [await log.documents.get(owner, "a", version=n) for n in (1, 2, 3)] == written
    assert await log.documents.get(owner, "a") == written[-1]


async def test_what_the_newest_says_already_is_not_written_again(log: Log, owner: Owner) -> None:
    first = await log.documents.put(owner, "a", "one")
    assert await log.documents.put(owner, "a", "one") == first
    assert await log.documents.put(owner, "a", "one", expect=0) == first  # as when the first answer was lost
    assert await log.documents.versions(owner, "a") == [first]


@pytest.mark.parametrize("version", [-1, 0, 2, 2**31, 10**30])
async def test_a_version_that_is_not_there_is_not_found(log: Log, owner: Owner, version: int) -> None:
    await log.documents.put(owner, "a", "one")
    assert await log.documents.get(owner, "a", version=version) is None
    assert await log.documents.get(owner, "b") is None
    assert await log.documents.versions(owner, "b") == []


async def test_who_knows_the_newest_version_may_write_the_next(log: Log, owner: Owner) -> None:
    await log.documents.put(owner, "a", "one", expect=0)
    await log.documents.put(owner, "a", "two", expect=1)
    for stale in (0, 1, 3, -1):
        with pytest.raises(Changed) as refused:
            await log.documents.put(owner, "a", "three", expect=stale)
        assert isinstance(refused.value, Conflict)
        assert (refused.value.expected, refused.value.found) == (stale, 2)
    assert [document.body for document in await log.documents.versions(owner, "a")] == ["two", "one"]


async def test_the_newest_of_each_is_listed_by_name(log: Log, owner: Owner) -> None:
    for name in ("skills/b", "skills/a", "agents/x", "skills", "skillsz", "Skills/c", "skills/é", "skills/%"):
        await log.documents.put(owner, name, "first")
    await log.documents.put(owner, "skills/b", "second")
    assert [d.name for d in await log.documents.all(owner)] == sorted(
        ["skills/b", "skills/a", "agents/x", "skills", "skillsz", "Skills/c", "skills/é", "skills/%"]
    )
    found = await log.documents.all(owner, prefix="skills/")
    assert [(d.name, d.version, d.body) for d in found] == [
        ("skills/%", 1, "first"),
        ("skills/a", 1, "first"),
        ("skills/b", 2, "second"),
        ("skills/é", 1, "first"),
    ]
    assert [d.name for d in await log.documents.all(owner, prefix="skills/", limit=2)] == ["skills/%", "skills/a"]
    assert await log.documents.all(owner, prefix="_") == []


async def test_documents_are_their_owners(log: Log, owner: Owner, agents: Owner) -> None:
    other = Owner(agents.tenant, owner.user)
    for who in (owner, agents, other):
        await log.documents.put(who, "a", f"of {who}")
    for who in (owner, agents, other):
        assert [d.body for d in await log.documents.all(who)] == [f"of {who}"]
    await log.documents.forget(agents, "a")
    assert await log.documents.get(agents, "a") is None
    assert [d.body for who in (owner, other) for d in await log.documents.all(who)] == [f"of {owner}", f"of {other}"]


@pytest.mark.parametrize("bad", ["", "a\nb", "a\0b", "\ud800", "x" * 401])
async def test_names_are_printable_and_not_too_long(log: Log, owner: Owner, bad: str) -> None:
    with pytest.raises(BadValue, match="name"):
        await log.documents.put(owner, bad, "one")
    with pytest.raises(BadValue, match="name"):
        await log.documents.get(owner, bad)
    with pytest.raises(BadValue, match="prefix"):
        await log.documents.all(owner, prefix=bad or "\0")


async def test_a_document_is_not_larger_than_an_event_may_be(address: str, owner: Owner) -> None:
    log = await open_log(address, max_event_bytes=10)
    await log.documents.put(owner, "a", "é" * 5)
    with pytest.raises(BadValue, match="11 bytes long"):
        await log.documents.put(owner, "a", "é" * 5 + "!")
    await log.close()


# -- many at once ------------------------------------------------------------------------------------------


async def test_many_who_write_at_once_each_get_a_version_of_their_own(address: str, owner: Owner) -> None:
    logs = [await open_log(address) for _ in range(4)]
    bodies = [f"text {n}" for n in range(24)]
    written = await asyncio.gather(*(logs[n % 4].documents.put(owner, "a", body) for n, body in enumerate(bodies)))
    assert sorted(document.version for document in written) == list(range(1, 25))
    found = await logs[0].documents.versions(owner, "a")
    assert {d.version: d.body for d in found} == {d.version: d.body for d in written}
    for log in logs:
        await log.close()


async def test_of_many_who_know_the_same_version_one_writes_the_next(address: str, owner: Owner) -> None:
    logs = [await open_log(address) for _ in range(4)]
    await logs[0].documents.put(owner, "a", "0")

    async def add(n: int) -> None:
        """One to the number that stands there, again and again until nobody was faster."""
        while True:
            found = await logs[n % 4].documents.get(owner, "a")
            assert found is not None
            try:
                await logs[n % 4].documents.put(owner, "a", str(int(found.body) + 1), expect=found.version)
            except Changed:
                continue
            written = await logs[n % 4].documents.get(owner, "a", version=found.version + 1)
            assert written is not None
            return

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(add(n) for n in range(12)))
    bodies = [int(document.body) for document in await logs[0].documents.versions(owner, "a")]
    assert bodies == list(range(bodies[0], -1, -1))
    assert 1 <= bodies[0] <= 12  # two who write the same at once write it once
    for log in logs:
        await log.close()


async def test_a_write_whose_answer_was_lost_is_not_written_twice(log: Log, owner: Owner) -> None:
    """The same script is run once more, after somebody else has written on top of it."""
    from everthread.store.beside import documents

    tried: list[int] = []

    async def attempt() -> Document:
        engine = engine_of(log)
        return await engine.write(
            lambda: documents.put(owner, "a", b"one", expect=0, now=START, tried=tried), about="documents"
        )

    first = await attempt()
    await log.documents.put(owner, "a", "two")
    assert await attempt() == first
    assert [document.body for document in await log.documents.versions(owner, "a")] == ["two", "one"]


# -- forgetting --------------------------------------------------------------------------------------------


async def test_a_forgotten_document_is_gone_with_all_its_versions(
    log: Log, owner: Owner, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the walnut code is 7391-KESTREL"
    await log.documents.put(owner, "a", secret)
    await log.documents.put(owner, "a", "harmless")
    await log.documents.put(owner, "b", "stays")
    with caplog.at_level(logging.INFO, logger="everthread.audit"):
        await log.documents.forget(owner, "a")
        await log.documents.forget(owner, "a")  # once more changes nothing
    assert await log.documents.get(owner, "a") is None
    assert await log.documents.versions(owner, "a") == []
    assert [d.name for d in await log.documents.all(owner)] == ["b"]
    assert [record.message for record in caplog.records] == ["forgot a document of a user"] * 2
    if address.startswith("sqlite"):
        assert not any(secret.encode() in data for data in files_of(address).values())
    assert (await log.documents.put(owner, "a", "afresh")).version == 1


async def test_erasing_a_user_removes_their_documents_and_nobody_elses(log: Log, owner: Owner, agents: Owner) -> None:
    user = Owner(agents.tenant, "ana")
    for who in (user, owner, agents):
        await log.documents.put(who, "a", "text")
    await log.forgetting.erase_user(user)
    await log.forgetting.erase_user(agents)  # nobody: the tenant's own stay
    assert await log.documents.all(user) == []
    assert len(await log.documents.all(owner)) == len(await log.documents.all(agents)) == 1
