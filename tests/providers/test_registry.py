"""What is known of each provider, and that a new one is one folder and one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from everthread.config import PROVIDERS, check
from everthread.providers.models import model
from everthread.providers.registry import provider, providers

PACKAGE = Path(str(files("everthread")))

# A whole provider, as CONTRIBUTING.md ("Adding a provider") has it. It needs no SDK, and says everything in capitals.
FOLDER = {
    "__init__.py": """
from everthread.providers.registry import Provider

ABOUT = Provider(name="shouting", keys=("SHOUTING_API_KEY",), default_model="shouting:loud")
""",
    "request.py": """
from everthread.providers.base import Rendered

def render(request, model, media):
    said = [part.text for item in request.items for part in item.parts]
    return Rendered({"model": request.model, "said": said})

def check(body):
    return []
""",
    "client.py": """
from contextlib import asynccontextmanager

from everthread.core.deltas import TextDelta, Usage
from everthread.core.events import assistant
from everthread.providers.client import Replied

class Shouting:
    def __init__(self, access):
        self.key = access.key

    @asynccontextmanager
    async def reply(self, body):
        yield self.pieces(f"{body['said'][-1].upper()} ({self.key})")

    async def pieces(self, text):
        yield TextDelta(text=text)
        yield Replied(events=(assistant(text),), usage=Usage(input=1, output=1), finish="stop")

    async def count(self, body):
        return None

    async def close(self):
        pass

connect = Shouting
""",
}
PROGRAM = """
import asyncio, everthread

async def main():
    async with everthread.Everthread.open("sqlite:///talks.db") as ever:
        talk = await ever.conversation(user="anna")
        print("".join([str(delta) async for delta in talk.say("hello", settings={"clock": "off"})]))
asyncio.run(main())
"""


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_that_settings_accept_is_known_and_can_be_called(name: str) -> None:
    known = provider(name)
    assert known.name == name
    assert callable(known.client())
    assert callable(known.request_form().render)
    assert callable(known.request_form().check)


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_models_that_a_provider_names_are_its_own_and_well_known(name: str) -> None:
    for named in filter(None, (provider(name).default_model, provider(name).small_model)):
        assert check("model", named, "the registry") == named
        assert (model(named).provider, model(named).known, model(named).guessed) == (name, True, False)


def test_there_is_no_folder_that_settings_do_not_accept() -> None:
    folders = {path.parent.relative_to(PACKAGE / "providers") for path in (PACKAGE / "providers").rglob("client.py")}
    assert {"-".join(folder.parts) for folder in folders} - {""} == set(PROVIDERS)
    assert [known.name for known in providers()] == list(PROVIDERS)


def test_what_is_known_of_providers_is_asked_without_any_sdk() -> None:
    program = """
import sys
from everthread.providers.registry import providers
forms = [known.request_form() for known in providers()]
print(sorted({"anthropic", "openai", "google.genai", "httpx2", "xllamacpp"} & set(sys.modules)))
"""
    assert _run(program, PACKAGE.parent, PACKAGE.parent) == "[]"


def test_a_new_provider_is_one_folder_and_one_line(tmp_path: Path) -> None:
    copied = shutil.copytree(PACKAGE, tmp_path / "everthread", ignore=shutil.ignore_patterns("__pycache__"))
    config = (copied / "config.py").read_text("utf-8")
    (line,) = [line for line in config.splitlines() if line.startswith("PROVIDERS = ")]
    (copied / "config.py").write_text(config.replace(line, f'{line[:-1]}, "shouting")'), "utf-8")
    (copied / "providers" / "shouting").mkdir()
    for name, text in FOLDER.items():
        (copied / "providers" / "shouting" / name).write_text(text, "utf-8")
    assert _run(PROGRAM, tmp_path, tmp_path, SHOUTING_API_KEY="k-1") == "HELLO (k-1)"


def _run(program: str, package: Path, folder: Path, **environ: str) -> str:
    environ = {"PYTHONPATH": str(package), "HOME": str(folder), "EVERTHREAD_SERVERS": "", **environ}
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
