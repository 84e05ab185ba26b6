"""Text that streams onto a terminal and breaks between words.

A piece is written as soon as it comes, so half a word may stand at the end of a line when the rest of it does not fit
there. Then that half is erased, and the word begins the next line. A word that is longer than a line is left to the
terminal, which breaks it where it must.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"\n|[^\S\n]+|\S+")


class Wrapping:
    def __init__(self) -> None:
        self._column = 0
        self._word = ""  # the word at the end of the line, which the next piece may go on with

    def fit(self, text: str, width: int) -> str:
        """What to write for the next piece of text. The last column stays free, because terminals differ in
        where the cursor is after it."""
        return "".join(self._fit(piece, width - 1) for piece in _PIECES.findall(text))

    def _fit(self, piece: str, width: int) -> str:
        from rich.cells import cell_len

        whole = "" if piece.isspace() else self._word + piece
        end = self._column + cell_len(piece)
        if piece != "\n" and end <= width:
            self._column, self._word = end, whole
            return piece
        if not whole:
            self._column, self._word = 0, ""
            return "\n"
        before, after = cell_len(self._word), cell_len(whole)
        self._word = whole
        if after > width:
            self._column = end % (width + 1)
            return piece
        self._column = after
        return f"{_back(before)}\n{whole}"


def _back(columns: int) -> str:
    """The control codes that erase the last columns of a line."""
    return f"\x1b[{columns}D\x1b[K" if columns else ""
