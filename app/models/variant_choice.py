"""Choice of a repository's variant where the user has not chosen one. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.hub.advice import Badge, Fit
from engine.hub.messages import Packaging, Repository, Variant

_GOOD = ("Q4_K_M", "Q4_0", "Q5_K_M", "Q4_K_S", "Q5_0", "Q6_K", "Q8_0", "BF16", "F16")
"""Formats of a target by preference: small and fast first, with little lost."""
_FOR_DRAFTS = ("Q8_0", "Q4_0", "Q6_K", "Q5_K_M", "Q4_K_M", "BF16", "F16")
"""Formats of a draft by preference: small anyway, it shall predict as the original would."""
_RUNS = (Badge.GPU, Badge.SPLIT, Badge.CPU, Badge.UNKNOWN)


def target_variant(
    repository: Repository, fits: Mapping[str, Fit], wish: str = ""
) -> Variant | None:
    """The one that is wished, or the best of those that run well here."""
    named = _named(repository.variants, wish)
    if named is not None:
        return named
    good = [each for each in repository.variants if _badge(fits, each) in _RUNS]
    tight = [each for each in repository.variants if _badge(fits, each) is Badge.TIGHT]
    for some in (good, tight):
        if some:
            return _first(some, _GOOD)
    return repository.variants[0] if repository.variants else None


def draft_variant(
    repository: Repository, packaging: Packaging, wish: str = "", nbytes: int | None = None
) -> Variant | None:
    """The one that is wished, else one of about the size that was told, else a good one."""
    named = _named(repository.variants, wish)
    if named is not None:
        return named
    alike = [each for each in repository.variants if each.packaging is packaging]
    some = alike or list(repository.variants)
    if some and nbytes is not None:
        return min(some, key=lambda each: abs(each.weight_bytes - nbytes))
    return _first(some, _FOR_DRAFTS) if some else None


def _badge(fits: Mapping[str, Fit], variant: Variant) -> Badge:
    return fits[variant.name].badge if variant.name in fits else Badge.UNKNOWN


def _named(variants: Sequence[Variant], wish: str) -> Variant | None:
    wished = wish.casefold()
    return next((each for each in variants if wish and each.name.casefold() == wished), None)


def _first(variants: Sequence[Variant], order: Sequence[str]) -> Variant:
    ranks = {name: rank for rank, name in enumerate(order)}
    return min(variants, key=lambda each: ranks.get(each.name.upper(), len(order)))
