"""When something was said, as words, and which of them a query asks for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.times import microseconds
from everthread.language.dates import days_asked, days_of
from everthread.language.words import query_of, words_of


def test_a_time_is_a_year_a_month_and_a_day() -> None:
    assert days_of(microseconds(datetime(2023, 5, 8, 23, 59, tzinfo=UTC))) == ("@2023", "@05", "@05-08")


@given(st.integers())
def test_any_number_is_a_time_or_none(at: int) -> None:
    assert len(days_of(at)) in (0, 3)


@pytest.mark.parametrize(
    ("asked", "days"),
    [
        ("What did he do on 8 May, 2023?", {"@2023", "@05", "@05-08"}),
        ("on May 8th 2023", {"@2023", "@05", "@05-08"}),
        ("the 8th of May", {"@05", "@05-08"}),
        ("Where was she in June?", {"@06"}),
        ("at the end of June", {"@06"}),
        ("since Sept 2021", {"@2021", "@09"}),
        ("2023-05-08", {"@2023", "@05", "@05-08"}),
        ("2023-05", {"@2023", "@05"}),
        ("in 2023", {"@2023"}),
        ("am 3. März 2024", {"@2024", "@03", "@03-03"}),
        ("le 14 août", {"@08", "@08-14"}),
        ("8 de mayo de 2023", {"@2023", "@05", "@05-08"}),
        ("2023年5月8日", {"@2023", "@05", "@05-08"}),
        ("5月に何をした？", {"@05"}),
        ("from 30 June to 2 July", {"@06", "@06-30", "@07", "@07-02"}),
    ],
)
def test_a_date_is_asked_for(asked: str, days: set[str]) -> None:
    assert set(query_of(asked).days) == days


@pytest.mark.parametrize("plain", ["may I?", "What did June say to August?", "a march", "room 12345", "1:30", "2023x"])
def test_what_is_no_date_is_not_taken_for_one(plain: str) -> None:
    assert set(days_asked(plain.lower())) <= {"@2023"}


@given(st.text(alphabet=st.characters(), max_size=100))
def test_no_text_has_such_words_of_its_own(text: str) -> None:
    assert not any(word.startswith("@") or word.endswith(":") for word in words_of(text))
