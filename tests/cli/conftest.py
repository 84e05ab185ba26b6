"""What tests of the command line share: a home with nothing in it, a store of their own, and the command itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everthread.cli import main

Do = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: None) -> Path:
    """Nothing of this machine gets into a test: no keys, no servers, no settings, no agents."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "EVERTHREAD_AGENTS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("EVERTHREAD_SERVERS", "")
    return folder


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a command keeps what is said, unless it is told otherwise."""
    address = f"sqlite:///{tmp_path}/talk.db"
    monkeypatch.setenv("EVERTHREAD_STORE", address)
    monkeypatch.setenv("EVERTHREAD_USER", "ana")
    monkeypatch.setenv("COLUMNS", "100")
    return address


@pytest.fixture
def do(store: str) -> Do:
    """Run a command; `input` is what is piped into it."""

    def invoke(*arguments: str, input: str | bytes = "") -> Result:
        return CliRunner().invoke(main, arguments, input=input, catch_exceptions=False)

    return invoke
