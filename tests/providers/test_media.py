"""Pictures and files: sent where the provider takes them, else told in words; never a reason to be refused."""

from __future__ import annotations

import pytest

from everthread import assistant, file, image, system, tool_call, tool_result, user
from everthread.core.parts import File, Image, Part
from everthread.errors import UnknownBlob
from everthread.store.log import Log
from tests.core.pictures import gif, jpeg, png, webp
from tests.providers.conftest import Ask
from tests.transcripts import CHAT, CLAUDE, FORMS, GEMINI, RESPONSES, instructions, transcript

WAV = file(b"RIFF....WAVE", name="a.wav", media_type="audio/wav")
PDF = file(b"%PDF-1.4", name="a.pdf", media_type="application/pdf")

# What is shown, and what Claude, Chat Completions, Responses and Gemini are told of it; once where it is the same.
SHOWN: dict[str, tuple[Part, tuple[str, ...]]] = {
    "a PNG": (image(png(30, 40)), ("<image/png>",)),
    "a JPEG": (image(jpeg(30, 40)), ("<image/jpeg>",)),
    "a WebP": (image(webp(30, 40)), ("<image/webp>",)),
    "a GIF, which Gemini does not take": (
        image(gif(3, 4)),
        (*["<image/gif>"] * 3, "[image: image/gif, 3×4; not sent]"),
    ),
    "a PNG that says it is a JPEG": (image(png(3, 4), media_type="image/jpeg"), ("<image/png>",)),
    "a PNG with no type at all": (Image(data=png(3, 4)), ("<image/png>",)),
    "a bitmap": (image(b"BM6\0", media_type="image/bmp"), ("[image: image/bmp; not sent]",)),
    "no picture": (image(b"words", media_type="image/png"), ("[image: image/png; not sent]",)),
    "an empty picture": (image(b"", media_type="image/png"), ("[image: image/png; not sent]",)),
    "nothing": (Image(), ("[image; not sent]",)),
    "an address": (
        image("https://example.org/cat.png"),
        (*["<url>"] * 3, "[image: https://example.org/cat.png; not sent]"),
    ),
    "an address with its type": (image("https://example.org/cat.png", media_type="image/png"), ("<url>",)),
    "an address that no provider can open": (
        image("ftp://example.org/cat.png"),
        ("[image: ftp://example.org/cat.png; not sent]",),
    ),
    "no address": (Image(url="https://a b"), ("[image: https://a b; not sent]",)),
    "a PDF": (PDF, ("<application/pdf>",)),
    "a PDF without a name": (file(b"%PDF", media_type="application/pdf"), ("<application/pdf>",)),
    "an empty PDF": (
        file(b"", name="e.pdf", media_type="application/pdf"),
        ("[file: e.pdf, application/pdf; not sent]",),
    ),
    "a PDF with a name that no request can carry": (
        file(b"%PDF-1.4", name="a\ud800.pdf", media_type="application/pdf"),
        ("<application/pdf>",),
    ),
    "a table": (file(b"a,b\n1,2", name="t.csv", media_type="text/csv"), ("a,b\n1,2",)),
    "JSON": (file(b'{"a": 1}', media_type="application/json"), ('{"a": 1}',)),
    "text that is none": (file(b"a\xff", media_type="text/plain"), ("a\ufffd",)),
    "sound": (WAV, (*["[file: a.wav, audio/wav; not sent]"] * 3, "<audio/wav>")),
    "no PDF": (
        file(b"words", name="a.pdf", media_type="application/pdf"),
        ("[file: a.pdf, application/pdf; not sent]",),
    ),
    "a PDF that begins too late": (
        file(b" " * 1_024 + b"%PDF-1.4", name="a.pdf", media_type="application/pdf"),
        ("[file: a.pdf, application/pdf; not sent]",),
    ),
    "a PDF after some bytes": (
        file(b"\n" * 1_000 + b"%PDF-1.4", name="a.pdf", media_type="application/pdf"),
        ("<application/pdf>",),
    ),
    "a PNG that is cut off": (image(png(3, 4)[:20]), ("[image: image/png; not sent]",)),
    "a PNG of no size": (image(png(0, 0)), ("[image: image/png; not sent]",)),
    "a PNG of no height": (image(png(3, 0)), ("[image: image/png, 3×0; not sent]",)),
    "the first bytes of a JPEG": (image(b"\xff\xd8\xff"), ("[image: image/jpeg; not sent]",)),
    "the first bytes of a GIF": (image(b"GIF89a"), ("[image: image/gif; not sent]",)),
    "the first bytes of a WebP": (image(b"RIFF....WEBP"), ("[image: image/webp; not sent]",)),
    "a film": (
        file(b"....", name="v.mp4", media_type="video/mp4"),
        (*["[file: v.mp4, video/mp4; not sent]"] * 3, "<video/mp4>"),
    ),
    "bytes": (file(b"\0\1", name="x.bin"), ("[file: x.bin, application/octet-stream; not sent]",)),
    "the address of a PDF": (
        File(url="https://example.org/a.pdf", media_type="application/pdf"),
        (
            *("<url>", "[file: application/pdf, https://example.org/a.pdf; not sent]"),
            *("[file: application/pdf, https://example.org/a.pdf; not sent]", "<url>"),
        ),
    ),
    "the address of a film": (
        File(url="https://example.org/v.mp4", media_type="video/mp4"),
        (*["[file: video/mp4, https://example.org/v.mp4; not sent]"] * 3, "<url>"),
    ),
    "a name that no request can carry": (
        File(name="a\ud800.bin", url="s3://x/a"),
        ("[file: a?.bin, s3://x/a; not sent]",),
    ),
}


@pytest.mark.parametrize("name", SHOWN)
async def test_in_a_message_of_the_users(ask: Ask, name: str) -> None:
    part, told = SHOWN[name]
    for model, line in zip(FORMS, told if len(told) > 1 else told * 4, strict=True):
        context = await ask(model, user("Look:", part))
        assert (model, transcript(context)) == (model, ["user: Look:", f"user: {line}"])


@pytest.mark.parametrize("name", SHOWN)
async def test_in_a_message_of_the_models_it_is_always_told_in_words(ask: Ask, name: str) -> None:
    part, _ = SHOWN[name]
    for model in FORMS:
        context = await ask(model, user("Draw."), assistant("Here:", part), user("Thanks."))
        told = transcript(context)
        assert told[:2] == ["user: Draw.", "assistant: Here:"]
        assert told[2].startswith(("assistant: [image", "assistant: [file"))
        assert told[2].endswith("not sent]")


FOLLOWS = "result look: A cat:\n\n[What is no text follows, between <result-N> and </result-N>.]"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (CLAUDE, ["result look: A cat:", "result look: <image/png>"]),
        (RESPONSES, ["result look: A cat:", "result look: <image/png>"]),
        (CHAT, [FOLLOWS, "user: <result-N>", "user: <image/png>", "user: </result-N>"]),
        (GEMINI, [FOLLOWS, "user: <result-N>", "user: <image/png>", "user: </result-N>"]),
    ],
)
async def test_in_a_result(ask: Ask, model: str, told: list[str]) -> None:
    """What follows its result is not told to be missing from it."""
    context = await ask(model, user("Look."), tool_call("look"), tool_result("A cat:", image(png(3, 4)), name="look"))
    assert transcript(context)[2:] == told
    assert instructions(context.request) == ""


@pytest.mark.parametrize("model", FORMS)
async def test_several_results_that_show_something(ask: Ask, model: str) -> None:
    """All results come first, whatever they show."""
    calls = [tool_call("look", id=id) for id in "abc"]
    results = [tool_result(image(png(3, 4)), PDF, id=id, name="look") for id in "abc"]
    context = await ask(model, user("Look."), *calls, *results, assistant("Seen."), user("Thanks."))
    told = transcript(context)
    assert told[1:4] == ["call look {}"] * 3
    assert sum("<image/png>" in line for line in told) == 3
    assert sum("<application/pdf>" in line for line in told) == 3


async def test_a_failed_result_has_nothing_but_text_for_claude(ask: Ask) -> None:
    failed = tool_result("no", image(png(3, 4)), name="look", error=True)
    context = await ask(CLAUDE, user("Look."), tool_call("look"), failed)
    assert transcript(context)[2:] == ["failed look: no\n\n[image: image/png, 3×4; not sent]"]


async def test_a_model_that_takes_text_only_is_told_in_words(ask: Ask) -> None:
    shown: list[Part] = [image(png(3, 4)), PDF]
    context = await ask("openai:gpt-4", user(*shown), tool_call("look"), tool_result(*shown, name="look"))
    words = ["[image: image/png, 3×4; not sent]", "[file: a.pdf, application/pdf; not sent]"]
    assert transcript(context) == [
        *(f"user: {line}" for line in words),
        "call look {}",
        "result look: " + "\n\n".join(words),
    ]


@pytest.mark.parametrize("model", FORMS)
async def test_bytes_that_are_gone_are_told_in_words(ask: Ask, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(_log: Log, _line: object, hash: str) -> bytes:
        raise UnknownBlob(hash)

    monkeypatch.setattr(Log, "blob", gone)
    context = await ask(model, user("Look:", image(png(3, 4)), PDF))
    assert transcript(context)[1:] == [
        "user: [image: image/png, 3×4; not sent]",
        "user: [file: a.pdf, application/pdf; not sent]",
    ]


@pytest.mark.parametrize("model", FORMS)
async def test_a_picture_alone_is_a_message(ask: Ask, model: str) -> None:
    context = await ask(model, user(image(png(3, 4))))
    assert transcript(context) == ["user: <image/png>"]
    assert context.repaired == ()


NOTE = file(b"Never say no.", name="n.txt", media_type="text/plain")
IN_INSTRUCTIONS = {
    CLAUDE: ["user: <instructions-N>", "user: <image/png>", "user: Never say no.", "user: </instructions-N>"],
    GEMINI: ["user: <instructions-N>", "user: <image/png>", "user: Never say no.", "user: </instructions-N>"],
    CHAT: ["system: [image: image/png, 30×40; not sent]", "system: [file: n.txt]\nNever say no."],
    RESPONSES: ["developer: [image: image/png, 30×40; not sent]", "developer: [file: n.txt]\nNever say no."],
}


@pytest.mark.parametrize("model", FORMS)
async def test_what_is_shown_with_the_instructions_that_open_a_conversation_is_sent_or_told(
    ask: Ask, model: str
) -> None:
    """Their text stands among the instructions, once; what is no text stands where it was said."""
    opening = system("Be kind.", image(png(30, 40)), NOTE)
    context = await ask(model, opening, system("Be brief."), user("Hello."))
    assert instructions(context.request).startswith("Be kind.\n\nBe brief.")
    assert transcript(context) == [*IN_INSTRUCTIONS[model], "user: Hello."]
    assert context.over_budget == 0


async def test_where_it_is_no_longer_in_the_window_that_is_said(ask: Ask) -> None:
    said = [event for number in range(40) for event in (user(f"{number} " * 40), assistant("Well."))]
    opening = system("Be kind.", image(png(30, 40)))
    context = await ask(CLAUDE, opening, *said, user("And?"), budget=2_000)
    assert instructions(context.request).startswith("Be kind.")
    assert "<image/png>" not in "".join(transcript(context))
    assert "images and files of the opening instructions that are no longer in the window: 1" in context.degraded


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai:gpt-4o-audio-preview", "<audio>"),
        ("openai:gpt-audio", "<audio>"),
        ("openai:qwen2-audio-7b", "<audio>"),
        ("openai:gpt-4o", "[file: a.wav, audio/wav; not sent]"),
        ("openai:some-model", "[file: a.wav, audio/wav; not sent]"),
        ("openai-responses:gpt-audio", "[file: a.wav, audio/wav; not sent]"),
    ],
)
async def test_sound_is_sent_to_models_that_are_known_to_take_it(ask: Ask, model: str, told: str) -> None:
    context = await ask(model, user("Listen:", WAV), assistant("Yes."), user("Well?"))
    assert transcript(context)[:2] == ["user: Listen:", f"user: {told}"]
