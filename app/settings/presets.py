"""Presets: named ways of answering, kept as `[[preset]]` tables."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.history.records import ChatSetup
from app.settings.kinds import Number, SettingKind, Switch, Whole, Word
from app.settings.starter_prompt import STARTER_PROMPT
from engine.language import later, tr
from engine.request import SamplingParams


@dataclass(frozen=True, slots=True)
class PresetField:
    """A part of a setup: what it can hold, and texts for `tr`."""

    kind: SettingKind
    label: str
    about: str
    unset: str = ""
    """Text for the absence of a value, where it may have none."""


LARGEST_SEED = 2**63 - 1
"""Largest number that TOML and SQLite can hold."""

FIELDS: dict[str, PresetField] = {
    "system_prompt": PresetField(
        Word(longest=100_000),
        later("System prompt"),
        later("Instructions for the model, before the conversation: who it is, how to answer."),
    ),
    "temperature": PresetField(
        Number(0, 2),
        later("Temperature"),
        later("Higher values make answers more varied. 0: always the most likely token."),
    ),
    "top_k": PresetField(
        Whole(0, 1000),
        later("Top-k"),
        later("Samples only from this many of the most likely tokens. 0: all tokens."),
    ),
    "top_p": PresetField(
        Number(0.01, 1, 0.05),
        later("Top-p"),
        later(
            "Samples only from the most likely tokens that together have this probability. "
            "1: all tokens."
        ),
    ),
    "min_p": PresetField(
        Number(0, 1, 0.01),
        later("Min-p"),
        later("Leaves out tokens less likely than this share of the most likely one. 0: none."),
    ),
    "repetition_penalty": PresetField(
        Number(0.5, 2, 0.05),
        later("Repetition penalty"),
        later("Above 1: tokens of the prompt and the answer become less likely."),
    ),
    "presence_penalty": PresetField(
        Number(-2, 2),
        later("Presence penalty"),
        later("Above 0: tokens already in the answer become less likely."),
    ),
    "frequency_penalty": PresetField(
        Number(-2, 2),
        later("Frequency penalty"),
        later("Above 0: a token becomes less likely each time it is used."),
    ),
    "seed": PresetField(
        Whole(0, LARGEST_SEED),
        later("Seed"),
        later("The same seed gives the same answer to the same question."),
        later("A new seed each time"),
    ),
    "max_tokens": PresetField(
        Whole(1, 2**31 - 1),
        later("Maximum length"),
        later("In tokens; four tokens are about three words. “Continue” writes on."),
        later("no limit"),
    ),
    "thinking": PresetField(
        Switch(),
        later("Thinking"),
        later("For models that can think before they answer."),
        later("Model default"),
    ),
    "thought_tokens": PresetField(
        Whole(1, 2**31 - 1),
        later("Thinking budget"),
        later("In tokens. A thought that is longer is ended, and the model answers."),
        later("no limit"),
    ),
}
"""All fields that a preset sets."""
KINDS = {name: part.kind for name, part in FIELDS.items()}


@dataclass(frozen=True, slots=True)
class Preset:
    """A setup under a name. Names are unique; `setup.preset` is the name once it is in use."""

    name: str
    setup: ChatSetup = field(default=ChatSetup())
    rest: tuple[tuple[str, Any], ...] = field(default=(), compare=False, repr=False)
    """Entries of its table that a newer version of Duotail wrote."""

    @property
    def label(self) -> str:
        """The name as it is shown: Duotail's own are translated."""
        if self.name == STARTER.name:
            return tr("For small models")  # under the model's own name it is taken for the model
        own = self in BUILT_IN or self.name in (AS_BEFORE, RECOMMENDED)
        return tr(self.name) if own else self.name

    def renamed(self, name: str) -> Preset:
        """Return the same values under another name."""
        return replace(self, name=name)

    def in_use(self) -> ChatSetup:
        """The setup of a conversation that starts with this preset."""
        return replace(self.setup, preset=self.name)


PRECISE = Preset(later("Precise"))
"""Always the most likely word: the same question gives the same answer."""
BALANCED = Preset(later("Balanced"), ChatSetup(temperature=0.7, top_p=0.9, repetition_penalty=1.05))
"""Preset of models that recommend nothing.

Of 20 answers to open questions the starter model gets into a loop in 15 with `PRECISE`, in 3 with
this preset without its penalty, in 2 with it.
"""
CREATIVE = Preset(later("Creative"), ChatSetup(temperature=1.0, min_p=0.05))
STARTER = Preset(
    later("Starter model"),
    ChatSetup(STARTER_PROMPT, temperature=0.3, min_p=0.1, frequency_penalty=0.4),
)
"""Preset of a very small model, which repeats itself where the likeliest word is always taken.

A penalty on what the prompt said as well would keep it from using what the system prompt tells it.
"""
BUILT_IN = (PRECISE, BALANCED, CREATIVE, STARTER)
AS_BEFORE = later("As before")
"""Name of the preset that is made of an older version's settings."""
RECOMMENDED = later("Recommended by the model")
"""Name of the preset that is made of what the model's own files say."""


def recommended_preset(sampling: SamplingParams) -> Preset:
    """Return the preset of the sampling that a model's own files recommend."""
    values = {name: value for name, value in asdict(sampling).items() if name != "seed"}
    return Preset(RECOMMENDED, ChatSetup(**values))


@dataclass(frozen=True, slots=True)
class Presets:
    """The kind of setting that holds presets."""

    def read(self, value: object) -> tuple[Preset, ...]:
        """Return the tables that have a name; unusable values fall back to their defaults."""
        if not isinstance(value, list):
            raise ValueError(value)
        found: dict[str, Preset] = {}
        for table in value:
            if isinstance(table, dict):
                preset = _from_table(table)
                if preset is not None:
                    found.setdefault(preset.name, preset)
        return tuple(found.values())

    def write(self, value: Sequence[Preset]) -> object:
        """Return a table each, with what is not the default."""
        return [_to_table(preset) for preset in value]


def clean_name(text: object) -> str:
    """Return a usable name of a preset, or ""."""
    return " ".join(text.split())[:60] if isinstance(text, str) else ""


def _from_table(table: Mapping[str, object]) -> Preset | None:
    name = clean_name(table.get("name"))
    if not name:
        return None
    values: dict[str, Any] = {}
    for key, part in FIELDS.items():
        if key in table:
            with contextlib.suppress(ValueError):
                values[key] = part.kind.read(table[key])
    rest = tuple((key, value) for key, value in table.items() if key not in {"name", *FIELDS})
    return Preset(name, ChatSetup(**values), rest)


def _to_table(preset: Preset) -> dict[str, object]:
    values = asdict(preset.setup)
    default = asdict(ChatSetup())
    own = {name: values[name] for name in FIELDS if values[name] != default[name]}
    return {"name": preset.name} | own | dict(preset.rest)
