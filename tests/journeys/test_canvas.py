"""An assistant with a canvas, from the first drawing to the day after: what is on it stays, and the model knows it."""

from __future__ import annotations

from datetime import timedelta

from everthread import Everthread, assistant, canvas_tools, user
from everthread.canvas import List, Tick
from everthread.core.times import moment
from everthread.store.open import open_log
from everthread.testing.scripted import call, script
from tests.contract.support import Clock

SOCKS = {"title": "Packing list", "boxes": True, "items": [{"text": "passport"}, {"text": "socks"}]}
VISITORS = {"title": "Visitors", "chart": "bar", "labels": ["Mon", "Tue"], "series": [{"values": [412, 577]}]}
CLAUDE = "anthropic:claude-sonnet-4-6"


async def test_everything_is_on_the_canvas_when_the_user_comes_back(address: str, someone: str) -> None:
    """A chart and a list are drawn, a box is ticked, 300 turns pass, a morning schedule adds a card while nobody is
    there, the user switches to another agent and back."""
    clock, settings = Clock(), {"model": f"scripted:{someone}", "memory": False}
    et = Everthread(await open_log(address, clock=clock), settings, tools=canvas_tools())
    talk = await et.begin(user=someone, agent="planner")
    script(someone, [call("canvas_add_chart", VISITORS), call("canvas_add_list", SOCKS)], "Both are on your canvas.")
    await talk.say("Show me the visitors, and what to pack.")
    await talk.act(Tick(id="packing-list", item="2"))
    for number in range(300):
        await talk.append(user(f"question {number} about the garden"), assistant(f"answer {number}: roses need water"))

    made = await talk.schedule("Tell me about the day.", at=moment(clock.now) + timedelta(hours=20))
    await et.close()  # nobody is there
    later = Everthread(await open_log(address, clock=clock), settings, tools=canvas_tools())
    clock.now += 20 * 3_600_000_000
    script(someone, [call("canvas_add_card", {"title": "Good morning", "text": "It will rain."})], "Good morning.")
    await later._scheduled.drain()

    other = await later.conversation(user=someone, agent="cook")
    assert not await other.canvas()
    back = await later.conversation(user=someone, agent="planner")
    assert back.id == talk.id
    said = [one.event.origin for one in await back.tail(turns=1) if one.kind == "user"]  # type: ignore[union-attr]
    assert said == [made.origin]
    canvas = await back.canvas()
    assert [one.id for one in canvas.elements] == ["visitors", "packing-list", "good-morning"]
    packing = canvas.elements[1]
    assert isinstance(packing, List)
    assert [item.done for item in packing.items] == [False, True]

    await back.append(user("What is left to pack?"))
    context = await back.context(model=CLAUDE, budget=6_000, settings={"factor": 1.35})
    assert context.past > 200
    told = str(context.request["messages"])
    assert "[ ] passport; [x] socks (changed by the user)" in told
    assert "Visitors: bar" in told
    assert "It will rain." in told
    await later.close()
