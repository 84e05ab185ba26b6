"""A tool that draws: the canvas changes together with its result, for the model, the caller and those who listen."""

from __future__ import annotations

import pytest

from everthread import (
    CanvasDelta,
    Drawing,
    Everthread,
    Redacted,
    TakenOver,
    Talk,
    ToolResult,
    canvas_tools,
    tool,
)
from everthread.canvas import Card, List, ListItem, Put, Tick
from everthread.core.canvas.limits import ELEMENTS_MOST
from everthread.core.happenings import CanvasChanged
from everthread.store.beside.leases import of_turns
from everthread.testing.scripted import call
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, heard, kinds, results, said

SOCKS = {"title": "Packing list", "boxes": True, "items": [{"text": "passport"}, {"text": "socks"}]}
VISITORS = {"title": "Visitors", "chart": "bar", "labels": ["Mon", "Tue"], "series": [{"values": [412, 577]}]}


async def test_what_a_tool_draws_is_written_right_before_its_result(talk: Talk, speak: Speak) -> None:
    speak([call("canvas_add_list", SOCKS)], "Done.")
    deltas = await heard(talk.say("Make me a list.", tools=canvas_tools()))
    assert await kinds(talk) == [
        *("user", "tool_call", "model_call", "canvas", "tool_result", "assistant", "model_call")
    ]
    (drawn,) = [delta for delta in deltas if isinstance(delta, CanvasDelta)]
    (event,) = [one for one in await talk.tail() if one.kind == "canvas"]
    assert isinstance(event.event, CanvasChanged)
    assert (drawn.seq, len(drawn.changes)) == (event.seq, 1)
    assert "passport" in event.event.text
    assert [one.id for one in (await talk.canvas()).elements] == ["packing-list"]
    await assert_valid(talk)


async def test_several_at_once_draw_one_after_the_other(talk: Talk, speak: Speak) -> None:
    speak([call("canvas_add_list", SOCKS), call("canvas_add_chart", VISITORS)], "Done.")
    await said(talk.say("Show me both.", tools=canvas_tools()))
    assert [one.id for one in (await talk.canvas()).elements] == ["packing-list", "visitors"]
    await assert_valid(talk)


async def test_what_does_not_fit_is_told_and_nothing_is_drawn(talk: Talk, speak: Speak) -> None:
    for number in range(ELEMENTS_MOST):
        await talk.act(Card(id=f"card-{number}"), by="")
    speak([call("canvas_add_list", SOCKS)], [call("canvas_remove_element", {"id": "nowhere"})], "It is full.")
    await said(talk.say("Make me a list.", tools=canvas_tools()))
    full, gone = await results(talk)
    assert "at most 40 elements" in full.text
    assert "that of an element on the canvas" in gone.text
    assert len((await talk.canvas()).shown) == ELEMENTS_MOST
    await assert_valid(talk)


async def test_redacting_the_tool_call_takes_what_it_drew(talk: Talk, speak: Speak) -> None:
    speak([call("canvas_add_list", SOCKS)], "Done.")
    await said(talk.say("Make me a list.", tools=canvas_tools()))
    made = next(one for one in await talk.tail() if one.kind == "tool_call")
    await talk.redact(made.seq)
    assert not await talk.canvas()
    left = [
        one for one in await talk.range(made.seq, made.seq + 3) if one.kind in ("tool_call", "canvas", "tool_result")
    ]
    assert all(isinstance(one.event, Redacted) for one in left)
    assert "passport" not in str([one.body for one in await talk.tail()])
    assert await talk.recall("passport") == []


async def test_a_tool_that_waited_for_approval_draws_when_it_runs(talk: Talk, speak: Speak) -> None:
    @tool(approval=True)
    def timetable(line: str) -> Drawing:
        """Shows the timetable of a line."""
        return Drawing((Put(element=Card(id=line, title=f"Line {line}")),), "Shown.")

    speak([call("timetable", {"line": "D"})], "There it is.")
    await heard(talk.say("When does D go?", tools=[timetable]))
    assert not await talk.canvas()
    await said(talk.approve(tools=[timetable]))
    assert [one.id for one in (await talk.canvas()).elements] == ["D"]
    await assert_valid(talk)


async def test_a_runner_that_was_taken_over_draws_nothing(et: Everthread, talk: Talk, speak: Speak) -> None:
    async def slow() -> Drawing:
        """Draws late."""
        line = await talk.line()
        name = of_turns(line.conversation, line.branch.number)
        holder = await et.log.leases.take(line.tenant, name, holder="another", seconds=60.0)
        assert await et.log.leases.take(line.tenant, name, holder="another", seconds=60.0, over=holder) == "another"
        return Drawing((Put(element=Card(id="late")),))

    speak([call("slow")], "Never said.")
    with pytest.raises(TakenOver):
        await talk.say("Draw.", tools=[slow])
    assert not await talk.canvas()


async def test_a_result_that_draws_is_stored_as_any_other(talk: Talk, speak: Speak) -> None:
    speak([call("canvas_add_list", SOCKS)], "Done.")
    await said(talk.say("Make me a list.", tools=canvas_tools()))
    (one,) = await results(talk)
    result = one.event
    assert isinstance(result, ToolResult)
    assert not result.error
    assert [quote.seq for quote in result.quotes] == [2]


async def test_what_the_user_did_meanwhile_is_not_undone(talk: Talk, speak: Speak) -> None:
    items = tuple(ListItem(text=word) for word in ("passport", "socks"))
    await talk.act(List(id="packing", boxes=True, items=items), by="")

    async def draw() -> Drawing:
        """Draws while the user ticks."""
        await talk.act(Tick(id="packing", item="1"))
        return Drawing((Put(element=Card(id="note")),), "Shown.")

    speak([call("draw")], "Done.")
    await said(talk.say("Draw.", tools=[draw]))
    packing, note = (await talk.canvas()).elements
    assert isinstance(packing, List)
    assert [item.done for item in packing.items] == [True, False]
    assert note.id == "note"


async def test_a_child_draws_on_its_parent_s_canvas_where_it_may(talk: Talk, speak: Speak) -> None:
    await talk.act(Card(id="mine"), by="")
    speak([call("canvas_add_list", SOCKS)], "Drawn.")
    child = await talk.delegate("Make a list.", tools=canvas_tools(), canvas=True)
    await child
    canvas = await talk.canvas()
    assert [one.element.id for one in canvas.shown] == ["mine", "packing-list"]
    assert canvas.shown[1].by == talk.conversation.agent
    made = next(one for one in await (await talk.on(child.branch)).tail() if one.kind == "tool_call")
    await (await talk.on(child.branch)).redact(made.seq)
    assert [one.id for one in (await talk.canvas()).elements] == ["mine"]


async def test_without_leave_a_child_is_offered_no_tool_that_draws(talk: Talk, speak: Speak) -> None:
    speak([call("canvas_add_list", SOCKS)], "I cannot.")
    child = await talk.delegate("Make a list.", tools=canvas_tools())
    await child
    assert not await talk.canvas()
    assert not await (await talk.on(child.branch)).canvas()
