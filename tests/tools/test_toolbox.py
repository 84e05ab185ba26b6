"""The toolbox offers tools in one order and runs them: whatever happens, a result comes of it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, Talk, canvas_tools, tool_call
from everthread.core.events import ToolCall, ToolResult
from everthread.core.parts import Image, Text
from everthread.core.request import Tool
from everthread.errors import BadTool
from everthread.tools import Toolbox, tool
from tests.core.pictures import png
from tests.waiting import PATIENCE

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


def double(n: int) -> int:
    """Twice as much."""
    return 2 * n


async def triple(n: int) -> int:
    """Three times as much."""
    await asyncio.sleep(0)
    return 3 * n


class Halving:
    """A tool as an object."""

    name = "halve"
    description = "Half as much."
    schema = SCHEMA
    approval = True

    async def execute(self, arguments: dict[str, Any]) -> float:
        return float(arguments["n"]) / 2


async def ran(tools: list[Any], call: ToolCall, *, talk: Any = None, seconds: float = PATIENCE) -> ToolResult:
    result = await Toolbox(tools).run(call, talk, seconds=seconds)
    assert (result.id, result.name) == (call.id, call.name)
    return result


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.parts if isinstance(part, Text))


# -- what is offered ---------------------------------------------------------------------------------------


def test_tools_are_offered_in_the_order_of_their_names() -> None:
    plain = {"name": "add", "description": "Adds.", "schema": SCHEMA, "execute": lambda arguments: 1}
    offered = Toolbox([triple, Halving(), double, plain]).offered
    assert [found.name for found in offered] == ["add", "double", "halve", "triple"]
    assert offered[1] == Tool(name="double", description="Twice as much.", schema=offered[1].schema)
    assert offered[1].schema["properties"] == {"n": {"type": "integer"}}


def test_a_tool_may_come_in_a_providers_form_with_what_runs_it() -> None:
    given = {"name": "f", "input_schema": SCHEMA, "execute": lambda arguments: arguments["n"]}
    assert Toolbox([given]).offered == (Tool(name="f", schema=SCHEMA),)


def test_what_is_said_of_a_function_wins_over_what_it_says_itself() -> None:
    (offered,) = Toolbox([tool(double, name="two", description="Two.")]).offered
    assert (offered.name, offered.description) == ("two", "Two.")


def test_a_decorated_function_is_still_a_function() -> None:
    @tool
    def once(n: int) -> int:
        return n

    class Shop:
        much = 3

        @tool(name="sell")
        def sell_it(self, n: int) -> int:
            """Sells."""
            return n * self.much

    assert (once(2), Shop().sell_it(2), Shop.sell_it(Shop(), 3)) == (2, 6, 9)
    names = {found.name: list(found.schema["properties"]) for found in Toolbox([once, Shop().sell_it]).offered}
    assert names == {"once": ["n"], "sell": ["n"]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param([double, tool(triple, name="double")], ["'double'", "another of this name"], id="twice"),
        pytest.param([lambda n: n], ["no name", "tool(…, name=…)"], id="no name"),
        pytest.param([tool(double, name="a b")], ["'a b'", "a to z, digits"], id="a name with a space"),
        pytest.param(5, ["cannot be run", "give a function"], id="no list"),
        pytest.param([5], ["cannot be run", "give a function"], id="a number"),
        pytest.param([int], ["cannot be run", "give a function"], id="a class"),
        pytest.param([Tool(name="f")], ["'f'", "cannot be run"], id="nothing that runs it"),
        pytest.param([{"name": "f"}], ["'f'", "no execute"], id="no execute"),
        pytest.param([{"name": "f", "execute": print, "schem": {}}], ["unknown field `schem`"], id="misspelt"),
        pytest.param([tool(double, seconds=0)], ["seconds", "above 0"], id="no time"),
        pytest.param([{"name": "f", "execute": len, "approval": "yes"}], ["approval", "true, false"], id="approval"),
    ],
)
def test_what_is_no_tool_is_refused_in_words(given: Any, words: list[str]) -> None:
    with pytest.raises(BadTool) as refused:
        Toolbox(given)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("one", [double, tool(double), {"name": "double", "execute": print}], ids=["f", "tool", "dict"])
def test_one_tool_needs_no_list(one: Any) -> None:
    assert [found.name for found in Toolbox(one).offered] == ["double"]


async def test_a_view_offers_and_runs_only_what_was_named() -> None:
    whole = Toolbox([double, triple])
    view = whole.only(["double"])
    assert [found.name for found in view.offered] == ["double"]
    assert whole.only(["*"]).offered == whole.offered
    assert whole.only([]).offered == ()
    assert (await view.run(tool_call("triple", {"n": 1}), None, seconds=1)).error
    assert text_of(await view.run(tool_call("double", {"n": 1}), None, seconds=1)) == "2"


async def test_a_view_says_what_it_does_not_find() -> None:
    view = Toolbox([double]).only(["double", "fly"])
    assert await view.open() == ("The tool 'fly' cannot be used: there is no such tool; there are: double.",)


def test_a_toolbox_may_be_made_of_others() -> None:
    found = Toolbox([Toolbox([double, triple]).only(["triple"]), Halving()]).offered
    assert [one.name for one in found] == ["halve", "triple"]
    with pytest.raises(BadTool, match="another of this name"):
        Toolbox([Toolbox([double]), double])


# -- running -----------------------------------------------------------------------------------------------


def letters() -> Iterator[str]:
    yield from "abc"


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2


def later() -> Any:
    async def work() -> str:
        return "later"

    return work()


@pytest.mark.parametrize(
    ("given", "call", "text"),
    [
        pytest.param(double, tool_call("double", {"n": 4}), "8", id="a function"),
        pytest.param(triple, tool_call("triple", {"n": 4}), "12", id="a coroutine"),
        pytest.param(Halving(), tool_call("halve", {"n": 4}), "2.0", id="an object"),
        pytest.param({"name": "f", "execute": dict}, tool_call("f", {"n": 1}), '{"n":1}', id="a mapping"),
        pytest.param(letters, tool_call("letters"), "abc", id="a generator"),
        pytest.param(letters, tool_call("letters", ""), "abc", id="no arguments at all"),
        pytest.param(numbers, tool_call("numbers"), "[1,2]", id="an asynchronous generator"),
        pytest.param(later, tool_call("later"), "later", id="a function that gives a coroutine"),
    ],
)
async def test_a_tool_is_run_and_gives_a_result(given: Any, call: ToolCall, text: str) -> None:
    result = await ran([given], call)
    assert (text_of(result), result.error) == (text, False)


async def test_a_picture_is_a_result() -> None:
    def draw() -> bytes:
        return png(3, 4)

    (part,) = (await ran([draw], tool_call("draw"))).parts
    assert isinstance(part, Image)
    assert (part.width, part.height) == (3, 4)


async def test_a_tool_is_given_the_conversation_it_belongs_to(tmp_path: Path) -> None:
    def whose(talk: Talk) -> str:
        return talk.conversation.user

    def of_arguments(arguments: dict[str, Any], talk: Talk) -> str:
        return talk.conversation.user

    given = [whose, {"name": "other", "execute": of_arguments}]
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        for name in ("whose", "other"):
            assert text_of(await ran(given, tool_call(name), talk=talk)) == "ana"


async def test_a_plain_function_does_not_hold_up_the_others() -> None:
    """Two that wait for each other can only end when both run at once."""
    both = threading.Barrier(2)

    def meet() -> str:
        both.wait(timeout=PATIENCE)
        return "met"

    box = Toolbox([meet])
    results = await asyncio.gather(*(box.run(tool_call("meet"), None, seconds=PATIENCE) for _ in range(2)))
    assert [text_of(result) for result in results] == ["met", "met"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_tool_sees_the_callers_context_variables_and_cannot_change_them(asynchronous: bool) -> None:
    def where() -> str:
        found = place.get()
        place.set("elsewhere")
        return found

    async def where_async() -> str:
        return where()

    place.set("here")
    chosen: Any = where_async if asynchronous else where
    assert text_of(await ran([chosen], tool_call(chosen.__name__))) == "here"
    assert place.get() == "here"


# -- what goes wrong ---------------------------------------------------------------------------------------


def broken() -> None:
    raise KeyError("no such order")


async def broken_async() -> None:
    raise ValueError("no such order")


def silent() -> None:
    raise RuntimeError


def at_its_end() -> None:
    raise StopIteration


async def cancelled_within() -> None:
    raise asyncio.CancelledError


async def several() -> None:
    raise ExceptionGroup("both", [ValueError("one"), KeyError("two")])


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unreadable() -> None:
    raise Unreadable


def half_way() -> Iterator[str]:
    yield "a"
    raise ValueError("half-way")


def long_winded() -> None:
    raise ValueError("word " * 100_000)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(broken, "KeyError: 'no such order'", id="an exception"),
        pytest.param(broken_async, "ValueError: no such order", id="in a coroutine"),
        pytest.param(silent, "RuntimeError", id="without a word"),
        pytest.param(at_its_end, "RuntimeError: StopIteration", id="one that coroutines cannot raise"),
        pytest.param(cancelled_within, "The tool was cancelled from within.", id="a cancellation of its own"),
        pytest.param(several, "ValueError: one\nKeyError: 'two'", id="a group"),
        pytest.param(unreadable, "Unreadable", id="one that cannot be read"),
        pytest.param(half_way, "ValueError: half-way", id="half-way through a generator"),
    ],
)
async def test_an_exception_becomes_a_result_that_names_it(given: Any, text: str) -> None:
    result = await ran([given], tool_call(given.__name__))
    assert (text_of(result), result.error) == (text, True)


async def test_a_long_message_is_shortened() -> None:
    assert len(text_of(await ran([long_winded], tool_call("long_winded")))) < 3_000


async def test_the_traceback_is_for_the_programs_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "everthread.tools"):
        result = await ran([broken], tool_call("broken"))
    assert "Traceback" not in text_of(result)
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_what_a_tool_refuses_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "everthread.tools"):
        result = await ran(canvas_tools(), tool_call("canvas_add_card", {"title": "x", "link": "javascript:1"}))
    assert result.error
    [record] = caplog.records
    assert record.exc_info is None
    assert (record.getMessage(), "\n" in record.getMessage()) == (
        f"The tool canvas_add_card refused: {text_of(result)}",
        False,
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(tool_call("fly"), ["'fly'", "there are: double, f"], id="no such tool"),
        pytest.param(tool_call("double", "{'n': 1}"), ["not a JSON object"], id="no JSON"),
        pytest.param(tool_call("double", "[1]"), ["not a JSON object"], id="no object"),
        pytest.param(tool_call("double"), ["do not fit", "`n`"], id="missing"),
        pytest.param(tool_call("double", {"n": "many"}), ["do not fit", "`$.n`"], id="another type"),
        pytest.param(tool_call("f", {"n": "many"}), ["do not fit", "`n` must be of the type integer"], id="by schema"),
    ],
)
async def test_a_call_that_cannot_be_made_tells_the_model_why(call: ToolCall, words: list[str]) -> None:
    result = await ran([double, {"name": "f", "schema": SCHEMA, "execute": len}], call)
    assert result.error
    assert [word for word in words if word not in text_of(result)] == []


ENDING = """
import asyncio
from everthread import tool_call
from everthread.tools import Toolbox, tool

class Odd(BaseException):
    pass

{kind} end():
    {ends} {problem}

def asks(arguments):
    raise {problem}

box = Toolbox([tool(end, approval=asks)])

async def main():
    assert box.needs_approval(tool_call("end"))
    result = await box.run(tool_call("end"), None, seconds=100)
    print(result.error, result.parts[0].text)

asyncio.run(main())
"""

ENDINGS = [
    *("SystemExit(3)", "KeyboardInterrupt()", "Odd('3')", "GeneratorExit()"),
    "BaseExceptionGroup('several', [GeneratorExit(), SystemExit(3)])",
]


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("ends", ["raise", "yield 'some'; raise"], ids=["at once", "as a generator"])
@pytest.mark.parametrize("problem", ENDINGS)
def test_a_tool_that_wants_to_end_the_program_has_failed(kind: str, ends: str, problem: str) -> None:
    ending = [sys.executable, "-c", ENDING.format(kind=kind, ends=ends, problem=problem)]
    done = subprocess.run(ending, timeout=PATIENCE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = "GeneratorExit\nSystemExit: 3" if "Group" in problem else problem.partition("(")[0]
    assert done.stdout.startswith(f"True {told}")
    assert not done.stderr.count("never retrieved")


@dataclass
class Fussy:
    name: str

    def __post_init__(self) -> None:
        raise {"exit": SystemExit, "close": GeneratorExit, "look": KeyError}[self.name]("no")


@pytest.mark.parametrize("name", ["exit", "close", "look"])
async def test_a_type_of_the_tools_own_that_raises_anything_is_a_misfit(name: str) -> None:
    def take(what: Fussy) -> str:
        return what.name

    call = tool_call("take", {"what": {"name": name}})
    assert not Toolbox([tool(take, approval=True)]).needs_approval(call)  # it would not run at all
    result = await ran([take], call)
    assert result.error
    assert "The arguments do not fit" in text_of(result)
    assert "no" in text_of(result)


WAITING = """
import asyncio, time
from everthread import tool_call
from everthread.tools import Toolbox

def end():
    time.sleep(3600)

asyncio.run(Toolbox([end]).run(tool_call("end"), None, seconds=0.05))
"""


def test_a_function_that_goes_on_does_not_keep_the_program_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", WAITING], timeout=PATIENCE, check=False)
    assert done.returncode == 0


# -- time --------------------------------------------------------------------------------------------------


async def test_a_coroutine_whose_time_is_up_is_cancelled() -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    result = await ran([wait], tool_call("wait"), seconds=0.05)
    assert (text_of(result), result.error) == ("The tool did not end within 0.05 s.", True)
    assert ended == [True]


async def test_a_function_whose_time_is_up_goes_on_in_the_background() -> None:
    go, ended = threading.Event(), threading.Event()

    def wait() -> None:
        go.wait(timeout=PATIENCE)
        ended.set()

    result = await ran([wait], tool_call("wait"), seconds=0.05)
    assert result.error
    assert "did not end within 0.05 s" in text_of(result)
    assert "goes on in the background" in text_of(result)
    go.set()
    assert await asyncio.to_thread(ended.wait, PATIENCE)


async def test_a_coroutine_that_does_not_heed_its_cancellation_is_left_behind() -> None:
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    result = await ran([stubborn], tool_call("stubborn"), seconds=0.05)
    assert "goes on in the background" in text_of(result)
    go.set()


async def test_a_tools_own_time_counts_instead_of_the_setting() -> None:
    @tool(seconds=0.05)
    async def wait() -> None:
        await asyncio.sleep(60)

    assert "within 0.05 s" in text_of(await ran([wait], tool_call("wait"), seconds=60))


async def test_a_tools_own_time_error_is_an_error_like_others() -> None:
    def wait() -> None:
        raise TimeoutError("the other side was slow")

    assert text_of(await ran([wait], tool_call("wait"))) == "TimeoutError: the other side was slow"


async def test_a_generator_without_end_that_gives_nothing_ends_with_its_time() -> None:
    go = threading.Event()

    def nothing() -> Iterator[str]:
        while not go.is_set():
            time.sleep(0.001)
        yield "at last"

    assert (await ran([nothing], tool_call("nothing"), seconds=0.05)).error
    go.set()


async def test_cancelling_the_run_cancels_the_tool() -> None:
    begun, ended = asyncio.Event(), []

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    task = asyncio.create_task(Toolbox([wait]).run(tool_call("wait"), None, seconds=60))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


# -- approval ----------------------------------------------------------------------------------------------


def pay(amount: int, to: str = "Ana") -> str:
    """Pays."""
    return f"{amount} to {to}"


@pytest.mark.parametrize(
    ("approval", "arguments", "needed"),
    [
        pytest.param(False, {"amount": 500}, False, id="never"),
        pytest.param(True, {"amount": 5}, True, id="always"),
        pytest.param(lambda given: given["amount"] > 100, {"amount": 500}, True, id="by its arguments"),
        pytest.param(lambda given: given["amount"] > 100, {"amount": 5}, False, id="not by its arguments"),
        pytest.param(lambda given: given["amount"] > 100, {"amount": "500"}, True, id="as the function gets them"),
        pytest.param(lambda given: given["to"] == "Ana", {"amount": 1}, True, id="with their defaults"),
        pytest.param(lambda given: given["nothing"], {"amount": 1}, True, id="where it cannot be told"),
        pytest.param(True, {"amount": "much"}, False, id="not where it would not run"),
        pytest.param(True, "[]", False, id="nor without arguments"),
    ],
)
def test_a_tool_may_need_approval(approval: Any, arguments: Any, needed: bool) -> None:
    box = Toolbox([tool(pay, approval=approval)])
    assert box.needs_approval(tool_call("pay", arguments)) is needed


def test_an_object_may_need_approval_and_an_unknown_tool_does_not() -> None:
    box = Toolbox([Halving()])
    assert box.needs_approval(tool_call("halve", {"n": 1}))
    assert not box.needs_approval(tool_call("fly"))
