"""Choice of the model: has the engine load one, and remembers what has worked for later starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.data_folder.paths import absolute_path
from app.engine_link.background import NewestOnly, in_background, numpy_whole
from app.engine_link.running import Running
from app.notices import report_failure
from app.settings import SettingsStore
from app.signals import TypedSignal
from engine.commands import Load
from engine.errors import UserFixable
from engine.events import PlanReady
from engine.language import tr


@dataclass(frozen=True, slots=True)
class Installed:
    """A model that passed its check; `kind` names the types of its weights, as in "Q4_K_M".

    `head`: it drafts for another model, and is none by itself.
    """

    path: Path
    name: str
    kind: str
    weight_bytes: int
    head: bool = False


def installed(recent: Iterable[Path]) -> list[Installed]:
    """The usable ones, bundled models first, then `recent`; what is gone is left out."""
    numpy_whole()
    from engine.hub.local import bundled_models

    try:
        shipped = list(bundled_models().values())
    except UserFixable:
        shipped = []
    found: dict[Path, Installed] = {}
    for path in [*shipped, *map(absolute_path, recent)]:
        if absolute_path(path) not in found:
            try:
                found[absolute_path(path)] = inspect(path)
            except (UserFixable, OSError):
                continue
    return list(found.values())


def inspect(path: Path) -> Installed:
    """Check a folder or a file that somebody chose; headers only.

    Raises:
        SeveralModels: a folder with more than one, of which one can be chosen.
        UserFixable: what keeps it from being used, in words.
    """
    numpy_whole()
    from engine.model.heads.description import DraftOnly
    from engine.model.local_model import LocalModel

    model = LocalModel.inspect(path)
    head = isinstance(model.config, DraftOnly)
    return Installed(path, model.name, model.kind, model.weight_bytes, head)


_MOST_RECENT = 8
_LONGEST_NAME = 200


class ModelChoice(QObject):
    """The models on this computer, and the one in use."""

    listed = Signal()
    """`models` are known anew."""
    several = TypedSignal[tuple[tuple[Path, int], ...]]()
    """The chosen folder holds these files with models, and their bytes; one is to be chosen."""

    def __init__(
        self,
        running: Running,
        settings: SettingsStore,
        on_disk: Callable[[], Iterable[Path]] = tuple,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.running = running
        self.bridge = running.bridge
        self._settings = settings
        self.models: Sequence[Installed] = ()
        self._on_disk = on_disk
        self._choosing = NewestOnly(self)
        self._asked: Path | None = None
        self.bridge.subscribe(PlanReady, self._loaded)

    def first_load(self, starter: Callable[[], Path | None]) -> Load | None:
        """Return the load of the start; None where there is no model.

        It is the model that every start was to begin with, else the one used last, else the
        starter model. Reads the disk; the engine's starting thread calls it.
        """
        value = self._settings.value
        named = (Path(each) for each in (value.start_model, value.model) if each)
        # Older versions kept paths as they were given: in another folder they mean something else.
        usable = (each for each in named if each.is_absolute() and each.exists())
        first = next(usable, None) or starter()
        return None if first is None else self.running.kept_load(first)

    def refresh(self) -> None:
        """Look again which models there are, beside the window."""
        recent = [Path(path) for path in self._settings.value.recent_models]
        in_background(self, lambda: installed(recent), self._keep, self._refused)

    def look(self) -> None:
        """Look which models are on this disk at all; `listed` tells of them."""
        recent = [Path(path) for path in self._settings.value.recent_models]
        in_background(
            self, lambda: installed([*recent, *self._on_disk()]), self._keep, self._refused
        )

    @property
    def starts_with(self) -> Path | None:
        """Return the model that every start begins with; None: the one used last."""
        named = self._settings.value.start_model
        return Path(named) if named else None

    def start_with(self, model: Path | None) -> None:
        """Begin every start with this model; None: with the one used last."""
        self._settings.change(start_model="" if model is None else str(model))

    def load(self, model: Path, draft: Path | None = None) -> None:
        """Load a model; when it is ready, the next start loads it too.

        Args:
            model: a file or folder.
            draft: that was chosen for it; None: as it was run before.
        """
        self._asked = model
        make = partial(self.running.kept_load, model, draft)
        begin = partial(self.running.begin, keep=draft is not None)
        self._choosing.do(make, begin, self._refused)

    def forget(self, model: Path) -> None:
        """Offer it no more; its files are somebody else's business."""
        value = self._settings.value
        recent = tuple(path for path in value.recent_models if path != str(model))
        self._settings.change(recent_models=recent)
        self.refresh()

    def rename(self, model: Path, name: str) -> None:
        """Call a model so from now on; "": as its files call it."""
        self.running.rename(model, " ".join(name.split())[:_LONGEST_NAME])
        self.refresh()

    def load_path(self, path: Path) -> None:
        """Check a folder or file that somebody chose, and load it if it holds a model.

        A draft head drafts for the present model from now on.
        """
        path = absolute_path(path)
        self._choosing.do(lambda: inspect(path), self._use, self._refused)

    def _use(self, found: Installed) -> None:
        self.running.name_read(found.path, found.name)
        if not found.head:
            self.load(found.path)
        elif self.running.possible:
            self.running.draft_with(found.path)
        else:
            self._refused(
                UserFixable(
                    tr("{name} is a draft and cannot answer alone.").format(name=found.name),
                    tr("Load the model first that it drafts for."),
                )
            )

    @property
    def usual_folder(self) -> Path | None:
        """Return where to begin to look for another model: beside the last one."""
        recent = self._settings.value.recent_models
        return Path(recent[0]).parent if recent else None

    def unload(self) -> None:
        """Give the model's memory back."""
        self.running.unload()

    def _loaded(self, event: PlanReady) -> None:
        """The next start loads what is in memory, not what never got there."""
        value, model = self._settings.value, str(event.model)
        if event.model == self._asked:
            self._asked = None
            recent = (model, *(path for path in value.recent_models if path != model))
            self._settings.change(model=model, recent_models=recent[:_MOST_RECENT])
            self.refresh()
        elif value.model and value.model != model:
            self._settings.change(model=model)

    def _refused(self, error: Exception) -> None:
        from engine.model.model_files import SeveralModels  # whoever raises it has imported it

        if isinstance(error, SeveralModels):
            self.several.emit(error.sizes)
        else:
            report_failure(error)

    def _keep(self, models: list[Installed]) -> None:
        named = self.running.name_read
        self.models = [replace(each, name=named(each.path, each.name)) for each in models]
        self.listed.emit()
