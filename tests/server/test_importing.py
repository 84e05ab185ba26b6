"""An import: it tells nothing of what others have, all or nothing of it is taken, and a slow one is refused."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from everthread import Everthread, tool_call, tool_result, user
from everthread.core.branches import ENDLESS
from everthread.core.quotes import Quote
from everthread.server import importing
from everthread.transfer import export_lines
from tests.server.serving import Person, Served

HERE = "/api/conversations"


async def _export(served: Served, person: Person, id: str) -> bytes:
    return (await served.http.get(f"{HERE}/{id}/export", headers=person.bearer)).content


async def _import(served: Served, person: Person, body: bytes) -> httpx2.Response:
    return await served.http.post("/api/import", content=body, headers=person.bearer)


async def test_an_id_that_is_somebody_elses_is_taken_as_one_that_nobody_has(served: Served) -> None:
    ana, bob = served.people["ana"], served.people["bob"]
    body = await _export(served, ana, theirs := await served.begin(ana, "Walnuts."))
    nobodys = theirs[:-1] + ("0" if theirs[-1] != "0" else "1")
    for id in (theirs, nobodys):
        told = await _import(served, bob, body.replace(theirs.encode(), id.encode()))
        assert told.status_code == 200, told.text
        [new] = told.json()["conversations"]
        assert new != id
        assert new[:10] == id[:10]  # as old as it was
        assert "Walnuts." in (await served.http.get(f"{HERE}/{new}/tail", headers=bob.bearer)).text
    assert (await served.http.get(f"{HERE}/{theirs}", headers=bob.bearer)).status_code == 404
    assert len((await served.http.get(HERE, headers=ana.bearer)).json()) == 1


async def test_what_one_has_or_had_is_not_imported_again(served: Served) -> None:
    """Twice from the same file, or one's own once more, adds nothing; what one has erased does not come back
    unnoticed."""
    ana, bob = served.people["ana"], served.people["bob"]
    body = await _export(served, ana, id := await served.begin(ana, "Walnuts."))
    assert (await _import(served, bob, body)).json()["added"] == 1
    for person in (bob, ana):
        again = await _import(served, person, body)
        assert (again.status_code, again.json()["added"], again.json()["already"]) == (200, 0, 1)
        assert len((await served.http.get(HERE, headers=person.bearer)).json()) == 1
    await served.http.delete(f"{HERE}/{id}", headers=ana.bearer)
    gone = await _import(served, ana, body)
    assert (gone.status_code, gone.json()["erased"]) == (409, True)


async def test_references_and_quotes_within_a_file_point_to_the_new_ids(served: Served, tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/own.db") as own:
        first, second = await own.begin(user="x"), await own.begin(user="x")
        await first.append(user("Walnuts."))
        said = f"It was said in {first.id}/1/1."
        quotes = (Quote(first.id, 1, 1),)
        await second.append(
            user("What?"),
            tool_call("recall_context", {}, id="a"),
            msgspec.structs.replace(tool_result(said, id="a"), quotes=quotes),
        )
        pages = [[line async for line in export_lines(own.log, talk.conversation)] for talk in (first, second)]
    ana = served.people["ana"]
    told = await _import(served, ana, b"".join(pages[0] + pages[1]))
    new, other = told.json()["conversations"]
    talk = await served.service.et.conversation(user="ana", tenant=ana.tenant, id=other)
    [result] = [one for one in await talk.range(1, ENDLESS) if one.kind == "tool_result"]
    assert result.text == f"It was said in {new}/1/1."
    assert [quote.conversation for quote in result.event.quotes] == [new]  # type: ignore[union-attr]


async def test_a_body_that_comes_too_slowly_on_the_whole_is_refused_and_leaves_nothing(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each of its pieces comes soon after the one before."""
    monkeypatch.setattr(importing, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ana = served.people["ana"]
    line = json.dumps({"messages": [{"role": "user", "content": "Walnuts."}]}).encode() + b"\n"

    async def trickle() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield line
            await asyncio.sleep(0.01)

    refused = await served.http.post("/api/import", content=trickle(), headers=ana.bearer)
    assert refused.status_code == 408, refused.text
    assert (await served.http.get(HERE, headers=ana.bearer)).json() == []
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_a_large_body_has_the_time_that_it_needs(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece of it comes before the time is over that a small one would have; each gives it more."""
    monkeypatch.setattr(importing, "BODY_SECONDS", 5.0)
    monkeypatch.setattr(importing, "LEAST", 1)
    now = 0.0
    monkeypatch.setattr(importing, "monotonic", lambda: now)
    ana = served.people["ana"]
    line = json.dumps({"messages": [{"role": "user", "content": "Walnuts."}]}).encode() + b"\n"

    async def slowly() -> AsyncIterator[bytes]:
        nonlocal now
        for _ in range(10):
            yield line
            now += 4.0

    taken = await served.http.post("/api/import", content=slowly(), headers=ana.bearer)
    assert taken.status_code == 200, taken.text
    assert taken.json()["events"] == 10
