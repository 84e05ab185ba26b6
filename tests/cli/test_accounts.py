"""`everthread link`, `users`, `keys` and `vault`: who may use the service, from the machine itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, user
from everthread.core.accounts import operator
from everthread.server.identity import Identity, SignedIn
from tests.cli.conftest import Do
from tests.cli.terminal import ENTER, Terminal

GOOD = "correct horse battery"


@pytest.fixture
def begun(store: str) -> str:
    """A store in which somebody has said something."""

    async def begin() -> None:
        async with Everthread.open(store) as et:
            await (await et.begin(user="ana")).append(user("Walnuts."))

    asyncio.run(begin())
    return store


def found(do: Do, *arguments: str, input: str = "") -> Any:
    done = do(*arguments, "--json", input=input)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refused(do: Do, *arguments: str, input: str = "") -> str:
    done = do(*arguments, input=input)
    assert done.exit_code == 1
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def come(store: str, link: str) -> SignedIn:
    """Use a link, as the service would."""

    async def work() -> SignedIn:
        async with Everthread.open(store) as et:
            return await Identity(et.log).use_link(link.partition("#link=")[2])

    return asyncio.run(work())


# -- links ---------------------------------------------------------------------------------------------------------


def test_a_link_gives_the_first_account_and_works_once(do: Do, begun: str) -> None:
    done = do("link", "--force")
    assert done.stdout.startswith("http://127.0.0.1:8321/#link=evl_")
    assert "'ana' has the first account" in done.stderr
    came = come(begun, done.stdout.strip())
    assert (came.caller.user, came.caller.role) == ("ana", "administrator")
    again = found(do, "link", "--force", "--address", "https://talk.example/")
    assert again["link"].startswith("https://talk.example/#link=evl_")
    assert (again["user"], again["holds"]) == ("ana", "ten minutes")
    assert "There is no account 'bob'" in refused(do, "link", "--force", "--user", "bob")


def test_a_link_is_printed_to_a_terminal_only_and_otherwise_not_even_made(do: Do, begun: str) -> None:
    for arguments in (["link"], ["link", "--json"], ["users", "--invite", "bob"]):
        assert "say --force" in refused(do, *arguments)
    assert found(do, "users") == []
    assert found(do, "users", "--audit") == []
    with Terminal("link", "--store", begun, "--user", "ana", columns=120) as terminal:
        link = terminal.expect("/#link=evl_")
        terminal.expect("within ten minutes")
    assert "127.0.0.1" in link


def test_an_invitation_gives_an_account_with_its_role(do: Do, begun: str) -> None:
    invited = found(do, "link", "--invite", "bob", "--force", "--role", "administrator")
    assert (invited["user"], invited["holds"]) == ("bob", "a week")
    assert come(begun, invited["link"]).caller.role == "administrator"
    assert "There is an account 'bob' already" in refused(do, "users", "--invite", "bob", "--force")
    other = do("users", "--invite", "eve", "--force").stdout.strip()
    assert come(begun, other).caller.role == "user"


def test_the_first_link_makes_a_new_store_as_the_first_start_does(do: Do, store: str, tmp_path: Path) -> None:
    assert "say --force" in refused(do, "link")
    assert not (tmp_path / "talk.db").exists()
    done = do("link", "--force")
    assert done.exit_code == 0, done.output
    assert f"A new store was made at {store}." in " ".join(done.stderr.split())
    assert come(store, done.stdout.strip()).caller.role == "administrator"
    assert "A new store" not in do("link", "--force").stderr


def test_to_invite_somebody_makes_no_store(do: Do, store: str, tmp_path: Path) -> None:
    told = refused(do, "link", "--invite", "bob", "--force")
    assert told.startswith(f"Error: There is no store at {store}")
    assert not (tmp_path / "talk.db").exists()


# -- users ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def people(do: Do, begun: str) -> str:
    """An administrator, ana, and a user, bob."""
    for arguments in (["link"], ["users", "--invite", "bob"]):
        come(begun, do(*arguments, "--force").stdout.strip())
    return begun


def test_users_are_listed_and_changed(do: Do, people: str) -> None:
    assert [(one["user"], one["role"]) for one in found(do, "users")] == [("ana", "administrator"), ("bob", "user")]
    assert found(do, "users", "--change", "bob", "--role", "administrator")[0]["role"] == "administrator"
    assert found(do, "users", "--disable", "bob")[0]["disabled"]
    assert "disabled just now" in do("users").stdout
    assert found(do, "users", "--enable", "bob")[0]["disabled"] is None
    assert found(do, "users", "--sign-out", "bob")[0]["user"] == "bob"
    found(do, "users", "--change", "bob", "--role", "user")
    assert "is the last administrator" in refused(do, "users", "--disable", "ana")
    assert "There is no account 'eve'" in refused(do, "users", "--sign-out", "eve")
    assert {one["act"] for one in found(do, "users", "--audit")} == {
        *("link", "invite", "change_role", "disable", "enable", "sign_out"),
    }
    shown = do("users", "--audit").stdout
    assert "operator" in shown
    assert "change_role" in shown


def test_a_password_is_piped_in_or_asked_for_twice_and_never_shown(do: Do, people: str) -> None:
    [one] = found(do, "users", "--password", "bob", input=f"{GOOD}\n")
    assert one["has_password"]
    assert "fewer than 10 characters" in refused(do, "users", "--password", "bob", input="short\n")
    assert "piped in as one line" in refused(do, "users", "--password", "bob", input="")
    with Terminal("users", "--password", "bob", "--store", people, columns=120) as terminal:
        terminal.expect("Password:")
        terminal.press("another horse battery" + ENTER)
        terminal.expect("Repeat for confirmation:")
        terminal.press("another horse battery" + ENTER)
        terminal.expect("active")
        assert "horse" not in terminal.shown

    async def work() -> str:
        async with Everthread.open(people) as et:
            return (await Identity(et.log).sign_in("default", "bob", "another horse battery")).caller.user

    assert asyncio.run(work()) == "bob"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["users", "--disable", "ana", "--enable", "ana"], "one of them at a time"),
        (["users", "--role", "user"], "given with --invite or --change"),
        (["users", "--change", "ana"], "given with --role"),
        (["users", "--enter", "bob"], "given with --enter"),
        (["users", "--why", "because"], "given with --enter"),
        (["keys", "--days", "3"], "given with --make"),
        (["keys", "--make", "x", "--application", "shop", "--user", "bob"], "--users PREFIX"),
        (["keys", "--make", "x", "--users", "shop-"], "given with --application"),
        (["keys", "--revoke", "x"], "at least 4 characters"),
        (["keys", "--revoke", "nothing"], "There is no API key 'nothing'"),
        (["keys", "--make", "x", "--user", "nobody"], "There is no account 'nobody'"),
        (["vault", "--rotate", "--new-key"], "one of them at a time"),
        (["vault", "--put", "openai"], "piped in as one line"),
    ],
)
def test_what_makes_no_sense_is_told(do: Do, people: str, arguments: list[str], said: str) -> None:
    assert said in refused(do, *arguments)


def test_an_operator_enters_by_a_link_and_the_audit_says_why(do: Do, people: str) -> None:
    asked = ["users", "--enter", "bob", "--why", "ticket 17"]
    assert "say --force" in refused(do, *asked)
    done = do(*asked, "--force")
    assert "It shows what 'bob' sees, for a quarter of an hour." in done.stderr
    token = done.stdout.strip().partition("#link=")[2]

    async def work() -> tuple[str, str, tuple[str, ...]]:
        async with Everthread.open(people) as et:
            caller = (await Identity(et.log).entered(token)).caller
            return caller.user, caller.entered_by, caller.scopes

    assert asyncio.run(work()) == ("bob", "an operator", ("read",))
    newest = found(do, "users", "--audit")[0]
    assert (newest["act"], newest["user"], newest["about"]) == ("enter", "bob", "read: ticket 17")


def test_an_empty_store_is_told_what_to_do(do: Do, begun: str) -> None:
    assert "`everthread link` gives the first" in do("users").stdout
    assert "`--make LABEL` makes one" in do("keys").stdout
    assert "`--put PROVIDER` keeps one" in do("vault").stdout


# -- keys ----------------------------------------------------------------------------------------------------------


def test_keys_are_made_listed_and_revoked(do: Do, people: str) -> None:
    made = do("keys", "--make", "laptop")
    secret = made.stdout.strip()
    assert secret.startswith("evk_")
    assert "will not be shown again" in made.stderr
    asked = ["--application", "shop", "--users", "shop-", "--scope", "read", "--scope", "forget", "--days", "3"]
    app = found(do, "keys", "--make", "web", *asked)
    assert (app["application"], app["users"], app["scopes"]) == ("shop", "shop-", ["read", "forget"])
    listed = do("keys")
    assert secret not in listed.stdout
    assert app["secret"] not in listed.stdout
    assert "application shop shop-" in listed.stdout
    assert {one["label"] for one in found(do, "keys")} == {"laptop", "web"}
    assert found(do, "keys", "--revoke", app["id"][-8:].lower())[0]["revoked"]
    assert "revoked just now" in do("keys").stdout

    async def work() -> str:
        async with Everthread.open(people) as et:
            return (await Identity(et.log).caller_of_key(secret)).user

    assert asyncio.run(work()) == "ana"


def test_no_export_has_any_of_it(do: Do, people: str, tmp_path: Path) -> None:
    do("users", "--password", "ana", input=f"{GOOD}\n")
    made = found(do, "keys", "--make", "a label of its own")
    do("vault", "--put", "openai", input="sk-walnut-0123456789-abcd\n")
    exported = do("export", "--all")
    assert "Walnuts." in exported.stdout
    for text in ("argon2", "a label of its own", made["id"], "provider_key", "administrator"):
        assert text not in exported.stdout


# -- the vault -----------------------------------------------------------------------------------------------------


def test_keys_for_providers_are_kept_shown_by_their_end_and_encrypted_anew(do: Do, people: str, home: Path) -> None:
    [one] = found(do, "vault", "--put", "openai", input="sk-walnut-0123456789-abcd\n")
    assert (one["provider"], one["ends"], one["usable"]) == ("openai", "abcd", True)
    assert (home / ".config" / "everthread" / "vault.key").stat().st_mode & 0o777 == 0o600
    assert found(do, "vault", "--new-key") == {"encrypted": 1}
    assert "0 keys encrypted anew" in do("vault", "--rotate").stderr
    assert "…abcd" in do("vault").stdout
    (home / ".config" / "everthread" / "vault.key").unlink()
    assert "cannot be opened" in do("vault").stdout
    assert found(do, "vault", "--remove", "openai") == []


# -- without the extra ---------------------------------------------------------------------------------------------

WITHOUT = """
import sys
for name in ("argon2", "cryptography", "starlette"):
    sys.modules[name] = None
from everthread.cli import main
main()
"""


def test_without_the_packages_of_the_service_help_is_given_and_the_commands_say_what_is_missing(begun: str) -> None:
    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    helped = ran("--help")
    assert helped.returncode == 0
    assert "one-time link" in helped.stdout
    for arguments in (["link", "--force"], ["users"], ["keys"], ["vault"]):
        done = ran(*arguments)
        assert done.returncode == 1
        assert "pip install 'everthread[server]'" in " ".join(done.stderr.split())


def test_what_is_done_on_the_machine_is_done_as_the_operator(do: Do, people: str) -> None:
    async def work() -> set[str]:
        async with Everthread.open(people) as et:
            return {one.by for one in await Identity(et.log).audit(operator("default"))}

    assert asyncio.run(work()) == {""}
