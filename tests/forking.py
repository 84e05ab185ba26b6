"""What a process comes to that is forked from this one, as a program with workers would fork it."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def in_a_fork(work: Callable[[], str]) -> str:
    """What the work says in a forked process; else the name of the error that it raised, and what that says."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: threads run here
        child = os.fork()
    if not child:
        _be_the_child(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        told = said.read().decode()
    os.waitpid(child, 0)
    return told


def _be_the_child(work: Callable[[], str], writer: int) -> None:
    try:
        said = work()
    except Exception as problem:  # noqa: BLE001 -- the parent looks at it
        said = f"{type(problem).__name__}: {problem}"
    except BaseException:  # noqa: BLE001 -- nothing of the parent's may run here
        said = traceback.format_exc()
    os.write(writer, said.encode())
    os._exit(0)
