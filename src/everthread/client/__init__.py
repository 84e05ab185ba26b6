"""The library's verbs over HTTP: a program for the library runs against a service when its store is one.

    from everthread.client import Everthread

    async with Everthread.open("https://talk.example.com", key="evk_…") as et:
        talk = await et.conversation(user="ana", agent="helper")
        async for delta in talk.say("What may I put into the cake?"):
            print(delta, end="")

The classes are those of the library, asked of the service by the table that it answers by (`everthread.routes`), so
they have the same verbs, give the same values and raise the same errors; `everthread.client.sync` has them without
`await`. What lives in the process that runs the turns stays there: tools that are functions, strategies, `et.log`.
"""

from __future__ import annotations

from everthread.client.app import Everthread
from everthread.client.child import Child
from everthread.client.talk import Talk

__all__ = ["Child", "Everthread", "Talk"]
