"""What must be kept to the letter: ids, paths, commands, addresses, numbers, dates and names, found in a text.

One pattern is run once over the text, kinds in order of how sure they are, so that the digits of an order number are
not found again as a number. What has no meaning by itself takes a few of the words around it along: "latency fell to
87 ms". From JSON the key is the word beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import dropwhile, islice, repeat
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


class Entity(NamedTuple):
    """`value` is exact; `text` adds the words that it belongs to; `rarity` says how telling it is, 0 to 3."""

    kind: Kind
    value: str
    text: str
    rarity: int


_NAME_KEYS = ("first_name", "last_name")
_GROUPS: dict[str, Kind] = {"shell": "command", "cjknumber": "number", "cjkdate": "date", "honoured": "name"}


def found(text: str, most: int = MOST) -> list[Entity]:
    """What must be kept of a text, in its order, each once."""
    return _each_once(_all_in(text[:READ]), most)


def of_json(text: str, most: int = MOST) -> list[Entity] | None:
    """What must be kept of a text that is JSON, each with its key; None where it is not JSON."""
    body = _decoded(text)
    if body is None:
        return None
    return _each_once((one for key, value in _leaves(body) for one in _of_leaf(key, value)), most)


def pairs_of_json(text: str) -> list[tuple[str, str]]:
    """The first keys and values of a text that is JSON, in its order; none where it is not."""
    body = _decoded(text)
    return [] if body is None else [(key, str(value)) for key, value in _leaves(body)]


def _each_once(founds: Iterable[Entity], most: int) -> list[Entity]:
    seen: dict[tuple[str, str], Entity] = {}
    for one in founds:
        seen.setdefault((one.kind, one.text), one)
        if len(seen) == most:
            break
    return list(seen.values())


def _all_in(text: str) -> Iterator[Entity]:
    german = len(set(GERMAN.findall(text))) > 2
    at = 0
    while match := PATTERN.search(text, at):
        one = _MAKERS[str(match.lastgroup)](text, match, german)
        at = match.end() if match.lastgroup != "command" else _end_of_command(match, one)
        if one:
            yield one


def _end_of_command(match: re.Match[str], one: Entity | None) -> int:
    """Where a command ends: what follows it in the sentence is read by itself."""
    return match.start() + len(one.value if one else match[0].partition(" ")[0])


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
            name = _full_name(value)
            yield from name
            stack += reversed(_fields(value, named=bool(name)))
        elif isinstance(value, list):
            stack += zip(repeat(key), reversed(value[:LEAVES]))
        elif value is not None:
            yield key, value


def _full_name(value: dict[str, object]) -> list[tuple[str, str]]:
    """The first and the last name as one, where an object has both."""
    names = [name for key in _NAME_KEYS if isinstance(name := value.get(key), str)]
    return [("name", " ".join(names))] if len(names) == len(_NAME_KEYS) else []


def _fields(value: dict[str, object], *, named: bool) -> list[tuple[str, object]]:
    """The first fields of an object, but for the names that were told as one."""
    told = _NAME_KEYS if named else ()
    return list(islice(((key, inner) for key, inner in value.items() if key not in told), LEAVES))


def _of_leaf(key: str, value: object) -> Iterable[Entity]:
    if isinstance(value, bool):
        return ()
    if isinstance(value, int | float):
        return (Entity("number", str(value), f"{key} {value}".strip(), _rarity_of_number(str(value))),)
    return _of_value(key, str(value))


def _of_value(key: str, text: str) -> Iterable[Entity]:
    if key in COMMAND_KEYS and text.strip():
        return (_command(text.strip().split("\n")[0]),)
    if kind := _kind_of_value(key, text):
        return (Entity(kind, text, text if kind in ("name", "url", "path") else f"{key} {text}".strip(), 2),)
    return found(text[:1_000], most=10) if len(text) > 12 else ()


def _kind_of_value(key: str, text: str) -> Kind | None:
    """What a value is as a whole; a name only where its key says so."""
    match = PATTERN.match(text) if len(text) <= LONGEST else None
    if match is None or match.end() < len(text):
        return None
    if match.lastgroup in ("name", "skip"):
        return "name" if "name" in key else None
    return _GROUPS.get(str(match.lastgroup), match.lastgroup)  # type: ignore[arg-type]


# -- each kind ---------------------------------------------------------------------------------------------


def _nothing(_text: str, _match: re.Match[str], _german: bool) -> None:
    return None


def _code(_text: str, match: re.Match[str], _german: bool) -> Entity | None:
    code = match[0][1:-1].strip()
    inner = PATTERN.match(code)
    if inner and inner.end() == len(code) and (group := str(inner.lastgroup)) in ("path", "url", "email", "id", "date"):
        return Entity(group, code, code, 2)  # type: ignore[arg-type]
    return _command(code) if len(code) > 1 and not code.isdigit() else None


def _command(line: str) -> Entity:
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 2]} …"
    return Entity("command", line, line, 2 + (" " in line))


def _shell(_text: str, match: re.Match[str], _german: bool) -> Entity:
    return _command(match[0].strip().partition(" ")[2].strip())


def _typed(text: str, match: re.Match[str], _german: bool) -> Entity | None:
    """A command in running text, up to where the sentence goes on."""
    words = _until_sentence(match[0].split(" "))
    told = RUN.search(text, max(0, match.start() - 24), match.start())
    if len(words) < 2 or (not told and _may_be_prose(words)):
        return None
    return _command(" ".join(words))


def _until_sentence(words: list[str]) -> list[str]:
    for number, word in enumerate(words[1:], 1):
        if word.lower().rstrip(".,:") in GOES_ON:
            return words[:number]
        if word[-1] in ".,:" and word not in (".", ".."):
            return [*words[:number], word[:-1]]
    return words


def _may_be_prose(words: list[str]) -> bool:
    if any(map(FLAG.match, words[1:])):
        return False
    return words[0] in ORDINARY or words[1].lower() in SMALL


def _url(_text: str, match: re.Match[str], _german: bool) -> Entity:
    url = match[0].rstrip(".,;:!?)]*_'")
    if match[0].count("(") and url + ")" == match[0][: len(url) + 1]:
        url += ")"
    return Entity("url", url, url if len(url) <= LONGEST * 2 else f"{url[: LONGEST * 2]}…", 2)


def _email(text: str, match: re.Match[str], _german: bool) -> Entity:
    email = match[0].rstrip(".-")
    return Entity("email", email, _labelled(text, match.start(), email), 3)


def _path(_text: str, match: re.Match[str], _german: bool) -> Entity | None:
    path = match[0].rstrip(".")
    if not path.strip("/.~") or (path.count("/") < 2 and path.replace("/", "").isdigit()):
        return None
    return Entity("path", path, path, 2 + ("/" in path or "\\" in path))


def _date(text: str, match: re.Match[str], _german: bool) -> Entity:
    return Entity("date", match[0], _around(text, match), 1 if TIME.fullmatch(match[0]) else 2)


def _phone(text: str, match: re.Match[str], _german: bool) -> Entity | None:
    digits = sum(map(str.isdigit, match[0]))
    return Entity("phone", match[0], _labelled(text, match.start(), match[0]), 3) if 7 <= digits <= 15 else None


def _number(text: str, match: re.Match[str], _german: bool) -> Entity | None:
    number = match[0].strip()
    if match.end() < len(text) and text[match.end()] in ".)" and _opens(text, match.start()):
        return None  # of a list
    around = _around(text, match)
    rarity = _rarity_of_number(number)
    return Entity("number", number, around, rarity) if rarity or around != number else None


def _rarity_of_number(number: str) -> int:
    digits = sum(map(str.isdigit, number))
    return min(3, (digits > 2) + (digits > 4) + (not number.isdigit()))


def _id(text: str, match: re.Match[str], _german: bool) -> Entity | None:
    value = match[0]
    if ORDINAL.fullmatch(value):
        return None
    return Entity("id", value, _labelled(text, match.start(), value), 3 if len(value) > 5 else 2)


def _name(text: str, match: re.Match[str], german: bool) -> Entity | None:
    if _belongs_to_next(text, match.end()):
        return None
    given = match[0].rstrip("'’-&").split(" ")
    words = list(dropwhile(_is_no_name, given))
    begins = len(words) == len(given) and _opens(text, match.start())
    words = _without_starters(words)
    # Where a capital letter says nothing, one word is no name yet.
    if len(words) < (2 if begins or german else 1):
        return None
    name = " ".join(words).removesuffix("'s").removesuffix("’s")
    return Entity("name", name, name, min(2, len(words) - 1 + any(map(str.isdigit, name))))


def _belongs_to_next(text: str, end: int) -> bool:
    """Whether what ends here is the label of a form, or stands before a number, which is told with it."""
    after = text[end + 1 : end + 2]
    return text[end : end + 1] in (":", "*") or after.isdigit() or after == "#"


def _is_no_name(word: str) -> bool:
    return _bare(word) in STARTERS or len(word) < 2


def _without_starters(words: list[str]) -> list[str]:
    """The words without those at the end that no name ends with."""
    while words and _bare(words[-1]) in STARTERS:
        words = words[:-1]
    return words


def _honoured(_text: str, match: re.Match[str], _german: bool) -> Entity:
    return Entity("name", match[0], match[0], 1)


_MAKERS: dict[str, Callable[[str, re.Match[str], bool], Entity | None]] = {
    "skip": _nothing,
    "code": _code,
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
    before, after = _before(text, match.start()), _after(text, match.end())
    if not before and not after:
        return _labelled(text, match.start(), match[0].strip())
    return f"{before}{match[0].strip()}{after}"


def _before(text: str, at: int) -> str:
    """The last words before a place that belong to its clause, with the space after them."""
    near = text[max(0, at - 56) : at]
    if at > 56:
        near = near[near.find(" ") + 1 :] if " " in near else near[-8:]  # not half a word
    clause = BREAK.split(near)[-1]
    lead = " ".join(_lead(clause.split()))
    return f"{lead} " if lead and clause[-1:].isspace() else lead


def _after(text: str, at: int) -> str:
    """The first words after a place that belong to its clause, with the space before them."""
    near = text[at : at + 32]
    if at + 32 < len(text):
        near = near[: near.rfind(" ") + 1] if " " in near else near[:4]
    clause = BREAK.split(near, maxsplit=1)[0]
    tail = " ".join(_tail(clause.split()))
    return f" {tail}" if tail and clause[:1].isspace() else tail


def _lead(words: list[str]) -> list[str]:
    """The last of these words, back to the second that means something."""
    telling = 0
    for number in range(len(words) - 1, -1, -1):
        telling += words[number].lower() not in SMALL
        if telling == 2 or len(words) - number == 5:
            words = words[number:]
            break
    return list(dropwhile(_is_small, words))


def _is_small(word: str) -> bool:
    return word.lower() in SMALL or not any(map(str.isalnum, word))


def _tail(words: list[str]) -> list[str]:
    """The first one or two of these words, up to one with a digit."""
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
