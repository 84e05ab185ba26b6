"""A token counter of your own, for models whose tokenizer you have."""

import asyncio
import re

from everthread import Everthread, user


def count(text: str) -> int:
    """As many tokens as there are words. It may be called from a thread, and must always say the same of a text."""
    return len(re.findall(r"\S+", text))


async def main() -> None:
    opening = Everthread.open(
        "sqlite:///own-counter.db",
        settings={"model": "openai:our-model-7b", "model_window": 8_000, "clock": "off", "memory": False},
        counters={"openai:our-*": count},  # by the model's name, or by a pattern
    )
    async with opening as et:
        talk = await et.conversation(user="ana")
        await talk.append(user("one two three four five"))
        account = (await talk.context()).explain()
        # The five words, and the four tokens in which a message is wrapped.
        print(f"{account.turns[-1].tokens} tokens in the turn, exact: {account.exact}")


asyncio.run(main())
