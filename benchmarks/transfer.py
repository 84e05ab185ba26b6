"""Importing many messages: how fast beside inserting the same rows bare, and whether memory stays the same.

The file has Everthread's own lines, in conversations of a thousand messages and one that is as long as all of them
together. Memory is the most that the process had by the time a fifth of the second reading was done, and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from everthread import Everthread
from everthread.core.ids import make_id
from everthread.store.conversations import Owner
from everthread.transfer.importing import import_path

START = 1_767_225_600_000_000
TEXT = "the ferry to the islands leaves at nine from the north pier and takes two hours in good weather"
WORDS = TEXT.split()


def main() -> None:
    parser = argparse.ArgumentParser(prog="everthread bench transfer", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        asyncio.run(measure(Path(folder), given.messages))


async def measure(folder: Path, messages: int) -> None:
    path = folder / "many.jsonl"
    write(path, messages)
    print(f"{messages:,} messages, {path.stat().st_size / 1e6:,.0f} MB")
    base, early = peak(), 0.0

    def tell(what: str, done: int, total: int) -> None:
        nonlocal early
        if what == "writing" and not early and done > total / 5:
            early = peak()

    async with Everthread.open(f"sqlite:///{folder}/store.db", settings={"memory": False}) as et:
        began = time.perf_counter()
        done = await import_path(et.log, path, Owner("default", "ana"), agent="a", tell=tell)
        took = time.perf_counter() - began
        late = peak()
        print(f"import   {took:8.1f} s  {done.events / took:10,.0f} messages/s")
        again = time.perf_counter()
        twice = await import_path(et.log, path, Owner("default", "ana"), agent="a")
        print(f"again    {time.perf_counter() - again:8.1f} s  {twice.events} added")
    bare = insert_bare(folder / "store.db", folder / "bare.db")
    print(f"bare     {bare:8.1f} s  {messages / bare:10,.0f} rows/s; import takes {took / bare:.1f} times as long")
    print(f"memory   {base:8.0f} MB before, {early:.0f} MB after a fifth, {late:.0f} MB at the end")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(path: Path, messages: int) -> None:
    with open(path, "wb") as file:
        sizes = [1_000] * (messages // 2 // 1_000)
        for number, size in enumerate([*sizes, messages - sum(sizes)]):
            file.writelines(lines(number, size))


def lines(number: int, size: int) -> Iterator[bytes]:
    began = START + number * 1_000_000_000
    about = {"id": make_id(began, number), "user": "ana", "agent": "a", "name": f"Talk {number}"}
    yield json.dumps({"everthread": 1, "conversation": about, "events": size}).encode() + b"\n"
    for seq in range(1, size + 1):
        kind = "user" if seq % 2 else "assistant"
        text = f"{seq} " + " ".join(WORDS[(seq * 7 + word) % len(WORDS)] for word in range(12 + seq % 17))
        event = {"kind": kind, "parts": [{"type": "text", "text": text}]}
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((began + seq * 1_000_000) // 1_000_000))
        place = {"seq": seq, "branch": 1, "id": make_id(began + seq * 1_000, seq), "time": stamp}
        yield json.dumps({**place, "event": event}).encode() + b"\n"


def insert_bare(source: Path, target: Path) -> float:
    """The seconds that it takes to insert the same rows, read before, a thousand in a transaction."""
    made, there = apsw.Connection(str(target)), apsw.Connection(str(source))
    made.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    for (sql,) in there.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'events' AND sql IS NOT NULL"):
        made.execute(sql)
    rows = there.execute("SELECT * FROM events")
    columns = len(there.execute("SELECT * FROM events LIMIT 1").get_description())
    insert, took = f"INSERT INTO events VALUES ({', '.join('?' * columns)})", 0.0
    while batch := [row for _, row in zip(range(1_000), rows, strict=False)]:
        began = time.perf_counter()
        with made:
            made.executemany(insert, batch)
        took += time.perf_counter() - began
    made.close()
    there.close()
    return took


if __name__ == "__main__":
    main()
