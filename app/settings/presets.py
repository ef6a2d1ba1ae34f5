"""Presets: named ways of answering, kept as `[[preset]]` tables."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.history.records import ChatSetup
from app.settings.kinds import Kind, Number, Switch, Whole, Word
from engine.language import later, tr

KINDS: dict[str, Kind] = {
    "system_prompt": Word(longest=100_000),
    "temperature": Number(0, 2),
    "top_k": Whole(0, 1000),
    "top_p": Number(0.01, 1, 0.05),
    "min_p": Number(0, 1, 0.01),
    "repetition_penalty": Number(0.5, 2, 0.05),
    "presence_penalty": Number(-2, 2),
    "frequency_penalty": Number(-2, 2),
    "seed": Whole(0, 2**63 - 1),
    "max_tokens": Whole(1, 2**31 - 1),
    "thinking": Switch(),
}
"""What each field of a preset's setup can hold."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A setup under a name. Names are unique; `setup.preset` is the name once it is in use."""

    name: str
    setup: ChatSetup = field(default=ChatSetup())
    rest: tuple[tuple[str, Any], ...] = field(default=(), compare=False, repr=False)
    """What a newer version of Duotail wrote into its table."""

    @property
    def label(self) -> str:
        """The name as it is shown: those that came with Duotail are translated."""
        return tr(self.name) if self in BUILT_IN else self.name

    def in_use(self) -> ChatSetup:
        """The setup of a conversation that starts with this preset."""
        return replace(self.setup, preset=self.name)


PRECISE = Preset(later("Precise"))
"""Always the most likely word: the same question gives the same answer."""
BALANCED = Preset(later("Balanced"), ChatSetup(temperature=0.7, top_p=0.95))
CREATIVE = Preset(later("Creative"), ChatSetup(temperature=1.0, min_p=0.05))
BUILT_IN = (PRECISE, BALANCED, CREATIVE)


@dataclass(frozen=True, slots=True)
class Presets:
    """The kind of setting that holds presets."""

    def read(self, value: object) -> tuple[Preset, ...]:
        """Every table that has a name; what is unusable in one falls back to its default."""
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
        """One table each, with what is not the default."""
        return [_to_table(preset) for preset in value]


def clean_name(text: object) -> str:
    """A usable name of a preset, or ""."""
    return " ".join(text.split())[:60] if isinstance(text, str) else ""


def _from_table(table: Mapping[str, object]) -> Preset | None:
    name = clean_name(table.get("name"))
    if not name:
        return None
    values: dict[str, Any] = {}
    for key, kind in KINDS.items():
        if key in table:
            with contextlib.suppress(ValueError):
                values[key] = kind.read(table[key])
    rest = tuple((key, value) for key, value in table.items() if key not in {"name", *KINDS})
    return Preset(name, ChatSetup(**values), rest)


def _to_table(preset: Preset) -> dict[str, object]:
    values = asdict(preset.setup)
    default = asdict(ChatSetup())
    own = {name: values[name] for name in KINDS if values[name] != default[name]}
    return {"name": preset.name} | own | dict(preset.rest)
