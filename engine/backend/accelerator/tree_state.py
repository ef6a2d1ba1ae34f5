"""A draft tree that grows on a device: fixed memory, and the steps from one level to the next.

It does the work of `Decoder.grow`, which reads the draft's results at every level, without waiting
for the device in between: which nodes are the best, which of them are expanded and where their keys
go are numbers on the device. Every step is the same for all levels, so one recording of it serves
them all.

Ties go to the earlier candidate, but among the logits of one row, where torch's choice is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.input_buffers import Staged
from engine.backend.accelerator.sizes import TILE_ROWS
from engine.backend.drafted_levels import DRAFT_LEVELS

KEYS = 3
"""Before the keys of noise: where drafted nodes begin, the position of the first, a spare slot."""
FACTORS = KEYS + 20
"""Bits of two fp32 numbers: temperature, floor."""
NUMBERS = FACTORS + 2


@dataclass(frozen=True, slots=True)
class RankingManner:
    """Those parts of the ranking of candidates that change the work to do.

    Attributes:
        tempered: logits are divided by a temperature.
        noisy: the target's noise is added.
    """

    tempered: bool
    noisy: bool


class TreeState:
    """The tree of one draft, `width` nodes of which go on at every level.

    Level by level, every beam's children follow, likeliest first. Level 0 has but one beam, the
    root: the others' children have no probability.

    Attributes:
        hidden: fp32 [16, d], what the draft has put out for each beam of the level before.
        given: int32 [NUMBERS], what a round begins with.
        result: int32, by level the numbers of the nodes that were expanded, -1 where there is none;
            tokens of all nodes; bits of their scores. See `drafted_levels`.
    """

    def __init__(self, driver: Driver, width: int, hidden: int) -> None:
        device = driver.device
        nodes = DRAFT_LEVELS * width * width

        def room(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.width = width
        self.hidden = room(TILE_ROWS, hidden, dtype=torch.float32)
        self.given = Staged(driver, [NUMBERS], torch.int32)
        self.result = room(DRAFT_LEVELS * width + 2 * nodes)
        self._noise: torch.Tensor | None = None
        self._level = room(1, dtype=torch.int64)
        self._expanded = self.result[: -2 * nodes].view(DRAFT_LEVELS, width)
        self._tokens = self.result[-2 * nodes : -nodes]
        self._scores = self.result[-nodes:].view(torch.float32)
        self._beams = room(2, TILE_ROWS)  # tokens, nodes
        self._likely = room(TILE_ROWS, dtype=torch.float32)
        self._above = room(TILE_ROWS, dtype=torch.int64)
        self._paths = room(TILE_ROWS, DRAFT_LEVELS, dtype=torch.int64)

    # -- the first level ---------------------------------------------------------------------

    def open(self, output: torch.Tensor) -> None:
        """An empty tree behind what the draft has put out for the root, fp32 [16, d]."""
        self.hidden.copy_(output)
        self._level.zero_()
        self._scores.fill_(-torch.inf)
        self._expanded.fill_(-1)
        self._beams.zero_()
        self._paths.zero_()
        self._likely.fill_(-torch.inf)
        self._likely[:1].zero_()

    def make_noise(self, ids: torch.Tensor | None, tokens: int) -> None:
        """Make the noise of all levels, [levels, head rows]; `ids` name the rows' tokens."""
        given = self.given.device
        levels = torch.arange(DRAFT_LEVELS, dtype=torch.int64, device=given.device)
        noise = gumbel(given[KEYS:FACTORS], given[1] + levels, tokens)
        if ids is not None:
            noise = noise.index_select(1, ids)
        if self._noise is None:
            raise ValueError("there is no room for noise")
        self._noise.copy_(noise)

    def take_noise(self, driver: Driver, rows: int) -> bool:
        """Make room for the noise of so many logits; return whether it is new."""
        if self._noise is not None:
            return False
        self._noise = torch.zeros(DRAFT_LEVELS, rows, device=driver.device)
        return True

    # -- every level -------------------------------------------------------------------------

    def rank(self, logits: torch.Tensor, ids: torch.Tensor | None, manner: RankingManner) -> None:
        """Children of the beams from their logits, fp32 [16, head rows]; the best go on."""
        width = self.width
        tokens, weights = self._likeliest(logits[:width], ids, manner)
        above = self._likely[:width].unsqueeze(1)
        scores = (above + weights.clamp_(max=0.0)).view(-1)
        tokens = tokens.reshape(-1)
        place = self._level * (width * width) + _count(width * width, logits.device)
        self._tokens.index_copy_(0, place, tokens)
        self._scores.index_copy_(0, place, scores)
        ranked = torch.sort(scores, descending=True, stable=True)
        best, likely = ranked.indices[:width], ranked.values[:width]
        # No level is drafted below unlikely ones. To stop would take an answer from the device; so
        # the levels after that are drafted all the same, and nothing of them counts.
        floor = self._factor(1)
        unlikely = (likely.exp().sum() < floor).expand(width)
        self._likely[:width].copy_(likely.masked_fill(unlikely, -torch.inf))
        self._above[:width].copy_(torch.div(best, width, rounding_mode="floor"))
        self._beams[0, :width].copy_(tokens.index_select(0, best))
        self._beams[1, :width].copy_(place.index_select(0, best))

    def _likeliest(
        self, logits: torch.Tensor, ids: torch.Tensor | None, manner: RankingManner
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """int32 and fp32 [width, width]: each beam's likeliest tokens, logs of their shares."""
        weights = logits - logits.amax(dim=1, keepdim=True)
        if manner.tempered:
            weights.div_(self._factor(0))
        if manner.noisy and self._noise is not None:
            weights.add_(self._noise.index_select(0, self._level))
        top = torch.topk(weights, self.width, dim=1)
        shares = top.values - weights.logsumexp(dim=1, keepdim=True)
        shares.masked_fill_(shares.isnan(), -torch.inf)
        tokens = top.indices.int()
        if ids is not None:
            tokens = ids.index_select(0, tokens.view(-1)).view(tokens.shape)
        return tokens, shares

    def _factor(self, number: int) -> torch.Tensor:
        """fp32 [1]: the temperature (0) or the floor (1)."""
        first = FACTORS + number
        return self.given.device[first : first + 1].view(torch.float32)

    def stage(self) -> Rows:
        """The beams, to be computed; rows that are none come after them."""
        width, given = self.width, self.given.device
        device = given.device
        rows = _count(TILE_ROWS, device)
        real = rows < width
        slots = torch.where(real, given[0] + self._level * width + rows, given[2] + rows)
        paths = self._paths.index_select(0, self._above)
        own = torch.where(real, slots, 0).unsqueeze(1)  # key 0 is seen by everybody
        paths.index_copy_(1, self._level, own)
        self._paths.copy_(paths)
        counted = self._likely[:width] > -torch.inf
        nodes = torch.where(counted, self._beams[1, :width], -1)
        self._expanded.index_copy_(0, self._level, nodes.unsqueeze(0))
        hidden = self.hidden.index_select(0, self._above)
        positions = (given[0] + self._level).expand(TILE_ROWS)
        tokens = self._beams[0]
        self._level.add_(1)
        return Rows(tokens, hidden, positions, slots, self._paths, given[:1], width)


@dataclass(frozen=True, slots=True)
class Rows:
    """Drafted nodes in a forward, 16 rows.

    Attributes:
        tokens: int32 [16].
        hidden: fp32 [16, d], what the draft has put out for their parents.
        positions: int64 [16].
        slots: int64 [16], where their keys go.
        paths: int64 [16, levels], slots of a row's own nodes; 0 where there are no more.
        start: int32 [1]; slots below it are seen by all.
        width: nodes of a level, side by side in the cache from `start` on.
    """

    tokens: torch.Tensor
    hidden: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    paths: torch.Tensor
    start: torch.Tensor
    width: int


def _count(count: int, device: torch.device) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int64, device=device)


ROUNDS = 10
"""Rounds of Philox; each uses two keys."""
_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def round_keys(seed: int) -> list[int]:
    """Two 32-bit words for every round, the first one's first."""
    words = seed & _WORD, seed >> 32 & _WORD
    return [
        (word + number * weyl) & _WORD
        for number in range(ROUNDS)
        for word, weyl in zip(words, _WEYL, strict=True)
    ]


def gumbel(keys: torch.Tensor, positions: torch.Tensor, count: int) -> torch.Tensor:
    """Standard Gumbel noise of the first tokens, fp32 [positions, count]; see `noise.gumbel`.

    The bits of Philox are the same; what is made of them is fp32, within some 1e-6 of the CPU's: a
    draft's ranking may turn where two tokens are that close, which costs nothing but a rejection.

    Args:
        keys: int32 [20], the bits of `round_keys`.
        positions: int64 [positions].
        count: tokens.
    """
    return of_words(words(keys, positions, count))


def of_words(word: torch.Tensor) -> torch.Tensor:
    """The noise that random words of 32 bits, int64 of any shape, stand for, in fp32."""
    # The half of the unit interval that is nearer to 1 is counted from there: fp32 is denser at 0.
    upper, end = word > _WORD // 2, _WORD - word
    near = torch.minimum(word, end, out=end).float()
    del word, end  # twice as large
    near.add_(0.5).mul_(2.0**-32)
    return torch.where(upper, near.neg().log1p_(), near.log()).neg_().log_().neg_()


def words(keys: torch.Tensor, positions: torch.Tensor, count: int) -> torch.Tensor:
    """The 32 random bits of each token at each position, int64 [positions, count].

    Sixty-four neighbours share 16 counters of four words: token 64 g + 16 j + i has word j of
    counter 16 g + i.
    """
    groups = -(-count // 64)
    shape = len(positions), groups * 16
    key = (keys.long() & _WORD).view(ROUNDS, 2)
    zero = torch.zeros(shape, dtype=torch.int64, device=keys.device)
    counters = torch.arange(groups * 16, dtype=torch.int64, device=keys.device).expand(shape)
    four = [counters, (positions & _WORD).unsqueeze(1).expand(shape), zero, zero]
    for number in range(ROUNDS):
        four = _mixed(four, key[number])
    apart = [word.view(-1, groups, 16) for word in four]
    return torch.stack(apart, dim=2).view(len(positions), -1)[:, :count]


def _mixed(counter: list[torch.Tensor], key: torch.Tensor) -> list[torch.Tensor]:
    """Mix once; products of 32-bit words are taken modulo 2^64, as integers wrap around."""
    c0, c1, c2, c3 = counter
    a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
    return [(b >> 32 & _WORD) ^ c1 ^ key[0], b & _WORD, (a >> 32 & _WORD) ^ c3 ^ key[1], a & _WORD]
