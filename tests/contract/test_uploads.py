"""What is handed in stands in the log for a message to show, and is no part of what the model is told until then."""

from __future__ import annotations

from pathlib import Path

import pytest

from everthread import Everthread, File, Image, Talk, UnknownBlob, UnknownConversation, Upload, user
from everthread.store.conversations import Owner
from everthread.transfer import export_lines, read_file

PICTURE = b"GIF89a\x01\0\x02\0"


async def test_an_image_is_known_by_its_first_bytes_and_everything_else_is_a_file(talk: Talk) -> None:
    shown = (await talk.upload(PICTURE, media_type="text/html")).event
    assert isinstance(shown, Upload)
    assert shown.parts == (Image(blob=shown.parts[0].blob, media_type="image/gif", width=1, height=2),)
    kept = (await talk.upload(b"%PDF", name="bill.pdf", media_type="application/pdf")).event
    assert isinstance(kept, Upload)
    (part,) = kept.parts
    assert isinstance(part, File)
    assert (part.name, part.media_type, part.size) == ("bill.pdf", "application/pdf", 4)
    assert await talk.blob(part.blob) == b"%PDF"


async def test_the_model_is_shown_it_by_a_message_and_not_before(talk: Talk) -> None:
    await talk.append(user("Hello."))
    before = await talk.context(model="anthropic:claude-sonnet-4-6")
    handed = (await talk.upload(PICTURE)).event
    assert isinstance(handed, Upload)
    after = await talk.context(model="anthropic:claude-sonnet-4-6")
    assert (after.request, after.estimate) == (before.request, before.estimate)
    await talk.append(user("Look.", *handed.parts))
    assert "image/gif" in str((await talk.context(model="anthropic:claude-sonnet-4-6")).request)


async def test_redacting_it_removes_the_bytes_unless_a_message_shows_them(talk: Talk) -> None:
    first = await talk.upload(PICTURE)
    assert isinstance(first.event, Upload)
    (part,) = first.event.parts
    said = await talk.append(user("Look.", part))
    await talk.redact(first.seq)
    assert await talk.blob(part.blob) == PICTURE
    await talk.redact(said[0].seq)
    with pytest.raises(UnknownBlob):
        await talk.blob(part.blob)


async def test_it_moves_with_the_conversation_and_is_erased_with_it(et: Everthread, talk: Talk, tmp_path: Path) -> None:
    uploaded = (await talk.upload(PICTURE)).event
    assert isinstance(uploaded, Upload)
    hash = uploaded.parts[0].blob
    side = await talk.fork()
    assert await side.blob(hash) == PICTURE
    file = tmp_path / "talk.jsonl"
    file.write_bytes(b"".join([line async for line in export_lines(et.log, talk.conversation)]))
    owner = Owner(f"moved-{talk.id}", "ana")
    await et.log.restore(read_file(file, owner, agent="helper"))
    moved = et.talk(await et.log.conversations.find(owner, talk.id))
    assert await moved.blob(hash) == PICTURE
    await talk.erase()
    assert await moved.blob(hash) == PICTURE
    await moved.erase()
    with pytest.raises(UnknownConversation):
        await moved.blob(hash)
