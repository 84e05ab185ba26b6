"""Images and files are kept once by the hash of their bytes, outside the event rows."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, assistant, file, image, tool_result, user
from everthread.core.events import media_of, text_of
from everthread.core.parts import File, Image, blob_hash
from everthread.errors import EventTooLarge, InputError, NotFound, UnknownBlob
from tests.contract.support import assert_sound, everything
from tests.core.pictures import gif, png

PICTURE = image(png(100, 50) + bytes(range(256)) * 20)
PAPER = file(b"%PDF-1.7 walnuts " * 300, name="recipe.pdf", media_type="application/pdf")


async def test_an_image_comes_back_byte_for_byte(et: Everthread, talk: Talk) -> None:
    await talk.append(user("look", PICTURE, PAPER))
    assert await talk.blob(PICTURE.blob) == PICTURE.data
    assert await talk.blob(PAPER.blob) == PAPER.data
    await assert_sound(et, talk)


async def test_the_event_row_is_small_and_knows_the_hash(talk: Talk) -> None:
    await talk.append(user("look", PICTURE))
    (event,) = await everything(talk)
    assert len(event.body) < 400
    (part,) = media_of(event.event)
    assert isinstance(part, Image)
    assert (part.blob, part.data, part.width, part.height) == (PICTURE.blob, None, 100, 50)
    assert event.text == "look"


async def test_an_image_shown_many_times_is_kept_once(et: Everthread, talk: Talk) -> None:
    await talk.append(user(PICTURE, PICTURE), assistant(PICTURE))
    await talk.append(tool_result(PICTURE, name="f"))
    side = await talk.fork(at=1)
    await side.append(user(PICTURE))
    assert await et.log.blobs(await talk.line()) == [PICTURE.blob]
    await assert_sound(et, talk)


async def test_an_image_can_be_shown_again_by_its_hash_alone(et: Everthread, talk: Talk) -> None:
    await talk.append(user(PICTURE))
    await talk.append(user(Image(blob=PICTURE.blob, width=100, height=50)))
    await talk.redact(1)
    assert await talk.blob(PICTURE.blob) == PICTURE.data
    await assert_sound(et, talk)


async def test_an_image_kept_elsewhere_is_only_an_address(et: Everthread, talk: Talk) -> None:
    await talk.append(user(Image(url="https://example.org/a.png")))
    assert await et.log.blobs(await talk.line()) == []
    await assert_sound(et, talk)


async def test_an_empty_file_is_a_file(et: Everthread, talk: Talk) -> None:
    nothing = file(b"", name="empty")
    await talk.append(user(nothing))
    assert await talk.blob(nothing.blob) == b""
    await assert_sound(et, talk)


async def test_an_unknown_hash_is_an_error(talk: Talk) -> None:
    with pytest.raises(UnknownBlob):
        await talk.blob(blob_hash(b"never shown"))


async def test_a_file_beyond_the_limit_is_refused_whole(address: str, someone: str) -> None:
    async with Everthread.open(address, max_event_bytes=1_000) as et:
        talk = await et.begin(user=someone)
        with pytest.raises(EventTooLarge):
            await talk.append(user("a"), user(file(b"x" * 1_001)))
        assert await everything(talk) == []
        assert await et.log.blobs(await talk.line()) == []


HANDMADE: dict[str, Image | File] = {
    "no hash": Image(data=gif(3, 4), media_type="image/gif"),
    "another's hash": Image(blob=blob_hash(b"other"), data=gif(3, 4)),
    "something that is no hash": Image(blob="x", data=gif(3, 4)),
    "a file without a hash": File(data=b"words", name="a.txt", size=5),
}


@pytest.mark.parametrize("part", HANDMADE.values(), ids=HANDMADE.keys())
async def test_bytes_without_their_own_hash_are_kept_all_the_same_or_refused(
    et: Everthread, talk: Talk, part: Image | File
) -> None:
    """What must not happen: accepted and then not to be found again."""
    try:
        await talk.append(user(part))
    except InputError:
        assert await everything(talk) == []
        return
    (event,) = await everything(talk)
    assert await talk.blob(media_of(event.event)[0].blob) == part.data
    await assert_sound(et, talk)


@pytest.mark.parametrize("blob", [blob_hash(b"never shown"), "x", "\0", "\ud800"], ids=lambda blob: ascii(blob)[:8])
async def test_an_image_that_is_nowhere_is_refused(talk: Talk, blob: str) -> None:
    with pytest.raises((InputError, NotFound)):
        await talk.append(user("a"), user(Image(blob=blob)))
    assert await everything(talk) == []


async def test_the_same_key_with_another_image_is_other_content(talk: Talk) -> None:
    from everthread.errors import KeyReused

    first = await talk.append(user(PICTURE), key="k")
    assert await talk.append(user(PICTURE), key="k") == first
    with pytest.raises(KeyReused):
        await talk.append(user(image(gif(1, 1))), key="k")
    assert text_of(first[0].event) == ""
