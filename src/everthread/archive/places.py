"""Where archives are: a folder, or an S3-compatible store.

A place puts a file under a name that nothing has yet, whole and durable or not at all; gives it back; deletes it,
which may be done twice; and lists the names there are. What goes wrong is PlaceUnavailable, and MissingArchive where a
file is not there.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from everthread.errors import MissingArchive, MissingExtra, PlaceUnavailable
from everthread.store.private_files import make_folders, private_file

ENDING = ".archive"
_NAME = re.compile(r"[0-9A-Z]{26}-[0-9a-f]{16}")
S3 = "s3://"
PATIENCE = 60  # seconds
RETRIES = 3

T = TypeVar("T")


class Place(Protocol):
    """`shown`: how it is named where people read it, without secrets."""

    shown: str

    async def put(self, archive: str, data: bytes) -> bool:
        """Whether the place keeps versions of what is deleted or replaced there."""

    async def get(self, archive: str) -> bytes: ...

    async def delete(self, archive: str) -> None: ...

    async def names(self) -> list[str]: ...


def place_of(written: str) -> Place:
    """The place that a setting names: s3://bucket/folder, or the path of a folder."""
    return S3Place(written) if written.startswith(S3) else Folder(Path(written).expanduser())


def absolute(written: str) -> str:
    """A place as the catalogue keeps it: wherever a process runs, it is the same folder."""
    return written if not written or written.startswith(S3) else str(Path(written).expanduser().absolute())


def is_archive_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class Folder:
    def __init__(self, path: Path) -> None:
        self._path, self.shown = path, f"the folder {path}"

    async def put(self, archive: str, data: bytes) -> bool:
        await self._aside(self._put, archive, data)
        return False

    async def get(self, archive: str) -> bytes:
        found: bytes = await self._aside(self._get, archive)
        return found

    async def delete(self, archive: str) -> None:
        await self._aside(self._delete, archive)

    async def names(self) -> list[str]:
        found: list[str] = await self._aside(self._names)
        return found

    async def _aside(self, work: Any, *given: Any) -> Any:
        try:
            return await asyncio.to_thread(work, *given)
        except OSError as problem:
            raise PlaceUnavailable(self.shown, problem.strerror or str(problem)) from problem

    def _file(self, archive: str) -> Path:
        return self._path / f"{archive}{ENDING}"

    def _unfinished(self, archive: str) -> Path:
        return self._path / f".{archive}{ENDING}"

    def _put(self, archive: str, data: bytes) -> None:
        make_folders(self._path)
        unfinished = self._unfinished(archive)
        with private_file(unfinished) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._file(archive))
        self._flush()

    def _get(self, archive: str) -> bytes:
        try:
            return self._file(archive).read_bytes()
        except FileNotFoundError:
            raise MissingArchive(archive, self.shown) from None

    def _delete(self, archive: str) -> None:
        for path in (self._unfinished(archive), self._file(archive)):
            path.unlink(missing_ok=True)
        if self._path.is_dir():
            self._flush()

    def _names(self) -> list[str]:
        found = [one.name.removeprefix(".").removesuffix(ENDING) for one in self._path.glob(f"*{ENDING}")]
        return sorted({name for name in found if is_archive_name(name)})

    def _flush(self) -> None:
        """What was renamed or deleted in the folder outlives the machine."""
        if os.name != "posix":
            return
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class S3Place:
    """A bucket of an S3-compatible store. Keys, region and address come from the environment, as AWS's programs read
    them: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP."""

    def __init__(self, written: str) -> None:
        parts = urlsplit(written)
        self.shown = f"{S3}{parts.hostname or ''}{parts.path}"
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError:
            raise MissingExtra("archive") from None
        self._obstore = obstore
        retries: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=PATIENCE)}
        client: Any = _allowing_http({"timeout": f"{PATIENCE}s", "connect_timeout": "10s"})
        try:
            self._store = S3Store(
                parts.hostname or "",
                prefix=unquote(parts.path.strip("/")) or None,
                retry_config=retries,
                client_options=client,
            )
        except Exception as problem:
            raise PlaceUnavailable(self.shown, _words(problem)) from problem

    async def put(self, archive: str, data: bytes) -> bool:
        """One that is there already under this name is left: it may be this one, of which an answer was lost. It is
        read back in any case."""
        with suppress(self._obstore.exceptions.AlreadyExistsError):
            work = self._obstore.put_async(self._store, self._file(archive), data, mode="create", use_multipart=False)
            return bool((await self._reached(work)).get("version"))
        found = await self._reached(self._obstore.head_async(self._store, self._file(archive)))
        return bool(found.get("version"))

    async def get(self, archive: str) -> bytes:
        try:
            found = await self._reached(self._obstore.get_async(self._store, self._file(archive)))
            return bytes(await self._reached(found.bytes_async()))
        except (FileNotFoundError, self._obstore.exceptions.NotFoundError):
            raise MissingArchive(archive, self.shown) from None

    async def delete(self, archive: str) -> None:
        with suppress(FileNotFoundError, self._obstore.exceptions.NotFoundError):
            await self._reached(self._obstore.delete_async(self._store, self._file(archive)))

    async def names(self) -> list[str]:
        found: list[str] = []
        try:
            async for page in self._obstore.list(self._store):
                found += [str(one["path"]).removesuffix(ENDING) for one in page if one["path"].endswith(ENDING)]
        except Exception as problem:
            raise PlaceUnavailable(self.shown, _words(problem)) from problem
        return sorted(name for name in found if is_archive_name(name))

    def _file(self, archive: str) -> str:
        return f"{archive}{ENDING}"

    async def _reached(self, work: Awaitable[T]) -> T:
        known = self._obstore.exceptions
        try:
            return await work
        except (FileNotFoundError, known.NotFoundError, known.AlreadyExistsError):
            raise
        except Exception as problem:
            raise PlaceUnavailable(self.shown, _words(problem)) from problem


def _allowing_http(client: dict[str, Any]) -> dict[str, Any]:
    """An address of a store that is given with http:// is meant so."""
    address = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return {**client, "allow_http": True} if address.startswith("http://") else client


def _words(problem: Exception) -> str:
    """What went wrong, on one line, without the request that a client shows."""
    return str(problem).strip().splitlines()[0][:200] if str(problem).strip() else type(problem).__name__
