"""The verbs without await are those of the asynchronous classes: none missing, none of their own."""

from __future__ import annotations

import inspect
import runpy
import threading
from pathlib import Path
from typing import Any

import pytest

import everthread
from everthread import assistant, transfer, user
from everthread.agent import child, personas, reply
from everthread.agent.personas import Agent
from everthread.core.deltas import TextDelta
from everthread.sync import Agents, Child, Everthread, Reply, Stream, Talk
from everthread.testing.scripted import call, script
from everthread.tools import tool

ROOT = Path(__file__).parents[2]


def public(one: object) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("mirrored", "of", "beside"),
    [
        (Everthread, everthread.Everthread, {"run"}),
        (Talk, everthread.Talk, {"conversation", "notes_seen"}),
        (Agents, personas.Agents, set()),
        (Child, child.Child, set()),
        (Reply, reply.Reply, {"close", "pulse", "result"}),
    ],
)
def test_a_mirrored_class_has_the_verbs_of_the_other_and_their_signatures(
    mirrored: type, of: type, beside: set[str]
) -> None:
    assert public(mirrored) == (public(of) - {"aclose"}) | beside
    for name in public(of) - {"aclose"}:
        theirs, ours = getattr(of, name), getattr(mirrored, name)
        if inspect.isfunction(theirs) and name != "close":
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
            assert not inspect.iscoroutinefunction(ours)
            assert "await " not in (ours.__doc__ or "")


def test_a_reply_that_nobody_asks_for_says_what_to_write_without_await(talk: Talk) -> None:
    reply = talk.say("Hello")
    assert repr(reply).startswith("<Reply, not begun: write `talk.say(…).result()`, `for delta in talk.say(…)`")
    with pytest.warns(RuntimeWarning, match=r"never awaited or heard.*`talk\.say\(…\)\.result\(\)`") as told:
        del reply
    assert "await " not in str(told[0].message)


def test_the_value_of_a_reply_that_was_heard(talk: Talk) -> None:
    script("sync", '{"value": 7}')
    reply = talk.say("How many?", output=int)
    assert [delta.kind for delta in reply][-1] == "done"
    assert reply.value == 7


async def test_a_talk_has_what_the_asynchronous_one_has(address: str, someone: str) -> None:
    async with everthread.Everthread.open(address) as et:
        assert public(await et.begin(user=someone)) == public(Talk)


def test_the_types_are_those_of_the_code() -> None:
    stub = runpy.run_path(str(ROOT / "scripts" / "sync_stub.py"))
    assert stub["PAGE"].read_text("utf-8") == stub["page"]()


def test_a_conversation_without_await(et: Everthread, someone: str) -> None:
    script("sync", "No walnuts, then.")
    talk = et.conversation(user=someone, agent="helper")
    talk.append(user("My son is allergic to walnuts."), assistant("Noted."))
    told = list(talk.say("What may I put into the cake?"))
    assert "".join(delta.text for delta in told if isinstance(delta, TextDelta)) == "No walnuts, then."
    assert told[-1].kind == "done"
    assert [one.id for one in et.conversations(user=someone)] == [talk.id]
    assert et.talk(et.conversations(user=someone)[0]).id == talk.id
    assert talk.context(model="openai:gpt-5").sent == 4
    assert talk.recall("allergic")[0].seq == 1
    assert talk.conversation.user == someone
    assert repr(talk).startswith("<Talk ")
    assert et.erase_user(user=someone) == 1


def test_a_reply_gives_the_whole_before_and_after_it_was_heard(talk: Talk) -> None:
    script("sync", "One.", "Two.")
    assert str(talk.say("First").result()) == "One."
    reply = talk.say("Second")
    assert not reply.is_accepted
    assert len(list(reply)) == 2
    assert reply.result().text == "Two."
    assert reply.result().done.state == "idle"
    assert reply.is_accepted


def test_branches_are_talks_without_await(talk: Talk) -> None:
    talk.append(user("One"), assistant("Two"), user("Three"))
    side = talk.fork(at=2, name="side")
    side.append(user("Aside"))
    assert [event.text for event in talk.on("side").tail() if event.text] == ["One", "Two", "Aside"]
    assert {type(one) for one in (side, talk.on("main"), talk.another(talk.id), talk.switch("side"))} == {Talk}
    talk.rewind(to=1).append(user("Again"))
    assert [event.text for event in talk.tail() if event.kind == "user"] == ["One", "Again"]


def test_agents_are_saved_and_listed(et: Everthread) -> None:
    saved = et.agents.save("default", Agent(name="sync-baker", instructions="You bake."))
    assert et.agents.get("default", "sync-baker") == saved
    assert isinstance(et.agents, Agents)


def test_a_tool_call_waits_and_is_approved(talk: Talk) -> None:
    booked: list[int] = []

    @tool(approval=True)
    def book(table: int) -> str:
        """Book a table."""
        booked.append(table)
        return "Done."

    script("sync", call("book", {"table": 4}), "Table 4 is yours.")
    assert talk.say("Book table 4.", tools=[book]).result().done.state == "waiting"
    assert len(talk.waiting()) == 1
    assert talk.approve(tools=[book]).result().text == "Table 4 is yours."
    assert booked == [4]


def test_a_listener_joins_in_the_middle_and_leaves(talk: Talk) -> None:
    script("sync", "Porto is lovely in May.", pace=0.02)
    reply = talk.say("Where should I go?", detached=True)
    after = reply.accepted().seq
    said = ""
    for heard in talk.listen(after=after):
        if isinstance(heard, TextDelta):
            said += heard.text
        elif heard.kind == "done":
            break
    assert said == "Porto is lovely in May."
    assert not talk.stop()


def test_a_listener_may_ask_for_a_sign_of_life(talk: Talk) -> None:
    talk.append(user("One"))
    heard: list[str] = []
    for item in talk.listen().pulse(0.01):
        if item is not None:
            heard.append(item.kind)
        elif heard == ["user"]:  # a sign of life, after all that there was
            heard.append("nothing")
            talk.append(user("Two"))
        if len(heard) == 3:
            break
    assert heard == ["user", "nothing", "user"]


def test_what_has_no_mirrored_form_is_done_with_run(et: Everthread, talk: Talk) -> None:
    talk.append(user("One"))
    line = talk.line()
    assert et.run(lambda et: et.log.head(line)).seq == 1
    lines = et.run(lambda et: transfer.export_lines(et.log, talk.conversation))
    assert isinstance(lines, Stream)
    assert b'"One"' in b"".join(lines)
    unknown: Any = et
    with pytest.raises(AttributeError, match=r"et\.run"):
        unknown.log  # noqa: B018
    with pytest.raises(AttributeError, match="'nothing'"):
        unknown.nothing  # noqa: B018


def test_what_is_forgotten_is_gone_for_the_other_form_of_the_verbs(et: Everthread, talk: Talk) -> None:
    """A mirrored talk keeps nothing itself: neither what was redacted, nor another user's."""
    talk.append(user("My number is 4711."), assistant("Noted."))
    talk.redact(1)
    assert "4711" not in repr(talk.tail()) + repr(talk.recall("number"))
    with pytest.raises(everthread.EverthreadError):
        et.conversation(user="somebody else", id=talk.id)
    talk.erase()
    with pytest.raises(everthread.EverthreadError):
        talk.tail()


def test_an_address_that_is_none_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(everthread.EverthreadError):
        Everthread.open("nowhere")
    assert threading.active_count() == before
