"""Messages and files that are very large: refused with both sizes, or kept whole."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, assistant, file, image, tool_result, user
from everthread.core.events import Event, encode
from everthread.errors import EventTooLarge
from everthread.store.log import MAX_EVENT_BYTES
from tests.failures.aftermath import clear, intact, sound

MB = 1024 * 1024


def _text(size: int) -> str:
    return ("walnuts and almonds " * (size // 20 + 1))[:size]


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(user(_text(50 * MB)), id="a message of 50 MB"),
        pytest.param(tool_result(_text(50 * MB), name="read"), id="a tool result of 50 MB"),
        pytest.param(assistant("é" * (10 * MB)), id="10 million characters of two bytes"),
        pytest.param(user(image(b"\x89PNG" + bytes(20 * MB))), id="an image of 20 MB"),
        pytest.param(user(file(bytes(20 * MB))), id="a file of 20 MB"),
    ],
)
async def test_what_is_too_large_is_refused_with_both_sizes(et: Everthread, talk: Talk, event: Event) -> None:
    await talk.append(user("before"))
    with pytest.raises(EventTooLarge) as refused:
        await talk.append(user("with it"), event)
    assert refused.value.limit == MAX_EVENT_BYTES
    assert refused.value.size > MAX_EVENT_BYTES
    assert clear(refused.value, f"{refused.value.size:,} bytes", f"{MAX_EVENT_BYTES:,} bytes", "`max_event_bytes`")
    assert await sound(et, talk) == ["before"]


async def test_what_is_just_within_the_limit_comes_back_and_one_byte_more_does_not(et: Everthread, talk: Talk) -> None:
    around = len(encode(user("")))
    largest = _text(MAX_EVENT_BYTES - around)
    await talk.append(user(largest))
    with pytest.raises(EventTooLarge):
        await talk.append(user(largest + "x"))
    await talk.append(user(file(bytes(MAX_EVENT_BYTES))))
    with pytest.raises(EventTooLarge):
        await talk.append(user(file(bytes(MAX_EVENT_BYTES + 1))))
    assert await sound(et, talk) == [largest, ""]


async def test_a_raised_limit_takes_fifty_megabytes(address: str, someone: str) -> None:
    big, data = _text(50 * MB), b"\x89PNG" + bytes(20 * MB)
    async with Everthread.open(address, max_event_bytes=64 * MB) as et:
        talk = await et.begin(user=someone)
        await talk.append(user(big), user(image(data)))
        assert await talk.blob((await et.log.blobs(await talk.line()))[0]) == data
    assert await intact(address, talk) == [big, ""]
