"""Who holds a lease, in a form that tells whether the holder still lives.

A holder is written host/boot/pid/start/nonce. A process that was killed cannot release what it held; another on the
same machine need not wait for the lease to run out if it can be sure that the process is gone. It is sure only where
host, boot and process namespace are its own, and the pid is nobody's or has been given to a later process. Of any
other holder nothing is known, and its leases are waited for.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
UNKNOWN = "-"
ENDED = ("Z", "X")  # killed, though its parent has not asked yet how it ended


class Process(NamedTuple):
    host: str
    boot: str
    pid: str
    start: str


def holder() -> str:
    """This process and a nonce: no two are the same."""
    return "/".join((*_this(), secrets.token_hex(8)))


def process_of(holder: str) -> str:
    """The process that a holder is of."""
    return holder.rpartition("/")[0]


def this_process() -> str:
    return "/".join(_this())


def is_dead(holder: str) -> bool:
    """Whether the holder's process is surely gone. Never true of another host's, nor of what is no holder."""
    parts = holder.split("/")
    if len(parts) != len(Process._fields) + 1 or not parts[2].isdecimal():
        return False
    theirs, ours = Process(*parts[:-1]), _this()
    if theirs[:2] != ours[:2]:
        return False
    return not _lives(int(theirs.pid), theirs.start)


def _this() -> Process:
    return _process(os.getpid(), PROC)


@cache
def _process(pid: int, _read_from: Path) -> Process:
    _, start = _stat(pid)
    return Process(socket.gethostname().replace("/", "-"), _boot(), str(pid), start)


def _boot() -> str:
    """This boot of this machine. Containers on it may share its name, but not its pids: their namespace is told too."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{(PROC / 'self/ns/pid').readlink().name}"
    except OSError:
        return f"{uuid.getnode():x}"  # the network card's; made up anew, and so nobody else's, where there is none


def _lives(pid: int, start: str) -> bool:
    if sys.platform == "win32":  # where asking by signal 0 would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # somebody else's, so it is there; or no pid at all
    state, found = _stat(pid)
    return state not in ENDED and (start == found or UNKNOWN in (start, found))


def _stat(pid: int) -> tuple[str, str]:
    """State and start time of a process, where they can be read."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return UNKNOWN, UNKNOWN
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything, brackets too
    return fields[0], fields[19]
