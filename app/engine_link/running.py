"""State of the loaded model: what was asked for, how to ask for something else, what is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_link.bridge import EngineBridge
from app.settings import SettingsStore
from app.settings.drafts import DraftOf, DraftSource
from app.settings.fits import FitOf
from app.settings.modes import ModeOf
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.events import Calibrated, Compared, Failed, PlanReady, Unloaded

GIB = 2**30


@dataclass(frozen=True, slots=True)
class RunWish:
    """Wishes that a user can have for how a model runs.

    Attributes:
        vram: bytes of the accelerator at most; None as many as are useful.
        context: planned tokens; None as many as are reasonable.
        weights: how the target's are held.
    """

    mode: Mode = Mode.AUTO
    draft: Path | DraftChoice = DraftChoice.AUTO
    vram: int | None = None
    context: int | None = None
    weights: WeightFormat = WeightFormat.AUTO

    @classmethod
    def of(cls, load: Load) -> RunWish:
        """Return the wishes of a load."""
        return cls(load.mode, load.draft, load.vram, load.context, load.weights)

    def put_into(self, load: Load) -> Load:
        """Return a load of the same model that runs like this."""
        return replace(
            load,
            mode=self.mode,
            draft=self.draft,
            vram=self.vram,
            context=self.context,
            weights=self.weights,
            layers_on_gpu=None,
            after_answer=True,
        )


class Running(QObject):
    """Changes how the model runs between two answers, and remembers what worked.

    A wish that cannot be met leaves the model as it is; the engine says why. Only where that would
    leave no model at all, at the start, the model is loaded as Duotail thinks best, with the draft
    that was wished as long as that is not the trouble.

    Args:
        bridge: to the engine.
        settings: where the last wish is kept.
        simulate_gpu: bytes of a simulated accelerator that takes the place of real ones.
    """

    changed = Signal()
    """The wish has changed, or whether it is in force."""
    waiting = Signal()
    """A change waits for the end of the answer that is being written."""
    fell_back = Signal()
    """The wish of the last time could not be met at the start; the model runs automatically."""

    def __init__(
        self,
        bridge: EngineBridge,
        settings: SettingsStore,
        simulate_gpu: int | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.bridge = bridge
        self._settings = settings
        self._simulate_gpu = simulate_gpu
        self._asked: Load | None = None
        self._in_force: Load | None = None
        self._failed = False
        self._fitted = False
        """True if what was asked for changes what is remembered for this model alone."""
        bridge.subscribe(PlanReady, self._loaded)
        bridge.subscribe(Failed, self._note_failure)
        for measured in (Calibrated, Compared):
            bridge.subscribe(measured, lambda _event: self._forget_failure())
        bridge.subscribe(Unloaded, self._unloaded)
        bridge.status_changed.connect(lambda _status: self.changed.emit())

    @property
    def wish(self) -> RunWish:
        """Return the wish that is in force, or under way."""
        last = self.bridge.last_load
        return RunWish.of(last) if last is not None else RunWish()

    @property
    def in_force(self) -> RunWish | None:
        """Return the wish that the present model was loaded with."""
        return None if self._in_force is None else RunWish.of(self._in_force)

    @property
    def possible(self) -> bool:
        """True if there is a model to run."""
        return self.bridge.last_load is not None

    @property
    def pending(self) -> bool:
        """True if a change waits for the end of an answer."""
        return self.bridge.status.busy and not _same(self.bridge.last_load, self._in_force)

    @property
    def drafts(self) -> list[Path]:
        """Drafts that were used with this model, the last one first."""
        last = self.bridge.last_load
        if last is None:
            return []
        known = self._drafts_of(last.model)
        wished = [last.draft] if isinstance(last.draft, Path) else []
        return known + [path for path in wished if path not in known]

    def command(self, model: Path) -> Load:
        """Return the load of a model: as the last one ran, with the draft chosen for this one.

        Reads the disk.
        """
        value = self._settings.value
        draft: Path | DraftChoice = DraftChoice.AUTO
        if value.draft is not DraftSource.CHOSEN:
            draft = DraftChoice(value.draft.value)
        else:
            there = (path for path in self._drafts_of(model) if path.exists())
            draft = next(there, DraftChoice.AUTO)
        vram = None if value.vram is None else round(value.vram * GIB)
        fits = (each for each in value.fits if each.model == str(model))
        fit = next(fits, FitOf(str(model)))
        return Load(
            model,
            draft=draft,
            mode=self.kept_mode(model) or value.mode,
            context=fit.context,
            weights=fit.weights,
            vram=vram,
            simulate_gpu=self._simulate_gpu,
        )

    def kept_mode(self, model: Path) -> Mode | None:
        """The mode that is kept for a model; None where it runs in the one of all."""
        kept = self._settings.value.modes
        return next((each.mode for each in kept if each.model == str(model)), None)

    def keep_mode(self, mode: Mode) -> None:
        """Run the present model in this mode from now on, until another one is chosen for it."""
        last = self.bridge.last_load
        if last is not None:
            others = self._modes_of_others(last.model)
            self._settings.change(modes=(ModeOf(str(last.model), mode), *others))
            self.apply(replace(self.wish, mode=mode))

    def _modes_of_others(self, model: Path) -> list[ModeOf]:
        return [each for each in self._settings.value.modes if each.model != str(model)]

    def apply(self, wish: RunWish, *, now: bool = False, again: bool = False) -> None:
        """Run the same model like this from the next answer on.

        Args:
            wish: how.
            now: stop an answer that is being written.
            again: plan anew even if nothing else is wished.
        """
        last = self.bridge.last_load
        if last is None or (wish == self.wish and not (again or (now and self.pending))):
            return
        load = replace(wish.put_into(last), after_answer=not now)
        self._asked, self._failed = load, False
        self._fitted = (wish.context, wish.weights) != (self.wish.context, self.wish.weights)
        self._submit(load)

    def take(self, load: Load) -> None:
        """Load what was offered instead of something that does not fit, and remember it."""
        self._asked, self._failed = replace(load, after_answer=True), False
        self._fitted = True
        self._submit(self._asked)

    def for_now(self, load: Load) -> None:
        """Run the same model otherwise from the next answer on; the next start knows nothing."""
        self._asked, self._failed = None, False
        self._submit(replace(load, after_answer=True))

    def take_back(self) -> None:
        """Leave the model as it is: a change that waits is not made."""
        if self.pending and self._in_force is not None:
            self._asked, self._failed = None, False
            self._submit(replace(self._in_force, after_answer=True, unless_so=True))

    def _submit(self, load: Load) -> None:
        self.bridge.submit(load)
        self.changed.emit()
        if self.pending:
            self.waiting.emit()

    def draft_with(self, draft: Path | DraftChoice) -> None:
        """Run the same model with another source of drafts."""
        self.apply(replace(self.wish, draft=draft))

    def _drafts_of(self, model: Path) -> list[Path]:
        return [
            Path(each.draft) for each in self._settings.value.drafts if each.model == str(model)
        ]

    def _loaded(self, event: PlanReady) -> None:
        self._failed, self._in_force = False, event.load
        if event.load is not None and event.load == self._asked:
            self._asked = None
            self._remember(event.load)
        self.changed.emit()

    def _remember(self, load: Load) -> None:
        vram = None if load.vram is None else load.vram / GIB
        known, source = self._settings.value.drafts, DraftSource.CHOSEN
        if isinstance(load.draft, Path):
            used = DraftOf(str(load.model), str(load.draft))
            known = (used, *(each for each in known if each != used))
        else:
            source = DraftSource(load.draft.value)
        fits = self._settings.value.fits
        if self._fitted:
            fit = FitOf.of(load)
            rest = tuple(each for each in fits if each.model != fit.model)
            fits = rest if fit.as_usual else (fit, *rest)
        self._settings.change(draft=source, drafts=known, vram=vram, fits=fits)
        if load.mode is not self.kept_mode(load.model):  # chosen by hand, which goes first
            others = tuple(self._modes_of_others(load.model))
            self._settings.change(mode=load.mode, modes=others)

    def _note_failure(self, event: Failed) -> None:
        self._failed = event.request_id is None

    def _forget_failure(self) -> None:
        """Forget a failed measurement, which no model goes away with."""
        self._failed = False

    def _unloaded(self, _event: Unloaded) -> None:
        self._in_force = None
        last, failed = self.bridge.last_load, self._failed
        self._failed = False
        if not failed or last is None or RunWish.of(last) == RunWish():
            return
        only_draft = RunWish.of(last) == RunWish(draft=last.draft)
        draft = DraftChoice.AUTO if only_draft else last.draft
        self.bridge.submit(Load(last.model, draft=draft, simulate_gpu=self._simulate_gpu))
        self.fell_back.emit()


def _same(one: Load | None, other: Load | None) -> bool:
    """Return whether both come to the same, whenever that is."""
    return one is other if one is None or other is None else one.same_as(other)
