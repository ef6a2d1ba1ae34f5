"""Chat templates are programs written by strangers: they are rendered in a process of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from engine.errors import UserFixable
from engine.language import tr
from engine.machine.sandbox import SANDBOX, LimitExceeded, QuestionFailed
from engine.machine.sandbox_process import Limit, SandboxLimits
from engine.model.text import template_renderer

MAX_SOURCE = 1 << 20
UNDATED = date(2025, 1, 1)
"""The date for templates that are asked about themselves, not about a conversation."""
SECONDS = 2.0
"""CPU time to compile a template, or to render it."""
_CHARACTERS = 1 << 20
"""Most characters that a template adds to a conversation: many more take seconds to encode."""
_CHARACTERS_PER_CHARACTER = 24
"""Most characters written per one of the conversation; JSON takes up to six for one."""


class TemplateFailure(Exception):
    """A template refused the conversation or failed on it; the message is its own."""


class TemplateDamaged(UserFixable):
    """A template does not compile."""


class SandboxedTemplate:
    """A chat template that compiles.

    Args:
        source: the template's text.
        names: variables besides messages, such as `bos_token`.
        stands_in: whether it takes the place of one that does not compile.

    Raises:
        TemplateDamaged: it does not compile.
        UserFixable: compiling it takes too long, or too much memory.
    """

    __slots__ = ("_names", "source", "stands_in")

    def __init__(
        self, source: str, names: Mapping[str, object], *, stands_in: bool = False
    ) -> None:
        if len(source) > MAX_SOURCE:
            raise _stopped(tr("is far too long"))
        self.source, self.stands_in = source, stands_in
        self._names = dict(names)
        if wrong := _within(SandboxLimits(SECONDS), template_renderer.check, source):
            raise TemplateDamaged(
                tr("The model's chat template is damaged."),
                tr("Download the model again, or choose another one."),
                str(wrong),
            )

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool,
        switches: Mapping[str, object] | None = None,
        today: date = UNDATED,
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> str:
        """Return the conversation as text; any thread may ask.

        Args:
            messages: with "role" and "content" each; contents are texts or lists of parts.
            add_generation_prompt: whether the text ends with the beginning of an answer.
            switches: further variables of the template.
            today: the date for templates that ask for one.
            tools: those that the model may call, in OpenAI's form.

        Raises:
            TemplateFailure: the template objects to the conversation, in its own words.
            UserFixable: it takes too long, grows or writes too much.
        """
        length = len(json.dumps([messages, tools], ensure_ascii=False))
        most = _CHARACTERS + _CHARACTERS_PER_CHARACTER * length
        limits = SandboxLimits(SECONDS, characters=most)
        names = {**self._names, **(switches or {}), "tools": tools}
        names["add_generation_prompt"] = add_generation_prompt
        said = _within(
            limits, template_renderer.render, self.source, messages, names, today.isoformat()
        )
        if not isinstance(said, dict) or "text" not in said:
            raise TemplateFailure(said["failure"] if isinstance(said, dict) else "")
        return str(said["text"])


def _within(limits: SandboxLimits, function: Callable[..., object], *args: object) -> object:
    try:
        return SANDBOX.ask(function, *args, limits=limits)
    except LimitExceeded as exceeded:
        raise _stopped(
            {
                Limit.TIME: tr("takes too long"),
                Limit.MEMORY: tr("grows without end"),
                Limit.LENGTH: tr("writes without end"),
                Limit.CRASH: tr("crashes"),
            }[exceeded.limit]
        ) from exceeded
    except QuestionFailed as error:
        raise TemplateFailure(str(error)) from error


def _stopped(what: str) -> UserFixable:
    return UserFixable(
        tr("The model's chat template was stopped because it {what}.").format(what=what),
        tr("Choose another model, or a copy of this one from a source you trust."),
    )
