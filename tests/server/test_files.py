"""Images and files are served as what they are; an export comes back by an import; all of it as the caller's own."""

from __future__ import annotations

import base64
import json

import pytest

from everthread.core.parts import blob_hash
from tests.server.serving import Served

PICTURE = b"GIF89a\x01\0\x02\0" + bytes(range(90))
SCRIPT = b"<!doctype html><script>alert(1)</script>"


async def kept(served: Served, data: bytes, kind: str = "image") -> str:
    """The address of bytes that Ana has said."""
    ana = served.people["ana"]
    id = await served.begin(ana)
    part = {"type": kind, "blob": blob_hash(data), "data": base64.b64encode(data).decode(), "media_type": "text/html"}
    event = {"kind": "user", "parts": [part]}
    said = await served.http.post(f"/api/conversations/{id}/events", json={"events": [event]}, headers=ana.bearer)
    assert said.status_code == 200, said.text
    return f"/api/conversations/{id}/blobs/{blob_hash(data)}"


async def test_a_picture_is_served_as_its_first_bytes_say(served: Served) -> None:
    address, ana = await kept(served, PICTURE), served.people["ana"]
    found = await served.http.get(address, headers=ana.bearer)
    assert (found.status_code, found.content) == (200, PICTURE)
    assert found.headers["content-type"] == "image/gif"
    assert found.headers["content-disposition"] == "inline"


async def test_what_calls_itself_a_page_is_served_as_bytes_to_keep(served: Served) -> None:
    address, ana = await kept(served, SCRIPT, "file"), served.people["ana"]
    found = await served.http.get(address, headers=ana.bearer)
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"] == "attachment"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]


async def test_what_was_handed_in_is_shown_by_a_message_and_forgotten_as_an_event(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana)
    given = await served.http.post(f"/api/conversations/{id}/blobs", content=PICTURE, headers=ana.bearer)
    event = given.json()["event"]
    assert (event["kind"], event["parts"][0]["media_type"]) == ("upload", "image/gif")
    said = await served.http.post(
        f"/api/conversations/{id}/say", json={"pieces": ["Look.", *event["parts"]]}, headers=ana.bearer
    )
    assert said.status_code == 202, said.text
    address = f"/api/conversations/{id}/blobs/{blob_hash(PICTURE)}"
    for seq, status in ((1, 200), (2, 404)):  # the message shows it, too, until that is forgotten as well
        await served.http.post(f"/api/conversations/{id}/redact", json={"seq": seq}, headers=ana.bearer)
        assert (await served.http.get(address, headers=ana.bearer)).status_code == status


@pytest.mark.parametrize(
    ("asked", "status", "wanted"),
    [
        ("bytes=0-9", 206, PICTURE[:10]),
        ("bytes=10-", 206, PICTURE[10:]),
        ("bytes=-10", 206, PICTURE[-10:]),
        ("bytes=-1000", 200, PICTURE),
        ("bytes=5-5000", 206, PICTURE[5:]),
        ("bytes=100-", 416, b""),
        ("bytes=9-2", 416, b""),
        ("bytes=0-1,4-5", 200, PICTURE),  # several at once are not offered
        ("lines=1-2", 200, PICTURE),
        ("bytes=-", 200, PICTURE),
    ],
)
async def test_a_range_of_bytes(served: Served, asked: str, status: int, wanted: bytes) -> None:
    address, ana = await kept(served, PICTURE), served.people["ana"]
    found = await served.http.get(address, headers={**ana.bearer, "range": asked})
    assert (found.status_code, found.content) == (status, wanted)


async def test_what_a_browser_has_is_not_sent_again_and_is_gone_once_it_is_forgotten(served: Served) -> None:
    address, ana = await kept(served, PICTURE), served.people["ana"]
    tag = (await served.http.get(address, headers=ana.bearer)).headers["etag"]
    again = await served.http.get(address, headers={**ana.bearer, "if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    conversation = address.rpartition("/blobs/")[0]
    gone = await served.http.post(f"{conversation}/redact", json={"seq": 1}, headers=ana.bearer)
    assert gone.status_code == 204, gone.text
    assert (await served.http.get(address, headers={**ana.bearer, "if-none-match": tag})).status_code == 404


async def test_an_export_comes_back_by_an_import_in_another_tenant(served: Served) -> None:
    ana, cy = served.people["ana"], served.people["cy"]
    id = await served.begin(ana, "My son is allergic to walnuts.", "And to kiwis.", name="allergies")
    out = await served.http.get(f"/api/conversations/{id}/export", headers=ana.bearer)
    assert out.headers["content-type"] == "application/x-ndjson"
    told = await served.http.post("/api/import", content=out.content, headers=cy.bearer)
    [new] = told.json()["conversations"]
    assert told.json()["events"] == 2, told.text
    mine = await served.http.get(f"/api/conversations/{id}/after", headers=ana.bearer)
    theirs = await served.http.get(f"/api/conversations/{new}/after", headers=cy.bearer)
    assert mine.json() == json.loads(theirs.text.replace(new, id))
    assert len(mine.json()) == 2
    again = await served.http.post("/api/import", content=out.content, headers=cy.bearer)
    assert (again.json()["events"], again.json()["already"]) == (0, 1)


async def test_all_that_is_ones_own_is_exported_and_nothing_of_others(served: Served) -> None:
    ana, bob = served.people["ana"], served.people["bob"]
    ids = {await served.begin(ana, "one"), await served.begin(ana, "two")}
    await served.begin(bob, "a secret of Bob's")
    out = await served.http.get("/api/export", headers=ana.bearer)
    lines = [json.loads(line) for line in out.text.splitlines()]
    assert {line["conversation"]["id"] for line in lines if "everthread" in line and "conversation" in line} == ids
    assert "secret" not in out.text


async def test_what_was_redacted_is_in_no_export(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, "a secret of Ana's")
    await served.http.post(f"/api/conversations/{id}/redact", json={"seq": 1}, headers=ana.bearer)
    assert "secret" not in (await served.http.get("/api/export", headers=ana.bearer)).text


@pytest.mark.parametrize("body", [b"", b"{}", b"what?", b'{"everthread": 99}'])
async def test_what_is_no_history_is_refused_and_nothing_imported(served: Served, body: bytes) -> None:
    ana = served.people["ana"]
    told = await served.http.post("/api/import", content=body, headers=ana.bearer)
    assert told.status_code in (400, 422), told.text
    assert (await served.http.get("/api/conversations", headers=ana.bearer)).json() == []
