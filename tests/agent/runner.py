"""A process that takes part in a conversation, told what to do line by line; it tells what it heard the same way.

Each line of standard input is a JSON object with `do`; each of standard output is one with `name` (who heard or did it)
and what it was. Its lease is short, so that a pause of seconds is as good as a laptop's sleep.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import msgspec

from everthread import Everthread, GivenSettings, Talk, user
from everthread.agent import lease as leasing
from everthread.core.logged import Logged
from everthread.errors import EverthreadError
from everthread.testing.scripted import script


class Runner:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def obey(self, order: dict[str, Any]) -> None:
        work = getattr(self, f"_{order.pop('do')}")
        name = order.pop("name")
        if work == self._leave:
            self._tasks.pop(name).cancel()
        else:
            self._tasks[name] = asyncio.create_task(self._told(name, work, order))

    async def _told(self, name: str, work: Any, order: dict[str, Any]) -> None:
        try:
            await work(name, **order)
        except EverthreadError as problem:
            tell(name, error=type(problem).__name__, why=str(problem))
        except asyncio.CancelledError:
            tell(name, left=True)
            raise

    async def _leave(self, name: str) -> None: ...

    async def _say(self, name: str, text: str, detached: bool = False) -> None:
        reply = self._talk.say(text, detached=detached)
        async for delta in reply:
            tell(name, delta=msgspec.to_builtins(delta))
        tell(name, over=True)

    async def _listen(self, name: str, after: int) -> None:
        tell(name, listens=True)
        async for heard in self._talk.listen(after=after):
            if isinstance(heard, Logged):
                tell(name, seq=heard.seq, kind=heard.kind, text=heard.text)
            else:
                tell(name, delta=msgspec.to_builtins(heard))

    async def _append(self, name: str, text: str) -> None:
        [logged] = await self._talk.append(user(text))
        tell(name, appended=logged.seq)

    async def _stop(self, name: str) -> None:
        tell(name, stopped=await self._talk.stop())


def tell(name: str, **what: Any) -> None:
    sys.stdout.write(json.dumps({"name": name, **what}) + "\n")
    sys.stdout.flush()


async def main(address: str, owner: str, conversation: str, model: str, words: str, pace: str, lease: str) -> None:
    leasing.SECONDS = float(lease)
    script(model, *([" ".join(f"{model}{number}" for number in range(int(words)))] * 1_000), pace=float(pace))
    settings: GivenSettings = {"model": f"scripted:{model}", "memory": False}
    async with Everthread.open(address, settings=settings, keys={}) as et:
        talk = await et.conversation(user=owner, id=conversation)
        runner = Runner(talk)
        lines = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        tell("process", ready=True)
        async for line in lines:
            runner.obey(json.loads(line))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
