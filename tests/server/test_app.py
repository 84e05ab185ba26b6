"""The service as a whole: its table, what watches over it, its page, and pages of events that take too long."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from everthread import Everthread, Talk
from everthread.routes import ROUTES
from everthread.server.pages import TYPES
from everthread.store.log import Log
from everthread.store.verbs.conversations import Conversations
from tests.server.serving import PASSWORD, Served

# What has no address of its own, and how it is reached instead.
OTHERWISE = {
    "listen": "GET …/listen and the WebSocket",
    "told": "GET …/listen and the WebSocket",
    "blob": "GET …/blobs/HASH",
    "upload": "POST …/blobs",
    "blobs": "GET …/blobs/HASH, one by one",
    "export": "GET …/export",
    "import_file": "POST /api/import",
    "on": "?branch= of every address",
    "another": "its own address",
    "child": "GET …/children/BRANCH",
    "line": "of use to operators alone",
    "record": "takes a context, which is no value",
    "open": "the service has it open",
    "talk": "GET …/conversations/ID",
    "work": "the service's own",
    "close": "the service's own",
    "idle": "the service's own",
    "archive_idle": "the service's own: the setting `archive`",
    "verify_archives": "of use to operators alone: `everthread archive verify`",
}


@pytest.mark.parametrize("cls", [Talk, Everthread])
def test_every_verb_has_an_address_or_a_reason_to_have_none(cls: type) -> None:
    verbs = {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}
    served = {route.verb.__name__ for route in ROUTES}
    assert verbs - served - OTHERWISE.keys() == set()


def test_no_address_stands_twice_in_the_table() -> None:
    addresses = [(route.method, route.path) for route in ROUTES]
    assert len(addresses) == len(set(addresses))


async def test_it_says_that_it_lives_and_when_it_takes_requests(served: Served) -> None:
    assert (await served.http.get("/health")).json() == {"status": "ok"}
    assert (await served.http.get("/ready")).json() == {"status": "ready"}
    served.service.leave()
    leaving = await served.http.get("/ready")
    assert (leaving.status_code, leaving.json()) == (503, {"status": "leaving"})


@pytest.mark.parametrize("file", TYPES)
async def test_the_page_needs_no_sign_in_and_holds_nothing_of_anybodys(served: Served, file: str) -> None:
    found = await served.http.get("/" if file == "index.html" else f"/page/{file}")
    assert (found.status_code, found.headers["content-type"]) == (200, TYPES[file])
    assert "script-src 'self'" in found.headers["content-security-policy"]


@pytest.mark.parametrize("file", ["nothing.js", "../serve.py", "%2e%2e/serve.py", "..%2fserve.py"])
async def test_the_page_has_no_other_files(served: Served, file: str) -> None:
    assert (await served.http.get(f"/page/{file}")).status_code == 404


async def test_settings_are_told_with_where_they_were_set(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, settings={"budget": 9_000})
    await served.http.post(f"/api/conversations/{id}/configure", json={"clock": "off"}, headers=ana.bearer)
    told = (await served.http.get(f"/api/conversations/{id}/settings", headers=ana.bearer)).json()
    assert (told["settings"]["budget"], told["settings"]["clock"]) == (9_000, "off")
    assert told["source_of"]["budget"] == "this conversation's settings"
    assert told["source_of"]["clock"] == "this branch's settings"
    assert told["source_of"]["step"] == "the default"


@pytest.mark.parametrize(
    ("owner", "verb", "query"), [(Conversations, "said", ""), (Log, "before", "?branch=main")], ids=["at once", "found"]
)
async def test_a_page_that_takes_too_long_is_answered_with_a_smaller_one(
    served: Served, monkeypatch: pytest.MonkeyPatch, owner: type, verb: str, query: str
) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, *(str(number) for number in range(60)))
    asked: list[int] = []
    whole = getattr(owner, verb)

    async def slow(self: Any, *given: Any, limit: int, **named: Any) -> Any:
        asked.append(limit)
        if limit > 6:
            await asyncio.Event().wait()
        return await whole(self, *given, limit=limit, **named)

    monkeypatch.setattr(owner, verb, slow)
    served.service.page_seconds = 0.05
    answer = await served.http.get(f"/api/conversations/{id}/before{query}", headers=ana.bearer)
    assert asked == [50, 6]
    assert [one["text"] for one in answer.json()] == [str(number) for number in range(54, 60)]
    assert "smaller" in answer.headers["everthread-warning"]


async def test_a_password_is_set_over_http_and_signs_in_from_then_on(served: Served) -> None:
    ana = served.people["ana"]
    told = await served.http.put("/api/password", json={"password": PASSWORD}, headers=ana.page)
    assert told.status_code == 200, told.text
    asked = {"user": "ana", "password": PASSWORD, "tenant": ana.tenant}
    came = await served.http.post("/api/sign-in", json=asked)
    assert (came.status_code, came.json()["caller"]["user"]) == (200, "ana"), came.text
