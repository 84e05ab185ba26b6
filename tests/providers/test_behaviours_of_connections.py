"""The same suite, where connections fail: replies that break off, silence, leaving early, and keys in errors and logs.

The behaviours in words are `BEHAVIOURS` in `tests/providers/behaviours.py`; the sections here follow them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import traceback

import pytest

from benchmarks.loopback.http import Answer, Fault
from benchmarks.loopback.model import Called, Replies, Script
from everthread.core.events import ToolCall
from everthread.core.parts import Part
from everthread.errors import BrokenOff, ModelError, Unreachable
from everthread.providers.client import Access, Replied
from tests.providers.behaviours import (
    TOOLS,
    Wired,
    chunks,
    connected,
    every,
    failing,
    heard,
    only,
    wired,
    with_data,
)
from tests.waiting import PATIENCE

# -- replies that break off --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"{half}",
        b"nothing of the kind",
        b"[1, 2]",
        b'{"type": 7, "choices": "none", "candidates": 3}',
        b'{"type": "content_block_delta", "choices": [7], "candidates": [7]}',
        b"\xff\xfe",
    ],
    ids=["half an event", "no JSON", "no object", "wrong types", "missing fields", "no UTF-8"],
)
@every
async def test_a_malformed_event_is_an_error_and_never_a_shorter_reply(name: str, data: bytes) -> None:
    async with wired(name, ["One two three four five six seven eight."], ["Again."]) as wire:
        error = await wire.fails(fault=with_data(data))
        assert isinstance(error, BrokenOff)
        assert error.again
        assert (await wire.ask()).text == "Again."


@every
async def test_a_stream_that_ends_early_in_good_order_is_an_error_or_whole(name: str) -> None:
    """Between any two events: what comes is all of the reply, or an error."""
    reply: Replies = ["One two three.", Called("find", '{"a": 12345}')]
    async with wired(name, script=Script(otherwise=lambda _: reply)) as wire:
        sent, whole = await _sent(wire)
        errors = 0
        for number in range(len(sent)):
            wire.server.faults.append(only(number))
            try:
                found = await wire.ask(tools=TOOLS)
            except BrokenOff:
                errors += 1
            else:
                assert _told(found.replied) == whole
    assert errors >= len(sent) - 3  # what comes after the reply itself may be missed: its usage, a farewell


@pytest.mark.parametrize("apart", [4, pytest.param(1, marks=pytest.mark.prove)])
@every
async def test_a_connection_that_is_lost_at_any_byte_is_an_error_or_the_whole_reply(name: str, apart: int) -> None:
    """With every change at each fourth byte, and at those beside the end of a line; at every single one to prove it."""
    reply: Replies = [Called("find", '{"a": 1}')]
    async with wired(name, script=Script(otherwise=lambda _: reply)) as wire:
        sent, whole = await _sent(wire)
        cuts = _cuts(b"".join(sent), apart)
        body = wire.body(tools=TOOLS)
        errors: list[ModelError] = []
        for cut in cuts:
            wire.server.faults.append(Fault(cut=cut))
            try:
                found = await heard(wire.client, body)
            except ModelError as error:
                errors.append(error)
            else:
                assert _told(found.replied) == whole
        assert _told((await wire.ask(tools=TOOLS)).replied) == whole
    assert len(errors) > len(cuts) / 2
    assert {type(error) for error in errors} <= {BrokenOff, Unreachable}


def _cuts(sent: bytes, apart: int) -> list[int]:
    ends = [place for place, byte in enumerate(sent) if byte == ord("\n")]
    beside = {end + by for end in ends for by in (-1, 0, 1, 2)}
    return sorted({*range(0, len(sent), apart), *(beside & set(range(len(sent))))})


async def _sent(wire: Wired) -> tuple[list[bytes], object]:
    """The chunks of an undisturbed reply, and what it says."""
    seen: list[Answer] = []

    def see(answer: Answer) -> Answer:
        seen.append(answer)
        return answer

    wire.server.faults.append(Fault(change=see))
    found = await wire.ask(tools=TOOLS)
    return chunks(seen[0]), _told(found.replied)


def _told(replied: Replied) -> list[str | tuple[Part, ...]]:
    """What a reply says, without the ids that each has of its own."""
    return [event.arguments if isinstance(event, ToolCall) else event.parts for event in replied.events]


# -- silence -----------------------------------------------------------------------------------------------


@every
async def test_a_provider_that_does_not_answer_in_time_is_unreachable(name: str) -> None:
    async with wired(name, seconds=0.2) as wire:
        error = await wire.fails(fault=Fault(wait=60))
    assert isinstance(error, Unreachable)
    assert error.again


@every
async def test_a_reply_that_falls_silent_breaks_off(name: str) -> None:
    async with wired(name, ["One two three."], seconds=0.2) as wire:
        error = await wire.fails(fault=Fault(change=lambda answer: answer._replace(pace=60)))
    assert isinstance(error, BrokenOff | Unreachable)


@every
async def test_a_slow_reply_is_waited_for_as_long_as_it_gives_signs_of_life(name: str) -> None:
    """The limit is on silence, not on the reply."""
    said = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen."
    async with wired(name, [said], seconds=3) as wire:
        wire.server.faults.append(Fault(change=lambda answer: answer._replace(pace=0.25)))
        assert (await wire.ask()).text == said


@every
async def test_where_nobody_listens_the_provider_is_unreachable(name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens on it
        async with wired(name) as wire, connected(name, f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            with pytest.raises(Unreachable):
                await heard(client, wire.body())


@every
async def test_a_connection_that_is_lost_before_the_reply_begins_is_unreachable(name: str) -> None:
    async with wired(name) as wire:
        error = await wire.fails(fault=Fault(hang_up=True))
    assert isinstance(error, Unreachable)


# -- leaving -----------------------------------------------------------------------------------------------


@every
async def test_leaving_early_closes_the_connection(name: str) -> None:
    async with wired(name, ["word " * 200]) as wire:
        wire.server.faults.append(Fault(change=lambda answer: answer._replace(pace=0.02)))
        async with wire.client.reply(wire.body()) as pieces:
            async for _ in pieces:
                break
        await _left(wire)
        assert (await wire.ask()).text == "Well, yes."


@every
async def test_an_exception_of_the_callers_passes_and_closes_the_connection(name: str) -> None:
    async with wired(name, ["word " * 200]) as wire:
        wire.server.faults.append(Fault(change=lambda answer: answer._replace(pace=0.02)))

        async def fail() -> None:
            async with wire.client.reply(wire.body()) as pieces:
                async for _ in pieces:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await _left(wire)


@pytest.mark.parametrize("fault", [Fault(wait=60), Fault(change=lambda answer: answer._replace(pace=60))])
@every
async def test_being_cancelled_closes_the_connection(name: str, fault: Fault) -> None:
    """Before the reply begins, and in the middle of it."""
    async with wired(name, ["word " * 200]) as wire:
        wire.server.faults.append(fault)
        task = asyncio.create_task(wire.ask())
        await wire.server.came.wait()
        await asyncio.sleep(0.05)  # so that the reply has begun, where it begins
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _left(wire)
        assert (await wire.ask()).text


async def _left(wire: Wired) -> None:
    """The server notices that the client has gone."""
    await asyncio.wait_for(wire.server.left.wait(), PATIENCE)
    assert wire.server.dropped == 1


# -- many calls --------------------------------------------------------------------------------------------


@every
async def test_calls_run_side_by_side_on_one_client(name: str) -> None:
    script = Script(otherwise=lambda body: [f"This is {re.findall(r'number [0-9]+', str(body))[-1]}."])
    async with wired(name, script=script) as wire:
        found = await asyncio.gather(*(wire.ask(f"I am number {number}") for number in range(20)))
    assert [each.text for each in found] == [f"This is number {number}." for number in range(20)]


@every
async def test_calls_one_after_another_share_a_connection(name: str) -> None:
    async with wired(name) as wire:
        for _ in range(5):
            await wire.ask()
        assert wire.server.connections == 1


# -- keys --------------------------------------------------------------------------------------------------

SECRET = "sk-secret-0123456789"


@pytest.mark.parametrize(
    "fault",
    [
        failing(401, f"the key {SECRET} is wrong"),
        failing(400, f"the key {SECRET} is odd"),
        failing(500, f"the key {SECRET} broke us"),
        Fault(answer=Answer(403, f"<p>{SECRET}</p>".encode(), {"content-type": "text/html"})),
        Fault(answer=Answer(200, [f"data: {SECRET}\n\n".encode()])),
        Fault(cut=0),
        Fault(wait=60),
    ],
    ids=["401", "400", "500", "a page", "in the stream", "disconnected", "silent"],
)
@every
async def test_a_key_is_in_no_error_and_in_no_log(
    name: str, fault: Fault, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with wired(name, key=SECRET, seconds=2) as wire:
        error = await wire.fails(fault=fault)
        assert SECRET in str(wire.server.asked[0].headers)
    told = (str(error), repr(error), *traceback.format_exception(error), repr(wire.client), str(vars(error)))
    assert not [text for text in told if SECRET in text]
    assert not [record for record in caplog.records if SECRET in record.getMessage() or SECRET in str(vars(record))]
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.parametrize("key", ["sk-sécret-sesame", "sk-secret-sesame\n", "sk secret sesame"])
@every
async def test_a_key_that_can_be_none_is_not_repeated_either(name: str, key: str) -> None:
    with pytest.raises(ModelError) as caught:
        async with wired(name, key=key) as wire:
            await wire.ask()
    assert "sesame" not in "".join(traceback.format_exception(caught.value))


def test_how_a_provider_is_reached_is_shown_without_the_key() -> None:
    access = Access(provider="anthropic", key=SECRET, address="http://localhost:1")
    assert SECRET not in f"{access!r} {access}"
    assert "anthropic" in repr(access)
