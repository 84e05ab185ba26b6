"""Where an open store is at home: in the event loop that uses it first, and in the process of that loop.

Its connections, locks and tasks belong to that loop. Used from another one they would wait for something that never
happens there, and after a fork two processes would speak on one connection. Whoever asks an engine for something asks
`loop` first, which costs a comparison: a process that was forked has no loop, or another.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import cache
from pathlib import Path

from everthread.errors import AnotherLoop, Forked


class Home:
    def __init__(self, store: str) -> None:
        self._store, self._process = store, os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop. AnotherLoop or Forked: the store is at home elsewhere."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            if os.getpid() != self._process:  # forked in the middle of a coroutine
                raise Forked(self._store) from None
            raise
        if running is not self._loop:
            self._move_in(running)
        return running

    def _move_in(self, running: asyncio.AbstractEventLoop) -> None:
        if os.getpid() != self._process:
            raise Forked(self._store)
        if self._loop is not None:
            raise AnotherLoop(self._store)
        self._loop = running


# -- files that a fork would share ---------------------------------------------------------------------------

Inode = tuple[int, int]  # device and number: what SQLite knows a file by, whatever its path


class OpenFiles:
    """The SQLite files that this process has open, and those that it had from its parent when it was forked.

    SQLite keeps its locks by file for the whole process. A forked process inherits the belief to hold them, though it
    does not: if it opened the file anew, its parent could close the file under it and take the newest writes along.
    And whoever opens such a file as a plain one and closes it takes the locks of the whole process away. So that is
    done only while `opening` is held, and only to files that nobody here `has` open.
    """

    def __init__(self) -> None:
        self._open: list[Inode] = []
        self._inherited: set[Inode] = set()
        self.opening = threading.Lock()
        os.register_at_fork(after_in_child=self._inherit)

    def _inherit(self) -> None:
        self._inherited.update(self._open)
        self._open.clear()
        self.opening = threading.Lock()  # another thread may have held it

    def has(self, path: Path) -> bool:
        return path.exists() and _inode(path) in self._open

    def check(self, path: Path) -> None:
        """Forked: the file was open in the process that this one was forked from."""
        if self._inherited and path.exists() and _inode(path) in self._inherited:
            raise Forked(str(path), open_then=True)

    def add(self, path: Path) -> Inode:
        self._open.append(inode := _inode(path))
        return inode

    def remove(self, inode: Inode) -> None:
        if inode in self._open:
            self._open.remove(inode)


@cache
def open_files() -> OpenFiles:
    return OpenFiles()


def _inode(path: Path) -> Inode:
    found = path.stat()
    return found.st_dev, found.st_ino
