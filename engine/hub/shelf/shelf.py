"""All models on this computer that Duotail knows of, with everything a list shows of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.local import bundled_models
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.other_programs import FoundModel, ShelfSearch, beginning, found_elsewhere
from engine.kept_files import read_list, write_list
from engine.language import tr
from engine.model import bundled
from engine.model.config import ModelConfig
from engine.model.file_notes import file_notes
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, own_files, real_path, size_of
from engine.plan.footprint import weight_count

FILE, _NAME = "models.json", "models"
"""The file of the models that the user has brought here, and the list's name in it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A model as the file tells it.

    Attributes:
        path: absolute, as text.
        hashes: names of its files -> their sha256, of what was copied.
    """

    path: str
    origin: ModelOrigin
    repo: str | None = None
    revision: str | None = None
    licence: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)


class RememberedModels:
    """The file of remembered models, for any number of threads; one program at a time writes it."""

    def __init__(self, data: Path) -> None:
        self.file = data / FILE
        self._lock = Lock()

    def all(self) -> tuple[Remembered, ...]:
        """Return every model, the one brought last first; none while the file cannot be opened."""
        with self._lock:
            try:
                return tuple(read_list(self.file, _NAME, Remembered))
            except OSError as error:
                _log.warning("the list of models cannot be opened: %s", error)
                return ()

    def remember(self, model: Remembered) -> None:
        """Put a model first, in the place of what was known of this path.

        Raises:
            UserFixable: the list cannot be read or written.
        """
        self._change(model.path, model)

    def forget(self, path: Path) -> None:
        """Take a path off the list; raises as `remember`."""
        self._change(str(path))

    def _change(self, path: str, *first: Remembered) -> None:
        try:
            with self._lock:
                known = read_list(self.file, _NAME, Remembered)
                changed = [*first, *(each for each in known if each.path != path)]
                if changed != known:
                    write_list(self.file, _NAME, changed)
        except OSError as error:
            raise UserFixable(
                tr("The list of your models could not be saved."),
                tr("Make the folder {folder} writable for your user.").format(
                    folder=self.file.parent
                ),
                str(error),
            ) from error


_FOLDER = "models"


class ModelShelf:
    """The models that are kept. Reads disks: not for the window's own thread.

    Args:
        data: the folder of the user's data.
        cache: the hub's, where the settings name another one than the usual one.
    """

    def __init__(self, data: Path, cache: Path | None = None) -> None:
        self.memory = RememberedModels(data)
        self.folder = data / _FOLDER
        """Folder of our own copies."""
        self._cache = cache
        self._descriptions = Descriptions()

    def models(self, more: Iterable[Path] = (), *, elsewhere: bool = True) -> list[KeptModel]:
        """Return all models: bundled, brought here, used before (`more`), of other programs.

        A broken one is told with its problem; one that other programs have deleted is not told.
        """
        found: dict[Path, FoundModel] = {}
        for model in self.places(more, elsewhere=elsewhere):
            found.setdefault(real_path(model.path), model)
        return [self._descriptions.of(model) for model in found.values()]

    def describe(self, path: Path) -> KeptModel:
        """Return one of them, or one that is not known yet."""
        place = real_path(path)
        for model in self.places(elsewhere=False):
            if real_path(model.path) == place:
                return self._descriptions.of(model)
        return self._descriptions.of(FoundModel(path, ModelOrigin.IN_PLACE))

    def keep(self, model: KeptModel, hashes: dict[str, str] | None = None) -> None:
        """Remember a model that was downloaded, copied, or stays where it is.

        Raises:
            UserFixable: the folder of the user's data cannot be written.
        """
        self.memory.remember(
            Remembered(
                str(model.path),
                model.origin,
                model.repo,
                model.revision,
                model.licence,
                hashes or {},
            )
        )

    def places(self, more: Iterable[Path] = (), *, elsewhere: bool = True) -> Iterator[FoundModel]:
        """Yield what `models` tells of; nothing is read, and a place may come twice."""
        yield from _bundled()
        for known in self.memory.all():
            yield FoundModel(
                Path(known.path),
                known.origin,
                repo=known.repo,
                revision=known.revision,
                licence=known.licence,
            )
        ours = ShelfSearch().models_below(self.folder, 2)  # also what a kill kept from the list
        yield from (FoundModel(path, ModelOrigin.COPIED) for path in ours)
        if elsewhere:
            yield from found_elsewhere(self._cache)
        yield from (FoundModel(path, ModelOrigin.IN_PLACE) for path in more if path.exists())


def _bundled() -> Iterator[FoundModel]:
    try:
        shipped = bundled_models()
    except UserFixable:
        return
    for name, path in shipped.items():
        found = FoundModel(path, ModelOrigin.BUNDLED)
        if name == bundled.STARTER_FOLDER:
            found = replace(
                found, repo=starter.REPO, revision=starter.REVISION, licence=starter.LICENCE
            )
        yield found


_MARKUP = ("license", "licence")


class Descriptions:
    """Reads headers, which takes up to half a second each, once as long as files stay as they are.

    For any number of threads.
    """

    def __init__(self) -> None:
        self._known: dict[FilesState, KeptModel] = {}
        self._lock = Lock()

    def of(self, found: FoundModel) -> KeptModel:
        """Return all columns of a model that was found."""
        try:
            state = FilesState.of(found.path)
        except (OSError, ValueError):
            return _unusable(found, tr("It no longer exists, or cannot be read."))
        with self._lock:
            known = self._known.get(state)
        if known is None:
            known = _read(found)
            with self._lock:
                self._known[state] = known
        return replace(
            known,
            path=found.path,
            name=found.name or known.name,
            origin=found.origin,
            repo=found.repo,
            revision=found.revision,
            licence=found.licence or known.licence,
        )


def _read(found: FoundModel) -> KeptModel:
    try:
        model = LocalModel.inspect(found.path)
    except UserFixable as error:
        return _unusable(found, error.cause)
    except (OSError, RuntimeError):
        return _unusable(found, tr("Its files cannot be read."))
    config = model.config
    return KeptModel(
        path=found.path,
        name=model.name,
        origin=found.origin,
        weight_bytes=model.weight_bytes,
        kind=model.kind,
        family=config.family,
        parameters=weight_count(config) if isinstance(config, ModelConfig) else None,
        context=config.max_positions,
        licence=_licence(model),
        head=isinstance(config, DraftOnly),
        draft=model.draft,
        gguf=model.gguf is not None,
        notes=file_notes(model),
    )


def _unusable(found: FoundModel, problem: str) -> KeptModel:
    """Return what is left to tell of a broken one."""
    try:
        nbytes = size_of(own_files(found.path))
    except (OSError, UserFixable):
        nbytes = 0
    name = found.name or found.path.name
    gguf = found.path.suffix.lower() == ".gguf"
    return KeptModel(found.path, name, found.origin, nbytes, problem=problem, gguf=gguf)


def _licence(model: LocalModel) -> str:
    """Return the licence in the file, or in the card beside it; "" where neither tells."""
    if model.gguf is not None:
        said = (model.gguf.metadata.text("general.license") or "")[:80]
        if said or model.path.is_file():
            return said
    lines = beginning(model.path / "README.md", 4000).splitlines()
    if lines[:1] != ["---"]:
        return ""
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if line == "---":
            break
        if name.strip() in _MARKUP:
            return value.strip().strip("\"'")[:80]
    return ""
