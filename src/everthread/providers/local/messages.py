"""What a small model is told: plain messages, and two short questions where there are tools.

Small models' templates know neither tools nor results, and many insist that user and assistant take turns. So a tool
call is told together with its result, as a note in the user's message, where the model does not learn to imitate it;
messages of the same side are joined, and what the application said later on becomes part of the user's.

Whether to use a tool is asked after the user's message, so that what comes before it stays in the prompt cache. A
tiny model would take almost any tool that it is offered. It is offered only tools whose own words are in the message:
the thing that the tool is named after (`weather` of `get_weather`), or two words of its description.
"""

from __future__ import annotations

import json
import re
from typing import Any

from everthread.providers.base import BEGINS, GOES_ON

Message = dict[str, Any]
Function = dict[str, Any]

REPLY = "reply"
NONE_OF_THESE = f"- {REPLY}: none of these tools is needed; answer in words.\n"
FROM_RESULT = "Answer from this result, in one sentence."

_NOW = re.compile(r"\s*<now>[^<]*</now>\Z")
_WORD = re.compile(r"[^\W\d_]{3,}")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def for_template(messages: list[Message], *, tiny: bool) -> list[Message]:
    """The same conversation in messages that any template takes: system first, then user and assistant in turns, the
    user last. A tiny model is told to use the result that it has just got, or it makes one up. It is not told the time,
    or it talks about nothing else."""
    told: list[Message] = []
    calls: dict[str, str] = {}
    for message in messages:
        calls |= {call["id"]: _called(call["function"]) for call in message.get("tool_calls", ())}
        _add(told, _side(message, told), _content(message, calls, tiny=tiny))
    _begin_and_end_with_the_user(told)
    if tiny and messages[-1]["role"] == "tool":
        told[-1]["content"] += f"\n\n{FROM_RESULT}"
    return told


def _side(message: Message, told: list[Message]) -> str:
    """The role that a message gets. Later system messages and the results of tools become the user's."""
    if message["role"] == "system":
        return "user" if any(one["role"] != "system" for one in told) else "system"
    return "assistant" if message["role"] == "assistant" else "user"


def _content(message: Message, calls: dict[str, str], *, tiny: bool) -> str:
    content = _text(message.get("content"))
    match message["role"]:
        case "tool":
            return f"[{calls.get(message['tool_call_id'], 'A tool')} gave: {content}]"
        case "assistant":
            return content
        case _:
            return _NOW.sub("", content) if tiny else content


def _begin_and_end_with_the_user(told: list[Message]) -> None:
    after = 1 if told and told[0]["role"] == "system" else 0
    if len(told) == after or told[after]["role"] == "assistant":
        told.insert(after, {"role": "user", "content": BEGINS})
    if told[-1]["role"] == "assistant":
        told.append({"role": "user", "content": GOES_ON})


def _add(told: list[Message], role: str, content: str) -> None:
    if not content:
        return
    if told and told[-1]["role"] == role:
        told[-1]["content"] += f"\n\n{content}"
    else:
        told.append({"role": role, "content": content})


def _called(function: Function) -> str:
    return f"{function['name']}({function['arguments']})"


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n\n".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


# -- tools -------------------------------------------------------------------------------------------------


def offered(body: dict[str, Any], *, tiny: bool) -> list[Function]:
    """The tools that the model may choose from. There are none once a tool has answered in this turn, so that it never
    goes round in circles; a tiny model gets only those that the user's words point at."""
    messages = body["messages"]
    choice = body.get("tool_choice")
    if not messages or messages[-1]["role"] != "user" or choice == "none":
        return []
    functions = [tool["function"] for tool in body.get("tools", ()) if tool["function"]["name"] != REPLY]
    if must_call(body):
        return [function for function in functions if choice in ("required", _choosing(function))]
    words = _words(_text(messages[-1]["content"]))
    return [function for function in functions if not tiny or _points_at(words, function)]


def must_call(body: dict[str, Any]) -> bool:
    """Whether the model may not reply in words alone."""
    return body.get("tool_choice", "auto") not in ("auto", "none")


def _choosing(function: Function) -> dict[str, Any]:
    return {"type": "function", "function": {"name": function["name"]}}


def _points_at(words: set[str], function: Function) -> bool:
    name = _words(_HUMP.sub(" ", function["name"]).replace("_", " ").replace("-", " ")) - _VERBS
    if words & name:
        return True
    return len(words & (_words(function.get("description") or "") - _COMMON)) >= 2


def _words(text: str) -> set[str]:
    """A text's words in small letters, without the s of a plural."""
    return {word.removesuffix("s") if len(word) > 3 else word for word in _WORD.findall(text.lower())}


_VERBS = _words(
    "add all any ask call change check create delete edit fetch find for get give list load look make move new open "
    "post put query read remove run save search see send set show start stop take tell the tool update use view "
    "with write"
)
_COMMON = _VERBS | _words(
    "about after also and are been but can could did does from had has have her here him his how into its just know "
    "like more most much not now one only other our out over said same she should some than that their them then "
    "there these they thing this time too two under very want was way were what when where which while who why will "
    "would you your"
)


def choosing(
    messages: list[Message], functions: list[Function], *, must: bool = False
) -> tuple[list[Message], dict[str, Any]]:
    """The question which tool to use, if any (unless one `must` be), and the schema of its answer."""
    lines = [f"- {function['name']}: {_line(function.get('description') or '')}" for function in functions]
    question = (
        f"---\nTools:\n{chr(10).join(lines)}\n{NONE_OF_THESE * (not must)}"
        "Which one fits the message above? Answer as JSON."
    )
    names = [*([] if must else [REPLY]), *(function["name"] for function in functions)]
    return _asking(messages, question), _object({"action": {"enum": names}})


def filling(messages: list[Message], function: Function) -> tuple[list[Message], dict[str, Any]]:
    """The question with which arguments, and the schema of its answer: the tool's own."""
    schema = function.get("parameters") or _object({})
    fields = json.dumps(schema.get("properties", {}), ensure_ascii=False)
    return _asking(messages, f"---\nFill in {function['name']}, taken from the message above: {fields}"), schema


def _asking(messages: list[Message], question: str) -> list[Message]:
    *before, last = messages
    return [*before, last | {"content": f"{last['content']}\n\n{question}"}]


def _line(description: str) -> str:
    """The first sentence: a small model is only confused by more."""
    return re.split(r"(?<=[.!?])\s", " ".join(description.split()), maxsplit=1)[0]


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
