"""The root of the tree of errors and its largest branches; and how an error shows a value."""

from __future__ import annotations

import reprlib

GO_ON = "The message is kept: `talk.resume()` tries again without saying it twice."


class EverthreadError(Exception):
    """The root of the tree. `kept`: where it ended a turn that can be gone on with, the seq of that turn's message."""

    kept = 0

    @property
    def sentence(self) -> str:
        """What happened, without how a program goes on: a face says that in its own words."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.sentence} {GO_ON}" if self.kept else self.sentence


class InputError(EverthreadError):
    """What was given cannot be used; nothing was changed."""


class NotFound(EverthreadError):
    """Something named does not exist for this user."""


class Conflict(EverthreadError):
    """The log has moved on, or says otherwise; read it again and decide."""


def short(value: object) -> str:
    """A value as an error shows it: quoted, on one line, and not for pages."""
    try:
        return _shortening.repr(value)
    except (ValueError, RecursionError):  # a number of 5,000 digits, brackets without end
        return f"a {type(value).__name__} too large to show"


_shortening = reprlib.Repr()
_shortening.maxstring = _shortening.maxother = 200
