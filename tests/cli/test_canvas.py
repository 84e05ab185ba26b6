"""`everthread canvas`, and `/canvas` in the chat."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from everthread import Everthread, canvas_changed, user
from everthread.canvas import Card, Put, Remove, Table
from everthread.cli.drawing import EMPTY
from everthread.core.values import plain
from tests.cli.conftest import Do

HOTEL = Put(element=Card(id="hotel", title="Hotel", text="Booked."))
PRICES = Put(element=Table(id="prices", columns=("city", "price"), rows=(("Porto", 80),)))


def fill(store: str) -> str:
    """A conversation in which two elements were shown and one was taken away again; its id."""

    async def filled() -> str:
        async with Everthread.open(store) as et:
            talk = await et.begin(user="ana", name="Trip")
            await talk.append(user("Hello."))
            await talk.append(canvas_changed("Hotel", changes=plain([HOTEL])))
            await talk.append(canvas_changed("Prices", changes=plain([PRICES])))
            side = await talk.fork(name="side")
            await side.append(canvas_changed("No hotel", changes=plain([Remove(id="hotel")])))
            return talk.id

    return asyncio.run(filled())


def test_the_canvas_of_a_conversation_is_drawn(do: Do, store: str) -> None:
    told = do("canvas", fill(store))
    assert told.exit_code == 0
    assert "2 elements" in told.output
    assert "│ Booked." in told.output
    assert "│ Porto      80" in told.output


def test_as_it_was_and_on_another_branch(do: Do, store: str) -> None:
    fill(store)
    before = do("canvas", "--at", "3")
    assert "card hotel" in before.output
    assert "table prices" not in before.output
    side = do("canvas", "--branch", "side")
    assert "table prices" in side.output
    assert "card hotel" not in side.output


def test_its_json_form(do: Do, store: str) -> None:
    fill(store)
    canvas = json.loads(do("canvas", "--json").output)
    assert [(one["element"]["id"], one["made"]) for one in canvas["shown"]] == [("hotel", 2), ("prices", 3)]
    assert canvas["mode"] == "chat"


def test_nobody_sees_another_users(do: Do, store: str) -> None:
    id = fill(store)
    told = do("canvas", id, "--user", "bob")
    assert told.exit_code == 1
    assert "Booked" not in told.output


def test_what_was_redacted_is_not_drawn(do: Do, store: str) -> None:
    id = fill(store)

    async def forget() -> None:
        async with Everthread.open(store) as et:
            await (await et.conversation(user="ana", id=id)).redact(2)

    asyncio.run(forget())
    assert "Booked" not in do("canvas").output
    assert "Booked" not in do("canvas", "--branch", "side").output


def test_an_empty_one_says_so(do: Do, store: str, tmp_path: Path) -> None:
    async def begin() -> None:
        async with Everthread.open(store) as et:
            await (await et.begin(user="ana")).append(user("Hello."))

    asyncio.run(begin())
    assert do("canvas").output == f"{EMPTY}\n"


def test_in_the_chat(do: Do, store: str) -> None:
    fill(store)
    assert "│ Booked." in do("chat", "--model", "scripted:none", input="/canvas\n").output
