"""The weights of a segment on a device, and what a forward does with them.

Nothing here waits for a number from the device, so all of it can be recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from engine.backend.accelerator.attention import AttentionMetadata, DeviceAttention
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.memory import DeviceCache
from engine.backend.accelerator.products import Products, StoredLinear
from engine.backend.accelerator.sizes import TILE_ROWS
from engine.backend.torch_layers import (
    DecoderBlock,
    Dense,
    Fuser,
    choose_experts,
    feed_forward,
    rms_norm,
)
from engine.model.config import Activation, Experts, ModelConfig
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD, HEAD_IDS

Tap = Callable[[int, torch.Tensor], None]
"""Is told the number of a block and what has come out of it, fp32 [n, d]."""


class Network:
    """Some blocks of a model, or a feature head.

    Attributes:
        kinds: how its matrices are stored.
        ids: of a draft with a reduced vocabulary: the token of each logit, int32 [head rows].
        weight_bytes: of all weights.
    """

    def __init__(
        self,
        config: ModelConfig,
        loader: Loader,
        products: Products,
        blocks: range,
        *,
        embed: bool,
        head: bool,
    ) -> None:
        self._config, self._products, self._range = config, products, blocks
        self._blocks = [_block(config, loader, products, index) for index in blocks]
        self._fuser = None if config.fusion is None else Fuser(config, config.fusion, loader)
        self._head: StoredLinear | None = None
        self.ids = loader.whole_numbers(HEAD_IDS) if head and config.rows is not None else None
        self._norm: torch.Tensor | None = None
        self._embedding: DeviceMatrix | None = None
        if head:
            matrix = loader.matrix(EMBEDDING if config.tie_word_embeddings else HEAD)
            self._head = StoredLinear(products, [matrix], None)
            if loader.has(FINAL_NORM):
                self._norm = loader.vector(FINAL_NORM)
            self._embedding = matrix if embed and config.tie_word_embeddings else None
        if embed and self._embedding is None:
            self._embedding = loader.matrix(EMBEDDING)
        products.warm(loader.matrices)
        self.kinds = loader.kinds
        held = [matrix.nbytes for matrix in loader.matrices] + [v.nbytes for v in loader.vectors]
        self.weight_bytes = sum(held)

    @property
    def heads(self) -> bool:
        """Tell whether it ends with logits."""
        return self._head is not None

    def enter(
        self, tokens: torch.Tensor, given: torch.Tensor | None, *, own: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the blocks' input, fp32 [n, d], and what the first one's attention sees instead.

        Args:
            tokens: int32 [n].
            given: the previous segment's hidden states, or the features that a head goes by.
            own: those are what the head itself has put out.
        """
        if self._fuser is None and given is not None:
            return given.clone(), None
        if self._embedding is None:
            raise ValueError("this segment has no embedding and was given no hidden states")
        width = self._config.hidden_size
        x = torch.empty(len(tokens), width, dtype=torch.float32, device=tokens.device)
        self._products.look_up(self._embedding, tokens, x)
        x.mul_(self._config.embedding_scale)
        if self._fuser is None:
            return x, None
        if given is None:
            raise ValueError("a feature head was given no features")
        return self._fuser.begin(x, given, own=own)

    def advance(
        self,
        x: torch.Tensor,
        seen: torch.Tensor | None,
        rows: int,
        metadata: AttentionMetadata,
        cache: DeviceCache,
        tap: Tap,
    ) -> None:
        """Run hidden states through all blocks, in place.

        Args:
            x, seen: see `enter`.
            rows: at most so many of them are valid.
            metadata: what they may look at.
            cache: takes their keys and values.
            tap: is called with every block's output.
        """
        for index, block in enumerate(self._blocks):
            block.run(x, rows, metadata, cache, index, seen if index == 0 else None)
            tap(self._range[index], x)

    def end(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output and the input of the output matrix, both fp32 [n, d]."""
        if self._norm is None:
            return x, x
        normed = rms_norm(x, self._norm, self._config.rms_norm_eps)
        return normed if self._fuser is None else x, normed

    def logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits fp32 [n, head rows] of the output matrix's input; n is a multiple of 16."""
        if self._head is None:
            raise ValueError("this segment has no head")
        logits = self._head(rows, large=self._norm is None)
        cap = self._config.logit_softcap
        return logits.div_(cap).tanh_().mul_(cap) if cap else logits


def _block(
    config: ModelConfig, loader: Loader, products: Products, index: int
) -> DecoderBlock[AttentionMetadata, DeviceCache]:
    def mixture(experts: Experts, prefix: str) -> DeviceMixture:
        return DeviceMixture(experts, config.activation, loader, prefix)

    attention = DeviceAttention(config, loader, products, index)
    return DecoderBlock(
        config, loader, index, attention, feed_forward(config, loader, index, mixture)
    )


class DeviceMixture:
    """Each row goes through the experts that the router ranks highest for it.

    A few rows fetch their experts by an index that stays on the device; more rows than that go
    through all experts. Either way an expert's product is of 16 rows, and a row's parts meet in
    ascending order of the experts.
    """

    __slots__ = ("_activation", "_down", "_experts", "_gate_up", "_router")

    def __init__(
        self, experts: Experts, activation: Activation, loader: Loader, prefix: str
    ) -> None:
        self._activation, self._experts = activation, experts
        self._router = loader.router(f"{prefix}.router", bias=experts.bias)
        each = [f"{prefix}.experts.{index}" for index in range(experts.count)]
        gate_up = [[f"{expert}.gate_proj", f"{expert}.up_proj"] for expert in each]
        self._gate_up = loader.experts(gate_up, bias=experts.bias)
        self._down = loader.experts([[f"{expert}.down_proj"] for expert in each], bias=experts.bias)

    def run(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        """x [n, d] -> [n, d]; rows that are not valid get something or zeros."""
        chosen, shares = self._choices(x)
        if rows * self._experts.used < self._experts.count:
            return self._fetched(x, rows, chosen, shares)
        return self._all(x, chosen, shares)

    def _choices(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Experts of each row, ascending, and their shares, [n, used]."""
        chosen, shares = choose_experts(self._router(x, exact=True), self._experts)
        ascending = chosen.sort(dim=1)
        return ascending.values, shares.gather(1, ascending.indices)

    def _fetched(
        self, x: torch.Tensor, rows: int, chosen: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        result = torch.zeros_like(x)
        for row in range(rows):
            first = row // TILE_ROWS * TILE_ROWS
            company = x[first : first + TILE_ROWS]
            for place in range(self._experts.used):
                expert = chosen[row, place : place + 1]
                gate_up, down = self._gate_up.chosen(expert), self._down.chosen(expert)
                found = Dense(self._activation, gate_up, down).run(company, rows)
                result[row] += found[row - first] * shares[row, place]
        return result

    def _all(self, x: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(x)
        for index in range(self._experts.count):
            gate_up, down = self._gate_up.numbered(index), self._down.numbered(index)
            found = Dense(self._activation, gate_up, down).run(x, len(x))
            here = chosen == index
            share = (shares * here).sum(dim=1, keepdim=True)
            result += torch.where(here.any(dim=1, keepdim=True), found * share, 0.0)
        return result
