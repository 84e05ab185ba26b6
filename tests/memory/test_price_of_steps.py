"""What a step costs under a prompt cache: the window and what is told of the past are written anew, nothing else is."""

from __future__ import annotations

from benchmarks.caching import MarkedCache, Request, blocks_of
from everthread import GivenSettings, Talk
from tests.memory.test_brief import say
from tests.transcripts import CLAUDE

PERSONA = "You sell tickets, and you are asked about every one of them. " * 150
SETTINGS: GivenSettings = {"model": CLAUDE, "budget": 8_000, "clock": "off", "factor": 1.0}


async def test_at_a_step_tools_and_instructions_are_read_from_the_cache(talk: Talk) -> None:
    """They stand before what is told of the past, which is another at every step."""
    cache, cutoff, steps = MarkedCache(), 1, 0
    for number in range(60):
        await say(talk, f"Booking {number} is ABC{number:03}. " + "It was a long day. " * 30)
        context = await talk.context(instructions=PERSONA, settings=SETTINGS)
        spent = cache.ask(100 * number, context.request)  # so that steps are further apart than its lifetime
        if context.cutoff > cutoff > 1:  # there was something to tell of the past before this step, too
            steps += 1
            assert 'kind="extract"' in str(context.request["system"])
            assert spent.read == _tools_and_persona(context.request)
        cutoff = context.cutoff
    assert steps > 2


def _tools_and_persona(request: Request) -> int:
    """Their tokens, as the cache counts them."""
    return sum(block.tokens for block in blocks_of({**request, "system": request["system"][:1], "messages": []}))
