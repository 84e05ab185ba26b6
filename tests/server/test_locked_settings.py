"""What only operators may set: no caller has the service call another server, read a file or start a program, by
whichever door it is tried."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread
from everthread.core.events import ModelCall, SettingsChanged
from everthread.core.locks import LOCKED, MODELS
from everthread.errors import Forbidden
from everthread.transfer import export_lines
from tests.server.serving import Served, asked, serving

ELSEWHERE = "http://169.254.169.254/latest"
ALSO: dict[str, Any] = {
    "address": ELSEWHERE,
    "extra_body": '{"metadata": "x"}',
    "threads": 64,
    "worker": "apart",
    "call_seconds": 80_000,
    "tool_seconds": 80_000,
    "memory_seconds": 3_000,
    "memory_calls": 100_000,
    "memory_dollars": 0,
    "mirror": "/tmp/elsewhere",
    "retention": 1,
    "archive": True,
    "archive_after": 1,
    "archive_place": "/tmp/elsewhere",
    "archive_encryption": False,
}
FILES = ("local:/etc/passwd.gguf", "local:secret.gguf", "local:../x.gguf", "local:~/x.gguf", "local:models/x.gguf")
BAD: list[tuple[str, Any]] = [*ALSO.items(), *((name, path) for name in sorted(MODELS) for path in FILES)]


def test_every_locked_setting_is_tried_here() -> None:
    assert set(ALSO) == LOCKED


@pytest.mark.parametrize("who", ["ana", "ada"])
async def test_no_door_of_a_conversation_takes_what_is_for_operators(served: Served, who: str) -> None:
    """Not from a user, and not from an administrator either: a tenant's administrator is no operator."""
    person = served.people[who]
    id = await served.begin(person, "Hello.")
    base = f"/api/conversations/{id}"
    for name, value in BAD:
        one = {name: value}
        for path, body in _doors(base, one).items():
            method = "PUT" if path.endswith("/settings") else "POST"
            answer = await served.http.request(method, path, json=body, headers=person.bearer)
            assert answer.status_code == 403, f"{path} {one}: {answer.status_code} {answer.text}"
            assert "operators" in answer.json()["detail"]
    kept = await served.http.get(f"{base}/tail", headers=person.bearer)
    assert [event["text"] for event in kept.json()] == ["Hello."]
    found = await served.http.get(base, headers=person.bearer)
    assert found.json()["conversation"]["settings"] == {}


async def test_the_arguments_that_name_a_model_take_no_path(served: Served) -> None:
    ana = served.people["ana"]
    base = f"/api/conversations/{await served.begin(ana, 'Hello.')}"
    for path in FILES:
        given: dict[str, Any] = {"say": {"pieces": ["Hi."]}, "context": {}, "children": {"task": "x"}, "count": {}}
        for verb, more in given.items():
            answer = await served.http.post(f"{base}/{verb}", json={**more, "model": path}, headers=ana.bearer)
            assert answer.status_code == 403, f"{verb} {path}: {answer.text}"


async def test_no_message_of_a_socket_sets_what_is_for_operators(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, "Hello.")
    async with served.socket(f"/api/conversations/{id}/live", ana.bearer) as socket:
        for name, value in BAD:
            one = {name: value}
            event = {"kind": "settings", "values": one}
            for verb, given in {
                "say": {"pieces": ["Hi."], "settings": one},
                "configure": one,
                "set_settings": {"settings": one},
                "append": {"events": [event]},
                "delegate": {"task": "x", "settings": one},
                "context": {"settings": one},
            }.items():
                told = await asked(socket, verb, given)
                assert told["problem"]["status"] == 403, f"{verb} {one}: {told}"


async def test_a_record_of_a_model_call_names_no_server(served: Served) -> None:
    """Memory asks the model that replied last where it was: a record is as good as a setting."""
    ana = served.people["ana"]
    base = f"/api/conversations/{await served.begin(ana, 'Hello.')}"
    for about in ({"model": "openai:x", "address": ELSEWHERE}, {"model": FILES[0]}):
        body = {"events": [{"kind": "model_call", "at": 1, **about}]}
        answer = await served.http.post(f"{base}/events", json=body, headers=ana.bearer)
        assert answer.status_code == 403, answer.text


async def test_a_record_takes_nothing_from_what_was_used(served: Served) -> None:
    """Tokens a day are counted from records: none is below nothing."""
    ana = served.people["ana"]
    base = f"/api/conversations/{await served.begin(ana, 'Hello.')}"
    body = {"events": [{"kind": "model_call", "model": "openai:x", "at": 1, "input": -1_000_000}]}
    await served.http.post(f"{base}/events", json=body, headers=ana.bearer)
    (used,) = (await served.http.get("/api/usage", headers=ana.bearer)).json()
    assert used["input"] == 0


async def test_an_agent_that_is_saved_over_http_starts_no_program_and_calls_no_server(served: Served) -> None:
    ada = served.people["ada"]
    servers = ({"command": ["touch", "/tmp/owned"]}, {"url": ELSEWHERE})
    bad: list[Any] = [*({"mcp": {"x": server}} for server in servers), *({"model": path} for path in FILES)]
    for more in bad:
        answer = await served.http.post("/api/agents", json={"agent": {"name": "evil", **more}}, headers=ada.bearer)
        assert answer.status_code == 403, answer.text
    for name, value in BAD:
        if name != "model":
            body = {"agent": {"name": "evil", "settings": {name: value}}}
            answer = await served.http.post("/api/agents", json=body, headers=ada.bearer)
            assert answer.status_code == 403, f"{name}: {answer.text}"
    assert (await served.http.get("/api/agents", headers=ada.bearer)).json() == []


async def test_an_import_leaves_out_what_is_for_operators(served: Served, tmp_path: Path) -> None:
    """An export of an own machine may say where the models were; here that is not for its owner to say."""
    ana = served.people["ana"]
    async with Everthread.open(f"sqlite:///{tmp_path}/own.db") as own:
        settings: dict[str, Any] = {"address": ELSEWHERE, "budget": 9_000, "own": "thing", "summary_model": FILES[0]}
        talk = await own.begin(user="x", settings=settings)
        await talk.append(SettingsChanged(values={"address": ELSEWHERE, "messages": 3, "fallback": FILES[1]}))
        await talk.append(ModelCall(model="openai:x", at=1, address=ELSEWHERE))
        body = b"".join([line async for line in export_lines(own.log, talk.conversation)])
    taken = await served.http.post("/api/import", content=body, headers=ana.bearer)
    assert taken.status_code == 200, taken.text
    [id] = taken.json()["conversations"]
    found = await served.http.get(f"/api/conversations/{id}/export", headers=ana.bearer)
    assert ELSEWHERE not in found.text
    assert ".gguf" not in found.text
    assert '"budget":9000' in found.text.replace(" ", "")
    inside = await served.http.get(f"/api/conversations/{id}/settings", headers=ana.bearer)
    assert inside.json()["settings"]["messages"] == 3


# -- the store itself ------------------------------------------------------------------------------------------


@pytest.fixture
async def locked(address: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(address, locked=True, settings={"model": "scripted:locked"}) as opened:
        yield opened


async def test_what_stands_in_a_locked_store_is_passed_over(locked: Everthread, address: str, someone: str) -> None:
    """Whatever door was forgotten: what a conversation, a branch or a record says of servers and files holds not."""
    async with Everthread.open(address) as open_to_all:
        talk = await open_to_all.begin(
            user=someone, settings={"address": ELSEWHERE, "model": FILES[0], "budget": 9_000}
        )
        await talk.append(SettingsChanged(values={"extra_body": '{"a": 1}', "summary_model": FILES[1], "messages": 3}))
        await talk.append(ModelCall(model="openai:x", at=1, address=ELSEWHERE))
        assert (await talk.settings()).settings.address == ELSEWHERE
    same = await locked.conversation(user=someone, id=talk.id)
    for settings in ((await same.settings()).settings, (await same.context()).settings):
        assert (settings.address, settings.extra_body) == ("", "")
        assert (settings.model, settings.summary_model) == ("scripted:locked", "")
        assert (settings.budget, settings.messages) == (9_000, 3)


async def test_memory_asks_no_server_that_only_a_record_names(address: str, someone: str) -> None:
    async with Everthread.open(address, environment=False) as open_to_all:
        talk = await open_to_all.begin(user=someone)
        await talk.append(ModelCall(model="openai:x", at=1, address=ELSEWHERE))
        assert (await talk.settings()).settings.address == ELSEWHERE
    async with Everthread.open(address, environment=False, locked=True) as opened:
        same = await opened.conversation(user=someone, id=talk.id)
        settings = (await same.settings()).settings
        assert (settings.model, settings.address) == ("", "")


async def test_what_is_given_to_a_locked_store_is_refused(locked: Everthread, someone: str) -> None:
    talk = await locked.begin(user=someone)
    for name, value in BAD:
        given: Any = {name: value}
        with pytest.raises(Forbidden):
            await talk.context(settings=given)
        with pytest.raises(Forbidden):
            await talk.say("Hello.", settings=given)
    assert await talk.tail() == []


async def test_what_operators_have_set_themselves_anybody_may_name(address: str, someone: str) -> None:
    """Also where a turn itself does, which goes on with the fallback."""
    own: Any = {"model": "scripted:locked", "fallback": FILES[0], "address": "http://127.0.0.1:9/v1", "threads": 2}
    async with Everthread.open(address, locked=True, settings=own) as opened:
        talk = await opened.begin(user=someone)
        same: Any = {"summary_model": FILES[0], "address": own["address"], "threads": 2}
        context = await talk.context(settings=same)
        assert context.settings.summary_model == FILES[0]
        with pytest.raises(Forbidden):
            await talk.context(settings={"threads": 3})


async def test_agents_of_the_operators_own_folder_may_have_servers(address: str, someone: str, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "own.toml").write_text('[mcp.files]\ncommand = ["true"]\n[settings]\nthreads = 3\n')
    async with Everthread.open(address, locked=True, agents=folder) as opened:
        talk = await opened.begin(user=someone, agent="own")
        assert (await talk.settings()).settings.threads == 3


async def test_a_password_in_an_address_is_shown_to_nobody(tmp_path: Path) -> None:
    own = {"address": "http://name:hunter2@127.0.0.1:9/v1", "model": "openai:x", "retries": 0}
    async with serving(f"sqlite:///{tmp_path}/x.db", "here", settings=own) as site:
        ana = await site.join("ana")
        base = f"/api/conversations/{await site.begin(ana, 'Hello.')}"
        for method, path in (("GET", "settings"), ("POST", "context"), ("POST", "steps"), ("GET", "memory")):
            answer = await site.http.request(method, f"{base}/{path}", headers=ana.bearer)
            assert answer.status_code == 200, answer.text
            assert "hunter2" not in answer.text
        said = await site.http.post(f"{base}/say", json={"pieces": ["Hi."]}, headers=ana.bearer)
        assert said.status_code == 202
        await site.service.et.idle()
        assert "hunter2" not in (await site.http.get(f"{base}/after", headers=ana.bearer)).text


def _doors(base: str, one: dict[str, Any]) -> dict[str, Any]:
    """Where settings can be given, and how."""
    event = {"kind": "settings", "values": one}
    return {
        "/api/conversations": {"settings": one},
        f"{base}/say": {"pieces": ["Hi."], "settings": one},
        f"{base}/resume": {"settings": one},
        f"{base}/approve": {"settings": one},
        f"{base}/refuse": {"settings": one},
        f"{base}/context": {"settings": one},
        f"{base}/steps": {"settings": one},
        f"{base}/count": {"settings": one},
        f"{base}/rebuild": {"seq": 1, "settings": one},
        f"{base}/children": {"task": "x", "settings": one},
        f"{base}/configure": one,
        f"{base}/settings": {"settings": one},
        f"{base}/events": {"events": [event]},
    }
