"""Saved prompts: texts under a name, kept as `[[prompt]]` tables. Typing / offers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.settings.presets import clean_name
from engine.language import later, tr

PLACEHOLDER = r"\{\{[^{}\n]{1,60}\}\}"
"""Regular expression for a place that is filled in by hand, such as {{text}}."""


@dataclass(frozen=True, slots=True)
class SavedPrompt:
    """A text under a name. Names are unique."""

    name: str
    text: str = ""

    @property
    def label(self) -> str:
        """The name as it is shown: Duotail's own prompts are translated."""
        return self.shown().name

    def shown(self) -> SavedPrompt:
        """Return the prompt in the user's language, if it is one of Duotail's own."""
        if self in BUILT_IN_PROMPTS:
            return SavedPrompt(tr(self.name), tr(self.text))
        return self

    def renamed(self, name: str) -> SavedPrompt:
        """Return its text, in the user's language, under another name."""
        return SavedPrompt(name, self.shown().text)


BUILT_IN_PROMPTS = (
    SavedPrompt(
        later("Summarize"),
        later("Summarize this text in three sentences, then list its key points:\n\n{{text}}"),
    ),
    SavedPrompt(
        later("Explain"),
        later("Explain {{topic}} in plain words, with one example from everyday life."),
    ),
    SavedPrompt(
        later("Improve writing"),
        later(
            "Improve the wording of this text. Keep its meaning, tone and language, then list what"
            " you changed:\n\n{{text}}"
        ),
    ),
    SavedPrompt(later("Translate"), later("Translate into {{language}}:\n\n{{text}}")),
    SavedPrompt(
        later("Review code"),
        later(
            "Review this code. Name mistakes first, then what could be simpler, and show the"
            " corrected code:\n\n```\n{{code}}\n```"
        ),
    ),
    SavedPrompt(
        later("Write an email"),
        later("Write a short, friendly email to {{recipient}} about {{subject}}."),
    ),
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The kind of setting that holds saved prompts."""

    def read(self, value: object) -> tuple[SavedPrompt, ...]:
        """Return the tables that have a name of their own and a text."""
        if not isinstance(value, list):
            raise ValueError(value)
        found: dict[str, SavedPrompt] = {}
        for table in value:
            if isinstance(table, dict):
                name, text = clean_name(table.get("name")), table.get("text")
                if name and isinstance(text, str):
                    found.setdefault(name, SavedPrompt(name, text))
        return tuple(found.values())

    def write(self, value: Sequence[SavedPrompt]) -> object:
        """Return a table each."""
        return [{"name": prompt.name, "text": prompt.text} for prompt in value]
