"""Settings over HTTP: unknown names are refused, the budget that is told is the one in force, and a tenant's default
model is one that it has a key for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread
from everthread.core.accounts import operator
from tests.server.serving import Served

HERE = "/api/conversations"


async def test_a_setting_that_there_is_not_is_refused_with_the_nearest_there_is(served: Served) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, "Hello.", settings={"budget": 5_000})
    for method, path, more in (("PUT", f"{HERE}/{id}/settings", {}), ("POST", HERE, {"agent": "helper"})):
        body = {**more, "settings": {"bugdet": 3, "strategy": "budget"}}
        refused = await served.http.request(method, path, json=body, headers=ana.bearer)
        assert refused.status_code == 422, refused.text
        assert refused.json()["type"] == "urn:everthread:BadSetting"
        assert "bugdet is 3" in refused.json()["detail"]
        assert "the nearest is budget" in refused.json()["detail"]
    still = await served.http.get(f"{HERE}/{id}", headers=ana.bearer)
    assert still.json()["conversation"]["settings"] == {"budget": 5_000}
    taken = await served.http.put(f"{HERE}/{id}/settings", json={"settings": {"budget": 600}}, headers=ana.bearer)
    assert taken.status_code == 204


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"model": "local:smollm2"}, id="the model's own, where none is set"),
        pytest.param({"model": "local:smollm2", "budget": 1_500}, id="what is set"),
        pytest.param({"model": "openai:gpt-4o", "budget": 0}, id="the model's window, where it is lifted"),
        pytest.param({"model": "openai:gpt-4", "budget": 90_000}, id="the model's window, where it is less"),
        pytest.param({"model": "openai:gpt-4o", "model_window": 9_000}, id="a window that is set"),
        pytest.param({"model": "openai:gpt-5"}, id="the usual one"),
    ],
)
async def test_the_budget_that_is_told_is_the_one_that_a_context_has(served: Served, given: dict[str, Any]) -> None:
    ana = served.people["ana"]
    id = await served.begin(ana, "Hello.", settings=given)
    told = (await served.http.get(f"{HERE}/{id}/settings", headers=ana.bearer)).json()
    talk = await served.service.et.conversation(user="ana", tenant=ana.tenant, id=id)
    assert told["settings"]["budget"] == (await talk.context()).budget
    own = told["settings"]["budget"] == given.get("budget")
    assert ("model" in told["source_of"]["budget"]) is (not own and told["settings"]["budget"] != 100_000)


async def test_a_tenants_default_model_is_one_that_it_has_a_key_for(
    address: str, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("EVERTHREAD_SERVERS", "")
    for name in ("EVERTHREAD_VAULT_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "EVERTHREAD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operators")
    from everthread.server.serve import Options, opened

    async with opened(Options(store=address)) as service:
        acme, other = f"acme-{someone}", f"other-{someone}"
        await service.vault.put(operator(acme), "anthropic", "sk-ant-0123456789-abcd")
        et: Everthread = service.et
        chosen = await et.default_model(tenant=acme)
        assert chosen.model == "anthropic:claude-sonnet-4-6"
        assert "anthropic" in chosen.why
        assert (await et.default_model(tenant=other)).model == "openai:gpt-5"
        talk = await et.begin(user="ana", tenant=acme)
        assert (await talk.context()).model == "anthropic:claude-sonnet-4-6"
        assert (await (await et.begin(user="ana", tenant=other)).context()).model == "openai:gpt-5"


async def test_a_service_tells_each_its_own(served: Served) -> None:
    found = await served.http.get("/api/default-model", headers=served.people["ana"].bearer)
    assert found.status_code == 200, found.text
    assert found.json()["model"]
