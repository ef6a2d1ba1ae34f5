"""Choice of how the model shall run, and what the engine says of it. No widgets."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.engine_link.running import Running
from app.settings.profiles import ModelProfile
from app.tuning.previews import Previews
from engine.commands import Load
from engine.events import Failed, Previewed
from engine.machine.facts import Machine


class RunChoice(QObject):
    """The one choice that quick menu and tuning page work on.

    It begins with what is in force or under way, and follows that until something is chosen.
    """

    changed = Signal()

    def __init__(self, running: Running, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.running = running
        self.previews = Previews(running.bridge, self)
        self._watchers: set[object] = set()
        self._base = self.profile = running.profile
        self._model = self._wanted_model
        running.changed.connect(self._follow)

    @property
    def differs(self) -> bool:
        """True if something was chosen that is not applied."""
        return self.profile != self.running.profile

    @property
    def load(self) -> Load | None:
        """Return the load that applying the choice would ask for; None without a model."""
        wanted = self.running.status.wanted
        return None if wanted is None else self.profile.put_into(wanted)

    @property
    def told(self) -> Previewed | None:
        """Return the last preview, which may be that of an earlier choice."""
        return self.previews.last

    @property
    def machine(self) -> Machine | None:
        """Return what was found here."""
        told = self.told
        return self.running.status.machine if told is None else told.machine

    @property
    def refusal(self) -> Failed | None:
        """Return why the choice cannot be applied; None where it can, or nobody knows yet."""
        told = self.previews.current
        return told.refusal if told is not None and self.differs else None

    def watch(self, watcher: object, *, watching: bool) -> None:
        """Note who looks; the engine is asked as long as somebody does."""
        (self._watchers.add if watching else self._watchers.discard)(watcher)
        self.previews.ask(self.load)
        self.previews.set_active(active=bool(self._watchers))

    def choose(self, **values: object) -> None:
        """Choose fields of the profile by name, as in `choose(mode=Mode.DUO)`."""
        self.take(replace(self.profile, **values))  # type: ignore[arg-type]

    def take(self, profile: ModelProfile) -> None:
        """Choose all of this."""
        if profile != self.profile:
            self.profile = profile
            self.previews.ask(self.load)
            self.changed.emit()

    def undo(self) -> None:
        """Go back to the profile that is in force or under way."""
        self.take(self.running.profile)

    @property
    def _wanted_model(self) -> object:
        wanted = self.running.status.wanted
        return None if wanted is None else wanted.model

    def _follow(self) -> None:
        model, now = self._wanted_model, self.running.profile
        another = model != self._model
        untouched = self.profile == self._base
        self._model, self._base = model, now
        if (another or untouched) and (self.profile != now or another):
            self.profile = now
            self.changed.emit()
        self.previews.ask(self.load)
