"""The target's draws in one answer, by the native library (engine/native/sample.h)."""

from __future__ import annotations

import ctypes as c
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account, unlimited
from engine.backend.native.library import (
    AllowedFunction,
    SamplingStruct,
    VerificationStruct,
    library,
    pointer,
    refusal,
)
from engine.backend.native.memory import reserve
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.backend.round import Allowed, Verified, VerifyRequest
from engine.model.weights.readable import Floats
from engine.request import Bias, SamplingParams

MOST_WIDTH = 64
"""DT_MOST_WIDTH: most tokens that a row's ranking gives."""

_FEW_NODES = 32


class NativeDraws:
    """Draws, verifies and ranks for one answer; one native call each, the GIL released.

    Tokens are passed as a list that grows: what penalties count is brought up to date with its new
    tokens. Another list, or one that got shorter, is counted afresh.

    Args:
        params: the sampling parameters.
        vocab: width of the logits.
        answer_start: position from which presence and frequency penalties count.
        share_noise: whether `rank` adds the noise of the draws.
        pool: threads; None: those that all models share.
        account: where its memory is entered.
        allowed: which tokens may be drawn; None: all.
        bias: what is added to the logits of some tokens.

    Attributes:
        penalised: whether what was said changes logits.
        constrained: whether only some tokens are allowed, or some are biased.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocab: int,
        answer_start: int = 0,
        *,
        share_noise: bool = True,
        pool: ThreadPool | None = None,
        account: Account | None = None,
        allowed: Allowed | None = None,
        bias: Bias = (),
    ) -> None:
        self.vocab = vocab
        known = [(token, value) for token, value in bias if 0 <= token < vocab]
        self.constrained = allowed is not None or bool(known)
        self._bias_tokens = np.array([token for token, _ in known], dtype=np.int32)
        self._bias = np.array([value for _, value in known], dtype=np.float32)
        self.struct = SamplingStruct(
            temperature=params.temperature,
            top_p=params.top_p,
            min_p=params.min_p,
            repetition=params.repetition_penalty,
            presence=params.presence_penalty,
            frequency=params.frequency_penalty,
            seed=params.seed,
            top_k=min(params.top_k, vocab),
            answer_start=min(answer_start, 2**31 - 1),
            share_noise=share_noise,
            constrained=allowed is not None,
            biased=len(known),
            bias_tokens=pointer(self._bias_tokens),
            bias=pointer(self._bias),
        )
        self._pool = pool or shared_pool()
        nbytes = library().dt_sampler_bytes(c.byref(self.struct), vocab)
        if nbytes < 0:
            raise ValueError(f"a vocabulary of {vocab} tokens")
        self._account = account or unlimited()
        self._memory = reserve(self._account, (nbytes,))
        where = pointer(self._memory)
        self.handle: int = library().dt_sampler_new(c.byref(self.struct), vocab, where)
        self.penalised = params.penalised
        self._counted: tuple[Sequence[int], int, int] = ((), 0, -1)  # list, length, last token
        self._heard: NDArray[np.uint32] | None = None  # for devices that draw
        self._stop_ids: Collection[int] = ()
        self.asked = VerificationStruct()
        self.argument = c.byref(self.asked)
        """The verification, for native calls."""
        self._room(_FEW_NODES)
        self._tokens: Sequence[int] = ()
        self._failure: BaseException | None = None
        if allowed is not None:
            self._ask_which = AllowedFunction(partial(self._tell_allowed, allowed))
            self.asked.allowed = c.cast(self._ask_which, c.c_void_p)

    def _tell_allowed(
        self, allowed: Allowed, drawn: c._Pointer[c.c_int32], length: int
    ) -> int | None:
        """Answer the native library: where the bits of the allowed tokens are."""
        try:
            self._bits = allowed(self._tokens, drawn[:length])
        except BaseException as failure:  # noqa: BLE001  # raised once the call is over
            self._failure = failure
            return None
        return pointer(self._bits)

    def heard(self, tokens: Sequence[int]) -> NDArray[np.uint32]:
        """Return, by token, 4 times how often the answer has it, and 1 more if it was said."""
        if self._heard is None:
            self._heard = reserve(self._account, (self.vocab,), np.uint32)
            self._counted = ((), 0, -1)
        self._count(tokens)
        return self._heard

    def draw(self, logits: Floats, tokens: Sequence[int]) -> int:
        """The token that follows `tokens`; logits fp32 [vocab].

        Raises:
            InvalidLogits: the logits are not finite.
        """
        return self.verify(VerifyRequest((0,), (-1,), tokens, limit=1), logits).tokens[0]

    def verify(self, request: VerifyRequest, logits: Floats) -> Verified:
        """Walk a tree with the target's own draws; see `engine.speculative.decoding.verify`.

        Args:
            request: the tree, and how far to draw.
            logits: fp32 [nodes, vocab], the target's.

        Raises:
            InvalidLogits: the logits at a node of the path are not finite.
        """
        if logits.size != len(request.nodes) * self.vocab:
            raise ValueError("logits of another shape than the tree's")
        rows = np.ascontiguousarray(logits, dtype=np.float32)
        self.ask(request, pointer(rows))
        return self.answer(library().dt_verify(self._pool.handle, self.handle, self.argument))

    def ask(self, request: VerifyRequest, logits: int | None) -> None:
        """Write down what is verified.

        Args:
            request: the tree, and how far to draw.
            logits: address of fp32 [nodes, vocab], which may be computed later.
        """
        count, tokens, stop_ids = len(request.nodes), request.tokens, request.stop_ids
        self._tokens = tokens
        if count > len(self._nodes):
            self._room(2 * count)
        if self.penalised:
            self._count(tokens)
        if stop_ids is not self._stop_ids:
            self._stop_at(stop_ids)
        call = self.asked
        call.logits = logits
        self._nodes[:count], self._parents[:count] = list(request.nodes), list(request.parents)
        call.nodes, call.position, call.limit = count, len(tokens), min(request.limit, count)

    def answer(self, result: int) -> Verified:
        """The verification after the native call that returned `result`.

        Raises:
            InvalidLogits: the logits at a node of the path are not finite.
        """
        if (failure := self._failure) is not None:
            self._failure = None
            raise failure
        if result:
            raise refusal(result)
        call = self.asked
        length = call.length
        *chances, refused = self._chances[: length + 1]
        return Verified(
            tuple(self._path[:length]),
            tuple(self._drawn[:length]),
            call.accepted,
            call.offered,
            chances=tuple(chances) if chances[0] >= 0 else (),
            refused=refused if refused >= 0 else None,
        )

    def rank(
        self, logits: Floats, position: int, width: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The `width` likeliest tokens of each row and their log weights, best first.

        Args:
            logits: fp32 [rows, vocab], a draft's.
            position: position of the drafted tokens.
            width: at most MOST_WIDTH; where a row has fewer numbers, the token is -1.
        """
        rows = np.ascontiguousarray(logits, dtype=np.float32)
        found = np.empty((len(rows), width), dtype=[("token", np.int32), ("weight", np.float32)])
        size = (*rows.shape, None)
        arguments = (pointer(rows), *size, position, width, pointer(found))
        if library().dt_rank(self._pool.handle, c.byref(self.struct), *arguments):
            raise ValueError("impossible arguments")
        return found["token"], found["weight"]

    def _room(self, nodes: int) -> None:
        """Arrays for trees of so many nodes: tokens, parents, path, draws, their chances."""
        kind = c.c_int32 * nodes
        self._nodes, self._parents, self._path, self._drawn = kind(), kind(), kind(), kind()
        call = self.asked
        call.tokens, call.parents = c.addressof(self._nodes), c.addressof(self._parents)
        call.path, call.drawn = c.addressof(self._path), c.addressof(self._drawn)
        # A chance of -1 is none.
        self._chances = (c.c_float * (nodes + 1))(*[-1.0] * (nodes + 1))
        call.chances = c.addressof(self._chances)

    def _stop_at(self, stop_ids: Collection[int]) -> None:
        self._stop_array = np.array(list(stop_ids), dtype=np.int32)
        self._stop_ids = stop_ids
        self.asked.stop_ids, self.asked.stop_count = pointer(self._stop_array), len(stop_ids)

    def _count(self, tokens: Sequence[int]) -> None:
        before, counted, last = self._counted
        grown = tokens is before and len(tokens) >= counted > 0 and tokens[counted - 1] == last
        if not grown:
            library().dt_sampler_clear(self.handle)
            counted = 0
            if self._heard is not None:
                self._heard.fill(0)
        if len(tokens) > counted:
            new = np.array(tokens[counted:], dtype=np.int32)
            library().dt_sampler_commit(self.handle, pointer(new), len(new))
            if self._heard is not None:
                answered = new[max(self.struct.answer_start - counted, 0) :]
                self._heard[new[new < self.vocab]] |= 1
                np.add.at(self._heard, answered[answered < self.vocab], 4)
        self._counted = (tokens, len(tokens), tokens[-1] if tokens else -1)
