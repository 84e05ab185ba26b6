"""Usage: every model call is counted once, with its event and never without it; totals are the owner's alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.branches import ENDLESS, Branch, Target
from everthread.core.events import Event, Mark, ModelCall, Redacted
from everthread.core.times import moment
from everthread.errors import BadValue, Conflict, UnknownConversation
from everthread.store.beside.usage import DAY, MOST, By, UsageTotal
from everthread.store.conversations import Conversation, Owner
from everthread.store.engine import Outcome, Script
from everthread.store.log import Log
from everthread.store.open import open_log
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import Whole
from tests.contract.support import MINUTE, START, Clock, Interleaved, assert_sound, engine_of
from tests.migrations.databases import rows, run

T = TypeVar("T")
TENANT = "default"
BYS: tuple[By, ...] = ("turn", "session", "conversation", "day", "model", "user")


def call(model: str = "scripted:echo", **figures: Any) -> ModelCall:
    return ModelCall(model=model, at=1, **figures)


@pytest.fixture
def owner(someone: str) -> Owner:
    return Owner(TENANT, someone)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def log(address: str, clock: Clock) -> AsyncIterator[Log]:
    opened = await open_log(address, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def begun(log: Log, owner: Owner) -> Conversation:
    return await log.conversations.begin(owner, agent="helper")


async def say(log: Log, conversation: Conversation, *events: Event) -> None:
    await log.append(Target(conversation.tenant, conversation.id), events)


# -- what is counted ---------------------------------------------------------------------------------------


async def test_a_total_adds_up_every_figure(log: Log, begun: Conversation, owner: Owner, clock: Clock) -> None:
    first = call(input=10, output=2, cache_read=3, cache_write=4, reasoning=1, price=0.25, ms=900)
    await say(log, begun, user("hi"), first, assistant("hello"))
    clock.now += MINUTE
    await say(log, begun, call(input=100, price=0.5, ms=50), call(error="no network"))
    assert await log.usage.of_owner(owner, by="conversation") == [
        UsageTotal(
            conversation=begun.id,
            calls=3,
            failed=1,
            input=110,
            output=2,
            cache_read=3,
            cache_write=4,
            reasoning=1,
            price=0.75,
            unpriced=1,
            ms=950,
            first=moment(START),
            last=moment(START + MINUTE),
        )
    ]


async def test_nothing_was_used_where_no_model_was_called(log: Log, begun: Conversation, owner: Owner) -> None:
    await say(log, begun, user("hi"), assistant("hello"), Mark(name="here"))
    for by in BYS:
        assert await log.usage.of_owner(owner, by=by) == []


async def test_totals_are_by_turn(log: Log, begun: Conversation, owner: Owner) -> None:
    await say(log, begun, call(input=1), user("a"), call(input=2), call(input=3), user("b"), call(input=4))
    found = await log.usage.of_owner(owner, by="turn", conversation=begun.id)
    assert [(u.conversation, u.branch, u.turn, u.input) for u in found] == [
        (begun.id, 1, 2, 4),
        (begun.id, 1, 1, 5),
        (begun.id, 1, 0, 1),
    ]


async def test_totals_are_by_session(log: Log, begun: Conversation, owner: Owner, clock: Clock) -> None:
    await say(log, begun, user("a"), call(input=1), call(input=2))
    clock.now += 31 * MINUTE
    await say(log, begun, user("b"), call(input=4))
    found = await log.usage.of_owner(owner, by="session")
    assert [(u.session, u.input, u.turn) for u in found] == [(2, 4, 0), (1, 3, 0)]


async def test_totals_are_by_day_in_utc(log: Log, begun: Conversation, owner: Owner, clock: Clock) -> None:
    clock.now = START + DAY - 1
    await say(log, begun, call(input=1))
    clock.now += 1
    await say(log, begun, call(input=2))
    clock.now += DAY - 1
    await say(log, begun, call(input=4))
    found = await log.usage.of_owner(owner, by="day")
    assert [(u.day, u.input, u.conversation) for u in found] == [("2026-01-02", 6, ""), ("2026-01-01", 1, "")]


async def test_totals_are_by_model_and_by_user(log: Log, begun: Conversation, owner: Owner, clock: Clock) -> None:
    for model, tokens in (("a:x", 1), ("a:y", 2), ("a:x", 4)):
        await say(log, begun, call(model, input=tokens))
        clock.now += 1
    assert [(u.model, u.input) for u in await log.usage.of_owner(owner, by="model")] == [("a:x", 5), ("a:y", 2)]
    assert [(u.user, u.input) for u in await log.usage.of_owner(owner, by="user")] == [(owner.user, 7)]


async def test_a_span_of_time_includes_its_beginning_and_not_its_end(
    log: Log, begun: Conversation, owner: Owner, clock: Clock
) -> None:
    for tokens in (1, 2, 4, 8):
        await say(log, begun, call(input=tokens))
        clock.now += 10
    for conversation in ("", begun.id):
        (found,) = await log.usage.of_owner(
            owner, by="user", conversation=conversation, since=START + 10, until=START + 30
        )
        assert (found.input, found.first, found.last) == (6, moment(START + 10), moment(START + 20))
        assert await log.usage.of_owner(owner, by="user", conversation=conversation, since=START + 31) == []
        (found,) = await log.usage.of_owner(owner, by="user", conversation=conversation, since=-(10**30), until=10**30)
        assert found.calls == 4


async def test_the_newest_come_first_and_no_more_than_asked_for(log: Log, owner: Owner, clock: Clock) -> None:
    begun = []
    for _ in range(5):
        begun.append(await log.conversations.begin(owner, agent="helper"))
        await say(log, begun[-1], call())
        clock.now += 1
    await say(log, begun[1], call())
    order = [begun[n].id for n in (1, 4, 3, 2, 0)]
    assert [u.conversation for u in await log.usage.of_owner(owner, by="conversation")] == order
    assert [u.conversation for u in await log.usage.of_owner(owner, by="conversation", limit=2)] == order[:2]
    assert await log.usage.of_owner(owner, by="conversation", limit=0) == []


async def test_a_model_call_is_counted_once_however_many_branches_share_it(et: Everthread, talk: Talk) -> None:
    owner = Owner(TENANT, talk.conversation.user)
    await talk.append(user("a"), call(input=1), assistant("b"))
    for _ in range(3):
        side = await talk.fork(at=3)
        await side.append(call(input=10), user("c"), call(input=100))
    (found,) = await et.log.usage.of_owner(owner, by="conversation")
    assert (found.calls, found.input) == (7, 331)
    turns = await et.log.usage.of_owner(owner, by="turn")
    assert sorted((u.branch, u.turn, u.input) for u in turns) == [
        (1, 1, 1),
        *((branch, turn, tokens) for branch in (2, 3, 4) for turn, tokens in ((1, 10), (2, 100))),
    ]
    await assert_sound(et, talk)


async def test_what_is_said_twice_with_one_key_is_counted_once(et: Everthread, talk: Talk) -> None:
    for _ in range(2):
        await talk.append(user("a"), call(input=5), key="once")
    (found,) = await et.log.usage.of_owner(Owner(TENANT, talk.conversation.user), by="user")
    assert (found.calls, found.input) == (1, 5)


async def test_an_append_that_is_refused_counts_nothing(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), user("b"))
    with pytest.raises(Conflict):
        await talk.append(call(input=5), expect=1)
    assert await et.log.usage.of_owner(Owner(TENANT, talk.conversation.user), by="user") == []


async def test_many_who_append_at_once_are_all_counted(address: str, et: Everthread, talk: Talk) -> None:
    logs = [await open_log(address) for _ in range(3)]
    target = Target(TENANT, talk.id)
    await asyncio.gather(*(logs[n % 3].append(target, [user("x"), call(input=1)]) for n in range(30)))
    (found,) = await et.log.usage.of_owner(Owner(TENANT, talk.conversation.user), by="user")
    assert (found.calls, found.input) == (30, 30)
    await assert_sound(et, talk)
    for log in logs:
        await log.close()


@pytest.mark.parametrize(
    ("odd", "figures"),
    [
        pytest.param({"model": "a\0b\ud800"}, ("ab?", 0, 0.0), id="a name that no database can keep"),
        pytest.param({"model": "m" * 1_000}, ("m" * 400, 0, 0.0), id="a name without end"),
        pytest.param({"input": 2**63}, ("m", MOST, 0.0), id="more than can be added up"),
        pytest.param({"input": -5, "price": -1.0}, ("m", 0, 0.0), id="less than nothing"),
        pytest.param({"price": 1e308}, ("m", 0, float(MOST)), id="a price beyond all"),
    ],
)
async def test_what_a_provider_reports_never_stands_in_the_way(
    et: Everthread, talk: Talk, odd: dict[str, Any], figures: tuple[str, int, float]
) -> None:
    await talk.append(call(**{"model": "m", **odd}))
    (found,) = await et.log.usage.of_owner(Owner(TENANT, talk.conversation.user), by="model")
    assert (found.model, found.input, found.price) == figures
    await assert_sound(et, talk)


async def test_what_cannot_be_asked_for_is_refused(log: Log, owner: Owner) -> None:
    with pytest.raises(BadValue, match="turn, session, branch, conversation, day, model, user"):
        await log.usage.of_owner(owner, by="mood")  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="conversation"):
        await log.usage.of_owner(owner, by="day", conversation="\ud800")


# -- what it costs -----------------------------------------------------------------------------------------


class Recorded(Interleaved):
    """An engine that says which statements each write made."""

    made: list[list[str]]

    async def write(self, script: Callable[[], Script[Outcome[T]]], *, about: str, **how: bool) -> T:
        self.made = []

        def observed() -> Script[Outcome[T]]:
            outcome = yield from script()
            self.made.append([f"{write.name} x{len(write.rows)}" for write in outcome.writes])
            return outcome

        return await super().write(observed, about=about, **how)


async def test_only_an_append_with_model_calls_makes_a_second_statement(log: Log, begun: Conversation) -> None:
    """But for the first append of a minute, which says that the conversation is active."""
    engine = Recorded(engine_of(log))
    recorded = Log(engine, clock=Clock())
    await say(recorded, begun, user("a"))
    assert engine.made == [["insert_event x1", "stir x1"]]
    await say(recorded, begun, user("a"), Mark(name="b"), assistant("c"))
    assert engine.made[-1] == ["insert_event x3"]
    await say(recorded, begun, Redacted(was="model_call"))
    assert engine.made[-1] == ["insert_event x1"]
    await say(recorded, begun, call(), assistant("d"), call())
    assert engine.made[-1] == ["insert_event x3", "insert_model_call x2"]


# -- whose it is -------------------------------------------------------------------------------------------


async def test_nobody_sees_what_another_used(log: Log, begun: Conversation, owner: Owner) -> None:
    await say(log, begun, call(input=5))
    strangers = [Owner(TENANT, f"not-{owner.user}"), Owner("elsewhere", owner.user), Owner(TENANT, "")]
    for stranger in strangers:
        for by in BYS:
            assert await log.usage.of_owner(stranger, by=by) == []
            assert await log.usage.of_owner(stranger, by=by, conversation=begun.id) == []


async def test_an_operator_sees_a_tenants_and_is_logged(
    log: Log, someone: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    tenant = f"tenant-{someone}"
    for tokens, name in enumerate(("ana", "bob", "ana"), start=1):
        await say(log, await log.conversations.begin(Owner(tenant, name), agent="helper"), call(input=tokens))
        clock.now += 1
    with caplog.at_level(logging.INFO, logger="everthread.audit"):
        found = await log.usage.of_tenant(tenant, by="user")
    assert [(u.user, u.calls, u.input) for u in found] == [("ana", 2, 4), ("bob", 1, 2)]
    assert [record.message for record in caplog.records] == [f"an operator listed the usage of tenant {tenant}"]
    (found_later,) = await log.usage.of_tenant(tenant, by="day", since=START + 1, until=START + 2)
    assert (found_later.calls, found_later.input) == (1, 2)


# -- forgetting and restoring ------------------------------------------------------------------------------


async def test_a_redacted_model_call_is_no_longer_counted(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), call(input=1), call(input=10))
    await talk.redact(2)
    await talk.redact(1)
    (found,) = await et.log.usage.of_owner(Owner(TENANT, talk.conversation.user), by="user")
    assert (found.calls, found.input) == (1, 10)
    await assert_sound(et, talk)


async def test_an_erased_conversation_is_no_longer_counted(et: Everthread, talk: Talk) -> None:
    owner = Owner(TENANT, talk.conversation.user)
    other = await et.begin(user=owner.user)
    for each in (talk, other):
        await each.append(call(input=1))
    await talk.erase()
    assert [u.conversation for u in await et.log.usage.of_owner(owner, by="conversation")] == [other.id]
    await et.log.forgetting.erase_user(owner)
    assert await et.log.usage.of_owner(owner, by="conversation") == []


async def test_a_restored_conversation_is_counted_as_it_was(log: Log, owner: Owner) -> None:
    id = f"restored-{owner.user}"
    made = Conversation(tenant=TENANT, id=id, user=owner.user, agent="helper", began=moment(START))
    main = Branch(number=1, name="main", parent=None, at=0, time=moment(START))
    side = Branch(number=2, name="side", parent=1, at=2, time=moment(START))
    said: list[Event] = [user("a"), call(input=1), call(input=2)]
    aside: list[Event] = [Redacted(was="model_call"), call(input=4)]
    drafts = [Draft(event=event, time=START + n) for n, event in enumerate(said)]
    more = [Draft(event=event, time=START + DAY) for event in aside]
    await log.restore([Whole(conversation=made, branches=[(main, drafts), (side, more)])])
    found = await log.usage.of_owner(owner, by="day")
    assert [(u.day, u.calls, u.input) for u in found] == [("2026-01-02", 1, 4), ("2026-01-01", 2, 3)]
    assert (await log.check(TENANT, made.id))[1] == []


async def test_a_span_of_time_is_given_in_datetimes(et: Everthread, talk: Talk, someone: str) -> None:
    """With a zone, or without one in that of the machine."""
    [logged] = await talk.append(call(input=5))
    for then in (logged.time, logged.time.astimezone().replace(tzinfo=None)):
        assert [found.input for found in await et.usage(user=someone, since=then)] == [5]
        assert await et.usage(user=someone, until=then) == []
        assert (await et.usage(user=someone))[0].first == logged.time


@pytest.mark.parametrize("wrong", ["2026-01-01", 1_769_817_600_000_000, 1.5, True])
async def test_a_time_that_is_no_datetime_is_refused(et: Everthread, talk: Talk, someone: str, wrong: Any) -> None:
    for verb in (partial(et.usage, user=someone), partial(talk.recall, "cake")):
        with pytest.raises(BadValue, match=r"since is .*, but must be a datetime, such as datetime\(2026"):
            await verb(since=wrong)


# -- doctor ------------------------------------------------------------------------------------------------

DAMAGE = {
    "a row that is missing": ("DELETE FROM model_calls WHERE {here} AND seq = 2", "model call 2 is not counted"),
    "a row of another user": (
        "UPDATE model_calls SET \"user\" = 'mallory' WHERE {here} AND seq = 2",
        "model call 2 is not counted",
    ),
    "wrong figures": (
        "UPDATE model_calls SET input = 7, price = NULL WHERE {here} AND seq = 3",
        "model call 3 is counted with wrong input, price",
    ),
    "a row without its event": (
        "UPDATE model_calls SET seq = 1000 WHERE {here} AND seq = 3",
        "model call 1000 is counted, but is not there",
    ),
    "a row of another event": (
        "UPDATE model_calls SET seq = 1 WHERE {here} AND seq = 3",
        "model call 1 is counted, but is not there",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_doctor_finds(et: Everthread, talk: Talk, address: str, damage: str) -> None:
    sql, problem = DAMAGE[damage]
    await talk.append(user("a"), call(input=1), call(input=2, price=0.5), assistant("b"))
    await assert_sound(et, talk)
    await run(address, sql.format(here=f"conversation = '{talk.id}'"))
    _, problems = await et.log.check(TENANT, talk.id)
    assert f"{talk.id} branch main: {problem}" in problems


async def test_doctor_names_a_model_call_that_cannot_be_read_once(et: Everthread, talk: Talk, address: str) -> None:
    await talk.append(user("a"), call(input=1))
    body = "x'3f'" if address.startswith("sqlite") else "'?'::bytea"
    await run(address, f"UPDATE events SET body = {body} WHERE conversation = '{talk.id}' AND seq = 2")
    _, problems = await et.log.check(TENANT, talk.id)
    assert len(problems) == 1
    assert "event 2 cannot be read" in problems[0]
    await talk.redact(2)
    await assert_sound(et, talk)


async def test_doctor_compares_page_after_page(et: Everthread, talk: Talk, address: str) -> None:
    await talk.append(*[event for n in range(1_100) for event in (user("a"), call(input=n))])
    await assert_sound(et, talk)
    await run(address, f"DELETE FROM model_calls WHERE conversation = '{talk.id}' AND seq IN (2, 1000, 2200)")
    _, problems = await et.log.check(TENANT, talk.id)
    assert [problem.partition(": ")[2] for problem in problems] == [
        f"model call {seq} is not counted" for seq in (2, 1000, 2200)
    ]


async def test_no_row_is_kept_of_anything_but_a_model_call(et: Everthread, talk: Talk, address: str) -> None:
    await talk.append(user("a"), call(), Mark(name="b"), assistant("c"))
    found = await rows(address, f"SELECT branch, seq FROM model_calls WHERE conversation = '{talk.id}'")
    assert found == [(1, 2)]
    assert len(await talk.range(1, ENDLESS)) == 4


async def test_nothing_is_counted_in_a_conversation_that_is_not_there(et: Everthread, someone: str) -> None:
    with pytest.raises(UnknownConversation):
        await et.log.append(Target(TENANT, f"none-{someone}"), [call()])
    assert await et.log.usage.of_owner(Owner(TENANT, someone), by="user") == []
