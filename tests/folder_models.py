"""A small trained model and its draft as folders in Hugging Face layout, for tests that read such.

What Duotail ships may be stored in another way: `engine.hub.local.default_target` tells where.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "models"
FOLDER_TARGET = _FOLDER / "duotail-7m"
"""A Llama of 8 blocks that are 256 wide, in bf16; its sidecar names the draft beside it."""
FOLDER_DRAFT = _FOLDER / "duotail-1m-draft"
FOLDER_STORIES = _FOLDER / "stories260K"
"""A Llama that others have trained, with 260 thousand weights and 512 tokens; no chat template."""
