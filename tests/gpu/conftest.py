"""What needs an accelerator; skipped where there is none. Helpers are those of the other tests."""

from __future__ import annotations

import sys
from pathlib import Path

_ENGINE = Path(__file__).parents[1] / "engine"
sys.path[:0] = [
    str(_ENGINE / folder) for folder in (".", "backend", "backend/accelerator", "decode")
]
