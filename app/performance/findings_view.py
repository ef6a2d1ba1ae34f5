"""Findings on the speed, in words, with the comparison to the target alone."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QWidget

from app.performance.baseline import WithoutDraft
from app.performance.findings import Finding
from app.performance.gain import Gain
from app.theme.tokens import GAP
from app.widgets.boxes import fill, vbox
from app.widgets.card import Card, divider
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.language import sentences, tr

_MOST = 4


class FindingsView(Card):
    """The sentences, heaviest first; below them what the draft brings, and the switch for it."""

    def __init__(self, without: WithoutDraft, parent: QWidget | None = None) -> None:
        super().__init__(tr("Why this speed?"), parent=parent)
        self._without = without
        self._lines = [_Line(self) for _ in range(_MOST)]
        fill(self.column, *self._lines)
        self._nothing = plain_label("", self, "muted")
        fill(self.column, self._nothing, divider(self))
        self.comparison = plain_label("", self)
        words = tr("Measure without the draft")
        self.measure = text_button(words, self, self._measure_or_cancel)
        self.measure.setToolTip(
            tr("Answers the last question again, up to 64 tokens; this answer is not kept.")
        )
        self.beside = text_button(tr("Compare side by side"), self, self._compare)
        self.beside.setToolTip(tr("Answers the last question with and without the draft."))
        self.drafting = QCheckBox(tr("Use the draft"), self)
        self.drafting.setToolTip(tr("For the next answers; nothing is reloaded."))
        self.drafting.toggled.connect(lambda on: without.set_drafting(drafting=on))
        row = FlowLayout(self.measure, self.beside, self.drafting, spacing=2 * GAP)
        fill(self.column, self.comparison, row)
        self._gain = Gain("")
        without.changed.connect(lambda: self.show_comparison(self._gain))
        self.show_findings(())
        self.show_comparison(self._gain)

    @property
    def words(self) -> str:
        """Return all that is said about the speed."""
        return sentences(*(line.words for line in self._lines), self._nothing.text())

    def show_findings(self, found: Sequence[Finding]) -> None:
        """Say these, the first one loudest."""
        for place, line in enumerate(self._lines):
            line.show_finding(found[place] if place < len(found) else None)
        said = "" if found else tr("While an answer is written, this shows what takes time.")
        say(self._nothing, said)

    def show_comparison(self, gain: Gain) -> None:
        """Renew what is known of the speed without a draft."""
        without, self._gain = self._without, gain
        say(self.comparison, without.words(gain))
        words = tr("Cancel the measurement") if without.asked_for else None
        self.measure.setText(words or tr("Measure without the draft"))
        self.measure.setEnabled(without.measuring or without.possible)
        self.beside.setEnabled(without.possible)
        for part in (self.measure, self.beside, self.drafting):
            part.setVisible(without.has_draft)
        self.drafting.setChecked(without.drafting)

    def _compare(self) -> None:
        from app.performance.side_by_side import compare

        compare(self._without, self.window())

    def _measure_or_cancel(self) -> None:
        if self._without.asked_for:
            self._without.cancel()
        else:
            self._without.ask()


class _Line(QWidget):
    """A finding, and below it what to do."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._sentence = plain_label("", self)
        self._remedy = plain_label("", self, "muted")
        for label in (self._sentence, self._remedy):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        vbox(self._sentence, self._remedy, to=self, spacing=0, margins=0)
        self.words = ""

    def show_finding(self, finding: Finding | None) -> None:
        """Say it; nothing without one."""
        self.words = "" if finding is None else finding.words
        self.setVisible(finding is not None)
        if finding is not None:
            say(self._sentence, finding.sentence)
            say(self._remedy, finding.remedy)
