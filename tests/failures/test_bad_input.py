"""What cannot be used is refused with its name and what is allowed; the log stays as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from everthread import Everthread, EverthreadError, Talk, assistant, file, image, tool_call, tool_result, user
from everthread.core.events import Assistant, Command, Mark, Other, SettingsChanged, System, ToolCall, ToolResult, User
from everthread.core.parts import File, Image, Text
from everthread.errors import (
    AlreadyExists,
    BadValue,
    InputError,
    KeyReused,
    Moved,
    NotFound,
    NoUser,
    UnknownBlob,
    UnknownBranch,
    UnknownConversation,
    UnknownMark,
    UnknownSeq,
)
from tests.failures.aftermath import clear, sound
from tests.waiting import PATIENCE

Work = Callable[[Talk], Awaitable[Any]]
NOWHERE = "01M7F8X1NFWF5G5Z7TBXHQ6334"
HUGE = 2**40


@pytest.fixture
async def said(talk: Talk) -> Talk:
    await talk.append(user("one"), assistant("two"), user("three"))
    return talk


async def _refused(work: Awaitable[Any], kind: type[EverthreadError]) -> EverthreadError:
    with pytest.raises(kind) as refused:
        await work
    return refused.value


# -- what does not exist ---------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [NOWHERE, "", "x", "~", "a'b\"c", "\0", "\ud800", "x" * 10_000])
async def test_an_unknown_conversation_is_not_found(et: Everthread, said: Talk, someone: str, id: str) -> None:
    error = await _refused(said.another(id), UnknownConversation)
    assert clear(error, "no conversation", "`everthread conversations`")
    assert await sound(et, said) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("id", "kind"),
    [(NOWHERE, UnknownConversation), ("", BadValue), ("\0", BadValue), ("\ud800", BadValue), ("x" * 10_000, BadValue)],
)
async def test_what_can_be_no_id_of_ones_own_begins_nothing(
    et: Everthread, said: Talk, someone: str, id: str, kind: type[EverthreadError]
) -> None:
    await _refused(et.conversation(user=someone, id=id), kind)
    assert [one.id for one in await et.conversations(user=someone)] == [said.id]


@pytest.mark.parametrize(
    "branch", ["side", "", "Main", "1", "\0", "\ud800", "two\nlines", "x" * 10_000, 0, -1, 2, 2**31, HUGE]
)
async def test_an_unknown_branch_is_not_found_and_those_there_are_get_named(
    et: Everthread, said: Talk, branch: str | int
) -> None:
    for verb in (said.on, said.switch):
        error = await _refused(verb(branch), UnknownBranch)
        assert clear(error, "no branch", "it has: ", "main")
    assert await sound(et, said) == ["one", "two", "three"]


@pytest.mark.parametrize("seq", [-1, 4, 2**31 - 1, 2**31, HUGE, -HUGE])
@pytest.mark.parametrize("verb", ["fork", "rewind", "redact"])
async def test_an_unknown_seq_is_not_found_and_the_numbers_there_are_get_named(
    et: Everthread, said: Talk, verb: str, seq: int
) -> None:
    verbs: dict[str, Work] = {
        "fork": lambda talk: talk.fork(at=seq),
        "rewind": lambda talk: talk.rewind(to=seq),
        "redact": lambda talk: talk.redact(seq),
    }
    error = await _refused(verbs[verb](said), UnknownSeq)
    assert clear(error, f"no event {seq} ", "numbered 1 to 3")
    assert len(await said.branches()) == 1
    assert await sound(et, said) == ["one", "two", "three"]


async def test_there_is_no_event_zero_to_redact_but_one_may_fork_before_everything(et: Everthread, said: Talk) -> None:
    await _refused(said.redact(0), UnknownSeq)
    fork = await said.fork(at=0, name="afresh")
    assert await sound(et, fork) == []
    assert await sound(et, said) == ["one", "two", "three"]


async def test_an_empty_branch_says_that_it_has_no_events_yet(talk: Talk) -> None:
    assert clear(await _refused(talk.fork(at=1), UnknownSeq), "no events yet")


@pytest.mark.parametrize(
    ("expect", "kind"),
    [
        pytest.param(0, Moved, id="before everything"),
        pytest.param(-1, (Moved, InputError), id="negative"),
        pytest.param(2, Moved, id="an earlier message"),
        pytest.param(4, UnknownSeq, id="beyond the end"),
        pytest.param(HUGE, UnknownSeq, id="far beyond the end"),
    ],
)
async def test_an_expectation_that_does_not_hold_writes_nothing(
    et: Everthread, said: Talk, expect: int, kind: type[EverthreadError]
) -> None:
    error = await _refused(said.append(user("reply"), expect=expect), kind)
    assert clear(error, str(expect))
    assert await sound(et, said) == ["one", "two", "three"]


@pytest.mark.parametrize("mark", ["nowhere", "", "\0", "\ud800", "x" * 10_000])
async def test_an_unknown_mark_is_not_found(et: Everthread, said: Talk, mark: str) -> None:
    await said.mark("here")
    error = await _refused(said.rewind(to=mark), UnknownMark)
    assert clear(error, "no mark", "set it with `mark` first")
    assert await sound(et, said) == ["one", "two", "three"]


@pytest.mark.parametrize("blob", ["0" * 64, "", "\0", "\ud800", "x" * 10_000, "%", "two\nlines"])
async def test_an_unknown_blob_is_not_found(et: Everthread, said: Talk, blob: str) -> None:
    assert clear(await _refused(said.blob(blob), UnknownBlob), "no image or file")
    assert await sound(et, said) == ["one", "two", "three"]


async def test_an_erased_conversation_is_unknown_to_everything_that_held_it(
    et: Everthread, said: Talk, someone: str
) -> None:
    side = await said.fork(name="side")
    await said.erase()
    work: list[Awaitable[Any]] = [
        said.append(user("again")),
        side.append(user("again")),
        said.after(0),
        side.after(0),
        said.fork(),
        said.rewind(to=1),
        said.switch("side"),
        said.redact(1),
        said.rename("again"),
        said.mark("again"),
        said.on("main"),
        said.turns(),
        et.conversation(user=someone, id=said.id),
    ]
    for one in work:
        await _refused(one, NotFound)
    assert (await et.totals(user=someone)).events == 0


async def test_a_follower_of_an_erased_conversation_is_told(said: Talk) -> None:
    async def follow() -> None:
        async for _ in said.listen():
            heard.set()

    heard = asyncio.Event()
    follower = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
        await said.erase()
        await _refused(follower, UnknownConversation)


# -- names -----------------------------------------------------------------------------------------------

BAD_NAMES = {
    "NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "a line feed": "a\nb",
    "a tab": "a\tb",
    "an escape sequence": "\x1b[31mred",
    "ten thousand characters": "x" * 10_000,
}
NAMED: dict[str, Callable[[Everthread, Talk, str, str], Awaitable[Any]]] = {
    "user": lambda et, talk, someone, bad: et.conversation(user=bad),
    "user of begin": lambda et, talk, someone, bad: et.begin(user=bad),
    "user of conversations": lambda et, talk, someone, bad: et.conversations(user=bad),
    "user of totals": lambda et, talk, someone, bad: et.totals(user=bad),
    "user of erase_user": lambda et, talk, someone, bad: et.erase_user(user=bad),
    "tenant": lambda et, talk, someone, bad: et.conversation(user=someone, tenant=bad),
    "tenant of begin": lambda et, talk, someone, bad: et.begin(user=someone, tenant=bad),
    "tenant of conversations": lambda et, talk, someone, bad: et.conversations(user=someone, tenant=bad),
    "agent": lambda et, talk, someone, bad: et.conversation(user=someone, agent=bad),
    "agent of begin": lambda et, talk, someone, bad: et.begin(user=someone, agent=bad),
    "agent of conversations": lambda et, talk, someone, bad: et.conversations(user=someone, agent=bad),
    "name": lambda et, talk, someone, bad: et.begin(user=someone, name=bad),
    "name of rename": lambda et, talk, someone, bad: talk.rename(bad),
    "name of fork": lambda et, talk, someone, bad: talk.fork(name=bad),
    "name of rewind": lambda et, talk, someone, bad: talk.rewind(to=1, name=bad),
    "goal": lambda et, talk, someone, bad: et.begin(user=someone, goal=bad),
    "goal of set_goal": lambda et, talk, someone, bad: talk.set_goal(bad),
    "key": lambda et, talk, someone, bad: talk.append(user("x"), key=bad),
    "mark": lambda et, talk, someone, bad: talk.mark(bad),
}


@pytest.mark.parametrize("bad", [pytest.param(bad, id=word) for word, bad in BAD_NAMES.items()])
@pytest.mark.parametrize("what", NAMED)
async def test_a_bad_name_is_refused_by_what_it_names(
    et: Everthread, said: Talk, someone: str, what: str, bad: str
) -> None:
    error = await _refused(NAMED[what](et, said, someone, bad), BadValue)
    assert clear(error, f"{what.split()[0]} is ", "must be printable text")
    str(error).encode()  # it can be printed
    assert len(await et.conversations(user=someone)) == 1
    assert len(await said.branches()) == 1


async def test_after_all_those_bad_names_the_log_is_intact(et: Everthread, said: Talk, someone: str) -> None:
    for bad in BAD_NAMES.values():
        for work in NAMED.values():
            await _refused(work(et, said, someone, bad), EverthreadError)
    assert await sound(et, said) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "name", ["Ana María", "安娜", "👩‍👩‍👧"[:1], "a'; DROP TABLE events; --", "%", "x" * 200, "ana/../bob"]
)
async def test_an_unusual_name_is_taken_as_it_is(et: Everthread, someone: str, name: str) -> None:
    talk = await et.begin(user=someone + name[:150], agent=name, name=name, goal=name, tenant=f"{someone}{name[:150]}")
    await talk.append(user("hello"), key=name)
    await talk.mark(name)
    fork = await talk.fork(name=name)
    assert (await fork.line()).branch.name == name
    again = await et.conversation(user=talk.conversation.user, agent=name, tenant=talk.conversation.tenant)
    assert (again.id, again.conversation.name, again.conversation.goal) == (talk.id, name, name)
    assert await sound(et, again) == ["hello"]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda et: et.conversation(user=""), id="conversation"),
        pytest.param(lambda et: et.begin(user=""), id="begin"),
        pytest.param(lambda et: et.totals(user=""), id="totals"),
        pytest.param(lambda et: et.erase_user(user=""), id="erase_user"),
    ],
)
async def test_without_a_user_there_is_nothing(et: Everthread, work: Callable[[Everthread], Awaitable[Any]]) -> None:
    assert clear(await _refused(work(et), NoUser), "name one", "user='ana'")
    assert await et.conversations(user="") == []


async def test_a_branch_name_that_is_taken_is_refused(et: Everthread, said: Talk) -> None:
    await said.fork(name="side")
    for work in (said.fork(name="side"), said.rewind(to=1, name="side"), said.fork(name="main")):
        assert clear(await _refused(work, AlreadyExists), "choose another name")
    assert len(await said.branches()) == 2
    assert await sound(et, said) == ["one", "two", "three"]


async def test_a_key_with_other_content_is_refused_and_named(et: Everthread, said: Talk) -> None:
    await said.append(user("four"), key="k")
    error = await _refused(said.append(user("five"), key="k"), KeyReused)
    assert clear(error, "'k'", "use a new key")
    assert await sound(et, said) == ["one", "two", "three", "four"]


# -- numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -1, -HUGE, HUGE])
@pytest.mark.parametrize(
    ("what", "work"),
    [
        ("turns", lambda et, talk, n: talk.tail(turns=n)),
        ("limit", lambda et, talk, n: talk.before(limit=n)),
        ("limit", lambda et, talk, n: talk.after(limit=n)),
        ("limit", lambda et, talk, n: talk.turns(limit=n)),
        ("limit", lambda et, talk, n: talk.sessions(limit=n)),
        ("limit", lambda et, talk, n: et.conversations(user=talk.conversation.user, limit=n)),
    ],
    ids=["tail", "before", "after", "turns", "sessions", "conversations"],
)
async def test_a_count_that_is_no_count_is_refused(
    et: Everthread, said: Talk, what: str, work: Callable[[Everthread, Talk, int], Awaitable[Any]], count: int
) -> None:
    assert clear(await _refused(work(et, said, count), BadValue), what, str(count), "above zero")


@pytest.mark.parametrize(("first", "last"), [(3, 1), (4, 9), (-5, 0), (HUGE, HUGE), (-HUGE, -1)])
async def test_a_range_without_events_is_empty(said: Talk, first: int, last: int) -> None:
    assert await said.range(first, last) == []


@pytest.mark.parametrize("seq", [HUGE, -HUGE, 2**31, -1, 0, 4])
async def test_a_page_after_or_before_a_seq_that_is_not_there_is_what_lies_beyond_it(said: Talk, seq: int) -> None:
    assert len(await said.after(seq)) == (3 if seq <= 0 else 0)
    assert len(await said.before(seq)) == (3 if seq > 3 else 0)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"session_gap": timedelta(0)}, "session_gap"),
        ({"session_gap": timedelta(seconds=-1)}, "session_gap"),
        ({"max_event_bytes": 0}, "max_event_bytes"),
        ({"max_event_bytes": -1}, "max_event_bytes"),
        ({"patience": -1.0}, "patience"),
        ({"patience": float("nan")}, "patience"),
    ],
)
async def test_a_bad_setting_is_refused_by_name(address: str, options: dict[str, Any], what: str) -> None:
    with pytest.raises(BadValue) as refused:
        await Everthread.open(address, **options)
    assert clear(refused.value, what, "must be")


# -- events ----------------------------------------------------------------------------------------------

WRONG_EVENTS: dict[str, Any] = {
    "plain text": "hello",
    "a dict": {"role": "user", "content": "hello"},
    "nothing": None,
    "a part instead of a message": Text(text="hello"),
    "a number for text": User(parts=(Text(text=5),)),  # type: ignore[arg-type]
    "text for a part": User(parts=("hello",)),  # type: ignore[arg-type]
    "a number for a part": User(parts=(5,)),  # type: ignore[arg-type]
    "a number in meta": User(parts=(Text(text="x"),), meta={"a": 1}),  # type: ignore[dict-item]
    "no id of a tool call": ToolCall(id=None, name="look"),  # type: ignore[arg-type]
    "arguments that are no text": ToolCall(id="1", name="look", arguments={"a": 1}),  # type: ignore[arg-type]
    "an unknown wait": ToolCall(id="1", name="look", waits_for="rain"),  # type: ignore[arg-type]
    "a name that is no text": Mark(name=5),  # type: ignore[arg-type]
    "a list in a command": Command(name="x", arguments={"a": [1]}),  # type: ignore[dict-item]
    "a fraction in a command": Command(name="x", arguments={"a": 1.5}),  # type: ignore[dict-item]
    "a list among settings": SettingsChanged(values={"a": [1]}),  # type: ignore[dict-item]
    "an answer that is no flag": Assistant(parts=(), interrupted="yes"),  # type: ignore[arg-type]
    "a model that is no text": Assistant(parts=(), model=5),  # type: ignore[arg-type]
    "bytes in a result": ToolResult(id="1", parts=(Text(text=b"x"),)),  # type: ignore[arg-type]
    "a width that is no number": User(parts=(Image(url="http://x/y.png", width="wide"),)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", [pytest.param(event, id=word) for word, event in WRONG_EVENTS.items()])
async def test_what_could_not_be_read_back_is_refused(et: Everthread, said: Talk, wrong: Any) -> None:
    await _refused(said.append(user("four"), wrong), InputError)
    assert await sound(et, said) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"a": object()}, id="an object"),
        pytest.param({"a": (1, 2)}, id="a tuple"),
        pytest.param({1: "a"}, id="a number as key"),
        pytest.param({"a": float("nan")}, id="not a number"),
        pytest.param({"a": float("inf")}, id="infinity"),
        pytest.param({"a": b"bytes"}, id="bytes"),
        pytest.param({"kind": "x"}, id="a kind of its own"),
    ],
)
def test_an_applications_event_takes_only_plain_json(data: dict[Any, Any]) -> None:
    with pytest.raises(BadValue) as refused:
        Other(kind="shop.order", data=data)
    assert clear(refused.value, "data is ", "plain JSON")


def test_an_applications_event_that_is_nested_too_deeply_is_refused() -> None:
    data: dict[str, Any] = {}
    for _ in range(100_000):
        data = {"a": data}
    with pytest.raises(BadValue):
        Other(kind="shop.order", data=data)


@pytest.mark.parametrize("kind", ["user", "redacted", "", "Order", "two words", "1st", "x" * 65, "a\0", "\ud800"])
def test_an_applications_kind_is_a_lower_case_name_that_is_free(kind: str) -> None:
    with pytest.raises(BadValue) as refused:
        Other(kind=kind)
    assert clear(refused.value, "kind is ", "lower-case name")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"a": object()}, id="an object"),
        pytest.param({"a": b"bytes"}, id="bytes"),
        pytest.param({(1, 2): 3}, id="a tuple as key"),
        pytest.param({"a": float("nan")}, id="not a number"),
        pytest.param([1, 2], id="a list"),
    ],
)
async def test_settings_that_are_not_json_are_refused(et: Everthread, said: Talk, someone: str, settings: Any) -> None:
    assert clear(await _refused(said.set_settings(settings), BadValue), "settings")
    assert clear(await _refused(et.begin(user=someone, settings=settings), BadValue), "settings")
    assert len(await et.conversations(user=someone)) == 1
    assert await sound(et, said) == ["one", "two", "three"]


async def test_any_text_comes_back_as_it_was(et: Everthread, talk: Talk) -> None:
    strange = [
        "",
        "\0",
        "\ud800",
        "\udfff\ud800",
        "a\0b\ud800c",
        "\r\n\t\x1b[31m",
        "\u2028\ufeff\uffff",
        "👩‍👩‍👧",
        "'\"\\;--",
    ]
    for text in strange:
        await talk.append(user(text), assistant(text, model=text), tool_call(text, text, id=text))
        await talk.append(tool_result(text, id=text, name=text))
    events = [event.event for event in await talk.after(0, limit=1_000)]
    assert events[::4] == [user(text) for text in strange]
    assert events[1::4] == [assistant(text, model=text) for text in strange]
    assert events[2::4] == [tool_call(text, text, id=text) for text in strange]
    assert events[3::4] == [tool_result(text, id=text, name=text) for text in strange]
    assert len(await sound(et, talk)) == 4 * len(strange)


async def test_strange_images_and_files_are_kept_as_they_are(et: Everthread, talk: Talk) -> None:
    strange = [
        b"",
        b"\0",
        b"\x89PNG",
        b"\x89PNG\r\n\x1a\n" + b"\xff" * 30,
        b"GIF89a",
        b"RIFF" * 10,
        b"\xff\xd8\xff" + bytes(9),
    ]
    for data in strange:
        await talk.append(user(image(data), file(data, name="a\0b\ud800")))
        (part, _) = (await talk.before(limit=1))[0].event.parts  # type: ignore[union-attr]
        assert isinstance(part, Image | File)
        assert await talk.blob(part.blob) == data
    assert len(await sound(et, talk)) == len(strange)


async def test_an_image_known_only_by_its_hash_must_be_there(et: Everthread, talk: Talk) -> None:
    """Its bytes were not given and are not kept: the log would promise what it does not have."""
    error = await _refused(talk.append(user("look", Image(blob="0" * 64, media_type="image/png"))), EverthreadError)
    assert clear(error, "0" * 12)
    assert await sound(et, talk) == []


async def test_nothing_to_append_is_nothing_appended(et: Everthread, said: Talk) -> None:
    assert await said.append() == []
    assert await said.append(key="empty") == []
    assert await sound(et, said) == ["one", "two", "three"]


async def test_system_is_a_message_like_the_others(et: Everthread, talk: Talk) -> None:
    await talk.append(System(parts=(Text(text="be brief"),)))
    assert await sound(et, talk) == ["be brief"]
