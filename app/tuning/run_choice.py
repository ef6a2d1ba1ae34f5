"""Choice of how the model shall run, not yet applied. No widgets."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.engine_link.running import Running, RunWish
from engine.commands import Load


class RunChoice(QObject):
    """Begins with what is in force or under way, and follows that until something is chosen."""

    changed = Signal()

    def __init__(self, running: Running, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.running = running
        self._base = self.wish = running.wish
        self._model = self._last_model
        running.changed.connect(self._follow)

    @property
    def differs(self) -> bool:
        """True if something was chosen that is not applied."""
        return self.wish != self.running.wish

    @property
    def load(self) -> Load | None:
        """Return the load that applying the choice would ask for; None without a model."""
        last = self.running.bridge.last_load
        return None if last is None else self.wish.put_into(last)

    def choose(self, **values: object) -> None:
        """Choose fields of the wish by name, as in `choose(mode=Mode.DUO)`."""
        self.take(replace(self.wish, **values))  # type: ignore[arg-type]

    def take(self, wish: RunWish) -> None:
        """Choose all of this."""
        if wish != self.wish:
            self.wish = wish
            self.changed.emit()

    def undo(self) -> None:
        """Go back to the wish that is in force or under way."""
        self.take(self.running.wish)

    @property
    def _last_model(self) -> object:
        last = self.running.bridge.last_load
        return None if last is None else last.model

    def _follow(self) -> None:
        model, now = self._last_model, self.running.wish
        another = model != self._model
        untouched = self.wish == self._base
        self._model, self._base = model, now
        if (another or untouched) and (self.wish != now or another):
            self.wish = now
            self.changed.emit()
