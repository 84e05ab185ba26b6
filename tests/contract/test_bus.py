"""The bus between processes: one contract, over PostgreSQL and over Redis."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from everthread.errors import BadValue
from everthread.store.bus import gather
from everthread.store.bus.base import LARGEST, Bus, NoBus
from everthread.store.bus.gather import PAYLOAD, GatheringBus
from everthread.store.bus.postgres import PostgresBus
from tests.contract.buses import PATIENCE, Backend, Ear, Wire, published, repeatedly, started, until, warnings
from tests.contract.support import module, run

_channels = count(1)

MakeBus = Callable[[], GatheringBus]


@pytest.fixture(scope="module", params=["postgres", "redis"])
def _server(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Not the one that all tests share: it is stopped and started."""
    with started(request.param) as found:
        yield found


@pytest.fixture
def backend(_server: Backend) -> Backend:
    _server.start()
    return _server


@pytest.fixture
def channel() -> str:
    return f"test{next(_channels)}"


@pytest.fixture
async def make(backend: Backend, channel: str) -> AsyncIterator[MakeBus]:
    """Buses that hear each other and nobody else."""
    made: list[GatheringBus] = []

    def another() -> GatheringBus:
        made.append(backend.bus(channel))
        return made[-1]

    yield another
    for bus in made:
        await bus.close()


@pytest.fixture
async def pair(make: MakeBus) -> tuple[GatheringBus, Ear]:
    """One that sends, and an ear on another that listens already."""
    listener = make()
    ear = Ear(listener)
    await listener.watch()
    return make(), ear


# -- what arrives ------------------------------------------------------------------------------------------


async def test_messages_and_bells_arrive_in_the_order_in_which_they_were_sent(pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    sent = [(f"topic {number % 7}", f"message {number}") for number in range(500)]
    for number, (topic, message) in enumerate(sent):
        bus.send(topic, message)
        if number % 50 == 49:
            bus.send(f"bell {number}")
            await asyncio.sleep(0.02)
    heard = await ear.has(510)
    assert [pair for pair in heard if pair[1]] == sent
    assert [topic for topic, message in heard if not message] == [f"bell {number}" for number in range(49, 500, 50)]
    assert [heard.index((f"bell {number}", "")) for number in (49, 99)] == [50, 101]


async def test_what_is_sent_together_goes_out_at_once(
    pair: tuple[GatheringBus, Ear], monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, ear = pair
    sendings = published(bus, monkeypatch)
    for number in range(300):
        bus.send(f"stream {number}", "forty characters of a reply, more or less")
    await ear.has(300)
    (payloads,) = sendings
    assert len(payloads) < 5


async def test_a_bell_is_told_once_an_interval_and_after_all_that_was_sent_before_it(pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    for number in range(100):
        bus.send("bell")
        bus.send("stream", str(number))
        bus.send("bell")
    bus.send("other", "end")
    assert await ear.has(102) == [*(("stream", str(number)) for number in range(100)), ("bell", ""), ("other", "end")]


async def test_the_same_message_twice_is_told_twice(pair: tuple[Bus, Ear]) -> None:
    """Also where each fills a payload, of which PostgreSQL would take two that are alike for one."""
    bus, ear = pair
    long = "x" * 5_000
    for message in ("a", "a", long, long, "a"):
        bus.send("topic", message)
    assert [message for _, message in await ear.has(5)] == ["a", "a", long, long, "a"]


@pytest.mark.parametrize(
    "text",
    ["plain", "\x00", "a\x00b", "\ud800", "x\udfffy", "🙂 👩‍👩‍👧", "äöü", '"\\/\b\n\r\t', "\u2028\x7f", "[]", " "],
)
async def test_any_text_arrives_as_it_was(pair: tuple[Bus, Ear], text: str) -> None:
    bus, ear = pair
    bus.send(text, text)
    bus.send(text)
    assert await ear.has(2) == [(text, text), (text, "")]


@pytest.mark.parametrize("character", ["a", '"', "é", "🙂", "\x00"])
async def test_the_longest_message_arrives_and_one_longer_is_refused(pair: tuple[Bus, Ear], character: str) -> None:
    bus, ear = pair
    room = LARGEST - len(json.dumps("topic")) - len(json.dumps(""))
    longest = character * (room // (len(json.dumps(character)) - 2))
    bus.send("topic", longest)
    with pytest.raises(BadValue, match="6,000"):
        bus.send("topic", longest + character)
    with pytest.raises(BadValue):
        bus.send("t" * LARGEST)
    bus.send("topic", "next")
    assert await ear.has(2) == [("topic", longest), ("topic", "next")]


async def test_payloads_keep_below_the_limit_whatever_their_messages_are(
    pair: tuple[GatheringBus, Ear], monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, ear = pair
    sendings = published(bus, monkeypatch)
    sent = [("topic", "m" * (1 + size * 37 % 5_900)) for size in range(400)]
    for topic, message in sent:
        bus.send(topic, message)
    assert await ear.has(400) == sent
    payloads = [payload for sending in sendings for payload in sending]
    assert max(map(len, payloads)) <= PAYLOAD
    assert all(payload.isascii() for payload in payloads)


async def test_a_bus_does_not_hear_itself(make: MakeBus) -> None:
    one, two = make(), make()
    ears = [Ear(one), Ear(two)]
    for bus in (one, two):
        await bus.watch()
    one.send("from one", "a")
    two.send("from two", "b")
    assert await ears[0].has(1) == [("from two", "b")]
    assert await ears[1].has(1) == [("from one", "a")]
    one.send("again")
    await ears[1].has(2)
    assert ears[0].heard == [("from two", "b")]


async def test_all_who_hear_are_told_even_if_one_of_them_fails(make: MakeBus, caplog: pytest.LogCaptureFixture) -> None:
    listener, bus = make(), make()

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the hearer's own")

    first = Ear(listener)
    listener.hear(fail, fail)
    second = Ear(listener)
    await listener.watch()
    bus.send("topic", "a")
    bus.send("topic", "b")
    assert await first.has(2) == await second.has(2) == [("topic", "a"), ("topic", "b")]
    assert first.losses == second.losses == 1
    assert [record.exc_info is not None for record in caplog.records if record.levelno == logging.ERROR] == [True] * 3


async def test_two_processes_talk(backend: Backend, make: MakeBus, channel: str) -> None:
    bus = make()
    ear = Ear(bus)
    await bus.watch()
    other = asyncio.create_task(run(*module("echo.py", backend.kind, backend.url, channel)))
    assert await ear.has(1) == [("READY", "")]
    for number in range(20):
        bus.send("a", f"x{number}🙂\x00")
    assert (await ear.has(21))[1:] == [("A", f"X{number}🙂\x00") for number in range(20)]
    bus.send("end")
    assert await other == (0, [], "")


# -- beginning and ending ----------------------------------------------------------------------------------


async def test_watching_tells_that_something_may_have_been_missed_and_twice_is_once(make: MakeBus) -> None:
    listener, bus = make(), make()
    ear = Ear(listener)
    assert ear.losses == 0
    await asyncio.gather(listener.watch(), listener.watch())
    await listener.watch()
    bus.send("topic", "once")
    bus.send("end")
    assert await ear.has(2) == [("topic", "once"), ("end", "")]
    assert ear.losses == 1


async def test_closing_sends_the_rest(pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    for number in range(1_000):
        bus.send("topic", f"{number}")
    await bus.close()
    assert await ear.has(1_000) == [("topic", str(number)) for number in range(1_000)]


async def test_closing_ends_though_the_driver_swallows_a_cancellation(make: MakeBus) -> None:
    """As `asyncio.wait_for` may before Python 3.12; or an error takes its place."""
    bus = make()
    attend = bus._attend

    async def swallowing(listening: Callable[[], None]) -> None:
        with suppress(asyncio.CancelledError):
            await attend(listening)
        await attend(listening)

    bus._attend = swallowing  # type: ignore[method-assign]
    await bus.watch()
    async with asyncio.timeout(PATIENCE):
        await bus.close()


async def test_a_closed_bus_neither_sends_nor_hears_nor_complains(make: MakeBus) -> None:
    one, two = make(), make()
    await make().close()  # never used
    ear, deaf = Ear(one), Ear(two)
    await one.watch()
    await two.watch()
    await two.close()
    await two.close()
    two.send("from the closed one")
    await two.watch()
    three = make()
    three.send("end")
    assert await ear.has(1) == [("end", "")]
    assert deaf.heard == []


async def test_without_a_bus_nobody_hears() -> None:
    bus = NoBus()
    ear = Ear(bus)
    await bus.watch()
    bus.send("topic", "message")
    await bus.close()
    assert (ear.heard, ear.losses) == ([], 0)


# -- what goes wrong ---------------------------------------------------------------------------------------


async def test_connections_that_are_cut_are_made_anew(backend: Backend, pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    for number in range(3):
        await repeatedly(bus, ear, f"before {number}")
        before = ear.losses
        assert await backend.cut() >= 2
        await until(lambda before=before: ear.losses > before)  # type: ignore[misc]
        await repeatedly(bus, ear, f"after {number}")


async def test_what_is_sent_after_the_sender_was_cut_arrives_whole(backend: Backend, pair: tuple[Bus, Ear]) -> None:
    """The connection died while nothing was sent: the first sending finds out, and the second brings it all."""
    bus, ear = pair
    await repeatedly(bus, ear, "before")
    await backend.cut()
    await until(lambda: ear.losses > 1)
    ear.heard.clear()
    for number in range(10):
        bus.send("topic", str(number))
    assert await ear.has(10) == [("topic", str(number)) for number in range(10)]


async def test_nothing_comes_twice_while_connections_are_cut(backend: Backend, pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    sent = 0
    for _ in range(20):
        for _ in range(10):
            bus.send("topic", f"{sent:05}")
            sent += 1
            await asyncio.sleep(0.003)
        await backend.cut()
    await repeatedly(bus, ear, "end")
    messages = [message for _, message in ear.heard if message]
    assert messages == sorted(set(messages))


async def test_a_server_that_restarts_is_found_again(backend: Backend, pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    await repeatedly(bus, ear, "before")
    await asyncio.to_thread(backend.stop)
    for number in range(20):
        bus.send("meanwhile", str(number))
        bus.send("bell")
        await asyncio.sleep(0.01)
    await asyncio.to_thread(backend.start)
    await until(lambda: ear.losses > 1)
    await repeatedly(bus, ear, "after")


async def test_a_server_that_is_away_at_first_is_told_once_and_found_later(
    backend: Backend, make: MakeBus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresBus, "WARN_AFTER", 0.0)
    await asyncio.to_thread(backend.stop)
    listener, bus = make(), make()
    ear = Ear(listener)
    await asyncio.wait_for(listener.watch(), 60)
    assert ear.losses == 0
    bus.send("into the void")
    await until(lambda: len(warnings(caplog)) == 2)
    await asyncio.sleep(1)
    await asyncio.to_thread(backend.start)
    await until(lambda: ear.losses > 0)
    await repeatedly(bus, ear, "after")
    assert [message.split()[0] for message in sorted(warnings(caplog))] == ["Listening", "Sending"]


async def test_closing_while_the_server_is_away_ends(backend: Backend, pair: tuple[Bus, Ear]) -> None:
    bus, ear = pair
    await repeatedly(bus, ear, "before")
    await asyncio.to_thread(backend.stop)
    bus.send("lost")
    await asyncio.wait_for(bus.close(), 60)


async def test_who_drops_messages_tells_the_others_once_it_can(
    pair: tuple[GatheringBus, Ear], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener's own connection was never lost, so only the sender can know."""
    bus, ear = pair
    publish, failures = bus._publish, iter([True, True])

    async def failing(payloads: list[str]) -> None:
        if next(failures, False):
            raise TypeError("whatever a driver may raise")
        await publish(payloads)

    monkeypatch.setattr(bus, "_publish", failing)
    assert ear.losses == 1
    bus.send("topic", "dropped")
    await until(lambda: ear.losses == 2)
    assert ear.heard == []
    bus.send("topic", "after")
    assert await ear.has(1) == [("topic", "after")]


async def test_what_waits_for_too_long_is_dropped_rather_than_kept_for_ever(
    pair: tuple[GatheringBus, Ear], monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, ear = pair
    monkeypatch.setattr(gather, "WAITING", 10_000)
    for number in range(5_000):
        bus.send("topic", str(number))
    await until(lambda: ear.losses == 2)
    await until(lambda: ("topic", "4999") in ear.heard)
    assert len(ear.heard) < 1_000


async def test_what_is_remembered_of_other_processes_does_not_grow_for_ever(
    make: MakeBus, pair: tuple[Bus, Ear], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "SENDERS", 1)
    _, ear = pair
    for number, bus in enumerate([make(), make(), make()]):
        bus.send("topic", str(number))
        await ear.has(number + 1)
    assert ear.heard == [("topic", "0"), ("topic", "1"), ("topic", "2")]


@pytest.mark.parametrize(
    "payload",
    [
        *("", "{", "null", "7", "[]", "{}", '"text"', '["s"]', '["s",[]]', '["s",[["a"]],1]', '["s",[["a",1]],1]'),
        *('["s",["ab"],1]', '["s",{},1]', '[1,[["a","b"]],1]', '["s",[["a","b"]],"1"]', "[" * 3_000, "an-id"),
    ],
)
async def test_what_a_stranger_sends_is_left_aside(
    backend: Backend, pair: tuple[Bus, Ear], channel: str, payload: str
) -> None:
    bus, ear = pair
    await backend.publish(channel, payload)
    bus.send("topic", "after")
    assert await ear.has(1) == [("topic", "after")]
    assert ear.losses == 1


async def test_a_connection_that_falls_silent_is_noticed_and_replaced(
    backend: Backend, channel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The network goes without a word: nothing is refused, and nothing comes."""
    monkeypatch.setattr(f"everthread.store.bus.{backend.kind}.PING", 0.05)
    monkeypatch.setattr(f"everthread.store.bus.{backend.kind}.PATIENCE", 1.0)
    async with Wire(backend, tmp_path) as wire:
        listener, bus = backend.bus(channel, wire.url), backend.bus(channel, wire.url)
        ear = Ear(listener)
        await listener.watch()
        await repeatedly(bus, ear, "before")
        wire.silence()
        await until(lambda: ear.losses > 1)
        await repeatedly(bus, ear, "after")
        await listener.close()
        await bus.close()
