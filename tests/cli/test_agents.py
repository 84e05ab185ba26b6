"""`everthread agents`: who there is, and what each version says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Do

SHOP = """
description = "Sells cakes"
model = "scripted:shop"
instructions = "You are Ana, [bold]and sell cakes."
skills = ["*.md"]

[settings]
budget = 9_000

[mcp.orders]
url = "http://127.0.0.1:9/mcp"
headers = { Authorization = "secret" }
"""


@pytest.fixture
def folder(home: Path) -> Path:
    """Where a user's own agents are looked for, with two in it."""
    found = home / ".config" / "everthread" / "agents"
    (found / "shop").mkdir(parents=True)
    (found / "shop" / "agent.toml").write_text(SHOP)
    (found / "shop" / "prices.md").write_text("A lemon cake is 12 euros.")
    (found / "helper.toml").write_text('description = "Helps"')
    return found


def test_agents_are_listed_with_version_model_and_description(do: Do, folder: Path) -> None:
    lines = [line.split() for line in do("agents").stdout.splitlines()]
    assert lines == [
        ["agent", "version", "model", "description"],
        ["helper", "1", "–", "Helps"],
        ["shop", "1", "scripted:shop", "Sells", "cakes"],
    ]


def test_as_json_they_say_all_but_their_secrets(do: Do, folder: Path) -> None:
    said = do("agents", "--json").stdout
    helper, shop = json.loads(said)
    assert (helper["name"], shop["name"], shop["version"]) == ("helper", "shop", 1)
    assert shop["settings"] == {"budget": 9000}
    assert shop["mcp"]["orders"]["headers"] == {"Authorization": "…"}
    assert "secret" not in said


def test_one_is_shown_with_what_changed_in_each_version(do: Do, folder: Path) -> None:
    do("agents")
    (folder / "shop" / "agent.toml").write_text(SHOP.replace("Ana", "Bea").replace("9_000", "8_000"))
    shown = do("agents", "shop").stdout
    assert "shop · version 2\nSells cakes\nmodel: scripted:shop\n" in shown
    assert "You are Bea, [bold]and sell cakes." in shown
    assert "skills: prices.md" in shown
    assert "mcp: orders (http://127.0.0.1:9/mcp)" in shown
    assert "secret" not in shown
    newest, first = shown.splitlines()[-2:]
    assert (newest.split()[0], newest.endswith("  instructions, settings")) == ("2", True)
    assert (first.split()[0], first.endswith("  the first")) == ("1", True)
    versions = json.loads(do("agents", "shop", "--json").stdout)["versions"]
    assert [one["version"] for one in versions] == [2, 1]
    assert versions[0]["changed"] == ["instructions", "settings"]


def test_an_agent_that_is_not_there_is_a_sentence_that_names_those_that_are(do: Do, folder: Path) -> None:
    for command in (("agents", "nobody"), ("chat", "--agent", "nobody"), ("ask", "Hello", "--agent", "nobody")):
        failed = do(*command)
        assert failed.exit_code == 1
        assert failed.stderr.startswith("Error: There is no agent 'nobody'; there are: helper, shop.")


def test_without_any_it_says_where_to_write_one(do: Do, home: Path) -> None:
    do("ask", "Hello", "--model", "scripted:echo")
    said = do("agents")
    assert said.exit_code == 0
    assert f"write {home}/.config/everthread/agents/NAME.toml" in said.stdout


def test_a_folder_is_known_to_the_tenant_that_names_it(do: Do, folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "clerk.toml").write_text('description = "Files things"')
    assert "clerk" in do("agents", "--agents", str(own), "--tenant", "acme").stdout
    assert "clerk" not in do("agents").stdout
    assert do("chat", "--agents", str(own), "--tenant", "acme", "--agent", "clerk").exit_code == 0


def test_a_file_that_is_wrong_is_named_with_the_line(do: Do, folder: Path) -> None:
    (folder / "bad.toml").write_text('description = "Helps\n')
    failed = do("agents")
    assert failed.exit_code == 1
    assert "bad.toml cannot be used (line 1" in failed.stderr
