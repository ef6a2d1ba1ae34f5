"""Conversations into files and out of them, beside the window."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.history import Conversation


class Format(StrEnum):
    """What an export is written as; the value is the ending of the file."""

    MARKDOWN = "md"
    JSON = "json"


class Transfer(QObject):
    """Exports and imports, one at a time."""

    said = Signal(str)
    """What was done, in a sentence."""
    problem = Signal(object)
    """A `UserFixable`."""
    progressed = Signal(str, int)
    """What is going on and how far it is, in percent; an empty text: nothing any more."""

    def choose_export(self, conversations: Sequence[Conversation], form: Format) -> None:
        """Ask for a file or folder, and write there."""

    def choose_import(self) -> None:
        """Ask for files, and read them."""

    def import_files(self, paths: Sequence[Path]) -> None:
        """Take the conversations in these files into the history."""
