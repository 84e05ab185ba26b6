"""A tool that asks first: somebody looks at the call, lowers the amount, and lets it run."""

import asyncio
import json

from everthread import Everthread, GivenSettings, ToolCall, tool
from everthread.testing.scripted import call, script


@tool(approval=True)
def pay(amount: int, to: str) -> str:
    """Pay somebody."""
    return f"Paid {amount} to {to}."


async def main() -> None:
    script("clerk", [call("pay", {"amount": 200, "to": "Tom"})], "I have paid Tom 20.")
    settings: GivenSettings = {"model": "scripted:clerk", "memory": False}
    async with Everthread.open("sqlite:///approval.db", settings=settings, tools=[pay]) as et:
        talk = await et.conversation(user="ana")
        await talk.say("Pay Tom.")  # it ends, because the tool call waits: for days, if need be
        (waiting,) = await talk.waiting()
        assert isinstance(waiting.event, ToolCall)
        asked = json.loads(waiting.event.arguments)
        print("asked:", asked)

        reply = await talk.approve(waiting.seq, arguments={**asked, "amount": 20})
        print(reply)
        for event in await talk.after(waiting.seq):
            print(event.kind, event.text)


asyncio.run(main())
