"""Makes up what is said and done in a bad history: odd texts, odd ids, odd arguments, all from one source of chance."""

from __future__ import annotations

import json
from random import Random

from benchmarks.seals import reasoning_item, redacted_thinking, thinking, thought_signature
from everthread.core.events import Assistant, Event, ToolCall, ToolResult, User, assistant, user
from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from tests.core.pictures import gif, jpeg, png, webp

MODELS = (
    *("anthropic:claude-sonnet-4-6", "anthropic:claude-fable-5-1"),
    *("openai:gpt-4o", "openai:gpt-5", "openai:gpt-4", "openai:some-local-model"),
    "openai-responses:gpt-5",
    *("google:gemini-2.5-pro", "google:gemini-3-pro-preview"),
)

_WORDS = [
    *("the", "order", "was", "late", "and", "nobody", "knew", "why", "17", "/etc/hosts", "3.50 €", "walnuts", "Ana"),
    *(
        "Lisbon",
        "tomorrow at nine",
        "please",
        "row 7",
        "{json}",
        "[link](x)",
        "`code`",
        "<b>bold</b>",
        "“so”",
        "--flag",
    ),
]
BLANK = ("", " ", "\n", " \t\r\n ", "\u00a0", "\u2003")
_ODD_TEXT = (
    "\ud800",
    "a\udfffb",
    "\x00",
    "x\x00y",
    "\x1b[31m",
    "\ufeff",
    "‮abc",
    "👩‍👩‍👧",
    "你好。",
    "<|endoftext|>",
    "\u200b",
)
_NAMES = ("find_order", "search", "book.seat", "read file", "mcp__files__read", "naïve", "", "1st", "x" * 70, "x" * 140)
_IDS = ("", "call_1", "toolu_01", "a.b:c", "id with space", "é", "\ud800", "x" * 90, "functions.find:0", "\n")
_ARGUMENTS = (
    *("", " ", "{", "{'a': 1}", "null", "[1, 2]", "3", '"text"', '{"a": 1}}', '{"a": NaN}', '{"a": 1e999}', "\ud800"),
    *('{"a": "\\ud800"}', '{"a": "\\u0000"}', '{"a": 1, "a": 2}', '{"": {"b": [[]]}}', '{"a": "\ud800"}', "\x00"),
    *('{"a": [' + "1e15," * 40 + "0]}", 'say "no" \\ \n' * 40, "<<<>>>\x01\x02\t" * 20),
    *('{"n": ' + "9" * 5_000 + "}", '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}", '{"é": "你好", "b": "x\\ny"}'),
)
_METAS = ("", "no JSON", "null", "[]", "{}", '{"type": "thinking"}', '{"type": "text", "text": "x"}', '{"fields": 3}')
_HEAVY_PICTURE = png(1_000, 1_000) + bytes(range(256)) * 15_500  # 3.8 MB, and 5.3 MB as base64
PICTURES: tuple[Part, ...] = (
    *(image(png(30, 40)), image(jpeg(640, 480)), image(gif(3, 4)), image(webp(100, 100)), image(png(9_000, 9_000))),
    *(image(png(3, 4), media_type="image/jpeg"), image(gif(3, 4), media_type="image/gif; charset=binary")),
    *(image(b"BM6\x00", media_type="image/bmp"), image(b"<svg/>", media_type="image/svg+xml"), image(b"no image")),
    *(image("https://example.org/cat.png"), image("ftp://example.org/cat.png"), image("file:///cat.png")),
    *(
        Image(url="data:image/png;base64,iVBORw0KGgo="),
        Image(url="data:,"),
        Image(),
        Image(url="https://a b"),
        image(b""),
    ),
    *(Image(url="data:image/png;base64," + "iVBOR+/w0" * 300), image("ftp://example.org/" + "a7%C3/" * 200)),
    *(Image(data=png(2_500, 2_500), width=1, height=1), image(png(960, 540)), image(jpeg(8_001, 20))),
    *(Image(media_type="image/" + "x9-" * 300), image(_HEAVY_PICTURE)),
)
FILES: tuple[Part, ...] = (
    *(
        file(b"%PDF-1.4 x", name="a.pdf", media_type="application/pdf"),
        file(b"a,b\n1,2", name="t.csv", media_type="text/csv"),
    ),
    *(
        file(b"Some text.", name="a.txt", media_type="text/plain"),
        file(b"\xff\xfe", name="b.txt", media_type="text/plain"),
    ),
    *(file(b"\x00\x01", name="x.bin"), file(b""), file(b"", name="e.pdf", media_type="application/pdf")),
    *(file(b"....", name="v.mp4", media_type="video/mp4"), file(b"  ", media_type="text/plain"), File()),
    *(File(name="n-8/" * 300, media_type="application/x-odd"), File(data=b"12 34 " * 400, media_type="text/plain")),
    *(
        File(url="https://example.org/a.pdf", media_type="application/pdf"),
        File(url="s3://bucket/a", name="a\ud800.pdf"),
    ),
)


class Teller:
    """Makes up what is said and done, from one source of chance."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0
        self.model = random.choice(MODELS)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def either(self, *ways: list[Event]) -> list[Event]:
        return self.random.choice(ways)

    def words(self, most: int = 30) -> str:
        self.number += 1
        rest = " ".join(self.random.choices(_WORDS, k=self.random.randint(0, most)))
        odd = self.random.choice(_ODD_TEXT) if self.chance(0.08) else ""
        return f"#{self.number} {rest}{odd}"

    def long(self, least: int, most: int) -> str:
        """Text of a length in bytes, roughly: prose, lines of a table, or one line without a space."""
        size = self.random.randint(least, most)
        line = self.random.choice((f"{self.words(20)}\n", f"{self.words(0)},3.14,2026-03-01,/var/log/x\n", "x", "漢字"))
        return f"{self.words()} " + line * (size // len(line.encode("utf-8", "surrogatepass")) + 1)

    def ask(self, *parts: Part | str) -> User:
        return user(self.words(), *parts, origin="schedule" if self.chance(0.05) else "")

    def reply(self, *parts: Part | str, interrupted: bool = False) -> Assistant:
        """By the model of the moment, with its reasoning, now and then under a name of another form."""
        if self.chance(0.1):
            self.model = self.random.choice(MODELS)
        named = self.model if self.chance(0.8) else self.random.choice(("", self.model.partition(":")[2], "unknown"))
        reasoning = self.reasoning(self.model if named else "") if self.chance(0.4) else []
        texts = parts or (self.words(),)
        return assistant(*reasoning, *texts, model=named, interrupted=interrupted)

    def reasoning(self, by: str | None = None) -> list[Part]:
        """In the form of the provider of the moment; sealed by its model, or by none where that is not known."""
        said = self.words(8) if self.chance(0.8) else ""
        provider, by = self.model.partition(":")[0], self.model if by is None else by
        match provider:
            case "anthropic":
                whole: list[Part] = [Reasoning(text=said, meta={provider: thinking(by, said)})]
                if self.chance(0.2):
                    whole.append(Reasoning(meta={provider: redacted_thinking(by)}))
            case "openai-responses":
                id = f"rs_{self.number if self.chance(0.9) else 1}"
                whole = [Reasoning(text=said, meta={provider: reasoning_item(by, said, id)})]
            case _:
                whole = [Reasoning(text=said)]
        if self.chance(0.05):
            whole.append(Reasoning(text=said, meta={provider: self.random.choice(_METAS)}))
        return whole

    def call(self, *, id: str | None = None, waits_for: str = "") -> ToolCall:
        self.number += 1
        odd = self.chance(0.15)
        given = self.random.choice(_IDS) if odd else f"call_{self.number}"
        name = self.random.choice(_NAMES) if self.chance(0.15) else self.random.choice(_NAMES[:2])
        valid = json.dumps({"number": self.number, "note": "é"}, ensure_ascii=self.chance(0.5))
        arguments = self.random.choice(_ARGUMENTS) if self.chance(0.15) else valid
        meta = (
            {"google": thought_signature(self.model)} if self.model.startswith("google:") and self.chance(0.7) else {}
        )
        if self.chance(0.03):
            meta = {self.model.partition(":")[0]: self.random.choice(_METAS)}
        return ToolCall(
            id=given if id is None else id,
            name=name,
            arguments=arguments,
            waits_for="approval" if waits_for == "approval" else "job" if waits_for else "",
            meta=meta,
        )

    def result(self, call: ToolCall, *parts: Part | str) -> ToolResult:
        found: tuple[Part | str, ...] = parts or (self.words(60),)
        if not parts and self.chance(0.1):
            found = self.random.choice(((), ("",), (" \n",), ("", "x"), (self.random.choice(PICTURES), "seen")))
        made = tuple(Text(text=part) if isinstance(part, str) else part for part in found)
        name = call.name if self.chance(0.6) else ""
        return ToolResult(id=call.id, name=name, parts=made, error=self.chance(0.1))
