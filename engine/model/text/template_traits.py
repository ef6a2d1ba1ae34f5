"""What a chat template takes, found out by asking it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from engine.model.text.template_sandbox import SandboxedTemplate, TemplateFailure

PROBE = "\U0010fffd"
"""Stands for a text while a template is asked; no template contains it."""
_OTHER = "\U0010fffc"
_CALL_ID = "abcdefghi"  # of nine letters, as Mistral's templates demand


class TemplateTraits:
    """Answers are kept: a template is asked once for each, when it is first wanted."""

    def __init__(self, template: SandboxedTemplate) -> None:
        self._template = template

    @cached_property
    def parts(self) -> bool:
        """Tell whether it reads contents as lists of parts only, and leaves texts out."""
        return not self._shows({"role": "user", "content": PROBE}) and self._shows(
            {"role": "user", "content": text_parts(PROBE)}
        )

    @cached_property
    def system(self) -> bool:
        """Tell whether it has a place for a system text."""
        return self._shows(
            {"role": "system", "content": self._content(PROBE)},
            {"role": "user", "content": self._content("a")},
        )

    @cached_property
    def offers(self) -> bool:
        """Tell whether it tells the model which tools there are."""
        function = {"name": PROBE, "description": _OTHER, "parameters": {"type": "object"}}
        tools = [{"type": "function", "function": function}]
        return self._shows(
            {"role": "user", "content": self._content("a")}, also=_OTHER, tools=tools
        )

    @cached_property
    def tools(self) -> bool:
        """Tell whether it renders tool calls and their results."""
        function = {"name": _OTHER, "arguments": {"a": "b"}}
        call = {"id": _CALL_ID, "type": "function", "function": function}
        return self._shows(
            {"role": "user", "content": self._content("a")},
            {"role": "assistant", "content": self._content(""), "tool_calls": [call]},
            {"role": "tool", "content": self._content(PROBE), "tool_call_id": _CALL_ID},
            also=_OTHER,
        )

    def _content(self, text: str) -> object:
        return text_parts(text) if self.parts else text

    def _shows(
        self,
        *messages: Mapping[str, object],
        also: str = "",
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> bool:
        """Return whether the probe is to be seen in the rendered messages."""
        try:
            text = self._template.render(messages, add_generation_prompt=True, tools=tools)
        except TemplateFailure:
            return False
        return PROBE in text and also in text


def text_parts(text: str) -> Sequence[Mapping[str, str]]:
    """Return a content as templates of models that see or hear take it."""
    return [{"type": "text", "text": text}]
