"""Facts for draws and drafts on the device, and a tree's walk where only drawn tokens come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.sampling import NativeDraws
from engine.backend.ranking import COLDEST, HOTTEST
from engine.backend.round import DraftRequest, Verified, VerifyRequest
from engine.backend.step import Ints
from engine.backend.webgpu.sizes import LOGIT_ROWS
from engine.errors import InvalidLogits

NONE = -1
"""Asked for where a node has no child."""

_NO_FLOOR = -3e38
_COLDEST, _HOTTEST = 1e-3, 1e3
_BROKEN, _CLOSE = 1, 2
"""Flags of draw.wgsl."""


@dataclass(frozen=True, slots=True)
class DeviceDraws:
    """Facts that a device needs to draw at the nodes of a tree, or to draft one.

    Attributes:
        asked: of each node, the token whose probability is wanted, or NONE.
        settings: bits of temperature and min-p's floor below the best logit, the seed, how far
            behind a node the position of its token is, for the noise, top-k, bits of top-p, and of
            the penalties. Of a draft, the second is the floor of a level, and at last come
            whether there is noise, and where its nodes begin.
        filtered: whether top-k or top-p filter.
        heard: what penalise.wgsl reads of what was said; None: nothing is penalised.
    """

    asked: Sequence[int]
    settings: Ints
    filtered: bool = False
    heard: NDArray[np.uint32] | None = None

    @classmethod
    def of(cls, draws: NativeDraws, request: VerifyRequest, committed: int) -> DeviceDraws | None:
        """Return what to tell of a verification; None where the host has to draw.

        `committed`: position of the root.
        """
        struct = draws.struct
        hot = struct.temperature
        count, start = len(request.nodes), struct.answer_start
        unusual = start > len(request.tokens) or not _COLDEST <= struct.repetition <= _HOTTEST
        if draws.constrained:
            return None
        if draws.penalised and (count > LOGIT_ROWS or unusual):
            return None
        if hot and not _COLDEST <= hot <= _HOTTEST:
            return None
        top_k, top_p = (struct.top_k, struct.top_p) if hot else (0, 1.0)
        top_k = top_k if top_k < draws.vocab else 0
        asked = [NONE] * count
        for node in range(count - 1, 0, -1):
            asked[request.parents[node]] = request.nodes[node]
        floor = log(struct.min_p) if struct.min_p > 0 else _NO_FLOOR
        share = min(np.float32(top_p), np.nextafter(np.float32(1), np.float32(0)))
        bits = int((share if top_p < 1 else np.float32(1)).view(np.int32))
        behind = len(request.tokens) - committed
        settings = _settings(hot, floor, struct.seed, behind, top_k, bits)
        heard = None
        if draws.penalised:
            penalties = np.array([struct.repetition, struct.presence, struct.frequency])
            settings = np.concatenate([settings, penalties.astype(np.float32).view(np.int32)])
            heard = _heard(draws.heard(request.tokens), request)
        return cls(asked, settings, bool(top_k) or top_p < 1, heard)

    @classmethod
    def of_draft(cls, request: DraftRequest, start: int) -> DeviceDraws:
        """Return what to tell of a draft whose nodes' keys go to the slots from `start` on."""
        ranking = request.ranking
        hot = min(max(ranking.temperature, COLDEST), HOTTEST) if ranking.temperature else 1.0
        noisy = int(ranking.temperature != 0 and ranking.share_noise)
        # A head's first token is the second.
        behind = 1 + (request.features is not None) + ranking.shift
        floor = request.budget.floor
        return cls((), _settings(hot, floor, ranking.seed, behind, noisy, start))

    def some(self, first: int, count: int) -> DeviceDraws:
        """Return those of some of the nodes."""
        return replace(self, asked=self.asked[first : first + count])


def _heard(known: NDArray[np.uint32], request: VerifyRequest) -> NDArray[np.uint32]:
    """Return the paths of a tree's nodes, their tokens, and what was said of each token."""
    paths, nodes = [0] * LOGIT_ROWS, list(request.nodes[1:])
    for node, parent in enumerate(request.parents[1:], 1):
        paths[node] = paths[parent] | 1 << node
    of_tree = np.zeros((3, LOGIT_ROWS), dtype=np.uint32)
    of_tree[:2] = np.array(paths, dtype=np.uint64).view(np.uint32).reshape(-1, 2).T
    of_tree[2, 1 : 1 + len(nodes)] = nodes
    heard = np.concatenate([of_tree.reshape(-1), known])
    heard[of_tree.size + np.array(nodes, dtype=np.int64)] |= 2
    return heard


def _settings(temperature: float, floor: float, seed: int, *others: int) -> Ints:
    numbers = np.array([temperature, floor], dtype=np.float32).view(np.int32)
    words = np.array([seed], dtype=np.uint64).view(np.int32)
    return np.concatenate([numbers, words, np.array(others, dtype=np.int32)])


def walked(request: VerifyRequest, drawn: NDArray[np.uint32]) -> Verified | None:
    """Walk a tree with the tokens that were drawn; see `engine.speculative.decoding.verify`.

    Args:
        request: the tree, and how far to draw.
        drawn: [nodes, 4], as draw.wgsl writes them.

    Returns:
        The walk; None where the host has to draw, as two tokens were too close for the device.

    Raises:
        InvalidLogits: the logits at a node of the path are not finite.
    """
    below = [dict[int, int]() for _ in request.nodes]
    for node in range(1, len(request.nodes)):
        below[request.parents[node]].setdefault(request.nodes[node], node)
    chances = drawn[:, 1:3].copy().view(np.float32)
    node, path, tokens, found = 0, [0], list[int](), list[float]()
    accepted = offered = 0
    while True:
        if drawn[node, 3] & _BROKEN:
            raise InvalidLogits("the model's output is not a number")
        if drawn[node, 3] & _CLOSE:
            return None
        token = int(drawn[node, 0])
        child = below[node].get(token)
        tokens.append(token)
        found.append(float(chances[node, 0]))
        offered += bool(below[node])
        accepted += child is not None
        if child is None or token in request.stop_ids or len(tokens) >= request.limit:
            break
        path.append(child)
        node = child
    refused = float(chances[node, 1]) if child is None and below[node] else None
    return Verified(
        tuple(path), tuple(tokens), accepted, offered, chances=tuple(found), refused=refused
    )
