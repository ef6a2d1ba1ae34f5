"""Card on the memory that the model may use: of a GPU, and for the conversation."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QWidget

from app.signals import TypedSignal
from app.tuning.ceiling_choice import CeilingChoice
from app.tuning.outcome import BITS
from app.widgets.card import Card, divider
from app.widgets.labels import LabelledRow
from app.widgets.painted import SIDE
from engine.commands import KvType
from engine.events import PlanSummary
from engine.language import number, tr
from engine.language.units import memory
from engine.machine.facts import Machine

_SMALLEST = 1024


class MemoryCard(Card):
    """The ceiling with its pictures, and a list of context lengths."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Memory"), "", parent)
        self.ceiling = CeilingChoice(self)
        self.add_beside_title(self.ceiling.buttons)
        self.context = ContextBox(self)
        self.context_row = LabelledRow(
            tr("Context length"),
            tr("How many tokens the model can see at once. More needs more memory."),
            self.context,
            self,
        )
        self.threads = ThreadsBox(self)
        self.threads_row = LabelledRow(
            tr("CPU threads"),
            tr("Fewer threads leave CPU time to other programs. Predictions assume Automatic."),
            self.threads,
            self,
        )
        self.kv = KvBox(self)
        self.kv_row = LabelledRow(
            tr("KV cache"),
            tr(
                "8 bits take half the memory on the CPU and make long conversations faster; answers"
                " may differ a little."
            ),
            self.kv,
            self,
        )
        for row in (self.context_row, self.kv_row, self.threads_row):
            if (inside := row.layout()) is not None:
                inside.setContentsMargins(SIDE, 4, SIDE, 0)
        self.column.setSpacing(12)
        self.column.addWidget(self.ceiling)
        self.column.addWidget(divider(self))
        self.column.addWidget(self.context_row)
        self.column.addWidget(self.kv_row)
        self.column.addWidget(self.threads_row)


class ContextBox(QComboBox):
    """Round numbers up to what the model handles, each with the memory it takes."""

    chosen = TypedSignal[int | None]()
    """Tokens, or None for automatic; comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Context length"))
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


class KvBox(QComboBox):
    """Types of the numbers in the KV cache."""

    chosen = TypedSignal[KvType]()
    """Comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("KV cache"))
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.addItems([tr(BITS[kv]) for kv in KvType])
        self.activated.connect(lambda place: self.chosen.emit(list(KvType)[place]))

    def show_kv(self, kv: KvType) -> None:
        """Show what is chosen."""
        self.setCurrentIndex(list(KvType).index(kv))


class ThreadsBox(QComboBox):
    """Numbers of CPU threads, up to one a thread of the processor."""

    chosen = TypedSignal[int | None]()
    """A number, or None for automatic; comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("CPU threads"))
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._shown: tuple[int | None, ...] = ()
        self.activated.connect(lambda place: self.chosen.emit(self._shown[place]))

    def show_threads(self, threads: int | None, machine: Machine | None) -> None:
        """Show what is chosen, among what the processor can do at once."""
        most = max(machine.host.threads, machine.host.cores) if machine is not None else 0
        every = sorted({*range(1, most + 1), *(() if threads is None else (threads,))})
        choices: tuple[int | None, ...] = (None, *every)
        if choices != self._shown:
            self._shown = choices
            self.clear()
            self.addItems([tr("Automatic") if n is None else number(n) for n in choices])
        self.setCurrentIndex(choices.index(threads))
        self.setEnabled(machine is not None)


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
