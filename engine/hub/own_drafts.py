"""Drafts for a target among the models on this disk, without being asked for.

Looked at are models beside the target, those that Duotail knows, and other programs'. Names and
sizes are compared first, then headers, then the tokens of the few that are left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic

from engine.errors import UserFixable
from engine.events import DraftHere
from engine.hub.remote.variants import is_head_of, letters
from engine.hub.shelf.other_programs import ShelfSearch
from engine.hub.shelf.shelf import FILE, ModelShelf
from engine.hub.starter import user_data
from engine.model.config import ModelConfig
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, own_files, real_path, size_of
from engine.model.text.vocabulary.same_tokens import fingerprint, most_odd, unshared
from engine.plan.footprint import weight_count

_LARGEST = 0.6
"""Share of the target's weights, above which a draft costs more than it brings."""
_MOST = 3
"""Drafts that are handed to the planner."""
_LOOKED_AT = 200
"""Models whose headers are read at most."""
_FRESH_S = 20.0
"""Seconds for which a disk is taken to hold what it did."""
_log = logging.getLogger(__name__)


Tokens = Callable[[], Mapping[str, int]]
"""Gives a target's vocabulary."""


def drafts_here(target: LocalModel | Path, tokens: Tokens) -> tuple[DraftHere, ...]:
    """Return models and heads on this disk that can draft for a target, the most promising first.

    Its own draft goes before all others, a head before a model, a small model before a large one.
    What is broken is passed over.

    Args:
        target: the model, or where it is: then headers are read unless it was asked for just now.
        tokens: of the target.

    Raises:
        UserFixable: there is no model at that place.
    """
    key = _key(target if isinstance(target, Path) else target.path)
    kept = None if key is None else _known.get(key)
    if kept is not None and monotonic() - kept[0] < _FRESH_S:
        return kept[1]
    model = LocalModel.inspect(target) if isinstance(target, Path) else target
    found = tuple(_found(model, tokens))
    if key is not None:
        _known.clear()
        _known[key] = (monotonic(), found)
    return found


_Key = tuple[FilesState, int, int]
_known: dict[_Key, tuple[float, tuple[DraftHere, ...]]] = {}


def _key(path: Path) -> _Key | None:
    """Return what tells whether anything beside a model, or in the library, has changed."""
    library = user_data() / FILE
    try:
        beside = path.absolute().parent.stat().st_mtime_ns
        known = library.stat().st_mtime_ns if library.exists() else 0
        return FilesState.of(real_path(path)), beside, known
    except (OSError, ValueError):
        return None


def _found(target: LocalModel, tokens: Tokens) -> Iterator[DraftHere]:
    config = target.config
    if not isinstance(config, ModelConfig):
        return
    if target.draft is not None:
        yield from map(_here, _looked_at(target.draft))
    near = [model for model in _small(target) if _has_its_shape(model, config)]
    near.sort(key=lambda model: (not _is_head(model), model.weight_bytes))
    ours = tokens() if near else {}
    fitting = (_here(model) for model in near if _fits(target, config, ours, model))
    yield from islice(fitting, _MOST)


def _here(model: LocalModel) -> DraftHere:
    return DraftHere(model.path, model.name)


def _small(target: LocalModel) -> Iterator[LocalModel]:
    """Yield models of a draft's size beside its own draft, each once."""
    most = _LARGEST * target.weight_bytes
    seen = {real_path(path) for path in (target.path, target.draft) if path is not None}
    for path in _places(target.path):
        place = real_path(path)
        if place in seen or len(seen) > _LOOKED_AT:
            continue
        seen.add(place)
        yield from _looked_at(path, most)


def _looked_at(path: Path, most: float = inf) -> Iterator[LocalModel]:
    """Yield a model, unless it is broken or has more than so many bytes."""
    try:
        if 0 < size_of(own_files(path)) <= most:
            yield LocalModel.inspect(path)
    except (UserFixable, OSError, ValueError) as error:
        _log.info("%s is not looked at as a draft: %s", path, error)


def _places(target: Path) -> Iterator[Path]:
    """Yield paths of models, the nearest first."""
    beside = ShelfSearch(seconds=1.0, folders=200)
    yield from beside.models_below(target.absolute().parent, 1)
    yield from (model.path for model in ModelShelf(user_data()).places())


def _is_head(model: LocalModel) -> bool:
    return isinstance(model.config, DraftOnly) and model.config.is_head


def _has_its_shape(model: LocalModel, target: ModelConfig) -> bool:
    """Tell by the headers whether it may speak the target's tokens, and is small enough."""
    own = model.config
    if isinstance(own, DraftOnly):
        return own.is_head or own.config.vocab_size == target.vocab_size
    if not isinstance(own, ModelConfig):
        return False
    rows = abs(own.vocab_size - target.vocab_size)
    share = weight_count(own) / weight_count(target)
    return rows <= most_odd(own.vocab_size, target.vocab_size) and share <= _LARGEST


def _fits(
    target: LocalModel, config: ModelConfig, tokens: Mapping[str, int], draft: LocalModel
) -> bool:
    """Tell whether a model can draft for a target; of heads, those that were made for it."""
    own = draft.config
    try:
        if not isinstance(own, DraftOnly):
            return unshared(tokens, draft.tokens().ids) is not None
        if not own.is_head:
            return own.vocabulary == fingerprint(tokens)
        head = own.for_target(config, draft.name, target.name)
        draft.draft_weights(head, target.own_weights(config), config.tie_word_embeddings)
        if own.own:
            return is_head_of(draft.name, f"{target.name} {target.path.name}")
        return made_for(own.target, target)
    except (UserFixable, OSError):
        return False


def made_for(told: str, target: LocalModel) -> bool:
    """Tell whether the name that a head gives its target is this model's.

    A repository, a file and a model differ in marks, and in what was done to its weights.
    """
    wanted = letters(told.rpartition("/")[2])
    return bool(wanted) and wanted in letters(f"{target.name} {target.path.name}")
