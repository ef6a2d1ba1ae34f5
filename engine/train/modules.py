"""Drafts as torch modules for training; they compute what the backends compute.

The names of the parameters are the canonical names of `engine.model.tensors`. Sequences of a batch
are padded at their ends: attention is causal, so no row sees another conversation or a pad.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.model.config import Fusion, ModelConfig
from engine.model.rope import rotations
from engine.model.tensors import expected_tensors

KeyValues = tuple[Tensor, Tensor]
"""Rotated keys and values of one block, [batch, kv heads, pairs, head dim] each."""

Rotations = tuple[Tensor, Tensor]
"""cos and sin of the positions, [pairs, head dim / 2] each."""


class RmsNorm(nn.RMSNorm):
    """RMS norm, in fp32 whatever the precision of products."""

    def forward(self, x: Tensor) -> Tensor:
        """Norm the last axis."""
        return super().forward(x.float())


class DraftAttention(nn.Module):
    """Grouped-query attention with rotated keys; see `DraftBlock` for what `earlier` is."""

    def __init__(self, config: ModelConfig, inputs: int) -> None:
        super().__init__()
        block, dim = config.typical, config.typical.head_dim
        self._dim, self._scale = dim, block.attention_scale
        self._group = block.heads // block.kv_heads
        self.q_proj = nn.Linear(inputs, block.heads * dim, bias=config.qkv_bias)
        self.k_proj = nn.Linear(inputs, block.kv_heads * dim, bias=config.qkv_bias)
        self.v_proj = nn.Linear(inputs, block.kv_heads * dim, bias=config.qkv_bias)
        self.o_proj = nn.Linear(
            block.heads * dim, config.hidden_size, bias=config.attention_out_bias
        )

    def forward(
        self, x: Tensor, rotations: Rotations, earlier: list[KeyValues]
    ) -> tuple[Tensor, KeyValues]:
        """x [batch, pairs, inputs] -> [batch, pairs, hidden], and its own keys and values."""
        query = _rotated(self._heads(self.q_proj(x)), rotations)
        key = _rotated(self._heads(self.k_proj(x)), rotations)
        value = self._heads(self.v_proj(x))
        if earlier:
            mixed = self._unrolled(query, [*earlier, (key, value)])
        else:
            mixed = functional.scaled_dot_product_attention(
                query,
                key,
                value,
                is_causal=True,
                scale=self._scale,
                enable_gqa=self._group > 1,
            )
        added: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return added, (key, value)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self._dim).transpose(1, 2)

    def _unrolled(self, query: Tensor, steps: list[KeyValues]) -> Tensor:
        """Attend in step i of drafting: pair t sees step 0 up to t - i, then a key of each step."""
        now, pairs = len(steps) - 1, query.shape[2]
        keys = [_repeated(key, self._group) for key, _ in steps]
        values = [_repeated(value, self._group) for _, value in steps]
        scores = query @ keys[0].transpose(2, 3) * self._scale
        hidden = torch.ones(pairs, pairs, dtype=torch.bool, device=query.device).triu(1 - now)
        every = [scores.float().masked_fill(hidden, -math.inf)]
        for step in range(1, now + 1):
            own = _later(keys[step], now - step)
            every.append((query * own).sum(3, keepdim=True).float() * self._scale)
        probs = torch.cat(every, 3).softmax(3).to(query.dtype)
        mixed = probs[..., :pairs] @ values[0]
        for step in range(1, now + 1):
            column = pairs + step - 1
            mixed = mixed + probs[..., column : column + 1] * _later(values[step], now - step)
        return mixed


class DraftFeedForward(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.typical.inner
        self.gate_proj = nn.Linear(hidden, inner, bias=config.mlp_bias)
        self.up_proj = nn.Linear(hidden, inner, bias=config.mlp_bias)
        self.down_proj = nn.Linear(inner, hidden, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Compute it for the last axis, [..., hidden]."""
        down: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return down


class DraftBlock(nn.Module):
    """A decoder block. A head's first block has no input norm, but that of EAGLE-3 has two.

    Several drafted tokens in a row are trained as they are drafted (EAGLE-3, "training-time test"):
    in step i, the feature of pair t is the output of pair t - 1 in step i - 1. Pair t sees the keys
    that step 0 computed from the target's features up to pair t - i, and for the pairs behind those
    one key of each step 1..i. `earlier` holds keys and values of the steps before.
    """

    def __init__(self, config: ModelConfig, *, begins: bool) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        fusion = config.fusion if begins else None
        both = fusion is not None and not fusion.steps.join
        self._residual_normed = both and fusion is not None and fusion.residual_normed
        self.self_attn = DraftAttention(config, 2 * hidden if both else hidden)
        self.mlp = DraftFeedForward(config)
        self.post_attention_layernorm = RmsNorm(hidden, eps)
        if fusion is None or both:
            self.input_layernorm = RmsNorm(hidden, eps)
        if both:
            self.hidden_norm = RmsNorm(hidden, eps)

    def forward(
        self, x: Tensor, embedded: Tensor | None, rotations: Rotations, earlier: list[KeyValues]
    ) -> tuple[Tensor, KeyValues]:
        """x [batch, pairs, hidden] -> the block's output of that shape, and its keys and values."""
        if hasattr(self, "hidden_norm"):
            normed = self.hidden_norm(x)
            seen = torch.cat((self.input_layernorm(embedded), normed), 2)
            x = normed if self._residual_normed else x
        else:
            seen = self.input_layernorm(x) if hasattr(self, "input_layernorm") else x
        added, kept = self.self_attn(seen, rotations, earlier)
        x = x + added
        return x + self.mlp(self.post_attention_layernorm(x)), kept


class _Fused(nn.Module):
    """Fusion of features and embeddings into a head's first input; see `FusionSteps`.

    What its first block sees where nothing joins both, that brings about itself.
    """

    def __init__(self, config: ModelConfig, fusion: Fusion) -> None:
        super().__init__()
        self._steps, shapes = fusion.steps, expected_tensors(config)
        for name in (each for each in self._steps.norms if each.startswith(_PREFIX)):
            self.add_module(_own_name(name), RmsNorm(config.hidden_size, config.rms_norm_eps))
        for name in self._steps.matrices:
            rows, columns = shapes[f"{name}.weight"]
            matrix = nn.Linear(columns, rows, bias=f"{name}.bias" in shapes)
            if self._steps.gated:
                nn.init.xavier_uniform_(matrix.weight)
            self.add_module(_own_name(name), matrix)

    def forward(self, features: Tensor, embedded: Tensor, *, own: bool) -> Tensor:
        """Fuse features and embeddings into [batch, pairs, hidden].

        Args:
            features: [batch, pairs, width]; the head's own are [batch, pairs, hidden].
            embedded: [batch, pairs, hidden].
            own: whether the features are the head's own.
        """
        steps = self._steps
        if not steps.join:
            return features if own else self._through(steps.feature, features)
        path = self._through(steps.feature_norm, self._through(steps.feature, features))
        token = self._through(steps.token, self._through(steps.token_norm, embedded))
        if steps.token:
            token = functional.silu(token)
        joined = self._through(
            steps.join, torch.cat((path, token) if steps.gated else (token, path), 2)
        )
        if not steps.gated:
            return joined
        gate = torch.sigmoid(joined)
        return gate * path + (1 - gate) * token

    def _through(self, name: str, x: Tensor) -> Tensor:
        """Return what a norm or a matrix makes of x; x itself, where the kind leaves it out."""
        if not name:
            return x
        found: Tensor = self.get_submodule(_own_name(name))(x)
        return found


_PREFIX = "fusion."


def _own_name(name: str) -> str:
    return name.removeprefix(_PREFIX).removesuffix(".weight")


class _Trunk(nn.Module):
    """Blocks, norm and embedding, whose names have the prefix "model."."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        head = config.fusion is not None
        self.layers = nn.ModuleList(
            DraftBlock(config, begins=head and index == 0) for index in range(config.num_layers)
        )
        if config.fusion is None or config.fusion.steps.final_norm:
            self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        if not head:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)


class DraftModule(nn.Module):
    """A feature head without the matrices that it borrows, or a stand-alone Llama.

    Raises:
        ValueError: the config asks for what cannot be trained: an embedding of a head's own,
            norms, sinks or caps that Llamas do not have.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        fusion = config.fusion
        self._config = config
        self._known_rotations: Rotations | None = None
        self.model = _Trunk(config)
        if fusion is not None:
            self.fusion = _Fused(config, fusion)
        else:
            self._init_model()
        if fusion.own_head if fusion is not None else not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.head_rows, bias=False)

    def _init_model(self) -> None:
        """Draw small normal numbers, smaller ones for what is added to the residual stream."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                added = name.endswith(("o_proj.weight", "down_proj.weight"))
                depth = (2 * self._config.num_layers) ** 0.5 if added else 1.0
                nn.init.normal_(parameter, std=0.02 / depth)

    @property
    def is_head(self) -> bool:
        """True if it drafts from the target's features."""
        return self._config.fusion is not None

    @property
    def output(self) -> Tensor | None:
        """Its own output matrix [rows, hidden]; None if it borrows the target's."""
        own = getattr(self, "lm_head", None)
        if own is None and self._config.fusion is None:
            own = self.model.embed_tokens
        return None if own is None else own.weight

    def run_head(
        self, features: Tensor, embedded: Tensor, earlier: list[list[KeyValues]]
    ) -> tuple[Tensor, list[KeyValues]]:
        """Run one step of a head over all pairs at once.

        Args:
            features: the target's, [batch, pairs, width]; after step 0 the head's own outputs,
                [batch, pairs, hidden].
            embedded: embeddings of the tokens after those, [batch, pairs, hidden].
            earlier: keys and values of the steps before, [step][block].

        Returns:
            Outputs [batch, pairs, hidden], the next features, and this step's keys and values.
        """
        x = self.fusion(features, embedded, own=bool(earlier))
        return self._blocks(x, embedded, earlier)

    def run_model(self, tokens: Tensor) -> Tensor:
        """Run a stand-alone model: tokens [batch, n] -> output of the blocks [batch, n, hidden]."""
        output, _ = self._blocks(self.model.embed_tokens(tokens), None, [])
        return output

    def before_output(self, x: Tensor) -> Tensor:
        """Norm an output of the blocks as the output matrix takes it, where there is a norm."""
        norm = getattr(self.model, "norm", None)
        normed: Tensor = x if norm is None else norm(x)
        return normed

    def _blocks(
        self, x: Tensor, embedded: Tensor | None, earlier: list[list[KeyValues]]
    ) -> tuple[Tensor, list[KeyValues]]:
        turned, kept = self._rotations(x.shape[1], x.device), []
        for index, block in enumerate(self.model.layers):
            x, own = block(x, embedded, turned, [step[index] for step in earlier])
            kept.append(own)
        return x, kept

    def _rotations(self, pairs: int, device: torch.device) -> Rotations:
        """Return those of so many pairs; computed anew only for more than ever before."""
        known = self._known_rotations
        if known is None or len(known[0]) < pairs or known[0].device != device:
            cos, sin = rotations(self._config.rope, pairs)
            known = torch.from_numpy(cos).to(device), torch.from_numpy(sin).to(device)
            self._known_rotations = known
        return known[0][:pairs], known[1][:pairs]


def _rotated(heads: Tensor, rotations: Rotations) -> Tensor:
    """Rotate numbers i and i + dim / 2 of every head as pairs (RoPE)."""
    cos, sin = rotations
    first, second = heads.float().chunk(2, -1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    return turned.to(heads.dtype)


def _repeated(heads: Tensor, group: int) -> Tensor:
    return heads.repeat_interleave(group, 1) if group > 1 else heads


def _later(part: Tensor, pairs: int) -> Tensor:
    """Move rows [.., pairs, dim] back by `pairs`; zeros come first."""
    if not pairs:
        return part
    return functional.pad(part[:, :, :-pairs], (0, 0, pairs, 0))
