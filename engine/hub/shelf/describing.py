"""What the shelf tells of a model: everything that its headers say, or why it cannot be used."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from engine.errors import UserFixable
from engine.hub.shelf.kept_model import KeptModel
from engine.hub.shelf.searching import FoundModel
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.heads.reduced import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, own_files, size_of
from engine.plan.footprint import weight_count

_MOST_KEPT = 256
_MARKUP = ("license", "licence")


class Descriptions:
    """Reads headers, which takes up to half a second each, once as long as files stay as they are.

    For any number of threads.
    """

    def __init__(self) -> None:
        self._known: dict[FilesState, KeptModel] = {}
        self._lock = Lock()

    def of(self, found: FoundModel) -> KeptModel:
        """All columns of a model that was found."""
        try:
            state = FilesState.of(found.path)
        except (OSError, ValueError):
            return _unusable(found, tr("It is not there any more, or cannot be read."))
        with self._lock:
            known = self._known.get(state)
        if known is None:
            known = _read(found)
            with self._lock:
                if len(self._known) >= _MOST_KEPT:
                    self._known.clear()
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
    )


def _unusable(found: FoundModel, problem: str) -> KeptModel:
    """What is left to tell of a broken one."""
    try:
        nbytes = size_of(own_files(found.path))
    except (OSError, UserFixable):
        nbytes = 0
    name = found.name or found.path.name
    gguf = found.path.suffix.lower() == ".gguf"
    return KeptModel(found.path, name, found.origin, nbytes, problem=problem, gguf=gguf)


def _licence(model: LocalModel) -> str:
    """As the file, or the card beside it, says."""
    if model.gguf is not None:
        said = (model.gguf.metadata.text("general.license") or "")[:80]
        if said or model.path.is_file():
            return said
    try:
        with (model.path / "README.md").open(encoding="utf-8", errors="replace") as stream:
            lines = stream.read(4000).splitlines()
    except OSError:
        return ""
    if lines[:1] != ["---"]:
        return ""
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if line == "---":
            break
        if name.strip() in _MARKUP:
            return value.strip().strip("\"'")[:80]
    return ""
