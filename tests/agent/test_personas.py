"""Agents: read from a folder, refused in words where they are wrong, and kept in every version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from everthread import Everthread, user
from everthread.agent.personas import Agent, Agents, Server, checked, decode, encode, load, sections, servers, source
from everthread.config import resolve
from everthread.errors import BadAgent, UnknownAgent

WHOLE = """
description = "Answers questions about orders"
model = "anthropic:claude-sonnet-4-6"
instructions_file = "persona.md"
tools = ["find_order", "refund"]
skills = ["skills/*.md"]

[settings]
budget = 20_000
temperature = 1

[mcp.files]
command = ["mcp-files", "--read-only"]
env = { KEY = "$FILES_KEY" }
approval = ["delete"]

[mcp.web]
url = "https://example.org/mcp"
"""


def write(folder: Path, **files: str) -> Path:
    """Files by their paths, where __ stands for a slash and a single _ before the end for the dot."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/").replace("_toml", ".toml").replace("_md", ".md"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def whole(folder: Path) -> Path:
    skills = {"shop__skills__refunds_md": "Refund within 30 days.\n", "shop__skills__greetings_md": "Be brief."}
    return write(folder, shop__agent_toml=WHOLE, shop__persona_md="You are Ana.", **skills)


# -- a folder ----------------------------------------------------------------------------------------------


def test_a_folder_of_agents_is_read(tmp_path: Path) -> None:
    write(whole(tmp_path), helper_toml='instructions = "You help."', notes_md="no agent", skills__x_md="no agent")
    write(tmp_path, **{".hidden_toml": "no agent"})
    found = load(tmp_path)
    assert list(found) == ["helper", "shop"]
    assert found["helper"] == Agent(name="helper", instructions="You help.")
    assert found["shop"] == Agent(
        name="shop",
        description="Answers questions about orders",
        model="anthropic:claude-sonnet-4-6",
        instructions="You are Ana.",
        tools=("find_order", "refund"),
        settings={"budget": 20_000, "temperature": 1.0},
        skills={"skills/greetings.md": "Be brief.", "skills/refunds.md": "Refund within 30 days.\n"},
        mcp={
            "files": Server(command=("mcp-files", "--read-only"), env={"KEY": "$FILES_KEY"}, approval=("delete",)),
            "web": Server(url="https://example.org/mcp"),
        },
    )


def test_what_an_agent_says_becomes_instructions_settings_and_servers(tmp_path: Path) -> None:
    agent = load(whole(tmp_path))["shop"]
    skills = "## skills/greetings.md\n\nBe brief.\n\n## skills/refunds.md\n\nRefund within 30 days."
    assert sections(agent) == {"persona": "You are Ana.", "skills": skills}
    found = resolve(source(agent))
    assert (found.settings.budget, found.settings.model) == (20_000, "anthropic:claude-sonnet-4-6")
    assert found.source_of["budget"] == "the agent shop"
    assert [(one.name, one.command, one.url) for one in servers(agent)] == [
        ("files", ("mcp-files", "--read-only"), ""),
        ("web", (), "https://example.org/mcp"),
    ]


def test_an_agent_that_says_nothing_adds_nothing() -> None:
    bare = Agent(name="bare")
    assert (sections(bare), dict(source(bare).values), servers(bare)) == ({}, {}, [])


async def test_the_model_is_told_what_the_sections_say(tmp_path: Path) -> None:
    agent = load(whole(tmp_path))["shop"]
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("Hello."))
        request = (await talk.context(model="openai:gpt-4o", instructions=sections(agent))).request
    told = str(request["messages"][0])
    assert "You are Ana." in told
    assert "# Skills" in told
    assert "Refund within 30 days." in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("model = ", ["line 1", "Invalid value"], id="no TOML"),
        pytest.param('a = 1\nb = "', ["line 2"], id="the line of the fault"),
        pytest.param("persona = 'x'", ["no key 'persona'", "description, model, instructions"], id="unknown key"),
        pytest.param("tools = 'find'", ["tools must be a list of texts"], id="one tool"),
        pytest.param("tools = [1]", ["tools must be a list of texts"], id="a number for a tool"),
        pytest.param("instructions = 5", ["instructions must be text"], id="a number for text"),
        pytest.param("settings = 5", ["settings must be a table"], id="no table"),
        pytest.param("model = 'gpt-4o'", ["'gpt-4o'", "the agent bad", "provider:name"], id="a model without provider"),
        pytest.param("[settings]\nbudgt = 5", ["budgt", "the nearest is budget"], id="a setting that is none"),
        pytest.param("[settings]\nbudget = -5", ["budget is -5", "from 0"], id="a value that is not allowed"),
        pytest.param("[settings]\nbudget = [5]", ["settings"], id="a list for a value"),
        pytest.param("[settings]\nmodel = 'openai:x'", ["model", "beside them"], id="the model in the wrong place"),
        pytest.param("instructions_file = 'gone.md'", ["gone.md: No such file"], id="a file that is not there"),
        pytest.param("instructions_file = '../x.md'", ["'../x.md' does not lie inside"], id="a file above"),
        pytest.param("instructions_file = '/etc/hostname'", ["does not lie inside"], id="a file elsewhere"),
        pytest.param("instructions_file = ''", ["does not lie inside"], id="no file"),
        pytest.param("instructions_file = 'link.md'", ["'link.md' does not lie inside"], id="a link that leads out"),
        pytest.param("instructions_file = 'latin.md'", ["latin.md is not UTF-8"], id="another encoding"),
        pytest.param("instructions = 'x'\ninstructions_file = 'y'", ["keep one"], id="instructions twice"),
        pytest.param("skills = ['skills/*.md']", ["no file matches 'skills/*.md'"], id="no skills"),
        pytest.param("skills = ['../*.md']", ["does not lie inside"], id="skills above"),
        pytest.param("skills = ['/etc/*']", ["does not lie inside"], id="skills elsewhere"),
        pytest.param("skills = ['link.*']", ["'link.md' does not lie inside"], id="skills by a link"),
        pytest.param("[mcp.files]\ncomand = ['x']", ["mcp.files", "comand", "command, url"], id="an MCP key"),
        pytest.param("[mcp.files]\ncommand = 'x y'", ["mcp.files", "array"], id="an MCP command as one text"),
        pytest.param("[mcp.files]", ["files", "either a command or a url"], id="an MCP server of nothing"),
        pytest.param("[mcp]\nfiles = 5", ["mcp.files"], id="no MCP table"),
    ],
)
def test_an_agent_that_is_wrong_is_refused_by_its_file(tmp_path: Path, text: str, words: list[str]) -> None:
    folder = write(tmp_path / "agents", bad_toml=text)
    (tmp_path / "outside.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    (folder / "latin.md").write_bytes("é".encode("latin-1"))
    with pytest.raises(BadAgent) as refused:
        load(folder)
    said = str(refused.value)
    assert str(folder / "bad.toml") in said
    assert [word for word in words if word not in said] == []


def test_two_files_for_one_agent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadAgent, match="keep one of them"):
        load(write(tmp_path, helper_toml="", helper__agent_toml=""))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadAgent, match=r"^The folder of agents /\S+ cannot be used \(there is no such folder\)"):
        load(tmp_path / "nowhere")


# -- as a text ---------------------------------------------------------------------------------------------


def test_an_agent_comes_back_from_its_text_the_same(tmp_path: Path) -> None:
    agent = load(whole(tmp_path))["shop"]
    assert decode(encode(agent)) == agent


def test_the_same_agent_has_the_same_text_and_hash_whatever_the_order_it_was_written_in() -> None:
    one = Agent(name="a", settings={"budget": 1, "step": 0.5}, skills={"x": "1", "y": "2"})
    other = Agent(name="a", skills={"y": "2", "x": "1"}, settings={"step": 0.5, "budget": 1})
    assert encode(one) == encode(other) == '{"name":"a","settings":{"budget":1,"step":0.5},"skills":{"x":"1","y":"2"}}'
    assert one.hash == other.hash
    assert one.hash != msgspec.structs.replace(one, description="Changed.").hash


@pytest.mark.parametrize("text", ["", "[]", '{"name":5}', "{}"])
def test_a_text_that_is_no_agent_is_refused(text: str) -> None:
    with pytest.raises(BadAgent):
        decode(text)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"name": ""}, id="no name"),
        pytest.param({"name": "a\nb"}, id="a name of two lines"),
        pytest.param({"name": "a", "instructions": "\ud800"}, id="text beyond Unicode"),
        pytest.param({"name": "a", "tools": "all"}, id="a wrong type"),
        pytest.param({"name": "a", "settings": {"nothing": 1}}, id="no such setting"),
    ],
)
def test_an_agent_that_a_program_made_is_checked_as_well(given: Any) -> None:
    with pytest.raises(BadAgent, match="what was given"):
        checked(Agent(**given), "what was given")


# -- in the store ------------------------------------------------------------------------------------------


async def test_a_change_is_a_new_version_and_the_old_one_stays(et: Everthread, someone: str) -> None:
    agents, tenant = Agents(et.log), someone
    first = await agents.save(tenant, Agent(name="helper", instructions="You help."))
    again = await agents.save(tenant, Agent(name="helper", instructions="You help."))
    second = await agents.save(tenant, Agent(name="helper", instructions="You help a lot."))
    assert (first.version, again.version, second.version) == (1, 1, 2)
    assert await agents.get(tenant, "helper") == second
    assert await agents.get(tenant, "helper", 1) == first
    assert await agents.get(tenant, "helper", 3) is None
    assert await agents.history(tenant, "helper") == [second, first]


async def test_agents_are_listed_by_name_for_their_tenant_alone(et: Everthread, someone: str) -> None:
    agents = Agents(et.log)
    for name in ("shop", "helper", "Ana Österreich"):
        await agents.save(someone, Agent(name=name))
    assert [found.agent.name for found in await agents.list(someone)] == ["Ana Österreich", "helper", "shop"]
    assert await agents.list(f"{someone}-other") == []
    assert await agents.get(f"{someone}-other", "shop") is None


async def test_an_agent_that_must_be_there_is_missed_in_words(et: Everthread, someone: str) -> None:
    agents = Agents(et.log)
    saved = await agents.save(someone, Agent(name="shop"))
    assert await agents.must_be(someone, "shop") == saved
    with pytest.raises(UnknownAgent, match="there are: shop"):
        await agents.must_be(someone, "shoop")


async def test_only_what_changed_in_a_folder_is_written(et: Everthread, someone: str, tmp_path: Path) -> None:
    agents = Agents(et.log)
    folder = write(whole(tmp_path / "agents"), helper_toml="instructions = 'You help.'")
    assert [found.agent.name for found in await agents.sync(folder, tenant=someone)] == ["helper", "shop"]
    assert await agents.sync(folder, tenant=someone) == []
    write(folder, shop__skills__refunds_md="Refund within 60 days.")
    (changed,) = await agents.sync(folder, tenant=someone)
    assert (changed.agent.name, changed.version) == ("shop", 2)
    assert changed.agent.skills["skills/refunds.md"] == "Refund within 60 days."


async def test_a_folder_with_a_fault_changes_nothing(et: Everthread, someone: str, tmp_path: Path) -> None:
    agents = Agents(et.log)
    folder = write(tmp_path / "agents", a_toml="instructions = 'You help.'", b_toml="nonsense")
    with pytest.raises(BadAgent):
        await agents.sync(folder, tenant=someone)
    assert await agents.list(someone) == []
