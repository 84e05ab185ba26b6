"""A reply as a value: ask for a type of your own, get one, and handle a reply that is not one.

    python docs/examples/structured_output.py

The model is scripted, so this runs without a key; with one, name a model of your provider in its place.
"""

import asyncio
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import assert_type

from everthread import BadOutput, Everthread
from everthread.testing.scripted import script


@dataclass
class Line:
    text: str
    price: float


@dataclass
class Invoice:
    """What is to be read from an invoice."""

    number: int
    customer: str
    paid: bool = False
    lines: list[Line] = field(default_factory=list)


READ = '{"number": 7, "customer": "Ana", "paid": null, "lines": [{"text": "ink", "price": 2.5}]}'
MODEL = script("reader", READ, "I see no invoice.")


async def main(folder: str) -> None:
    async with Everthread.open(f"sqlite:///{folder}/talk.db") as et:
        talk = await et.conversation(user="ana")

        reply = await talk.say("Invoice 7 for Ana: ink, 2.50.", model=MODEL, output=Invoice)
        assert_type(reply.value, Invoice)  # for type checkers; to Python it is nothing
        invoice = reply.value
        print(invoice.number, invoice.customer, sum(line.price for line in invoice.lines), invoice.paid)

        try:
            await talk.say("And this one?", model=MODEL, output=Invoice)
        except BadOutput as problem:
            print(f"No invoice ({problem.why}), but: {problem.text}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(folder))
