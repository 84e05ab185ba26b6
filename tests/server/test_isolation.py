"""Nobody reaches what is another's: every address and every message of the service, with another user's and another
tenant's ids, by every kind of caller. What is somebody else's is not there: 404, as for what never was."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from everthread.server.app import TABLE
from everthread.server.ws import VERBS
from tests.server.attacks import ABOUT, OFFICE, OPEN, OWN, SOCKETS, TALK, WORD, Theirs, known, served_by
from tests.server.serving import Person, Served, asked

Headers = dict[str, str]
IMPORT = "POST /api/import"
AGENT = "An agent of this tenant alone"
NOBODYS = {  # what is no user's: the tenant's, the key's own, or a person's alone
    *("GET /api/default-model", "GET /api/agents", "GET /api/agents/{name}", "GET /api/agents/{name}/versions"),
    *("GET /api/me", "PUT /api/password", "POST /api/keys", "DELETE /api/keys/{id}"),
    *("GET /api/sign-in", "DELETE /api/sign-in", "POST /api/sign-out-everywhere"),
}
PICTURE = base64.b64encode(f"GIF89a\x01\0\x01\0\x80\0\0{WORD}".encode("latin-1")).decode()


async def test_every_address_of_the_application_is_attacked_here(served: Served) -> None:
    """Whoever adds a route adds a row to tests/server/attacks.py."""
    assert served_by(served.service) == known()


async def test_what_is_a_conversations_is_not_there_for_anybody_else(served: Served) -> None:
    ana = served.people["ana"]
    theirs = await _belongings(served, ana)
    strangers = await _strangers(served)
    for address, given in ABOUT.items():
        for who, headers in strangers.items():
            _refused(await _asked(served, address, theirs, given, headers), 404, f"{who}: {address}")
        for who, headers in _nobodies(served).items():
            _refused(await _asked(served, address, theirs, given, headers), 401, f"{who}: {address}")
    kept = await served.http.get(f"/api/conversations/{theirs.conversation}/tail", headers=ana.bearer)
    assert [one["text"] for one in kept.json() if one["text"]] == [f"I am {WORD}"]


async def test_its_owner_is_answered_where_others_are_not(served: Served) -> None:
    """What is attacked above is asked for rightly: else any refusal would do."""
    ana = served.people["ana"]
    theirs = await _belongings(served, ana)
    for address, given in ABOUT.items():
        if not address.endswith("/listen"):
            answer = await _asked(served, address, theirs, given, ana.bearer)
            beside = {f"POST {TALK}/{verb}": 409 for verb in ("resume", "approve", "refuse")}
            # There was no model call on this branch, and since `clear` nothing was said.
            beside |= {f"POST {TALK}/rebuild": 422, f"POST {TALK}/correct": 422}
            # A message is scheduled there, so it is not archived.
            beside |= {"POST /api/archives/{id}": 409, "POST /api/archives/{id}/restore": 404}
            assert answer.status_code in (200, 202, 204, beside.get(address)), f"{address}: {answer.text}"


async def test_a_key_without_the_scope_is_refused_before_anything_is_looked_for(served: Served) -> None:
    """403, alike for one's own, for another's and for what is not there."""
    ana, bob = served.people["ana"], served.people["bob"]
    theirs = await _belongings(served, ana)
    may_not = {
        "read": await served.key_of(ana, "write", "forget"),
        "write": await served.key_of(ana, "read", "forget"),
        "forget": await served.key_of(ana, "read", "write"),
        "admin": bob.key,
    }
    scopes = _scopes()
    for address, given in {**ABOUT, **OWN, **OFFICE}.items():
        key = may_not[scopes[address]]
        answer = await _asked(served, address, theirs, given, {"authorization": f"Bearer {key}"})
        _refused(answer, 403, address)


async def test_an_application_that_names_nobody_reaches_nothing_of_anybodys(served: Served) -> None:
    theirs = await _belongings(served, served.people["ana"])
    key = await served.key_of(served.people["ada"], "read", "write", "forget", application="shop")
    for address, given in {**ABOUT, **OWN}.items():
        answer = await _asked(served, address, theirs, given, {"authorization": f"Bearer {key}"})
        assert WORD not in answer.text, address
        if address in NOBODYS:
            assert answer.status_code < 500, address
            continue
        assert answer.status_code == 422, f"{address}: {answer.text}"
        if "{conversation}" not in address:  # where no argument is missing, it is told what is
            assert "everthread-user" in answer.json()["detail"].lower(), f"{address}: {answer.text}"
    after = await served.http.get("/api/agents", headers=served.people["ana"].bearer)
    assert [one["agent"]["name"] for one in after.json()] == ["helper"]  # which belong to no user either


async def test_an_application_acts_for_those_alone_that_its_key_is_for(served: Served) -> None:
    theirs = await _belongings(served, served.people["ana"])
    key = await served.key_of(served.people["ada"], "read", "write", "forget", application="shop", users="shop-")
    for user, status in {"ana": 403, "shop-1": 404}.items():
        headers = {"authorization": f"Bearer {key}", "everthread-user": user}
        for address, given in ABOUT.items():
            _refused(await _asked(served, address, theirs, given, headers), status, f"{user}: {address}")


async def test_what_is_ones_own_holds_nothing_of_others(served: Served) -> None:
    """Lists, totals and keys tell of the caller alone, also where another's name or tenant is slipped in."""
    ana = served.people["ana"]
    theirs = await _belongings(served, ana)
    for who, headers in (await _strangers(served)).items():
        for address, given in OWN.items():
            if not address.startswith("GET"):
                continue
            for more in ({}, {"user": "ana", "tenant": served.name}):
                answer = await _asked(served, address, theirs, {**given, **more}, headers)
                assert answer.status_code in (200, 422), f"{who}: {address}: {answer.text}"
                assert WORD not in answer.text, f"{who}: {address}"
                assert theirs.conversation not in answer.text, f"{who}: {address}"


async def test_nobody_takes_up_anothers_conversation_by_its_id(served: Served) -> None:
    ana, bob = served.people["ana"], served.people["bob"]
    theirs = await served.begin(ana, WORD, id="letters")
    by_id = await served.http.post("/api/conversation", json={"id": theirs}, headers=bob.bearer)
    _refused(by_id, 404, "by Everthread's id")
    by_alias = await served.http.post("/api/conversation", json={"id": "letters"}, headers=bob.bearer)
    assert by_alias.json()["conversation"]["id"] != theirs
    assert by_alias.json()["conversation"]["user"] == "bob"
    _refused(await served.http.get("/api/conversations/unknown/tail", headers=bob.bearer), 404, "what never was")


async def test_what_one_conversation_has_is_not_there_in_another(served: Served) -> None:
    """Schedules and children by Ana's ids, in Bob's own conversation and in another one of Ana's."""
    ana, bob = served.people["ana"], served.people["bob"]
    theirs = await _belongings(served, ana)
    for person in (ana, bob):
        own = await served.begin(person, "Hello.")
        for address, given in ABOUT.items():
            if ("{id}" in address or "{branch}" in address) and "/archives/" not in address:
                answer = await _asked(served, address, theirs._replace(conversation=own), given, person.bearer)
                _refused(answer, 404, f"{person.user}: {address}")
        for branch in (theirs.branch, f"task {WORD}"):
            params = {"branch": branch}
            answer = await served.http.get(f"/api/conversations/{own}/tail", params=params, headers=person.bearer)
            assert answer.status_code == 404
            assert answer.text.count(WORD) <= 2 * branch.count(WORD)  # nothing but what was asked for


async def test_keys_and_accounts_of_others_are_not_there(served: Served) -> None:
    """A user's key for another user; a user of one tenant for the administrator of another."""
    ana, bob, cy = (served.people[name] for name in ("ana", "bob", "cy"))
    theirs = await _belongings(served, ana)
    eve = await served.join("eve", tenant=cy.tenant, role="administrator")
    for person in (bob, cy, eve):
        answer = await _asked(served, "DELETE /api/keys/{id}", theirs, {}, person.page)
        _refused(answer, 404, person.user)
    for address, given in OFFICE.items():
        if "{user}" in address and not address.endswith("/invite"):
            for headers in (eve.bearer, eve.page):
                answer = await _asked(served, address, theirs, given, headers)
                if address.startswith("DELETE"):  # a user who has no account may have conversations: here none
                    assert answer.json() == 0
                elif address.endswith("/enter"):
                    assert answer.json()["caller"]["tenant"] == cy.tenant
                else:
                    _refused(answer, 404, address)
    for person in (ana, bob, cy):
        for address, given in OFFICE.items():
            _refused(await _asked(served, address, theirs, given, person.page), 403, f"{person.user}: {address}")
    still = await served.http.get("/api/me", headers=ana.page)
    assert still.json()["user"] == "ana"


async def test_an_administrator_is_answered_where_others_are_not(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is attacked above is asked for rightly, here as well."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("EVERTHREAD_VAULT_KEY", raising=False)
    ada, theirs = served.people["ada"], await _belongings(served, served.people["ana"])
    for address, given in OFFICE.items():
        answer = await _asked(served, address, theirs, given, ada.bearer)
        wanted = {"POST /api/users/{user}/invite": 409, "POST /api/users/{user}/enable": 200}.get(address)
        assert answer.status_code in ((wanted,) if wanted else (200, 204)), f"{address}: {answer.text}"
        assert WORD not in answer.text, address  # figures and names, and nothing that anybody said


async def test_agents_are_their_tenants(served: Served) -> None:
    ana, cy = served.people["ana"], served.people["cy"]
    theirs = await _belongings(served, ana)
    for address in ("GET /api/agents", "GET /api/agents/{name}", "GET /api/agents/{name}/versions"):
        assert AGENT in (await _asked(served, address, theirs, {}, ana.bearer)).text
        hidden = await _asked(served, address, theirs, {}, cy.bearer)
        assert hidden.json() in ([], None), address


async def test_who_forgets_themselves_forgets_nobody_else(served: Served) -> None:
    ana, bob = served.people["ana"], served.people["bob"]
    theirs = await _belongings(served, ana)
    await served.begin(bob, "Hello.")
    assert (await served.http.post("/api/forget-me", json={}, headers=bob.bearer)).json() == 1
    kept = await _asked(served, f"GET {TALK}/tail", theirs, {}, ana.bearer)
    assert WORD in kept.text
    gone = await served.http.get("/api/me", headers=bob.bearer)
    assert gone.status_code == 401


async def test_what_needs_no_caller_tells_nothing_of_anybody(served: Served) -> None:
    theirs = await _belongings(served, served.people["ana"])
    for address, given in OPEN.items():
        answer = await _asked(served, address, theirs, given, {})
        assert answer.status_code in (200, 401), address
        for word in (WORD, served.name, "ana", theirs.conversation):
            assert f'"{word}' not in answer.text, f"{address}: {word}"


# -- WebSockets ------------------------------------------------------------------------------------------------


async def test_no_socket_opens_what_is_another_s(served: Served) -> None:
    theirs = await _belongings(served, served.people["ana"])
    for who, headers in (await _strangers(served)).items():
        origin = {"origin": served.address} if "cookie" in headers else {}
        for path in SOCKETS:
            async with served.socket(theirs.path(path), headers | origin) as socket:
                if "{conversation}" in path:
                    _problem(json.loads(await socket.recv()), 404, f"{who}: {path}")
                _problem(await asked(socket, "open", {"conversation": theirs.conversation}), 404, f"{who}: {path}")
                for verb in VERBS:
                    _problem(await asked(socket, verb, _given(verb, theirs)), 400, f"{who}: {verb}")


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_socket_without_a_caller_is_closed(served: Served, path: str) -> None:
    theirs = await _belongings(served, served.people["ana"])
    for who, headers in _nobodies(served).items():
        async with served.socket(theirs.path(path), headers) as socket:
            await socket.wait_closed()
            assert socket.close_code == 4003, who
            assert WORD not in (socket.close_reason or ""), who


async def test_a_socket_on_ones_own_conversation_reaches_no_other(served: Served) -> None:
    """Every verb, with ids of Ana's among its arguments, and with arguments that name whose it should be."""
    ana, bob = served.people["ana"], served.people["bob"]
    theirs, own = await _belongings(served, ana), await served.begin(bob, "Hello.")
    async with served.socket(f"/api/conversations/{own}/live", bob.bearer) as socket:
        assert json.loads(await socket.recv())["kind"] == "opened"
        for verb, route in VERBS.items():
            given = _given(verb, theirs)
            for more in ({"conversation": theirs.conversation}, {"user": "ana"}, {"tenant": served.name}):
                told = await asked(socket, verb, {**given, **more})
                if set(more) <= {one.name for one in route.arguments}:
                    continue
                _problem(told, 422, f"{verb} {more}")
            if "{id}" in route.path:
                _problem(await asked(socket, verb, given), 404, verb)
        told = await asked(socket, "tail")
        assert "Hello." in str(told)
        assert WORD not in str(told)


async def test_a_socket_may_do_no_more_than_its_key(served: Served) -> None:
    ana = served.people["ana"]
    theirs = await _belongings(served, ana)
    reads = {"authorization": f"Bearer {await served.key_of(ana, 'read')}"}
    async with served.socket(f"/api/conversations/{theirs.conversation}/live", reads) as socket:
        assert json.loads(await socket.recv())["kind"] == "opened"
        for verb, route in VERBS.items():
            if route.scope != "read":
                _problem(await asked(socket, verb, _given(verb, theirs)), 403, verb)
    writes = {"authorization": f"Bearer {await served.key_of(ana, 'write')}"}
    async with served.socket("/api/live", writes) as socket:
        await socket.wait_closed()
        assert socket.close_code == 4003


# -- what is Ana's, and who asks -----------------------------------------------------------------------------------


async def _belongings(served: Served, ana: Person) -> Theirs:
    """A conversation with a schedule and a child, a key, an agent of the tenant; Ana's word in all of them."""
    about = {"name": f"Name {WORD}", "goal": f"Goal {WORD}", "metadata": {"word": WORD}, "agent": "helper"}
    ada = served.people["ada"]
    agent = {"agent": {"name": "helper", "description": AGENT, "instructions": "Help."}}
    saved = await served.http.post("/api/agents", json=agent, headers=ada.bearer)
    assert saved.status_code == 200, saved.text
    id = await served.begin(ana, f"I am {WORD}", **about)
    base = f"/api/conversations/{id}"
    made = await served.http.post(f"{base}/schedules", json={"text": WORD, "cron": "0 8 * * *"}, headers=ana.bearer)
    begun = {"task": f"Do {WORD}", "name": f"task {WORD}"}
    child = await served.http.post(f"{base}/children", json=begun, headers=ana.bearer)
    assert child.status_code == 200, child.text
    branch = str(child.json()["branch"])
    await served.http.get(f"{base}/children/{branch}/outcome", headers=ana.bearer)
    key = await served.http.post("/api/keys", json={"label": "mine"}, headers=ana.page)
    image = {"kind": "user", "parts": [{"type": "image", "data": PICTURE}]}
    told = await served.http.post(f"{base}/events", json={"events": [image]}, headers=ana.bearer)
    assert told.status_code == 200, told.text
    hash = told.json()[0]["event"]["parts"][0]["blob"]
    return Theirs(id, made.json()["id"], branch, key.json()["key"]["id"], hash)


async def _strangers(served: Served) -> dict[str, Headers]:
    """Everybody who is somebody, and not Ana: by key and by cookie."""
    bob, cy, ada = (served.people[name] for name in ("bob", "cy", "ada"))
    scopes: Any = ("read", "write", "forget", "admin")
    application = await served.key_of(ada, *scopes, application="shop")
    return {
        "another user's key": bob.bearer,
        "another user's page": bob.page,
        "another tenant's key": cy.bearer,
        "another tenant's page": cy.page,
        "an administrator's key": ada.bearer,
        "an administrator's page": ada.page,
        "an application for another user": {"authorization": f"Bearer {application}", "everthread-user": "bob"},
    }


def _nobodies(served: Served) -> dict[str, Headers]:
    ana = served.people["ana"]
    return {
        "nobody": {},
        "a key that is none": {"authorization": "Bearer evk_" + "A" * 43},
        "a cookie that is none": {"cookie": "everthread=evs_" + "A" * 43},
        "a key in the wrong place": {"cookie": f"everthread={ana.key}"},
        "a cookie in the wrong place": {"authorization": f"Bearer {ana.cookie}"},
        "another kind of authorization": {"authorization": f"Basic {ana.key}"},
    }


async def _asked(served: Served, address: str, theirs: Theirs, given: Any, headers: Headers) -> httpx2.Response:
    method, _, path = address.partition(" ")
    if method in ("GET", "DELETE"):
        return await served.http.request(method, theirs.path(path), params=given, headers=headers)
    return await served.http.request(method, theirs.path(path), json=given, headers=headers)


def _scopes() -> dict[str, str]:
    """The scope that each address needs."""
    found: dict[str, str] = {f"{route.method} /api{route.path}": route.scope for route in TABLE}
    reads = [f"GET {TALK}/listen", f"GET {TALK}/blobs/{{hash}}", f"GET {TALK}/export", "GET /api/export"]
    reads += ["GET /api/sign-in", "DELETE /api/sign-in"]
    return found | dict.fromkeys(reads, "read") | dict.fromkeys([IMPORT, f"POST {TALK}/blobs"], "write")


def _given(verb: str, theirs: Theirs) -> dict[str, Any]:
    """The arguments of a verb as a message of a socket gives them."""
    route = VERBS[verb]
    given = dict(ABOUT[f"{route.method} /api{route.path}"])
    return given | ({"id": theirs.id} if "{id}" in route.path else {})


def _refused(answer: httpx2.Response, status: int, what: str) -> None:
    assert answer.status_code == status, f"{what}: {answer.status_code} {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json", what
    assert WORD not in answer.text, what
    assert WORD not in str(answer.headers), what


def _problem(told: dict[str, Any], status: int, what: str) -> None:
    assert told["kind"] == "problem", f"{what}: {told}"
    assert told["problem"]["status"] == status, f"{what}: {told}"
    assert WORD not in str(told), f"{what}: {told}"
