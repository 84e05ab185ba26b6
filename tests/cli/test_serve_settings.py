"""What is set for all users of a service is looked at when it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Do


def test_a_wrong_setting_ends_serve_before_anybody_meets_it(
    do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[settings]\nbugdet = 3\n")
    monkeypatch.setenv("EVERTHREAD_CONFIG", str(file))
    done = do("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/talk.db")
    assert done.exit_code == 1
    assert "the nearest is budget" in done.stderr
