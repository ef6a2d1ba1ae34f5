"""The settings in force, shared by everything in the window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.notices import report
from app.settings.file import load, save
from app.settings.model import DEFAULTS, SPECS, Settings
from app.signals import TypedSignal
from engine.errors import UserFixable

_SAVE_AFTER_MS, _SOON_MS = 400, 50


class SettingsStore(QObject):
    """The settings in force; changes are saved shortly after they are made."""

    changed = TypedSignal[Settings]()

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path = path
        self.is_new = not path.exists()
        """True where nothing was ever saved: the first start."""
        loaded = load(path)
        self.value, self.trouble, self._rest = loaded.settings, loaded.trouble, loaded.rest
        self.at_start = self.value
        """Values of the settings that only count from the next start on."""
        self._dirty = False
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.flush)

    def change(self, **values: object) -> None:
        """Change fields by name, as in `change(font_scale=1.2)`."""
        changed = replace(self.value, **values)  # type: ignore[arg-type]
        if changed != self.value:
            self.value = changed
            self._dirty = True
            self._timer.start(_SAVE_AFTER_MS)
            self.changed.emit(changed)

    def reset(self, name: str) -> None:
        """Set one field back to its default."""
        self.change(**{name: getattr(DEFAULTS, name)})

    def reset_all(self) -> None:
        """Set everything that the page shows back to its default."""
        self.change(
            **{name: getattr(DEFAULTS, name) for name, spec in SPECS.items() if spec.section}
        )

    def context_of(self, model: Path) -> int:
        """Return the tokens that a model's context had the last time; 0 where it is not known."""
        parts = (each.partition("=") for each in self.value.contexts)
        known = (tokens for tokens, _, path in parts if path == str(model) and tokens.isdecimal())
        return int(next(known, "0"))

    def keep_context(self, model: Path, tokens: int) -> None:
        """Remember how long a model's context is, to tell where it gets shorter."""
        others = [each for each in self.value.contexts if each.partition("=")[2] != str(model)]
        self.change(contexts=(f"{tokens}={model}", *others)[:100])

    def folder(self, kind: str) -> Path | None:
        """Return the folder that the last file dialog of a kind was left in."""
        parts = (each.partition("=") for each in self.value.folders)
        return next((Path(folder) for name, _, folder in parts if name == kind and folder), None)

    def keep_folder(self, kind: str, folder: Path) -> None:
        """Begin there the next time, also after the next start."""
        others = [each for each in self.value.folders if not each.startswith(f"{kind}=")]
        self.change(folders=(f"{kind}={folder}", *others))

    def flush_soon(self) -> None:
        """Save as soon as nobody waits for the window any more."""
        self._timer.start(_SOON_MS)

    def flush(self) -> None:
        """Save now what is not saved yet."""
        self._timer.stop()
        if not self._dirty:
            return
        try:
            save(self.path, self.value, self._rest)
        except UserFixable as error:
            report(error)  # the next change, or the end, tries again
        else:
            self._dirty = False
