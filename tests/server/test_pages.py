"""A page of events over HTTP is of the branch that is current, wherever and by whomever it was made so."""

from __future__ import annotations

from everthread import Everthread
from tests.server.serving import Served


async def _texts(served: Served, id: str) -> list[str]:
    page = await served.http.get(f"/api/conversations/{id}/before", headers=served.people["ana"].bearer)
    return [one["text"] for one in page.json() if one["text"]]


async def test_a_page_follows_the_current_branch(served: Served, address: str) -> None:
    id = await served.begin(served.people["ana"], "One.", "Two.", "Three.")
    assert await _texts(served, id) == ["One.", "Two.", "Three."]
    path, headers = f"/api/conversations/{id}", served.people["ana"].bearer
    await served.http.post(f"{path}/rewind", json={"to": 1}, headers=headers)
    assert await _texts(served, id) == ["One."]
    async with Everthread.open(address, keys={}) as elsewhere:
        talk = await elsewhere.conversation(user="ana", tenant=served.name, id=id)
        await talk.switch("main")
        assert await _texts(served, id) == ["One.", "Two.", "Three."]
        await talk.erase()
    gone = await served.http.get(f"{path}/before", headers=headers)
    assert gone.status_code == 404
