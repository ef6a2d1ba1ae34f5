"""The starter model as the draft of the larger models that speak its tokens."""

from __future__ import annotations

from pathlib import Path

from engine.hub import starter
from engine.hub.pairing.curated import curated
from engine.model.config import ModelConfig


def starter_draft(target: ModelConfig) -> Path | None:
    """The starter model's file, where it is here and the list pairs it with a model of this shape.

    Nobody has compared the vocabularies: a model of the same shape may speak other tokens.
    """
    listed = curated()
    entry = listed.of_config(target)
    if entry is None:
        return None
    draft = listed.of_repo(starter.REPO)
    paired = any(draft is each for each, _ in listed.drafts_for(entry))
    return starter.starter_path() if paired else None
