"""One answer being decoded by the target: prefill, then rounds of verify and commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import exp
from time import perf_counter

from engine.backend.decoder import Decoder
from engine.backend.round import Round, Verified
from engine.backend.sequence import SequenceState
from engine.backend.tree import TokenTree
from engine.errors import Cancelled
from engine.events import Interval
from engine.speculative.sampler import Sampler
from engine.speculative.verify import verify

PREFILL_SECONDS = 0.1
"""A prefill chunk is sized to take about this long, so that a stop is obeyed at once."""

MAX_PREFILL_CHUNK = 512


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
        cancelled: asked between chunks of the prefill.
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
    ) -> None:
        if not prompt:
            raise ValueError("a prompt needs at least one token")
        self.target = target
        self.state = state
        self.sampler = sampler
        self.tokens = list(prompt)
        self.cancelled = cancelled
        self._prompt_length = len(prompt)
        self._stop_ids = frozenset(stop_ids)
        room = state.context - len(prompt)
        self._end = len(prompt) + (room if max_tokens is None else min(room, max_tokens))
        reusable = state.reusable(min(state.common_prefix(prompt), len(prompt) - 1))
        state.crop(reusable)
        self.reused = reusable

    @property
    def committed(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self._prompt_length

    @property
    def remaining(self) -> int:
        """Most tokens that may still be committed; 0 when the answer has ended."""
        if self.committed and self.tokens[-1] in self._stop_ids:
            return 0
        return max(self._end - len(self.tokens), 0)

    def prefill(self) -> Iterator[int]:
        """Process all of the prompt but its last token, yielding the tokens done so far.

        What is computed is committed at once, so an interrupted prefill is kept.

        Raises:
            Cancelled: the user stopped it.
        """
        chunk = 16
        while (done := len(self.state)) < len(self.tokens) - 1:
            if self.cancelled():
                raise Cancelled
            piece = self.tokens[done : min(done + chunk, len(self.tokens) - 1)]
            start = perf_counter()
            self.target.forward(self.state, piece, logit_rows=())
            self.state.commit(range(len(piece)))
            pace = len(piece) / max(perf_counter() - start, 1e-6)
            chunk = min(max(16, int(pace * PREFILL_SECONDS)), MAX_PREFILL_CHUNK)
            yield len(self.state)

    def verify(self, tree: TokenTree, draft: Interval | None = None) -> Round:
        """One target forward over the tree (root included); commits what the target agrees to.

        Args:
            tree: what was drafted.
            draft: when all of it was, level by level.
        """
        limit = self.remaining
        tree = tree.limited(limit - 1)
        start = perf_counter()
        verified = self._commit(tree, limit)
        self.tokens.extend(verified.tokens)
        seconds, useful = draft.seconds if draft else 0.0, 0.0
        if verified.accepted:
            useful = seconds * verified.accepted / max(tree.depths)
        rejected: tuple[int, ...] = ()
        if verified.offered > verified.accepted:
            rejected = tree.likeliest_below(verified.path[-1])
        return Round(
            tokens=verified.tokens,
            accepted=verified.accepted,
            drafted=tree.drafted,
            drafting=(draft,) if draft else (),
            verify=Interval(start, perf_counter()),
            offered_by_depth=verified.offered_by_depth,
            accepted_by_depth=verified.accepted_by_depth,
            rejected=rejected,
            chances=verified.chances,
            refused=verified.refused,
            guesses=_guesses(tree, verified) if verified.offered else (),
            useful=useful,
            wasted=seconds - useful,
        )

    def _commit(self, tree: TokenTree, limit: int) -> Verified:
        """Where target and draws are native all of it is one call, else a forward and a walk."""
        target, state, stop_ids = self.target, self.state, self._stop_ids
        draws = self.sampler.native(target.config.vocab_size) if target.verifies_trees else None
        if draws is not None:
            return target.verify(
                state, tree.tokens, tree.parents, draws, self.tokens, limit=limit, stop_ids=stop_ids
            )
        logits = target.forward(state, tree.tokens, tree.parents).logits
        verified = verify(tree, logits, self.sampler, self.tokens, limit=limit, stop_ids=stop_ids)
        state.commit(verified.path)
        return verified


def _guesses(tree: TokenTree, verified: Verified) -> tuple[float | None, ...]:
    """What a draft model gave what was on offer on the verified way: see `Round.guesses`."""
    nodes = list(verified.path[1:])
    if len(nodes) < verified.offered:  # the last one has no keys to stay: it was refused, or ended
        accepted = verified.accepted == verified.offered
        last = tree.child(verified.path[-1], verified.tokens[-1] if accepted else None)
        nodes += [] if last is None else [last]
    weights = [tree.weight(node) for node in nodes]
    return tuple([None if weight is None else exp(min(weight, 0.0)) for weight in weights])
