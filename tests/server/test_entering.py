"""An administrator sees what a user sees by entering, which stands in the audit first, and in no other way."""

from __future__ import annotations

import io
import json

import httpx2
import pytest

from everthread.server.door import COOKIE
from tests.server.serving import Served
from tests.server.test_logs import lines as lines

HERE = "/api/conversations"
WHY = "ticket 17: her last message is missing"


async def _entered(served: Served, **more: object) -> httpx2.Response:
    ada = served.people["ada"]
    return await served.http.post("/api/users/ana/enter", json={"why": WHY, **more}, headers=ada.bearer)


def _bearer(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {"authorization": f"Bearer {answer.json()['token']}"}


async def test_an_administrator_reads_what_a_user_has_said_after_it_was_written_down(served: Served) -> None:
    ana, ada = served.people["ana"], served.people["ada"]
    id = await served.begin(ana, "Walnuts.")
    assert (await served.http.get(f"{HERE}/{id}/tail", headers=ada.bearer)).status_code == 404
    as_ana = _bearer(await _entered(served))
    assert "Walnuts." in (await served.http.get(f"{HERE}/{id}/tail", headers=as_ana)).text
    [newest, *_] = (await served.http.get("/api/audit", headers=ada.bearer)).json()
    assert (newest["by"], newest["act"], newest["user"]) == ("ada", "enter", "ana")
    assert newest["about"] == f"read: {WHY}"
    me = (await served.http.get("/api/me", headers=as_ana)).json()
    assert (me["user"], me["entered_by"], me["scopes"]) == ("ana", "ada", ["read"])


async def test_to_read_is_all_one_may_unless_more_was_asked_for(served: Served) -> None:
    id = await served.begin(served.people["ana"], "Walnuts.")
    as_ana = _bearer(await _entered(served))
    event = {"events": [{"kind": "mark", "name": "here"}]}
    assert (await served.http.post(f"{HERE}/{id}/events", json=event, headers=as_ana)).status_code == 403
    assert (await served.http.get("/api/users", headers=as_ana)).status_code == 403
    writes = _bearer(await _entered(served, scopes=["read", "write"]))
    assert (await served.http.post(f"{HERE}/{id}/events", json=event, headers=writes)).status_code == 200
    assert (await _entered(served, scopes=["admin"])).status_code == 422
    assert (await _entered(served, why="")).status_code == 422


async def test_a_page_can_be_opened_with_it_too(served: Served) -> None:
    id = await served.begin(served.people["ana"], "Walnuts.")
    token = (await _entered(served)).json()["token"]
    come = await served.http.post("/api/sign-in", json={"link": token})
    assert come.json()["caller"]["entered_by"] == "ada"
    assert come.cookies[COOKIE] == token
    assert int(come.headers["set-cookie"].partition("Max-Age=")[2].partition(";")[0]) <= 15 * 60
    served.http.cookies.clear()
    page = {"cookie": f"{COOKIE}={token}"}
    assert "Walnuts." in (await served.http.get(f"{HERE}/{id}/tail", headers=page)).text
    assert (await served.http.request("DELETE", "/api/sign-in", headers=page)).status_code == 403  # it sends no token
    leave = {**page, "x-csrf-token": come.json()["csrf"]}
    assert (await served.http.request("DELETE", "/api/sign-in", headers=leave)).status_code == 204
    assert (await served.http.get("/api/me", headers={"authorization": f"Bearer {token}"})).status_code == 401


async def test_a_persons_own_sign_in_is_no_key_and_no_link(served: Served) -> None:
    """It is a browser's, which keeps it from every script."""
    ana = served.people["ana"]
    assert (await served.http.get("/api/me", headers={"authorization": f"Bearer {ana.cookie}"})).status_code == 401
    assert (await served.http.post("/api/sign-in", json={"link": ana.cookie})).status_code == 401


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_the_log_says_who_entered(served: Served, lines: io.StringIO, engine: str) -> None:
    await served.http.get("/api/me", headers=_bearer(await _entered(served)))
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    asked = [(one.get("user"), one.get("entered_by")) for one in told if one.get("route") == "/api/me"]
    assert asked == [("ana", "ada")]
    assert "ticket 17" not in lines.getvalue()
