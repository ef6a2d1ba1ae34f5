"""Where a feature head's own tensors lie among the stored ones: by our names, or as published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import HEAD_IDS, Shape, borrowed_tensors, expected_tensors
from engine.model.weights.layout import checked_part, mismatch, unmentioned
from engine.model.weights.parts import StoredPart

OFFSETS = "d2t"
"""Of a head that cannot propose all tokens: token of a row, less the row's number."""
_JOINING = {
    "fusion.features.weight": "fc.weight",
    "fusion.linear.weight": "fc.weight",
    "fusion.linear.bias": "fc.bias",
}
_IGNORED = ("t2d", "model.t2d")
"""Which tokens have a row at all: the same once more, from the other side."""
_TARGETS = ("verifier_",)
"""What begins the names of the target's own tensors, which some tools save too."""


def head_layout(
    config: ModelConfig, stored: Mapping[str, Shape], where: str = ""
) -> tuple[dict[str, StoredPart], StoredPart | None]:
    """Canonical name -> where it is stored, for what the head has of its own; and its tokens.

    Args:
        config: of the head.
        stored: names and shapes of all stored tensors.
        where: the folder, for messages.

    Raises:
        UserFixable: tensors are missing, of the wrong shape, or more than the head has.
    """
    if config.num_layers > len(stored):
        count = config.num_layers
        raise mismatch(
            tr("config.json describes {count} blocks, more than there are weights").format(
                count=count
            ),
            where,
        )
    wanted = expected_tensors(config)
    for name in borrowed_tensors(config):
        wanted.pop(name, None)
    ids = wanted.pop(HEAD_IDS, None)
    names = {name: name for name in stored}
    found: dict[str, StoredPart] = {}
    for name, shape in wanted.items():
        found[name] = _found(_places(name), shape, names, stored, where)
    tokens = None
    if ids is not None:
        tokens = _found((OFFSETS, f"model.{OFFSETS}", HEAD_IDS), ids, names, stored, where)
    used = {part.stored for part in found.values()} | set(_IGNORED)
    used |= {tokens.stored} if tokens else set()
    for name in stored:
        if name not in used and not name.endswith("inv_freq") and not name.startswith(_TARGETS):
            raise unmentioned(name, where)
    return found, tokens


def _found(
    places: Iterator[str] | tuple[str, ...],
    shape: Shape,
    names: Mapping[str, str],
    stored: Mapping[str, Shape],
    where: str,
) -> StoredPart:
    candidates = tuple(places)
    place = next((name for name in candidates if name in stored), None)
    if place is None:
        raise mismatch(tr("{name} is missing").format(name=candidates[0]), where)
    return checked_part(StoredPart(place, shape, shape), names, stored, where)


def _places(name: str) -> Iterator[str]:
    """Names that a tensor may have: EAGLE's, with or without "model." before them, and ours."""
    plain = _JOINING.get(name) or name.removeprefix("model.")
    if plain.startswith("layers.0."):
        first = plain.replace("layers.0.", "midlayer.", 1)
        yield first
        yield f"model.{first}"
    yield plain
    yield f"model.{plain}"
    yield name
