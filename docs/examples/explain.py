"""What the model would see, in words: sections, turns in and out and why, cache, price, settings."""

import asyncio

from everthread import Everthread, assistant, user


async def main() -> None:
    async with Everthread.open("sqlite:///explained.db", environment=False) as et:
        talk = await et.conversation(user="ana")
        for day in range(40):
            await talk.append(user(f"Day {day}: what shall we bake? " * 20), assistant("Bread. " * 40))
        context = await talk.context(model="openai:gpt-5", budget=5_000)
        print(context.explain())


asyncio.run(main())
