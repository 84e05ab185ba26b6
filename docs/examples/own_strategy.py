"""A strategy of your own, which chooses the turns that are sent, and an importance of your own, which scores them."""

import asyncio

from everthread import Choice, Event, Everthread, View, assistant, text_of, user
from everthread.core.importance import worth
from everthread.core.strategies import At, Back
from everthread.core.window import Lookups


def this_session(view: View) -> Lookups[Choice]:
    """The turns of the four newest messages, but nothing from before this session."""
    begin = yield Back(4)
    session = yield At(view.session_first)
    return Choice(begin=max(begin, session, key=lambda start: start.first))


def importance(event: Event) -> int:
    """Whatever tells of an allergy is worth the most; everything else as usual."""
    return 100 if "allergic" in text_of(event) else worth(event)


async def main() -> None:
    opening = Everthread.open(
        "sqlite:///own-strategy.db",
        settings={"model": "scripted:any"},
        strategy=this_session,  # wherever no call names another
        importance=importance,  # asked once, when a message is appended
    )
    async with opening as et:
        talk = await et.conversation(user="ana")
        await talk.append(user("My son is allergic to walnuts."), assistant("Noted."))
        for number in range(30):
            await talk.append(user(f"Thing {number}?"), assistant("Yes."))
        await talk.say("What may I put into the cake?")
        context = await talk.context()
        print(f"my own strategy: {context.sent} messages sent, {context.past} left out")
        scored = await talk.context(strategy="importance", settings={"active_messages": 4}, budget=400)
        print(f"by importance: the allergy is sent: {'walnuts' in str(scored.request)}")


asyncio.run(main())
