"""What is known of models: found by name, from data that is checked here."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from splintr import Tokenizer

from everthread import Everthread, GivenSettings
from everthread.config import PROVIDERS
from everthread.core.tokens import count, image_tiles
from everthread.errors import BadValue
from everthread.providers import models
from everthread.providers.models import Model, model, warn
from tests.core import texts

DATA: dict[str, Any] = tomllib.loads((files("everthread.providers") / "models.toml").read_text("utf-8"))


@pytest.fixture(autouse=True)
def fresh() -> None:
    model.cache_clear()


# -- finding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "window", "encoding", "factor"),
    [
        ("anthropic:claude-3-5-sonnet-20241022", 200_000, "", 1.2),
        ("anthropic:claude-3-7-sonnet-latest", 200_000, "", 1.2),
        ("anthropic:claude-sonnet-4-20250514", 200_000, "", 1.2),
        ("anthropic:claude-opus-4-1", 200_000, "", 1.2),
        ("anthropic:claude-haiku-4-5-20251001", 200_000, "", 1.2),
        ("anthropic:claude-sonnet-4-6", 1_000_000, "", 1.2),
        ("anthropic:claude-opus-4-6", 1_000_000, "", 1.2),
        ("anthropic:claude-opus-4-7", 1_000_000, "", 1.55),
        ("anthropic:claude-opus-5", 1_000_000, "", 1.55),
        ("anthropic:claude-sonnet-5", 1_000_000, "", 1.55),
        ("anthropic:claude-fable-5", 1_000_000, "", 1.55),
        ("anthropic:claude-haiku-5-5", 1_000_000, "", 1.55),
        ("anthropic:claude-sonnet-9", 200_000, "", 1.55),
        ("openai:gpt-3.5-turbo", 16_385, "cl100k", 1.1),
        ("openai:gpt-4", 8_192, "cl100k", 1.1),
        ("openai:gpt-4-0613", 8_192, "cl100k", 1.1),
        ("openai:gpt-4-32k-0613", 32_768, "cl100k", 1.1),
        ("openai:gpt-4-turbo-2024-04-09", 128_000, "cl100k", 1.1),
        ("openai:gpt-4-0125-preview", 128_000, "cl100k", 1.1),
        ("openai:gpt-4o", 128_000, "o200k", 1.0),
        ("openai:gpt-4o-mini-2024-07-18", 128_000, "o200k", 1.0),
        ("openai:gpt-4.1-nano", 1_047_576, "o200k", 1.0),
        ("openai:o1", 200_000, "o200k", 1.0),
        ("openai:o1-preview", 128_000, "o200k", 1.0),
        ("openai:o3-mini-2025-01-31", 200_000, "o200k", 1.0),
        ("openai:o4-mini", 200_000, "o200k", 1.0),
        ("openai:gpt-5-2025-08-07", 272_000, "o200k", 1.0),
        ("openai:gpt-5.1-chat-latest", 128_000, "o200k", 1.0),
        ("openai:gpt-5.4-mini", 272_000, "o200k", 1.0),
        ("openai:gpt-5.6-sol", 922_000, "o200k", 1.0),
        ("openai:gpt-6.1-sol", 922_000, "o200k", 1.0),
        ("openai:gpt-7", 272_000, "o200k", 1.0),
        ("google:gemini-1.5-pro", 1_048_576, "", 1.3),
        ("google:gemini-2.5-flash", 1_048_576, "", 1.3),
        ("google:gemini-3-pro-preview", 1_048_576, "", 1.3),
        ("google:gemini-pro-latest", 1_048_576, "", 1.3),
        ("google:gemini-2.5-flash-preview-tts", 8_192, "", 1.3),
        ("google:gemma-3-27b-it", 131_072, "", 1.3),
    ],
)
def test_a_model_is_found_by_its_name(spec: str, window: int, encoding: str, factor: float) -> None:
    found = model(spec)
    assert found.known
    assert f"{found.provider}:{found.name}" == spec
    assert (found.window, found.encoding, found.factor) == (window, encoding, factor)


@pytest.mark.parametrize(
    ("spec", "as_if"),
    [
        ("google:models/gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("openai:openai/gpt-4o", "openai:gpt-4o"),
        ("openai:ft:gpt-4o-mini-2024-07-18:acme:support:9x", "openai:gpt-4o-mini"),
        ("openai:ft:gpt-3.5-turbo-0125:acme::9x", "openai:gpt-3.5-turbo"),
        ("anthropic:claude-opus-4-5@20251101", "anthropic:claude-opus-4-5"),
        ("anthropic:anthropic/claude-opus-4.8", "anthropic:claude-opus-4-8"),
        ("anthropic:eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic:claude-sonnet-4-5"),
    ],
)
def test_a_name_may_come_in_the_form_of_a_gateway_or_a_fine_tuning(spec: str, as_if: str) -> None:
    found, same = model(spec), model(as_if)
    assert msgspec.structs.replace(found, name=same.name) == same


def test_both_of_openais_providers_have_the_same_models() -> None:
    for name in ("gpt-4", "gpt-4o", "gpt-5", "o3", "gpt-6-sol"):
        chat, responses = model(f"openai:{name}"), model(f"openai-responses:{name}")
        assert responses.provider == "openai-responses"
        assert msgspec.structs.replace(responses, provider="openai") == chat


def test_a_model_is_looked_up_once() -> None:
    assert model("openai:gpt-4o") is model("openai:gpt-4o")


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "gpt-4o",
        ":gpt-4o",
        "openai:",
        "openai",
        "mistral:large",
        "OpenAI:gpt-4o",
        "openai :gpt-4o",
        "anthropic/claude",
    ],
)
def test_a_model_without_a_provider_we_know_is_refused_with_those_there_are(spec: str) -> None:
    with pytest.raises(
        BadValue, match=r"provider:name.*anthropic, openai, openai-responses, google, local or scripted"
    ) as caught:
        model(spec)
    assert caught.value.name == "model"


# -- what is not known -------------------------------------------------------------------------------------


def test_an_unknown_model_can_be_used_with_careful_defaults(caplog: pytest.LogCaptureFixture) -> None:
    found = model("openai:qwen2.5:7b-instruct")
    limits = model("openai:gpt-5").limits  # the same for all that speaks its API
    assert found == Model(provider="openai", name="qwen2.5:7b-instruct", known=False, calibrate=True, limits=limits)
    assert (found.window, found.encoding, found.factor, found.cache_read) == (128_000, "", 1.0, 1.0)


def test_an_unknown_model_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        warn("google:palm")
        warn("openai:org/llama:70b\n")
    assert [(record.name, record.levelno) for record in caplog.records] == [("everthread.models", logging.WARNING)] * 2
    first, second = caplog.messages
    assert "'google:palm'" in first
    assert "four bytes" in first
    assert "`factor`" in first
    assert "`model_window`" in first
    assert "\n" not in second


@pytest.mark.parametrize(
    ("name", "settings", "warned"),
    [
        ("openai:gpt-4o", {}, False),
        ("openai:nobody-knows-1", {}, True),
        ("openai:nobody-knows-2", {"factor": 1.2}, True),
        ("openai:nobody-knows-3", {"factor": 1.2, "model_window": 32_000}, False),
    ],
    ids=["known", "unknown", "half stated", "stated"],
)
async def test_only_a_model_of_which_too_little_is_stated_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, settings: GivenSettings, warned: bool
) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        await (await et.begin(user="ana")).context(model=name, settings=settings)
    assert bool([record for record in caplog.records if record.name == "everthread.models"]) == warned


# -- what differs between models ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "adaptive", "bound"),
    [
        ("claude-3-5-haiku-latest", False, False),
        ("claude-sonnet-4-6", False, False),
        ("claude-opus-4-7", True, False),
        ("claude-opus-4-8", True, False),
        ("claude-sonnet-5", True, False),
        ("claude-fable-5", True, False),
        ("claude-fable-5-20260609", True, False),
        ("claude-opus-5-20260724", True, False),
        ("claude-fable-5-1", True, True),
        ("claude-opus-5-5", True, True),
        ("claude-sonnet-5-5", True, True),
        ("claude-haiku-5-5", True, True),
        ("claude-of-tomorrow", False, True),
    ],
)
def test_claudes_differ_in_adaptive_and_in_what_thinking_is_bound_to(name: str, adaptive: bool, bound: bool) -> None:
    found = model(f"anthropic:{name}")
    assert (found.adaptive, found.bound) == (adaptive, bound)


@pytest.mark.parametrize(
    ("spec", "read", "write", "write_1h", "least"),
    [
        ("anthropic:claude-sonnet-4-6", 0.1, 1.25, 2.0, 1_024),
        ("anthropic:claude-opus-4-5", 0.1, 1.25, 2.0, 4_096),
        ("anthropic:claude-fable-5-1", 0.025, 1.25, 2.0, 512),
        ("openai:gpt-4", 1.0, 1.0, 1.0, 1_024),
        ("openai:gpt-4o", 0.5, 1.0, 1.0, 1_024),
        ("openai:gpt-4.1", 0.25, 1.0, 1.0, 1_024),
        ("openai:o3", 0.25, 1.0, 1.0, 1_024),
        ("openai:gpt-5", 0.1, 1.0, 1.0, 1_024),
        ("openai:gpt-5.6", 0.1, 1.25, 1.0, 1_024),
        ("google:gemini-2.0-flash", 1.0, 1.0, 1.0, 0),
        ("google:gemini-3-flash-preview", 0.1, 1.0, 1.0, 4_096),
    ],
)
def test_models_differ_in_the_price_of_their_cache(
    spec: str, read: float, write: float, write_1h: float, least: int
) -> None:
    found = model(spec)
    assert (found.cache_read, found.cache_write, found.cache_write_1h) == (read, write, write_1h)
    assert found.cache_least == least


@pytest.mark.parametrize(
    ("name", "base", "tile"),
    [
        ("gpt-4-turbo", 85, 170),
        ("gpt-4o", 85, 170),
        ("gpt-4.1", 85, 170),
        ("gpt-4o-mini", 2833, 5667),
        ("o3", 75, 150),
        ("gpt-5", 70, 140),
        ("gpt-4", 0, 0),
    ],
)
def test_models_of_openai_differ_in_what_an_image_costs(name: str, base: int, tile: int) -> None:
    found = model(f"openai:{name}")
    assert (found.image_base, found.image_tile) == (base, tile)


@given(
    st.sampled_from(
        [
            ("gpt-4.1-mini", 1_536, 1.62),
            ("gpt-4.1-nano", 1_536, 2.46),
            ("o4-mini", 1_536, 1.72),
            ("gpt-5-mini", 1_536, 1.62),
            ("gpt-5-nano", 1_536, 2.46),
            ("gpt-5.2", 1_536, 1.62),
            ("gpt-5.4", 2_500, 1.2),
            ("gpt-6-sol", 2_500, 1.2),
        ]
    ),
    st.integers(1, 20_000),
    st.integers(1, 20_000),
)
def test_where_patches_are_charged_the_tiles_are_never_less(
    charge: tuple[str, int, float], width: int, height: int
) -> None:
    name, most, each = charge
    found = model(f"openai:{name}")
    patches = min(most, -(-width // 32) * -(-height // 32))
    assert image_tiles(width, height, found.image_base, found.image_tile) >= patches * each


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
def test_the_oldest_models_of_openai_see_no_images(provider: str) -> None:
    blind = ["gpt-3.5-turbo-0613", "gpt-3.5-turbo", "ft:gpt-3.5-turbo-0125:acme::9x", "gpt-4", "gpt-4-32k"]
    seeing = ["gpt-4-turbo", "gpt-4-vision-preview", "gpt-4o", "gpt-4.1", "gpt-4.5-preview", "gpt-5", "o3"]
    assert [name for name in blind + seeing if model(f"{provider}:{name}").blind] == blind


def test_what_sees_no_images_has_no_price_for_them() -> None:
    unseeing = [found for found in _every() if found.blind]
    assert {found.encoding for found in unseeing} == {"cl100k", ""}  # the latter is the model in the process
    assert {(found.image_base, found.image_tile) for found in unseeing} == {(0, 0)}


def test_a_model_that_nothing_is_known_of_is_taken_to_see() -> None:
    assert not model("openai:qwen2.5-vl").blind
    assert not model("anthropic:claude-of-tomorrow").blind


def test_only_anthropic_adds_hidden_tokens_for_tools() -> None:
    assert model("anthropic:claude-sonnet-4-6").hidden == 346
    assert model("openai:gpt-5").hidden == model("google:gemini-2.5-pro").hidden == 0


@pytest.mark.parametrize(
    ("spec", "reasons"),
    [
        ("anthropic:claude-3-5-sonnet-latest", False),
        ("anthropic:claude-3-7-sonnet-latest", True),
        ("anthropic:claude-sonnet-4-6", True),
        ("openai:gpt-4o", False),
        ("openai:o4-mini", True),
        ("openai:gpt-5", True),
        ("openai:gpt-5-chat-latest", False),
        ("google:gemini-2.0-flash", False),
        ("google:gemini-2.5-flash", True),
    ],
)
def test_some_models_reason(spec: str, reasons: bool) -> None:
    assert model(spec).reasons is reasons


# -- the measured factors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "tokenizer"),
    [
        ("google:gemini-2.5-pro", "gemma3"),
        ("google:gemini-1.5-pro", "gemma2"),
    ],
)
def test_a_measured_factor_is_near_the_most_that_text_of_any_kind_needs(spec: str, tokenizer: str) -> None:
    """The 95th percentile over kinds of text: neither the mean, which half of them exceed, nor the worst."""
    needed = quantiles(_needed(texts.ALL, tokenizer), n=20, method="inclusive")
    assert needed[9] < model(spec).factor
    assert model(spec).factor == pytest.approx(needed[18], rel=0.1)
    assert model(spec).calibrate


def test_where_the_request_itself_is_counted_the_factor_need_not_be_careful() -> None:
    """It only says how far back to read. Most text is English, code and data, and needs no more than that."""
    usual = {"English": texts.ENGLISH} | texts.OTHERS
    for found in (found for found in _every() if found.encoding == "cl100k"):
        assert median(_needed(usual, "cl100k_base")) < found.factor < median(_needed(texts.LANGUAGES, "cl100k_base"))
        assert found.calibrate


def _needed(kinds: dict[str, str], tokenizer: str) -> list[float]:
    """The tokens of each kind of text, for one of ours."""
    encode = Tokenizer.from_pretrained(tokenizer).encode_ordinary
    return [len(encode(text)) / count(text) for text in kinds.values()]


def test_where_the_encoding_is_ours_the_factor_is_exact() -> None:
    exact = [found for found in _every() if found.encoding == "o200k"]
    assert {found.factor for found in exact} == {1.0}
    assert all(found.calibrate for found in _every() if found.encoding != "o200k")


# -- the file ----------------------------------------------------------------------------------------------


def _tables() -> dict[str, tuple[models._Entry, ...]]:
    providers = msgspec.convert(DATA, dict[str, models._Provider])
    return {name: provider.entries() for name, provider in providers.items() if provider.models}


def _every() -> list[models._Entry]:
    return [entry for entries in _tables().values() for entry in entries]


def test_the_file_speaks_of_every_provider_and_of_no_other() -> None:
    assert sorted(DATA) == sorted(PROVIDERS)
    assert sorted(_tables()) == sorted(set(PROVIDERS) - {"openai-responses"})


def test_every_entry_states_its_window() -> None:
    assert all("window" in entry for table in DATA.values() for entry in table.get("models", ()))


def test_no_pattern_is_hidden_by_one_above_it() -> None:
    for entries in _tables().values():
        above: list[str] = []
        for entry in entries:
            for pattern in entry.match:
                sample = pattern.replace("[-.]", "-").replace("[6-9]", "9").replace("*", "~")
                assert not any(fnmatchcase(sample, other) for other in above), pattern
                above.append(pattern)


@pytest.mark.parametrize(
    "wrong",
    [
        {"windows": 1},
        {"window": "large"},
        {"window": 0},
        {"window": 1.5},
        {"factor": 0},
        {"factor": "1.2"},
        {"encoding": "p50k"},
        {"bound": 1},
        {"blind": "yes"},
        {"match": []},
        {"match": "gpt*"},
        {"hidden": -1},
    ],
    ids=str,
)
def test_an_unknown_key_or_a_wrong_value_in_the_file_is_an_error(wrong: dict[str, Any]) -> None:
    right = {"match": ["x*"], "window": 1_000}
    assert models._Provider(models=(right,)).entries()
    with pytest.raises(msgspec.ValidationError):
        models._Provider(models=(right | wrong,)).entries()
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"openai": {"model": [right]}}, dict[str, models._Provider])


def test_importing_reads_no_file_and_loads_no_tokenizer() -> None:
    look = (
        "import sys; from everthread.providers import models;"
        "assert 'splintr' not in sys.modules; assert models._tables.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", look], check=True)
