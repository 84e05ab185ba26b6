"""Google's Gemini API on the loopback interface: streamed and whole replies, and the counting of tokens.

What goes over the wire is not what the SDK is given: it moves instructions and tools out of the configuration, writes
bytes in the other alphabet of base64, and some names in snake case, which Google takes as well. So a request is brought
back to the form that the rules know, field by field, and what Google would not know is refused, not passed over.

From Gemini 3 on the first function call of a reply is signed. The signature says which model made which call
(`benchmarks.seals`); what comes back must be on that very call.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from benchmarks.caching import Spent
from benchmarks.loopback.http import Answer, Asked, Server, sse
from benchmarks.loopback.model import Books, Called, Piece, Script, Thought, limited, size_of, streamed, tokens_of
from benchmarks.seals import seal

Json = dict[str, Any]

_PATH = re.compile(r"/v1beta/models/([^/:]+):(streamGenerateContent|generateContent|countTokens)")
_BESIDE = {"systemInstruction", "tools", "toolConfig", "safetySettings", "cachedContent", "serviceTier", "store"}
_GENERATION = {
    *("stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"),
    *("candidateCount", "maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty"),
    *("frequencyPenalty", "responseLogprobs", "logprobs", "enableEnhancedCivicAnswers", "speechConfig"),
    *("thinkingConfig", "imageConfig", "mediaResolution"),
}
_OPAQUE = ("args", "response", "parametersJsonSchema", "responseJsonSchema")  # what is in them is the caller's
_BYTES = ("data", "thoughtSignature")
# What Google documents for function calls that come from elsewhere and so have no signature.
_NOBODYS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_NO_KEY = "Method doesn't allow unregistered callers. Please use API Key or other form of API consumer identity."
_WRONG_KEY = "API key not valid. Please pass a valid API key."


class Unknown(ValueError):
    """A request has a field that there is not."""


class GoogleServer(Server):
    """`script`: what the model says. `books`: what was cached and refused. `limit`: most input tokens, 0 for any."""

    def __init__(self, script: Script | None = None, *, key: str = "test-key", limit: int = 0) -> None:
        super().__init__(self._respond)
        self.script = script or Script()
        self.books = Books("google", limit=limit)
        self._key = key
        self._numbers = count(1)

    def _respond(self, asked: Asked) -> Answer:
        if (given := asked.headers.get("x-goog-api-key")) != self._key:
            return (
                _refused(400, "INVALID_ARGUMENT", _WRONG_KEY) if given else _refused(403, "PERMISSION_DENIED", _NO_KEY)
            )
        found = _PATH.fullmatch(asked.path)
        if asked.method != "POST" or not found:
            return _refused(404, "NOT_FOUND", f"Not found: {asked.method} {asked.path}")
        name, method = found.groups()
        if name.startswith("unknown"):
            said = f"models/{name} is not found for API version v1beta, or is not supported for {method}."
            return _refused(404, "NOT_FOUND", said)
        try:
            body = sdk_form(name, asked.json())
        except (msgspec.DecodeError, Unknown) as problem:
            self.books.refused.append(str(problem))
            return _refused(400, "INVALID_ARGUMENT", f"Invalid JSON payload received. {problem}")
        if method == "countTokens":
            return self._count(body)
        return self._generate(name, body, whole=method == "generateContent" or asked.query.get("alt") != "sse")

    def _count(self, body: Json) -> Answer:
        if body["config"]:
            return _refused(400, "INVALID_ARGUMENT", f"Invalid JSON payload received. {_unknown(min(body['config']))}")
        return _json(200, {"totalTokens": size_of(body)})

    def _generate(self, name: str, body: Json, *, whole: bool) -> Answer:
        spent = self.books.enter(name, body)
        if isinstance(spent, str):
            return _refused(400, "INVALID_ARGUMENT", spent)
        if self.books.limit and spent.total > self.books.limit:
            allowed = f"exceeds the maximum number of tokens allowed ({self.books.limit})."
            return _refused(400, "INVALID_ARGUMENT", f"The input token count ({spent.total}) {allowed}")
        if wrong := forged(body):
            self.books.refused += wrong
            return _refused(400, "INVALID_ARGUMENT", wrong[0])
        reply, cut = limited(self.script.next(body), body["config"].get("maxOutputTokens"))
        chunks = self._chunks(name, reply, cut, spent)
        return _json(200, _joined(chunks)) if whole else Answer(body=[sse(_written(chunk)) for chunk in chunks])

    # -- what the model says -------------------------------------------------------------------------------

    def _chunks(self, name: str, reply: list[Piece], cut: bool, spent: Spent) -> list[Json]:
        sayable = [piece for piece in reply if not isinstance(piece, Called) or _object(piece.arguments) is not None]
        used = _usage(reply, spent)
        begun = {name: used[name] for name in ("promptTokenCount", "cachedContentTokenCount") if name in used}
        common = {"modelVersion": name, "responseId": f"loopback-{next(self._numbers):08}"}
        chunks: list[Json] = [
            {
                "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
                "usageMetadata": begun,
                **common,
            }
            for parts in list(self._content(name, sayable)) or [[]]
        ]
        finish = "MAX_TOKENS" if cut else "STOP" if sayable == reply else "MALFORMED_FUNCTION_CALL"
        chunks[-1]["candidates"][0]["finishReason"] = finish
        chunks[-1]["usageMetadata"] = used
        return chunks

    def _content(self, name: str, reply: list[Piece]) -> Iterator[list[Json]]:
        """The parts of each chunk. A reply of a model that signs, without a function call, ends in a signature."""
        signs = bool(re.match(r"gemini-([3-9]|[1-9]\d)", name))
        calls: list[Json] = []
        for piece in reply:
            if isinstance(piece, Called):
                calls.append(self._call(name, piece, signs=signs, first=not calls))
                yield [calls[-1]]
            else:
                text, thought = (piece.text, {"thought": True}) if isinstance(piece, Thought) else (piece, {})
                yield from ([{"text": each, **thought}] for each in streamed(text))
        if signs and not calls:
            yield [{"text": "", "thoughtSignature": seal(f"google:{name}", "")}]

    def _call(self, name: str, call: Called, *, signs: bool, first: bool) -> Json:
        """Models that sign number their calls, too."""
        made: Json = {"name": call.name, "args": _object(call.arguments)}
        signed = {"thoughtSignature": seal(f"google:{name}", _told(made))} if signs and first else {}
        numbered = {"id": f"fc{next(self._numbers):06}"} if signs else {}
        return {"functionCall": {**numbered, **made}, **signed}


def _usage(reply: list[Piece], spent: Spent) -> Json:
    thought = tokens_of(*(piece for piece in reply if isinstance(piece, Thought)))
    said = tokens_of(*reply) - thought
    usage = {"promptTokenCount": spent.total, "candidatesTokenCount": said}
    usage |= {"cachedContentTokenCount": spent.read} if spent.read else {}
    usage |= {"thoughtsTokenCount": thought} if thought else {}
    return {**usage, "totalTokenCount": spent.total + said + thought}


def _joined(chunks: list[Json]) -> Json:
    """A reply that comes in one piece."""
    whole = chunks[-1]
    said = whole["candidates"][0]["content"]
    said["parts"] = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    return whole


def _written(chunk: Json) -> str:
    """Google escapes what is not ASCII, and with it what the SDK would take for the end of a line."""
    return json.dumps(chunk)


def _object(arguments: str) -> Json | None:
    """Google parses what the model writes; where that is no object, there is no function call in the reply."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# -- what comes back ---------------------------------------------------------------------------------------


def forged(body: Json) -> list[str]:
    """Signatures of function calls that nobody gave, or that were given to another call."""
    wrong = []
    for number, content in enumerate(body["contents"]):
        for part in content["parts"]:
            given = part.get("thoughtSignature")
            if given and "functionCall" in part and given not in _NOBODYS and not _signs(given, part["functionCall"]):
                wrong.append(f"Corrupted thought signature. (contents[{number}], {part['functionCall']['name']})")
    return wrong


def _signs(given: str, call: Json) -> bool:
    """Made-up histories have signatures that are not of any text."""
    try:
        by = base64.b64decode(given, validate=True).decode().partition(" ")[0]
    except ValueError:
        return False
    return by.startswith("google:") and given in (seal(by, _told(call)), seal(by, ""))


def _told(call: Json) -> str:
    return json.dumps([call["name"], call.get("args", {})], sort_keys=True)


# -- from the wire to the form that the SDK takes ------------------------------------------------------------


def sdk_form(name: str, wire: Any) -> Json:
    """A request as `generate_content(**body)` would take it."""
    if not isinstance(wire, dict):
        raise Unknown("The request must be an object.")
    body = _camel(wire)
    contents, generation = body.pop("contents", []), body.pop("generationConfig", {})
    if extra := [*(body.keys() - _BESIDE), *(generation.keys() - _GENERATION)]:
        raise Unknown(_unknown(min(extra)))
    return {"model": name, "contents": contents, "config": {**body, **generation}}


def _unknown(field: str) -> str:
    return f'Unknown name "{field}": Cannot find field.'


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    found: Json = {}
    for wired, each in value.items():
        name = re.sub(r"_([a-z])", lambda letter: letter[1].upper(), wired)
        if name in found:
            raise Unknown(f'"{name}" is there twice.')
        found[name] = _field(name, each)
    return found


def _field(name: str, value: Any) -> Any:
    if name in _OPAQUE:
        return value
    if name == "properties" and isinstance(value, dict):  # of a schema: the names are the caller's, the rest is not
        return {each: _camel(schema) for each, schema in value.items()}
    return _standard(value) if name in _BYTES and isinstance(value, str) else _camel(value)


def _standard(text: str) -> str:
    """Base64 in the alphabet with + and /, which is the one that the rules know; anything else as it is."""
    if text in _NOBODYS:
        return text
    try:
        return base64.b64encode(base64.b64decode(text, altchars=b"-_", validate=True)).decode()
    except (binascii.Error, ValueError):
        return text


# -- the wire ----------------------------------------------------------------------------------------------


def _json(status: int, body: Json) -> Answer:
    return Answer(status, json.dumps(body).encode())


def _refused(status: int, kind: str, said: str) -> Answer:
    return _json(status, {"error": {"code": status, "message": said, "status": kind}})
