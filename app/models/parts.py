"""The entries of the three lists, narrowed down to what is in the field. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.hub.advice import Recommendation
from engine.hub.shelf.kept_model import KeptModel
from engine.language import tr


@dataclass(frozen=True, slots=True)
class Heading:
    """Stands above the entries of one kind."""

    title: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Offered:
    """A model that another program has."""

    model: KeptModel


def on_disk(
    kept: Sequence[KeptModel], elsewhere: Sequence[KeptModel], words: str
) -> list[KeptModel | Offered | Heading]:
    """Ours first, then what others have."""
    own = [each for each in kept if _says(words, each.name, each.family, each.kind)]
    known = {each.path for each in kept}
    offered = [
        Offered(each)
        for each in elsewhere
        if each.path not in known and _says(words, each.name, each.family, each.kind)
    ]
    entries: list[KeptModel | Offered | Heading] = [*own]
    if offered:
        about = tr("Models of other programs; Duotail can use them too.")
        entries += [Heading(tr("Found on this disk"), about), *offered]
    return entries


def suitable(suggestions: Sequence[Recommendation], words: str) -> list[Recommendation]:
    """Return the suggestions that match the words."""
    return [each for each in suggestions if _says(words, each.name, each.repo)]


def _says(words: str, *texts: str) -> bool:
    said = " ".join(texts).casefold()
    return all(word in said for word in words.casefold().split())
