"""`everthread bench archive`: what moving a conversation out and back costs, beside the bare work.

The bare work is what any program would do with the same rows in Python: read all of them with plain statements, and
insert all of them with plain statements in one transaction. Size is compared with zstd, at the same level, over the
conversation's own export as JSON Lines. The catalogue is filled with rows as archiving writes them; its first page is
read as `et.archives` reads it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import zstandard

from benchmarks.bars import Result, report, say, store
from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.archive.pack import LEVEL
from everthread.core.events import Event
from everthread.store.beside.archives import Archive
from everthread.store.engine import Outcome, Script, Tell
from everthread.store.scripts import rows
from everthread.transfer.write import export_lines

T = TypeVar("T")
TIMES = 5
WORDS = ["garden", "river", "window", "engine", "letter", "winter", "number", "bridge", "coffee", "silver", "planet"]


def main() -> None:
    options = _options()
    results: list[Result] = []
    for engine in ("sqlite", "postgres") if options.engine == "both" else (options.engine,):
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as folder,
            store(engine, folder, private=bool(options.folder)) as address,
        ):
            results += asyncio.run(_measure(engine, address, Path(folder), options))
    report(results, other="bare", as_json=options.json)
    if any(result.missed for result in results):
        raise SystemExit(1)


async def _measure(engine: str, address: str, folder: Path, options: argparse.Namespace) -> list[Result]:
    place = str(folder / "archives")
    settings: Any = {"memory": False, "archive_place": place}
    async with Everthread.open(address, settings=settings, environment=False) as et:
        say(engine, f"filling {options.messages:,} messages")
        talk = await _filled(et, options.messages)
        found = await _ways(engine, et, talk)
        found.append(await _size(engine, et, talk))
        found.append(await _opening(engine, et, talk, options.messages))
        say(engine, f"filling a catalogue of {options.archives:,}")
        await _catalogue(et, options.archives)
        seconds, page = await _timed(lambda: et.archives(user="many"))
        assert len(page) == min(50, options.archives)
        what = f"first page of {options.archives:,} archives"
        return [*found, Result(engine, what, seconds * 1_000, "ms", bar=50)]


async def _ways(engine: str, et: Everthread, talk: Talk) -> list[Result]:
    """Out and back, each beside reading and inserting the same rows."""
    key = {"tenant": "default", "conversation": talk.id}
    read, kept = await _timed(lambda: et.log.archives.rows("default", talk.id))
    times: dict[str, list[float]] = {"out": [], "back": [], "insert": []}
    for _ in range(TIMES):
        times["insert"].append(await _inserted(et, key, kept))
        times["out"].append((await _timed(lambda: et.archive(user="ana", id=talk.id), times=1))[0])
        times["back"].append((await _timed(lambda: et.restore(user="ana", id=talk.id), times=1))[0])
    bare = read + min(times["insert"])
    return [
        Result(engine, f"{what}, of reading and inserting the same rows", min(spent) / bare, "×", bar=5)
        for what, spent in (("archive", times["out"]), ("restore", times["back"]))
    ]


async def _inserted(et: Everthread, key: dict[str, str], kept: rows.Rows) -> float:
    """Seconds to insert all rows, once they have been taken out."""

    def out() -> Script[Outcome[None]]:
        return Outcome(None, (yield from rows.take_out(key)))

    def back() -> Script[Outcome[None]]:
        yield from ()
        return Outcome(None, rows.put_back(key, kept))

    await et.log._engine.write(out, about="bench", large=True)
    return (await _timed(lambda: et.log._engine.write(back, about="bench", large=True), times=1))[0]


async def _size(engine: str, et: Everthread, talk: Talk) -> Result:
    lines = b"".join([line async for line in export_lines(et.log, talk.conversation)])
    beside = len(zstandard.ZstdCompressor(level=LEVEL).compress(lines))
    size = (await et.archive(user="ana", id=talk.id)).size
    await et.restore(user="ana", id=talk.id)
    what = "size, of zstd over the raw JSON Lines"
    return Result(engine, what, size / beside, "×", bar=1.1, note=f"{size:,} of {beside:,} bytes")


async def _opening(engine: str, et: Everthread, talk: Talk, messages: int) -> Result:
    spent = []
    for _ in range(TIMES):
        await et.archive(user="ana", id=talk.id)
        spent.append((await _timed(lambda: _opened(et, talk.id), times=1))[0])
    return Result(engine, f"opening {messages:,} messages from their archive", min(spent) * 1_000, "ms", bar=1_000)


async def _opened(et: Everthread, id: str) -> None:
    await (await et.conversation(user="ana", id=id)).tail()


async def _catalogue(et: Everthread, count: int) -> None:
    """Rows as they are once so many conversations have been archived."""
    talk = await et.begin(user="many")
    one = Archive("default", talk.id, "", "many", "archived", "", title="A title of some fifty characters, as they are")
    made = [one._replace(archive=f"{n:032}", made=n, newest=n, events=n, messages=n)._asdict() for n in range(count)]

    def script(part: list[dict[str, Any]]) -> Script[Outcome[None]]:
        yield from ()
        return Outcome(None, [Tell("insert_archive", part)])

    for start in range(0, count, 5_000):
        part = made[start : start + 5_000]
        await et.log._engine.write(lambda part=part: script(part), about="bench", large=True)  # type: ignore[misc]


async def _timed(work: Callable[[], Awaitable[T]], *, times: int = TIMES) -> tuple[float, T]:
    """The least seconds of several runs, and what the last gave."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        result = await work()
        spent.append(time.perf_counter() - began)
    return min(spent), result  # type: ignore[possibly-undefined]


async def _filled(et: Everthread, messages: int) -> Talk:
    talk, chance = await et.begin(user="ana", name="A long one"), random.Random(7)
    for start in range(0, messages, 1_000):
        events: list[Event] = []
        while len(events) < min(1_000, messages - start):
            said = " ".join(chance.choice(WORDS) + str(chance.randint(0, 999)) for _ in range(chance.randint(5, 60)))
            events += [user(said), tool_call("look", {"at": said[:9]}), tool_result(said, name="look"), assistant(said)]
        await talk.append(*events[: messages - start])
    return talk


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench archive", description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--archives", type=int, default=100_000)
    parser.add_argument("--folder", help="where the stores lie; else in the machine's folder for temporary files")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
