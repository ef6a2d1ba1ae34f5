"""All fuzz targets by name: what they take, a function of bytes, raises for a bug only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

SEEDS = Path(__file__).parent / "seeds"
NAMES = (
    "gguf", "safetensors", "inference", "tokenizer", "template", "history", "stream", "markdown",
)  # fmt: skip


def target(name: str) -> Callable[[bytes], None]:
    """Import a target; what it needs comes with it."""
    if name in ("gguf", "safetensors", "inference"):
        import fuzzed_files as module
    elif name == "markdown":
        import fuzzed_markdown as module  # type: ignore[no-redef]
    else:
        import fuzzed_texts as module  # type: ignore[no-redef]
    found: Callable[[bytes], None] = getattr(module, name)
    return found
