"""Settings in a file: where it is found, how it is read, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from everthread.config import Settings, find_file, from_file, resolve
from everthread.errors import BadSetting, BadSettingsFile


@pytest.mark.parametrize("head", ["", "[settings]\n", "\ufeff[settings]\r\n"])
def test_a_file_holds_its_settings_in_a_table_or_bare(tmp_path: Path, head: str) -> None:
    file = tmp_path / "everthread.toml"
    file.write_text(f'{head}budget = 100_000\nstep = 0\ncache = false\nclock = "day"\n', "utf-8", newline="")
    source = from_file(file)
    assert source.name == f"the file {file}"
    assert resolve(source).settings == Settings(budget=100_000, step=0.0, cache=False, clock="day")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('budget = "100000"', "budget is '100000' in the file {}, but must be a whole number"),
        ("step = nan", "step is nan in the file {}, but must be a number from 0 to 1"),
        ("step = inf", "step is inf in the file {}, but must be a number from 0 to 1"),
        ("cache = 1", "cache is 1 in the file {}, but must be true or false"),
        ("retries = 2024-01-01", "in the file {}, but must be a whole number from 0 to 20"),
        ("[settings]\nbuget = 5", "buget is 5 in the file {}, but there is no such setting; the nearest is budget"),
        ("[setting]\nbudget = 5", "setting is {{'budget': 5}} in the file {}, but there is no such setting"),
    ],
)
def test_a_file_with_a_setting_that_is_not_allowed_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "everthread.toml"
    file.write_text(text)
    with pytest.raises(BadSetting) as refused:
        resolve(from_file(file))
    assert said.format(file) in str(refused.value)
    assert refused.value.source == f"the file {file}"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"step = 1\nbudget = \n", "line 2, column 10: Invalid value", id="no value"),
        pytest.param(b"step = 1\nstep = 2\n", "line 2, column 9: Cannot overwrite a value", id="twice"),
        pytest.param(b"step = 1\nbudget = [1,\n\n", "line 2, the end: Invalid value", id="an end too soon"),
        pytest.param(b"step = 1\nmodel = '\xff'\n", "line 2: this is not UTF-8", id="other bytes"),
        pytest.param(b"a = " + b"[" * 100_000, "its values are nested too deeply", id="brackets without end"),
        pytest.param(b"a = " + b"9" * 5000, "Exceeds the limit", id="a number without end"),
        pytest.param(b"settings = 3", "settings is not a table", id="no table"),
        pytest.param(b"step = 1\n[settings]\nbudget = 5", "step stands outside its [settings] table", id="outside"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named_with_its_line(tmp_path: Path, data: bytes, why: str) -> None:
    file = tmp_path / "everthread.toml"
    file.write_bytes(data)
    with pytest.raises(BadSettingsFile) as refused:
        from_file(file)
    assert str(refused.value).startswith(f"The settings file {file} cannot be used ({why}")
    assert str(refused.value).endswith("): correct it, or name another in EVERTHREAD_CONFIG.")
    assert refused.value.path == file


@pytest.mark.parametrize(
    ("name", "why"),
    [(".", "Is a directory"), ("nowhere.toml", "No such file or directory"), ("a\0b", "embedded null byte")],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(BadSettingsFile, match=why):
        from_file(tmp_path / name)


def test_the_file_is_the_named_one_or_the_users_own(tmp_path: Path) -> None:
    named, own, home = tmp_path / "named.toml", tmp_path / "xdg/everthread/config.toml", tmp_path / "home"
    in_home = home / ".config/everthread/config.toml"
    for file in (named, own, in_home):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    everything = {"EVERTHREAD_CONFIG": str(named), "XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(home)}
    assert find_file(everything) == named
    assert find_file(everything | {"EVERTHREAD_CONFIG": ""}) == own
    assert find_file({"HOME": str(home)}) == find_file({"HOME": str(home), "XDG_CONFIG_HOME": ""}) == in_home
    assert find_file({"HOME": str(tmp_path)}) is None
    assert find_file({}) is None


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.toml")
    with pytest.raises(BadSettingsFile, match=r"missing\.toml cannot be used \(there is no such file\): .*CONFIG"):
        find_file({"EVERTHREAD_CONFIG": missing, "HOME": str(tmp_path)})
