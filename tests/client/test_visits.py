"""Whose conversations a key opens, what happens on the way to a service, and what else the client does by itself."""

from __future__ import annotations

import asyncio
import builtins
import os
from contextlib import aclosing
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from everthread import app, errors
from everthread.agent.personas import Agent, Server
from everthread.client import Everthread, Talk
from everthread.client import connection as connections
from everthread.client.connection import Asked, Connection
from everthread.client.events import ServerEvent, events_in
from everthread.core.deltas import Usage
from everthread.core.events import assistant, user
from everthread.core.told import Told
from everthread.errors import (
    BadValue,
    BeyondModel,
    Forbidden,
    KeyRefused,
    MissingExtra,
    NotRemote,
    ServiceUnreachable,
    TooMany,
    UnknownConversation,
    UnknownSeq,
)
from everthread.problems import error_of, problem_of
from everthread.server import calls
from everthread.server.limits import Allowance
from everthread.testing.scripted import script
from tests.client.serving import Served, serving

# -- whose -------------------------------------------------------------------------------------------------------


async def test_a_persons_key_opens_what_is_theirs_and_says_so_of_anybody_elses(
    served: Served, theirs: Everthread, someone: str
) -> None:
    assert theirs.caller.user == someone
    talk = await theirs.conversation(user=someone)
    other = await served.et.begin(user="somebody-else")
    with pytest.raises(Forbidden, match=f"for the user '{someone}'"):
        await theirs.conversation(user="somebody-else")
    with pytest.raises(UnknownConversation):
        await theirs.conversation(user=someone, id=other.id)
    with pytest.raises(UnknownConversation):
        await talk.another(other.id)
    with pytest.raises(Forbidden, match="of the tenant 'default'"):
        await theirs.begin(user=someone, tenant="another")
    assert await theirs.conversations(user="") == []


async def test_an_applications_key_acts_for_the_users_that_it_names(served: Served, someone: str) -> None:
    name = f"{someone}-zoë"
    async with Everthread.open(served.address, key=await served.key(users=someone)) as et:
        talk = await et.begin(user=name, name="Cakes")
        await talk.append(user("Hello."))
        assert [one.id for one in await et.conversations(user=name)] == [talk.id]
        assert await et.conversations(user=f"{someone}-other") == []
        with pytest.raises(Forbidden):
            await et.conversations(user="nobody-of-ours")
    [own] = await served.et.conversations(user=name)
    assert own.name == "Cakes"


async def test_the_key_may_come_from_the_environment_and_a_wrong_one_is_refused(
    served: Served, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "EVERTHREAD_API_KEY", await served.key(someone))
    async with Everthread.open(served.address) as et:
        assert et.caller.user == someone
    with pytest.raises(KeyRefused):
        await Everthread.open(served.address, key="evk_wrong")
    with pytest.raises(errors.NotSignedIn):
        await Everthread.open(served.address, key="")


@pytest.mark.parametrize("address", ["talk.example.com", "sqlite:///x", "http://me:secret@host", 7])
async def test_an_address_that_is_no_services_is_refused_without_its_secrets(address: Any) -> None:
    with pytest.raises(BadValue) as caught:
        Everthread.open(address)
    assert "secret" not in str(caught.value)


# -- on the way ----------------------------------------------------------------------------------------------------


async def test_a_service_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BACK_OFF", 0.001)
    with pytest.raises(ServiceUnreachable, match=r"http://127\.0\.0\.1:1 "):
        await Everthread.open("http://127.0.0.1:1", key="evk_x")


async def test_what_answers_but_is_no_everthread_is_unreachable(served: Served) -> None:
    elsewhere = Connection(f"{served.address}/page", "", patience=5)
    try:
        with pytest.raises((ServiceUnreachable, errors.NoSuchRoute)):
            await elsewhere.ask(Asked("GET", "/me"))
    finally:
        await elsewhere.close()


async def test_who_asks_too_often_waits_as_long_as_the_service_says(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0.01 if seconds >= 1 else seconds)

    async with app.Everthread.open(address) as store, serving(store, limits=Allowance(requests=2)) as served:
        key = await served.key(someone)
        async with Everthread.open(served.address, key=key) as et:
            monkeypatch.setattr(asyncio, "sleep", counted)
            assert await et.conversations(user=someone) == []
            with pytest.raises(TooMany) as caught:
                await et.begin(user=someone)
    assert caught.value.limit == 2
    assert len([seconds for seconds in waited if seconds >= 1]) == connections.TRIES - 1


async def test_what_only_reads_is_asked_again_when_the_connection_breaks(
    served: Served, conversation: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversation.append(user("Hello."))
    sent, tries = Connection._sent, 0

    async def failing(self: Connection, asked: Asked, seconds: float) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise connections.Lost("broken")
        return await sent(self, asked, seconds)

    monkeypatch.setattr(Connection, "_sent", failing)
    assert [one.text for one in await conversation.before()] == ["Hello."]
    assert tries == 2
    tries = 0
    with pytest.raises(ServiceUnreachable, match="broken"):
        await conversation.append(user("Once."))
    assert tries == 1


async def test_server_sent_events_come_whole_whatever_their_pieces() -> None:
    line = "\u2028"

    async def pieces() -> Any:
        for piece in ("event: told\nid: 3\nda", f'ta: "a{line}b"\n', "\n: still here\n\nevent: x\r\ndata: 1\r\n\r\nev"):
            yield piece.encode()

    assert [event async for event in events_in(pieces())] == [
        ServerEvent("told", f'"a{line}b"'.encode(), "3"),
        ServerEvent("x", b"1"),
    ]


def test_without_its_extra_the_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name == "httpx2":
            raise ImportError(name)
        return wanted(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"everthread\[client\]"):
        Everthread.open("http://127.0.0.1:1")


def test_an_error_comes_back_with_all_that_it_carries() -> None:
    told = error_of(problem_of(UnknownSeq(12, last=3)))
    assert (type(told), told.seq, told.last) == (UnknownSeq, 12, 3)  # type: ignore[attr-defined]
    assert error_of(problem_of(errors.ModelError("No."))).after is None  # type: ignore[attr-defined]


# -- listening -----------------------------------------------------------------------------------------------------


async def test_listening_goes_on_over_broken_connections_without_gap_or_repetition(
    served: Served, conversation: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BACK_OFF", 0.001)
    heard: list[Told] = []
    async with aclosing(conversation.told()) as told:  # type: ignore[type-var]
        for number in range(5):
            await conversation.append(user(f"Number {number}."))
            heard.append(await anext(told))
            served.drop()
    assert [one.item.text for one in heard] == [f"Number {n}." for n in range(5)]  # type: ignore[union-attr]


async def test_a_listener_stays_on_its_branch_when_another_becomes_current(
    served: Served, conversation: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BACK_OFF", 0.001)
    await conversation.append(user("First."))
    main = await conversation.on("main")
    async with aclosing(conversation.listen()) as told:  # type: ignore[type-var]
        assert (await anext(told)).text == "First."  # type: ignore[union-attr]
        await conversation.rewind(to=1)
        served.drop()
        await main.totals()  # which is asked again, over a connection that there is
        await main.append(user("Second."))
        assert (await anext(told)).text == "Second."  # type: ignore[union-attr]


# -- what else is not as the table says ------------------------------------------------------------------------------


async def test_a_context_is_the_librarys_with_its_errors_and_can_be_recorded(conversation: Talk) -> None:
    await conversation.append(user("Hello."))
    context = await conversation.context(model="openai:gpt-5", output=int)
    assert context.parse('{"value": 7}') == 7
    assert context.request["model"] == "gpt-5"
    call = await conversation.record(context, Usage(input=900, output=20), seconds=1.5)
    assert call.kind == "model_call"
    assert (await conversation.rebuild(call.seq, output=int)).differences == ()
    await conversation.append(user("words " * 20_000))
    beyond = await conversation.context(model="openai:gpt-4", settings={"reply_tokens": 4_000})
    with pytest.raises(BeyondModel, match="gpt-4"):
        _ = beyond.request


async def test_a_page_that_the_service_made_smaller_is_whole_here(
    served: Served, conversation: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversation.append(*[user(f"Number {n}.") for n in range(20)])
    called = calls.called

    async def slow(service: Any, route: Any, caller: Any, target: Any, given: Any) -> bytes:
        if given.named.get("limit", 50) > 4:
            await asyncio.sleep(60)
        return await called(service, route, caller, target, given)

    monkeypatch.setattr(calls, "called", slow)
    served.service.page_seconds = 0.02
    assert [one.seq for one in await conversation.before(limit=20)] == list(range(1, 21))
    assert [one.seq for one in await conversation.after(3, limit=6)] == list(range(4, 10))


async def test_a_local_time_is_one_of_the_zone_that_is_named(conversation: Talk) -> None:
    at = datetime(2030, 7, 1, 8)  # noqa: DTZ001 -- local to the zone
    made = await conversation.schedule("Good morning!", at=at, zone="Europe/Berlin")
    assert made.at == at.replace(tzinfo=ZoneInfo("Europe/Berlin"))


async def test_an_agent_keeps_the_secrets_of_its_servers_when_it_is_saved(served: Served, someone: str) -> None:
    async with Everthread.open(served.address, key=await served.key()) as et:
        agent = Agent(name=someone, mcp={"files": Server(command=("mcp",), env={"TOKEN": "s3cret"})})
        await et.agents.save("default", agent)
        assert (await et.agents.must_be("default", someone)).version == 1
    kept = await served.et.agents.must_be("default", someone)
    assert kept.agent.mcp["files"].env == {"TOKEN": "s3cret"}


async def test_the_store_itself_is_not_reached(theirs: Everthread, conversation: Talk) -> None:
    for what, name in ((theirs, "log"), (theirs, "memory"), (conversation, "_log")):
        with pytest.raises(AttributeError, match="The store is the service's"):
            getattr(what, name)
    with pytest.raises(NotRemote):
        await theirs.work()


async def test_a_conversation_is_as_it_was_changed(conversation: Talk) -> None:
    await conversation.rename("Cakes")
    await conversation.set_metadata({"ward": 7})
    await conversation.append(user("Hello."), assistant("Hello!"))
    assert (conversation.conversation.name, conversation.conversation.metadata) == ("Cakes", {"ward": 7})
    forked = await conversation.fork(name="aside")
    assert (await forked.line()).branch.name == "aside"
    back = await conversation.switch("aside")
    assert back.conversation.current == (await back.line()).branch.number


async def test_bytes_go_there_and_come_back(conversation: Talk) -> None:
    handed_in = await conversation.upload(b"eggs, flour", name="recipe.txt", media_type="text/plain")
    assert await conversation.blobs([handed_in]) == {handed_in.event.parts[0].blob: b"eggs, flour"}  # type: ignore[union-attr]
    with pytest.raises(errors.UnknownBlob):
        await conversation.blob("0" * 64)


async def test_a_child_is_waited_for_and_listened_to(conversation: Talk, someone: str) -> None:
    script(someone, "Done with it.")
    child = await conversation.delegate("Look it up.", name="lookup")
    outcome = await child
    assert (outcome.state, outcome.result, child.name) == ("done", "Done with it.", "lookup")
    assert (await conversation.child("lookup")).branch == child.branch
    assert [one.branch for one in await conversation.children()] == [child.branch]
    async with aclosing(child.listen()) as told:  # type: ignore[type-var]
        heard = [await anext(told) for _ in range(4)]
    assert "Look it up." in [getattr(one, "text", "") for one in heard]
    assert not await child.stop()
