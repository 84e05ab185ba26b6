"""What must be kept to the letter: ids, paths, commands, addresses, numbers, dates and names, found in a text.

One pattern is run once over the text, kinds in order of how sure they are, so that the digits of an order number are
not found again as a number. What has no meaning by itself takes a few of the words around it along: "latency fell to
87 ms". From JSON the key is the word beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from everthread.language.entity_words import (
    BREAK,
    COMMAND_KEYS,
    FLAG,
    GERMAN,
    GOES_ON,
    LABEL,
    LONGEST,
    ORDINAL,
    ORDINARY,
    PATTERN,
    RUN,
    SMALL,
    STARTERS,
    TIME,
)

Kind = Literal["id", "path", "command", "url", "email", "phone", "number", "date", "name"]

MOST = 60  # facts of one text; a table of a thousand numbers is not a thousand facts
READ = 24_000  # characters that are looked at
LEAVES = 80  # values of a JSON text


class Found(NamedTuple):
    """`value` is exact; `text` is the value with what it belongs to; `rarity` says how much there is to it, 0 to 3."""

    kind: Kind
    value: str
    text: str
    rarity: int


_GROUPS: dict[str, Kind] = {"shell": "command", "cjknumber": "number", "cjkdate": "date", "honoured": "name"}


def found(text: str, most: int = MOST) -> list[Found]:
    """What must be kept of a text, in its order, each once."""
    seen: dict[tuple[str, str], Found] = {}
    text = text[:READ]
    german = len(set(GERMAN.findall(text))) > 2
    at = 0
    while match := PATTERN.search(text, at):
        group, at = str(match.lastgroup), match.end()
        if group == "skip":
            continue
        one = _of_code(match) if group == "code" else _MAKERS[group](text, match, german)
        if group == "command":  # what follows it in the sentence is read by itself
            at = match.start() + len(one.value if one else match[0].partition(" ")[0])
        if one and (one.kind, one.text) not in seen:
            seen[one.kind, one.text] = one
            if len(seen) == most:
                break
    return list(seen.values())


def of_json(text: str, most: int = MOST) -> list[Found] | None:
    """The same of a text that is JSON, each with its key; None where it is not."""
    body = _decoded(text)
    if body is None:
        return None
    seen: dict[tuple[str, str], Found] = {}
    for key, value in _leaves(body):
        for one in _of_leaf(key, value):
            seen.setdefault((one.kind, one.text), one)
        if len(seen) >= most:
            break
    return list(seen.values())[:most]


def pairs_of_json(text: str) -> list[tuple[str, str]]:
    """The first keys and values of a text that is JSON, in its order; none where it is not."""
    body = _decoded(text)
    return [] if body is None else [(key, str(value)) for key, value in _leaves(body)]


# -- JSON --------------------------------------------------------------------------------------------------


def _decoded(text: str) -> object:
    if text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def _leaves(body: object) -> Iterator[tuple[str, object]]:
    """Values with the key that they stand under, in the text's order; the first of them, however deep it goes."""
    stack: list[tuple[str, object]] = [("", body)]
    for _ in range(LEAVES * 4):
        if not stack:
            return
        key, value = stack.pop()
        if isinstance(value, dict):
            if isinstance(first := value.get("first_name"), str) and isinstance(last := value.get("last_name"), str):
                yield "name", f"{first} {last}"
                value = {name: inner for name, inner in value.items() if name not in ("first_name", "last_name")}
            stack += [(str(name), inner) for name, inner in reversed(list(value.items())[:LEAVES])]
        elif isinstance(value, list):
            stack += [(key, inner) for inner in reversed(value[:LEAVES])]
        elif value is not None:
            yield key, value


def _of_leaf(key: str, value: object) -> Iterator[Found]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield Found("number", str(value), f"{key} {value}".strip(), _rarity_of_number(str(value)))
        return
    text = str(value)
    if key in COMMAND_KEYS and text.strip():
        yield _command(text.strip().split("\n")[0])
        return
    match = PATTERN.match(text) if len(text) <= LONGEST else None
    if match and match.end() == len(text) and (match.lastgroup not in ("name", "skip") or "name" in key):
        group = str(match.lastgroup)
        kind: Kind = _GROUPS.get(group) or ("name" if group == "skip" else group)  # type: ignore[assignment]
        yield Found(kind, text, text if kind in ("name", "url", "path") else f"{key} {text}".strip(), 2)
    elif len(text) > 12:
        yield from found(text[:1_000], most=10)


# -- each kind ---------------------------------------------------------------------------------------------


def _of_code(match: re.Match[str]) -> Found | None:
    code = match[0][1:-1].strip()
    inner = PATTERN.match(code)
    if inner and inner.end() == len(code) and (group := str(inner.lastgroup)) in ("path", "url", "email", "id", "date"):
        return Found(group, code, code, 2)  # type: ignore[arg-type]
    return _command(code) if len(code) > 1 and not code.isdigit() else None


def _command(line: str) -> Found:
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 2]} …"
    return Found("command", line, line, 2 + (" " in line))


def _shell(_text: str, match: re.Match[str], _german: bool) -> Found:
    return _command(match[0].strip().partition(" ")[2].strip())


def _typed(text: str, match: re.Match[str], _german: bool) -> Found | None:
    """A command in running text, up to where the sentence goes on."""
    words = match[0].split(" ")
    for number, word in enumerate(words[1:], 1):
        if word.lower().rstrip(".,:") in GOES_ON:
            words = words[:number]
            break
        if word[-1] in ".,:" and word not in (".", ".."):
            words = [*words[:number], word[:-1]]
            break
    plain = not any(map(FLAG.match, words[1:]))
    told = RUN.search(text, max(0, match.start() - 24), match.start())
    if len(words) < 2 or (plain and not told and (words[0] in ORDINARY or words[1].lower() in SMALL)):
        return None
    return _command(" ".join(words))


def _url(_text: str, match: re.Match[str], _german: bool) -> Found:
    url = match[0].rstrip(".,;:!?)]*_'")
    if match[0].count("(") and url + ")" == match[0][: len(url) + 1]:
        url += ")"
    return Found("url", url, url if len(url) <= LONGEST * 2 else f"{url[: LONGEST * 2]}…", 2)


def _email(text: str, match: re.Match[str], _german: bool) -> Found:
    email = match[0].rstrip(".-")
    return Found("email", email, _labelled(text, match.start(), email), 3)


def _path(_text: str, match: re.Match[str], _german: bool) -> Found | None:
    path = match[0].rstrip(".")
    if not path.strip("/.~") or (path.count("/") < 2 and path.replace("/", "").isdigit()):
        return None
    return Found("path", path, path, 2 + ("/" in path or "\\" in path))


def _date(text: str, match: re.Match[str], _german: bool) -> Found:
    return Found("date", match[0], _around(text, match), 1 if TIME.fullmatch(match[0]) else 2)


def _phone(text: str, match: re.Match[str], _german: bool) -> Found | None:
    digits = sum(map(str.isdigit, match[0]))
    return Found("phone", match[0], _labelled(text, match.start(), match[0]), 3) if 7 <= digits <= 15 else None


def _number(text: str, match: re.Match[str], _german: bool) -> Found | None:
    number = match[0].strip()
    if match.end() < len(text) and text[match.end()] in ".)" and _opens(text, match.start()):
        return None  # of a list
    around = _around(text, match)
    rarity = _rarity_of_number(number)
    return Found("number", number, around, rarity) if rarity or around != number else None


def _rarity_of_number(number: str) -> int:
    digits = sum(map(str.isdigit, number))
    return min(3, (digits > 2) + (digits > 4) + (not number.isdigit()))


def _id(text: str, match: re.Match[str], _german: bool) -> Found | None:
    value = match[0]
    if ORDINAL.fullmatch(value):
        return None
    return Found("id", value, _labelled(text, match.start(), value), 3 if len(value) > 5 else 2)


def _name(text: str, match: re.Match[str], german: bool) -> Found | None:
    words = match[0].rstrip("'’-&").split(" ")
    if text[match.end() : match.end() + 1] in (":", "*"):
        return None  # the label of a form
    if (after := text[match.end() + 1 : match.end() + 2]).isdigit() or (after == "#"):
        return None  # what stands before a number is told with it
    begins = _opens(text, match.start())
    while words and (_bare(words[0]) in STARTERS or len(words[0]) < 2):
        words, begins = words[1:], False
    while words and _bare(words[-1]) in STARTERS:
        words = words[:-1]
    if not words or (len(words) == 1 and (begins or german)):
        return None
    name = " ".join(words).removesuffix("'s").removesuffix("’s")
    return Found("name", name, name, min(2, len(words) - 1 + any(map(str.isdigit, name))))


def _honoured(_text: str, match: re.Match[str], _german: bool) -> Found:
    return Found("name", match[0], match[0], 1)


_MAKERS = {
    "shell": _shell,
    "command": _typed,
    "url": _url,
    "email": _email,
    "path": _path,
    "date": _date,
    "cjkdate": _date,
    "phone": _phone,
    "number": _number,
    "cjknumber": _number,
    "id": _id,
    "name": _name,
    "honoured": _honoured,
}

# -- the words around --------------------------------------------------------------------------------------


def _around(text: str, match: re.Match[str]) -> str:
    """What was found with the words beside it that belong to its clause."""
    before, after = text[max(0, match.start() - 56) : match.start()], text[match.end() : match.end() + 32]
    if match.start() > 56:
        before = before[before.find(" ") + 1 :] if " " in before else before[-8:]  # not half a word
    if match.end() + 32 < len(text):
        after = after[: after.rfind(" ") + 1] if " " in after else after[:4]
    left, right = BREAK.split(before)[-1], BREAK.split(after, maxsplit=1)[0]
    lead, tail = " ".join(_lead(left.split())), " ".join(_tail(right.split()))
    if not lead and not tail:
        return _labelled(text, match.start(), match[0].strip())
    space = " " if lead and left[-1:].isspace() else ""
    return f"{lead}{space}{match[0].strip()}{' ' if tail and right[:1].isspace() else ''}{tail}"


def _lead(words: list[str]) -> list[str]:
    """The last of these words, back to the second that means something."""
    telling = 0
    for number in range(len(words) - 1, -1, -1):
        telling += words[number].lower() not in SMALL
        if telling == 2 or len(words) - number == 5:
            words = words[number:]
            break
    while words and (words[0].lower() in SMALL or not any(map(str.isalnum, words[0]))):
        words = words[1:]
    return words


def _tail(words: list[str]) -> list[str]:
    """One or two words, as long as they are words."""
    end = next((number for number, word in enumerate(words[:2]) if any(map(str.isdigit, word))), 2)
    words = words[:end]
    while words and words[-1].lower() in SMALL:
        words = words[:-1]
    return words


def _labelled(text: str, at: int, value: str) -> str:
    """The value with the one or two words before it that say what it is."""
    before = LABEL.search(text, max(0, at - 32), at)
    words = [word for word in before[1].split() if word.lower() not in SMALL] if before else []
    return f"{' '.join(words[-2:])} {value}".strip()


def _opens(text: str, at: int) -> bool:
    """Whether a sentence, a line or a label begins here, so that a capital letter says nothing."""
    before = text[max(0, at - 4) : at].rstrip(" \"'“‘«(")
    return not before or before[-1] in ".!?:\n•-*|>#…"


def _bare(word: str) -> str:
    return word.lower().replace("’", "'")
