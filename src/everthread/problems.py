"""The one place where the tree of errors meets HTTP: problem details (RFC 9457), and back.

    {"type": "urn:everthread:UnknownSeq", "title": "Not found", "status": 404,
     "detail": "There is no event 12 on this branch: …", "seq": 12, "last": 3}

`type` is the error's class, `detail` its sentence; what else it carries stands beside them. `error_of` makes the same
error of it again, for the client. Whatever is no error of ours is told as a fault of the service, without a word of
what was inside.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from everthread import errors
from everthread.errors import EverthreadError, StoreError

URN = "urn:everthread:"
TYPE = "application/problem+json"

# The nearest class of an error's own line decides.
STATUS: dict[str, int] = {
    "InputError": 422,
    "EventTooLarge": 413,
    "NotFound": 404,
    "Conflict": 409,
    "BeyondModel": 422,
    "MissingExtra": 501,
    "ModelError": 502,
    "Overloaded": 503,
    "Unreachable": 504,
    "StoreError": 503,
    "Corrupt": 500,
    "Full": 507,
    "LimitReached": 422,
    "BadOutput": 502,
    "TurnCancelled": 409,
    "TurnInterrupted": 503,
    "NotSignedIn": 401,
    "Forbidden": 403,
    "TooMany": 429,
    "TooManyTries": 429,
    "GoingAway": 503,
    "BadRequest": 400,
    "TooLarge": 413,
    "TooSlow": 408,
    "NoSuchMethod": 405,
    "EverthreadError": 500,
}
TITLES: dict[int, str] = {
    400: "Bad request",
    401: "Not signed in",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    422: "Not usable",
    429: "Too many",
    500: "Fault of the service",
    501: "Not installed",
    502: "Fault of the model's provider",
    503: "Not available now",
    504: "Provider out of reach",
    507: "Store full",
}
_OWN = ("type", "title", "status", "detail")


def status_of(problem: BaseException) -> int:
    return next((STATUS[cls.__name__] for cls in type(problem).__mro__ if cls.__name__ in STATUS), 500)


def problem_of(problem: BaseException) -> dict[str, Any]:
    """An error as problem details."""
    status = status_of(problem)
    told = {"title": TITLES.get(status, "Problem"), "status": status}
    if not isinstance(problem, EverthreadError):
        return {"type": "about:blank", **told, "detail": "Something went wrong in the service; its log says what."}
    kind = URN + type(problem).__name__
    if isinstance(problem, StoreError):  # whose sentences are for operators: they name servers and files
        return {"type": kind, **told, "detail": inspect.getdoc(type(problem)) or "The store cannot be used now."}
    carried = {name: value for name, value in vars(problem).items() if _is_plain(name, value)}
    return {"type": kind, **told, "detail": problem.sentence, **carried}


def _is_plain(name: str, value: object) -> bool:
    return not name.startswith("_") and name not in _OWN and isinstance(value, str | int | float | bool | None)


def error_of(told: dict[str, Any]) -> EverthreadError:
    """The error that problem details tell of; an EverthreadError where its class is not known here."""
    cls = getattr(errors, str(told.get("type", "")).removeprefix(URN), EverthreadError)
    if not (isinstance(cls, type) and issubclass(cls, EverthreadError)):
        cls = EverthreadError
    made: EverthreadError = cls.__new__(cls)
    made.args = (str(told.get("detail") or told.get("title") or "The service refused."),)
    for name, value in told.items():
        if name not in _OWN:
            setattr(made, name, value)
    return made


def body_of(problem: BaseException) -> bytes:
    return json.dumps(problem_of(problem)).encode()
