"""Text as a person is shown it, on a terminal as well."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without characters that would steer the terminal."""
    clean = text.encode("utf-8", "replace").decode().replace("\t", "    ").replace("\r\n", "\n")
    return "".join(c if c.isprintable() or c in _HARMLESS else "·" for c in clean)


# Python calls these unprintable, but other languages are written with them: spaces of every width, and what joins
# or parts letters and emoji. What turns the direction of writing is not among them: it could hide what is said.
_HARMLESS = frozenset(
    "\n\u00a0\u00ad\u1680\u202f\u205f\u3000\u200b\u200c\u200d\u2060" + "".join(map(chr, range(0x2000, 0x200B)))
)


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
