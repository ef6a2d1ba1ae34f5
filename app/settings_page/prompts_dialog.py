"""The dialog with the saved prompts, and the form for one of them."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.settings.prompts import BUILT_IN_PROMPTS, SavedPrompt
from app.settings.store import SettingsStore
from app.settings_page.library_dialog import LibraryDialog, LibraryWords
from app.settings_page.named_form import NamedForm
from engine.language import tr

_LINES = 14


class PromptForm(NamedForm[SavedPrompt]):
    """Name and text of a prompt."""

    def __init__(self, parent: QWidget | None = None) -> None:
        taken, nameless = tr("Another prompt has this name."), tr("A prompt needs a name.")
        super().__init__(SavedPrompt(""), taken, nameless, parent)
        self.text = QPlainTextEdit(self, tabChangesFocus=True)
        self.text.setFixedHeight(self.text.fontMetrics().lineSpacing() * _LINES + 18)
        about = tr(
            "Words in double braces, such as {{topic}}, are places to fill in:"
            " the Tab key goes from one to the next."
        )
        self.add_wide(tr("Text"), self.text, about)
        self.text.textChanged.connect(self._retext)

    def show_parts(self) -> None:
        """Show the text."""
        with QSignalBlocker(self.text):
            self.text.setPlainText(self.item.shown().text)

    def _retext(self) -> None:
        if self.text.toPlainText() != self.item.shown().text:
            self.take(replace(self.item.shown(), text=self.text.toPlainText()))


class PromptsDialog(LibraryDialog[SavedPrompt]):
    """The prompts that typing / in the message field offers."""

    def __init__(self, store: SettingsStore, parent: QWidget | None = None) -> None:
        words = LibraryWords(
            tr("Prompts"),
            tr("There are no prompts. New ones appear when you type / in the message field."),
            tr("New prompt"),
            tr("Brings back the prompts that came with Duotail."),
        )
        super().__init__(
            PromptForm(),
            lambda: store.value.prompts,
            lambda items: store.change(prompts=items),
            BUILT_IN_PROMPTS,
            words,
            parent,
        )
