"""Card with all modes and drafts, what each should come to, and why the plan is so."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QLabel, QToolButton, QWidget

from app.engine_link.plan_texts import mode_name
from app.theme.fonts import scaled
from app.tuning.draft_list import DraftList
from app.tuning.mode_list import ModeList
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import fill, hbox, vbox
from app.widgets.card import SIDE, Card, divider
from app.widgets.labels import part_title, plain_label
from engine.events import PlanSummary
from engine.language import tr

_SIDE_BY_SIDE = 700
"""Narrower than so many logical pixels, the drafts go below the modes."""
_GAP = 32


class ModeCard(Card):
    """The lists of the panel with numbers from a preview."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Mode and draft"), "", parent)
        self.modes = ModeList(self)
        self.drafts = DraftList(self)
        self.reasons = Reasons(self)
        self._lists = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._lists.setSpacing(_GAP)
        for title, part, stretch in (
            (tr("Mode"), self.modes, 3),
            (tr("Draft"), self.drafts, 2),
        ):
            self._lists.addLayout(vbox(part_title(title, part), part, 1, spacing=8), stretch)
        self.column.setSpacing(16)
        fill(self.column, self._lists, divider(self), self.reasons)

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through, in order."""
        return [
            *(row.button for row in self.modes.rows.values()),
            self.modes.others,
            *(row.button for row in self.drafts.rows.values()),
            self.drafts.folder_button,
            self.drafts.file_button,
            self.reasons.more,
        ]

    def show_choice(self, choice: RunChoice) -> None:
        """Show what is chosen, and what each choice should come to."""
        self.modes.show_choice(choice)
        if self.drafts.show_choice(choice):
            for first, second in pairwise(self.stops):
                QWidget.setTabOrder(first, second)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side by side or one above the other."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        width = self.width() - 2 * SIDE
        beside = width >= scaled(_SIDE_BY_SIDE)
        direction = QBoxLayout.Direction
        self._lists.setDirection(direction.LeftToRight if beside else direction.TopToBottom)
        modes = (width - _GAP) * 3 // 5 if beside else width
        drafts = (width - _GAP) * 2 // 5 if beside else width
        for row in self.modes.rows.values():
            row.fit(modes - row.room_for_note)
        self.drafts.fit(drafts)


class Reasons(QWidget):
    """Reasons of a plan: the first one, the others when they are asked for."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._plan: PlanSummary | None = None
        self._planning = False
        self.title = QLabel(self)
        self.title.setProperty("look", "title")
        self.words = plain_label("", self, "muted")
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.more = QToolButton(self)
        self.more.setProperty("look", "quiet")
        self.more.setCheckable(True)
        self.more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.more.toggled.connect(lambda _on: self._show())
        vbox(hbox((self.title, 1), self.more, spacing=8), self.words, to=self, spacing=6, margins=0)

    def show_plan(self, plan: PlanSummary | None, *, planning: bool = False) -> None:
        """Show the reasons of a plan; faint while another mode or draft is being planned."""
        if plan is None or plan != self._plan or planning is not self._planning:
            self._plan, self._planning = plan, planning
            self._show()

    def _show(self) -> None:
        plan = self._plan
        reasons = () if plan is None else plan.reasons
        self.setVisible(bool(reasons))
        if plan is None or not reasons:
            return
        why = tr("Why {mode}").format(mode=mode_name(plan.mode))
        self.title.setText(tr("Planning…") if self._planning else why)
        self.words.setEnabled(not self._planning)
        every = self.more.isChecked()
        self.words.setText("\n".join(reasons if every else reasons[:1]))
        self.more.setVisible(len(reasons) > 1)
        self.more.setText(tr("Fewer reasons") if every else tr("All reasons"))
        self.more.setAccessibleName(self.more.text())
        self.setAccessibleName(self.title.text())
        self.setAccessibleDescription(self.words.text())
