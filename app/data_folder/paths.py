"""Places where Duotail keeps its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import PlatformDirs

from app.data_folder.relocation import read_pointer

_DIRS = PlatformDirs("Duotail", appauthor=False)


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of one installation; none of them is created here."""

    data: Path
    config: Path
    pointer: Path | None = None
    """The file that says where the data are; None where an option or the environment does."""

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
        """Return the file that a native crash writes."""
        return self.data / "crash.log"

    @property
    def reports(self) -> Path:
        """Crash reports, a few text files."""
        return self.data / "reports"

    @property
    def measured(self) -> Path:
        """The speeds that answers had."""
        return self.data / "measured.json"

    @property
    def servers(self) -> Path:
        """The servers that were added, without their keys."""
        return self.data / "servers.json"

    @property
    def tools(self) -> Path:
        """MCP servers, and the tools that may always run; only the user can read it."""
        return self.data / "tools.json"

    @property
    def benchmarks(self) -> Path:
        """Return the folder of benchmark results, a file for each model."""
        return self.data / "benchmarks"

    @property
    def downloads(self) -> Path:
        """Return the file with the models being downloaded and their progress."""
        return self.data / "downloads.json"

    @property
    def models(self) -> Path:
        """Models that were copied into Duotail's own folder."""
        return self.data / "models"

    @property
    def load_mark(self) -> Path:
        """Return the file that is there while a model loads; a crash leaves it behind."""
        return self.data / "loading"

    @property
    def lock(self) -> Path:
        """Held by the running window."""
        return self.data / "window.lock"


def find_paths(data_dir: str | None = None) -> Paths:
    """The folders in use: the option, then the environment, then the user's or the system's own.

    With a data folder from the option or the environment the settings lie in it too, unless
    DUOTAIL_CONFIG_DIR says otherwise: a portable installation is one folder. A folder chosen in
    the window holds the data only.
    """
    chosen = data_dir or os.environ.get("DUOTAIL_DATA_DIR")
    config = None if data_dir else os.environ.get("DUOTAIL_CONFIG_DIR")
    own_config = Path(config).expanduser().absolute() if config else None
    if chosen:
        data = Path(chosen).expanduser().absolute()
        return Paths(data, own_config or data)
    own_config = own_config or Path(_DIRS.user_config_path)
    pointer = own_config / "data-folder.toml"
    moved = read_pointer(pointer).folder
    return Paths(Path(moved) if moved else Path(_DIRS.user_data_path), own_config, pointer)


def absolute_path(path: Path) -> Path:
    """Return a path that means the same in every folder and at every start.

    Folders are told by their real names; a file keeps the name that a link gives it, which says
    what it is.
    """
    whole = Path(os.path.abspath(path))
    try:
        return whole.resolve() if whole.is_dir() else whole.parent.resolve() / whole.name
    except OSError:
        return whole
