"""Drafts as torch modules for training; what they compute is what the backends compute.

The names of the parameters are the canonical names of `engine.model.tensors`. Sequences of a batch
are padded at their ends: attention is causal, so no row sees another conversation or a pad.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.model.config import Fusion, ModelConfig
from engine.model.rope import rotations

KeysValues = tuple[Tensor, Tensor]
"""Of one block: [batch, kv heads, pairs, head dim] each, keys rotated."""

Turns = tuple[Tensor, Tensor]
"""cos and sin of the positions, [pairs, head dim / 2] each."""


class RmsNorm(nn.Module):
    """x / rms(x) * weight, in fp32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> the same."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), self._eps)


class DraftAttention(nn.Module):
    """Grouped attention with rotated keys; see `DraftBlock` for what `earlier` is."""

    def __init__(self, config: ModelConfig, inputs: int) -> None:
        super().__init__()
        dim = config.head_dim
        self._dim, self._scale = dim, config.attention_scale
        self._group = config.num_heads // config.num_kv_heads
        self.q_proj = nn.Linear(inputs, config.num_heads * dim, bias=config.qkv_bias)
        self.k_proj = nn.Linear(inputs, config.num_kv_heads * dim, bias=config.qkv_bias)
        self.v_proj = nn.Linear(inputs, config.num_kv_heads * dim, bias=config.qkv_bias)
        self.o_proj = nn.Linear(
            config.num_heads * dim, config.hidden_size, bias=config.attention_out_bias
        )

    def forward(
        self, x: Tensor, turns: Turns, earlier: list[KeysValues], seen: Tensor | None = None
    ) -> tuple[Tensor, KeysValues]:
        """x [batch, pairs, inputs] -> [batch, pairs, hidden], and its own keys and values.

        `seen`: bool [batch, 1, pairs, pairs], what each row sees; None: all before it.
        """
        query = _rotated(self._heads(self.q_proj(x)), turns)
        key = _rotated(self._heads(self.k_proj(x)), turns)
        value = self._heads(self.v_proj(x))
        if earlier:
            mixed = self._mixed(query, [*earlier, (key, value)])
        else:
            mixed = functional.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=seen,
                is_causal=seen is None,
                scale=self._scale,
                enable_gqa=self._group > 1,
            )
        added: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return added, (key, value)

    def go_on(
        self, x: Tensor, turns: Turns, before: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """Behind what was computed before; see `DraftModule.go_on`."""
        query = _rotated(self._heads(self.q_proj(x)), turns)
        key = _rotated(self._heads(self.k_proj(x)), turns)
        value = self._heads(self.v_proj(x))
        if before is not None:
            key, value = torch.cat((before[0], key), 2), torch.cat((before[1], value), 2)
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            is_causal=before is None,
            scale=self._scale,
            enable_gqa=self._group > 1,
        )
        added: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return added, (key, value)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self._dim).transpose(1, 2)

    def _mixed(self, query: Tensor, steps: list[KeysValues]) -> Tensor:
        """Step i of drafting on: pair t sees the true keys up to t - i, then one of each step."""
        now, pairs = len(steps) - 1, query.shape[2]
        keys = [_repeated(key, self._group) for key, _ in steps]
        values = [_repeated(value, self._group) for _, value in steps]
        scores = query @ keys[0].transpose(2, 3) * self._scale
        hidden = torch.ones(pairs, pairs, dtype=torch.bool, device=query.device).triu(1 - now)
        every = [scores.float().masked_fill(hidden, -math.inf)]
        for step in range(1, now + 1):
            own = _later(keys[step], now - step)
            every.append((query * own).sum(3, keepdim=True).float() * self._scale)
        shares = torch.cat(every, 3).softmax(3).to(query.dtype)
        mixed = shares[..., :pairs] @ values[0]
        for step in range(1, now + 1):
            column = pairs + step - 1
            mixed = mixed + shares[..., column : column + 1] * _later(values[step], now - step)
        return mixed


class DraftFeedForward(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=config.mlp_bias)
        self.up_proj = nn.Linear(hidden, inner, bias=config.mlp_bias)
        self.down_proj = nn.Linear(inner, hidden, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] -> the same."""
        down: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return down


class DraftBlock(nn.Module):
    """A decoder block: normed before attention, unless it begins a head, and before the rest.

    Drafting on is trained as it happens (EAGLE-3, "training-time test"): in step i, pair t has the
    output of pair t - 1 in step i - 1 for its feature. It sees the keys of true features up to pair
    t - i and those of the pairs between as steps 1..i have computed them, which `earlier` holds.
    """

    def __init__(self, config: ModelConfig, *, begins: bool) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        fusion = config.fusion if begins else None
        both = fusion is not None and fusion.kind == "eagle3"
        self._residual_normed = both and fusion is not None and fusion.residual_normed
        self.self_attn = DraftAttention(config, 2 * hidden if both else hidden)
        self.mlp = DraftFeedForward(config)
        self.post_attention_layernorm = RmsNorm(hidden, eps)
        if fusion is None or both:
            self.input_layernorm = RmsNorm(hidden, eps)
        if both:
            self.hidden_norm = RmsNorm(hidden, eps)

    def forward(
        self,
        x: Tensor,
        embedded: Tensor | None,
        turns: Turns,
        earlier: list[KeysValues],
        seen_rows: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """x [batch, pairs, hidden] -> the same, and its keys and values."""
        if hasattr(self, "hidden_norm"):
            normed = self.hidden_norm(x)
            seen = torch.cat((self.input_layernorm(embedded), normed), 2)
            x = normed if self._residual_normed else x
        else:
            seen = self.input_layernorm(x) if hasattr(self, "input_layernorm") else x
        added, kept = self.self_attn(seen, turns, earlier, seen_rows)
        x = x + added
        return x + self.mlp(self.post_attention_layernorm(x)), kept

    def go_on(
        self, x: Tensor, turns: Turns, before: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """Of a model: x [batch, n, hidden] -> the same, and all keys and values so far."""
        added, kept = self.self_attn.go_on(self.input_layernorm(x), turns, before)
        x = x + added
        return x + self.mlp(self.post_attention_layernorm(x)), kept


class _Fused(nn.Module):
    """How a head begins; see `engine.model.config.Fusion`."""

    def __init__(self, config: ModelConfig, fusion: Fusion) -> None:
        super().__init__()
        hidden, self._kind = config.hidden_size, fusion.kind
        if fusion.kind == "dgf":
            self.norm = RmsNorm(hidden, config.rms_norm_eps)
            self.feature = nn.Linear(fusion.width, hidden, bias=False)
            self.token = nn.Linear(hidden, hidden, bias=False)
            self.gate = nn.Linear(2 * hidden, hidden, bias=False)
            for matrix in (self.feature, self.token, self.gate):
                nn.init.xavier_uniform_(matrix.weight)
        elif fusion.kind == "linear":
            self.linear = nn.Linear(hidden + fusion.width, hidden, bias=fusion.bias)
        else:
            self.features = nn.Linear(fusion.width, hidden, bias=False)

    def forward(self, features: Tensor, embedded: Tensor, *, own: bool) -> Tensor:
        """Features [batch, pairs, width], or the head's own [.., hidden], and embeddings."""
        if self._kind == "dgf":
            path = self.feature(features)
            token = functional.silu(self.token(self.norm(embedded)))
            gate = torch.sigmoid(self.gate(torch.cat((path, token), 2)))
            fused: Tensor = gate * path + (1 - gate) * token
            return fused
        if self._kind == "linear":
            mixed: Tensor = self.linear(torch.cat((embedded, features), 2))
            return mixed
        entered: Tensor = features if own else self.features(features)
        return entered


class _Trunk(nn.Module):
    """What has the prefix "model." in the names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        head = config.fusion is not None
        self.layers = nn.ModuleList(
            DraftBlock(config, begins=head and index == 0) for index in range(config.num_layers)
        )
        if config.fusion is None or config.fusion.kind == "eagle3":
            self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        if not head:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)


class DraftModule(nn.Module):
    """A feature head, or a Llama of its own; without the matrices that a head borrows.

    Raises:
        ValueError: the config asks for what training has not: an embedding of a head's own,
            biases, windows.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        fusion = config.fusion
        if fusion is not None and fusion.own_embedding:
            raise ValueError("heads are trained with their target's embedding")
        if config.qk_norm or config.output_norms or config.sinks or config.attention_softcap:
            raise ValueError("drafts are plain Llamas")
        self._config = config
        self._turns: Turns | None = None
        self.model = _Trunk(config)
        if fusion is not None:
            self.fusion = _Fused(config, fusion)
        else:
            self._init_model()
        if fusion.own_head if fusion is not None else not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.head_rows, bias=False)

    def _init_model(self) -> None:
        """As Llamas begin: small normal numbers, smaller still for what is added up."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                added = name.endswith(("o_proj.weight", "down_proj.weight"))
                depth = (2 * self._config.num_layers) ** 0.5 if added else 1.0
                nn.init.normal_(parameter, std=0.02 / depth)

    @property
    def output(self) -> Tensor | None:
        """Its own output matrix [rows, hidden]; None of a head that borrows the target's."""
        own = getattr(self, "lm_head", None)
        if own is None and self._config.fusion is None:
            own = self.model.embed_tokens
        return None if own is None else own.weight

    @torch.no_grad()
    def begin_output(self, rows: Tensor) -> None:
        """Begin with these rows, [rows, hidden], in its own output matrix."""
        self.lm_head.weight.copy_(rows)

    @torch.no_grad()
    def begin_embedding(self, rows: Tensor) -> None:
        """A model's own embedding, [vocab, hidden], from which it goes on to learn."""
        self.model.embed_tokens.weight.copy_(rows)

    def run_head(
        self, features: Tensor, embedded: Tensor, earlier: list[list[KeysValues]]
    ) -> tuple[Tensor, list[KeysValues]]:
        """One step of a head over all pairs at once.

        Args:
            features: [batch, pairs, width] of the target; after step 0 own outputs [.., hidden].
            embedded: of the tokens after those, [batch, pairs, hidden].
            earlier: keys and values of the steps before, [step][block].

        Returns:
            Outputs [batch, pairs, hidden], the next features, and this step's keys and values.
        """
        x = self.fusion(features, embedded, own=bool(earlier))
        return self._blocks(x, embedded, earlier)

    def run_model(self, tokens: Tensor, seen: Tensor | None = None) -> Tensor:
        """A stand-alone model: tokens [batch, n] -> hidden states [batch, n, hidden], normed.

        `seen`: bool [batch, 1, n, n], what each token sees; None: all before it, and itself.
        """
        x, _ = self._blocks(self.model.embed_tokens(tokens), None, [], seen)
        return self.before_output(x)

    def go_on(
        self, tokens: Tensor, before: list[KeysValues] | None
    ) -> tuple[Tensor, list[KeysValues]]:
        """A stand-alone model, some tokens further.

        Args:
            tokens: [batch, n]; a single one per row unless they are the first.
            before: keys and values per block, as the last call has given them; None: the start.

        Returns:
            Hidden states [batch, n, hidden], normed, and the keys and values of everything so far.
        """
        x, kept = self.model.embed_tokens(tokens), []
        begun = 0 if before is None else before[0][0].shape[2]
        cos, sin = self._rotations(begun + tokens.shape[1], x.device)
        turns = cos[begun:], sin[begun:]
        for index, block in enumerate(cast("list[DraftBlock]", list(self.model.layers))):
            x, own = block.go_on(x, turns, None if before is None else before[index])
            kept.append(own)
        return self.before_output(x), kept

    def before_output(self, x: Tensor) -> Tensor:
        """What the output matrix takes, of the last block's output."""
        norm = getattr(self.model, "norm", None)
        normed: Tensor = x if norm is None else norm(x)
        return normed

    def _blocks(
        self,
        x: Tensor,
        embedded: Tensor | None,
        earlier: list[list[KeysValues]],
        seen: Tensor | None = None,
    ) -> tuple[Tensor, list[KeysValues]]:
        turns, kept = self._rotations(x.shape[1], x.device), []
        for index, block in enumerate(self.model.layers):
            x, own = block(x, embedded, turns, [step[index] for step in earlier], seen)
            kept.append(own)
        return x, kept

    def _rotations(self, pairs: int, device: torch.device) -> Turns:
        """For so many pairs; made anew only for more than ever before."""
        if self._turns is None or len(self._turns[0]) < pairs or self._turns[0].device != device:
            cos, sin = rotations(self._config.rope, pairs)
            self._turns = torch.from_numpy(cos).to(device), torch.from_numpy(sin).to(device)
        return self._turns[0][:pairs], self._turns[1][:pairs]


def _rotated(heads: Tensor, turns: Turns) -> Tensor:
    """Numbers i and i + dim / 2 of every head belong together."""
    cos, sin = turns
    first, second = heads.float().chunk(2, -1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    return turned.to(heads.dtype)


def _repeated(heads: Tensor, group: int) -> Tensor:
    return heads.repeat_interleave(group, 1) if group > 1 else heads


def _later(part: Tensor, pairs: int) -> Tensor:
    """Row t gets what was row t - pairs; the first ones zeros."""
    if not pairs:
        return part
    return functional.pad(part[:, :, :-pairs], (0, 0, pairs, 0))
