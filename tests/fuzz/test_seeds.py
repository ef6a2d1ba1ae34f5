"""The fuzz targets on their seeds: each still takes what it begins with, and what it once found."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets import NAMES, SEEDS, target


@pytest.mark.parametrize(
    "seed",
    [path for name in NAMES for path in sorted((SEEDS / name).iterdir())],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_seeds(seed: Path) -> None:
    target(seed.parent.name)(seed.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_every_target_has_small_seeds(name: str) -> None:
    assert 0 < sum(path.stat().st_size for path in (SEEDS / name).iterdir()) < 64 << 10
