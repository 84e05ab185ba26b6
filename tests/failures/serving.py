"""Three processes of the service over one PostgreSQL, behind a plain TCP balancer, while everything goes wrong.

Many conversations are held at once. Each has somebody who speaks, with a key for every message and again until it is
acknowledged, and somebody who listens, from where the last connection broke. The provider misbehaves, processes are
killed or told to end, and PostgreSQL is restarted. In the end no acknowledged message is lost and none is there twice,
every listener has heard the events of the log, each once and in order, and the canvas is what its events fold to.

Run as `python -m tests.failures.serving CONVERSATIONS MESSAGES KILLS RESTARTS SEED`; prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import Any

import httpx2
import msgspec

from benchmarks.loopback.http import Answer, Asked, Fault
from benchmarks.loopback.model import Called, Replies, Script
from benchmarks.loopback.openai import OpenAIServer
from everthread import Everthread
from everthread.core.branches import ENDLESS
from everthread.core.canvas.changes import read_changes
from everthread.core.canvas.fold import EMPTY, encode, fold
from everthread.core.happenings import CanvasChanged
from everthread.routes import FOR_USER
from everthread.server.serve import Options, listening_socket
from tests.postgres_server import PrivatePostgres
from tests.server.processes import Running, key_for, options, process

PROCESSES = 3
PATIENCE = 1_800.0  # seconds for the whole, on a machine that others use
FAULTS = 0.15  # of the provider's replies go wrong
PACE = 0.02  # seconds between two pieces of a reply
AGAIN = 0.2  # seconds before something is asked again
QUIET = 5  # looks on end at which no turn ran


# -- the provider --------------------------------------------------------------------------------------------


def _reply(body: dict[str, Any]) -> Replies:
    """Draws what is to be drawn, and then says so."""
    last = body["messages"][-1]
    if last["role"] == "user" and (asked := re.findall(r"asks: draw (\d+)", json.dumps(last["content"]))):
        card = {"title": f"Card {asked[-1]}", "id": f"card-{asked[-1]}"}
        return [Called("canvas_add_card", json.dumps(card))]
    return ["It is so, and so it shall be said in a few words more."]


class Misbehaving(OpenAIServer):
    def __init__(self, seed: int) -> None:
        super().__init__(Script(otherwise=_reply))
        self._chance, self.went_wrong = random.Random(seed), Counter[str]()

    def _respond(self, asked: Asked) -> Answer:
        self.asked.clear()  # a long run's would be many
        return super()._respond(asked)._replace(pace=PACE)

    async def _reply(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if self._chance.random() < FAULTS:
            name, fault = self._fault()
            self.went_wrong[name] += 1
            self.faults.append(fault)
        return await super()._reply(asked, reader, writer)

    def _fault(self) -> tuple[str, Fault]:
        error = b'{"error": {"message": "Not now", "type": "server_error", "code": null, "param": null}}'
        kinds = {
            "too many": Fault(answer=Answer(429, error, {"retry-after": "0.1"})),
            "down": Fault(answer=Answer(503, error)),
            "broken": Fault(answer=Answer(500, error)),
            "hangs up": Fault(hang_up=True),
            "cut short": Fault(cut=self._chance.randint(1, 2_000)),
            "slow": Fault(wait=self._chance.uniform(0.1, 1.0)),
            "nonsense": Fault(change=lambda answer: answer._replace(body=[b"data: {nonsense\n\n"])),
        }
        name = self._chance.choice(sorted(kinds))
        return name, kinds[name]


# -- the balancer --------------------------------------------------------------------------------------------


class Balancer:
    """Passes each connection on to one of the processes, in turn; to the next, where one does not answer."""

    def __init__(self, ports: list[int]) -> None:
        self._ports, self._turn = ports, count()
        self._passing: set[asyncio.Task[None]] = set()
        self.port, self.passed = 0, 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in tuple(self._passing):
                task.cancel()
            await asyncio.gather(*self._passing, return_exceptions=True)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._passing.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._pass_on(reader, writer)
        finally:
            self._passing.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._ports:
            port = self._ports[next(self._turn) % len(self._ports)]
            with suppress(OSError):
                its_reader, its_writer = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            return
        self.passed += 1
        ways = [asyncio.create_task(_copy(reader, its_writer)), asyncio.create_task(_copy(its_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            its_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


# -- those who speak and listen ------------------------------------------------------------------------------


class Held:
    """A conversation that somebody holds: what was acknowledged, and what was heard."""

    def __init__(self, number: int, client: httpx2.AsyncClient, messages: int) -> None:
        self.user, self._client, self._messages = f"user-{number}", client, messages
        self._headers = {FOR_USER: self.user}
        self.id = ""
        self.acknowledged: list[str] = []
        self.heard: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.place, self.tries, self.reconnects = "0", 0, 0
        self._ended = asyncio.Event()  # a turn has
        self._listening: asyncio.Task[None] | None = None

    async def speak(self) -> None:
        found = await self._ask("POST", "/api/conversation", {"id": "proof"})
        self.id = found["conversation"]["id"]
        self._listening = asyncio.create_task(self._listen())
        for number in range(self._messages):
            await self._say(number)

    async def hear_all(self) -> None:
        """Listen until the last event there is has been heard; nothing more comes by now."""
        newest = await self._ask("GET", f"/api/conversations/{self.id}/before?limit=1")
        while not self.heard or self.heard[-1]["seq"] < newest[-1]["seq"]:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN)

    async def close(self) -> None:
        if self._listening:
            self._listening.cancel()
            await asyncio.wait({self._listening})

    async def _say(self, number: int) -> None:
        text = f"{self.user} asks: draw {number} please" if number % 2 else f"{self.user} says number {number}"
        self._ended.clear()
        await self._ask("POST", f"/api/conversations/{self.id}/say", {"pieces": [text], "key": f"k{number}"})
        self.acknowledged.append(text)
        with suppress(TimeoutError):  # one that lost its process is closed by another; we need not wait to go on
            async with asyncio.timeout(10):
                await self._ended.wait()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask until it is answered: whatever is in the way, is for a while."""
        while True:
            self.tries += 1
            try:
                answer = await self._client.request(method, path, json=body, headers=self._headers, timeout=30)
            except httpx2.HTTPError:
                await asyncio.sleep(AGAIN)
                continue
            if answer.status_code in (200, 202):
                return answer.json()
            if answer.status_code not in (429, 500, 502, 503, 504, 409):
                raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            if answer.status_code == 500:
                self.problems.append(f"{method} {path}: {answer.text[:300]}")
            await asyncio.sleep(AGAIN)

    async def _listen(self) -> None:
        while True:
            headers = {**self._headers, "last-event-id": self.place}
            path = f"/api/conversations/{self.id}/listen"
            try:
                async with self._client.stream("GET", path, headers=headers, timeout=60) as stream:
                    if stream.status_code == 200:
                        await self._hear(stream)
            except httpx2.HTTPError:
                pass
            self.reconnects += 1
            await asyncio.sleep(AGAIN)

    async def _hear(self, stream: httpx2.Response) -> None:
        name = place = ""
        async for line in stream.aiter_lines():
            kind, _, value = line.partition(": ")
            if kind == "event":
                name, place = value, ""
            elif kind == "id":
                place = value
            elif kind == "data" and name == "told":
                self._take(json.loads(value)["item"])
                self.place = place or self.place
            elif kind == "data" and name == "problem":
                return

    def _take(self, item: dict[str, Any]) -> None:
        if "event" in item:
            self.heard.append(item)
        elif item.get("kind") == "done":
            self._ended.set()


# -- what goes wrong -----------------------------------------------------------------------------------------


class Service:
    """The processes, each at a port of its own."""

    def __init__(self, made: Options) -> None:
        self._made = made
        self.ports = [_free_port() for _ in range(PROCESSES)]
        self.running: list[tuple[AsyncExitStack, Running] | None] = [None] * PROCESSES
        self.statuses: Counter[str] = Counter()

    async def begin(self, which: int) -> None:
        stack = AsyncExitStack()
        made = msgspec.structs.replace(self._made, port=self.ports[which])
        self.running[which] = (stack, await stack.enter_async_context(process(made, wait=False)))

    async def end(self, which: int, number: int) -> None:
        """Kill it, or tell it to end; and begin another."""
        found = self.running[which]
        assert found
        stack, one = found
        one.tell(number)
        status = await one.ended()
        self.statuses[f"{signal.Signals(number).name} {status}"] += 1
        await stack.aclose()
        await self.begin(which)

    async def close(self) -> None:
        for found in self.running:
            if found:
                await found[0].aclose()


async def _upset(service: Service, server: PrivatePostgres, kills: int, restarts: int, chance: random.Random) -> None:
    """Kill processes and restart the server, in a random order."""
    acts = ["kill"] * kills + ["restart"] * restarts
    chance.shuffle(acts)
    for act in acts:
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        if act == "kill":
            number = signal.SIGKILL if chance.random() < 0.75 else signal.SIGTERM
            await service.end(chance.randrange(PROCESSES), number)
        else:
            mode = chance.choice(["fast", "immediate"])
            await asyncio.to_thread(server.restart, mode=mode)  # type: ignore[arg-type]


# -- the whole -----------------------------------------------------------------------------------------------


async def prove(conversations: int, messages: int, kills: int, restarts: int, seed: int) -> dict[str, Any]:
    chance, began = random.Random(seed), time.monotonic()
    with PrivatePostgres(durable=True) as server:
        address = server.create_database("serving")
        key = await key_for(address)
        async with Misbehaving(seed) as provider:
            made = options(address, settings={"address": provider.address}, canvas=True, patience=60, drain=3)
            service = Service(made)
            balancer = Balancer(service.ports)
            try:
                await asyncio.gather(*(service.begin(which) for which in range(PROCESSES)))
                async with balancer.serving(), _client(balancer.port, key) as client, asyncio.timeout(PATIENCE):
                    held = [Held(number, client, messages) for number in range(conversations)]
                    upset = asyncio.create_task(_upset(service, server, kills, restarts, chance))
                    try:
                        await asyncio.gather(*(one.speak() for one in held))
                        await upset
                        await _until_quiet(address)
                        await asyncio.gather(*(one.hear_all() for one in held))
                    finally:
                        await asyncio.gather(*(one.close() for one in held))
            finally:
                await service.close()
        seconds = time.monotonic() - began
        problems = await _compare(address, held)
    return {
        "conversations": conversations,
        "acknowledged": sum(len(one.acknowledged) for one in held),
        "heard": sum(len(one.heard) for one in held),
        "tries": sum(one.tries for one in held),
        "reconnects": sum(one.reconnects for one in held),
        "connections": balancer.passed,
        "provider": dict(provider.went_wrong),
        "ended": dict(service.statuses),
        "restarts": restarts,
        "seconds": round(seconds, 1),
        "problems": problems[:50],
        **await _totals(held),
    }


async def _until_quiet(address: str) -> None:
    """Until nobody has anything to do: also those whose callers have gone, and who still wait for their turn."""
    async with Everthread.open(address) as et:
        quiet = 0
        while quiet < QUIET:
            quiet = 0 if await et.log.leases.all_turns() else quiet + 1
            await asyncio.sleep(1)


async def _totals(held: list[Held]) -> dict[str, Any]:
    kinds = Counter(one["event"]["kind"] for each in held for one in each.heard)
    return {"interrupted": kinds["agent_killed"], "drawn": kinds["canvas"]}


def _client(port: int, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {key}"},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
    )


async def _compare(address: str, held: list[Held]) -> list[str]:
    """What is not as it must be."""
    problems = []
    async with Everthread.open(address) as et:
        problems += await et.log.problems()
        problems += [f"left: {one}" for one in await et.log.leases.all_turns()]
        for one in held:
            problems += [f"{one.user}: {problem}" for problem in [*one.problems, *await _wrong(et, one)]]
    return problems


async def _wrong(et: Everthread, one: Held) -> list[str]:
    talk = await et.conversation(user=one.user, id=one.id)
    events = await talk.after(0, limit=ENDLESS)
    said = Counter(event.text for event in events if event.kind == "user")
    wrong = [f"lost: {text}" for text in one.acknowledged if not said[text]]
    wrong += [f"{times} times: {text}" for text, times in said.items() if times != 1]
    wrong += [f"nobody acknowledged: {text}" for text in said if text not in one.acknowledged]
    heard, there = [each["seq"] for each in one.heard], [event.seq for event in events]
    if heard != there:
        wrong.append(f"heard {heard} of {there}")
    if [each["event"]["kind"] for each in one.heard] != [event.kind for event in events]:
        wrong.append("heard other events than the log has")
    canvas = EMPTY
    for event in events:
        if isinstance(event.event, CanvasChanged):
            canvas = fold(canvas, read_changes(event.event.data["changes"]), seq=event.seq, by=event.event.by)
    if encode(canvas) != encode(await talk.canvas()):
        wrong.append("the canvas is not what its events fold to")
    _, damage = await et.log.check(talk.conversation.tenant, talk.id)
    return [*wrong, *map(str, damage)]


def _free_port() -> int:
    with listening_socket(options("sqlite:///:memory:")) as found:
        return int(found.getsockname()[1])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(prove(*map(int, sys.argv[1:]))), indent=1))  # noqa: T201
