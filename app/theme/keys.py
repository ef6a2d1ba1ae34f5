"""Keys as the keyboard in front of the user names them: "Ctrl+K", on a German one "Strg+K"."""

from __future__ import annotations

from PySide6.QtGui import QKeySequence

from engine.language import tr


def key_words(keys: str) -> str:
    """The name of a combination such as "Ctrl+K"."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def with_keys(words: str, keys: str) -> str:
    """Return the name of an action with the keys that do it too."""
    return tr("{words} ({keys})").format(words=words, keys=key_words(keys))
