"""What a browser can be made to send, what a program may try, and what breaks: refused, and never a fault of ours."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from everthread.errors import StoreError
from everthread.server import reading
from everthread.server.app import TABLE, routes_of
from everthread.server.door import CSRF
from everthread.server.limits import Allowance
from everthread.server.watched import HEADERS
from tests.server.attacks import served_by
from tests.server.serving import PASSWORD, Served, asked, serving
from tests.waiting import PATIENCE

HERE = "/api/conversations"
SECRETS = re.compile(r"ev[lsk]_[A-Za-z0-9_-]{20,}")


# -- pages of other sites --------------------------------------------------------------------------------------


async def test_a_page_must_send_its_token_with_whatever_changes_something(site: Served) -> None:
    ana = site.people["ana"]
    for token in ({}, {CSRF: ""}, {CSRF: "0" * 64}, {CSRF: ana.csrf[:-1]}, {CSRF: ana.cookie}):
        for method, path in (("POST", HERE), ("DELETE", "/api/sign-in"), ("PUT", "/api/password")):
            headers = {"cookie": f"everthread={ana.cookie}", **token}
            answer = await site.http.request(method, path, headers=headers, content=b"{}")
            assert answer.status_code == 403, f"{method} {path} {token}"
    assert (await site.http.post(HERE, json={}, headers=ana.page)).status_code == 200


async def test_the_token_of_another_sign_in_does_not_do(site: Served) -> None:
    ana, bob = site.people["ana"], await site.join("bob")
    answer = await site.http.post(HERE, json={}, headers={**ana.page, CSRF: bob.csrf})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://127.0.0.1.evil.example:{port}"},
        {"origin": "http://127.0.0.1:{port}@evil.example"},
        {"origin": "file://127.0.0.1:{port}"},
        {"origin": "http://[::1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_is_refused(site: Served, headers: dict[str, str]) -> None:
    """Also with the right cookie and token, to read as well as to write, and to sign somebody in."""
    ana = site.people["ana"]
    forged = {name: value.replace("{port}", str(site.port)) for name, value in headers.items()}
    for method in ("GET", "POST"):
        answer = await site.http.request(method, HERE, headers=ana.page | forged, content=b"{}")
        assert answer.status_code == 403, method
    link = await site.service.door.identity.link(_operator(), "ana")
    answer = await site.http.post("/api/sign-in", json={"link": str(link)}, headers=forged)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_our_own_page_is_let_in(site: Served) -> None:
    ana = site.people["ana"]
    for headers in ({"origin": site.address}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
        assert (await site.http.get(HERE, headers=ana.page | headers)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "0", "", "[::2]"])
async def test_a_name_that_is_not_ours_is_refused(site: Served, host: str) -> None:
    """Who resolves a name of their own to this machine (DNS rebinding) gets nothing."""
    ana = site.people["ana"]
    for headers in (ana.page, ana.bearer):
        answer = await site.http.get(HERE, headers=headers | {"host": f"{host}:{site.port}"})
        assert answer.status_code == 403, answer.text
    with pytest.raises(ConnectionClosed):
        async with site.socket("/api/live", ana.bearer | {"host": f"{host}:{site.port}"}) as socket:
            await socket.recv()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "localhost."])
async def test_each_name_of_this_machine_is_ours(site: Served, host: str) -> None:
    for port in ("", f":{site.port}"):
        headers = site.people["ana"].bearer | {"host": f"{host}{port}"}
        assert (await site.http.get(HERE, headers=headers)).status_code == 200


async def test_a_socket_of_another_site_is_refused(site: Served) -> None:
    ana = site.people["ana"]
    cookie = {"cookie": f"everthread={ana.cookie}"}
    for headers in ({}, {"origin": "https://evil.example"}, {"origin": "null"}):
        async with site.socket("/api/live", cookie | headers) as socket:
            await socket.wait_closed()
            assert socket.close_code == 4003, headers
    async with site.socket("/api/live", cookie | {"origin": site.address}) as socket:
        assert (await asked(socket, "tail"))["problem"]["status"] == 400  # it is heard


async def test_no_page_elsewhere_is_given_leave(site: Served) -> None:
    """No header of CORS, whoever asks: a browser then shows no page of another site what we answer."""
    asked_for = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    for method in ("OPTIONS", "GET"):
        answer = await site.http.request(method, HERE, headers=asked_for)
        assert not [name for name in answer.headers if name.startswith("access-control")]


# -- cookies, headers --------------------------------------------------------------------------------------------


async def test_the_cookie_is_for_this_page_alone(site: Served) -> None:
    """Over http, and over https as a proxy on this machine tells it."""
    identity = site.service.door.identity
    for scheme, name in {"http": "everthread", "https": "__Host-everthread"}.items():
        link = await identity.link(_operator(), "ana")
        headers = {"x-forwarded-proto": scheme, "x-forwarded-for": "10.0.0.1"}
        answer = await site.http.post("/api/sign-in", json={"link": str(link)}, headers=headers)
        said = answer.headers["set-cookie"]
        assert said.startswith(f"{name}=evs_")
        parts = {part.strip().lower() for part in said.split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= parts
        assert ("secure" in parts) == (scheme == "https")
        assert not any(part.startswith("domain") for part in parts)
        site.http.cookies.clear()


async def test_only_a_trusted_proxy_is_believed(tmp_path: Any) -> None:
    async with serving(f"sqlite:///{tmp_path}/x.db", "here", proxies="10.9.8.7") as site:
        await site.join("ana")
        link = await site.service.door.identity.link(_operator(), "ana")
        headers = {"x-forwarded-proto": "https"}
        answer = await site.http.post("/api/sign-in", json={"link": str(link)}, headers=headers)
        assert answer.headers["set-cookie"].startswith("everthread=")


async def test_a_sign_in_that_ended_is_no_longer_taken(site: Served) -> None:
    ana = site.people["ana"]
    gone = await site.http.delete("/api/sign-in", headers=ana.page)
    assert gone.status_code == 204
    assert all("Max-Age=0" in said for said in gone.headers.get_list("set-cookie"))
    assert (await site.http.get("/api/me", headers=ana.page)).status_code == 401


async def test_every_answer_has_the_headers_of_safety(site: Served) -> None:
    """Answers, refusals, what is not there, faults, streams."""
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    asked_for: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/health", {}),
        ("GET", "/", {}),
        ("GET", "/openapi.json", {}),
        ("GET", HERE, {}),
        ("GET", HERE, {"headers": ana.bearer}),
        ("GET", "/nothing", {}),
        ("PUT", HERE, {}),
        ("POST", HERE, {"headers": ana.bearer, "content": b"{"}),
        ("HEAD", HERE, {"headers": ana.bearer}),
        ("HEAD", f"{HERE}/{id}/listen", {"headers": ana.bearer}),
    ]
    for method, path, more in asked_for:
        answer = await site.http.request(method, path, **more)
        for name, value in HEADERS:
            assert answer.headers.get_list(name.decode()) == [value.decode()], f"{method} {path}: {name!r}"
        assert "cache-control" in answer.headers
        assert "server" not in answer.headers


async def test_a_fault_of_ours_is_told_without_a_word_of_what_was_inside(
    site: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ana = site.people["ana"]

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("postgresql://user:hunter2@host is down")

    monkeypatch.setattr(type(site.service.et.log.conversations), "listed", broken)
    with suppress(httpx2.RemoteProtocolError):
        answer = await site.http.get(HERE, headers=ana.bearer)
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert "hunter2" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert sum("failed" in record.message for record in caplog.records) == 1


async def test_what_is_wrong_with_the_store_names_no_server(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise StoreError("postgresql://user:hunter2@internal/db: connection refused")

    monkeypatch.setattr(type(site.service.et.log.conversations), "listed", broken)
    answer = await site.http.get(HERE, headers=site.people["ana"].bearer)
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:everthread:StoreError"
    assert "internal" not in answer.text


# -- paths, methods, headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "//api/conversations",
        "/api//conversations",
        "/api/conversations/",
        "/api/../api/nothing",
        "/api/%2e%2e/health",
        "/page/%2e%2e%2fserve.py",
        "/page/..%5cserve.py",
        "/page/script.js%00.html",
        "/page/index.html/../../serve.py",
        "/api/conversations/%00/tail",
        "/api/conversations/%2e%2e/tail",
        "/api/conversations/..%2f..%2fhealth/tail",
        "/api/conversations/%ff%fe/tail",
        "/api/conversations/%ed%a0%80/tail",
        "/api/conversations/" + "x" * 20_000 + "/tail",
        "/api/conversations/%0d%0aset-cookie:x=1/tail",
        "/api/conversations/'; DROP TABLE events; --/tail",
        "/api/agents/%00",
        "/api/keys/%00",
        "/API/conversations",
        "/api/conversations;x=1",
    ],
)
async def test_no_trick_with_a_path_leads_anywhere(site: Served, path: str) -> None:
    for method in ("GET", "DELETE"):
        status, headers, body = await _raw(site, f"{method} {path} HTTP/1.1", site.people["ana"].bearer)
        assert status in (400, 404, 405, 422), f"{method} {path}: {status} {body!r}"
        assert "set-cookie" not in headers
        assert b"def " not in body


async def test_a_trick_with_a_path_goes_around_no_door(site: Served) -> None:
    """What is answered at a crooked address is answered to nobody who would not be at the straight one."""
    for path in ("//api/conversations", "/api/./conversations", "/%61pi/conversations", "/api/conversations?x=/health"):
        status, _, body = await _raw(site, f"GET {path} HTTP/1.1", {})
        assert status in (401, 404), f"{path}: {status} {body!r}"


async def test_methods_that_nobody_asked_for_are_refused(site: Served) -> None:
    ana = site.people["ana"]
    for method in ("TRACE", "CONNECT", "OPTIONS", "PROPFIND", "PATCH", "get"):
        status, headers, body = await _raw(site, f"{method} {HERE} HTTP/1.1", ana.bearer)
        assert status in (400, 405), f"{method}: {status} {body!r}"
        if status == 405:
            assert headers["allow"] == "GET, HEAD, POST"


async def test_a_head_is_a_get_without_its_body(site: Served) -> None:
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    for path in ("/health", HERE, f"{HERE}/{id}/listen"):
        answer = await site.http.head(path, headers=ana.bearer)
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await site.http.head(HERE)).status_code == 401


async def test_nothing_that_is_sent_becomes_a_header(site: Served) -> None:
    """Line breaks in whatever comes back: names, hosts, methods, ranges, ids of events."""
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    broken = "x\r\nset-cookie: evil=1"
    answers = [
        await site.http.get(f"{HERE}/{id}/tail", params={"branch": broken}, headers=ana.bearer),
        await site.http.get(f"{HERE}/{id}/listen", params={"after": broken}, headers=ana.bearer),
        await site.http.post(HERE, json={"name": broken}, headers=ana.bearer),
        await site.http.put(f"{HERE}/{id}/name", json={"name": broken}, headers=ana.bearer),
        await site.http.get(
            f"{HERE}/{id}/blobs/{'0' * 64}", headers=ana.bearer | {"range": "bytes=" + "9" * 5_000 + "-"}
        ),
    ]
    for answer in answers:
        assert answer.status_code in (404, 422), answer.text
        assert "set-cookie" not in answer.headers


async def test_places_that_are_none_are_refused_before_anything_is_streamed(site: Served) -> None:
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    for place in ("x", "-1", "1.2", "9" * 30, "1.1.zz/1", "\u0661", "0x1", "1e3", "1 2", "NaN"):
        heads: list[tuple[bytes, bytes]] = [(name.encode(), value.encode()) for name, value in ana.bearer.items()]
        for params, more in (({"after": place}, heads), ({}, [*heads, (b"last-event-id", place.encode())])):
            answer = await site.http.get(f"{HERE}/{id}/listen", params=params, headers=more)
            assert answer.status_code == 422, f"{place}: {answer.text}"


async def test_branches_that_are_none_are_not_there(site: Served) -> None:
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    for branch in ("9" * 5_000, "99999999999999999999", "\u0661", "0", "-1", "x' OR '1'='1", "\x00", "main\x00"):
        answer = await site.http.get(f"{HERE}/{id}/tail", params={"branch": branch}, headers=ana.bearer)
        assert answer.status_code in (404, 422), f"{branch[:20]!r}: {answer.text}"


# -- bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nothing",
        b"[]",
        b"1",
        b"null",
        b'"text"',
        b'{"name": NaN}',
        b'{"metadata": {"x": Infinity}}',
        b'{"metadata": {"x": -Infinity}}',
        b'{"metadata": {"x": 1e999}}',
        b'{"metadata": {"x": ' + b"9" * 5_000 + b"}}",
        b'{"name": "a", "name": "b"}',
        b'{"metadata": {"a": 1, "a": 2}}',
        b'{"metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"metadata": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'\xff\xfe{"name": "x"}',
        b'{"name": "\xc3\x28"}',
        b'{"name": "x"} trailing',
        b"\x00",
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_a_body_that_says_nothing_or_two_things_is_refused(site: Served, body: bytes) -> None:
    ana = site.people["ana"]
    headers = ana.bearer | {"content-type": "application/json"}
    answer = await site.http.post(HERE, content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert (await site.http.get(HERE, headers=ana.bearer)).json() == []


@pytest.mark.parametrize(
    "body",
    [
        {"nam": "x"},
        {"user": "bob"},
        {"tenant": "other"},
        {"self": 1},
        {"__class__": 1},
        {"name": 1},
        {"name": None},
        {"name": ["x"]},
        {"name": "x" * 300},
        {"name": "a\u0000b"},
        {"name": "a\nb"},
        {"goal": {"x": 1}},
        {"metadata": [1]},
        {"settings": "x"},
        {"settings": {"budget": "all"}},
        {"id": ""},
        {"agent": ""},
    ],
    ids=str,
)
async def test_arguments_that_are_none_are_refused_by_their_names(site: Served, body: dict[str, Any]) -> None:
    ana = site.people["ana"]
    answer = await site.http.post(HERE, json=body, headers=ana.bearer)
    assert answer.status_code == 422, answer.text
    assert (await site.http.get(HERE, headers=ana.bearer)).json() == []


async def test_a_query_has_no_arguments_that_are_none(site: Served) -> None:
    """And no secret: a key in an address is refused, and not repeated."""
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    for name in ("user", "tenant", "key", "access_token", "limt", "self", "branch[]"):
        answer = await site.http.get(f"{HERE}/{id}/tail", params={name: ana.key}, headers=ana.bearer)
        assert answer.status_code == 422, name
        assert ana.key not in answer.text
        assert (await site.http.get(f"{HERE}/{id}/tail", params={name: ana.key})).status_code == 401
    for value in ("'", "1;", "0", "-5", "99999999999999999999999", "\x00", "9" * 5_000):
        answer = await site.http.get(f"{HERE}/{id}/before", params={"limit": value}, headers=ana.bearer)
        assert answer.status_code == 422, f"{value[:20]}: {answer.status_code} {answer.text}"


async def test_a_body_must_say_that_it_is_json(site: Served) -> None:
    """A form of another site can send none of this type without asking first."""
    ana = site.people["ana"]
    for type in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"):
        headers = ana.bearer | {"content-type": type}
        answer = await site.http.post(HERE, content=b'{"name": "x"}', headers=headers)
        assert answer.status_code == 400, type
    for type in ("application/json; charset=utf-8", "Application/JSON"):
        answer = await site.http.post(HERE, content=b"{}", headers=ana.bearer | {"content-type": type})
        assert answer.status_code == 200


async def test_a_body_that_is_too_large_is_refused_however_it_comes(tmp_path: Any) -> None:
    async with serving(f"sqlite:///{tmp_path}/x.db", "here", allowance=Allowance(body=10_000)) as site:
        ana = await site.join("ana")
        headers = ana.bearer | {"content-type": "application/json"}
        large = json.dumps({"name": "x" * 20_000}).encode()

        async def pieces() -> Any:
            for at in range(0, len(large), 1_000):
                yield large[at : at + 1_000]

        for content in (large, pieces()):
            answer = await site.http.post(HERE, content=content, headers=headers)
            assert answer.status_code == 413
        answer = await site.http.post("/api/sign-in", content=b" " * 20_000, headers=headers)
        assert answer.status_code == 413
        promised = await _raw(site, f"POST {HERE} HTTP/1.1", headers | {"content-length": "99999999999"}, body=b"{")
        assert promised[0] == 413


async def test_a_body_that_never_comes_is_given_up(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_SECONDS", 0.0)
    headers = site.people["ana"].bearer | {"content-type": "application/json", "content-length": "100"}
    status, _, _ = await _raw(site, f"POST {HERE} HTTP/1.1", headers, body=b"{")
    assert status == 408


async def test_texts_that_databases_dislike_are_kept_or_refused(served: Served) -> None:
    """Lone surrogates, NUL, direction marks: what was said comes back as it was."""
    ana = served.people["ana"]
    id = await served.begin(ana)
    for text in ("\ud800", "a\x00b", "\u202e", "\uffff", "\U0010ffff", "x\r\ny"):
        body = json.dumps({"events": [{"kind": "user", "parts": [{"type": "text", "text": text}]}]}).encode()
        headers = ana.bearer | {"content-type": "application/json"}
        told = await served.http.post(f"{HERE}/{id}/events", content=body, headers=headers)
        assert told.status_code in (200, 422), told.text
        for path, given in {"name": "name", "goal": "goal", "notes": "text"}.items():
            content = json.dumps({given: text}).encode()
            answer = await served.http.put(f"{HERE}/{id}/{path}", content=content, headers=headers)
            assert answer.status_code in (200, 204, 422), f"{path}: {answer.text}"
        content = json.dumps({"metadata": {text: text}}).encode()
        answer = await served.http.put(f"{HERE}/{id}/metadata", content=content, headers=headers)
        assert answer.status_code in (204, 422), answer.text
        found = await served.http.post(
            f"{HERE}/{id}/recall", content=json.dumps({"query": text}).encode(), headers=headers
        )
        assert found.status_code in (200, 422), found.text
        page = await served.http.get(f"{HERE}/{id}/tail", headers=ana.bearer)
        assert page.status_code == 200


# -- WebSockets --------------------------------------------------------------------------------------------------


async def test_garbage_on_a_socket_is_answered_and_the_socket_goes_on(site: Served) -> None:
    ana = site.people["ana"]
    id = await site.begin(ana, "Hello.")
    async with site.socket(f"{HERE}/{id}/live", ana.bearer) as socket:
        assert json.loads(await socket.recv())["kind"] == "opened"
        garbage: list[str | bytes] = [
            "",
            "{",
            "[]",
            "null",
            "1",
            '"x"',
            "{}",
            "[" * 50_000,
            '{"verb": NaN}',
            b"\x00",
            b"{}",
        ]
        garbage += ['{"verb": "tail", "arguments": [1]}', '{"verb": "tail", "arguments": "x"}', '{"verb": ["tail"]}']
        garbage += ['{"verb": "__class__"}', '{"verb": "tail", "verb": "erase"}', '{"verb": "open"}']
        garbage += [
            '{"verb": "open", "arguments": {"conversation": 1}}',
            '{"verb": "listen"}',
            '{"verb": "erase_user"}',
        ]
        for frame in garbage:
            await socket.send(frame)
            while (told := json.loads(await socket.recv()))["kind"] == "told":
                pass
            assert told["kind"] == "problem", frame
            assert told["problem"]["status"] in (400, 404, 422), (frame, told)
        told = await asked(socket, "tail", id="\ud800 {}")
        assert [one["text"] for one in told["value"]] == ["Hello."]


async def test_a_frame_that_is_too_large_closes_the_socket(tmp_path: Any) -> None:
    async with serving(f"sqlite:///{tmp_path}/x.db", "here", allowance=Allowance(body=10_000)) as site:
        ana = await site.join("ana")
        async with site.socket("/api/live", ana.bearer) as socket:
            await socket.send("x" * 20_000)
            with suppress(ConnectionClosed):
                await socket.recv()
            await socket.wait_closed()
            assert socket.close_code == 1009


async def test_a_socket_without_an_address_is_none(site: Served) -> None:
    for path in ("/api/nothing", HERE, "/"):
        with pytest.raises(InvalidStatus):
            async with site.socket(path, site.people["ana"].bearer):
                pass


@pytest.mark.parametrize("by", ["key", "cookie"])
async def test_who_was_signed_out_is_told_nothing_more(
    served: Served, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams and sockets that are open do not outlive the sign-in or the key."""
    from everthread.server import service

    monkeypatch.setattr(service, "SURE", 0.0)
    ana = served.people["ana"]
    id = await served.begin(ana, "Hello.")
    other = await served.key_of(ana, "read", "write")
    headers = ana.bearer if by == "key" else {**ana.page, "origin": served.address}
    keys = (await served.http.get("/api/keys", headers=ana.page)).json()
    first = next(key["id"] for key in keys if key["scopes"] == ["read", "write", "forget"])
    async with (
        served.socket(f"{HERE}/{id}/live", headers) as socket,
        served.http.stream("GET", f"{HERE}/{id}/listen", headers=headers) as stream,
    ):
        lines = stream.aiter_lines()
        while "Hello." not in await anext(lines):
            pass
        if by == "key":
            assert (await served.http.delete(f"/api/keys/{first}", headers=ana.page)).status_code == 204
        else:
            assert (await served.http.post("/api/sign-out-everywhere", json={}, headers=ana.page)).status_code == 204
        event = {"kind": "user", "parts": [{"type": "text", "text": "secret"}]}
        said = await served.http.post(
            f"{HERE}/{id}/events", json={"events": [event]}, headers={"authorization": f"Bearer {other}"}
        )
        assert said.status_code == 200
        heard = "\n".join([line async for line in lines])
        assert "secret" not in heard
        assert '"status": 401' in heard
        told = []
        with suppress(ConnectionClosed):
            while True:
                told.append(json.loads(await socket.recv()))
        assert "secret" not in str(told)
        assert socket.close_code == 4003


# -- secrets -------------------------------------------------------------------------------------------------------


async def test_no_secret_is_in_an_error_a_log_or_an_event(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ana = served.people["ana"]
    identity = served.service.door.identity
    id = await served.begin(ana, "Hello.")
    link = str(await identity.link(_operator(served.name), "ana"))
    answers = [
        await served.http.post("/api/sign-in", json={"link": link + "x"}),
        await served.http.post("/api/sign-in", json={"link": link, "password": [PASSWORD]}, headers={"origin": "null"}),
        await served.http.post("/api/sign-in", json={"user": "ana", "password": PASSWORD}),
        await served.http.post("/api/sign-in", json={"user": "ana", "password": [PASSWORD]}),
        await served.http.put("/api/password", json={"password": [PASSWORD]}, headers=ana.page),
        await served.http.put("/api/password", json={"password": PASSWORD, "old": {"x": PASSWORD}}, headers=ana.page),
        await served.http.put("/api/password", json={"passwort": PASSWORD}, headers=ana.page),
        await served.http.get(HERE, headers={"authorization": f"Bearer {ana.key}x"}),
        await served.http.get(HERE, headers={"authorization": f"Bearer {ana.cookie}"}),
        await served.http.get(f"{HERE}/{ana.key}/tail", headers=ana.bearer),
        await served.http.put(
            "/api/provider-keys/openai", json={"key": [PASSWORD]}, headers=served.people["ada"].bearer
        ),
        await served.http.get(f"{HERE}/{id}/tail", headers=ana.bearer | {"everthread-user": "bob"}),
    ]
    for answer in answers:
        assert answer.status_code in (400, 401, 403, 404, 422), answer.text
        assert PASSWORD not in answer.text, answer.text
        assert link not in answer.text
    ours = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith(("everthread", "uvicorn"))
    )
    for secret in (PASSWORD, link, ana.key, ana.cookie, ana.csrf):
        assert secret not in ours
    assert not SECRETS.search(ours)
    exported = await served.http.get("/api/export", headers=ana.bearer)
    assert not SECRETS.search(exported.text)


# -- all addresses at once -------------------------------------------------------------------------------------------


async def test_no_address_breaks_by_what_nobody_expects_there(served: Served) -> None:
    """Every route with garbage in its path, its query and its body, as its owner: a refusal, never a fault."""
    ada = served.people["ada"]
    served.service.meter.limits = Allowance(requests=0)
    garbage: list[bytes] = [b"", b"{}", b'{"x": 1}', b"[1]", b'{"name": {"a": [null, 1e300, "\\ud800"]}}']
    for address in sorted(served_by(served.service)):
        method, _, path = address.partition(" ")
        if method == "SOCKET" or path in ("/api/forget-me", "/api/sign-in", "/api/sign-out-everywhere"):
            continue
        for word in ("%00", "9" * 40, "%ed%a0%80") if "{" in path else ("",):
            asked_at = re.sub(r"\{\w+\}", word, path)
            for body in garbage if method in ("POST", "PUT", "PATCH") else garbage[:2]:
                headers = ada.bearer | {"content-type": "application/json"}
                query = "" if body else "?a=%00&branch=%ff"
                answer = await served.http.request(method, f"{asked_at}{query}", content=body, headers=headers)
                fine = answer.status_code < 500 and answer.status_code not in (401, 429)
                assert fine, f"{method} {asked_at} {body!r}: {answer.text}"
    assert len(routes_of(served.service)) > 80


async def test_no_argument_breaks_by_a_text_that_databases_dislike(served: Served) -> None:
    """Every argument that is a text, one by one, on both stores."""
    ada = served.people["ada"]
    served.service.meter.limits = Allowance(requests=0)
    id = await served.begin(ada, "Hello.")
    headers = ada.bearer | {"content-type": "application/json"}
    for route in TABLE:
        path = re.sub(r"\{\w+\}", "x", f"/api{route.path}".replace("{conversation}", id))
        for one in route.arguments:
            if one.where == "path" or route.verb.__name__ in ("erase_user", "sign_out_everywhere"):
                continue
            for text in ("a\x00b", "\ud800", "\U0010ffff", "x" * 20_000):
                given: Any = [text] if one.many or "list" in str(one.type) else text
                query = f"?{one.name}={quote(text, errors='replace')}" if one.where == "query" else ""
                content = b"" if query else json.dumps({one.name: given}).encode()
                answer = await served.http.request(route.method, path + query, headers=headers, content=content)
                assert answer.status_code < 500, f"{route.name} {one.name} {text[:5]!r}: {answer.text[:300]}"


def _operator(tenant: str = "here") -> Any:
    from everthread.core.accounts import operator

    return operator(tenant)


async def _raw(
    site: Served, line: str, headers: dict[str, str], *, body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """A request as it stands, whatever a client library thinks of it: status, headers, body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    given = {"host": f"127.0.0.1:{site.port}", "connection": "close", **headers}
    head = "\r\n".join([line, *(f"{name}: {value}" for name, value in given.items()), "", ""])
    writer.write(head.encode("latin-1") + body)
    async with asyncio.timeout(PATIENCE):
        answered = await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    top, _, rest = answered.partition(b"\r\n\r\n")
    status, *lines = top.decode("latin-1").split("\r\n")
    found = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    return int(status.split()[1]), found, rest
