"""The pages about models, tools and agents do what they say."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread
from everthread.config import Source, resolve
from tests.docs.test_examples import blocks
from tests.tools.serving import ROOT, free_port, http


async def run(page: str, names: dict[str, Any]) -> None:
    for block in blocks(page, "python"):
        waiting = eval(compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), names)
        if inspect.isawaitable(waiting):
            await waiting


@pytest.fixture
def url() -> Iterator[str]:
    with http(port := free_port()):
        yield f"http://127.0.0.1:{port}/mcp"


async def test_the_page_about_tools_does_what_it_says(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_KEY", "key")
    names = {
        "address": f"sqlite:///{tmp_path}/talk.db",
        "command": [sys.executable, "-m", "tests.tools.mcp_server"],
        "folder": ROOT,
        "url": url,
    }
    await run("docs/howto/tools.md", names)


async def test_the_page_about_agents_does_what_it_says(tmp_path: Path) -> None:
    (shown,) = blocks("docs/howto/agents.md", "toml")
    assert tomllib.loads(shown)
    folder = tmp_path / "agents"
    (folder / "shop" / "skills").mkdir(parents=True)
    (folder / "shop" / "agent.toml").write_text(shown, "utf-8")
    (folder / "shop" / "persona.md").write_text("You are Ana, and sell cakes.", "utf-8")
    (folder / "shop" / "skills" / "refunds.md").write_text("Refund within 30 days.", "utf-8")
    await run("docs/howto/agents.md", {"address": f"sqlite:///{tmp_path}/talk.db", "folder": folder})


async def test_the_page_about_models_does_what_it_says(tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={}) as et:
        await run("docs/howto/models.md", {"et": et, "talk": await et.begin(user="ana")})
    settings = tomllib.loads(blocks("docs/howto/models.md", "toml")[0])["settings"]
    resolve(Source("the page", settings))


async def test_the_page_about_replies_as_values_does_what_it_says(tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        await run("docs/howto/structured-output.md", {"talk": await et.begin(user="ana")})


def test_the_program_about_replies_as_values_prints_what_it_read() -> None:
    program = [sys.executable, "docs/examples/structured_output.py"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["7 Ana 2.5 False", "No invoice (it is not JSON), but: I see no invoice."], done
