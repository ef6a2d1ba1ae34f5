"""A model on this computer: what it is, what drafts for it, and all that can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import QProgressBar, QWidget

from app.models.detail.drafts import DraftChoices
from app.models.detail.frame import DetailFrame, Facts, breakable
from app.models.model_texts import ORIGINS, parameters_words, short_count
from app.widgets.boxes import fill, hbox, vbox
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.commands import DraftChoice
from engine.hub.advice import DraftCandidate
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.language import sentences, tr
from engine.language.units import file_size

_STEPS = 1000
_NEVER_MOVED = (ModelOrigin.BUNDLED, ModelOrigin.LM_STUDIO, ModelOrigin.OLLAMA, ModelOrigin.CACHE)


class InstalledDetail(DetailFrame):
    """Detail of a model here; one that another program keeps can also be added in two ways.

    The tab says what the buttons do.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("The chosen model"), parent)
        self.model: KeptModel | None = None
        self._in_use = False
        self._answers = True
        self._offered = False
        self._doing = ""
        self.problem = plain_label("", self, "danger")
        self.column.addWidget(self.problem)
        self.facts = Facts(self)
        self.column.addWidget(self.facts)
        self._notes_title = self.section(tr("Notes on its files"))
        self.notes = plain_label("", self, "muted")
        self.column.addWidget(self.notes)
        self._drafts_title = self.section(tr("Drafts"))
        self.drafts = DraftChoices(self)
        fill(self.column, self.drafts, 1)
        self.protected = plain_label("", self, "small")
        self.above_buttons.addWidget(self.protected)
        self.doing = plain_label("", self, "small")
        self.bar = QProgressBar(self, textVisible=False)
        self.bar.setRange(0, _STEPS)
        self.bar.setFixedHeight(4)
        self.stop_button = text_button(tr("Cancel"), self, look="choice")
        self.drafts.followed_by = self.stop_button
        self.progress = QWidget(self)
        vbox(
            hbox((self.doing, 1), self.stop_button, spacing=10),
            self.bar,
            to=self.progress,
            margins=0,
        )
        self.above_buttons.addWidget(self.progress)
        self.use_button = self.add_button(tr("Use"), look="primary")
        self.place_button = self.add_button(tr("Use in place"), look="primary")
        self.copy_button = self.add_button(tr("Copy"))
        self.copy_button.setToolTip(
            tr("Copies it to Duotail's folder, so it stays if the original is deleted.")
        )
        self.show_button = self.add_button(tr("Show in folder"))
        self.check_button = self.add_button(tr("Check"))
        self.check_button.setToolTip(tr("Reads all files and compares their hashes."))
        self.rename_button = self.add_button(tr("Rename\N{HORIZONTAL ELLIPSIS}"))
        self.move_button = self.add_button(tr("Move\N{HORIZONTAL ELLIPSIS}"))
        self.forget_button = self.add_button(tr("Remove from list"))
        self.forget_button.setToolTip(tr("Removes it from the list; its files are kept."))
        self.delete_button = self.add_button(tr("Delete\N{HORIZONTAL ELLIPSIS}"), look="danger")
        self.show_doing("", 0.0)

    def show_model(
        self, model: KeptModel, *, in_use: bool, offered: bool, answers: bool = True
    ) -> None:
        """Show another model, or another state of the same.

        Args:
            model: the model.
            in_use: True if it answers now, or drafts for the one that does.
            offered: another program has it, and it is not listed yet.
            answers: a model is loaded that a draft could draft for.
        """
        other = self.model is None or model.path != self.model.path
        self.model, self._in_use, self._offered = model, in_use, offered
        self._answers = answers
        self.title.setText(breakable(model.name))
        say(self.about, tr(ORIGINS[model.origin]))
        say(self.problem, model.problem)
        self.facts.show_facts(_facts(model))
        self._notes_title.setVisible(bool(model.notes))
        say(self.notes, "\n".join(map(_breakable_keys, model.notes)))
        if other:
            self.drafts.say(tr("Looking for drafts\N{HORIZONTAL ELLIPSIS}"))
        wanted = not model.problem and not model.head and not offered
        self._drafts_title.setVisible(wanted)
        self.drafts.setVisible(wanted)
        say(self.protected, self._protected_words())
        self._show_buttons()

    def show_drafts(
        self, candidates: Sequence[DraftCandidate], present: Path | DraftChoice | None = None
    ) -> None:
        """Show the drafts for it, or why there are none.

        Args:
            candidates: what may draft for it.
            present: what it drafts with now, where it is the model that answers.
        """
        own = self.model.draft if self.model is not None else None
        if isinstance(present, Path):
            own = present
        places = (own, own.parent) if own else ()  # of a single file, or of its folder
        chosen = next((each for each in candidates if each.path in places), None)
        here = [each for each in candidates if each.path]
        self.drafts.show_candidates(here, chosen, none=present is DraftChoice.NONE)

    def show_doing(self, words: str, share: float) -> None:
        """Show the work under way with a model, and its progress."""
        began_or_ended = bool(words) != bool(self._doing)
        self._doing = words
        self.doing.setText(words)
        self.progress.setVisible(bool(words))
        self.bar.setValue(round(share * _STEPS))
        self.bar.setAccessibleName(words)
        if began_or_ended:
            self._show_buttons()

    def _protected_words(self) -> str:
        if self._in_use:
            return tr("It is in use: load another model before you move or delete it.")
        if self.model is not None and self.model.head and not self._answers:
            return tr("Load the model first that it drafts for.")
        if self.model is not None and self.model.origin is ModelOrigin.BUNDLED:
            return tr("It comes with Duotail and cannot be deleted.")
        return ""

    def _show_buttons(self) -> None:
        model = self.model
        if model is None:
            return
        usable, idle = not model.problem, not self._doing
        bundled = model.origin is ModelOrigin.BUNDLED
        offered = self._offered
        self.use_button.setText(tr("Use as draft") if model.head else tr("Use"))
        self.use_button.setVisible(usable and not offered)
        self.use_button.setEnabled(not self._in_use and (self._answers or not model.head))
        self.place_button.setVisible(usable and offered)
        self.copy_button.setVisible(usable and offered)
        for button in (self.place_button, self.copy_button, self.check_button):
            button.setEnabled(idle)
        self.check_button.setVisible(not offered)
        self.rename_button.setVisible(not offered)
        self.move_button.setVisible(not offered and model.origin not in _NEVER_MOVED)
        self.delete_button.setVisible(not offered and not bundled)
        self.forget_button.setVisible(not offered and not bundled)
        for button in (self.move_button, self.delete_button, self.forget_button):
            button.setEnabled(idle and not self._in_use)


def _breakable_keys(note: str) -> str:
    """Return a sentence whose long names of numbers may be broken, and no other word."""
    return " ".join(breakable(word) if "_" in word else word for word in note.split(" "))


def _facts(model: KeptModel) -> tuple[tuple[str, str], ...]:
    size = joined_size(model)
    context = model.context
    return (
        (tr("Size"), size),
        (tr("Format"), "GGUF" if model.gguf else "safetensors"),
        (tr("Family"), model.family),
        (tr("Quantisation"), model.kind),
        (tr("Context"), tr("{n} tokens").format(n=short_count(context)) if context else ""),
        (tr("Licence"), model.licence or tr("not specified")),
        (tr("Source"), model.repo or ""),
        (tr("Location"), breakable(str(model.path))),
    )


def joined_size(model: KeptModel) -> str:
    """Bytes on the disk, and parameters where they are known."""
    if not model.parameters:
        return file_size(model.weight_bytes)
    words = tr("{size}, {parameters}").format(
        size=file_size(model.weight_bytes), parameters=parameters_words(model.parameters)
    )
    return sentences(words)
