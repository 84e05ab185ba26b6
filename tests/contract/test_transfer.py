"""What goes out comes back: the same events, ids, times, branches and sizes, or nothing at all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everthread import Everthread, Talk, assistant, file, image, tool_call, tool_result, user
from everthread.app import TENANT
from everthread.core.events import Clear, Mark, Other, Redacted
from everthread.errors import AlreadyExists, BadFormat, UnknownConversation
from everthread.store.conversations import Owner
from everthread.store.scripts.restore import Whole
from everthread.transfer import export_lines, mirror, read_file
from tests.dialogues import Dialogue, dialogues
from tests.waiting import PATIENCE, until

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10"


async def lines_of(talk: Talk) -> list[bytes]:
    return [line async for line in export_lines(talk._log, talk.conversation)]


async def everything(talk: Talk) -> dict[str, Any]:
    branches = await talk.branches()
    return {b.branch.name: (b, await (await talk.on(b.branch.number)).after(limit=100_000)) for b in branches}


async def carried(talk: Talk, path: Path, to: Everthread, someone: str) -> Talk:
    """The conversation after an export and an import into another store."""
    path.write_bytes(b"".join(await lines_of(talk)))
    wholes = read_file(path, Owner(TENANT, someone), agent="any")
    await to.log.restore(wholes)
    return await to.conversation(user=someone, id=talk.id)


@pytest.fixture
async def other(tmp_path: Path) -> Any:
    async with Everthread.open(f"sqlite:///{tmp_path}/other.db") as opened:
        yield opened


async def test_a_conversation_with_everything_in_it_comes_back_identical(
    talk: Talk, other: Everthread, tmp_path: Path, someone: str
) -> None:
    await talk.rename("Cake")
    await talk.set_goal("bake one")
    await talk.set_settings({"budget": 8000})
    await talk.append(user("a\0b\ud800c", image(PNG)), assistant("\ud83d\ude00"), Mark(name="here"))
    await talk.append(user("x", file(b"data", name="a.bin")), tool_call("f"), tool_result("ok", name="f"), Clear())
    await talk.append(Other(kind="shop.order", data={"lines": [1, 2.5, None, {"a": "ü"}]}))
    side = await talk.fork(at=2, name="side")
    await side.append(user("another way", image(PNG)))
    await talk.rewind(to="here")
    await talk.append(user("again"), assistant("yes", interrupted=True))
    await talk.redact(1)
    back = await carried(talk, tmp_path / "talk.jsonl", other, someone)
    assert await everything(back) == await everything(talk)
    kept = await talk._log.conversations.find(Owner(TENANT, someone), talk.id)
    assert back.conversation == msgspec.structs.replace(kept)
    assert await other.log.check(TENANT, talk.id) == (await talk._log.check(TENANT, talk.id))
    assert (await back.totals()) == (await talk.totals())
    shown = (await (await back.on("side")).before(limit=1))[0].event.parts[1]  # type: ignore[union-attr]
    assert await back.blob(shown.blob) == PNG  # type: ignore[union-attr]


@pytest.mark.parametrize("dialogue", list(dialogues()), ids=lambda d: d.name)
async def test_every_conversation_survives_import_and_export(
    dialogue: Dialogue, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From its own format into the log, out as lines, and into another log: the same events each time."""
    folder = tmp_path_factory.mktemp("carry")
    async with (
        Everthread.open(f"sqlite:///{folder}/one.db") as one,
        Everthread.open(f"sqlite:///{folder}/two.db") as two,
    ):
        talk = await one.begin(user="ana")
        from everthread.core.branches import Target

        logged = await one.log.append(Target(TENANT, talk.id), dialogue.drafts)
        assert [e.event for e in logged] == [d.event for d in dialogue.drafts]
        back = await carried(talk, folder / "talk.jsonl", two, "ana")
        assert await everything(back) == await everything(talk)
        assert await two.log.check(TENANT, talk.id) == (len(logged), [])


async def test_sessions_are_those_of_the_times_in_the_history(et: Everthread, talk: Talk) -> None:
    from everthread.core.branches import Target

    friendship = next(d for d in dialogues() if d.name == "a long friendship")
    await et.log.append(Target(TENANT, talk.id), friendship.drafts)
    sessions = await talk.sessions()
    assert [s.number for s in sessions] == list(range(1, 13))
    assert {s.messages for s in sessions} == {4}


async def test_importing_the_same_export_twice_is_refused_whole(
    talk: Talk, et: Everthread, tmp_path: Path, someone: str
) -> None:
    await talk.append(user("one"))
    other_talk = await et.begin(user=someone)
    path = tmp_path / "two.jsonl"
    path.write_bytes(b"".join([*(await lines_of(other_talk)), *(await lines_of(talk))]))
    await other_talk.erase()
    before = await et.conversations(user=someone)
    with pytest.raises(AlreadyExists):
        await et.log.restore(read_file(path, Owner(TENANT, someone), agent="any"))
    assert await et.conversations(user=someone) == before


@pytest.mark.parametrize("erased", [False, True])
async def test_a_refused_import_advises_what_can_be_done(
    talk: Talk, et: Everthread, tmp_path: Path, someone: str, erased: bool
) -> None:
    """Erasing it is no way out: its id is not used again."""
    await talk.append(user("one"))
    path = tmp_path / "one.jsonl"
    path.write_bytes(b"".join(await lines_of(talk)))
    if erased:
        await talk.erase()
    with pytest.raises(AlreadyExists) as refused:
        await et.log.restore(read_file(path, Owner(TENANT, someone), agent="any"))
    assert ("was erased" in str(refused.value)) is erased
    assert "erase it first" not in str(refused.value)
    assert "another store or tenant" in str(refused.value)
    await et.log.restore(read_file(path, Owner("elsewhere", someone), agent="any"))
    assert (await et.conversation(user=someone, tenant="elsewhere", id=talk.id)).id == talk.id


async def test_a_hand_made_file_gets_ids_times_and_sizes(et: Everthread, tmp_path: Path, someone: str) -> None:
    path = tmp_path / "hand.jsonl"
    path.write_text(
        '{"everthread": 1, "conversation": {"id": "01M7F802XEDAJFW68M8GVJDM83", "agent": "helper"}}\n'
        '{"event": {"kind": "user", "parts": [{"type": "text", "text": "Hi"}]}}\n\n'
    )
    (whole,) = read_file(path, Owner(TENANT, someone), agent="any")
    taken = (await et.begin(user=someone)).id
    free = taken[:-1] + ("Y" if taken.endswith("Z") else "Z")
    whole = msgspec.structs.replace(whole, conversation=msgspec.structs.replace(whole.conversation, id=free))
    await et.log.restore([whole])
    [event] = await (await et.conversation(user=someone, id=whole.conversation.id)).after()
    assert (event.seq, event.text, event.turn) == (1, "Hi", 1)
    assert event.tokens > 0


HEAD = '{"everthread":1,"conversation":{"id":"01M7F802XEDAJFW68M8GVJDM83","agent":"a"}}\n'
CLEAR = '{"event":{"kind":"clear"}}\n'


def event(**place: object) -> str:
    return json.dumps({**place, "event": {"kind": "clear"}}) + "\n"


def branch(number: int, *, parent: int = 1, at: int = 0, name: str = "") -> str:
    return json.dumps({"branch": {"number": number, "name": name or f"b{number}", "parent": parent, "at": at}}) + "\n"


BAD = {
    "empty": ("", "", "empty"),
    "not JSON": (HEAD + "{oops\n", "line 2", "not JSON"),
    "a list among lines": (HEAD + "[]\n", "line 2", "one JSON object"),
    "a newer version": (HEAD.replace(":1,", ":2,", 1), "line 1", "version 2"),
    "no id": ('{"everthread":1,"conversation":{"agent":"a"}}\n', "line 1", "'id' is missing"),
    "a bad id": (HEAD.replace("01M7", "??M7"), "line 1", "not an id"),
    "an unknown line": (HEAD + '{"what":1}\n', "line 2", "neither"),
    "a gap": (HEAD + '{"seq":2,"event":{"kind":"clear"}}\n', "line 2", "seq 2 where 1 should follow"),
    "an unknown branch": (HEAD + '{"branch":7,"event":{"kind":"clear"}}\n', "line 2", "branch 7 has not been"),
    "a branch before its parent": (
        HEAD + '{"branch":{"number":3,"name":"x","parent":2,"at":0}}\n',
        "line 2",
        "before its parent",
    ),
    "a field too many": (HEAD + '{"event":{"kind":"clear","x":1}}\n', "line 2", "unknown field"),
    "a conversation twice": (HEAD + HEAD, "line 2", "is there twice"),
    "a version given as text": (HEAD.replace(":1,", ':"1",', 1), "line 1", "whole number"),
    "an agent that is no text": (HEAD.replace('"a"}', "5}"), "line 1", "agent is 5, but must be text"),
    "settings that are a list": (HEAD.replace('"a"}', '"a","settings":[["a",1]]}'), "line 1", "an object"),
    "settings that are no JSON": (HEAD.replace('"a"}', '"a","settings":{"a":NaN}}'), "line 1", "plain JSON"),
    "a current branch that never comes": (HEAD.replace('"a"}', '"a","current":2}') + CLEAR, "line 1", "branch is 2"),
    "a current branch that never comes, said later": (
        HEAD + '{"conversation":{"current":2}}\n' + HEAD.replace("83", "84"),
        "line 2",
        "branch is 2",
    ),
    "a current branch given as text": (HEAD + '{"conversation":{"current":"1"}}\n', "line 2", "whole number"),
    "the conversation again, but as text": (HEAD + '{"conversation":"Cake"}\n', "line 2", "an object"),
    "a branch name twice": (
        HEAD + branch(2, name="x") + branch(3, name="x"),
        "line 3",
        "there already is a branch 'x'",
    ),
    "a branch with main's name": (HEAD + branch(2, name="main"), "line 2", "there already is a branch 'main'"),
    "a branch without events": (HEAD + CLEAR + branch(3), "line 3", "branch 3 has no events"),
    "a number smaller than its parent's": (
        HEAD + branch(3) + '{"branch":3,"event":{"kind":"clear"}}\n' + branch(2, parent=3),
        "line 4",
        "before its parent",
    ),
    "a fork before the beginning": (HEAD + CLEAR + branch(2, at=-1), "line 3", "at is -1"),
    "a fork after the end": (HEAD + CLEAR + branch(2, at=2), "line 3", "at is 2, but branch 1 has no such event"),
    "a fork from what is the parent's parent's": (
        HEAD + CLEAR + branch(2, at=1) + '{"branch":2,"event":{"kind":"clear"}}\n' + branch(3, parent=2, at=1),
        "line 5",
        "at is 1, but branch 2 has no such event",
    ),
    "a branch that is true": (HEAD + '{"branch":true,"event":{"kind":"clear"}}\n', "line 2", "branch is True"),
    "a seq that is true": (HEAD + '{"seq":true,"event":{"kind":"clear"}}\n', "line 2", "seq is True"),
    "a seq given as text": (HEAD + '{"seq":"1","event":{"kind":"clear"}}\n', "line 2", "seq is '1'"),
    "an id that is a number": (HEAD + '{"id":0,"event":{"kind":"clear"}}\n', "line 2", "0 is not an id"),
    "tokens below zero": (HEAD + event(tokens=-1, settled=0), "line 2", "tokens is -1"),
    "tokens beyond all": (HEAD + event(tokens=2**31, settled=0), "line 2", "tokens is 2147483648"),
    "tokens given as text": (HEAD + event(tokens="1", settled=0), "line 2", "tokens is '1'"),
    "tokens that are true": (HEAD + event(tokens=True, settled=0), "line 2", "tokens is True"),
    "tokens that are broken": (HEAD + event(tokens=1.5, settled=0), "line 2", "tokens is 1.5"),
    "tokens alone": (HEAD + event(tokens=1), "line 2", "'settled' is missing"),
    "more settled than there is": (HEAD + event(tokens=1, settled=2), "line 2", "settled is 2, but must be at most"),
    "a session given as text": (HEAD + event(session="1"), "line 2", "session is '1'"),
    "a session below zero": (HEAD + event(session=-1), "line 2", "session is -1"),
    "a time before 1970": (HEAD + event(time="1969-12-31T23:59:59Z"), "line 2", "between 1970 and 9999"),
    "a time after 9999": (HEAD + event(time="9999-12-31T23:59:59-01:00"), "line 2", "between 1970 and 9999"),
    "a time that is a number": (HEAD + event(time=5), "line 2", "time is 5"),
    "a tombstone of no kind": (HEAD + '{"event":{"kind":"redacted","was":"A b"}}\n', "line 2", "the name of a kind"),
    "a tombstone of a long kind": (
        HEAD + json.dumps({"event": {"kind": "redacted", "was": "a" * 65}}),
        "line 2",
        "the name of a kind",
    ),
    "bytes that are not those of the hash": (
        HEAD + '{"event":{"kind":"user","parts":[{"type":"file","blob":"00","data":"aGk="}]}}\n',
        "line 2",
        "the hash of the bytes",
    ),
    "brackets without end": (HEAD + "[" * 200_000 + "\n", "line 2", "nested too deeply"),
    "a wrong type": (HEAD + '{"event":{"kind":"user","parts":3}}\n', "line 2", "Expected `array`"),
    "no kind": (HEAD + '{"event":{}}\n', "line 2", "no object with a kind"),
    "a bad time": (HEAD + '{"time":"yesterday","event":{"kind":"clear"}}\n', "line 2", "Invalid isoformat"),
    "bad base64": (HEAD + '{"body":"???"}\n', "line 2", "base64"),
    "a blob that changed": (HEAD + '{"blob":{"hash":"00","data":"aGk="}}\n', "line 2", "does not match its hash"),
    "neither ours nor theirs": ('{"a":1}\n', "line 1", "neither an Everthread export"),
    "an unknown role": ('{"messages":[{"role":"user","content":"a"},{"role":"clown"}]}\n', "line 1", "clown"),
    "the second of two": ('{"messages":[{"role":"user","content":"a"}]}\n{"messages":[4]}\n', "line 2", "messages[0]"),
}


async def test_an_export_that_was_cut_off_is_refused(talk: Talk, tmp_path: Path) -> None:
    await talk.append(user("one"), assistant("two"), user("three"))
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join((await lines_of(talk))[:-1]))
    with pytest.raises(BadFormat, match="it is cut off: of 3 events"):
        read_file(path, Owner(TENANT, "ana"), agent="a")


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_understood_is_named_by_line_and_reason(name: str, tmp_path: Path) -> None:
    text, where, reason = BAD[name]
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(BadFormat) as bad:
        read_file(path, Owner(TENANT, "ana"), agent="a")
    assert where in str(bad.value)
    assert reason in str(bad.value)
    assert "Nothing was imported" in str(bad.value)


FAULTY = {
    "a fault on line 4": (
        '{\n  "messages": [\n    {"role": "user",\n     "content": a}\n  ]\n}\n',
        "line 4",
        "not JSON",
    ),
    "cut off": ('[\n  {"role": "user"', "line 2", "not JSON"),
    "a fault among lines": (HEAD + "{oops\n", "line 2", "not JSON"),
    "nothing but space": ("\n \n", "bad.json", "empty"),
    "brackets without end": ("[" * 200_000, "bad.json", "nested too deeply"),
    "a number without end": ("[\n" + "1" * 5_000 + "]", "bad.json", "not JSON"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_in_a_value_that_fills_the_file_is_named_by_its_own_line(name: str, tmp_path: Path) -> None:
    text, where, reason = FAULTY[name]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadFormat) as bad:
        read_file(path, Owner(TENANT, "ana"), agent="a")
    assert bad.value.where.endswith(where)
    assert reason in bad.value.reason


def test_a_file_that_is_not_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(b"\xff\xfe\0")
    for path in (tmp_path / "bad.jsonl", tmp_path / "none.jsonl"):
        with pytest.raises(BadFormat):
            read_file(path, Owner(TENANT, "ana"), agent="a")


MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
SHAPES: dict[str, tuple[str, str, int]] = {
    "one message a line": ("m.jsonl", "\n".join(map(json.dumps, MESSAGES)), 1),
    "one conversation a line": ("m.jsonl", "\n".join(json.dumps({"id": n, "messages": MESSAGES}) for n in (1, 2)), 2),
    "a list of messages": ("m.json", json.dumps(MESSAGES, indent=2), 1),
    "a request body": ("m.json", json.dumps({"model": "x", "messages": MESSAGES}), 1),
    "an Anthropic body": ("m.json", json.dumps({"system": "Be kind.", "messages": MESSAGES}), 1),
    "a list of conversations": ("m.json", json.dumps([{"messages": MESSAGES}] * 3), 3),
    "lists a line": ("m.jsonl", "\n".join([json.dumps(MESSAGES)] * 2), 2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_histories_come_in_many_shapes(name: str, tmp_path: Path) -> None:
    file_name, text, count = SHAPES[name]
    path = tmp_path / file_name
    path.write_text(text)
    wholes = read_file(path, Owner(TENANT, "ana"), agent="helper")
    assert len(wholes) == count
    assert all(_kinds(whole)[-2:] == ["user", "assistant"] for whole in wholes)


def test_the_last_conversation_of_a_file_is_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps({"id": n, "messages": MESSAGES}) for n in range(50)))
    wholes = read_file(path, Owner(TENANT, "ana"), agent="helper")
    ids = [whole.conversation.id for whole in wholes]
    assert ids == sorted(ids)
    assert [whole.conversation.name for whole in wholes][-1] == "49"


def _kinds(whole: Whole) -> list[str]:
    return [draft.event.kind for _, drafts in whole.branches for draft in drafts]


async def test_a_mirror_grows_with_the_log_and_forgets_with_it(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "mirror.jsonl"
    [said] = await talk.append(user("the secret is plum"))
    running = asyncio.create_task(mirror(talk._log, talk.conversation, path))
    await until(lambda: b"plum" in path.read_bytes() if path.exists() else False)
    side = await talk.fork(at=1, name="side")
    await side.append(user("said on the side"))
    await talk.rewind(to=1)
    await until(lambda: b"said on the side" in path.read_bytes() and b'"current":3' in path.read_bytes())
    await talk.redact(said.seq)
    await until(lambda: b"plum" not in path.read_bytes() and b"said on the side" in path.read_bytes())
    assert any(
        isinstance(d.event, Redacted) for _, ds in read_file(path, Owner("t", "u"), agent="a")[0].branches for d in ds
    )
    await talk.erase()
    with pytest.raises(UnknownConversation):
        await asyncio.wait_for(running, PATIENCE)
    assert not path.exists()
