"""Settings: the most specific source wins, and what is not allowed is refused with its name, source and range."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everthread.config import (
    KNOWN,
    OURS,
    PROVIDERS,
    Settings,
    Source,
    check,
    from_branch,
    from_conversation,
    from_environment,
    from_file,
    parse,
    resolve,
    usable,
)
from everthread.core import events
from everthread.core.rules import Between, OneOf
from everthread.errors import BadSetting, InputError
from tests.examples import examples

HERE = "the settings of this test"
WHOLE = "a whole number from {} to 1,000,000,000"
MODEL = "provider:name, where the provider is anthropic, openai, openai-responses, google, local or scripted; or empty"
NUMBERS = [True, "5", None, [5], math.nan, math.inf, -math.inf]
BROKEN = "\ud800"


def _set(**values: object) -> Settings:
    return resolve(Source(HERE, values)).settings


def _refusal(name: str, value: object) -> str:
    with pytest.raises(BadSetting) as refused:
        check(name, value, HERE)
    assert isinstance(refused.value, InputError)
    assert (refused.value.name, refused.value.source) == (name, HERE)
    return str(refused.value)


# -- what is allowed -------------------------------------------------------------------------------------

# Of every setting: what is allowed in words, values at its edges, and values that are refused.
ALLOWED: dict[str, tuple[str, list[Any], list[Any]]] = {
    "model": (
        MODEL,
        ["", "openai:llama3:8b", "openai-responses:my model"],
        ["gpt-4", ":x", "openai:", "OpenAI:x", "openai:x\n", "openai: x", "foo:bar", "openai:\ud800", 4],
    ),
    "budget": (WHOLE.format(0), [0, 10**9], [-1, 10**9 + 1, 10**5000, 5.0, *NUMBERS]),
    "strategy": (
        "budget, messages, session or importance",
        ["budget", "messages", "session", "importance"],
        ["", "Budget", "all", 1, None],
    ),
    "step": ("a number from 0 to 1", [0, 0.25, 1], [-0.1, 1.1, 10**5000, *NUMBERS]),
    "messages": (WHOLE.format(1), [1], [0, 1.5, *NUMBERS]),
    "active_messages": (WHOLE.format(1), [1], [0, 1.5, *NUMBERS]),
    "pins": ("a number from 0 to 0.5", [0, 0.5], [-0.1, 0.51, *NUMBERS]),
    "instructions": ("text in valid Unicode", ["", "two\nlines\0", "é😀"], [BROKEN, 3, None]),
    "reply_tokens": (WHOLE.format(1), [1], [0, *NUMBERS]),
    "temperature": ("a number from 0 to 2", [0, 0.7, 2], [-0.1, 2.1, *NUMBERS]),
    "top_p": ("a number from 0 to 1", [0, 0.9, 1], [-0.1, 1.1, *NUMBERS]),
    "seed": (WHOLE.format(0), [0, 7], [-1, 1.5, *NUMBERS]),
    "stop": (
        "a list of texts that are not empty, as JSON or a list, or empty",
        ["", '["END"]', "[]"],
        ["END", "{}", '[""]', "[3]", f'["{BROKEN}"]', [3], [""], 3, True],
    ),
    "effort": (
        "empty, minimal, low, medium or high",
        ["", "minimal", "low", "medium", "high"],
        ["max", "HIGH", 1, True],
    ),
    "output": (
        "a JSON object, as text or a mapping, or empty",
        ["", "{}", '{"type": "object"}'],
        ["[]", "{", "null", '{"a": NaN}', f'"{BROKEN}"', '{"a":' * 50_000, ["a"], {"a": object()}, 3],
    ),
    "extra_body": (
        (
            "a JSON object, as text or a mapping, without what Everthread writes itself (model, messages, input, "
            "contents, system, instructions, systemInstruction, tools, stream, stream_options, max_tokens, "
            "max_completion_tokens, max_output_tokens), or empty"
        ),
        ["", "{}", '{"top_k": 3}'],
        ["[]", '{"model": "x"}', {"messages": []}, {"a": object()}, 3],
    ),
    "fallback": (MODEL, ["", "local:smollm2"], ["gpt-4", 4]),
    "address": (
        "http:// or https:// and a host, in ASCII, or empty",
        ["", "http://localhost:11434/v1", "https://x"],
        ["localhost:11434", "ftp://x", "http://", "http://a b", "http://[bad", "http://x:99999", "http://é", BROKEN, 1],
    ),
    "call_seconds": ("a number from 0.01 to 86,400", [0.01, 86_400], [0, -1, 86_401, *NUMBERS]),
    "tool_seconds": ("a number from 0.01 to 86,400", [0.01, 86_400], [0, -1, 86_401, *NUMBERS]),
    "retries": ("a whole number from 0 to 20", [0, 20], [-1, 21, *NUMBERS]),
    "turn_calls": ("a whole number from 1 to 10,000", [1, 10_000], [0, 10_001, *NUMBERS]),
    "turn_seconds": ("a number from 1 to 1,000,000,000", [1, 3_600], [0, *NUMBERS]),
    "turn_dollars": ("a number from 0 to 1,000,000,000", [0, 0.5], [-1, *NUMBERS]),
    "threads": ("a whole number from 1 to 256", [1, 256], [0, 257, *NUMBERS]),
    "model_window": (WHOLE.format(0), [0, 200_000], [-1, *NUMBERS]),
    "factor": ("0 or a number from 0.5 to 4", [0, 0.5, 4], [0.4, -1, 4.1, *NUMBERS]),
    "margin": ("a number from 0 to 1", [0, 1], [-0.1, 1.1, *NUMBERS]),
    "brief_tokens": (WHOLE.format(0), [0], [-1, *NUMBERS]),
    "facts_tokens": (WHOLE.format(0), [0], [-1, *NUMBERS]),
    "recap_tokens": (WHOLE.format(0), [0], [-1, *NUMBERS]),
    "summary_tokens": (WHOLE.format(1), [1], [0, *NUMBERS]),
    "summarise_after": (WHOLE.format(1), [1], [0, *NUMBERS]),
    "summary_model": (MODEL, ["", "anthropic:small"], ["small", BROKEN]),
    "summary_reply_tokens": (WHOLE.format(1), [1, 500], [0, *NUMBERS]),
    "summary_temperature": ("a number from 0 to 2", [0, 0.7, 2], [-0.1, 2.1, *NUMBERS]),
    "memory": ("true or false", [True, False], [1, "true", None]),
    "worker": ("here or apart", ["here", "apart"], ["", "there", True]),
    "memory_calls": (WHOLE.format(0), [0, 600], [-1, *NUMBERS]),
    "memory_dollars": ("a number from 0 to 1,000,000,000", [0, 0.5], [-1, *NUMBERS]),
    "memory_seconds": ("a number from 0 to 3,600", [0, 2.5], [-1, 3_601, *NUMBERS]),
    "session_gap": ("a number from 1 to 525,600", [1, 30, 1_440.5], [0, 0.5, 525_601, *NUMBERS]),
    "cache": ("true or false", [True, False], [0, 1, "true", None]),
    "cache_ttl": ("5m or 1h", ["5m", "1h"], ["", "10m", 5]),
    "clock": ("off, day, hour or minute", ["off", "day", "hour", "minute"], ["", "second", False]),
    "canvas": ("message, instructions or off", ["message", "instructions", "off"], ["", "on", True]),
    "canvas_tokens": ("a whole number from 50 to 1,000,000,000", [50, 1_000], [0, 49, "many", 1.5]),
    "mirror": ("text in valid Unicode", ["", "/var/lib/everthread/mirror"], [5, True, "a\ud800"]),
    "retention": ("a number from 0 to 36,500", [0, 0.5, 365, 36_500], [-1, 40_000, "long", True]),
    "archive": ("true or false", [True, False], [0, 1, "true", None]),
    "archive_after": ("a number from 0.01 to 36,500", [0.01, 30], [0, -1, 36_501, *NUMBERS]),
    "archive_place": (
        "the path of a folder, or s3://bucket/folder, or empty",
        ["", "/var/archives", "~/archives", "s3://bucket", "s3://bucket/a/b"],
        ["s3://", "http://bucket", "a\nb", " ", 3, None],
    ),
    "archive_encryption": ("true or false", [True, False], [0, 1, "true", None]),
}


def test_every_setting_has_its_row_here_and_a_default_that_is_allowed() -> None:
    assert list(ALLOWED) == list(KNOWN)
    for name, default in msgspec.structs.asdict(Settings()).items():
        assert default is None or check(name, default, HERE) == default


def test_what_json_spells_may_be_given_as_it_is() -> None:
    """In a program, and in a TOML file."""
    assert check("stop", ["a", "b"], HERE) == check("stop", ("a", "b"), HERE) == '["a","b"]'
    assert check("extra_body", {"top_k": 3}, HERE) == '{"top_k":3}'
    assert check("output", {"type": "object"}, HERE) == '{"type":"object"}'
    assert check("stop", [], HERE) == ""


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, row in ALLOWED.items() for value in row[1]])
def test_what_is_allowed_is_taken_as_it_is(name: str, value: object) -> None:
    assert getattr(_set(**{name: value}), name) == value


@pytest.mark.parametrize("name", list(ALLOWED))
def test_what_is_not_allowed_is_refused_with_its_name_its_source_and_what_is_allowed(name: str) -> None:
    words, _, refused = ALLOWED[name]
    for value in refused:
        said = _refusal(name, value)
        assert said.startswith(f"{name} is ")
        assert said.endswith(f" in {HERE}, but must be {words}.")
        assert said.isprintable()
        assert len(said) < 500


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("budget", -1, f"budget is -1 in {HERE}, but must be a whole number from 0 to 1,000,000,000."),
        ("budget", "5000", f"budget is '5000' in {HERE}, but must be a whole number from 0 to 1,000,000,000."),
        ("budget", True, f"budget is True in {HERE}, but must be a whole number from 0 to 1,000,000,000."),
        ("step", math.nan, f"step is nan in {HERE}, but must be a number from 0 to 1."),
        ("clock", "noon", f"clock is 'noon' in {HERE}, but must be off, day, hour or minute."),
        ("budgett", 5, f"budgett is 5 in {HERE}, but there is no such setting; the nearest is budget."),
        (
            "Turn-Calls",
            5,
            f"'Turn-Calls' is 5 in {HERE}, but there is no such setting; the nearest is turn_calls.",
        ),
    ],
)
def test_a_refusal_is_one_sentence(name: str, value: object, said: str) -> None:
    assert _refusal(name, value) == said


@pytest.mark.parametrize("name", ["zzz", "", "a\nb", "x" * 10_000])
def test_a_name_that_is_like_no_other_is_told_all_there_are(name: str) -> None:
    said = _refusal(name, 1)
    assert said.endswith(f"but there is no such setting; there are: {', '.join(KNOWN)}.")
    assert said.isprintable()
    assert len(said) < 1000


def test_an_unknown_name_is_refused_even_when_it_is_not_set_or_no_text() -> None:
    for unknown in ({"budgett": None}, {3: 5}):
        with pytest.raises(BadSetting, match="no such setting"):
            resolve(Source(HERE, unknown))  # type: ignore[arg-type]


def test_a_whole_number_will_do_for_a_number() -> None:
    assert type(_set(step=1).step) is float


# -- which source wins -----------------------------------------------------------------------------------


def test_without_sources_everything_is_the_default() -> None:
    resolved = resolve()
    assert resolved.settings == Settings()
    assert set(resolved.source_of) == set(KNOWN)
    assert set(resolved.source_of.values()) == {"the default"}


def test_the_most_specific_source_wins_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "everthread.toml"
    names = ["budget", "messages", "active_messages", "reply_tokens", "brief_tokens", "retries"]
    file.write_text("\n".join(f"{name} = 1" for name in names))
    sources = [
        from_file(file),
        from_environment({f"EVERTHREAD_{name.upper()}": "2" for name in names[1:]}),
        Source(HERE, dict.fromkeys(names[2:], 3)),
        from_conversation(dict.fromkeys(names[3:], 4)),
        from_branch([events.SettingsChanged(values=dict.fromkeys(names[4:], 5))]),
        Source("the settings given", dict.fromkeys(names[5:], 6)),
    ]
    resolved = resolve(*sources)
    assert [getattr(resolved.settings, name) for name in names] == [1, 2, 3, 4, 5, 6]
    assert [resolved.source_of[name] for name in names] == [
        f"the file {file}",
        "the environment (EVERTHREAD_MESSAGES)",
        HERE,
        "this conversation's settings",
        "this branch's settings",
        "the settings given",
    ]
    assert resolved.settings.turn_calls == 50
    assert resolved.source_of["turn_calls"] == "the default"


def test_none_in_a_more_specific_source_leaves_what_was_set() -> None:
    resolved = resolve(from_conversation({"budget": 7}), Source("the settings given", {"budget": None}))
    assert resolved.settings.budget == 7
    assert resolved.source_of["budget"] == "this conversation's settings"


def test_a_bad_value_is_refused_even_where_a_more_specific_one_would_win() -> None:
    with pytest.raises(BadSetting, match="in this conversation's settings"):
        resolve(from_conversation({"budget": -1}), Source("the settings given", {"budget": 5}))


@given(st.lists(st.dictionaries(st.sampled_from(["budget", "messages", "retries"]), st.none() | st.integers(1, 9))))
def test_the_last_value_that_is_set_wins_however_many_sources_there_are(given_values: list[dict[str, Any]]) -> None:
    resolved = resolve(*(Source(f"source {n}", values) for n, values in enumerate(given_values)))
    for name in ("budget", "messages", "retries"):
        found = [(values[name], f"source {n}") for n, values in enumerate(given_values) if values.get(name)]
        last = found[-1] if found else (getattr(Settings(), name), "the default")
        assert (getattr(resolved.settings, name), resolved.source_of[name]) == last


# -- conversation and branch -----------------------------------------------------------------------------


def test_a_conversation_may_hold_settings_of_an_application() -> None:
    assert from_conversation({"budget": 5, "colour": "red"}).values == {"budget": 5}
    with pytest.raises(BadSetting, match="budget is 'much' in this conversation's settings"):
        resolve(from_conversation({"budget": "much", "colour": "red"}))


def test_later_changes_of_a_branch_win_one_by_one() -> None:
    source = from_branch(
        [
            events.SettingsChanged(values={"budget": 5, "retries": 7, "clock": "day"}),
            events.SettingsChanged(values={"budget": 6, "retries": None}),
            events.SettingsChanged(values={"retries": None, "cache": False}),
        ]
    )
    assert source.values == {"budget": 6, "clock": "day", "cache": False}
    assert from_branch([]).values == {}


def test_of_a_branch_what_cannot_be_used_is_passed_over_until_it_is_taken_back() -> None:
    good, wrong = (
        events.SettingsChanged(values={"retries": 7}),
        events.SettingsChanged(values={"bugdet": 5, "retries": "many"}),
    )
    found = from_branch([good, wrong])
    assert found.values == {"retries": 7}
    unknown, unfit = found.passed_over
    assert re.search(r"bugdet is 5 in this branch's settings, .* the nearest is budget", unknown)
    assert "retries is 'many' in this branch's settings" in unfit
    assert from_branch([wrong, events.SettingsChanged(values={"bugdet": None, "retries": 8})]).passed_over == ()


def test_of_a_conversation_too_where_it_is_read() -> None:
    found = usable(from_conversation({"budget": "much", "retries": 7}))
    assert found.values == {"retries": 7}
    assert "budget is 'much' in this conversation's settings" in found.passed_over[0]


# -- environment -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("budget", "100_000", 100_000),
        ("budget", " 100000 ", 100_000),
        ("step", ".25", 0.25),
        ("step", "1", 1.0),
        ("temperature", "5e-1", 0.5),
        *[("cache", text, True) for text in ("true", "True", "1", "yes", " YES ")],
        *[("cache", text, False) for text in ("false", "FALSE", "0", "no")],
        ("model", "", ""),
        ("instructions", " as it is ", " as it is "),
    ],
)
def test_text_is_read_by_the_type_of_its_setting(name: str, text: str, value: object) -> None:
    found = getattr(resolve(from_environment({f"EVERTHREAD_{name.upper()}": text})).settings, name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[("budget", text) for text in ("", "much", "1e5", "5.0", "100,000", "-1", "true", "9" * 5000)],
        *[("step", text) for text in ("", "half", "nan", "inf", "-inf", "1e999", "2")],
        *[("cache", text) for text in ("", "maybe", "2", "on")],
        ("clock", "noon"),
        ("model", "gpt-4"),
        ("output", "[]"),
        ("instructions", BROKEN),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_variable(name: str, text: str) -> None:
    variable = f"EVERTHREAD_{name.upper()}"
    with pytest.raises(BadSetting) as refused:
        from_environment({variable: text})
    assert refused.value.source == f"the environment ({variable})"
    assert str(refused.value).endswith(f" in the environment ({variable}), but must be {KNOWN[name].allowed}.")


def test_variables_that_are_no_settings_are_none_of_ours() -> None:
    others = ["STORE", "USER", "TENANT", "DATA", "CONFIG", "TEST_POSTGRES", "BUDGETT", "budget"]
    assert from_environment({"BUDGET": "x"} | {f"EVERTHREAD_{name}": "x" for name in others}).values == {}


def test_text_for_an_unknown_setting_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"budgett is '5' in this command, .* the nearest is budget"):
        parse("budgett", "5", "this command")


def _written(name: str) -> st.SearchStrategy[tuple[object, str]]:
    """A value that the setting may have, and one of the ways to write it in a variable."""
    setting = KNOWN[name]
    if isinstance(setting.rule, OneOf):
        return st.sampled_from(setting.rule.choices).map(lambda choice: (choice, choice))
    if isinstance(setting.rule, Between) and setting.kind is int:
        whole = st.integers(int(setting.rule.least), int(setting.rule.most))
        return st.tuples(whole, st.sampled_from(["{}", "{:_}", " {} "])).map(
            lambda way: (way[0], way[1].format(way[0]))
        )
    if isinstance(setting.rule, Between):
        number = st.floats(setting.rule.least, setting.rule.most)
        return (number | st.just(0.0) if setting.rule.zero else number).map(lambda value: (value, repr(value)))
    if setting.kind is bool:
        words = [(True, "true"), (True, "YES"), (True, "1"), (False, "False"), (False, "no"), (False, "0")]
        return st.sampled_from(words)
    return _texts(name).map(lambda text: (text, text))


def _texts(name: str) -> st.SearchStrategy[str]:
    if name in ("model", "summary_model", "fallback"):
        named = st.from_regex(r"\A[A-Za-z0-9/.:_-]{1,30}\Z")
        return st.just("") | st.builds("{}:{}".format, st.sampled_from(PROVIDERS), named)
    if name == "stop":
        return st.just("") | st.lists(st.text(min_size=1, max_size=9), max_size=3).map(json.dumps)
    if name in ("output", "extra_body"):
        key = st.text(max_size=9).filter(lambda text: text not in OURS.split())  # Hypothesis tries words of the code
        return st.just("") | st.dictionaries(key, st.none() | st.booleans() | st.integers(-9, 9) | key).map(json.dumps)
    anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
    if name == "address":
        host = st.from_regex(r"\Ahttps?://[a-z0-9.-]{1,20}(:[1-9][0-9]{1,3})?(/v1)?\Z")
        return st.just("") | host
    if name == "archive_place":
        return st.just("") | st.from_regex(r"\A(s3://[a-z0-9.-]{3,20}(/[a-z]{1,9})?|/[a-z/]{1,20})\Z")
    assert name in ("instructions", "mirror"), f"say how a valid {name} is made"
    return anything


@pytest.mark.parametrize("name", list(KNOWN))
def test_property_22_a_valid_value_in_the_environment_is_loaded_and_used(name: str) -> None:
    """Of every setting, whatever the file says."""
    variable = f"EVERTHREAD_{name.upper()}"

    @settings(max_examples=examples(100), deadline=None)
    @given(_written(name), _written(name))
    def loaded(written: tuple[object, str], in_file: tuple[object, str]) -> None:
        resolved = resolve(Source("the file x", {name: in_file[0]}), from_environment({variable: written[1]}))
        assert getattr(resolved.settings, name) == written[0]
        assert type(getattr(resolved.settings, name)) is KNOWN[name].kind
        assert resolved.source_of[name] == f"the environment ({variable})"

    loaded()


@settings(max_examples=examples(200), deadline=None)
@given(st.fixed_dictionaries({}, optional={name: _written(name) for name in KNOWN}))
def test_property_22_any_set_of_variables_is_loaded_together(written: dict[str, tuple[object, str]]) -> None:
    resolved = resolve(from_environment({f"EVERTHREAD_{name.upper()}": text for name, (_, text) in written.items()}))
    wanted = msgspec.structs.asdict(Settings()) | {name: value for name, (value, _) in written.items()}
    assert msgspec.structs.asdict(resolved.settings) == wanted
    assert {name for name, source in resolved.source_of.items() if source != "the default"} == set(written)
