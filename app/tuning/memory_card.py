"""Card on the memory that the model may use: of a GPU, and for the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from PySide6.QtWidgets import QComboBox, QWidget

from app.signals import TypedSignal
from app.tuning.budget.view import BudgetView
from app.tuning.outcome import BITS
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import fill
from app.widgets.card import Card, divider
from app.widgets.labels import LabelledRow
from app.widgets.painted import SIDE
from app.widgets.terms import explained
from engine.commands import KvType
from engine.events import PlanSummary
from engine.language import number, tr
from engine.language.units import memory
from engine.machine.facts import Machine

_SMALLEST = 1024
T = TypeVar("T")


class MemoryCard(Card):
    """The budget with its pictures, and a list of context lengths."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Memory"), "", parent)
        self.budget = BudgetView(self)
        self.add_beside_title(self.budget.buttons)
        self.column.setSpacing(12)
        fill(self.column, self.budget, divider(self))
        self.context = ChoiceBox[int | None](tr("Context length"), self)
        self.kv = ChoiceBox[KvType](tr("KV cache"), self)
        self.kv.offer(list(KvType), [tr(BITS[kv]) for kv in KvType], KvType.F16)
        self.threads = ChoiceBox[int | None](tr("CPU threads"), self)
        seen = tr("How many tokens the model can see at once. More needs more memory.")
        halved = tr(
            "8 bits take half the memory on the CPU and make long conversations faster; answers may"
            " differ a little."
        )
        fewer = tr("Fewer threads leave CPU time to other programs. Predictions assume Automatic.")
        for box, about in ((self.context, seen), (self.kv, halved), (self.threads, fewer)):
            row = LabelledRow(box.accessibleName(), about, box, self)
            if (inside := row.layout()) is not None:
                inside.setContentsMargins(SIDE, 4, SIDE, 0)
            self.column.addWidget(row)

    def show_choice(self, choice: RunChoice, plan: PlanSummary | None) -> None:
        """Show what is chosen, among what the model of this plan and the processor can do."""
        profile, machine = choice.profile, choice.machine
        contexts = (None, *context_choices(plan, profile.context))
        automatic = profile.context is None
        words = [_words(each, plan, automatic=automatic) for each in contexts]
        self.context.offer(contexts, words, profile.context)
        self.context.setEnabled(plan is not None)
        self.kv.setCurrentIndex(list(KvType).index(profile.kv))
        threads = (None, *thread_choices(machine, profile.threads))
        words = [tr("Automatic") if each is None else number(each) for each in threads]
        self.threads.offer(threads, words, profile.threads)
        self.threads.setEnabled(machine is not None)


class ChoiceBox(QComboBox, Generic[T]):
    """A list to choose a value from; what it offers follows model and machine.

    Args:
        name: for screen readers.
    """

    chosen = TypedSignal[T]()
    """Comes from the user only."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setToolTip(explained(name))
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._values: Sequence[T] = ()
        self.activated.connect(lambda place: self.chosen.emit(self._values[place]))

    def offer(self, values: Sequence[T], words: Sequence[str], chosen: T) -> None:
        """Offer values, each in words, with one of them chosen."""
        if [self.itemText(place) for place in range(self.count())] != words:
            self.clear()
            self.addItems(words)
        self._values = values
        self.setCurrentIndex(values.index(chosen))


def thread_choices(machine: Machine | None, threads: int | None) -> list[int]:
    """Up to one thread a thread of the processor, and what is chosen now."""
    most = max(machine.host.threads, machine.host.cores) if machine is not None else 0
    return sorted({*range(1, most + 1), *(() if threads is None else (threads,))})


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
