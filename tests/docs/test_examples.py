"""Documentation is run: every Python block of the tutorial and the README does what it says."""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread
from everthread.core.sections import ORDER, SECTIONS
from everthread.jobs.worker import Worker
from tests.postgres_server import Server
from tests.providers.behaviours import BEHAVIOURS
from tests.redis_server import RedisServer
from tests.waiting import WHOLE

ROOT = Path(__file__).parents[2]


PAGES = (
    *("memory", "live", "json", "types", "sync", "yours", "schedules", "canvas", "sub-agents", "accounts", "tenants"),
    *("archive", "transfer"),
)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    ["docs/tutorial.md", *(f"docs/howto/{name}.md" for name in PAGES)],
)
async def test_a_page_does_what_it_says(page: str, fresh_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A reader is quicker than memory, which works beside them; a test on a busy machine may not be.
    monkeypatch.setattr(Worker, "remind", lambda *_: None)
    names: dict[str, Any] = {"address": fresh_address}
    for block in blocks(page, "python"):
        code = compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waiting = eval(code, names)
        if inspect.isawaitable(waiting):
            await waiting


async def test_the_page_about_many_machines_does_what_it_says(postgres: Server, redis: RedisServer) -> None:
    names: dict[str, Any] = {"address": postgres.create_database("machines"), "bus": redis.url}
    (block,) = blocks("docs/howto/many-machines.md", "python")
    await eval(compile(block, "many-machines", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)


def test_the_first_example_of_the_readme_speaks_with_a_model_that_needs_no_key(tmp_path: Path) -> None:
    assert run(blocks("README.md", "python")[0], tmp_path).strip()


def test_the_second_example_of_the_readme_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shown = blocks("README.md", "text")[0]
    printed = run(blocks("README.md", "python")[1], tmp_path)
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()


def test_the_third_example_of_the_readme_makes_tools_that_can_be_offered(tmp_path: Path) -> None:
    """Its last line opens a folder of agents that only its reader has."""
    example = blocks("README.md", "python")[2].rpartition("et = ")[0]
    assert run(f"{example}\nfrom everthread.tools import Toolbox\nprint(Toolbox([weather, book]).offered)", tmp_path)


def run(example: str, folder: Path) -> str:
    """What an example prints on a machine without keys and servers."""
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    environ = {name: value for name, value in os.environ.items() if name not in keys}
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=folder,
        env={**environ, "EVERTHREAD_SERVERS": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=WHOLE,
    )
    return done.stdout


async def test_the_reference_names_every_attribute_of_a_context(fresh_address: str) -> None:
    names = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["CONTEXT"]
    async with Everthread.open(fresh_address) as et:
        context = await (await et.begin(user="ana")).context(model="openai:gpt-5")
    verbs = {"explain", "parse"}
    assert {name for name in dir(context) if not name.startswith("_")} - verbs == set(names)


def test_the_reference_says_of_every_section_what_it_holds() -> None:
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert [name for name, holds in SECTIONS.items() if f"| `{name}` | {holds} |" not in page] == []


def test_no_other_section_comes_into_an_account() -> None:
    """Those of the instructions, and whatever planning, packing and memory put beside them."""
    files = [ROOT / "src/everthread/context" / name for name in ("plan.py", "pack.py", "memory.py", "give_way.py")]
    code = "".join(file.read_text("utf-8") for file in files)
    named = re.findall(r'(?:found\[|sections\[|_tell\()"([a-z ]+)"', code)
    assert {"brief", "form", "opening"} <= set(named)
    assert {*named, *ORDER} - SECTIONS.keys() == {"summary"}  # which is told in the exchange before the window


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/tutorial.md",
        "docs/benchmarks.md",
        "docs/stepped-cutoff.md",
        "docs/decisions/README.md",
        "docs/howto/models.md",
        "docs/howto/tools.md",
        "docs/howto/agents.md",
        "docs/howto/memory.md",
        "docs/howto/live.md",
        "docs/howto/canvas.md",
        "docs/howto/sub-agents.md",
        "docs/howto/accounts.md",
        "docs/howto/sync.md",
        "docs/howto/transfer.md",
        "docs/howto/many-machines.md",
        "docs/howto/types.md",
        "docs/howto/structured-output.md",
    ],
)
def test_links_to_files_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    targets = [t.split("#")[0] for t in re.findall(r"\]\(([^)]+)\)", text) if "://" not in t]
    missing = [t for t in targets if t and not ((ROOT / page).parent / t).exists()]
    assert missing == []


def test_contributing_lists_what_every_provider_must_do() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [behaviour for behaviour in BEHAVIOURS if f"- {behaviour}\n" not in page] == []
