"""Long texts in pieces that are counted one after another, so that no call into the tokenizer takes long.

The tokenizer lets no other thread run while it works, and a word of megabytes keeps it busy for seconds. Between two
pieces others can run, if the counting is done in a thread. A piece ends where both encodings begin a new token
whatever stands around: the tokens of the pieces are those of the whole. Where a stretch has no such place (one
long word, a megabyte of one letter), it is cut all the same, and may count for a token or two more or less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LEAST = 8_192  # characters of a piece before a place to end it is looked for
MOST = 12_288  # of any piece. A multiple of 3 and of 128: that many digits, or spaces, make one token

# By the rules of both encodings no token crosses these places: before a blank that follows a non-blank,
# and anything else after a letter or a digit, but for an apostrophe ("don't" is one) and for marks.
PLACE = re.compile(
    r"\S(?=[ \t])"
    r"|[A-Za-z0-9](?=[\n\r!-&(-/:-@\[-`{-~])"
    r"|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])"
    r"|[一-龥ぁ-ゖァ-ヺ가-힣](?=[、。，：；！？「（])"
)


def pieces(text: str, least: int = LEAST, most: int = MOST) -> Iterator[str]:
    """The text, cut into pieces of at most `most` characters."""
    start = 0
    while len(text) - start > most:
        place = PLACE.search(text, start + least - 1, start + most)
        end = place.end() if place else start + most
        yield text[start:end]
        start = end
    yield text[start:] if start else text
