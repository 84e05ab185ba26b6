"""A stage for journeys: four providers on the loopback interface, one model behind them all, and a clock in hand.

What the model says is settled for each turn, whichever provider it says it through; a reply that is spoilt on its way
is said again. Log, prompt caches and sessions go by the same clock, so that a pause of two hours takes no time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.google import GoogleServer
from benchmarks.loopback.http import Answer, Fault
from benchmarks.loopback.model import Books, Called, Replies, Script, Thought
from benchmarks.loopback.openai import OpenAIServer, ResponsesServer
from everthread import Everthread
from everthread.providers.choose import host_of
from everthread.store.open import open_log
from everthread.tools import tool
from tests.providers.behaviours import KEY, chunks, failing, with_data
from tests.saying import NINE

LoopbackServer = AnthropicServer | OpenAIServer | ResponsesServer | GoogleServer


class Clock:
    """Microseconds for the log, seconds for the caches; it moves when it is told to."""

    def __init__(self) -> None:
        self._now = NINE

    def __call__(self) -> int:
        return self._now

    def seconds(self) -> float:
        return self._now / 1_000_000

    def go_on(self, time: timedelta) -> None:
        self._now += time // timedelta(microseconds=1)


class Cast(Script):
    """What the model says in the turn that is under way."""

    def turn(self, replies: list[Replies]) -> None:
        self._left = deque(replies)

    def next(self, body: dict[str, Any]) -> Replies:
        self._last = super().next(body)
        return self._last

    def spoilt(self, fault: Fault) -> Fault:
        """A fault that spoils a reply, which is then to be said again."""

        def change(answer: Answer) -> Answer:
            self._left.appendleft(self._last)
            return fault.change(answer) if fault.change else answer

        return fault._replace(change=change)


class Stage:
    def __init__(self, et: Everthread, servers: dict[str, LoopbackServer], cast: Cast, clock: Clock) -> None:
        self.et, self.servers, self.cast, self.clock = et, servers, cast, clock

    @property
    def refused(self) -> list[str]:
        """What any of the providers refused."""
        return [why for server in self.servers.values() for why in server.books.refused]

    def server_of(self, model: str) -> LoopbackServer:
        return self.servers[model.partition(":")[0]]

    def settings(self, model: str, **more: Any) -> dict[str, Any]:
        """What a branch is set to for a model to reply through its server here."""
        return {"model": model, "address": self.server_of(model).address, **more}


@asynccontextmanager
async def staged(store: str, settings: Any, *, tools: list[Any]) -> AsyncIterator[Stage]:
    """A store at this address, and the four providers."""
    cast, clock = Cast(), Clock()
    servers: dict[str, LoopbackServer] = {
        "anthropic": AnthropicServer(cast, key=KEY),
        "openai": OpenAIServer(cast, key=KEY),
        "openai-responses": ResponsesServer(cast, key=KEY),
        "google": GoogleServer(cast, key=KEY),
    }
    async with AsyncExitStack() as stack:
        for name, server in servers.items():
            server.books = Books(name, clock=clock.seconds)
            await stack.enter_async_context(server)
        keys = {host_of(server.address): KEY for server in servers.values()}
        # Turns follow each other here faster than memory follows them, and would be told of it at random moments.
        settings = {"memory": False, **settings}
        et = Everthread(await open_log(store, clock=clock), settings, tools=tools, keys=keys)
        stack.push_async_callback(et.close)
        yield Stage(et, servers, cast, clock)


# -- tools -------------------------------------------------------------------------------------------------


def look(what: str) -> str:
    """Look something up.

    Args:
        what: what to look for
    """
    return f"{what} was found on shelf {len(what)}, between two others of its kind."


def read(page: int) -> str:
    """Read a page of the journal, which is long.

    Args:
        page: its number
    """
    return "\n".join(f"{page}.{line}: the ship made {line % 9} knots and saw nothing new" for line in range(300))


def fail(why: str) -> str:
    """Fail, for a reason.

    Args:
        why: the reason
    """
    raise ValueError(why)


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay somebody.

    Args:
        amount: how much
    """
    return f"Paid {amount}."


TOOLS: list[Any] = [look, read, fail, pay]


# -- what the model does ------------------------------------------------------------------------------------

TALE = "the sea was calm and a bird came from the north with news of land beyond two islands that nobody had seen"


def words(random: Random, count: int) -> str:
    return " ".join(random.choices(TALE.split(), k=count))


class Act(NamedTuple):
    """What the model does in a turn: a name for it, and its replies."""

    name: str
    replies: list[Replies]


ACTS = {"plain", "one tool", "several tools", "long results", "fails", "bad arguments", "loop"}


def act_of(random: Random, number: int, *, thinks: bool) -> Act:
    """What the model does in this turn."""
    name = random.choice([*sorted(ACTS), "plain"])
    replies = [*_tool_calls(name, number), [f"Reply {number}: {words(random, random.randint(30, 150))}."]]
    return Act(name, [[Thought(f"Thought {number}."), *reply] for reply in replies] if thinks else replies)


def _tool_calls(name: str, number: int) -> list[Replies]:
    """What it says before its last word."""
    match name:
        case "one tool":
            return [[Called("look", f'{{"what": "item {number}"}}')]]
        case "several tools":
            return [["I look.", *(Called("look", f'{{"what": "{each} {number}"}}') for each in "abcd")]]
        case "long results":
            return [[Called("read", f'{{"page": {page}}}') for page in (number, number + 1)]]
        case "fails":
            return [[Called("fail", '{"why": "rain"}'), Called("look", '{"what": "sun"}')]]
        case "bad arguments":
            return [[Called("look", '{"what": ')], [Called("look", '{"what": 7}')], [Called("nothing")]]
        case "loop":
            return [[Called("look", f'{{"what": "step {step}"}}')] for step in range(4)]
        case _:
            return []


def payment(number: int) -> Act:
    """A turn that waits for approval."""
    return Act("pays", [[Called("pay", f'{{"amount": {number}}}')], [f"Reply {number}: that is settled."]])


# -- what goes wrong ----------------------------------------------------------------------------------------

FAULTS: dict[str, Callable[[Random, Cast], Fault]] = {
    "too many requests": lambda _r, _c: failing(429, retry_after="0"),
    "a fault of its own": lambda _r, _c: failing(500),
    "overloaded": lambda _r, _c: failing(529),
    "half a stream": lambda _r, cast: cast.spoilt(Fault(change=_half)),
    "a malformed event": lambda _r, cast: cast.spoilt(with_data(b"{half}")),
    "gone at some byte": lambda random, cast: cast.spoilt(Fault(cut=random.randrange(2_000))),
    "gone at once": lambda _r, _c: Fault(hang_up=True),
    "a slow start": lambda _r, _c: Fault(wait=0.05),
}


def _half(answer: Answer) -> Answer:
    sent = chunks(answer)
    return answer._replace(body=sent[: len(sent) // 2])
