"""Recall: what was said is found, by any of its words, in any language, along a line, and only by whose it is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from everthread import Everthread, Talk, artifact_created, assistant, tool_call, tool_result, user
from everthread.core.branches import Target
from everthread.core.events import BriefUpdated, Clear, Other, SessionEnded
from everthread.core.times import microseconds
from everthread.errors import BadValue
from everthread.store.conversations import Owner
from everthread.store.open import open_log
from everthread.store.recall import search
from everthread.store.scripts.append import Draft
from tests.contract.recalling import WALNUTS, chatter, first_text, found, owner, seqs
from tests.contract.support import MINUTE, START, Clock, assert_sound

# -- what is found ------------------------------------------------------------------------------------------------


async def test_what_was_said_is_found_by_another_form_of_its_words(et: Everthread, talk: Talk) -> None:
    await talk.append(user(WALNUTS), assistant("Noted."), user("Which colour?"))
    assert await first_text(et, talk, "allergies") == WALNUTS


async def test_any_word_of_a_question_is_enough(et: Everthread, talk: Talk) -> None:
    await talk.append(user(WALNUTS))
    await chatter(talk, 10)
    assert (
        await first_text(et, talk, "Which nuts, walnuts for instance, must a cake for the boy do without?") == WALNUTS
    )


async def test_a_question_of_nothing_but_little_words_finds_something(et: Everthread, talk: Talk) -> None:
    await talk.append(user("What is this?"))
    assert await seqs(et, talk, "what was it?") == [1]


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("昨日、東京タワーに行きました。", "東京タワー"),
        ("我对核桃过敏,请记住。", "核桃"),
        ("우리는 어제 서울에 갔다", "서울"),
        ("Вчера мы были в Москве", "москве"),
        ("Ich mag Äpfel", "apfel"),
        ("ฉันแพ้ถั่ว", "ถั่ว"),
        ("كتبت رسالة", "رسالة"),
        ("we celebrated 🎉", "🎉"),
    ],
)
async def test_any_language_is_found(et: Everthread, talk: Talk, said: str, query: str) -> None:
    await talk.append(user("Hello."), user(said), user("你好。今日は。안녕. Привет. مرحبا"))
    await chatter(talk, 5)
    assert await first_text(et, talk, query) == said


@pytest.mark.parametrize(
    "query", ["?", "walnuts?!", '"walnuts', "walnuts*", "NOT walnuts", "a:walnuts", "(walnuts", "w'"]
)
async def test_punctuation_does_no_harm(et: Everthread, talk: Talk, query: str) -> None:
    await talk.append(user(WALNUTS))
    assert await seqs(et, talk, query) == ([1] if "walnuts" in query else [])


@pytest.mark.parametrize("query", ["\0", "\ud800 walnuts", "x" * 10_000, "walnuts " * 5_000, "% _ ; -- '"])
async def test_any_text_may_be_asked(et: Everthread, talk: Talk, query: str) -> None:
    await talk.append(user(WALNUTS), user("any \0 text \ud800 may be said"))
    assert await seqs(et, talk, query, limit=1) == ([1] if "walnuts" in query else [])


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("order-17", "order 17"),
        ("src/app.py", "src app py"),
        ("ABC123", "ABC 123"),
        ("ana@example.org", "ana example org"),
        ("https://example.org/x?y=1", "https example org x y 1"),
    ],
)
async def test_what_is_named_exactly_comes_first(et: Everthread, talk: Talk, name: str, pieces: str) -> None:
    await talk.append(user(f"It was about {name}, of all things, and of much else that need not be said again here."))
    await chatter(talk, 30, "Where is the order {} for the src app, please? " + pieces)
    assert await seqs(et, talk, f"where is the order for {name} please", limit=1) == [1]


async def test_an_answer_is_found_by_the_question_before_it(et: Everthread, talk: Talk) -> None:
    await chatter(talk, 10)
    await talk.append(assistant("Which pet do you have?"), user("A tortoise."))
    await chatter(talk, 10)
    assert "A tortoise." in [hit.event.text for hit in await found(et, talk, "pets", limit=2)]


async def test_who_is_asked_about_is_found_before_who_only_names_them(et: Everthread, talk: Talk) -> None:
    await talk.append(user("Ben: Ana, do your pets like swimming?"), assistant("Ana: My pets like swimming a lot."))
    await talk.append(user("Cid: My pets like swimming, Ana."))
    await chatter(talk, 10)
    assert await first_text(et, talk, "Do the pets of Ana like swimming?") == "Ana: My pets like swimming a lot."
    assert await first_text(et, talk, "Do the pets of Cid like swimming?") == "Cid: My pets like swimming, Ana."


async def test_what_was_said_on_a_day_is_found_by_its_date(et: Everthread, talk: Talk) -> None:
    days = [datetime(2023, month, 8, tzinfo=UTC) for month in (4, 5, 6)]
    drafts = [Draft(event=user(f"Cake, number {n}."), time=microseconds(day)) for n, day in enumerate(days)]
    await et.log.append(Target(owner(talk).tenant, talk.id), drafts)
    assert await first_text(et, talk, "Which cake was it on 8 May, 2023?") == "Cake, number 1."
    assert await first_text(et, talk, "anything in June?") == "Cake, number 2."


async def test_recaps_artifacts_and_tool_results_are_found_and_briefs_are_not(et: Everthread, talk: Talk) -> None:
    await talk.append(
        user("hello"),
        SessionEnded(session=1, recap="They spoke about zeppelins."),
        artifact_created("Zeppelin timetable"),
        tool_call("look_up", {"what": "zeppelin"}),
        tool_result("A zeppelin is an airship.", name="look_up"),
        BriefUpdated(text="Zeppelins, zeppelins.", covers=1),
    )
    kinds = {hit.kind for hit in await found(et, talk, "zeppelin", limit=10)}
    assert kinds >= {"session_ended", "artifact_created", "tool_call", "tool_result"}
    assert "brief_updated" not in kinds


async def test_what_a_clear_left_behind_is_found(et: Everthread, talk: Talk) -> None:
    await talk.append(user(WALNUTS), Clear(), user("And now?"))
    assert await first_text(et, talk, "walnuts") == WALNUTS


async def test_hits_come_in_the_same_order_with_the_same_scores_everywhere(et: Everthread, talk: Talk) -> None:
    """No database has a say in it, so the figures can be reckoned by hand from what `language.ranking` says."""
    await talk.append(user(WALNUTS), assistant("Walnuts are noted."), user("Order-17 is late."))
    hits = await found(et, talk, "walnut allergy", limit=3)
    assert [(hit.seq, round(hit.score, 3)) for hit in hits] == [(1, 1.648), (2, 1.123), (3, 0.933)]


# -- whose it is --------------------------------------------------------------------------------------------------


async def test_without_a_user_nothing_is_found(et: Everthread, talk: Talk) -> None:
    await talk.append(user(WALNUTS))
    line = await talk.line()
    assert await et.log.recall.search(Owner("default", ""), "walnuts", line=line) == []
    assert await et.log.recall.search(Owner("default", ""), "walnuts", everywhere=True) == []


async def test_who_asks_along_anothers_line_changes_nothing_for_them(et: Everthread, talk: Talk, someone: str) -> None:
    """What a stranger was told nothing of is not taken for indexed."""
    await talk.append(user(WALNUTS))
    side = await talk.fork()
    stranger = Owner("default", f"{someone}-2")
    assert await et.log.recall.search(stranger, "walnuts", line=await side.line()) == []
    assert len(await found(et, side, "walnuts")) == 1


async def test_nobody_finds_what_is_anothers(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user(WALNUTS))
    assert len(await found(et, talk, "walnuts")) == 1
    line = await talk.line()
    for stranger in (Owner("default", f"{someone}-2"), Owner("elsewhere", someone), Owner("default", someone[1:])):
        assert await et.log.recall.search(stranger, "walnuts", conversation=talk.id) == []
        assert await et.log.recall.search(stranger, "walnuts", everywhere=True) == []
    assert await et.log.recall.search(Owner("default", f"{someone}-2"), "walnuts", line=line) == []
    with pytest.raises(BadValue):
        await et.log.recall.search(Owner("elsewhere", someone), "walnuts", line=line)


async def test_others_do_not_crowd_out_what_is_mine(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user(WALNUTS))
    stranger = await et.begin(user=f"{someone}-2")
    await chatter(stranger, 300, "Walnuts, walnuts, walnuts {}")
    await et.log.recall.index(owner(stranger))
    hits = await et.log.recall.search(owner(talk), "walnuts", everywhere=True, limit=20)
    assert [hit.event.text for hit in hits] == [WALNUTS]


async def test_everywhere_is_all_of_a_users_conversations(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.begin(user=someone)
    await talk.append(user(WALNUTS))
    await other.append(user("No walnuts here."))
    hits = await et.log.recall.search(owner(talk), "walnuts", everywhere=True)
    assert {hit.conversation for hit in hits} == {talk.id, other.id}
    assert {hit.conversation for hit in await found(et, talk, "walnuts")} == {talk.id}


# -- lines --------------------------------------------------------------------------------------------------------


async def test_a_branch_finds_its_own_and_what_its_ancestors_said_before_it_left(et: Everthread, talk: Talk) -> None:
    await talk.append(user("badgers one"), user("badgers two"), user("badgers three"))
    child = await talk.fork(at=2)
    await child.append(user("badgers on the side"))
    grandchild = await child.fork()
    await grandchild.append(user("badgers further aside"))
    assert sorted(await seqs(et, talk, "badgers", limit=9)) == [1, 2, 3]
    assert sorted(await seqs(et, child, "badgers", limit=9)) == [1, 2, 4]
    assert sorted(await seqs(et, grandchild, "badgers", limit=9)) == [1, 2, 4, 6]
    await assert_sound(et, talk)


async def test_all_branches_are_searched_on_request(et: Everthread, talk: Talk) -> None:
    await talk.append(user("badgers one"))
    child = await talk.fork(at=1)
    await child.append(user("badgers aside"))
    hits = await et.log.recall.search(owner(talk), "badgers", conversation=talk.id)
    assert {(hit.branch, hit.seq) for hit in hits} == {(1, 1), (2, 3)}


async def test_what_came_after_the_fork_takes_no_place(
    et: Everthread, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "ENOUGH", 20)
    await talk.append(user("badgers at first"))
    child = await talk.fork(at=1)
    await chatter(talk, 1_200, "badgers {}")
    assert await seqs(et, child, "badgers") == [1]


# -- filters ------------------------------------------------------------------------------------------------------


async def test_kinds_times_and_sessions_are_asked_of_every_hit(address: str, someone: str) -> None:
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    talk = await et.begin(user=someone)
    for number in range(3):
        clock.now = START + number * 90 * MINUTE
        await talk.append(user(f"badgers {number}"), assistant(f"badgers {number}, yes"))
    assert sorted(await seqs(et, talk, "badgers", kinds=("assistant",))) == [2, 5, 8]
    assert sorted(await seqs(et, talk, "badgers", kinds=("assistant", "mark"), limit=2)) == [2, 5]
    assert sorted(await seqs(et, talk, "badgers", since=START + 90 * MINUTE)) == [4, 5, 7, 8]
    assert sorted(await seqs(et, talk, "badgers", until=START + 90 * MINUTE)) == [1, 2]
    assert sorted(await seqs(et, talk, "badgers", session=2)) == [4, 5]
    assert await seqs(et, talk, "badgers", session=9) == []
    assert await seqs(et, talk, "badgers", kinds=("mark",)) == []
    assert await seqs(et, talk, "badgers", limit=0) == []
    await et.close()


async def test_a_filter_is_applied_before_the_limit(
    et: Everthread, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "ENOUGH", 20)
    monkeypatch.setattr(search, "PAGES", (1,))
    await talk.append(SessionEnded(session=1, recap="Badgers."), Other(kind="note", data={"text": "badgers"}))
    await chatter(talk, 1_500, "badgers, number {}")
    assert await seqs(et, talk, "badgers", kinds=("session_ended",)) == [1]
    assert await seqs(et, talk, "badgers", kinds=("note",)) == [2]


async def test_of_a_common_word_the_newest_count_and_it_helps_a_rare_one_anywhere(
    et: Everthread, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "ENOUGH", 50)
    monkeypatch.setattr(search, "PAGES", (1,))
    await talk.append(user("tortoise one"), user("a"), user("b"), user("c"), user("tortoise with badgers"))
    await chatter(talk, 1_500, "badgers, number {}")
    assert (await seqs(et, talk, "badgers", limit=1))[0] > 1_000
    assert await seqs(et, talk, "tortoise badgers", limit=1) == [5]
