"""MCP servers, as real processes: their tools are offered and run like any others, and may fail as processes do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.validator import refusals
from everthread import Everthread, tool_call, user
from everthread.core.events import ToolResult
from everthread.core.parts import File, Image, Text
from everthread.errors import BadSetting, BadTool, MissingExtra, UnknownSeq
from everthread.testing.scripted import call, script
from everthread.tools import McpServer, Toolbox
from everthread.tools.mcp_servers import Listed, names_for
from tests.tools.serving import ROOT, free_port, http
from tests.waiting import PATIENCE, until

MODELS = ["openai:gpt-4o", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-6", "google:gemini-2.5-flash"]


def small(**more: Any) -> McpServer:
    return McpServer([sys.executable, "-m", "tests.tools.mcp_server"], **{"name": "small", "cwd": ROOT, **more})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that all tests of this file may call, but none may end: starting one takes a second."""
    with http(port := free_port()):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture
def far(url: str) -> McpServer:
    return McpServer(url=url, name="far")


@pytest.fixture
async def box(far: McpServer) -> AsyncIterator[Toolbox]:
    async with Toolbox([far]) as opened:
        yield opened


async def ran(box: Toolbox, name: str, /, **arguments: Any) -> ToolResult:
    return await box.run(tool_call(name, arguments), None, seconds=PATIENCE)


def text_of(result: ToolResult) -> str:
    return "|".join(part.text for part in result.parts if isinstance(part, Text))


# -- what is offered ---------------------------------------------------------------------------------------


async def test_a_servers_tools_are_offered_as_every_provider_takes_them(box: Toolbox, tmp_path: Path) -> None:
    offered = {tool.name: tool for tool in box.offered}
    assert list(offered) == sorted(offered)
    assert offered["add"].description == "Adds two numbers."
    assert offered["add"].schema["properties"]["a"] == {"type": "integer", "description": "The first."}
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    }
    assert offered["mirror"].schema["properties"] == {"point": point, "other": point}
    assert "look_up_now" in offered
    assert not [name for name in offered if "weigh" in name]  # no provider would take its argument
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("Hello."))
        for model in MODELS:
            assert refusals(model, (await talk.context(model=model, tools=box.offered)).request) == []


def test_names_that_clash_get_their_servers_name_before_them() -> None:
    one, other = McpServer(["one"], name="one"), McpServer(["other"], name="other")
    listed: dict[McpServer, tuple[Listed, ...]] = {
        one: (Listed(name="find"), Listed(name="a.b"), Listed(name="own")),
        other: (Listed(name="find"), Listed(name="a/b"), Listed(name="1st"), Listed(name="x" * 80)),
    }
    named = list(names_for(listed, taken={"own", "other_find"}))
    found = [(name, server.name, tool.name) for name, server, tool in named]
    assert found == [
        ("one_find", "one", "find"),
        ("one_a_b", "one", "a.b"),
        ("one_own", "one", "own"),
        ("other_find_2", "other", "find"),
        ("other_a_b", "other", "a/b"),
        ("_1st", "other", "1st"),
        ("x" * 64, "other", "x" * 80),
    ]


async def test_own_tools_keep_their_names(far: McpServer) -> None:
    def add(n: int) -> str:
        return "our own"

    async with Toolbox([far, add]) as box:
        assert text_of(await ran(box, "add", n=1)) == "our own"
        assert text_of(await ran(box, "far_add", a=1)) == "3"


async def test_a_view_finds_the_tools_of_a_server_once_it_is_open(far: McpServer) -> None:
    whole = Toolbox([far])
    view = whole.only(["add"])
    assert not view.offered
    assert await view.open() == ()
    try:
        assert [tool.name for tool in view.offered] == ["add"]
    finally:
        await whole.close()


async def test_a_toolbox_inside_another_is_opened_with_it_and_left_open(far: McpServer, url: str) -> None:
    inside = Toolbox([far])
    outside = Toolbox([inside.only(["add", "gone"]), McpServer(url=url, name="other")])
    (problem,) = await outside.open()
    assert "'gone'" in problem
    names = [tool.name for tool in outside.offered]
    assert {"add", "other_add", "mirror"} <= set(names)
    assert text_of(await ran(outside, "add", a=1)) == "3"
    await outside.close()
    left = far.is_open
    await inside.close()
    assert (left, far.is_open, inside.offered) == (True, False, ())


# -- letting go --------------------------------------------------------------------------------------------


def processes() -> int:
    """How many servers this process has started that still live; not the one that is served over HTTP."""
    listed = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    return sum(line.rstrip().endswith("tests.tools.mcp_server") for line in listed.stdout.splitlines())


async def test_a_server_that_was_given_for_one_turn_ends_with_it(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone)
    model = script("adder", [call("add", {"a": 1})], "Three.")
    assert str(await talk.say("Add 1.", model=model, tools=[small()])) == "Three."
    assert processes() == 0
    await talk.context(model=model, tools=[small()])
    await talk.steps(model=model, tools=[small()])
    await talk.count(model=model, tools=[small()])
    assert processes() == 0
    await talk.append(user("Hello."))
    with pytest.raises(BadSetting):
        await talk.context(model=model, tools=[small()], settings={"budget": -1})
    with pytest.raises(UnknownSeq):
        await talk.context(model=model, tools=[small()], at=10_000)
    with pytest.raises(BadTool):
        await talk.approve(model=model, tools=[small(), lambda: 1])
    assert processes() == 0


async def test_a_server_that_two_turns_share_ends_with_the_later_one(et: Everthread, someone: str) -> None:
    """Though the other one has opened it."""
    server, began, go_on = small(), [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]

    async def saying(number: int) -> str:
        async def wait() -> None:
            began[number].set()
            await go_on[number].wait()

        talk = await et.begin(user=someone)
        model = script(f"sharing-{number}", [call("wait", {})], [call("add", {"a": 1})], "Added.")
        return str(await talk.say("Wait, then add.", model=model, tools=[server, wait]))

    turns = []
    for number in (0, 1):
        turns.append(asyncio.create_task(saying(number)))
        await began[number].wait()
    for number, left in ((0, 1), (1, 0)):
        go_on[number].set()
        assert await turns[number] == "Added."
        assert processes() == left


async def test_a_server_that_was_open_before_stays_so(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone)
    async with small() as server:
        assert str(await talk.say("Hello.", model=script("hello", "Hello."), tools=[server])) == "Hello."
        assert processes() == 1
    assert processes() == 0


# -- running -----------------------------------------------------------------------------------------------


async def test_what_a_server_gives_becomes_parts(box: Toolbox) -> None:
    assert text_of(await ran(box, "add", a=1, b=4)) == "5"
    assert text_of(await ran(box, "look_up_now", what="it")) == "looked up it"
    assert '"x": -1' in text_of(await ran(box, "mirror", point={"x": 1, "y": 2}))
    assert text_of(await ran(box, "mixed")) == "first|a note|page: https://example.org/page"
    (picture,) = (await ran(box, "picture")).parts
    assert isinstance(picture, Image)
    assert (picture.media_type, picture.width, picture.height) == ("image/png", 3, 4)


async def test_rarer_things_become_parts_as_well(box: Toolbox) -> None:
    assert text_of(await ran(box, "structured")) == '{"n":1}'
    assert text_of(await ran(box, "silent")) == "(no output)"
    sound, blob, broken = (await ran(box, "media")).parts
    assert isinstance(sound, File)
    assert isinstance(blob, File)
    assert (sound.media_type, sound.data) == ("audio/wav", b"RIFF")
    assert (blob.media_type, blob.name, blob.data) == ("application/octet-stream", "blob:1", b"\0\1")
    assert isinstance(broken, Text)
    assert "cannot be read" in broken.text


async def test_what_fails_in_a_server_is_an_error_result(box: Toolbox) -> None:
    failed = await ran(box, "fails")
    assert failed.error
    assert "fails" in text_of(failed)
    wrong = await ran(box, "add", a="many")
    assert wrong.error
    assert "valid integer" in text_of(wrong)
    assert text_of(await ran(box, "add", a=1)) == "3"


async def test_several_tool_calls_run_at_once(box: Toolbox) -> None:
    """The slow one has not ended when the others have."""
    slow = asyncio.create_task(ran(box, "slow", seconds=60.0))
    results = await asyncio.gather(*(ran(box, "add", a=n) for n in range(5)))
    assert [text_of(result) for result in results] == ["2", "3", "4", "5", "6"]
    assert not slow.done()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_a_tool_whose_time_is_up_is_stopped_in_the_server_too(box: Toolbox) -> None:
    stopped = int(text_of(await ran(box, "stopped")))
    result = await box.run(tool_call("slow", {"seconds": 60}), None, seconds=2)
    assert text_of(result) == "The tool did not end within 2 s."

    async def has_stopped() -> bool:
        return int(text_of(await ran(box, "stopped"))) == stopped + 1

    await until(has_stopped)  # over HTTP the server learns of it a moment later


async def test_approval_may_be_asked_for_some_of_its_tools(url: str) -> None:
    async with Toolbox([McpServer(url=url, approval=["dies"])]) as box:
        assert box.needs_approval(tool_call("dies"))
        assert not box.needs_approval(tool_call("add", {"a": 1}))


# -- processes ---------------------------------------------------------------------------------------------


async def test_a_program_is_given_its_own_variables_and_ends_with_the_toolbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "secret")
    async with Toolbox([small(env={"THEIR_KEY": "$OUR_KEY!"})]) as box:
        assert text_of(await ran(box, "variable", name="THEIR_KEY")) == "secret!"
        assert text_of(await ran(box, "variable", name="OUR_KEY")) == "(not set)"
        stopped = await box.run(tool_call("slow", {"seconds": 60}), None, seconds=2)
        assert text_of(stopped) == "The tool did not end within 2 s."
        assert text_of(await ran(box, "stopped")) == "1"
        pid = int(text_of(await ran(box, "process")))
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_that_dies_is_an_error_result_and_comes_back_at_the_next_call() -> None:
    """In the middle of tool calls, and between two."""
    async with Toolbox([small()]) as box:
        first = text_of(await ran(box, "process"))
        waiting = [asyncio.create_task(ran(box, "slow", seconds=60)) for _ in range(3)]
        died = await ran(box, "dies")
        assert died.error
        assert "small failed" in text_of(died)
        assert [result.error for result in await asyncio.gather(*waiting)] == [True] * 3
        numbers = [text_of(one) for one in await asyncio.gather(*(ran(box, "process") for _ in range(3)))]
        assert len(set(numbers)) == 1
        assert numbers[0] != first
        os.kill(int(numbers[0]), signal.SIGKILL)
        await ran(box, "process")  # which may be the one to find out
        again = await ran(box, "process")
        assert not again.error
        assert text_of(again) not in (first, numbers[0])


async def test_a_server_over_http_may_restart() -> None:
    port = free_port()
    box = Toolbox([McpServer(url=f"http://127.0.0.1:{port}/mcp", name="far")])
    with http(port):
        assert await box.open() == ()
        assert text_of(await ran(box, "add", a=1)) == "3"
        assert (await ran(box, "dies")).error
        gone = await ran(box, "add", a=1)
        assert gone.error
        assert "far" in text_of(gone)
    with http(port):
        assert text_of(await ran(box, "add", a=1)) == "3"
        await box.close()


# -- opening and closing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "words"),
    [
        pytest.param(McpServer(["/nowhere/server"]), ["'server'", "No such file"], id="no such program"),
        pytest.param(
            McpServer([sys.executable, "-c", "import sys; sys.exit('I have no key.')"], name="sad", seconds=PATIENCE),
            ["'sad'", "it said: I have no key."],
            id="it ends at once",
        ),
        pytest.param(
            McpServer([sys.executable, "-c", "import sys; sys.stdin.read()"], name="dumb", seconds=0.3),
            ["'dumb'", "did not answer within 0.3 s"],
            id="it says nothing",
        ),
        pytest.param(McpServer(url="http://127.0.0.1:9/mcp", name="far"), ["'far'", "connection"], id="nobody there"),
        pytest.param(
            McpServer(["x"], name="poor", env={"K": "$NOT_SET"}), ["'poor'", "NOT_SET is not set"], id="no key"
        ),
        pytest.param(McpServer(["x"], name="odd", env={"K": "5$"}), ["'odd'", "write $$"], id="a lone $"),
    ],
)
async def test_a_server_that_cannot_be_used_is_told_of_and_the_others_go_on(
    server: McpServer, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.tools.mcp_sessions.LAST_WORDS", PATIENCE)  # on a busy machine, too

    def own() -> str:
        return "here"

    box = Toolbox([server, own])
    (problem,) = await box.open()
    assert [word for word in words if word not in problem] == [], problem
    assert await box.open() == (problem,)
    assert [tool.name for tool in box.offered] == ["own"]
    assert text_of(await ran(box, "own")) == "here"
    await box.close()


async def test_a_server_that_was_open_before_stays_open(far: McpServer) -> None:
    async with far as server:
        box = Toolbox([server])
        await box.open()
        await box.close()
        assert server.is_open
        parts, error = await server.call("add", {"a": 1})
        assert (parts, error) == ((Text(text="3"),), False)
    assert not server.is_open


async def test_opening_may_be_cancelled() -> None:
    server = McpServer([sys.executable, "-c", "import sys; sys.stdin.read()"], name="dumb")
    opening = asyncio.create_task(server.open())
    await asyncio.sleep(0.5)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not server.is_open


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"command": "npx server"}, "a list of words", id="a command as one text"),
        pytest.param({}, "either a command or a url", id="neither"),
        pytest.param({"command": ["x"], "url": "https://x"}, "either a command or a url", id="both"),
    ],
)
def test_a_server_has_a_command_or_a_url(given: Any, words: str) -> None:
    with pytest.raises(BadTool, match=words):
        McpServer(**given)


MISSING = """
import asyncio, sys
from everthread.errors import MissingExtra
from everthread.tools import McpServer, Toolbox

sys.modules["mcp"] = None
try:
    asyncio.run(Toolbox([McpServer(["x"])]).open())
except MissingExtra as problem:
    print(problem)
"""


def test_without_the_package_it_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == str(MissingExtra("mcp"))


def test_the_sdk_is_imported_only_when_a_server_is_opened() -> None:
    looking = "import sys, everthread.tools; print(sorted({'mcp', 'anyio', 'pydantic', 'httpx2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "[]"
