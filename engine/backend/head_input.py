"""What a feature head is given beside its tokens, as every backend checks it."""

from __future__ import annotations

from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats


def check_head(config: ModelConfig, blocks: range, *, embed: bool, head: bool) -> None:
    """Raise `ValueError` where a config has a fusion that cannot be compiled like this."""
    fusion = config.fusion
    if fusion is None:
        return
    if blocks != range(config.num_layers) or not (embed and head):
        raise ValueError("a feature head is one segment")
    if (fusion.width == config.hidden_size) == (fusion.kind == "eagle3"):
        raise ValueError("a head of this kind cannot go on from its own features")


def features_are_own(config: ModelConfig, features: Floats | None, rows: int) -> bool:
    """Whether a head is given what it put out itself rather than features of its target.

    It is told by their width, and matters only where a head treats them differently (EAGLE-3).

    Raises:
        ValueError: they are neither.
    """
    if config.fusion is None:
        return False
    if features is not None and features.shape == (rows, config.fusion.width):
        return False
    if features is None or features.shape != (rows, config.hidden_size):
        raise ValueError("a feature head needs the features of every row")
    return True
