"""The user's settings: one small TOML file, read tolerantly, written whole."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.theme.theme import ThemeChoice
from engine.errors import UserFixable

_VERSION = 1
_MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose. Unknown or unusable values in the file fall back to these defaults."""

    theme: ThemeChoice = ThemeChoice.SYSTEM
    sidebar_visible: bool = True
    performance_visible: bool = True
    temperature: float = 0.0
    """0 is greedy, 2 the most varied."""
    seed: int | None = None
    """The seed of every answer; None draws a new one for each."""
    last_conversation: int | None = None
    window_width: int = 1280
    window_height: int = 800


def load(path: Path) -> tuple[Settings, UserFixable | None]:
    """The settings in `path`, and what to tell the user when the file was unreadable.

    An unreadable file is kept beside it as `*.bad`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings(), None
    except (OSError, UnicodeDecodeError) as error:
        return Settings(), _set_aside(path, str(error))
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Settings(), _set_aside(path, str(error))
    return _from_table(table), None


def save(path: Path, settings: Settings) -> None:
    """Write `settings` in one go: a crash leaves the old file or the new one.

    Raises:
        UserFixable: the folder cannot be written.
    """
    lines = [f"version = {_VERSION}"]
    for name, value in asdict(settings).items():
        if value is not None:
            lines.append(f"{name} = {json.dumps(value)}")
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise UserFixable(
            "Your settings could not be saved.",
            f"Make the folder {path.parent} writable for your user.",
            str(error),
        ) from error


def _set_aside(path: Path, reason: str) -> UserFixable:
    kept = path.with_suffix(path.suffix + ".bad")
    with contextlib.suppress(OSError):
        os.replace(path, kept)
    return UserFixable(
        "Your settings could not be read, so the defaults are used.",
        f"The unreadable file is kept as {kept.name} in {kept.parent}.",
        reason,
    )


def _from_table(table: dict[str, Any]) -> Settings:
    settings = Settings()
    for field in fields(Settings):
        if field.name in table:
            with contextlib.suppress(ValueError, TypeError, OverflowError):
                value: Any = _CHECKS[field.name](table[field.name])
                settings = replace(settings, **{field.name: value})
    return settings


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _whole(lowest: int, highest: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise ValueError(value)
        return value

    return check


def _temperature(value: object) -> float:
    number = float(value) if isinstance(value, int | float) else float("nan")
    if not 0 <= number <= 2:
        raise ValueError(value)
    return number


_CHECKS: dict[str, Callable[[Any], object]] = {
    "theme": ThemeChoice,
    "sidebar_visible": _switch,
    "performance_visible": _switch,
    "temperature": _temperature,
    "seed": _whole(0, _MAX_SEED),
    "last_conversation": _whole(0, _MAX_SEED),
    "window_width": _whole(400, 20_000),
    "window_height": _whole(300, 20_000),
}


class SettingsStore(QObject):
    """The settings in force; changes are saved shortly after they are made."""

    changed = Signal(object)
    """The new `Settings`."""
    problem = Signal(object)
    """A `UserFixable` that tells why saving failed."""

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self.value, self.trouble = load(path)
        self._dirty = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(400)
        self._timer.timeout.connect(self.flush)

    def change(self, **values: object) -> None:
        """Change fields by name, as in `change(temperature=0.7)`."""
        changed = replace(self.value, **values)  # type: ignore[arg-type]
        if changed != self.value:
            self.value = changed
            self._dirty = True
            self._timer.start()
            self.changed.emit(changed)

    def flush(self) -> None:
        """Save now what is not saved yet."""
        self._timer.stop()
        if not self._dirty:
            return
        self._dirty = False
        try:
            save(self._path, self.value)
        except UserFixable as error:
            self.problem.emit(error)
