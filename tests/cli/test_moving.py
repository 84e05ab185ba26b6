"""`everthread import`, `export`, `mirror` and `retention`, as they are typed."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, assistant, user
from everthread.transfer.mirrored import MirrorFolder
from tests.cli.conftest import Do


@pytest.fixture
def said(store: str) -> str:
    """A conversation of ana's. Its id."""

    async def begin() -> str:
        async with Everthread.open(store) as et:
            talk = await et.begin(user="ana", name="Cake")
            await talk.append(user("Walnuts?"), assistant("**No.**"))
            return talk.id

    return asyncio.run(begin())


def test_the_same_file_is_imported_once(do: Do, tmp_path: Path, store: str) -> None:
    history = tmp_path / "export.zip"
    with zipfile.ZipFile(history, "w") as file:
        file.writestr("conversations.json", json.dumps([{"messages": [{"role": "user", "content": "Hi"}]}]))
    assert "Imported 1 conversation, 1 event." in do("import", str(history)).output
    again = do("import", str(history)).output
    assert "Imported 0 conversations, 0 events. 1 conversation there already." in " ".join(again.split())


@pytest.mark.parametrize(
    ("form", "holds"),
    [
        ("html", "<strong>No.</strong>"),
        ("markdown", "**No.**"),
        ("openai", '"content": "Walnuts?"'),
        ("anthropic", '"messages"'),
    ],
)
def test_an_export_has_the_form_that_is_asked_for(do: Do, said: str, tmp_path: Path, form: str, holds: str) -> None:
    out = tmp_path / "out"
    assert do("export", "--format", form, "-o", str(out)).exit_code == 0
    assert holds in out.read_text()
    assert do("export", "--all", "--format", form).stdout_bytes == out.read_bytes().replace(
        b"<title>Cake</title>", b"<title>ana&#x27;s conversations</title>"
    )


def test_a_whole_store_says_what_it_leaves_out_and_comes_back(do: Do, said: str, tmp_path: Path) -> None:
    out, new = tmp_path / "store.jsonl", f"sqlite:///{tmp_path}/new.db"
    done = do("export", "--whole-store", "-o", str(out))
    assert done.exit_code == 0
    assert "Left out: passwords" in done.stderr
    assert "Left out" not in do("export", "--whole-store", "--secrets", "-o", str(tmp_path / "all.jsonl")).stderr
    assert do("export", "--whole-tenant", "-o", str(tmp_path / "tenant.jsonl")).exit_code == 0
    assert json.loads(do("import", str(out), "--store", new, "--json").output)["conversations"] == [said]
    assert "All is well." in do("doctor", "--store", new).output


@pytest.mark.parametrize(
    "wrong",
    [
        ("--whole-store", "--format", "html"),
        ("--secrets",),
        ("--all", "--whole-store"),
        ("--branch", "main"),
        ("x", "--all"),
    ],
)
def test_what_does_not_go_together_is_refused(do: Do, said: str, wrong: tuple[str, ...]) -> None:
    assert do("export", *wrong).exit_code == 2


def test_a_mirror_is_kept_told_of_and_rebuilt_from(do: Do, said: str, tmp_path: Path, store: str) -> None:
    folder, new = str(tmp_path / "mirror"), f"sqlite:///{tmp_path}/new.db"
    assert "No folder mirrors" in do("mirror", "status").output
    assert json.loads(do("mirror", "keep", folder, "--once", "--json").output)["lines"] == 3
    assert "0 lines added" in do("mirror", "keep", folder, "--once").output
    (state,) = json.loads(do("mirror", "status", "--json").output)
    assert (state["folder"], state["conversations"], state["owed"]) == (folder, 1, 0)
    assert "1 conversation" in " ".join(do("mirror", "status").output.split())
    assert "Rebuilt 1 conversation, 2 events." in do("mirror", "rebuild", folder, "--store", new).output
    assert "1 conversation there already" in " ".join(do("import", folder, "--store", new).output.split())
    assert do("mirror", "rebuild", str(tmp_path), "--store", new).exit_code == 2
    assert do("mirror", "forget", "nothing").exit_code == 1
    assert do("mirror", "forget", state["mark"][:8]).exit_code == 0
    assert json.loads(do("mirror", "status", "--json").output) == []


def test_a_folder_that_another_keeps_is_said(
    do: Do, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    held = MirrorFolder(tmp_path / "mirror")
    held.open()
    failed = do("mirror", "keep", str(tmp_path / "mirror"), "--once")
    held.close()
    assert failed.exit_code == 1
    assert "no other process" in failed.stderr


def test_retention_is_looked_at_before_it_is_done(
    do: Do, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*more: str) -> Any:
        return json.loads(do("retention", "--json", *more).output)

    assert told("--dry-run") == []
    assert told("--tenant", "default", "--set", "30") == {"tenant": "default", "days": 30.0}
    assert told("--dry-run") == []
    assert "erased after 1e-08 idle days" in do("retention", "--set", "0.00000001").output
    monkeypatch.setattr("everthread.store.log.now", lambda: 4_000_000_000_000_000)
    assert "never erased" in do("retention", "--set", "default").output
    assert do("retention", "--set", "soon").exit_code == 1
    assert "0 conversations erased" in do("retention").output


def test_what_an_export_tells_as_json_is_true_of_every_kind(do: Do, said: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert json.loads(do("export", "--json", "-o", out).stdout) == {"file": out, "conversations": 1, "lines": 3}
    page = do("export", "--json", "--format", "html", "-o", out)
    assert json.loads(page.stdout) == {"file": out, "conversations": 1}
    assert set(json.loads(do("export", "--json", "--whole-store", "-o", out).stdout)) == {"file", "lines"}


def test_a_dry_run_sets_nothing_and_a_bad_setting_is_told(do: Do, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert do("retention", "--set", "5", "--dry-run").exit_code == 2
    monkeypatch.setenv("EVERTHREAD_RETENTION", "soon")
    done = do("retention", "--dry-run")
    assert done.exit_code == 1
    assert "EVERTHREAD_RETENTION" in done.output
