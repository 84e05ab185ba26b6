"""Threads of an application with ids, metadata and times of its own: brought in, listed and gone on with."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from everthread import Everthread, assistant, user
from everthread.testing.scripted import script

MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
OLD_THREADS = {
    "thread-17": ("blue", ["Where is my parcel?", "It left on Friday."]),
    "thread-18": ("red", ["My lamp is broken.", "A new one is on its way."]),
    "thread-19": ("blue", ["Do you deliver to Madeira?", "Yes, in five days."]),
}


async def main(folder: Path) -> None:
    script("clerk", "It should be with you today.")
    async with Everthread.open(f"sqlite:///{folder / 'talk.db'}", settings={"model": "scripted:clerk"}) as et:
        for day, (thread, (team, (question, answer))) in enumerate(OLD_THREADS.items()):
            talk = await et.begin(user="ana", agent="clerk", id=thread, metadata={"team": team})
            said = MONDAY + timedelta(days=day)
            await talk.append(user(question, metadata={"row": 2 * day}), at=said)
            await talk.append(assistant(answer, metadata={"row": 2 * day + 1}), at=said + timedelta(minutes=2))

        talk = await et.conversation(user="ana", id="thread-17")
        reply = await talk.say("It is Monday again.", metadata={"row": 6})
        print(reply.text)
        for one in await et.conversations(user="ana", metadata={"team": "blue"}):
            print(one.alias, one.metadata["team"], one.totals.messages)
        (message,) = await talk.before(metadata={"row": 1})
        print(message.time.date(), message.text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
