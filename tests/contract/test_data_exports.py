"""Data exports of ChatGPT and Claude, from the file into the log: branches, sessions, and a sound log after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from everthread import Everthread, Talk
from everthread.app import TENANT
from everthread.cli.transfer import import_command
from everthread.core.events import Fork, user
from everthread.core.times import moment
from everthread.errors import BadFormat
from everthread.store.conversations import Owner
from everthread.transfer import Exported, Strand, export_lines, read_file
from everthread.transfer.detect import detect
from everthread.transfer.exported import whole_of
from tests.examples import examples
from tests.transfer.exports import (
    RETRIED,
    Json,
    claude,
    human,
    listed,
    result,
    said,
    told,
    tree,
    trees,
    use,
    without_what_goes_on,
)

HOUR = 3_600


def at(time: float, role: str, text: str, *, name: str | None = None, recipient: str = "all") -> Json:
    return said(role, text, name=name, recipient=recipient, create_time=time)


TREE = tree(
    ("root", None, None),
    ("u1", "root", at(100, "user", "When?")),
    ("a1", "u1", at(101, "assistant", "Nine.")),
    ("a2", "u1", at(102, "assistant", "Ten.")),
    ("u2", "a2", at(100 + HOUR, "user", "Sure?")),
    ("a3", "u2", said("assistant", "Sure.")),
    ("a4", "u2", at(105 + HOUR, "assistant", "Let me see.", recipient="browser")),
    ("t4", "a4", at(106 + HOUR, "tool", "Ten.", name="browser")),
    ("a5", "u2", at(107 + HOUR, "assistant", "Very.")),
    ("u0", "root", at(110 + HOUR, "user", "Where?")),
    current="t4",
)


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


async def imported(et: Everthread, path: Path, someone: str) -> list[Talk]:
    wholes = read_file(path, Owner(TENANT, someone), agent="helper")
    await et.log.restore(wholes)
    for whole in wholes:
        count, problems = await et.log.check(TENANT, whole.conversation.id)
        assert problems == []
        assert count == sum(len(drafts) for _, drafts in whole.branches)
    return [await et.conversation(user=someone, id=whole.conversation.id) for whole in wholes]


async def read_along(talk: Talk) -> dict[str, list[str]]:
    """What is said along each branch's whole line."""
    return {
        found.branch.name: [e.text for e in await (await talk.on(found.branch.number)).after(limit=10_000) if e.text]
        for found in await talk.branches()
    }


async def test_a_chatgpt_tree_becomes_branches(et: Everthread, tmp_path: Path, someone: str) -> None:
    (talk,) = await imported(et, written(tmp_path / "conversations.json", [TREE]), someone)
    assert (talk.conversation.name, talk.conversation.began) == ("Ferries", moment(1_500_000))
    assert await read_along(talk) == {
        "main": ["When?", "Nine."],
        "fork-2": ["When?", "Ten.", "Sure?", "Sure."],
        "fork-3": ["When?", "Ten.", "Sure?", "browser(Let me see.)", "Ten."],
        "fork-4": ["When?", "Ten.", "Sure?", "Very."],
        "fork-5": ["Where?"],
    }
    assert talk.conversation.current == 3, "the branch that holds the current node"


async def test_forks_count_the_markers_of_the_forks_before_them(et: Everthread, tmp_path: Path, someone: str) -> None:
    (talk,) = await imported(et, written(tmp_path / "conversations.json", [TREE]), someone)
    branches = [found.branch for found in await talk.branches()]
    assert [(b.number, b.parent, b.at) for b in branches] == [(1, None, 0), (2, 1, 1), (3, 2, 4), (4, 2, 4), (5, 1, 0)]
    for branch in branches[1:]:
        first = (await (await talk.on(branch.number)).after(branch.at))[0]
        assert (first.seq, first.event) == (branch.at + 1, Fork(branch=branch.parent or 0, at=branch.at))


async def test_sessions_and_times_are_those_of_the_export(et: Everthread, tmp_path: Path, someone: str) -> None:
    """A message without a time has that of the one before it, and begins no session."""
    (talk,) = await imported(et, written(tmp_path / "conversations.json", [TREE]), someone)
    events = await (await talk.on("fork-2")).after()
    assert [(e.kind, e.session, e.micros / 1_000_000) for e in events] == [
        ("user", 1, 100),
        ("fork", 1, 102),
        ("assistant", 1, 102),
        ("user", 2, 100 + HOUR),
        ("assistant", 2, 100 + HOUR),
    ]


async def test_conversations_are_listed_by_when_they_began(et: Everthread, tmp_path: Path, someone: str) -> None:
    older, newer = {**TREE, "title": "older", "create_time": 50}, {**TREE, "title": "newer", "create_time": 60}
    await imported(et, written(tmp_path / "conversations.json", [newer, older]), someone)
    assert [found.name for found in await et.conversations(user=someone)] == ["newer", "older"]


async def test_a_claude_export_comes_in_with_its_tools_and_forks(et: Everthread, tmp_path: Path, someone: str) -> None:
    plain = listed(
        human("Sum?", created_at="2024-05-01T10:00:00Z"),
        claude(use("add", id="t"), result("2", id="t"), "Two."),
        created_at="2024-05-01T09:59:59Z",
        name="Sums\n\ud800",
    )
    one, two = await imported(et, written(tmp_path / "conversations.json", [plain, RETRIED]), someone)
    assert one.conversation.name == "Sums"
    assert await read_along(one) == {"main": ["Sum?", "add({})", "2", "Two."]}
    assert {event.time.isoformat() for event in await one.after()} == {"2024-05-01T10:00:00+00:00"}
    assert await read_along(two) == {
        "main": ["When?", "Nine.", "Sure?"],
        "fork-2": ["When?", "Ten."],
        "fork-3": ["Where?"],
    }


async def test_what_came_in_goes_out_and_in_again(et: Everthread, tmp_path: Path, someone: str) -> None:
    (talk,) = await imported(et, written(tmp_path / "conversations.json", [TREE]), someone)
    before, ours = await read_along(talk), tmp_path / "ours.jsonl"
    ours.write_bytes(b"".join([one async for one in export_lines(et.log, talk.conversation)]))
    async with Everthread.open(f"sqlite:///{tmp_path}/other.db") as other:
        (back,) = await imported(other, ours, someone)
        assert await read_along(back) == before
        assert back.conversation == talk.conversation


EMPTY: Json = {"mapping": {}}
SHAPES: dict[str, tuple[str, object, int]] = {
    "a list of ChatGPT's": ("a.json", [TREE, EMPTY], 2),
    "one of ChatGPT's": ("a.json", TREE, 1),
    "a list of Claude's": ("a.json", [RETRIED, {"chat_messages": []}], 2),
    "one of Claude's on a line": ("a.jsonl", RETRIED, 1),
}


@pytest.mark.parametrize("name", SHAPES)
async def test_exports_are_known_by_what_they_say(name: str, tmp_path: Path) -> None:
    file_name, value, count = SHAPES[name]
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        assert len(await imported(et, written(tmp_path / file_name, value), "ana")) == count


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(TREE, "chatgpt", id="one conversation of ChatGPT's"),
        pytest.param(RETRIED, "claude", id="one conversation of Claude's"),
        pytest.param([TREE], None, id="a list of conversations is not one"),
        pytest.param({"mapping": []}, None, id="a mapping that is none"),
        pytest.param({"chat_messages": {}}, None, id="messages that are no list"),
        pytest.param({"everthread": 1, "mapping": {}}, "everthread", id="our own, before all else"),
    ],
)
def test_detect_knows_one_conversation_of_an_export(value: object, expected: str | None) -> None:
    assert detect(value) == expected


BAD: dict[str, tuple[object, Any, str]] = {
    "the second of two": (
        [TREE, {"mapping": {"n": {"parent": "n"}}}],
        None,
        "line 1, [1].mapping.n.parent",
    ),
    "Claude's among ChatGPT's": ([TREE, RETRIED], None, "line 1, [1].mapping"),
    "not what it was said to be": (TREE, "claude", "line 1.chat_messages"),
    "messages that were said to be an export": ([{"role": "user", "content": "a"}], "chatgpt", "line 1, [0].mapping"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_named_with_its_place_in_the_file(name: str, tmp_path: Path) -> None:
    value, format, where = BAD[name]
    with pytest.raises(BadFormat) as bad:
        read_file(written(tmp_path / "a.json", value), Owner(TENANT, "ana"), agent="a", format=format)
    assert bad.value.where == where


def test_a_conversation_that_does_not_say_when_it_began_began_with_its_first_message() -> None:
    strand = Strand(events=((None, user("a")), (moment(7), user("b"))))
    whole = whole_of(Exported(strands=(strand,)), Owner(TENANT, "ana"), agent="a", name="")
    assert whole.conversation.began == moment(7)
    assert [draft.time for draft in whole.branches[0][1]] == [7, 7]


@hypothesis.settings(max_examples=examples(30), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(given=st.lists(trees(), min_size=1, max_size=5))
async def test_any_tree_reads_in_the_log_as_in_the_export(
    given: list[Json], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    async with Everthread.open(f"sqlite:///{folder}/talk.db") as et:
        talks = await imported(et, written(folder / "conversations.json", given), "ana")
        for one, talk in zip(given, talks, strict=True):
            every = [told(one, id) for id in one["mapping"]]
            unique = [list(texts) for texts in {tuple(texts) for texts in every}]
            found = await read_along(talk)
            assert without_what_goes_on(list(found.values())) == without_what_goes_on(unique)
            current = told(one, one["current_node"])
            assert [e.text for e in await talk.after(limit=100) if e.text][: len(current)] == current


def test_the_help_of_import_names_the_data_exports() -> None:
    said = " ".join(CliRunner().invoke(import_command, ["--help"]).output.split())
    assert "a data export of ChatGPT or Claude" in said
