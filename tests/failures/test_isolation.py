"""Probes of the wall between users: every verb, with every name, number and value that an intruder could make up.

The victim has said WALNUTS wherever something can be said. After each probe nothing of it was read, written, counted or
told, and the intruder heard no more than of a conversation that never was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from everthread import Everthread, Talk, assistant, file, tool_call, user
from everthread.core.branches import ENDLESS
from everthread.core.events import BriefUpdated, ModelCall, SessionEnded, ToolCall, text_of
from everthread.core.parts import blob_hash
from everthread.errors import EverthreadError, NotFound, UnknownConversation
from everthread.store.conversations import Conversation, Owner
from everthread.store.scripts.restore import Whole
from everthread.testing.scripted import script
from everthread.transfer import export_lines, read_file
from tests.waiting import PATIENCE

SECRET = "WALNUTS"
NOBODY = "01M7F8X1NFWF5G5Z7TBXHQ6334"  # an id that nobody has
BYTES = SECRET.encode()


class Stage(NamedTuple):
    et: Everthread
    victim: Talk
    intruder: Talk
    model: str


@pytest.fixture
async def stage(et: Everthread, someone: str) -> Stage:
    victim = await et.begin(user=f"{someone}.ana", tenant="acme", name=SECRET, goal=SECRET, settings={"own": SECRET})
    intruder = await et.begin(user=f"{someone}.eve", tenant="acme")
    await victim.append(user(SECRET, file(BYTES, name=SECRET)), assistant(SECRET), key="k")
    await victim.mark("point")
    await victim.append(user("Buy."), ToolCall(id="a", name="buy", arguments="{}", waits_for="approval"))
    await victim.append(BriefUpdated(text=SECRET, covers=2, facts=SECRET), SessionEnded(session=1, recap=SECRET))
    await victim.append(ModelCall(model="openai:gpt-4o", input=4_711, price=1.0, at=1))
    await victim.fork(name="side")
    await victim.write_notes(SECRET)
    await intruder.append(user("Hello."), assistant("Hi."))
    await et.memory.drain()
    return Stage(et, victim, intruder, script(someone, "Fine."))


async def seen(et: Everthread, talk: Talk) -> list[Any]:
    """All that there is of a conversation."""
    owner: dict[str, Any] = {"user": talk.conversation.user, "tenant": talk.conversation.tenant}
    found = await et.conversation(id=talk.id, **owner)
    events = [await (await found.on(branch.branch.number)).range(1, ENDLESS) for branch in await found.branches()]
    usage = [await et.usage(**owner), await et.totals(**owner), await found.notes()]
    return [found.conversation, *[[(one.id, one.body) for one in branch] for branch in events], *usage]


async def heard(work: Awaitable[Any] | AsyncIterator[Any]) -> str:
    """What an intruder gets of it, as text. Raises what it raises."""
    async with asyncio.timeout(PATIENCE):
        if isinstance(work, AsyncIterator):
            return repr([await anext(work)])
        return repr(await work)


# -- a conversation that somebody has made up -----------------------------------------------------------------------

Forge = Callable[[Stage], Conversation]
FORGED: dict[str, Forge] = {
    "as one's own": lambda s: msgspec.structs.replace(s.victim.conversation, user=s.intruder.conversation.user),
    "of another tenant": lambda s: msgspec.structs.replace(s.victim.conversation, tenant="rival"),
    "one's own with another id": lambda s: msgspec.structs.replace(s.intruder.conversation, id=s.victim.id),
    "with another agent": lambda s: msgspec.structs.replace(s.victim.conversation, agent="admin"),
    "the owner's, with an id that nobody has": lambda s: msgspec.structs.replace(s.victim.conversation, id=NOBODY),
}

Probe = Callable[[Talk, Stage], Any]
VERBS: dict[str, Probe] = {
    "append": lambda t, s: t.append(user("mine")),
    "append with a key": lambda t, s: t.append(user(SECRET, file(BYTES, name=SECRET)), assistant(SECRET), key="k"),
    "append to a branch": lambda t, s: Talk(s.et.log, t.conversation, 2).append(user("mine")),
    "clear": lambda t, s: t.clear(),
    "mark": lambda t, s: t.mark("mine"),
    "line": lambda t, s: t.line(),
    "branches": lambda t, s: t.branches(),
    "on a number": lambda t, s: t.on(1),
    "on a name": lambda t, s: t.on("side"),
    "fork": lambda t, s: t.fork(),
    "fork at": lambda t, s: t.fork(at=1, name="mine"),
    "rewind": lambda t, s: t.rewind(to=1),
    "rewind to a mark": lambda t, s: t.rewind(to="point"),
    "switch": lambda t, s: t.switch("side"),
    "tail": lambda t, s: t.tail(),
    "before": lambda t, s: t.before(),
    "after": lambda t, s: t.after(),
    "range": lambda t, s: t.range(1, 9),
    "listen": lambda t, s: t.listen(),
    "turns": lambda t, s: t.turns(),
    "sessions": lambda t, s: t.sessions(),
    "totals": lambda t, s: t.totals(),
    "blob": lambda t, s: t.blob(blob_hash(BYTES)),
    "context": lambda t, s: t.context(model=s.model),
    "steps": lambda t, s: t.steps(model=s.model),
    "count": lambda t, s: t.count(model=s.model),
    "rebuild": lambda t, s: t.rebuild(8),
    "pin": lambda t, s: t.pin(1),
    "unpin": lambda t, s: t.unpin(1),
    "configure": lambda t, s: t.configure(budget=5),
    "recall": lambda t, s: t.recall(SECRET),
    "recall everywhere": lambda t, s: t.recall(SECRET, scope="user", branches="all"),
    "brief": lambda t, s: t.brief(),
    "look up": lambda t, s: t.look_up(tool_call("recall_context", {"query": SECRET, "scope": "user"})),
    "open": lambda t, s: t.look_up(tool_call("open_event", {"reference": "event 1"})),
    "write memory": lambda t, s: t.look_up(tool_call("write_memory", {"text": "mine"})),
    "notes": lambda t, s: t.notes(),
    "write notes": lambda t, s: t.write_notes("mine"),
    "forget notes": lambda t, s: t.forget_notes(),
    "remember": lambda t, s: t.remember(),
    "remembered": lambda t, s: t.remembered(),
    "correct": lambda t, s: t.correct("mine"),
    "memory": lambda t, s: t.memory(),
    "say": lambda t, s: t.say("Hello?", model=s.model),
    "say detached": lambda t, s: t.say("Hello?", model=s.model, detached=True)._whole(),
    "resume": lambda t, s: t.resume(model=s.model),
    "approve": lambda t, s: t.approve("a", model=s.model, tools=[_buy]),
    "refuse": lambda t, s: t.refuse(model=s.model),
    "waiting": lambda t, s: t.waiting(),
    "stop": lambda t, s: t.stop(),
    "usage": lambda t, s: t.usage(),
    "rename": lambda t, s: t.rename("mine"),
    "set goal": lambda t, s: t.set_goal("mine"),
    "set settings": lambda t, s: t.set_settings({"mine": 1}),
    "redact": lambda t, s: t.redact(1),
    "erase": lambda t, s: t.erase(),
    "export": lambda t, s: export_lines(s.et.log, t.conversation),
    "branches of the log": lambda t, s: s.et.log.conversations.branches(t.conversation),
    "change of the log": lambda t, s: s.et.log.conversations.change(t.conversation, name="mine"),
    "line of the log": lambda t, s: s.et.log.line(t.conversation, 2),
}


def _buy() -> str:
    return "bought"


@pytest.mark.parametrize("verb", VERBS)
async def test_a_conversation_that_was_made_up_is_nobodys(stage: Stage, verb: str, subtests: pytest.Subtests) -> None:
    before = await seen(stage.et, stage.victim)
    own = await seen(stage.et, stage.intruder)
    for forged, forge in FORGED.items():
        with subtests.test(forged):
            talk = stage.et.talk(forge(stage))
            with pytest.raises(UnknownConversation) as refused:
                await heard(VERBS[verb](talk, stage))
            assert SECRET not in str(refused.value)
            assert "for this user" in str(refused.value)
            await stage.et.memory.drain()
            assert await seen(stage.et, stage.victim) == before
            assert await seen(stage.et, stage.intruder) == own


# -- one's own conversation, with what is another's -----------------------------------------------------------------

THINGS: dict[str, Probe] = {
    "a branch by number": lambda t, s: t.on(2),
    "a branch by name": lambda t, s: t.switch("side"),
    "a mark": lambda t, s: t.rewind(to="point"),
    "a blob": lambda t, s: t.blob(blob_hash(BYTES)),
    "an event": lambda t, s: t.redact(5),
    "an event to pin": lambda t, s: t.pin(5),
    "a model call": lambda t, s: t.rebuild(8),
    "a waiting call": lambda t, s: t.approve("a", model=s.model, tools=[_buy]),
    "its id": lambda t, s: s.et.conversation(user=t.conversation.user, tenant="acme", id=s.victim.id),
    "its id in another tenant": lambda t, s: s.et.conversation(user=s.victim.conversation.user, id=s.victim.id),
}
ASKED: dict[str, Probe] = {
    "a word": lambda t, s: t.recall(SECRET, limit=20),
    "a word anywhere": lambda t, s: t.recall(SECRET, scope="user", branches="all", limit=20),
    "a reference": lambda t, s: _opened(t, f"event 1 on branch 1 of conversation {s.victim.id}"),
    "a reference to a branch": lambda t, s: _opened(t, f"event 9 on branch 2 of conversation {s.victim.id}"),
    "a reference of one's own": lambda t, s: _opened(t, "event 5 on branch 2"),
    "a page before it": lambda t, s: s.et.conversations(user=t.conversation.user, tenant="acme", before=s.victim.id),
    "a page of a prefix": lambda t, s: s.et.conversations(user=s.victim.conversation.user[:-1], tenant="acme"),
    "a page of a tenant": lambda t, s: s.et.conversations(user=s.victim.conversation.user, tenant="ACME"),
    "usage by user": lambda t, s: s.et.usage(user=t.conversation.user, tenant="acme", by="user"),
    "usage by model": lambda t, s: s.et.usage(user=t.conversation.user, tenant="acme", by="model"),
    "usage elsewhere": lambda t, s: s.et.usage(user=s.victim.conversation.user, tenant="rival"),
    "totals": lambda t, s: s.et.totals(user=s.victim.conversation.user, tenant="rival"),
    "the same key": lambda t, s: t.append(user("Hello."), key="k"),
    "a context": lambda t, s: _told(t, s),
    "notes": lambda t, s: t.notes(),
    "what is remembered": lambda t, s: t.remembered(),
    "erasing a prefix": lambda t, s: s.et.erase_user(user=s.victim.conversation.user[:-1], tenant="acme"),
    "erasing elsewhere": lambda t, s: s.et.erase_user(user=s.victim.conversation.user, tenant="rival"),
}


async def _opened(talk: Talk, reference: str) -> str:
    return text_of(await talk.look_up(tool_call("open_event", {"reference": reference})))


async def _told(talk: Talk, stage: Stage) -> str:
    return repr((await talk.context(model=stage.model)).request)


@pytest.mark.parametrize("thing", THINGS)
async def test_what_is_anothers_cannot_be_named(stage: Stage, thing: str) -> None:
    before = await seen(stage.et, stage.victim)
    with pytest.raises(EverthreadError) as refused:
        await heard(THINGS[thing](stage.intruder, stage))
    assert isinstance(refused.value, NotFound) or "wait" in str(refused.value) or "seq" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert await seen(stage.et, stage.victim) == before


@pytest.mark.parametrize("asked", ASKED)
async def test_nothing_of_anothers_is_told(stage: Stage, asked: str) -> None:
    before = await seen(stage.et, stage.victim)
    told = await heard(ASKED[asked](stage.intruder, stage))
    assert SECRET not in told
    assert stage.victim.id not in told.replace(f"conversation {stage.victim.id}", "")  # but for what was asked
    assert "ZX-4711" not in told
    assert await seen(stage.et, stage.victim) == before


# -- the same id in two tenants --------------------------------------------------------------------------------------


async def test_what_is_kept_in_memory_for_one_tenant_is_not_told_to_another(
    et: Everthread, someone: str, tmp_path: Any
) -> None:
    """An export that two tenants have imported, and one has gone on with."""
    mine = await et.begin(user=someone, tenant="acme")
    words = [event for n in range(40) for event in (user(f"Question {n} " + "word " * 30), assistant(f"Answer {n}."))]
    await mine.append(*words)
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join([line async for line in export_lines(et.log, mine.conversation)]))
    (read,) = read_file(path, Owner("rival", someone), agent="any")
    secret = [(branch, [_secret(draft) for draft in drafts]) for branch, drafts in read.branches]
    await et.log.restore([Whole(conversation=read.conversation, branches=secret)])
    theirs = et.talk(read.conversation)
    assert theirs.id == mine.id
    asked: dict[str, Any] = {"model": "openai:gpt-4o", "budget": 900}
    assert SECRET in repr((await theirs.context(**asked)).request)
    assert SECRET not in repr((await mine.context(**asked)).request)
    assert await et.log.fence(await mine.line()) != await et.log.fence(await theirs.line())


def _secret(draft: Any) -> Any:
    said = text_of(draft.event)
    event = user(f"{said} {SECRET}") if draft.event.kind == "user" else draft.event
    return msgspec.structs.replace(draft, event=event, sizes=None)
