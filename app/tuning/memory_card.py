"""Card on the memory that the model may use: of a GPU, and for the conversation."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QWidget

from app.engine_link.plan_texts import accelerator_of
from app.engine_link.running import RunWish
from app.tuning.budget.model import BudgetModel
from app.tuning.budget.view import BudgetView
from app.tuning.budget.wording import without_card
from app.widgets.card import Card, divider
from app.widgets.labels import LabelledRow, plain_label
from app.widgets.painted import SIDE
from engine.commands import Mode
from engine.events import PlanSummary
from engine.language import number, tr
from engine.language.units import memory
from engine.machine.facts import Machine

_SMALLEST = 1024


class MemoryCard(Card):
    """The budget's pictures with Auto and Lock, and a list of context lengths."""

    vram_chosen = Signal(object)
    """Bytes, or None for Auto; at every step of a drag."""
    context_chosen = Signal(object)
    """Tokens, or None."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Memory"), "", parent)
        self.budget = BudgetView(self)
        self.note = plain_label("", self, "muted")
        self.note.setContentsMargins(SIDE, 0, SIDE, 0)
        self.auto_button = _choice(tr("Auto"), self)
        self.auto_button.setToolTip(tr("As much graphics memory as is useful, and no more"))
        self.lock_button = _choice(tr("Lock"), self)
        self.lock_button.setToolTip(tr("Keep this budget, whatever else changes"))
        self._choices = QWidget(self)
        row = QHBoxLayout(self._choices)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        for button in (self.auto_button, self.lock_button):
            row.addWidget(button)
        self.add_beside_title(self._choices)
        self.context = ContextBox(self)
        self.context_row = LabelledRow(
            tr("Room for the conversation"),
            tr("How much the model can keep in mind at once. More room takes more memory."),
            self.context,
            self,
        )
        if (inside := self.context_row.layout()) is not None:
            inside.setContentsMargins(SIDE, 4, SIDE, 0)
        self.column.setSpacing(12)
        self.column.addWidget(self.note)
        self.column.addWidget(self.budget)
        self.column.addWidget(divider(self))
        self.column.addWidget(self.context_row)
        self.auto_button.clicked.connect(lambda _=False: self._let_go())
        self.lock_button.clicked.connect(lambda _=False: self._lock())
        self.budget.ceiling_changed.connect(self.vram_chosen)
        self.context.chosen.connect(self.context_chosen)

    def show_budget(self, model: BudgetModel | None, machine: Machine | None) -> None:
        """Show what every ceiling would give."""
        card = machine is not None and accelerator_of(machine) is not None
        self.budget.setVisible(model is not None)
        self._choices.setVisible(card and model is not None)
        if model is not None:
            self.budget.show_model(model)
        self.budget.sentence.setVisible(card)  # without one, the note says more
        unknown = machine is None or model is None
        words = "" if card else without_card(machine)
        self.note.setText(tr("Nothing is known yet.") if unknown else words)
        self.note.setVisible(unknown or not card)

    def show_wish(self, wish: RunWish) -> None:
        """Show where the ceiling stands."""
        self.budget.set_ceiling(wish.vram)
        self._show_lock()
        uses = wish.mode is not Mode.CPU
        self.budget.setEnabled(uses)
        self._choices.setEnabled(uses)

    def _show_lock(self) -> None:
        locked = self.budget.ceiling is not None
        self.auto_button.setChecked(not locked)
        self.lock_button.setChecked(locked)
        self.lock_button.setText(tr("Locked") if locked else tr("Lock"))

    def _let_go(self) -> None:
        self.vram_chosen.emit(None)
        self._show_lock()

    def _lock(self) -> None:
        """Keep what Auto has chosen."""
        model = self.budget.model
        point = None if model is None else model.at(self.budget.ceiling)
        if point is not None and self.budget.ceiling is None:
            self.vram_chosen.emit(point.vram)
        self._show_lock()


class ContextBox(QComboBox):
    """Round numbers up to what the model handles, each with the memory it takes."""

    chosen = Signal(object)
    """Tokens, or None for automatic; comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Room for the conversation"))
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._shown: tuple[int | None, ...] = ()
        self.activated.connect(lambda place: self.chosen.emit(self._shown[place]))

    def show_context(self, context: int | None, plan: PlanSummary | None) -> None:
        """Show what is chosen, among what the model of this plan handles."""
        choices = (None, *context_choices(plan, context))
        words = [_words(choice, plan, automatic=context is None) for choice in choices]
        if [self.itemText(place) for place in range(self.count())] != words:
            self.clear()
            self.addItems(words)
        self._shown = choices
        self.setCurrentIndex(choices.index(context))
        self.setEnabled(plan is not None)


def context_choices(plan: PlanSummary | None, context: int | None) -> list[int]:
    """Powers of two within the model's limit, that limit, and what is chosen now."""
    limit = plan.context_limit if plan is not None else 0
    found = {limit} if limit else set()
    size = _SMALLEST
    while size < limit:
        found.add(size)
        size *= 2
    return sorted(found | ({context} if context else set()))


def _words(context: int | None, plan: PlanSummary | None, *, automatic: bool) -> str:
    if context is None:
        if plan is None or not automatic:
            return tr("Automatic")
        return tr("Automatic ({tokens} tokens)").format(tokens=number(plan.context))
    if plan is None or not plan.context or not plan.kv_bytes:
        return tr("{tokens} tokens").format(tokens=number(context))
    size = memory(round(context * plan.kv_bytes / plan.context))
    return tr("{tokens} tokens, {size}").format(tokens=number(context), size=size)


def _choice(words: str, parent: QWidget) -> QPushButton:
    button = QPushButton(words, parent)
    button.setProperty("look", "choice")
    button.setCheckable(True)
    button.setAutoDefault(False)
    return button
