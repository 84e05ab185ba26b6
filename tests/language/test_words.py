"""What recall looks for: words of any language, identifiers, and what becomes of a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.events import BriefUpdated, Clear, Mark, Other, SessionEnded, Summary, tool_call, user
from everthread.core.happenings import artifact_created
from everthread.language.stems import stem
from everthread.language.words import LONGEST, LONGEST_WORD, has_question, query_of, source_of, speakers_of, words_of


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("He is allergic to walnuts.", "allergies walnut"),
        ("She brought the children.", "bring child"),
        ("They were running and swam", "run swim"),
        ("Historic buildings", "history building"),
        ("Caroline's painting", "caroline paint"),
        ("It doesn’t matter", "doesn't"),
        ("CAFÉ ＡＢＣ", "cafe abc"),
        ("Straße", "STRASSE"),
        ("Привет, Мир", "привет мир"),
        ("مُحَمَّد", "محمد"),
        ("हिन्दी में", "हिन्दी"),
        ("昨日、東京タワーに行きました。", "東京タワー"),
        ("우리는 서울에 갔다", "서울"),
        ("我对核桃过敏", "核桃"),
        ("我对核桃过敏", "桃"),
        ("ฉันแพ้ถั่ว", "ถั่ว"),
        ("party 🎉", "🎉"),
        ("getUserName failed", "user name getUserName"),
        ("see src/app.py:12", "app.py src"),
        ("L'été d'Anna", "ete anna"),
    ],
)
def test_what_is_asked_is_among_what_was_said(said: str, asked: str) -> None:
    query = query_of(asked)
    wanted = {*query.words, *query.common} - {"app.py"}  # a piece of a longer whole: found by its own pieces
    assert wanted
    assert wanted <= words_of(said).keys()


@pytest.mark.parametrize(("one", "other"), [("party", "part"), ("universe", "unit"), ("order-17", "order-18")])
def test_different_words_stay_different(one: str, other: str) -> None:
    assert not set(query_of(one).words) - {"order"} & words_of(other).keys()


@pytest.mark.parametrize(
    "name", ["order-17", "src/app.py", "ABC123", "ana@example.org", "https://example.org/a?b=1", "v2.3.1", "00417"]
)
def test_what_names_one_thing_is_kept_whole_and_asked_for_exactly(name: str) -> None:
    assert name.lower() in words_of(f"It is about ({name}), I think.")
    assert name.lower() in query_of(f"what of {name}?").exact


@pytest.mark.parametrize("plain", ["walnuts", "2023", "self-care", "what did he say in May?"])
def test_ordinary_words_and_years_name_nothing_exactly(plain: str) -> None:
    assert not query_of(plain).exact


def test_words_that_say_little_are_put_aside_but_not_lost() -> None:
    query = query_of("What did you say about the walnuts?")
    assert query.words == ("sai", "walnut")
    assert "what" in query.common
    assert query_of("the who").words == ()
    assert query_of("the who").common == ("the", "who")


@pytest.mark.parametrize("nothing", ["", " ", "?!.", '"*" ()', "\0", "\ud800", "--- ***", "\n\t"])
def test_what_is_no_word_is_passed_over(nothing: str) -> None:
    assert not words_of(nothing)
    assert not any(query_of(nothing))


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_has_words_or_none_and_asks_for_what_it_says(text: str) -> None:
    found, query = words_of(text), query_of(text)
    assert {*query.words, *query.common, *query.exact} <= found.keys()
    assert bool(found) == bool(query.words or query.common)
    assert all(0 < len(word) <= LONGEST_WORD for word in found)


@pytest.mark.parametrize(
    ("said", "speakers"),
    [
        ("Ana: I bought a tortoise.", ["ana:"]),
        ("Dr. Ana Müller: Good morning.", ["dr:", "ana:", "muller:"]),
        ("[8 May, 13:05] Ana: hi", ["8:", "mai:", "13:", "05:", "ana:", "13:05:"]),
        ("**Ana**: hi", ["ana:"]),
        ("小明：你好", ["小:", "明:", "小明:"]),
        ("It is 13:05 now", []),
        ('{"name": "Ana"}', []),
        ('look({"for": "walnuts"})', []),
        ("see https://example.org", []),
        (f"{'word ' * 20}: far too late", []),
        ("First line\nAna: hi", []),
        (": nobody", []),
        ("", []),
    ],
)
def test_who_speaks_is_what_comes_before_a_first_colon(said: str, speakers: list[str]) -> None:
    assert sorted(speakers_of(said)) == sorted(speakers)


def test_a_query_may_ask_about_any_of_its_words_as_a_speaker() -> None:
    assert query_of("What did Ana buy?").speakers == ("ana:", "bui:")


@pytest.mark.parametrize("text", ["Really?", "Really? Yes.", '"Why?" she said', "本当？", "ماذا؟", "(who?)"])
def test_a_text_asks_something(text: str) -> None:
    assert has_question(text)


@pytest.mark.parametrize("text", ["", "No.", "see https://example.org/a?b=1"])
def test_a_text_asks_nothing(text: str) -> None:
    assert not has_question(text)


def test_only_the_beginning_of_a_very_long_text_is_looked_at() -> None:
    assert "walnut" not in words_of("x " * LONGEST + "walnut")
    assert "walnut" in words_of("walnut " + "x" * 10 * LONGEST)


def test_how_often_a_word_stands_in_a_text_is_counted() -> None:
    assert words_of("Walnuts, walnuts and a walnut")["walnut"] == 3


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (user("hello"), "hello"),
        (tool_call("look", {"for": "walnuts"}), 'look({"for": "walnuts"})'),
        (SessionEnded(session=1, recap="They met."), "They met."),
        (Mark(name="before the cake"), "before the cake"),
        (Other(kind="list", data={"title": "Cake", "rows": [{"text": "walnuts"}, 7]}), "Cake\nwalnuts"),
        (artifact_created("Cake", rows=[{"text": "walnuts"}, 7]), "Cake\nwalnuts"),
        (BriefUpdated(text="A brief.", covers=1), ""),
        (Summary(text="A summary.", covers=1), ""),
        (Clear(), ""),
    ],
)
def test_what_an_event_is_found_by(event: object, text: str) -> None:
    assert source_of(event) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("feed", "feed"),
        ("hopping", "hop"),
        ("filing", "file"),
        ("falling", "fall"),
        ("relational", "relat"),
        ("hopefulness", "hope"),
        ("formative", "form"),
        ("adjustment", "adjust"),
        ("controlling", "control"),
        ("sky", "sky"),
        ("status", "status"),
        ("is", "is"),
    ],
)
def test_stems_are_porters(word: str, expected: str) -> None:
    assert stem(word) == expected
