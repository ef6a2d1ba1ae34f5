"""The models on this computer, for the window: what there is, and what is being done with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app.engine_link.background import in_background
from app.models.hub import Doing, Hub, LazyHub, LocalModels
from app.models.hub_client import in_words
from app.notices import report, tell
from app.signals import TypedSignal
from engine.errors import Cancelled
from engine.hub.advice import Recommendation
from engine.hub.download.jobs import JobReport
from engine.hub.shelf.kept_model import KeptModel

T = TypeVar("T")
_STEPS = 200
"""Most reports of progress."""


class KeptModels(QObject):
    """Lists are looked up beside the window; one thing at a time is done with a model.

    Args:
        hub: has the disk.
        named: takes in what a model's files call it; returns its name for people.
    """

    changed = Signal()
    """`kept` or `elsewhere`."""
    suggested = Signal()
    """`suggestions`."""
    doing_changed = Signal()
    """`doing` or `share`."""
    settled = TypedSignal[Path]()
    """A model has been added or moved: where it is now."""
    _went_on = Signal(float)

    def __init__(
        self, hub: LazyHub, named: Callable[[Path, str], str], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._hub, self._named = hub, named
        self.kept: Sequence[KeptModel] = ()
        self.elsewhere: Sequence[KeptModel] = ()
        self.suggestions: Sequence[Recommendation] = ()
        self.looked = False
        """True if it is known what there is."""
        self.advised = False
        self.doing = ""
        """The work under way, in words; empty: nothing."""
        self.share = 0.0
        self._stop = Event()
        self._went_on.connect(self._go_on)

    def look(self) -> None:
        """Find out what there is: first what is kept, then what others have."""

        def found(kept: Sequence[KeptModel]) -> None:
            named = [replace(each, name=self._named(each.path, each.name)) for each in kept]
            self.kept, self.looked = named, True
            self.changed.emit()
            self._ask(lambda hub: hub.shelf.elsewhere(), found_more)

        def found_more(elsewhere: Sequence[KeptModel]) -> None:
            self.elsewhere = elsewhere
            self.changed.emit()

        self._ask(lambda hub: hub.shelf.kept(), found)

    def look_for_suggestions(self) -> None:
        """Find out what would suit this computer."""

        def found(suggestions: Sequence[Recommendation]) -> None:
            self.suggestions, self.advised = suggestions, True
            self.suggested.emit()

        self._ask(lambda hub: hub.advice.suggestions(), found)

    def _ask(self, call: Callable[[Hub], T], done: Callable[[T], None]) -> None:
        in_background(self, lambda: call(self._hub()), done, self._tell)

    # -- doing -----------------------------------------------------------------------------

    def keep(self, report: JobReport) -> None:
        """Remember what a download has brought, and list it."""
        self._ask(lambda hub: hub.shelf.keep(report), lambda _none: self.look())

    def removable(self, model: KeptModel, then: Callable[[int], None]) -> None:
        """Tell `then` how many bytes deleting it sets free."""
        self._ask(lambda hub: hub.shelf.removable(model), then)

    def stop(self) -> None:
        """Stop the work under way."""
        self._stop.set()

    def work(
        self, words: str, call: Callable[[LocalModels, Doing], object], after: str = ""
    ) -> None:
        """Do something with a model, beside the window.

        Args:
            words: say so while it lasts.
            call: does it; what it returns is said in the end, where `after` is empty.
            after: what is said in the end.
        """
        if self.doing:
            return
        self.doing, self.share = words, 0.0
        self._stop = stop = Event()
        self.doing_changed.emit()
        told = [-1]

        def progress(share: float) -> None:
            step = int(share * _STEPS)
            if step != told[0]:
                told[0] = step
                self._went_on.emit(share)

        def done(value: object) -> None:
            self._over()
            tell(after or str(value))
            if isinstance(value, KeptModel):  # it has come, or moved
                self.settled.emit(value.path)
            self.look()

        def failed(error: Exception) -> None:
            self._over()
            self._tell(error)
            self.look()

        doing = Doing(progress, stop.is_set)
        in_background(self, lambda: call(self._hub().shelf, doing), done, failed, long=True)

    def _go_on(self, share: float) -> None:
        if self.doing:
            self.share = share
            self.doing_changed.emit()

    def _over(self) -> None:
        self.doing, self.share = "", 0.0
        self.doing_changed.emit()

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, Cancelled):
            report(in_words(error))
