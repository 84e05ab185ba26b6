"""What is handed to a verb and cannot be used is refused by name, with what may stand there instead; nobody meets an
error from the inside, and nothing wrong is taken in silence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, file, image, tool_call, user
from everthread.core.events import Command
from everthread.core.strategies import Choice
from everthread.errors import BadSetting, BadValue, BeyondModel, EverthreadError, NotYetGone, NoUser, UnknownSeq
from tests.failures.aftermath import clear, sound

MODEL = "openai:gpt-4o"
PROVIDERS = "where the provider is anthropic, openai, openai-responses, google, local or scripted"


@pytest.fixture
async def said(talk: Talk) -> Talk:
    await talk.append(user("one"), assistant("two"), user("three"))
    return talk


async def _refused(work: Awaitable[Any], kind: type[EverthreadError] = BadValue) -> EverthreadError:
    with pytest.raises(kind) as refused:
        await work
    return refused.value


async def _heard(talk: Talk, after: Any) -> Any:
    return await anext(talk.listen(after=after))


# -- numbers of events -------------------------------------------------------------------------------------

NUMBERED: dict[str, Callable[[Talk, Any], Awaitable[Any]]] = {
    "at of context": lambda talk, bad: talk.context(model=MODEL, at=bad),
    "at of steps": lambda talk, bad: talk.steps(model=MODEL, at=bad),
    "at of fork": lambda talk, bad: talk.fork(at=bad),
    "seq of pin": lambda talk, bad: talk.pin(bad),
    "seq of unpin": lambda talk, bad: talk.unpin(bad),
    "seq of redact": lambda talk, bad: talk.redact(bad),
    "seq of before": lambda talk, bad: talk.before(bad),
    "seq of after": lambda talk, bad: talk.after(bad),
    "first of range": lambda talk, bad: talk.range(bad, 3),
    "last of range": lambda talk, bad: talk.range(1, bad),
    "after of listen": lambda talk, bad: _heard(talk, bad),
    "expect of append": lambda talk, bad: talk.append(user("four"), expect=bad),
}


@pytest.mark.parametrize("bad", [True, 1.0, "1", [1], float("nan")], ids=repr)
@pytest.mark.parametrize("what", NUMBERED)
async def test_the_number_of_an_event_is_a_whole_number(et: Everthread, said: Talk, what: str, bad: Any) -> None:
    assert clear(await _refused(NUMBERED[what](said, bad)), f"{what.split()[0]} is {bad!r}", "the seq of an event")
    assert await sound(et, said) == ["one", "two", "three"]


async def test_nobody_knows_an_event_before_the_first(said: Talk) -> None:
    assert clear(await _refused(_heard(said, -1)), "after is -1", "the last event that you know, or 0")


@pytest.mark.parametrize("verb", ["before", "after", "redact", "pin", "unpin"])
async def test_no_seq_is_no_seq(said: Talk, verb: str) -> None:
    assert clear(await _refused(getattr(said, verb)(None)), "seq is None", "a whole number")


@pytest.mark.parametrize("bad", [True, 2.0, "2", None], ids=repr)
async def test_a_count_is_a_whole_number(et: Everthread, said: Talk, bad: Any) -> None:
    user = said.conversation.user
    limited = [said.before(limit=bad), said.after(limit=bad), said.turns(limit=bad), said.sessions(limit=bad)]
    limited += [et.conversations(user=user, limit=bad), said.steps(model=MODEL, limit=bad)]
    for work in limited:
        assert clear(await _refused(work), f"limit is {bad!r}", "a whole number above zero")
    assert clear(await _refused(said.tail(turns=bad)), f"turns is {bad!r}", "a whole number above zero")


async def test_a_turn_before_the_last_clear_cannot_be_pinned_but_released(said: Talk) -> None:
    """It would never be sent, and nobody would know why."""
    await said.clear()
    await said.append(user("five"))
    for seq in (1, 3, 4):
        words = (f"seq is {seq}", "after the last clear, which is event 4", "nothing before it is sent")
        assert clear(await _refused(said.pin(seq)), *words)
    await said.unpin(1)
    await said.pin(5)


async def test_what_came_before_the_first_message_is_in_no_turn(talk: Talk) -> None:
    await talk.append(Command(name="hello"), user("one"))
    assert clear(await _refused(talk.pin(1)), "seq is 1", "came before the first message")
    for nowhere in (0, 9):
        assert clear(await _refused(talk.pin(nowhere), UnknownSeq), f"no event {nowhere}", "numbered 1 to 2")


# -- names, and what may be a name or a number -------------------------------------------------------------


@pytest.mark.parametrize("bad", [5, True, b"ana", ["ana"]], ids=repr)
async def test_a_name_is_text(et: Everthread, said: Talk, someone: str, bad: Any) -> None:
    named: dict[str, list[Awaitable[Any]]] = {
        "user": [et.conversation(user=bad), et.begin(user=bad), et.totals(user=bad), et.erase_user(user=bad)],
        "tenant": [et.conversation(user=someone, tenant=bad), et.conversations(user=someone, tenant=bad)],
        "agent": [et.conversation(user=someone, agent=bad), et.conversations(user=someone, agent=bad)],
        "id": [et.conversation(user=someone, id=bad)],
        "before": [et.conversations(user=someone, before=bad)],
        "name": [et.begin(user=someone, name=bad), said.rename(bad), said.fork(name=bad), said.rewind(to=1, name=bad)],
        "goal": [et.begin(user=someone, goal=bad), said.set_goal(bad)],
        "key": [said.append(user("four"), key=bad)],
        "mark": [said.mark(bad)],
        "hash": [said.blob(bad)],
    }
    for what, works in named.items():
        for work in works:
            assert clear(await _refused(work), f"{what} is {bad!r}", "must be text")
    assert await sound(et, said) == ["one", "two", "three"]


async def test_nobody_is_no_user(et: Everthread) -> None:
    await _refused(et.conversation(user=None), NoUser)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [True, 1.0, None, ["main"]], ids=repr)
async def test_a_branch_has_a_name_and_a_number_and_a_point_a_seq_or_a_mark(said: Talk, bad: Any) -> None:
    for verb in (said.on, said.switch):
        assert clear(await _refused(verb(bad)), f"branch is {bad!r}", "the name of a branch, or its number")
    assert clear(await _refused(said.rewind(to=bad)), f"to is {bad!r}", "the seq of an event, or the name of a mark")


# -- opening -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"session_gap": 1800}, ["session_gap is 1800", "a timedelta above zero"]),
        ({"session_gap": timedelta(0)}, ["session_gap", "a timedelta above zero"]),
        ({"max_event_bytes": 1e6}, ["max_event_bytes is 1000000.0", "a whole number above zero"]),
        ({"max_event_bytes": True}, ["max_event_bytes is True", "a whole number above zero"]),
        ({"patience": "30"}, ["patience is '30'", "seconds from zero up"]),
        ({"patience": True}, ["patience is True", "seconds from zero up"]),
        ({"importance": 50}, ["importance is 50", "a function"]),
        ({"settings": 5}, ["settings is 5", "names and values"]),
        ({"settings": ["budget"]}, ["settings is ['budget']", "names and values"]),
        ({"settings": {5: 5}}, ["settings is {5: 5}", "names and values"]),
    ],
)
def test_a_store_is_opened_with_what_can_be_used(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(BadValue) as refused:
        Everthread.open("sqlite:///nowhere.db", **options)
    assert clear(refused.value, *words)


@pytest.mark.parametrize("bad", [5, None, Path("talk.db"), b"sqlite:///talk.db"], ids=repr)
def test_an_address_is_text(bad: Any) -> None:
    with pytest.raises(BadValue) as refused:
        Everthread.open(bad)
    assert clear(refused.value, "address is ", "must be text such as sqlite:///talk.db or postgresql://")


async def test_a_store_that_nobody_waited_for_says_how_to_open_it(tmp_path: Path) -> None:
    opening: Any = Everthread.open(f"sqlite:///{tmp_path}/talk.db")
    for name in ("conversation", "begin", "log", "close"):
        with pytest.raises(AttributeError, match=rf"not open yet.*{name}.*await Everthread\.open.*async with"):
            getattr(opening, name)
    await (await opening).close()


# -- settings ----------------------------------------------------------------------------------------------

BAD_SETTINGS: list[tuple[dict[str, Any], list[str]]] = [
    ({"budget": "much"}, ["budget is 'much' in ", "a whole number"]),
    ({"model": "foo:bar"}, ["model is 'foo:bar' in ", PROVIDERS]),
    ({"model": "gpt-4o"}, ["model is 'gpt-4o' in ", PROVIDERS]),
    ({"model": 5}, ["model is 5 in ", PROVIDERS]),
    ({"summary_model": "foo:bar"}, ["summary_model is 'foo:bar' in ", PROVIDERS]),
    ({"clock": "second"}, ["clock is 'second' in ", "off, day, hour or minute"]),
]


@pytest.mark.parametrize(("bad", "words"), BAD_SETTINGS)
async def test_a_bad_setting_is_refused_where_it_is_set_and_names_its_source(
    et: Everthread, said: Talk, someone: str, address: str, bad: Any, words: list[str]
) -> None:
    with pytest.raises(BadSetting) as refused:
        Everthread.open(address, settings=bad)
    assert clear(refused.value, *words, "in the settings that the store was opened with")
    own = "in this conversation's settings"
    assert clear(await _refused(et.begin(user=someone, settings=bad), BadSetting), *words, own)
    assert clear(await _refused(said.set_settings(bad), BadSetting), *words, own)
    assert clear(await _refused(said.configure(**bad), BadSetting), *words, "in the settings given")
    assert clear(await _refused(said.context(settings=bad), BadSetting), *words, "in the settings given")
    assert len(await et.conversations(user=someone)) == 1
    assert await sound(et, said) == ["one", "two", "three"]


async def test_a_conversation_keeps_what_is_the_applications_own(et: Everthread, someone: str) -> None:
    own = {"colour": "red", "Budget": "much", "budget": 5_000, "clock": None}
    talk = await et.begin(user=someone, settings=own)
    assert talk.conversation.settings == own
    await talk.set_settings({"colour": ["blue"]})
    assert (await et.conversation(user=someone, id=talk.id)).conversation.settings == {"colour": ["blue"]}


@pytest.mark.parametrize("bad", [5, "budget=5", ["budget"], [], {5: 5}], ids=repr)
async def test_settings_are_names_and_values(et: Everthread, said: Talk, someone: str, bad: Any) -> None:
    works = [said.context(settings=bad), said.steps(settings=bad), said.set_settings(bad)]
    for work in [*works, et.begin(user=someone, settings=bad)]:
        assert clear(await _refused(work), "settings is ", "names and values, as in {'budget': 50_000}")


async def test_settings_that_change_after_the_store_was_opened_change_nothing(address: str, someone: str) -> None:
    given: GivenSettings = {"model": MODEL}
    async with Everthread.open(address, settings=given) as et:
        given["model"] = "foo:bar"
        assert (await (await et.begin(user=someone)).context()).model == MODEL


# -- strategies --------------------------------------------------------------------------------------------

MAY_RETURN = ("what the strategy returned is ", "a Choice with its begin, or the seq at which the window shall begin")


async def _async(view: Any) -> int:
    return 1


async def _async_generator(view: Any) -> Any:
    yield 1


def _generator(view: Any) -> Any:
    yield from ()
    return "one"


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        pytest.param(5, ["strategy is 5", "budget, messages, session, importance, or a function"], id="a number"),
        pytest.param(["budget"], ["strategy is ['budget']", "or a function of your own"], id="a list"),
        pytest.param(False, ["strategy is False", "or a function of your own"], id="false"),
        pytest.param(lambda view: None, [*MAY_RETURN, "None"], id="returns nothing"),
        pytest.param(lambda view: "1", [*MAY_RETURN, "'1'"], id="returns text"),
        pytest.param(lambda view: 1.0, [*MAY_RETURN, "1.0"], id="returns a float"),
        pytest.param(lambda view: True, [*MAY_RETURN, "True"], id="returns a bool"),
        pytest.param(lambda view: Choice(begin=1), [*MAY_RETURN, "begin=1"], id="begins at no turn"),  # type: ignore[arg-type]
        pytest.param(_generator, [*MAY_RETURN, "'one'"], id="a generator that returns text"),
        pytest.param(_async, [*MAY_RETURN, "coroutine", "cannot be async"], id="async"),
        pytest.param(_async_generator, [*MAY_RETURN, "async_generator", "cannot be async"], id="an async generator"),
    ],
)
async def test_a_strategy_is_a_name_or_a_function_that_chooses(
    et: Everthread, said: Talk, strategy: Any, words: list[str]
) -> None:
    assert clear(await _refused(said.context(model=MODEL, strategy=strategy)), *words)
    assert await sound(et, said) == ["one", "two", "three"]


# -- instructions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [5, True, b"Be kind.", ["Be kind."], {"persona": None}, {"user": 5}, {5: "x"}], ids=repr
)
async def test_instructions_are_text_or_texts(said: Talk, bad: Any) -> None:
    words = ("instructions is ", "text, or texts for some of persona, user, memory, skills")
    assert clear(await _refused(said.context(model=MODEL, instructions=bad)), *words)
    assert clear(await _refused(said.steps(model=MODEL, instructions=bad)), *words)


@pytest.mark.parametrize(
    ("instructions", "told"),
    [
        (None, "You are Ada."),
        ({}, "You are Ada."),
        ({"user": "Likes tea."}, "You are Ada.\n\n# About the user\n\nLikes tea."),
        ({"persona": "You are Bob.", "user": "Likes tea."}, "You are Bob.\n\n# About the user\n\nLikes tea."),
        ({"persona": "", "user": "Likes tea."}, "# About the user\n\nLikes tea."),
        ("You are Bob.", "You are Bob."),
    ],
)
async def test_the_configured_persona_stands_where_none_is_given(said: Talk, instructions: Any, told: str) -> None:
    await said.configure(instructions="You are Ada.")
    request = (await said.context(model=MODEL, instructions=instructions)).request
    assert request["messages"][0]["content"] == told


# -- parts and events --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: image(5), ["image is 5", "bytes, or a URL"], id="an image"),  # type: ignore[arg-type]
        pytest.param(lambda: image(None), ["image is None", "read_bytes"], id="no image"),  # type: ignore[arg-type]
        pytest.param(lambda: file(5), ["file is 5", "bytes; of a file"], id="a file"),  # type: ignore[arg-type]
        pytest.param(lambda: file("a.txt"), ["'a.txt'", "read_bytes"], id="a path"),  # type: ignore[arg-type]
        pytest.param(lambda: tool_call("a", {"x": {1}}), ["arguments is ", "plain JSON"], id="a set"),
        pytest.param(lambda: tool_call("a", {"x": float("nan")}), ["arguments is ", "plain JSON"], id="no number"),
        pytest.param(lambda: tool_call("a", [1]), ["arguments is [1]", "a dict"], id="a list"),  # type: ignore[arg-type]
        pytest.param(lambda: tool_call("a", None), ["is None", "a dict"], id="nothing"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_part_or_no_arguments_is_refused_at_once(make: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(BadValue) as refused:
        make()
    assert clear(refused.value, *words)


# -- more than the model takes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needed", "limit", "reply", "words"),
    [
        (50, 0, 0, ["takes 0 beside its reply", "lower reply_tokens"]),
        (50, 0, 9_000, ["takes 0 beside its reply", "lower reply_tokens, which keeps 9,000"]),
        (150, 100, 50, ["takes 100 beside its reply", "lower reply_tokens, which keeps 50"]),
        (151, 100, 50, ["takes 100 beside its reply", "shorten the newest message", "a larger window"]),
        (151, 100, 0, ["takes 100 beside its reply", "shorten the newest message", "a larger window"]),
    ],
)
def test_where_the_reply_takes_the_room_it_is_told_to_take_less(
    needed: int, limit: int, reply: int, words: list[str]
) -> None:
    error = BeyondModel(MODEL, needed=needed, limit=limit, reply=reply)
    assert clear(error, f"need {needed} tokens", *words)
    assert ("shorten" in str(error)) != ("reply_tokens" in str(error))


# -- what is forgotten is not remembered -------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["redact", "erase", "erase_user"])
@pytest.mark.parametrize("fails", [False, True], ids=["done", "not yet gone"])
async def test_a_context_made_while_something_is_forgotten_keeps_nothing_of_it(
    et: Everthread, said: Talk, verb: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = getattr(et.log.forgetting, verb)

    async def meanwhile(*given: Any, **named: Any) -> Any:
        await said.context(model=MODEL)
        assert et._runtime.contexts._turn_cache._kept
        done = await really(*given, **named)
        if fails:
            raise NotYetGone("the store", seconds=1.0)
        return done

    monkeypatch.setattr(et.log.forgetting, verb, meanwhile)
    works: dict[str, Callable[[], Awaitable[Any]]] = {
        "redact": lambda: said.redact(1),
        "erase": said.erase,
        "erase_user": lambda: et.erase_user(user=said.conversation.user),
    }
    if fails:
        await _refused(works[verb](), NotYetGone)
    else:
        await works[verb]()
    kept = et._runtime.contexts._turn_cache
    assert not kept._kept
    assert not kept._told
