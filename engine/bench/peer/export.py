"""A native model as the tensors and metadata of a GGUF file, weight for weight the same."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format, Matrix
from engine.backend.native.segment import NativeSegment
from engine.backend.segment import Floats
from engine.bench.peer.blocks import TYPES, ggml_rows
from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.rope import rope_frequencies

Rows = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file; `read` gives its bytes, made when they are needed.

    Attributes:
        shape: rows and columns, or the length of a vector, in weights.
        kind: ggml's name of the type.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    nbytes: int
    read: Callable[[], Rows]


@dataclass(frozen=True, slots=True)
class Export:
    """What goes into the file: flat metadata, and the tensors in file order."""

    architecture: str
    metadata: dict[str, str | int | float]
    tensors: tuple[Tensor, ...]


def export(decoder: Decoder) -> Export:
    """What a GGUF file of the decoder's own packed weights holds.

    Raises:
        UserFixable: llama.cpp cannot have the same model: other backend, positions, row lengths.
    """
    config = decoder.config
    segment = decoder.segments[0]
    if len(decoder.segments) != 1 or not isinstance(segment, NativeSegment):
        raise _refused(tr("only models of the native CPU backend can be handed over"))
    if config.rope.kind not in ("none", "linear", "llama3"):
        raise _refused(
            tr("positions stretched by “{kind}” are not handed over").format(kind=config.rope.kind)
        )
    if any(width % 32 for width in (config.hidden_size, config.intermediate_size)):
        raise _refused(tr("its rows do not divide into blocks of 32 weights"))
    return Export(config.family, _metadata(config), tuple(_tensors(config, segment)))


def _refused(why: str) -> UserFixable:
    return UserFixable(
        tr("This model cannot be compared with llama.cpp: {why}.").format(why=why),
        tr("Measure it without --peer."),
    )


def _metadata(config: ModelConfig) -> dict[str, str | int | float]:
    own: dict[str, str | int | float] = {
        "context_length": config.max_positions,
        "embedding_length": config.hidden_size,
        "block_count": config.num_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.dimension_count": config.head_dim,
        "rope.freq_base": config.rope.theta,
        "vocab_size": config.vocab_size,
    }
    if config.rope.kind == "linear":
        own |= {"rope.scaling.type": "linear", "rope.scaling.factor": config.rope.factor}
    prefixed = {f"{config.family}.{key}": value for key, value in own.items()}
    # Tokens go in and logits come out as numbers: llama.cpp needs no words.
    return {**prefixed, "tokenizer.ggml.model": "none"}


def _tensors(config: ModelConfig, segment: NativeSegment) -> Iterator[Tensor]:
    struct = segment.struct
    yield _matrix("token_embd.weight", struct.embedding, 0, config.vocab_size)
    yield _vector("output_norm.weight", struct.final_norm, config.hidden_size)
    if not config.tie_word_embeddings:
        yield _matrix("output.weight", struct.head, 0, config.vocab_size)
    if config.rope.kind == "llama3":
        yield _llama3_factors(config)
    for index in range(config.num_layers):
        yield from _block(config, segment, index)


def _block(config: ModelConfig, segment: NativeSegment, index: int) -> Iterator[Tensor]:
    block, prefix = segment.struct.block[index], f"blk.{index}."
    yield _vector(f"{prefix}attn_norm.weight", block.input_norm, config.hidden_size)
    yield _vector(f"{prefix}ffn_norm.weight", block.post_norm, config.hidden_size)
    queries, keys = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
    hidden, inner = config.hidden_size, config.intermediate_size
    # llama.cpp rotates neighbours in the Llama family, and halves in Qwen2 as we do in both.
    turned = (config.num_heads, config.num_kv_heads) if config.family == "llama" else (0, 0)
    mlp = block.mlp
    for name, parts, bias, first, rows, heads in (
        ("attn_q", block.qkv, block.qkv_bias, 0, queries, turned[0]),
        ("attn_k", block.qkv, block.qkv_bias, queries, keys, turned[1]),
        ("attn_v", block.qkv, block.qkv_bias, queries + keys, keys, 0),
        ("attn_output", [block.out], block.out_bias, 0, hidden, 0),
        ("ffn_gate", mlp.gate_up, mlp.gate_up_bias, 0, inner, 0),
        ("ffn_up", mlp.gate_up, mlp.gate_up_bias, inner, inner, 0),
        ("ffn_down", [mlp.down], mlp.down_bias, 0, hidden, 0),
    ):
        yield _matrix(f"{prefix}{name}.weight", *_locate(parts, first), rows, heads)
        if bias:
            yield _vector(f"{prefix}{name}.bias", bias + 4 * first, rows, heads)


def _locate(parts: Iterable[Matrix], row: int) -> tuple[Matrix, int]:
    """Which of matrices that lie one below the other has the row, and where."""
    for part in parts:
        if row < part.rows:
            return part, row
        row -= part.rows
    raise IndexError(row)


def _matrix(name: str, matrix: Matrix, first: int, rows: int, heads: int = 0) -> Tensor:
    kind = Format(matrix.format)
    each = {Format.Q4: 18 / 32, Format.Q8: 34 / 32, Format.BF16: 2, Format.F16: 2}[kind]
    size = int(rows * matrix.cols * each)

    def read() -> Rows:
        return _interleave(ggml_rows(matrix, first, rows), heads)

    return Tensor(name, (rows, matrix.cols), TYPES[kind], size, read)


def _vector(name: str, address: int, length: int, heads: int = 0) -> Tensor:
    def read() -> Rows:
        values: Floats = np.ctypeslib.as_array((c.c_float * length).from_address(address))
        return _interleave(values, heads)

    return Tensor(name, (length,), "F32", 4 * length, read)


def _interleave(rows: Rows, heads: int) -> Rows:
    """Row i of each head's halves side by side, as the Llama family is stored in GGUF."""
    if not heads:
        return rows
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def _llama3_factors(config: ModelConfig) -> Tensor:
    """What llama.cpp divides the plain frequencies by."""

    def read() -> Rows:
        exponents = np.arange(0, config.head_dim, 2) / config.head_dim
        factors = config.rope.theta**-exponents / rope_frequencies(config.rope)[0]
        return factors.astype(np.float32)

    return Tensor("rope_freqs.weight", (config.head_dim // 2,), "F32", 2 * config.head_dim, read)
