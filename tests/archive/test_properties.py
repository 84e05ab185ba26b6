"""Properties 17 and 18: conversations that have rested long enough are found; and they come back the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everthread import Talk, assistant, file, image, tool_call, tool_result, user
from everthread.core.events import Clear, Event, Mark, ModelCall, SessionEnded, System
from everthread.core.events.kinds import Other
from everthread.core.parts import Text
from tests.archive.places import DAY, PNG, Stage, every_row, hide
from tests.contract.support import MINUTE
from tests.examples import examples

often = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["sqlite", "postgres"], scope="session")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, bucket: str) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("archive-properties")
    address = f"sqlite:///{folder}/talk.db"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres").create_database("archive_properties")
    opened = Stage(address, str(folder / "archives"))
    yield opened
    opened.close()


texts = st.text(max_size=40) | st.sampled_from(["", "\0", "\ud800 lone", "é😀漢字", "x" * 3_000])
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
parts = texts.map(lambda text: Text(text=text)) | st.binary(max_size=60).map(file) | st.just(image(PNG))
said: st.SearchStrategy[Event] = st.one_of(
    st.lists(parts, min_size=1, max_size=3).map(lambda found: user(*found)),
    texts.map(assistant),
    texts.map(lambda text: System(parts=(Text(text=text),))),
    st.builds(lambda text: tool_call("look", {"at": text}), st.text(max_size=9)),
    st.builds(lambda text: tool_result(text, name="look"), texts),
    st.just(Clear()),
    st.text("abc", min_size=1, max_size=3).map(lambda name: Mark(name=name)),
    st.integers(0, 10**6).map(lambda n: ModelCall(at=1, model="m", input=n, output=1, price=n / 7, ms=n)),
    st.just(SessionEnded(session=1, recap="They spoke.")),
    st.dictionaries(st.text(max_size=5).filter(lambda name: name != "kind"), data, max_size=3).map(
        lambda found: Other(kind="an_applications_own", data=found)
    ),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "key", "fork", "rewind", "switch", "redact", "wait"]),
        st.lists(said, min_size=1, max_size=4),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=8,
)


async def _do(stage: Stage, talk: Talk, step: tuple[str, list[Event], int], number: int) -> None:
    what, events, at = step
    last = (await stage.et.log.head(await talk.line())).seq
    if what == "wait":
        stage.clock.now += at * 10_000
    elif what in ("append", "key") or not last:
        # As from another program: the log takes what conversations would not.
        await stage.et.log.append(talk._target, events, key=f"k{number}" if what == "key" else "")
    elif what == "fork":
        await (await talk.fork(at=at % (last + 1))).append(user("aside"))
    elif what == "rewind":
        await talk.rewind(to=at % (last + 1))
    elif what == "switch":
        branches = await talk.branches()
        await talk.switch(branches[at % len(branches)].branch.number)
    elif (await talk.range(at % last + 1, at % last + 1))[0].kind in ("user", "assistant"):
        await talk.redact(at % last + 1)


@often
@given(steps, st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_property_18_an_archived_conversation_comes_back_the_same(
    stage: Stage, bucket: str, steps: list[tuple[str, list[Event], int]], encrypted: bool, on_s3: bool, chance: int
) -> None:
    """Every row of every table: forks, markers, unknown kinds, binary parts and all; in either place, either way."""
    stage.do(_round_trip(stage, bucket if on_s3 else "", steps, encrypted, named=bool(chance % 2)))


async def _round_trip(stage: Stage, bucket: str, steps: list[Any], encrypted: bool, *, named: bool) -> None:
    et = stage.et
    own = dict(et._settings)
    try:
        place = f"s3://{bucket}/properties" if bucket else own["archive_place"]
        et._settings, et._read = {**own, "archive_place": place, "archive_encryption": encrypted}, None
        talk = await et.begin(user="somebody", name="A name" if named else "", metadata={"n": 1})
        for number, step in enumerate(steps):
            await _do(stage, talk, step, number)
        before = await every_row(stage.address, talk.id)
        await et.archive(user="somebody", id=talk.id)
        assert not (await every_row(stage.address, talk.id))["events"]
        await et.restore(user="somebody", id=talk.id)
        assert await every_row(stage.address, talk.id) == before
        assert (await et.log.check("default", talk.id))[1] == []
    finally:
        et._settings, et._read = own, None


@often
@given(st.lists(st.tuples(st.floats(0, 60), st.booleans()), min_size=1, max_size=5), st.floats(0.5, 45))
def test_property_17_conversations_that_have_rested_long_enough_are_found(
    stage: Stage, ages: list[tuple[float, bool]], days: float
) -> None:
    """Those whose newest event is older than that, to the minute, and no others; each page goes on after the last."""
    stage.do(_found(stage, ages, days))


async def _found(stage: Stage, ages: list[tuple[float, bool]], days: float) -> None:
    et, start = stage.et, stage.clock.now
    wanted, ids, begun = set[str](), set[str](), list[str]()
    for age, speaks_again in sorted(ages, reverse=True):
        stage.clock.now = start + int((60 - age) * DAY)
        talk = await et.begin(user="somebody")
        await talk.append(user("Hello."))
        if speaks_again:
            stage.clock.now += DAY
            await talk.append(user("And again."))
        active = stage.clock.now
        begun.append(talk.id)
        beyond = start + 60 * DAY - int(days * DAY) - active
        if abs(beyond) > 2 * MINUTE:  # at the border either will do
            ids.add(talk.id)
        if beyond > 0:
            wanted.add(talk.id)
    stage.clock.now = start + 60 * DAY
    found, last = set[str](), None
    while page := await et.log.archives.idle(seconds=days * 86_400, limit=2, **({"after": last} if last else {})):
        found |= {one.conversation for one in page}
        last = page[-1]
    assert found & ids == wanted & ids
    for one in begun:
        await hide(et, one)
    stage.clock.now = start + 70 * DAY
