"""The settings that a store is opened with: they stand beside those of the file and the environment, and win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everthread import BadSetting, Everthread, Explanation

OPENED = "the settings that the store was opened with"


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file, and a setting in the environment."""
    file = tmp_path / "config.toml"
    file.write_text("[settings]\nbudget = 5_000\nreply_tokens = 900\n", "utf-8")
    monkeypatch.setenv("EVERTHREAD_CONFIG", str(file))
    monkeypatch.setenv("EVERTHREAD_REPLY_TOKENS", "700")
    return file


async def explained(folder: Path, **given: Any) -> Explanation:
    async with Everthread.open(f"sqlite:///{folder}/talk.db", **given) as et:
        context = await (await et.begin(user="ana")).context(model="openai:gpt-5")
        return context.explain()


async def test_settings_given_stand_beside_those_of_file_and_environment(around: Path, tmp_path: Path) -> None:
    about = await explained(tmp_path, settings={"step": 0.25})
    assert {name: about.settings[name] for name in ("budget", "reply_tokens", "step")} == {
        "budget": 5_000,
        "reply_tokens": 700,
        "step": 0.25,
    }
    assert [about.source_of[name] for name in ("budget", "reply_tokens", "step")] == [
        f"the file {around}",
        "the environment (EVERTHREAD_REPLY_TOKENS)",
        OPENED,
    ]


async def test_settings_given_win(around: Path, tmp_path: Path) -> None:
    about = await explained(tmp_path, settings={"budget": 6_000, "reply_tokens": 300})
    assert (about.settings["budget"], about.settings["reply_tokens"]) == (6_000, 300)
    assert {about.source_of["budget"], about.source_of["reply_tokens"]} == {OPENED}


async def test_without_the_environment_file_and_variables_do_not_hold(around: Path, tmp_path: Path) -> None:
    around.write_text("no TOML at all", "utf-8")
    about = await explained(tmp_path, settings={"step": 0.25}, environment=False)
    assert {name: source for name, source in about.source_of.items() if source != "the default"} == {
        "model": about.source_of["model"],
        "step": OPENED,
    }


async def test_a_bad_value_around_is_told_with_its_source(
    around: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERTHREAD_RETRIES", "many")
    with pytest.raises(BadSetting, match=r"in the environment \(EVERTHREAD_RETRIES\)"):
        await explained(tmp_path, settings={"step": 0.25})
