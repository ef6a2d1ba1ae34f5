"""Where Duotail keeps its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("Duotail", appauthor=False)


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of one installation; none of them is created here."""

    data: Path
    config: Path

    @property
    def history(self) -> Path:
        """The conversations."""
        return self.data / "history.sqlite3"

    @property
    def settings(self) -> Path:
        """The settings file."""
        return self.config / "settings.toml"

    @property
    def log(self) -> Path:
        """The log of the last runs."""
        return self.data / "duotail.log"

    @property
    def crash_log(self) -> Path:
        """What a native crash left behind."""
        return self.data / "crash.log"

    @property
    def load_mark(self) -> Path:
        """There while a model loads; left behind by a crash."""
        return self.data / "loading"

    @property
    def lock(self) -> Path:
        """Held by the running window."""
        return self.data / "window.lock"


def find_paths(data_dir: str | None = None) -> Paths:
    """The folders in use: the option, then the environment, then the system's own places.

    With a data folder of the user's choice the settings lie in it too, unless
    DUOTAIL_CONFIG_DIR says otherwise: a portable installation is one folder.
    """
    chosen = data_dir or os.environ.get("DUOTAIL_DATA_DIR")
    config = None if data_dir else os.environ.get("DUOTAIL_CONFIG_DIR")
    data = Path(chosen).expanduser().absolute() if chosen else Path(_DIRS.user_data_path)
    if config:
        return Paths(data, Path(config).expanduser().absolute())
    return Paths(data, data if chosen else Path(_DIRS.user_config_path))
