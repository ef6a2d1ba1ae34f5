"""Two tiers: what runs before every commit, and what a release runs besides.

A test belongs to the second tier by `@pytest.mark.release(reason="...")`. With `keep=n`, n of its
cases stay in the first tier: always the same ones, and together they have as many different
values of each parameter as n cases can have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import pytest


def release_only(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests that only a release runs."""
    functions = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("release"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        yield from _all_but_a_sample(cases)


def _all_but_a_sample(cases: list[pytest.Item]) -> Iterator[pytest.Item]:
    mark = cases[0].get_closest_marker("release")
    assert mark is not None
    assert mark.kwargs["reason"], f"{cases[0].nodeid}: a release test says why"
    left = sorted(cases, key=lambda case: blake2b(case.nodeid.encode()).digest())
    seen = set[tuple[str, str]]()
    for _ in range(min(mark.kwargs.get("keep", 0), len(left))):
        best = max(left, key=lambda case: len(_values(case) - seen))
        left.remove(best)
        seen |= _values(best)
    yield from left


def _values(case: pytest.Item) -> set[tuple[str, str]]:
    """Each of the case's parameters with its value."""
    callspec = getattr(case, "callspec", None)
    return set() if callspec is None else {(k, repr(v)) for k, v in callspec.indices.items()}
