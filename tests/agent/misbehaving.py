"""A provider that misbehaves as each task asks it to, and a process that delegates such tasks until it is killed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

from benchmarks.loopback.http import Answer, Asked, Fault
from benchmarks.loopback.model import Called, Replies, Script
from benchmarks.loopback.openai import OpenAIServer
from everthread import Everthread, Talk
from everthread.agent.child import Child
from everthread.providers.choose import host_of

MODEL, KEY = "openai:gpt-5", "test-key"
HOW = ("reply", "refuse", "busy", "cut", "drop", "tools", "hang")  # what the provider does with a task
FAULTS = {
    "refuse": Fault(answer=Answer(400, b'{"error": {"message": "No.", "type": "invalid_request_error"}}')),
    "busy": Fault(answer=Answer(503, b'{"error": {"message": "Busy.", "type": "server_error"}}')),
    "cut": Fault(cut=300),
    "drop": Fault(hang_up=True),
    "hang": Fault(wait=3_600),
}
STATES = dict.fromkeys(HOW, "failed") | {"reply": "done", "tools": "limit", "hang": "limit"}
LIMITS: dict[str, Any] = {"calls": 3, "seconds": 1, "dollars": 1.0}


def asked_for(body: bytes | dict[str, Any]) -> str:
    """What the newest task in a request asks the provider to do. What is told of others' outcomes stands in quotes."""
    found = re.findall(r"(?<!“)Task \d+: (\w+)", _spelt(body))
    return found[-1] if found else "reply"


def _spelt(body: bytes | dict[str, Any]) -> str:
    return str(body if isinstance(body, dict) else json.loads(body))


class Misbehaving(OpenAIServer):
    def __init__(self) -> None:
        super().__init__(Script(otherwise=_reply), key=KEY)

    async def _reply(self, asked: Asked, *streams: Any) -> bool:
        self.faults.append(FAULTS.get(asked_for(asked.body)))  # which is taken at once
        return await super()._reply(asked, *streams)


def _reply(body: dict[str, Any]) -> Replies:
    return [Called("look")] if asked_for(body) == "tools" else ["All is well."]


def look() -> str:
    return "Nothing yet."


async def begin(talk: Talk, number: int, **limits: Any) -> Child:
    task = f"Task {number}: {HOW[number % len(HOW)]}"
    return await talk.delegate(task, tools=[look], at_once=1_000, **limits)


def opened(address: str, provider: str) -> Any:
    settings: Any = {"model": MODEL, "address": provider, "retries": 0, "memory": False}
    return Everthread.open(address, settings=settings, keys={host_of(provider): KEY})


async def main(address: str, provider: str, owner: str, conversation: str, count: str) -> None:
    """Begin children, tell of each, and stay."""
    async with opened(address, provider) as et:
        talk = await et.conversation(user=owner, id=conversation)
        for number in range(int(count)):
            child = await begin(talk, number, calls=3)
            sys.stdout.write(json.dumps({"begun": child.branch}) + "\n")
            sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
