"""A conversation's setup in words: what is not as usual, and what a temperature means."""

from __future__ import annotations

from app.history import ChatSetup
from app.settings import Settings
from engine.language import later, number, tr

_PLAIN = ChatSetup()
_NAMES = {
    "temperature": later("temperature {value}"),
    "seed": later("seed {value}"),
    "system_prompt": later("system prompt"),
    "top_k": later("top-k {value}"),
    "top_p": later("top-p {value}"),
    "min_p": later("min-p {value}"),
    "repetition_penalty": later("repetition penalty {value}"),
    "presence_penalty": later("presence penalty {value}"),
    "frequency_penalty": later("frequency penalty {value}"),
    "max_tokens": later("at most {value} tokens"),
    "thought_tokens": later("at most {value} tokens of thought"),
    "instructions": later("without custom instructions"),
}
"""Names of the settings, in the order in which they are told."""


def baseline(setup: ChatSetup, settings: Settings) -> ChatSetup:
    """Return the setup that this one started from: its preset, or the plain one."""
    preset = settings.preset(setup.preset)
    return _PLAIN if preset is None else preset.in_use()


def is_changed(setup: ChatSetup, settings: Settings) -> bool:
    """Return whether anything differs from what it started from."""
    usual = baseline(setup, settings)
    return setup.of_preset() != usual.of_preset()


def setup_words(setup: ChatSetup, settings: Settings) -> list[str]:
    """The preset's name, then everything that was changed after it was chosen."""
    preset = settings.preset(setup.preset)
    usual = baseline(setup, settings)
    parts = [] if preset is None else [preset.label]
    for name in _NAMES:
        value = getattr(setup, name)
        if value != getattr(usual, name):
            parts.append(_part(name, value))
    if not parts:
        parts = [_part("temperature", setup.temperature)]
    return [parts[0][:1].upper() + parts[0][1:], *parts[1:]]


def temperature_words(value: float) -> str:
    """Return what to expect of a temperature."""
    if value == 0:
        return tr("Always the most likely token. The same question gives the same answer.")
    if value <= 0.5:
        return tr("Stays close to the most likely words.")
    if value < 1:
        return tr("Varied, still leaning towards the likely words.")
    if value == 1:
        return tr("Varied, with the model's own probabilities.")
    return tr("Very varied; the text may become incoherent.")


def _part(name: str, value: object) -> str:
    if name == "system_prompt" and not value:
        return tr("no system prompt")
    if value is None:
        return {
            "seed": tr("a new seed each time"),
            "max_tokens": tr("no limit"),
            "thought_tokens": tr("thoughts of any length"),
        }[name]
    shown = number(value, "g") if isinstance(value, float) else f"{value}"
    return tr(_NAMES[name]).format(value=shown)
