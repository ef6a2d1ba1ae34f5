"""All models on this computer that Duotail knows of, with everything a list shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.local import bundled_models
from engine.hub.shelf.describing import Descriptions
from engine.hub.shelf.elsewhere import found_elsewhere
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.remembered import Memory, Remembered
from engine.hub.shelf.searching import FoundModel, ShelfSearch
from engine.model import bundled

_FOLDER = "models"


class Shelf:
    """The models that are kept. Reads disks: not for the window's own thread.

    Args:
        data: the folder of the user's data.
        cache: the hub's, where the settings name another one than the usual one.
    """

    def __init__(self, data: Path, cache: Path | None = None) -> None:
        self.memory = Memory(data)
        self.folder = data / _FOLDER
        """Where copies go."""
        self._cache = cache
        self._descriptions = Descriptions()

    def models(self, more: Iterable[Path] = (), *, elsewhere: bool = True) -> list[KeptModel]:
        """All of them: bundled, brought here, used before (`more`), and found in other programs.

        A broken one is told with its problem; one that other programs have deleted is not told.
        """
        found: dict[Path, FoundModel] = {}
        for model in self._all(more, elsewhere=elsewhere):
            found.setdefault(_place(model.path), model)
        return [self._descriptions.of(model) for model in found.values()]

    def describe(self, path: Path) -> KeptModel:
        """One of them, or one that is not known yet."""
        place = _place(path)
        for model in self._all((), elsewhere=False):
            if _place(model.path) == place:
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

    def _all(self, more: Iterable[Path], *, elsewhere: bool) -> Iterator[FoundModel]:
        yield from _bundled()
        for known in self.memory.all():
            yield FoundModel(
                Path(known.path),
                known.origin,
                repo=known.repo,
                revision=known.revision,
                licence=known.licence,
            )
        ours = ShelfSearch().models_below(
            self.folder, 2
        )  # those too that a kill kept from the list
        yield from (FoundModel(path, ModelOrigin.COPIED) for path in ours)
        if elsewhere:
            yield from found_elsewhere(cache=self._cache)
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


def _place(path: Path) -> Path:
    """Where a link leads."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path
