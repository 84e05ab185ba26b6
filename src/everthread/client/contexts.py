"""A context that a service has built: all that the library's says of itself, without what it was made from."""

from __future__ import annotations

from typing import Any

from everthread.config import Settings
from everthread.context import build
from everthread.context.explain import Explanation
from everthread.context.frozen import FrozenContext
from everthread.context.output import Output, of_setting
from everthread.core.branches import Line
from everthread.core.values import form_of
from everthread.errors import BadValue, BeyondModel
from everthread.providers.models import Model

OWN = (
    *("model", "strategy", "budget", "estimate", "over_budget", "cutoff", "sent", "past", "at", "notes", "forgotten"),
    *("memory", "factor", "window", "place", "agent", "degraded", "repaired"),
)


class Context(build.Context):
    """What the model is told at one moment, as one provider request, and the account of it."""

    def __init__(self, frozen: FrozenContext, line: Line, output: Output | None) -> None:
        self._frozen, self._line, self._output = frozen, line, output
        for name in OWN:
            setattr(self, name, getattr(frozen, name))

    @property
    def request(self) -> dict[str, Any]:
        """The provider's request body, ready for its SDK. BeyondModel: it is more than the model can take."""
        if self._frozen.request is None:
            reply = self.settings.reply_tokens
            raise BeyondModel(self.model, needed=self.estimate, limit=max(0, self.window - reply), reply=reply)
        return self._frozen.request

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._frozen.settings

    @property
    def inputs(self) -> dict[str, Any]:
        """The settings, instructions and tools of the request, which the log alone does not tell."""
        return self._frozen.inputs

    @property
    def line(self) -> Line:
        """The branch that it was built from."""
        return self._line

    @property
    def redacted(self) -> bool:
        """Whether something in it is only a tombstone."""
        return self._frozen.redacted

    @property
    def canonical(self) -> int:
        """The size of the request before the model's factor: what usage is compared with."""
        return self._frozen.canonical

    @property
    def about(self) -> Model:
        """What is known of the model."""
        return self._frozen.about

    def parse(self, text: str) -> Any:
        """The value that a reply spells, as `output` asks for it. BadOutput: it is not that."""
        output = self._output or of_setting(self.settings.output)
        if output is None:
            raise BadValue("output", None, "given to `talk.context`, for there to be something to parse a reply by")
        return output.parse(text)

    def explain(self) -> Explanation:
        """Sections, turns in and out and why, tokens, predicted cache read and price."""
        return self._frozen.explanation

    def _form(self) -> dict[str, Any]:
        return form_of(self._frozen)
