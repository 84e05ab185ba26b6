"""How a streamed reply is put together, whichever provider it comes from."""

from __future__ import annotations

from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Reasoning, Text
from everthread.providers.client import Replied
from everthread.providers.reply import ReplyBuilder, new_id

MODEL = "scripted:any"
FIND = ToolCall(id="a", name="find", arguments="{}")
LOOK = ToolCall(id="b", name="look", arguments="{}")


def spoke(*parts: Text | Reasoning) -> Assistant:
    return Assistant(parts=parts, model=MODEL)


def whole_of(*said: str | ToolCall | Text, in_order: bool = True) -> Replied:
    """A reply of texts, of thoughts in brackets, and of what came whole."""
    reply = ReplyBuilder(MODEL, in_order=in_order)
    for one in said:
        if isinstance(one, ToolCall):
            reply.call(one)
        elif isinstance(one, Text):
            reply.part(one)
        else:
            list(reply.thought(one[1:-1]) if one.startswith("(") else reply.text(one))
    return reply.whole("stop")


def test_a_piece_is_passed_on_as_it_is_and_an_empty_one_is_none() -> None:
    reply = ReplyBuilder(MODEL)
    assert [*reply.thought("Hm."), *reply.text("Yes"), *reply.text(""), *reply.thought("")] == [
        ReasoningDelta(text="Hm."),
        TextDelta(text="Yes"),
    ]


def test_pieces_of_one_kind_that_follow_each_other_are_one_part() -> None:
    said = whole_of("(H)", "(m)", "Y", "es", "(And)", "no")
    parts = Reasoning(text="Hm"), Text(text="Yes"), Reasoning(text="And"), Text(text="no")
    assert said.events == (spoke(*parts),)


def test_thoughts_come_first_where_the_wire_does_not_tell_their_place() -> None:
    said = whole_of("Y", "(H)", "es", "(m)", in_order=False)
    assert said.events == (spoke(Reasoning(text="Hm"), Text(text="Yes")),)


def test_a_part_that_comes_whole_stays_apart() -> None:
    apart = Text(text="Two", meta={"any": "{}"})
    assert whole_of("One", apart, apart, "Three").events == (spoke(Text(text="One"), apart, apart, Text(text="Three")),)


def test_what_stands_between_two_tool_calls_is_one_message() -> None:
    said = whole_of("One", FIND, LOOK, "(Two)", "three", FIND)
    first, second = spoke(Text(text="One")), spoke(Reasoning(text="Two"), Text(text="three"))
    assert said.events == (first, FIND, LOOK, second, FIND)


def test_a_reply_of_nothing_is_an_empty_message_and_one_of_a_call_is_the_call() -> None:
    assert whole_of().events == (spoke(),)
    assert whole_of(FIND).events == (FIND,)


def test_usage_the_reported_name_and_the_number_of_calls_are_told() -> None:
    reply = ReplyBuilder(MODEL)
    reply.usage, reply.reported = Usage(input=3, output=2), "any-2026"
    reply.call(FIND)
    assert reply.calls == 1
    assert reply.whole("tools") == Replied(
        events=(FIND,), usage=Usage(input=3, output=2), finish="tools", model="any-2026"
    )


def test_no_two_new_ids_are_the_same() -> None:
    assert len({new_id() for _ in range(100)}) == 100
