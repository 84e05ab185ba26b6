"""`everthread archive` and `everthread restore`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, user
from tests.cli.conftest import Do


@pytest.fixture
def begun(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A conversation; its id."""
    monkeypatch.setenv("EVERTHREAD_MEMORY", "false")

    async def begin() -> str:
        async with Everthread.open(store) as et:
            talk = await et.begin(user="ana", name="Walnuts")
            await talk.append(user("Is a walnut a nut?"))
            return talk.id

    return asyncio.run(begin())


def listed(do: Do, *arguments: str) -> list[dict[str, Any]]:
    done = do("archive", "list", "--json", *arguments)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_conversation_is_archived_listed_verified_and_restored(do: Do, begun: str, tmp_path: Path) -> None:
    assert "No archived conversations" in do("archive").output
    assert begun in do("archive", begun).output
    assert "Walnuts" in do("archive").output
    assert [one["conversation"] for one in listed(do, "--query", "walnut")] == [begun]
    assert listed(do, "--query", "peanut") == listed(do, "--offset", "1") == listed(do, "--user", "bob") == []
    assert "All archives can be restored." in do("archive", "verify").output
    assert json.loads(do("restore", begun, "--json").stdout) == {"conversation": begun}
    assert listed(do) == []
    assert "There is no archived conversation" in do("restore", begun).output


def test_what_is_bad_is_told_with_an_exit_code(do: Do, begun: str, tmp_path: Path) -> None:
    do("archive", begun)
    (file,) = (tmp_path / "talk.db.archives").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    done = do("archive", "verify")
    assert done.exit_code == 1
    assert "damaged" in done.output
    as_json = do("archive", "verify", "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)[0]["conversation"]) == (1, begun)
    refused = do("show", begun)
    assert refused.exit_code == 1
    assert "damaged" in refused.output


def test_showing_an_archived_conversation_restores_it(do: Do, begun: str) -> None:
    do("archive", begun)
    assert "Is a walnut a nut?" in do("show", begun).output
    assert listed(do) == []


def test_idle_conversations_are_archived_and_counted(do: Do, begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "0 conversations archived." in do("archive", "--idle").output
    monkeypatch.setenv("EVERTHREAD_ARCHIVE_AFTER", "0.01")
    later = 86_400_000_000
    from everthread.store import log

    now = log.now
    monkeypatch.setattr(log.Log, "_time", lambda self: now() + later)
    done = do("archive", "--idle")
    assert f"{begun}: archived" in done.output
    assert "1 conversation archived." in done.output
    for wrong in ([begun, "--idle"], ["list", "--idle"], ["--idle", "--limit", "1"], ["verify", "--query", "nut"]):
        assert do("archive", *wrong).exit_code == 2, wrong


def test_a_name_or_the_beginning_of_an_id_is_enough(do: Do, begun: str) -> None:
    assert begun in do("archive", "Walnuts").output
    do("restore", begun)
    assert begun in do("archive", begun[:20].lower()).output


def test_where_all_is_archived_that_is_said(do: Do, begun: str) -> None:
    assert "everthread archive" not in do("conversations", "--user", "bob").output
    do("archive", begun)
    for command in (["conversations"], ["show"], ["recall", "walnut"]):
        assert "`everthread archive` lists those that are archived" in " ".join(do(*command).output.split())
    assert "have any of these words" in do("archive", "--query", "peanut").output


@pytest.mark.parametrize("form", ["jsonl", "html", "markdown", "openai", "anthropic"])
def test_an_export_of_all_has_what_is_archived_in_every_form(do: Do, begun: str, tmp_path: Path, form: str) -> None:
    do("archive", begun)
    out = tmp_path / "all"
    done = do("export", "--all", "--format", form, "-o", str(out))
    assert "Exported 1 conversation" in done.output
    assert "Is a walnut a nut?" in out.read_text()
