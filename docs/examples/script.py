"""A script: no `async`, no `await`. Run it twice: the second time the conversation goes on.

python docs/examples/script.py [sqlite:///talk.db]
"""

from __future__ import annotations

import sys

from everthread import user
from everthread.sync import Everthread
from everthread.testing.scripted import script


def main(address: str = "sqlite:///talk.db") -> None:
    # A model that needs no key. With yours: settings={"model": "anthropic:claude-sonnet-4-6"}.
    script("baker", "A plum cake, ", "Without walnuts, of course.")
    with Everthread.open(address, settings={"model": "scripted:baker", "memory": False}) as et:
        talk = et.conversation(user="ana", agent="baker")  # found or begun
        if not talk.tail():
            talk.append(user("My son is allergic to walnuts."))

        for delta in talk.say("What shall I bake?"):  # as it comes; leaving the loop ends the turn
            print(delta, end="", flush=True)

        reply = talk.say("May he eat it?").result()  # or the whole
        print(reply.text)
        print(f"{reply.done.sent} messages were sent, and {talk.totals().messages} are kept.")


if __name__ == "__main__":
    main(*sys.argv[1:])
