"""What is begun only when somebody awaits it warns where nobody does, as Python's coroutines do."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable

import pytest
from fastapi.encoders import jsonable_encoder

from everthread import Everthread, Talk
from everthread.testing.scripted import script

NEVER = r"never awaited.*`await talk\.say\(…\)`"


@pytest.mark.parametrize(
    "begin",
    [
        lambda talk: talk.say("Hello"),
        lambda talk: talk.resume(),
        lambda talk: talk.approve(),
        lambda talk: talk.refuse(),
    ],
    ids=["say", "resume", "approve", "refuse"],
)
async def test_a_reply_that_nobody_awaits_warns_and_says_nothing(talk: Talk, begin: Callable[[Talk], object]) -> None:
    with pytest.warns(RuntimeWarning, match=NEVER):
        begin(talk)
    assert await talk.tail() == []


async def test_a_reply_says_what_has_become_of_it(talk: Talk, someone: str) -> None:
    reply = talk.say("Hello", model=script(someone, "Hello."))
    assert repr(reply).startswith("<Reply, not begun: write `await talk.say(…)`")
    await reply.accepted()
    assert repr(reply) == "<Reply, under way: ''>"
    await reply
    assert repr(reply) == "<Reply, over: 'Hello.'>"


async def test_a_web_framework_that_is_handed_a_reply_refuses_it(talk: Talk) -> None:
    reply = talk.say("Hello")
    with pytest.raises(ValueError, match="not iterable"):
        jsonable_encoder(reply)
    await reply.aclose()


async def test_a_store_that_nobody_opens_warns(address: str) -> None:
    with pytest.warns(RuntimeWarning, match=r"Everthread\.open\(…\) was never awaited: write `et = await"):
        Everthread.open(address)


async def test_the_warning_names_the_line_of_the_caller(talk: Talk) -> None:
    with pytest.warns(RuntimeWarning) as told:
        talk.say("Hello")
    assert told[0].filename == __file__


async def test_what_was_used_warns_nobody(address: str, someone: str) -> None:
    script(someone, *["Hello."] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with Everthread.open(address, settings={"model": f"scripted:{someone}"}) as et:
            talk = await et.begin(user=someone)
            await talk.say("Awaited")
            async for _ in talk.say("Iterated"):
                break
            await talk.say("Accepted, and let go").accepted()
            said = talk.say("Detached", detached=True)
            await said.accepted()
            del said
            await talk.say("Closed, never begun").aclose()
            gc.collect()
        et = await Everthread.open(address)
        await et.close()
