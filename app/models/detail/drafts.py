"""The drafts of a model: those that fit can be chosen, the others say why they do not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QLabel, QWidget

from app.models.badge import BadgeLabel
from app.models.model_texts import candidate_row
from app.widgets.boxes import fill, hbox, vbox
from app.widgets.button_group import keep_tab_on_checked
from app.widgets.labels import plain_label, say
from app.widgets.radio_button import RadioButton
from app.widgets.tab_order import tab_before
from engine.hub.advice import DraftCandidate, Verdict
from engine.language import number, sentences, tr

_MOST = 12
_LONGEST = 40
"""Letters of a name."""
_LEFT = 26
"""Pixel where the reason begins, below the words of a button."""


class DraftChoices(QWidget):
    """One radio button for each candidate that fits, and one for none at all."""

    changed = Signal()
    """Another draft is chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Drafts"))
        self.candidates: tuple[DraftCandidate, ...] = ()
        self.buttons: list[tuple[RadioButton, DraftCandidate | None]] = []
        self.followed_by: QWidget | None = None
        """The widget that Tab goes to behind the buttons."""
        self._group = QButtonGroup(self)
        keep_tab_on_checked(self._group)
        self._rows: list[QWidget] = []
        self._words = plain_label("", self, "muted")
        self._column = vbox(self._words, to=self, spacing=8, margins=0)

    @property
    def chosen(self) -> DraftCandidate | None:
        """The draft that is chosen; None: no draft."""
        for button, candidate in self.buttons:
            if button.isChecked():
                return candidate
        return None

    def say(self, words: str) -> None:
        """Show a sentence in the place of the candidates."""
        self._clear()
        self.candidates = ()
        say(self._words, words)

    def show_candidates(
        self,
        candidates: Sequence[DraftCandidate],
        chosen: DraftCandidate | None = None,
        *,
        none: bool = False,
    ) -> None:
        """Offer these; the first that fits is chosen, unless another one, or none, is told."""
        self._clear()
        usable = [each for each in candidates if each.verdict is not Verdict.NO]
        refused = [each for each in candidates if each.verdict is Verdict.NO]
        self.candidates = (*usable[:_MOST], *refused[:_MOST])
        about = "" if usable else tr("No matching draft is known; lookup still drafts.")
        say(self._words, about)
        for candidate in self.candidates:
            self._add(candidate)
        if usable:
            self._add_none()
        first = chosen if chosen in usable else next(iter(usable), None)
        first = None if none else first
        for button, offered in self.buttons:
            button.setChecked(offered is first)
        if self.followed_by is not None:
            tab_before(self.followed_by, [button for button, _ in self.buttons])

    def _add(self, candidate: DraftCandidate) -> None:
        fits = candidate.verdict is not Verdict.NO
        words = candidate_row(candidate)
        shortened = textwrap.shorten(words.title, _LONGEST, placeholder="\N{HORIZONTAL ELLIPSIS}")
        row = QWidget(self)
        line = hbox(spacing=8)
        if fits:
            button = RadioButton(shortened, row)
            button.setAccessibleDescription(candidate.reason)
            self._offer(button, candidate)
            line.addWidget(button)
        else:
            name = QLabel(shortened, row)
            name.setProperty("look", "muted")
            name.setContentsMargins(_LEFT, 0, 0, 0)
            line.addWidget(name)
        badge = BadgeLabel(row)
        badge.show_mark(words.mark)
        fill(line, (badge, 0, Qt.AlignmentFlag.AlignVCenter), 1)
        reason = plain_label(
            "\n".join(each for each in (words.about, _why(candidate)) if each), row
        )
        reason.setProperty("look", "small")
        reason.setContentsMargins(_LEFT, 0, 0, 0)
        vbox(line, reason, to=row, spacing=1, margins=0)
        self._keep(row)

    def _add_none(self) -> None:
        row = QWidget(self)
        button = RadioButton(tr("No draft"), row)
        self._offer(button, None)
        vbox(button, to=row, margins=0)
        self._keep(row)

    def _offer(self, button: RadioButton, candidate: DraftCandidate | None) -> None:
        self._group.addButton(button)
        button.clicked.connect(lambda _=False: self.changed.emit())
        self.buttons.append((button, candidate))

    def _keep(self, row: QWidget) -> None:
        self._rows.append(row)
        self._column.addWidget(row)
        row.show()

    def _clear(self) -> None:
        for button, _ in self.buttons:
            self._group.removeButton(button)
        for row in self._rows:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.buttons, self._rows = [], []


def _why(candidate: DraftCandidate) -> str:
    if candidate.speedup is None:
        return candidate.reason
    faster = tr("About {factor} times as fast as without.").format(
        factor=number(candidate.speedup, ".1f")
    )
    return sentences(candidate.reason, faster)
