"""The master keys, with which providers' keys and the keys of archives are sealed: from EVERTHREAD_VAULT_KEY, else
from a file that is neither in the database nor in its back-ups: `vault.key` in the configuration folder, for this
account alone (0600), made when it is first needed.

Both hold one key or several, newest first, as 43 characters of base64 each (32 bytes): the newest seals, all open. A
key is known by its id, which is a hash of it and tells nothing about it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from everthread.errors import NoVaultKey
from everthread.store.private_files import FILE, make_folders, sync_folder

VARIABLE = "EVERTHREAD_VAULT_KEY"
BYTES = 32
OTHERS = 0o077  # the rights of anybody but the file's owner
REMEDY = f"set {VARIABLE} to the master key, or bring back the file vault.key"

MasterKeys = dict[str, bytes]  # by their ids, newest first


def new_key() -> str:
    """A master key, as it is written into the variable or the file."""
    return base64.urlsafe_b64encode(secrets.token_bytes(BYTES)).decode().rstrip("=")


def path_of(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
    return Path(base) / "everthread" / "vault.key"


def read(environ: Mapping[str, str], *, make: bool = False) -> MasterKeys:
    """The master keys there are. `make`: one, where there is none. NoVaultKey: they cannot be used."""
    if given := environ.get(VARIABLE, "").strip():
        return _parsed(given, VARIABLE)
    path = path_of(environ)
    if not path.exists():
        if not make:
            return {}
        _make(path)
    _check_private(path)
    return _parsed(path.read_text("ascii", "replace"), str(path))


def put_first(environ: Mapping[str, str]) -> str:
    """Write a new key before the others into the file; its id. NoVaultKey: the environment has them."""
    if environ.get(VARIABLE, "").strip():
        raise NoVaultKey(f"the master key is in {VARIABLE}: put a new one before it there, with a space between")
    path, before = path_of(environ), read(environ, make=True)
    added = new_key()
    written = [added, *(base64.urlsafe_b64encode(key).decode().rstrip("=") for key in before.values())]
    fresh = _written(path, "\n".join(written) + "\n")
    os.replace(fresh, path)
    sync_folder(path.parent)
    return next(iter(_parsed(added, str(path))))


def _make(path: Path) -> None:
    """A file with a new key, unless another process has just made one: it is whole before it has its name, and both are
    on disk before anything is sealed with it."""
    new = [one for one in (path.parent, *path.parent.parents) if not one.is_dir()]
    make_folders(path.parent)
    for folder in reversed(new):
        sync_folder(folder.parent)
    fresh = _written(path, new_key() + "\n")
    try:
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
    sync_folder(path.parent)


def _written(path: Path, text: str) -> Path:
    """A file beside another that nobody else can read or has opened before."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return fresh


def _check_private(path: Path) -> None:
    if os.name == "posix" and path.stat().st_mode & OTHERS:
        raise NoVaultKey(f"other accounts have rights to {path}: chmod 600 it")


def _parsed(text: str, where: str) -> MasterKeys:
    keys = [_bytes_of(one, where) for one in text.replace(",", " ").split()]
    if not keys:
        raise NoVaultKey(f"{where} holds no key")
    return {id_of(key): key for key in keys}


def _bytes_of(written: str, where: str) -> bytes:
    try:
        key = base64.b64decode(written.rstrip("=") + "=", altchars=b"-_", validate=True)
    except ValueError:
        key = b""
    if len(key) != BYTES:
        raise NoVaultKey(f"what {where} holds is not a key: it must be {BYTES} bytes as base64 with - and _")
    return key


def id_of(key: bytes) -> str:
    return hashlib.sha256(b"everthread vault key\0" + key).hexdigest()[:16]
