"""State of the loaded model: what was asked for, how to ask for something else, what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_link.asker import Asker
from app.engine_link.bridge import EngineBridge
from app.engine_link.status import EngineStatus, Phase, same_load
from app.settings import SettingsStore
from app.settings.profiles import ModelProfile
from app.signals import TypedSignal
from engine.commands import Command, DraftChoice, FindDrafts, Load, Mode, Stop, Unload
from engine.events import Calibrated, Compared, DraftHere, DraftsFound, Failed, PlanReady, Unloaded


class Running(QObject):
    """Changes how the model runs between two answers, and remembers what worked, model by model.

    A profile that is applied by hand and cannot be met leaves the model as it is; the engine says
    why. A kept profile that cannot be met any more gives way to Automatic, with the kept draft as
    long as that is not the trouble; it stays kept for another time.

    Args:
        bridge: to the engine.
        settings: where the profiles are kept.
        simulate_gpu: bytes of a simulated accelerator that takes the place of real ones.
        device: name of the only accelerator to use; None: whichever is of use.
    """

    changed = Signal()
    """The profile has changed, or whether it is in force."""
    waiting = Signal()
    """A change waits for the end of the answer that is being written."""
    fell_back = Signal(str)
    """The model runs automatically instead of as it was kept; the reason in a sentence."""

    called_off = TypedSignal[Load]()
    """The user has called off this load; the model from before runs, or none."""
    measuring_called_off = Signal()
    """The user has called off a measurement."""

    def __init__(
        self,
        bridge: EngineBridge,
        settings: SettingsStore,
        simulate_gpu: int | None = None,
        parent: QObject | None = None,
        *,
        device: str | None = None,
    ) -> None:
        super().__init__(parent)
        self.bridge = bridge
        self._settings = settings
        self._simulate_gpu, self._device = simulate_gpu, device
        self._asked: Load | None = None
        self._wanted: ModelProfile | None = None
        """The profile to keep once `_asked` runs; None: the one it runs with."""
        self._kept: Load | None = None
        """The load that was last made of a kept profile, or instead of it."""
        self._refused: Failed | None = None
        """Why `_kept`, or what it gives way to, was not possible."""
        self._stopped: Load | None = None
        """The load that the user has called off, until the engine has told how it ended."""
        self._measuring_stopped = False
        self._finder = Asker(bridge, self)
        self._found: DraftsFound | None = None
        self._names: dict[Path, str] = {}
        """Names that files give to models, where they were read."""
        self.falls_back = False
        """True if a kept profile was refused just now, and another load takes its place."""
        bridge.started.connect(self._started)
        bridge.subscribe(PlanReady, self._loaded)
        bridge.subscribe(Failed, self._note_failure)
        bridge.subscribe(Calibrated, lambda event: self._measured(whole=event.speeds is not None))
        bridge.subscribe(Compared, lambda event: self._measured(whole=event.complete))
        bridge.subscribe(Unloaded, self._unloaded)
        bridge.status_changed.connect(lambda _status: self.changed.emit())

    @property
    def status(self) -> EngineStatus:
        """Return the state of the engine: what is loaded, and what is wanted."""
        return self.bridge.status

    @property
    def profile(self) -> ModelProfile:
        """Return the profile that is in force, or under way."""
        wanted = self.status.wanted
        return ModelProfile.of(wanted) if wanted is not None else ModelProfile()

    @property
    def in_force(self) -> ModelProfile | None:
        """Return the profile that the present model was loaded with."""
        loaded = self.status.loaded
        return None if loaded is None else ModelProfile.of(loaded)

    @property
    def possible(self) -> bool:
        """True if there is a model to run."""
        return self.status.wanted is not None

    @property
    def pending(self) -> bool:
        """True if a change waits for the end of an answer."""
        return self.status.pending

    @property
    def drafts(self) -> list[Path]:
        """Drafts that were used with this model, the last one first."""
        wanted = self.status.wanted
        if wanted is None:
            return []
        kept = self._settings.value.profiled(wanted.model)
        return list(map(Path, kept.with_profile(ModelProfile.of(wanted)).drafts))

    @property
    def drafts_found(self) -> tuple[DraftHere, ...]:
        """Drafts on this disk that fit this model, the most promising first."""
        found, wanted = self._found, self.status.wanted
        known = found is not None and wanted is not None and found.model == wanted.model
        return found.drafts if found is not None and known else ()

    @property
    def has_mtp(self) -> bool | None:
        """True if the model's files hold an MTP head; None: its like has none."""
        plan = self.status.plan
        return None if plan is None else plan.has_mtp

    def find_drafts(self) -> None:
        """Ask what can draft for the model in memory; `drafts_found` has the answer later."""
        if self.status.model is not None:
            self._finder.ask(FindDrafts(self.status.model), self._note_drafts)

    def draft_name(self, draft: Path) -> str:
        """Return the name of a draft for people: its own, else that of its file or folder."""
        own = {each.path: each.name for each in self.drafts_found}.get(draft)
        return self.name_of(draft, own) if own else self.place_name(draft)

    def kept_load(self, model: Path, draft: Path | None = None) -> Load:
        """Return the load of a model as it is kept; without a draft that is gone.

        Changes nothing and reads the disk: any thread may ask.

        Args:
            model: a file or folder.
            draft: in the place of the kept one.
        """
        profile = self._settings.value.profiled(model).profile
        if draft is not None:
            profile = replace(profile, draft=draft)
        if isinstance(profile.draft, Path) and not profile.draft.exists():
            profile = replace(profile, draft=DraftChoice.AUTO)
        usual = Load(model, simulate_gpu=self._simulate_gpu, device=self._device)
        return replace(profile.put_into(usual), after_answer=False)

    def begin(self, load: Load, *, keep: bool = False) -> None:
        """Load a model at once, as `kept_load` gives it.

        Args:
            load: how.
            keep: the draft was chosen just now; it is kept if both run.
        """
        self._kept, self._stopped = load, None
        if keep:
            self._asked, self._wanted = load, None
        self.bridge.submit(load)

    def try_again(self) -> None:
        """Load once more what failed."""
        if self.status.wanted is not None:
            self.bridge.submit(self.status.wanted)

    def call_off(self) -> None:
        """Stop a load or a measurement; a signal tells of it once the engine has."""
        self._measuring_stopped = self.status.measuring_done is not None
        if self.status.phase is Phase.LOADING and not self._measuring_stopped:
            self._stopped = self.status.wanted
        self.bridge.submit(Stop())

    def load_again(self, load: Load) -> None:
        """Load what was called off."""
        self._submit(load)

    def unload(self) -> None:
        """Give the model's memory back."""
        self.bridge.submit(Unload())

    def keep_mode(self, mode: Mode) -> None:
        """Run the present model in this mode; once it does, keep it for the next starts."""
        last, profile = self.status.wanted, replace(self.profile, mode=mode)
        if last is None:
            return
        kept = self._settings.value.profiled(last.model).profile
        if last == self._asked:
            kept = self._wanted or self.profile
        wanted = replace(kept, mode=mode)
        if profile == self.in_force:
            self._keep(last.model, wanted)
        self.apply(profile)
        self._wanted = wanted

    def place_name(self, model: Path) -> str:
        """Return the name of a model as lists show it; where no list has it, that of its place."""
        return self.name_of(model, self._names.get(model) or _named_by_place(model))

    def name_read(self, model: Path, name: str) -> str:
        """Remember what a model's files call it, and return its name for people."""
        self._names[model] = name
        return self.name_of(model, name)

    def name_of(self, model: Path, otherwise: str) -> str:
        """Return the name that the user has given a model, or another one where there is none."""
        return self._settings.value.profiled(model).name or otherwise

    def rename(self, model: Path, name: str) -> None:
        """Call a model so from now on; "": as its files call it."""
        self._settings.change(profiles=self._settings.value.with_name(model, name))
        if self.status.model == model:
            self.bridge.call_model(self.place_name(model))

    def apply(self, profile: ModelProfile, *, now: bool = False, again: bool = False) -> None:
        """Run the same model like this from the next answer on.

        Args:
            profile: how.
            now: stop an answer that is being written.
            again: plan anew even if nothing else is wished.
        """
        last = self.status.wanted
        if last is None or (profile == self.profile and not (again or (now and self.pending))):
            return
        self._ask(replace(profile.put_into(last), after_answer=not now))

    def take(self, load: Load) -> None:
        """Load what was offered instead of something that does not fit, and remember it."""
        self._ask(replace(load, after_answer=True))

    def for_now(self, load: Load) -> None:
        """Run the same model otherwise from the next answer on; the next start knows nothing."""
        self._asked = None
        self._submit(replace(load, after_answer=True))

    def take_back(self) -> None:
        """Leave the model as it is: a change that waits is not made."""
        loaded = self.status.loaded
        if self.pending and loaded is not None:
            self._asked = None
            self._submit(replace(loaded, after_answer=True, unless_so=True))

    def _ask(self, load: Load) -> None:
        self._asked, self._wanted = load, None
        self._submit(load)

    def _submit(self, load: Load) -> None:
        self._forget_failure()
        self._stopped = None
        self.bridge.submit(load)
        self.changed.emit()
        if self.pending:
            self.waiting.emit()

    def draft_with(self, draft: Path | DraftChoice) -> None:
        """Run the same model with another source of drafts."""
        self.apply(replace(self.profile, draft=draft))

    def _keep(self, model: Path, profile: ModelProfile) -> None:
        self._settings.change(profiles=self._settings.value.with_profile(model, profile))

    def _started(self, command: Command) -> None:
        """The first load of a start is one of a kept profile."""
        if isinstance(command, Load):
            self._kept = command

    def _loaded(self, event: PlanReady) -> None:
        load, refused = event.load, self._refused
        self.bridge.call_model(self.name_read(event.model, event.model_name))
        self._tell_called_off()
        self._finder.ask(FindDrafts(event.model), self._note_drafts)
        if self._falls_back(refused):
            return
        if load is not None and load == self._asked:
            self._asked = None
            self._keep(load.model, self._wanted or ModelProfile.of(load))
        elif refused is not None and load == self._kept:
            self.fell_back.emit(refused.cause)
        self._forget_failure()
        self.changed.emit()

    def _note_drafts(self, found: DraftsFound) -> None:
        self._found = found
        self.changed.emit()

    def _note_failure(self, event: Failed) -> None:
        """Remember why a kept profile is not possible; what the engine runs next comes after it."""
        if event.request_id is None:
            self._stopped = None
        kept = self._kept
        refused = event.request_id is None and kept is not None and kept == self.status.wanted
        self.falls_back = refused and ModelProfile.of(kept) != ModelProfile() if kept else False
        self._refused = event if self.falls_back else None

    def _measured(self, *, whole: bool) -> None:
        """Forget a failed measurement, which no model goes away with."""
        self._forget_failure()
        stopped, self._measuring_stopped = self._measuring_stopped, False
        if stopped and not whole:
            self.measuring_called_off.emit()

    def _forget_failure(self) -> None:
        self._refused, self.falls_back = None, False

    def _tell_called_off(self) -> None:
        """Nothing is said of a load that came too far to be stopped, or gave way to another."""
        stopped, self._stopped = self._stopped, None
        if stopped is not None and not same_load(stopped, self.status.loaded):
            self.called_off.emit(stopped)

    def _unloaded(self, _event: Unloaded) -> None:
        self._tell_called_off()
        if not self._falls_back(self._refused):
            self._forget_failure()

    def _falls_back(self, refused: Failed | None) -> bool:
        """Ask for less than the kept profile where that was refused; whether it was."""
        kept = self._kept
        if not self.falls_back or kept is None or same_load(kept, self.status.loaded):
            return False
        self.falls_back = False
        less = ModelProfile.of(kept).less
        self._kept = replace(less.put_into(kept), after_answer=False)
        self.bridge.submit(self._kept)
        self._refused = refused
        self.changed.emit()
        return True


def _named_by_place(model: Path) -> str:
    """Return the name of a file or folder; of one in the hub's cache, that of its repository."""
    repository = next((each.name for each in model.parents if each.name.startswith("models--")), "")
    if repository and model.suffix != ".gguf":
        return repository.rpartition("--")[2]
    return (model.stem if model.suffix == ".gguf" else model.name) or str(model)
