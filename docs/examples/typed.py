"""Types: everything comes from `everthread`, deltas narrow by class or by kind, settings are checked as you write."""

import asyncio
from typing import assert_never, assert_type

from everthread import (
    CallDelta,
    CanvasDelta,
    Delta,
    Done,
    Everthread,
    EverthreadError,
    GivenSettings,
    Hit,
    Notice,
    ReasoningDelta,
    Reply,
    ResultDelta,
    Talk,
    TextDelta,
    TurnResult,
    UnknownConversation,
)
from everthread.testing.scripted import call, script

SETTINGS: GivenSettings = {"model": "scripted:baker", "budget": 8_000, "memory": False}


def oven(dish: str) -> int:
    """The degrees for a dish."""
    return 180 if dish == "cake" else 220


def shown(delta: Delta) -> str:
    """What a page would show of a delta, by its class. A kind that is left out is an error of the type checker."""
    match delta:
        case TextDelta(text=text):
            return text
        case ReasoningDelta():
            return ""
        case CallDelta(name=name, arguments=arguments):
            return f"[{name} {arguments}] "
        case ResultDelta(text=text, error=error):
            return f"[{'failed' if error else 'gave'}: {text}] "
        case CanvasDelta(changes=changes):
            return f"[drew {len(changes)}] "
        case Notice(text=text):
            return f"({text}) "
        case Done(state=state, usage=usage):
            return f" [{state}, {usage.output} tokens]"
        case _:
            assert_never(delta)


def priced(delta: Delta) -> float:
    """The same by `kind`, as JavaScript on the other side of a stream would do it."""
    if delta.kind == "done":
        return delta.price or 0.0
    return 0.0


async def main() -> None:
    script("baker", [call("oven", {"dish": "cake"})], "Bake it at 180 degrees.", "For forty minutes.", "In the middle.")
    async with Everthread.open("sqlite:///typed.db", settings=SETTINGS, environment=False, tools=[oven]) as et:
        talk: Talk = await et.conversation(user="ana")
        spent = 0.0
        async for delta in talk.say("How hot for the cake?"):
            print(shown(delta), end="")
            spent += priced(delta)
        print(f"\n{spent:.2f} dollars")

        reply: Reply = talk.say("And how long?", settings={"temperature": 0.2})
        whole: TurnResult = await reply
        print(whole.text, whole.done.state)
        assert_type((await talk.say("And where?")).value, None)  # with `output=Cake`, it is a Cake

        hits: list[Hit] = await talk.recall("cake")
        print(hits[0].text)
        try:
            await et.conversation(user="ana", id="another", begin=False)
        except UnknownConversation as problem:  # one of the errors; `EverthreadError` is all of them
            print(type(problem).__name__, isinstance(problem, EverthreadError))


asyncio.run(main())
