"""Whatever is planted in a sound store, `doctor` finds and names; and of a sound one it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, file, tool_call, user
from everthread.core.events import BriefUpdated, ModelCall, SessionEnded
from everthread.store.conversations import Owner
from tests.failures.aftermath import TENANT
from tests.failures.test_damage import Vandal

SECRET = "ZX-4711"
OF = "conversation = $1"
NUMBER = "(SELECT number FROM recall_conversations WHERE conversation = $1)"

# What is planted, and what doctor must say.
FAULTS = {
    # a wrong sum
    "tokens before": (f"UPDATE events SET tokens_before = tokens_before + 1 WHERE {OF} AND seq = 4", "tokens_before"),
    "settled before": (f"UPDATE events SET settled_before = 9 WHERE {OF} AND seq = 4", "settled_before"),
    "messages before": (f"UPDATE events SET messages_before = 9 WHERE {OF} AND seq = 4", "messages_before"),
    "what was cleared": (f"UPDATE events SET cleared_sum = 7 WHERE {OF} AND seq = 4", "cleared_sum"),
    "calls without a result": (f"UPDATE events SET pending = 3 WHERE {OF} AND seq = 4", "pending"),
    "tokens of a model call": (f"UPDATE model_calls SET input = input + 1 WHERE {OF}", "wrong input"),
    "the price of a model call": (f"UPDATE model_calls SET price = 99 WHERE {OF}", "wrong price"),
    "events in the index": (f"UPDATE recall_conversations SET events = events + 1 WHERE {OF}", "of its events"),
    "words in the index": (f"UPDATE recall_conversations SET words = words + 1 WHERE {OF}", "of its words"),
    "places in the index": (f"UPDATE recall_conversations SET slots = slots + 1 WHERE {OF}", "places"),
    # what cannot be read
    "settings": (f"UPDATE conversations SET settings = 'nonsense' WHERE {OF}", "settings cannot be read"),
    "metadata": (f"UPDATE conversations SET metadata = 'nonsense' WHERE {OF}", "metadata cannot be read"),
    # a missing row
    "an event": (f"DELETE FROM events WHERE {OF} AND branch = 1 AND seq = 3", "event 3 is missing"),
    "the newest event, appended with a key": (f"DELETE FROM events WHERE {OF} AND branch = 2 AND seq = 12", "event 12"),
    "a fork's events": (f"DELETE FROM events WHERE {OF} AND branch = 2", "no events"),
    "a fork point": (f"DELETE FROM events WHERE {OF} AND branch = 1 AND seq = 10", "event 10"),
    "a file": (f"DELETE FROM blobs WHERE {OF}", "is missing"),
    "that a file is shown": (f"DELETE FROM blob_uses WHERE {OF}", "not noted"),
    "figures of a model call": (f"DELETE FROM model_calls WHERE {OF}", "not counted"),
    "a quote": (f"DELETE FROM quotes WHERE {OF}", "wrongly noted"),
    "a word": (f"DELETE FROM recall_words WHERE block >> 20 IN {NUMBER}", "what recall knows"),
    "a block": (f"DELETE FROM recall_blocks WHERE block >> 20 IN {NUMBER}", "recall has"),
    "what the index has of it": (f"DELETE FROM recall_conversations WHERE {OF}", "knows nothing of it"),
    "a branch": (f"DELETE FROM branches WHERE {OF} AND branch = 2", "belong to nothing"),
    "the branch that is current": (f"UPDATE conversations SET current = 9 WHERE {OF}", "current branch is 9"),
    "a conversation": (f"DELETE FROM conversations WHERE {OF}", "belong to nothing"),
    "whose it is": (f"UPDATE conversations SET \"user\" = '' WHERE {OF}", "nobody's"),
    "a version of a document": ("DELETE FROM documents WHERE version = 1 AND $1 <> ''", "1 of its 2 versions"),
    # something half-forgotten
    "an event that is being forgotten": (
        "INSERT INTO forgetting VALUES ('default', $1, 1, 1, '', 'event', 7)",
        "event 1 on branch 1 of conversation",
    ),
    "a user who is being forgotten": (
        "INSERT INTO forgetting VALUES ('default', '', 0, 0, $1, 'user', 7)",
        "a user is half-forgotten",
    ),
    "a conversation that was erased": (f"UPDATE conversations SET erased = 7 WHERE {OF}", "half-forgotten"),
    "a tombstone beside its file": (
        f"UPDATE events SET body = TOMBSTONE WHERE {OF} AND branch = 1 AND seq = 5",
        "event 5 is half-forgotten",
    ),
    "a tombstone that the index tells of": (
        f"UPDATE events SET body = TOMBSTONE WHERE {OF} AND branch = 1 AND seq = 3",
        "what recall knows",
    ),
    "a tombstone that another conversation quotes": (
        f"UPDATE events SET body = TOMBSTONE WHERE {OF} AND branch = 1 AND seq = 1",
        "still quotes it",
    ),
    "a tombstone and a hash of it": (
        f"UPDATE receipts SET hash = 'ab', branch = 1, first = 8, last = 8 WHERE {OF}",
        "a hash of it",
    ),
    "a brief of what was redacted": (
        f"UPDATE events SET body = BRIEF WHERE {OF} AND branch = 1 AND seq = 9",
        "event 8 is half-forgotten",
    ),
    "a partial reply of a conversation that is not there": (
        "INSERT INTO leases VALUES ('default', 'turn/' || substr($1, 1, 25) || '~/1', 'x', 0, 0, 'word')",
        "partial replies of conversation",
    ),
    # an index behind
    "an index that says it is further": (
        f"UPDATE recall_branches SET last = last + 1 WHERE {OF} AND branch = 1",
        "recall",
    ),
    "an index that lacks what came last": (
        f"DELETE FROM recall_blocks WHERE block >> 20 IN {NUMBER}",
        "recall is behind",
    ),
    "an index that says it is behind": (
        f"UPDATE recall_branches SET last = 2 WHERE {OF} AND branch = 1",
        "says it has not",
    ),
    "an index that does not say how far": (f"DELETE FROM recall_branches WHERE {OF} AND branch = 1", "says it has not"),
    "an index of somebody else": (f"UPDATE recall_conversations SET \"user\" = 'x' WHERE {OF}", "somebody else's"),
    "words of nothing": ("INSERT INTO recall_words VALUES (1, 1048576000, $1)", "recall_words of block"),
}
SAID = {
    "TOMBSTONE": b'{"kind":"redacted","was":"user"}',
    "BRIEF": b'{"kind":"brief_updated","text":"ZX-4711","covers":8}',
}


@pytest.fixture
async def et(fresh_address: str) -> Any:
    async with Everthread.open(fresh_address) as opened:
        yield opened


@pytest.fixture
async def talk(et: Everthread, someone: str) -> Talk:
    """Two turns, a file, a model call, a redaction and what it reached, a fork, an index, notes; another conversation
    quotes the first message."""
    talk = await et.begin(user=someone)
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."), user("Walnuts are nuts."), assistant("Yes."))
    await talk.append(
        user("See.", file(b"almonds")), ModelCall(model="a:b", at=6, input=5, price=0.5), assistant("I see.")
    )
    await talk.append(
        user("Forget this."), BriefUpdated(text="They said so.", covers=8), SessionEnded(session=1, recap="")
    )
    await talk.redact(8)
    side = await talk.fork(at=10, name="side")
    await side.append(user("Here, too."), key="k")
    await talk.write_notes("one")
    await talk.write_notes("two")
    other = await et.begin(user=someone)
    call = tool_call("open_event", {"reference": f"event 1 on branch 1 of conversation {talk.id}"})
    await other.append(user("What was it?"), call, await other.look_up(call), assistant("That."))
    call = tool_call("open_event", {"reference": "event 1"})
    await talk.append(user("Again?"), call, await talk.look_up(call), assistant("That."))
    await et.log.recall.index(Owner(TENANT, someone))
    return talk


async def diagnosis(et: Everthread) -> list[str]:
    """What `doctor` says."""
    found = [*await et.log.problems(), *await et.log.strays()]
    for tenant, conversation in await et.log.everything():
        found += (await et.log.check(tenant, conversation))[1]
    return found


async def test_nothing_is_said_of_a_sound_store(et: Everthread, talk: Talk) -> None:
    assert await diagnosis(et) == []
    await talk.redact(1)
    assert await diagnosis(et) == []
    await talk.erase()
    assert await diagnosis(et) == []


def _bytes(engine: str, body: bytes) -> str:
    return f"x'{body.hex()}'" if engine == "sqlite" else f"'\\x{body.hex()}'"


@pytest.mark.parametrize(("sql", "words"), FAULTS.values(), ids=FAULTS)
async def test_what_is_planted_is_found_and_named(
    et: Everthread, talk: Talk, fresh_address: str, engine: str, sql: str, words: str
) -> None:
    for name, body in SAID.items():
        sql = sql.replace(name, _bytes(engine, body))
    await Vandal(fresh_address).run(sql, talk.id)
    found = await diagnosis(et)
    assert [problem for problem in found if words in problem], found


async def test_a_partial_reply_of_an_erased_conversation_is_found(
    et: Everthread, talk: Talk, fresh_address: str
) -> None:
    await talk.erase()
    kept = "INSERT INTO leases VALUES ('default', $1, 'x', 0, 0, 'word')"
    await Vandal(fresh_address).run(kept, f"turn/{talk.id}/1")
    assert await diagnosis(et) == [f"partial replies of conversation {talk.id} belong to nothing that is there"]


async def test_what_a_sibling_branch_remembers_of_a_redacted_event_is_found_by_its_time(
    et: Everthread, talk: Talk, fresh_address: str, engine: str
) -> None:
    """The sibling has many more events than the branch from which it was redacted: seqs say nothing about it."""
    long, short = await talk.fork(at=4), await talk.fork(at=4)
    for _ in range(10):
        await long.append(user("More."), assistant("Yes."))
    [brief] = await long.append(BriefUpdated(text=SECRET, covers=4))
    await short.redact(3)
    await long.append(BriefUpdated(text="Made of what is left.", covers=4))
    await et.log.recall.index(Owner(TENANT, talk.conversation.user))
    assert await diagnosis(et) == []
    plant = f"UPDATE events SET body = {_bytes(engine, SAID['BRIEF'])} WHERE {OF} AND branch = $2 AND seq = $3"
    await Vandal(fresh_address).run(plant, talk.id, brief.branch, brief.seq)
    found = await diagnosis(et)
    assert [one for one in found if f"event 3 is half-forgotten: event {brief.seq} of branch {brief.branch}" in one], (
        found
    )


async def test_an_index_that_lacks_the_newest_message_is_a_fault_only_if_it_says_it_has_it(
    et: Everthread, talk: Talk, fresh_address: str
) -> None:
    """It follows a moment later, and whoever searches brings it up to the log first: unless it lies about itself."""
    [said] = await talk.append(user("Pistachios are green."))
    assert await diagnosis(et) == []
    await Vandal(fresh_address).run(
        f"UPDATE recall_branches SET last = $2 WHERE {OF} AND branch = 1", talk.id, said.seq
    )
    found = await diagnosis(et)
    assert [one for one in found if f"recall is behind on branch 1: it lacks event {said.seq}" in one], found
    await Vandal(fresh_address).run(f"UPDATE recall_branches SET last = last - 1 WHERE {OF} AND branch = 1", talk.id)
    assert [hit.seq for hit in await talk.recall("pistachios")] == [said.seq]
    assert await diagnosis(et) == []


async def test_a_user_is_erased_whose_settings_are_damaged(
    et: Everthread, talk: Talk, someone: str, fresh_address: str
) -> None:
    await Vandal(fresh_address).run(f"UPDATE conversations SET settings = '[1' WHERE {OF}", talk.id)
    assert await et.erase_user(user=someone) == 2
    assert await diagnosis(et) == []


async def test_a_store_opens_though_what_is_half_forgotten_cannot_be_finished(
    et: Everthread, talk: Talk, fresh_address: str
) -> None:
    side = await talk.fork()
    [event] = [one for one in await side.before(limit=1) if one.kind == "fork"]
    pending = "INSERT INTO forgetting VALUES ('default', $1, $2, $3, '', 'event', 1)"
    await Vandal(fresh_address).run(pending, talk.id, event.branch, event.seq)
    async with Everthread.open(fresh_address) as again:
        assert [one for one in await diagnosis(again) if "half-forgotten" in one]
