"""The agents of the operators' folder (`--agents`) are there for every tenant, whenever it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from everthread import Everthread
from everthread.errors import BadAgent, UnknownAgent
from everthread.store.reach import within
from everthread.testing import scripted
from tests.server.serving import serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "agents"
    made.mkdir()
    (made / "clerk.toml").write_text('description = "Knows orders"\ninstructions = "You are a clerk."\n')
    return made


async def test_a_tenant_that_is_made_later_has_them_too(address: str, someone: str, folder: Path) -> None:
    async with serving(address, f"tenant-{someone}", agents=str(folder)) as site:
        ana = await site.join("ana")
        cy = await site.join("cy", tenant=f"another-{someone}")
        for person in (ana, cy):
            listed = await site.http.get("/api/agents", headers=person.bearer)
            assert [one["agent"]["name"] for one in listed.json()] == ["clerk"]
            id = await site.begin(person, agent="clerk")
            scripted.script("served", "At your service.")
            say = {"pieces": ["Hello."]}
            said = await site.http.post(f"/api/conversations/{id}/say", json=say, headers=person.bearer)
            assert said.status_code == 202, said.text
            await site.service.et.idle()
            talk = await site.service.et.conversation(user=person.user, tenant=person.tenant, id=id)
            assert "You are a clerk." in str((await talk.context()).request)


async def test_the_first_turn_of_a_tenant_finds_them(address: str, someone: str, folder: Path) -> None:
    scripted.script("served", "At your service.")
    async with Everthread.open(address, agents=folder, settings={"model": "scripted:served", "memory": False}) as et:
        with within(someone):
            talk = await et.begin(user="ana", tenant=someone, agent="clerk")
            assert str(await talk.say("Hello.")) == "At your service."
            with pytest.raises(UnknownAgent):
                await (await et.begin(user="ana", tenant=someone, agent="nobody")).say("Hello.")


async def test_a_change_in_the_folder_reaches_all_with_the_next_start(address: str, someone: str, folder: Path) -> None:
    async with Everthread.open(address, agents=folder) as et:
        assert [one.version for one in await et.agents.list(someone)] == [1]
    (folder / "clerk.toml").write_text('instructions = "You are a senior clerk."\n')
    async with Everthread.open(address, agents=folder) as et:
        [now] = await et.agents.list(someone)
        assert (now.version, now.agent.instructions) == (2, "You are a senior clerk.")
        assert len(await et.agents.history(someone, "clerk")) == 2


async def test_a_folder_that_is_wrong_is_told_at_the_start(address: str, folder: Path) -> None:
    (folder / "clerk.toml").write_text("walnuts = 3\n")
    with pytest.raises(BadAgent):
        await Everthread.open(address, agents=folder)
