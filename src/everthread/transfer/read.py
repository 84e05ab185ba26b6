"""Reading conversations from files: Everthread's own lines, message lists of OpenAI, Anthropic and Gemini, data exports
of ChatGPT and Claude.

A file is read as a stream: one line, one conversation of a list, or some messages of a long one are in memory at once.
What cannot be understood is named by line and reason; what can be, and is merely unusual, is taken as it is. A history
of another program is known again by a keyed hash of it (`source`), so that it is not imported twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from everthread.core.branches import Branch
from everthread.core.events import Event
from everthread.core.ids import make_id
from everthread.core.times import moment
from everthread.errors import BadFormat
from everthread.providers.anthropic.messages import from_anthropic
from everthread.providers.google.contents import from_gemini
from everthread.providers.openai.messages import from_openai
from everthread.providers.openai.responses.items import from_responses
from everthread.store.conversations import MAIN, Conversation, Owner
from everthread.store.log import now
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import OwnedDocument, Portion, Whole
from everthread.transfer import streams
from everthread.transfer.chatgpt import from_chatgpt
from everthread.transfer.claude import from_claude
from everthread.transfer.detect import Format as Format
from everthread.transfer.detect import detect, is_message
from everthread.transfer.exported import whole_of
from everthread.transfer.lines import NOTHING_KEPT, Keeps, Read, read_lines
from everthread.transfer.long_lists import LongList, is_long
from everthread.transfer.sources import Input, inputs
from everthread.transfer.streams import JsonLine, Progress
from everthread.transfer.times import times_of

_EXPORTS = {"chatgpt": from_chatgpt, "claude": from_claude}
_UNKNOWN = (
    "this is neither an Everthread export, nor a list of OpenAI or Anthropic messages, Responses items or Gemini"
    " contents, nor a ChatGPT or Claude data export"
)

LOOKED = 100  # values that are looked at to find out a format
SEEN = 100_000  # hashes that are remembered, to tell a history that is there twice from one that was imported before


class Contents(NamedTuple):
    """What a file holds: conversations, and documents such as MEMORY.md."""

    wholes: list[Whole]
    documents: list[OwnedDocument]


class Reading(NamedTuple):
    """How something is read. `agent`: with whom, where a file does not say; `format`: which, where it is known;
    `keeps`: what of an Everthread export stays whose it was; `key`: of the hashes by which histories are known again;
    `torn`: whether a last line without an end is passed over, as it is of a mirror."""

    owner: Owner
    agent: str
    format: Format | None = None
    keeps: Keeps = NOTHING_KEPT
    key: bytes = b""
    torn: bool = False


def read_file(
    path: Path, owner: Owner, *, agent: str, format: Format | None = None, progress: Progress = lambda _: None
) -> list[Whole]:
    """All conversations of a file, as the owner's. BadFormat where any of it cannot be understood."""
    return read_all(path, owner, agent=agent, format=format, progress=progress).wholes


def read_all(
    path: Path,
    owner: Owner,
    *,
    agent: str,
    format: Format | None = None,
    keep_users: bool = False,
    progress: Progress = lambda _: None,
) -> Contents:
    """All that a file holds, as the owner's, in memory. `keep_users`: as belonging to those whom an Everthread export
    names. `importing.import_path` reads and writes piece by piece instead."""
    contents, open = Contents([], []), list[Portion]()
    for one in read(path, Reading(owner, agent, format, Keeps(users=keep_users)), progress):
        if isinstance(one, OwnedDocument):
            contents.documents.append(one)
        elif isinstance(one, Portion):
            open.append(one)
            if one.last:
                contents.wholes.append(_whole(open))
                open = []
    return contents


def _whole(portions: list[Portion]) -> Whole:
    """A conversation of all its portions."""
    branches: dict[int, tuple[Branch, list[Draft]]] = {}
    for portion in portions:
        for branch, _, drafts in portion.pieces:
            branches.setdefault(branch.number, (branch, []))[1].extend(drafts)
    blobs = {hash: data for portion in portions for hash, data in portion.blobs.items()}
    ordered = [branches[number] for number in sorted(branches)]
    return Whole(conversation=portions[-1].conversation, branches=ordered, blobs=blobs)


def read(path: Path, how: Reading, progress: Progress = lambda _: None) -> Generator[Read, None, None]:
    """All that a file, a zip file or a folder holds, piece by piece. BadFormat where any of it cannot be understood."""
    for one in inputs(path):
        yield from _Input(one, how, progress).read()


class _Input:
    """One file that is read."""

    def __init__(self, input: Input, how: Reading, progress: Progress) -> None:
        self._input, self._how, self._progress = input, how, progress
        self._after = ""  # the id of the newest conversation of message lists
        self._seen: dict[bytes, int] = {}

    def read(self) -> Iterator[Read]:
        with closing(self._values(self._progress)) as all_values:
            format, values = self._format(all_values)
            if format == "everthread":
                yield from read_lines(values, self._how.owner, keeps=self._how.keeps)
            else:
                yield from self._foreign(format, values)

    def _values(self, progress: Progress) -> Generator[JsonLine, None, None]:
        is_lines = self._input.lines or self._how.torn
        if not is_lines:
            with self._input.open() as file:
                is_lines = not streams.is_one_value(file)
        with self._input.open() as file:
            if is_lines:
                yield from streams.lines(file, self._input.name, progress, torn=self._how.torn)
            else:
                yield from streams.value(file, self._input.name, progress)

    def _format(self, values: Iterator[JsonLine]) -> tuple[Format, Iterator[JsonLine]]:
        """The format of the first value that has one; and all values."""
        looked = list(islice(values, 1))
        if not looked:
            raise BadFormat("the file is empty", where=self._input.name)
        if self._how.format:
            return self._how.format, chain(looked, values)
        if looked[0].value == [] or is_message(looked[0].value):
            return "openai", chain(looked, values)  # found out once all messages are there
        while not (found := _format_of(looked[-1].value)) and len(looked) < LOOKED:
            more = list(islice(values, 1))
            if not more:
                raise BadFormat(_UNKNOWN, where=looked[0].where)
            looked += more
        if not found:
            raise BadFormat(_UNKNOWN, where=looked[0].where)
        return found, chain(looked, values)

    # -- histories of other programs -----------------------------------------------------------------------

    def _foreign(self, format: Format, values: Iterator[JsonLine]) -> Iterator[Portion]:
        first = next(values)
        if is_message(first.value) and format not in _EXPORTS:
            yield from self._messages(chain([first], values), first.where)
            return
        for body in _bodies(chain([first], values)):
            made = self._exported(format, body) if format in _EXPORTS else self._of_messages(format, body)
            yield structs.replace(made, source=self._source(format, body.value))

    def _messages(self, values: Iterator[JsonLine], where: str) -> Iterator[Portion]:
        """One conversation, whose messages are the values."""
        where = "line 1" if ", [" in where else f"{where} on"
        values, long = is_long(values)
        if not long:
            messages = [one.value for one in values]
            format = self._how.format or detect(messages) or "openai"
            made = self._of_messages(format, JsonLine(where, messages))
            yield structs.replace(made, source=self._source(format, messages))
            return
        with closing(self._values(lambda _: None)) as again:
            whole = LongList.of(again, self._how.format)
        empty = self._portion(None, [], [], name="")
        source = self._keyed(whole.digest)
        seq = 0
        for events, times, last in whole.events(values, where, _events):
            if not seq and times and times[0] is not None:
                empty = self._portion(times[0], [], [], name="", id=empty.conversation.id)
            drafts = [Draft(event=event, time=time) for event, time in zip(events, times, strict=True)]
            pieces = [(empty.pieces[0][0], seq + 1, drafts)]
            yield structs.replace(empty, pieces=pieces, last=last, source=source)
            seq += len(drafts)

    def _exported(self, format: Format, body: JsonLine) -> Portion:
        with _shallow(body.where):
            exported = _EXPORTS[format](body.value, where=body.where)
        made = whole_of(exported, self._how.owner, agent=self._how.agent, name=_title({"name": exported.name}))
        pieces = [(branch, branch.at + 1, drafts) for branch, drafts in made.branches]
        return Portion(conversation=made.conversation, pieces=pieces, blobs=made.blobs)

    def _of_messages(self, format: Format, body: JsonLine) -> Portion:
        with _shallow(body.where):
            events = _events(format, body)
        times = times_of(events, now=now())
        name = _title(body.value if isinstance(body.value, dict) else {})
        return self._portion(times[0] if times else None, events, times, name=name)

    def _portion(
        self, began: int | None, events: list[Event], times: list[int | None], *, name: str, id: str = ""
    ) -> Portion:
        """A conversation of one branch. Message lists seldom say when they began: the last of a file is the newest."""
        time = now() if began is None else began
        self._after = id or make_id(time, secrets.randbits(80), after=self._after)
        owner, start = self._how.owner, moment(time)
        conversation = Conversation(
            tenant=owner.tenant, id=self._after, user=owner.user, agent=self._how.agent, name=name, began=start
        )
        main = Branch(number=MAIN, name="main", parent=None, at=0, time=start)
        drafts = [Draft(event=event, time=time) for event, time in zip(events, times, strict=True)]
        return Portion(conversation=conversation, pieces=[(main, 1, drafts)])

    def _source(self, format: Format, value: Any) -> str:
        written = json.dumps([format, value], sort_keys=True, separators=(",", ":")).encode()
        return self._keyed(hashlib.sha256(written).digest())

    def _keyed(self, digest: bytes) -> str:
        """The hash by which a history is known; of one that is there twice, another each time."""
        before = self._seen.get(digest, 0)
        if before or len(self._seen) < SEEN:
            self._seen[digest] = before + 1
        told = b"\0".join((digest, self._how.agent.encode(), str(before).encode()))
        return hmac.digest(self._how.key, told, "sha256").hex()


def _format_of(value: object) -> Format | None:
    """The format of a conversation, or of a list of them."""
    items = value if isinstance(value, list) else []
    return next(filter(None, map(detect, (value, *items))), None)


def _bodies(values: Iterable[JsonLine]) -> Iterator[JsonLine]:
    """The conversations in a file: one a value, or a list of them."""
    for where, value in values:
        if isinstance(value, list) and value and not is_message(value[0]):
            yield from (JsonLine(f"{where}, [{index}]", item) for index, item in enumerate(value))
        else:
            yield JsonLine(where, value)


def _events(format: Format, body: JsonLine) -> list[Event]:
    where = f"{body.where}, messages"
    match format:
        case "anthropic":
            return from_anthropic(body.value, where=where)
        case "responses":
            return from_responses(body.value, where=f"{body.where}, input")
        case "gemini":
            return from_gemini(body.value, where=f"{body.where}, contents")
    messages = body.value.get("messages") if isinstance(body.value, dict) else body.value
    if not isinstance(messages, list):
        raise BadFormat("there is no list of messages", where=body.where)
    return from_openai(messages, where=where)


@contextmanager
def _shallow(where: str) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise BadFormat("nested too deeply", where=where) from None


def _title(about: dict[str, Any]) -> str:
    given = about.get("name") or about.get("title") or about.get("id") or ""
    return "".join(c for c in str(given) if c.isprintable())[:200]
