"""Programs that know nothing of how the service runs: without await, on the command line, and those of the docs."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from everthread import app, sync
from everthread.cli import main
from everthread.client.sync import Everthread
from everthread.core.deltas import TextDelta
from everthread.errors import Forbidden, KeyRefused
from everthread.sync.thread import LoopThread
from everthread.testing.scripted import script
from tests.client.serving import Served, serving
from tests.docs.test_examples import blocks

ROOT = Path(__file__).parents[2]


class Beside:
    """A service in a thread of its own."""

    def __init__(self, address: str, key: str) -> None:
        self.address, self.key = address, key


@contextmanager
def serving_beside(store: str, user: str) -> Iterator[Beside]:
    thread, told, end = LoopThread(), list[Beside](), asyncio.Event()

    async def serve() -> None:
        options: Any = {"settings": {"model": f"scripted:{user}", "memory": False}, "keys": {}}
        async with app.Everthread.open(store, **options) as et, serving(et) as served:
            told.append(Beside(served.address, await served.key(user)))
            ready.set()
            await end.wait()

    ready = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def begin() -> None:
        tasks.append(asyncio.create_task(serve()))
        await asyncio.wait({tasks[0], asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)

    async def finish() -> None:
        end.set()
        await tasks[0]

    thread.run(begin)
    try:
        yield told[0]
    finally:
        thread.run(finish)
        thread.close()


@pytest.fixture
def beside(address: str, someone: str) -> Iterator[Beside]:
    with serving_beside(address, someone) as found:
        yield found


def test_the_client_without_await(beside: Beside, someone: str) -> None:
    script(someone, "No walnuts, then.", "Of course.")
    with Everthread.open(beside.address, key=beside.key) as et:
        assert isinstance(et, sync.Everthread)
        assert et.caller.user == someone
        talk = et.conversation(user=someone, agent="helper")
        assert isinstance(talk, sync.Talk)
        told = list(talk.say("What may I put into the cake?"))
        assert "".join(one.text for one in told if isinstance(one, TextDelta)) == "No walnuts, then."
        assert str(talk.say("Sure?").result()) == "Of course."
        assert [one.kind for one, _ in zip(talk.listen(), range(2), strict=False)] == ["user", "assistant"]
        assert talk.fork(name="aside").line().branch.name == "aside"
        with pytest.raises(Forbidden):
            et.begin(user="somebody-else")
    with pytest.raises(KeyRefused):
        Everthread.open(beside.address, key="evk_wrong")


# -- the command line ------------------------------------------------------------------------------------------------


def everthread(*given: str, **environ: str) -> Result:
    return CliRunner().invoke(main, list(given), env={"EVERTHREAD_URL": "", **environ})


def test_commands_ask_the_service_that_is_named(beside: Beside, someone: str) -> None:
    script(someone, "No walnuts, then.")
    there = {"EVERTHREAD_URL": beside.address, "EVERTHREAD_API_KEY": beside.key}
    asked = everthread("ask", "What may I put into the cake?", **there)
    assert (asked.exit_code, asked.stdout.strip()) == (0, "No walnuts, then.")
    [listed] = json.loads(everthread("conversations", "--json", **there).stdout)
    assert listed["user"] == someone
    shown = everthread("show", listed["id"][-6:], "--url", beside.address, EVERTHREAD_API_KEY=beside.key)
    assert "What may I put into the cake?" in shown.stdout
    for command in ("usage", "context", "canvas", "stop", "memory", "children", "agents", "schedules"):
        done = everthread(command, **there)
        assert (done.exit_code, done.stderr) == (0, ""), command
    assert "walnuts" in everthread("recall", "walnuts", **there).stdout
    assert json.loads(everthread("usage", listed["id"], "--since", "2030-01-01", "--json", **there).stdout) == []


@pytest.mark.parametrize("command", ["retention", "doctor", "work", "users"])
def test_a_command_that_needs_the_store_does_not_guess_one_where_a_service_is_named(command: str) -> None:
    done = everthread(command, EVERTHREAD_URL="https://talk.example.com", EVERTHREAD_STORE="")
    assert done.exit_code == 2
    assert f"{command} needs the store itself, and EVERTHREAD_URL names a service: give --store." in done.stderr


def test_what_is_exported_from_a_service_is_imported_elsewhere_and_back(
    beside: Beside, someone: str, tmp_path: Path
) -> None:
    script(someone, "No walnuts, then.", "Of course.")
    there = {"EVERTHREAD_URL": beside.address, "EVERTHREAD_API_KEY": beside.key}
    everthread("ask", "What may I put into the cake?", **there)
    everthread("ask", "--new", "Sure?", **there)
    one, all_of_it = tmp_path / "one.jsonl", tmp_path / "all.jsonl"
    told = everthread("export", "-o", str(one), **there)
    assert (told.exit_code, told.stderr) == (0, "")
    assert "Exported 1 conversation" in told.stdout
    assert everthread("export", **there).stdout == one.read_text()
    said = json.loads(everthread("export", "--all", "-o", str(all_of_it), "--json", **there).stdout)
    assert (said["conversations"], said["lines"]) == (2, len(all_of_it.read_text().splitlines()))
    here = f"sqlite:///{tmp_path}/here.db"
    came = json.loads(everthread("import", str(all_of_it), "--store", here, "--json").stdout)
    assert (len(came["conversations"]), came["users"]) == (2, [someone])
    history = tmp_path / "history.json"
    history.write_text('[{"role": "user", "content": "Hello."}]')
    back = everthread("import", str(history), "--agent", "cook", "--format", "openai", **there)
    assert (back.exit_code, back.stdout) == (0, "Imported 1 conversation, 1 event.\n"), back.stderr
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    refused = everthread("import", str(nothing), **there)
    assert (refused.exit_code, "Nothing was imported." in refused.stderr) == (1, True)
    follow = everthread("export", "--follow", "-o", str(one), **there)
    assert (follow.exit_code, "leave out --url for --follow" in follow.stderr) == (2, True)


def test_the_key_may_stand_in_the_settings_file(beside: Beside, someone: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[keys]\n"{beside.address.removeprefix("http://")}" = "{beside.key}"\n')
    told = everthread("conversations", "--url", beside.address, EVERTHREAD_CONFIG=str(file))
    assert told.exit_code == 0
    assert f"No conversations of '{someone}' at {beside.address}" in told.stdout


def test_what_cannot_be_is_told_in_a_sentence(beside: Beside, tmp_path: Path) -> None:
    refused = everthread("doctor", "--url", beside.address)
    assert (refused.exit_code, "doctor needs the store itself" in refused.stderr) == (2, True)
    both = everthread("show", "--url", beside.address, "--store", "sqlite:///x.db")
    assert (both.exit_code, "give one of them" in both.stderr) == (2, True)
    wrong = everthread("show", "--url", beside.address, EVERTHREAD_API_KEY="evk_wrong")
    assert (wrong.exit_code, "This API key is not known here" in wrong.stderr) == (1, True)
    none = everthread("show", "--url", beside.address, EVERTHREAD_API_KEY="")
    assert (none.exit_code, "wants an API key: set EVERTHREAD_API_KEY" in none.stderr) == (1, True)
    store = f"sqlite:///{tmp_path}/none.db"
    own = everthread("conversations", "--store", store, EVERTHREAD_URL=beside.address)
    assert (own.exit_code, "There is no store" in own.stderr) == (1, True)


# -- the documentation -----------------------------------------------------------------------------------------------


async def test_the_page_about_the_client_does_what_it_says(fresh_address: str, tmp_path: Path) -> None:
    script("page", "Whatever you like, but walnuts.")
    async with (
        app.Everthread.open(fresh_address, settings={"model": "scripted:page", "memory": False}, keys={}) as et,
        serving(et) as served,
    ):
        names: dict[str, Any] = {"url": served.address, "key": await served.key("ana"), "folder": tmp_path}
        for block in blocks("docs/howto/client.md", "python"):
            waiting = eval(compile(block, "client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if waiting is not None:
                await waiting


async def test_the_program_of_the_docs_runs_against_a_service(served: Served, someone: str) -> None:
    environ = {**os.environ, "EVERTHREAD_API_KEY": await served.key(someone)}
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "docs" / "examples" / "client.py"),
        served.address,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await program.communicate()
    assert (program.returncode, out.decode().splitlines()[-1]) == (0, "3 messages are kept.")
