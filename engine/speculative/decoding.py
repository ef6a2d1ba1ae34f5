"""One answer being decoded by the target: prefill, then rounds of verify and commit.

Trees are verified by sample-then-match, exactly, under any sampler. At each node the target draws
its own token; if that token is among the node's children the walk descends, else it stops. Every
committed token is thus the target's own draw, and the draft decides only how many of them one
forward gives (shown equivalent to residual rejection for deterministic drafts: Dovetail section on
verification; SpecExec)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Protocol

import numpy as np

from engine.backend.decoder import Decoder, Forward
from engine.backend.native.pool import CancelFlag
from engine.backend.prefix_cache import OPENING, SNAPSHOT_EVERY
from engine.backend.round import Round, Verified, VerifyRequest
from engine.backend.sequence import SequenceState
from engine.backend.step import CHUNK
from engine.backend.tree import TokenTree
from engine.errors import Cancelled
from engine.events import Interval
from engine.model.weights.readable import Floats
from engine.speculative.sampler import Sampler

PREFILL_SECONDS = 0.1
"""A prefill chunk is sized to take about this long, so that a stop is obeyed at once."""

MAX_PREFILL_CHUNK = 512
_FIRST_CHUNK = 16
"""Tokens of a prefill's first chunk, and of all where each has its logits."""


def verify(
    tree: TokenTree,
    logits: Floats,
    sampler: Sampler,
    tokens: Sequence[int],
    *,
    limit: int,
    stop_ids: Collection[int] = (),
) -> Verified:
    """Walk the tree with the target's own draws.

    Args:
        tree: the tree the target has just processed.
        logits: fp32 [nodes, vocab], the target's at every node.
        sampler: draws the target's tokens.
        tokens: committed tokens, the root last.
        limit: most tokens to commit, >= 1.
        stop_ids: tokens after which the answer ends.
    """
    if (native := sampler.native(logits.shape[1])) is not None:
        request = VerifyRequest(tree.tokens, tree.parents, tokens, limit, stop_ids)
        return native.verify(request, logits)
    below = tree.children()
    path: list[int] = [0]
    drawn: list[int] = []
    chances: list[float] = []
    refused: float | None = None
    accepted = offered = node = 0
    while True:
        token = sampler.draw(logits[node], tokens, drawn)
        drawn.append(token)
        child = below[node].get(token)
        first = next(iter(below[node]), None) if child is None else None
        chance, refused = _chances(logits[node], token, first)
        chances.append(chance)
        offered += bool(below[node])
        accepted += child is not None
        if child is None or token in stop_ids or len(drawn) >= limit:
            break
        path.append(child)
        node = child
    return Verified(
        tuple(path), tuple(drawn), accepted, offered, chances=tuple(chances), refused=refused
    )


def _chances(logits: Floats, token: int, other: int | None) -> tuple[float, float | None]:
    """Return the probabilities of two tokens by the logits."""
    weights = np.exp(logits.astype(np.float64) - logits.max())
    mass = weights.sum()
    known = other is not None and 0 <= other < len(weights)
    return float(weights[token] / mass), float(weights[other] / mass) if known else None


def likeliest(logits: Floats, count: int) -> tuple[tuple[int, float], ...]:
    """Return the likeliest tokens by the logits with their probabilities, the best first."""
    count = min(count, len(logits))
    weights = np.exp(logits.astype(np.float64) - logits.max())
    best = np.argpartition(-weights, count - 1)[:count]
    best = best[np.lexsort((best, -weights[best]))]  # ties go to the lowest id
    mass = weights.sum()
    return tuple((int(token), float(weights[token] / mass)) for token in best)


class PromptReader(Protocol):
    """Takes what is computed of a prompt's tokens as they are processed."""

    logits: bool
    """Whether it needs their logits."""

    def take(self, first: int, found: Forward) -> None:
        """Take the results of a forward over the tokens from the `first` on."""


class Decoding:
    """The target's side of one answer, the same for every loop.

    `tokens` is the prompt and all committed tokens. The last of them, the root, has not been
    processed yet: `state` holds the keys of all before it.

    Args:
        target: the target model.
        state: its sequence state; the part in common with the prompt is reused.
        prompt: token ids of the prompt, at least one.
        sampler: draws the target's tokens.
        stop_ids: tokens that end the answer.
        max_tokens: most tokens to commit.
        cancelled: asked between chunks of the prefill; a `CancelFlag` ends a forward as well.
        alternatives: how many tokens `Verified.likeliest` has at each place.
        snapshot: keeps a way back to where the state is, see `PrefixCache.snapshot`.
    """

    def __init__(
        self,
        target: Decoder,
        state: SequenceState,
        prompt: list[int],
        sampler: Sampler,
        *,
        stop_ids: Collection[int] = (),
        max_tokens: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        alternatives: int = 0,
        snapshot: Callable[[], None] = lambda: None,
    ) -> None:
        if not prompt:
            raise ValueError("a prompt needs at least one token")
        self.target = target
        self.state = state
        self.sampler = sampler
        self.tokens = list(prompt)
        self.cancelled = cancelled
        self._cancel = cancelled if isinstance(cancelled, CancelFlag) else None
        self._prompt_length = len(prompt)
        self._stop_ids = frozenset(stop_ids)
        self._alternatives = alternatives
        room = state.context - len(prompt)
        self._end = len(prompt) + (room if max_tokens is None else min(room, max_tokens))
        self._hold: int | None = None
        state.crop(min(state.common_prefix(prompt), len(prompt) - 1))
        self.reused = len(state)
        self._snapshot = snapshot
        snapshot()  # the border between two turns

    @property
    def committed(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self._prompt_length

    @property
    def remaining(self) -> int:
        """Most tokens that may still be committed; 0 when the answer has ended."""
        if self.committed and self.tokens[-1] in self._stop_ids:
            return 0
        end = self._end if self._hold is None else min(self._hold, self._end)
        return max(end - len(self.tokens), 0)

    def hold_at(self, committed: int | None) -> None:
        """Let the rounds end at so many tokens of the answer; None: where it ends."""
        self._hold = None if committed is None else self._prompt_length + committed

    @property
    def at_hold(self) -> bool:
        """Tell whether the rounds have come to where `hold_at` ends them."""
        return self._hold is not None and len(self.tokens) >= self._hold

    def give(self, tokens: Sequence[int]) -> bool:
        """Append tokens that nobody drew; `prefill` processes them. False: there is no room."""
        if len(self.tokens) + len(tokens) >= self._end:
            return False
        self.tokens.extend(tokens)
        return True

    def prefill(self, reader: PromptReader | None = None) -> Iterator[int]:
        """Process all tokens but the last, yielding how many are done so far.

        What is computed is committed at once, so an interrupted prefill is kept.

        Args:
            reader: gets what is computed of each token.

        Raises:
            Cancelled: the user stopped it.
        """
        end = len(self.tokens) - 1
        border = self._border(end)
        # A state takes in the earlier parts of a longer forward at once: given up on the way, it
        # would be behind what is committed.
        most = CHUNK if self.state.recurrent else MAX_PREFILL_CHUNK
        least = most if self.state.recurrent and self._cancel is not None else _FIRST_CHUNK
        if logits := reader is not None and reader.logits:
            most = least = _FIRST_CHUNK
        chunk = least
        while (done := len(self.state)) < len(self.tokens) - 1:
            if self.cancelled():
                raise Cancelled
            stop = border if done < border else end
            piece = self.tokens[done : min(done + chunk, stop)]
            start = perf_counter()
            rows = range(len(piece)) if logits else ()
            found = self.target.forward(self.state, piece, logit_rows=rows, cancel=self._cancel)
            if reader is not None:
                reader.take(done, found)
            self.state.commit(range(len(piece)))
            pace = len(piece) / max(perf_counter() - start, 1e-6)
            chunk = min(max(least, int(pace * PREFILL_SECONDS)), most)
            passed = len(self.state) // SNAPSHOT_EVERY - done // SNAPSHOT_EVERY
            if passed or len(self.state) == border:
                self._snapshot()
            yield len(self.state)

    def read_last(self, reader: PromptReader) -> None:
        """Process the last token for a reader alone."""
        reader.take(
            len(self.state), self.target.forward(self.state, self.tokens[-1:], logit_rows=())
        )
        self.state.discard()

    def _border(self, end: int) -> int:
        """Return where a way back is kept, of a state that needs one: near the prompt's end.

        Behind it is what opens the answer, which templates write differently once it is over.
        Whole slices of a forward lie before it, so that it costs no more of them.
        """
        start = len(self.state)
        whole = max(end - start - OPENING, 0) // CHUNK * CHUNK
        return start + whole if self.state.recurrent else end

    def verify(self, tree: TokenTree, draft: Interval | None = None) -> Round:
        """Run a target forward over the tree (root included); commit what the target agrees to.

        Args:
            tree: what was drafted.
            draft: when all of it was, level by level.

        Raises:
            Cancelled: the user stopped it; nothing of the round is committed.
        """
        limit = self.remaining
        if (constraint := self.sampler.constraint) is not None:
            tree = constraint.pruned(tree, self.tokens)
        tree = tree.limited(limit - 1)
        start = perf_counter()
        verified = self._commit(tree, limit)
        self.tokens.extend(verified.tokens)
        verify = Interval(start, perf_counter())
        if draft is None:
            return Round(tree, verified, verify)
        accepted = verified.accepted
        useful = draft.seconds * accepted / max(tree.depths) if accepted else 0.0
        return Round(tree, verified, verify, (draft,), useful, draft.seconds - useful)

    def _commit(self, tree: TokenTree, limit: int) -> Verified:
        """Verify and commit: one native call where possible, else a forward and a walk."""
        target, state, stop_ids = self.target, self.state, self._stop_ids
        draws = self.sampler.native(target.config.vocab_size)
        if draws is not None and not self._alternatives:
            nodes, parents = tree.tokens, tree.parents
            request = VerifyRequest(nodes, parents, self.tokens, limit, stop_ids, self._cancel)
            return target.verify(state, draws, request)
        logits = target.forward(state, tree.tokens, tree.parents, cancel=self._cancel).logits
        verified = verify(tree, logits, self.sampler, self.tokens, limit=limit, stop_ids=stop_ids)
        state.commit(verified.path)
        if self._alternatives:
            told = tuple(likeliest(logits[node], self._alternatives) for node in verified.path)
            return replace(verified, likeliest=told)
        return verified
