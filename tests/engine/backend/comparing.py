"""What a model computes on a device, piece by piece, and how far it is from another's numbers."""

from __future__ import annotations

import numpy as np

from engine.backend.decoder import Decoder
from engine.model.weights.readable import Floats


def apart(got: Floats, expected: Floats) -> float:
    """Of the row that is worst."""
    distance = np.linalg.norm(got - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return float(distance.max())


def in_chunks(model: Decoder, tokens: list[int], chunk: int) -> np.ndarray:
    """Logits of all tokens, so many in a forward."""
    state, rows = model.new_state(640), []
    for start in range(0, len(tokens), chunk):
        piece = tokens[start : start + chunk]
        rows.append(model.forward(state, piece).logits.copy())
        state.commit(range(len(piece)))
    return np.concatenate(rows)


def check_tree_in_parts(model: Decoder, step: int) -> None:
    """70 rows are two passes; the second sees keys of the first by their slots."""
    rng = np.random.default_rng(5)
    state = model.new_state(640)
    model.forward(state, rng.integers(3, 320, 90).tolist(), logit_rows=())
    state.commit(range(90))
    tokens = rng.integers(3, 320, 70).tolist()
    parents = [-1, *(int(rng.integers(-1, node)) for node in range(1, 70))]
    together = model.forward(state, tokens, parents).logits.copy()
    state.discard()
    for node in range(0, 70, step):
        path = [node]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        alone = model.forward(state, [tokens[each] for each in path]).logits[-1].copy()
        state.discard()
        assert np.array_equal(alone, together[node])
