"""A folder that mirrors a store: for each conversation a file of JSON Lines that grows with its log.

    FOLDER/.everthread-mirror            the mark by which the store knows the folder
    FOLDER/TENANT/USER/ID.jsonl          a conversation, in the lines of an export
    FOLDER/TENANT/USER/.ID.state         how far it has been written: a note to save reading it, and never believed if
                                         the file has another length
    FOLDER/TENANT/USER/documents.jsonl   MEMORY.md and other documents, with all versions

A tenant or user is a folder whose name tells who, as far as every file system can, and ends in a hash. One process
writes at a time: it holds the lock of the folder, which ends with it. Files only grow, by whole lines; what a crash has
torn is cut off. What was redacted is not in them: such a file is written anew and takes its place at once. What was
erased is deleted. A file of a conversation that the store never had stays: it may be all that is left of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from everthread.core.ids import is_id
from everthread.errors import BadFormat, Outdated, UnknownBranch, UnknownConversation
from everthread.store.conversations import Conversation, Owner
from everthread.store.log import Log
from everthread.store.private_files import FILE, make_folders, private_file
from everthread.transfer.streams import lines
from everthread.transfer.write import Written, WrittenUpTo, document_lines

MARK, LOCK, DOCUMENTS = ".everthread-mirror", ".lock", "documents.jsonl"
PIECE = 1024 * 1024  # bytes that are written at once
STATES = 1_000  # of files that were written last, kept in memory
TRIES = 5  # how often a file is written anew when something was redacted meanwhile


class MirrorBusy(Exception):
    """Another process keeps this mirror."""


class State(msgspec.Struct, kw_only=True):
    """How far a file has been written, when it was so many bytes long."""

    size: int
    at: WrittenUpTo


class Kept(NamedTuple):
    """What was done to a file: lines that were added, whether it was written anew."""

    lines: int
    anew: bool = False


class MirrorFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = ""
        self._lock: BinaryIO | None = None
        self._states: dict[Path, State] = {}

    def open(self) -> None:
        """Take the folder for this process alone; MirrorBusy where another has it."""
        make_folders(self.folder)
        file = open(  # noqa: SIM115 -- held until `close`
            self.folder / LOCK, "ab", opener=lambda name, flags: os.open(name, flags, FILE)
        )
        try:
            _take(file)
        except OSError:
            file.close()
            raise MirrorBusy(str(self.folder)) from None
        self._lock, self.mark = file, _mark(self.folder)

    def close(self) -> None:
        if self._lock:
            self._lock.close()
        self._lock = None
        self._states.clear()

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    # -- conversations -----------------------------------------------------------------------------------------

    def path_of(self, conversation: Conversation) -> Path:
        return self._folder_of(conversation.owner) / f"{conversation.id}.jsonl"

    def _folder_of(self, owner: Owner) -> Path:
        return self.folder / safe_name(owner.tenant) / safe_name(owner.user)

    async def follow(self, log: Log, conversation: Conversation, *, anew: bool = False) -> Kept:
        """Bring the file of a conversation up to date. `anew`: whatever is in it. A conversation that is gone takes its
        file with it."""
        path = self.path_of(conversation)
        if anew:
            for aside in path.parent.glob(f"{path.stem}.aside-*"):  # which may hold what was forgotten
                aside.unlink()
        try:
            if not anew and (state := await self._state(log, conversation, path)):
                return await self._grow(log, conversation, path, state)
            return await self._rewrite(log, conversation, path)
        except UnknownConversation:
            if await log.mirrors.erased(conversation.tenant, conversation.id):
                self.remove(conversation.tenant, conversation.id)
            return Kept(0)

    async def _state(self, log: Log, conversation: Conversation, path: Path) -> State | None:
        """How far the file has come; None where it has to be written anew."""
        if (state := self._states.get(path)) is None:
            if (state := await asyncio.to_thread(read_state, path)) is None:
                return None
            state = await _held_against(log, conversation, path, state)
        if state and path.exists() and path.stat().st_size == state.size:  # noqa: ASYNC240
            return state
        return None

    def events_of(self, conversation: Conversation) -> int | None:
        """How many events the file of a conversation has; None where there is no file."""
        path = self.path_of(conversation)
        state = self._states.get(path) or read_state(path)
        return state.at.events if state else None

    async def _grow(self, log: Log, conversation: Conversation, path: Path, state: State) -> Kept:
        written = Written(log, conversation, tenant=True, at=state.at)
        self._states.pop(path, None)  # until it is known how far we came
        try:
            with open(path, "ab") as file:  # noqa: ASYNC230 -- lines of a moment
                count = await _write(file, written.news())
                size = file.tell()
        except Outdated:
            return await self._rewrite(log, conversation, path)
        if count:
            self._note(path, State(size=size, at=written.at))
        else:
            self._keep(path, state)
        return Kept(count)

    async def _rewrite(self, log: Log, conversation: Conversation, path: Path) -> Kept:
        for _ in range(TRIES):
            try:
                return await self._write_anew(log, conversation, path)
            except Outdated:
                continue
        return await self._write_anew(log, conversation, path)

    async def _write_anew(self, log: Log, conversation: Conversation, path: Path) -> Kept:
        make_folders(path.parent)
        part = path.with_name(f".{path.name}.part")
        written = Written(log, conversation, tenant=True)
        try:
            with private_file(part) as file:
                count = await _write(file, written.news())
                os.fsync(file.fileno())
                size = file.tell()
            self._states.pop(path, None)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        self._note(path, State(size=size, at=written.at))
        return Kept(count, anew=True)

    def _keep(self, path: Path, state: State) -> None:
        self._states[path] = state
        if len(self._states) > STATES:
            del self._states[next(iter(self._states))]

    def _note(self, path: Path, state: State) -> None:
        self._keep(path, state)
        note = _note_of(path)
        part = note.with_name(f"{note.name}.part")
        with private_file(part) as file:
            file.write(msgspec.json.encode(state))
        part.replace(note)

    def remove(self, tenant: str, id: str) -> int:
        """Delete whatever there is of a conversation. How many files."""
        found = [one for one in self._of(tenant) if is_id(id) and id in one.name]
        for one in found:
            self._states.pop(one, None)
            one.unlink(missing_ok=True)
        for user in {one.parent for one in found}:
            _remove_empty(user)
        return len(found)

    def _of(self, tenant: str) -> list[Path]:
        return list((self.folder / safe_name(tenant)).glob("*/*"))

    def ids(self) -> Iterator[tuple[Path, str]]:
        """The conversations that have a file."""
        for path in self.folder.glob("*/*/*.jsonl"):
            if is_id(path.stem):
                yield path, path.stem

    # -- documents ---------------------------------------------------------------------------------------------

    async def follow_documents(self, log: Log, owner: Owner) -> bool:
        """Bring the file of a user's documents up to date. Whether that changed it."""
        path = self._folder_of(owner) / DOCUMENTS
        text = b"".join([line async for line in document_lines(log, owner, tenant=True)])
        if (path.read_bytes() if path.exists() else b"") == text:
            return False
        if not text:
            path.unlink()
            _remove_empty(path.parent)
            return True
        make_folders(path.parent)
        part = path.with_name(f".{path.name}.part")
        with private_file(part) as file:
            file.write(text)
            os.fsync(file.fileno())
        part.replace(path)
        return True

    def documented(self, tenant: str) -> list[Owner]:
        """Whose documents there are in a tenant's folder, whether or not the store still knows them."""
        return [owner for path in self._of(tenant) if path.name == DOCUMENTS and (owner := _owner_of(path))]


# -- files -------------------------------------------------------------------------------------------------------


async def _write(file: BinaryIO, news: AsyncIterator[bytes]) -> int:
    """Write lines, many at once. How many."""
    held, size, count = list[bytes](), 0, 0
    async for line in news:
        held.append(line)
        size += len(line)
        count += 1
        if size >= PIECE:
            file.write(b"".join(held))
            held, size = [], 0
    file.write(b"".join(held))
    file.flush()
    return count


def read_state(path: Path) -> State | None:
    """How far a file has been written: as its note says, or else as it says itself, without what is torn. None where it
    is not there, or is not what we have written."""
    if not path.exists():
        return None
    try:
        state = msgspec.json.decode(_note_of(path).read_bytes(), type=State)
        if state.size == path.stat().st_size:
            return state
    except (OSError, ValueError):
        pass
    try:
        return _read_through(path)
    except (BadFormat, KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_through(path: Path) -> State | None:
    at = WrittenUpTo(reached={1: 0})
    with open(path, "r+b") as file:
        whole = _cut(file)
        file.seek(0)
        for _, value in lines(file, str(path), lambda _: None):
            _note_line(at, value)
    return State(size=whole, at=at) if at.says else None


def _cut(file: BinaryIO) -> int:
    """Cut off a last line that was torn. How long the file is then."""
    end = place = file.seek(0, os.SEEK_END)
    while place:
        start = max(0, place - 65_536)
        file.seek(start)
        newline = file.read(place - start).rfind(b"\n")
        if newline >= 0:
            whole = start + newline + 1
            if whole < end:
                file.truncate(whole)
            return whole
        place = start
    file.truncate(0)
    return 0


_SAYS = ("name", "goal", "settings", "metadata", "current")


def _note_line(at: WrittenUpTo, value: dict[str, object]) -> None:
    """What a line says of how far the file has come."""
    if "event" in value or "body" in value:
        branch, seq = int(value["branch"]), int(value["seq"])  # type: ignore[call-overload]
        if at.reached[branch] + 1 != seq:
            raise ValueError("a gap")
        at.reached[branch], at.ids[branch] = seq, str(value["id"])
        at.events += 1
    elif isinstance(about := value.get("conversation"), dict):
        at.says = {name: about[name] for name in _SAYS}
    elif isinstance(branch_of := value.get("branch"), dict):
        at.reached[branch_of["number"]] = branch_of["at"]
    elif isinstance(blob := value.get("blob"), dict):
        at.blobs.add(blob["hash"])
    else:
        raise ValueError("not a line of ours")


async def _held_against(log: Log, conversation: Conversation, path: Path, state: State) -> State | None:
    """The state of a file whose events the log has. A file that has others is set aside: the database may be an older
    copy, and the file all that is left of what came after."""
    for number, id in state.at.ids.items():
        seq = state.at.reached[number]
        try:
            line = await log.line(conversation, number)
            found = await log.range(line, seq, seq)
        except UnknownBranch:
            found = []
        if [one.id for one in found] != [id]:
            path.replace(path.with_name(f"{path.stem}.aside-{secrets.token_hex(4)}"))  # noqa: ASYNC240
            _note_of(path).unlink(missing_ok=True)
            return None
    return state


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.stem}.state")


def _owner_of(path: Path) -> Owner | None:
    try:
        with open(path, "rb") as file:
            line = json.loads(file.readline())
        return Owner(line["tenant"], line["document"]["user"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_empty(folder: Path) -> None:
    for one in (folder, folder.parent):
        try:
            one.rmdir()
        except OSError:
            return


def safe_name(name: str) -> str:
    """A name as a folder: what of it every file system can have, and a hash of all of it."""
    shown = re.sub("[^a-z0-9_-]+", "_", name.lower())[:40].strip("_")
    return f"{shown or '_'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _mark(folder: Path) -> str:
    """The mark of a folder, made with it."""
    path = folder / MARK
    if not path.exists():
        part = path.with_name(f"{path.name}.part")
        with private_file(part) as file:
            file.write(json.dumps({"everthread": 1, "mirror": secrets.token_hex(16)}).encode() + b"\n")
        part.replace(path)
    try:
        return str(json.loads(path.read_bytes())["mirror"])
    except (ValueError, KeyError, TypeError):
        raise BadFormat("it is not the mark of a mirror", where=str(path)) from None


def is_mirror(folder: Path) -> bool:
    return (folder / MARK).is_file()


def _take(file: BinaryIO) -> None:
    """The lock of a file, which ends with the process that has it; OSError where another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
