"""Partial replies on their way between processes: whatever the pieces, offsets stay what they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from everthread.core.deltas import ReasoningDelta, TextDelta
from everthread.core.partial import Partial, frame, frames, read_partial, write_partial

HALVES = st.text(alphabet=st.sampled_from("a\0\U0001f600\ud83d\ude00"), max_size=6)
PIECES = st.lists(st.builds(TextDelta, text=HALVES) | st.builds(ReasoningDelta, text=HALVES), max_size=6)


def _partial(pieces: list[TextDelta | ReasoningDelta]) -> Partial:
    partial = Partial("id", 1)
    for piece in pieces:
        partial.add(piece)
    return partial


@given(PIECES)
def test_what_is_kept_is_read_as_long_as_it_was(pieces: list[TextDelta | ReasoningDelta]) -> None:
    partial = _partial(pieces)
    again = read_partial(write_partial(partial))
    assert again is not None
    assert (again.length, again.text) == (partial.length, partial.text)


@given(PIECES, st.integers(1, 4), st.data())
def test_frames_fit_together_wherever_they_begin(
    pieces: list[TextDelta | ReasoningDelta], longest: int, data: st.DataObject
) -> None:
    partial = _partial(pieces)
    begins = data.draw(st.integers(0, partial.length))
    known = Partial("id", 1)
    known.pieces = [placed for placed in partial.pieces if placed.end <= begins]
    for sent in frames(partial, known.length, longest=longest):
        heard = frame(sent.written())
        assert heard is not None
        assert known.take(heard)
    assert (known.length, known.text) == (partial.length, partial.text)
    for sent in frames(partial, 0, longest=longest):  # all of it once more adds nothing
        heard = frame(sent.written())
        assert heard is not None
        assert known.take(heard)
    assert known.length == partial.length
