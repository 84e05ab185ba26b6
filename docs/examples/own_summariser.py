"""A summariser of your own: memory's briefs, recaps and summaries are written by a function of yours."""

import asyncio

from everthread import Everthread, assistant, user


async def summarise(instructions: str, text: str) -> str:
    """`instructions` say what is wanted; `text` is what was said, and the brief so far. Call any model here."""
    return f"Ana bakes; {text.count('Cake')} cakes were spoken of."


async def main() -> None:
    opening = Everthread.open(
        "sqlite:///own-summariser.db",
        settings={"model": "scripted:any", "budget": 600},
        summarise=summarise,  # one that is not async runs in a thread
    )
    async with opening as et:
        talk = await et.conversation(user="ana")
        for number in range(12):
            await talk.append(user(f"Cake {number}: {'very ' * 20}sweet."), assistant("Noted."))
        await talk.remember()  # at once; else it is done beside the conversation
        brief = await talk.brief()
        print(brief.text if brief else "nothing yet")


asyncio.run(main())
