"""The shared library of engine/native: structures and functions, as its headers declare them."""

from __future__ import annotations

import ctypes as c
import os
import sys
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from engine.errors import Absent, Cancelled, InvalidLogits, UserFixable
from engine.language import listed, tr

_NAME = "_native.pyd" if sys.platform == "win32" else "_native.abi3.so"
FILE = Path(__file__).parents[2] / _NAME
"""The library; it is there where it was built, or came in a wheel."""
CANCELLED = -3
"""DT_CANCELLED: what a native call returns that was given up."""
ABI_VERSION = 9
"""DT_ABI_VERSION."""
_NO_MEMORY, _INVALID_LOGITS, _LOST_WEIGHTS = -1, -4, -5


class Format(IntEnum):
    """Formats of packed weights: ggml's, with 16 rows side by side."""

    Q4 = 0
    Q8 = 1
    BF16 = 2
    F16 = 3
    F32 = 4
    Q4_1 = 5
    Q5_0 = 6
    Q5_1 = 7
    Q2_K = 8
    Q3_K = 9
    Q4_K = 10
    Q5_K = 11
    Q6_K = 12
    IQ4_NL = 13
    IQ4_XS = 14
    MXFP4 = 15


class Activation(IntEnum):
    """Activations of a feed-forward's gate, by `ModelConfig`'s names."""

    SILU = 0
    GELU_TANH = 1
    SWIGLU_OAI = 2


class NativeKv(IntEnum):
    """Types of keys and values, by `KvType`'s names."""

    F16 = 0
    Q8 = 1


class Isa(IntEnum):
    """Instruction sets of x86 and of ARM, slowest first; all give the same bits."""

    PORTABLE = 0
    AVX2 = 1
    AVX_VNNI = 2
    AVX512 = 3
    AMX = 4
    NEON = 5
    DOTPROD = 6
    I8MM = 7


def _all(kind: type, names: str) -> list[tuple[str, type]]:
    """Members of one type that follow each other."""
    return [(name, kind) for name in names.split()]


class Matrix(c.Structure):
    """dt_matrix."""

    _fields_ = (
        ("data", c.c_void_p),
        *_all(c.c_int32, "format rows cols"),
    )


class Mlp(c.Structure):
    """dt_mlp."""

    _fields_ = (
        ("gate_up", Matrix * 2),
        ("down", Matrix),
        ("gate_up_bias", c.c_void_p),
        ("down_bias", c.c_void_p),
    )


class ExpertsStruct(c.Structure):
    """dt_experts."""

    _fields_ = (
        ("router", Matrix * 2),
        ("router_bias", c.c_void_p),
        ("expert", c.POINTER(Mlp)),
        *_all(c.c_int32, "count used intermediate normalise shared"),
    )


class DeltaStruct(c.Structure):
    """dt_delta."""

    _fields_ = (
        *_all(c.c_int32, "key_heads value_heads key_dim value_dim width tiled"),
        *_all(c.c_void_p, "convolution rate dt_bias norm"),
    )


PARTS = 4
"""DT_PARTS: matrices that a block's mixer begins with."""


class BlockStruct(c.Structure):
    """dt_block."""

    _fields_ = (
        ("in_", Matrix * PARTS),
        ("out", Matrix),
        *_all(
            c.c_void_p,
            "in_bias out_bias input_norm post_norm attention_norm mlp_norm query_norm "
            "key_norm sinks",
        ),
        *_all(c.c_int32, "heads kv_heads head_dim inner kv_from rope window gated"),
        ("attention_scale", c.c_float),
        ("delta", DeltaStruct),
        ("mlp", Mlp),
        ("experts", ExpertsStruct),
    )


class Rope(c.Structure):
    """dt_rope."""

    _fields_ = (("cosine", c.c_void_p), ("sine", c.c_void_p), ("dim", c.c_int32))


class FusionStruct(c.Structure):
    """dt_fusion."""

    _fields_ = (
        *_all(c.c_int32, "width gated residual_normed returns_normed"),
        *_all(Matrix, "feature token join"),
        *_all(c.c_void_p, "token_norm feature_norm bias"),
    )


class SegmentStruct(c.Structure):
    """dt_segment."""

    _fields_ = (
        *_all(c.c_int32, "blocks hidden activation kv_type"),
        *_all(c.c_float, "norm_eps attention_softcap logit_softcap embedding_scale"),
        ("block", c.POINTER(BlockStruct)),
        *_all(Matrix, "embedding head"),
        *_all(c.c_void_p, "ids final_norm"),
        ("rope", c.POINTER(Rope)),
        ("fusion", c.POINTER(FusionStruct)),
        ("scratch", c.c_void_p),
        ("scratch_bytes", c.c_int64),
    )


class StepStruct(c.Structure):
    """dt_step."""

    _fields_ = (
        *_all(
            c.c_int32,
            "rows first_slot paths path_base path_width logit_count tap_count own committed staged",
        ),
        *_all(
            c.c_void_p,
            "parents tokens positions slots path_slots row_path logit_rows taps hidden_in "
            "hidden_out logits tap_out cancel",
        ),
    )


class DraftingStruct(c.Structure):
    """dt_drafting."""

    _fields_ = (
        *_all(c.c_int32, "committed pending"),
        *_all(c.c_void_p, "tokens features"),
        *_all(c.c_int32, "slots nodes depth width"),
        ("floor", c.c_double),
        *_all(
            c.c_void_p,
            "cancel tree_tokens tree_parents tree_scores staged_tokens staged_parents",
        ),
        *_all(c.c_int32, "tree_nodes staged"),
    )


class SamplingStruct(c.Structure):
    """dt_sampling."""

    _fields_ = (
        *_all(c.c_double, "temperature top_p min_p repetition presence frequency"),
        ("seed", c.c_uint64),
        *_all(c.c_int32, "top_k answer_start share_noise shift constrained biased"),
        *_all(c.c_void_p, "bias_tokens bias"),
    )


AllowedFunction = c.CFUNCTYPE(c.c_void_p, c.POINTER(c.c_int32), c.c_int32)
"""dt_verification.allowed"""


class VerificationStruct(c.Structure):
    """dt_verification."""

    _fields_ = (
        *_all(c.c_int32, "nodes position limit stop_count"),
        *_all(c.c_void_p, "tokens parents stop_ids logits path drawn"),
        *_all(c.c_int32, "length accepted offered"),
        *_all(c.c_void_p, "chances allowed"),
    )


class CandidateStruct(c.Structure):
    """dt_candidate."""

    _fields_ = (("token", c.c_int32), ("weight", c.c_float))


def refusal(result: int) -> Exception:
    """Return the exception for a native call that did not return DT_OK."""
    if result == CANCELLED:
        return Cancelled()
    if result == _INVALID_LOGITS:
        return InvalidLogits("the model's output is not a number")
    if result == _LOST_WEIGHTS:
        return UserFixable(
            tr("A file with the model's weights was changed while it was in use."),
            tr("Load the model again."),
        )
    if result == _NO_MEMORY:
        return MemoryError("no memory for a native call")
    return ValueError("impossible arguments of a native call")


def pointer(array: NDArray[Any] | None) -> int | None:
    """Address of an array's data; the caller keeps the array alive."""
    if array is None:
        return None
    try:
        return c.addressof(c.c_char.from_buffer(array.data))  # the quickest way there is
    except (TypeError, ValueError):  # read-only or empty
        return array.ctypes.data


@cache
def library() -> c.CDLL:
    """The loaded library.

    Raises:
        Absent: this installation was built without a C compiler.
        StaleLibrary: it was built from other sources than these, or for another computer.
    """
    if not FILE.exists():
        raise Absent(
            tr("Duotail's native CPU backend is not installed: there was no C compiler."),
            tr("Install one (Debian: apt-get install gcc) and install Duotail again."),
        )
    try:
        lib = c.CDLL(str(FILE))  # every call gives the GIL up
    except OSError as error:
        raise StaleLibrary(
            tr("Duotail's native CPU backend does not load on this computer."),
            tr("Install Duotail again to rebuild it (in a checkout: make setup)."),
            str(error),
        ) from error
    check_abi(lib)
    _declare(lib)
    _force_isa(lib)
    return lib


def _declare(lib: c.CDLL) -> None:
    """Give the library's functions the types of duotail.h."""
    i32, i64, at = c.c_int32, c.c_int64, c.c_void_p
    matrix, segment, step = map(c.POINTER, (Matrix, SegmentStruct, StepStruct))
    declare: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "dt_has_isa": (i32, (i32,)),
        "dt_processor_isas": (c.c_uint32, ()),
        "dt_best_isa": (i32, ()),
        "dt_use_isa": (i32, (i32,)),
        "dt_current_isa": (i32, ()),
        "dt_pool_new": (at, (i32,)),
        "dt_pool_free": (None, (at,)),
        "dt_packed_bytes": (i64, (i32, i32, i32)),
        "dt_pack_rows": (i32, (at, i32, i32, at, i32, i32, i32, i32, at)),
        "dt_repack_rows": (i32, (at, i32, at, i32, i32, i32, i32, at)),
        "dt_unpack_row": (None, (matrix, i32, at)),
        "dt_checksum": (c.c_uint64, (at, at, i64)),
        "dt_watch": (i32, (at, i64)),
        "dt_unwatch": (None, (at,)),
        "dt_cache_new": (at, (segment, i32)),
        "dt_cache_free": (None, (at,)),
        "dt_cache_bytes": (i64, (segment, i32)),
        "dt_cache_touched": (i64, (at,)),
        "dt_cache_copy": (None, (at, at, i32)),
        "dt_cache_move": (None, (at, at, i32, i32)),
        "dt_cache_past": (i32, (at,)),
        "dt_snapshot_bytes": (i64, (segment,)),
        "dt_snapshot": (i32, (at, segment, at, i32, at)),
        "dt_restore": (None, (at, i32, at)),
        "dt_sampler_bytes": (i64, (at, i32)),
        "dt_sampler_new": (at, (at, i32, at)),
        "dt_sampler_commit": (None, (at, at, i32)),
        "dt_sampler_clear": (None, (at,)),
        "dt_verify": (i32, (at, at, at)),
        "dt_rank": (i32, (at, at, at, i32, i32, at, i32, i32, at)),
        "dt_scratch_bytes": (i64, (segment, i32)),
        "dt_draft_bytes": (i64, (segment, at)),
        "dt_draft": (i32, (at, segment, at, at, at, at)),
        "dt_verify_tree": (i32, (at, segment, at, step, i32, at, at)),
        "dt_forward": (i32, (at, segment, at, step)),
        "dt_forward_tree": (i32, (at, segment, at, step, i32, i32, at)),
        "dt_expand": (i32, (at, segment, at, step, i32, i32, at, at, i32, at)),
        "dt_matmul": (i32, (at, matrix, at, i32, at)),
        "dt_lanes": (None, (i32, at, at, at, at)),
    }
    for name, (result, arguments) in declare.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments


def instruction_sets() -> tuple[Isa, ...]:
    """Return those that the library can use on this processor, slowest first."""
    return tuple(isa for isa in Isa if library().dt_has_isa(isa))


def sets_not_built() -> tuple[Isa, ...]:
    """Return those that this processor has and the library was built without, slowest first."""
    return _not_built(library())


def _not_built(lib: c.CDLL) -> tuple[Isa, ...]:
    there = lib.dt_processor_isas()
    return tuple(isa for isa in Isa if there >> isa & 1 and not lib.dt_has_isa(isa))


class StaleLibrary(Absent):
    """The library is not this version's, so that a call would corrupt memory, or does not load."""


STRUCTURES = (
    *(Matrix, Mlp, ExpertsStruct, DeltaStruct, BlockStruct, Rope, FusionStruct),
    *(SegmentStruct, StepStruct, SamplingStruct, VerificationStruct, DraftingStruct),
    CandidateStruct,
)
"""In the order in which dt_abi() tells their sizes."""


def check_abi(lib: c.CDLL) -> None:
    """Compare the version of the C ABI and the sizes of all structures that are passed.

    Raises:
        StaleLibrary: they differ, or the library is so old that it does not tell.
    """
    expected = [ABI_VERSION, len(STRUCTURES), *map(c.sizeof, STRUCTURES)]
    found: list[int] = []
    if hasattr(lib, "dt_abi"):
        lib.dt_abi.argtypes, lib.dt_abi.restype = (), c.POINTER(c.c_int32)
        told = lib.dt_abi()
        found = told[: min(2 + told[1], len(expected))]
    if found != expected:
        raise StaleLibrary(
            tr("Duotail's native CPU backend was built from another version of Duotail."),
            tr("Install Duotail again to rebuild it (in a checkout: make setup)."),
            f"ABI {found}, expected {expected}",
        )


def _force_isa(lib: c.CDLL) -> None:
    """Obey DUOTAIL_ISA (the name of an `Isa`), for tests and for tracking down crashes."""
    wanted = os.environ.get("DUOTAIL_ISA", "").upper()
    if not wanted or (wanted in Isa.__members__ and not lib.dt_use_isa(Isa[wanted])):
        return
    if wanted in {isa.name for isa in _not_built(lib)}:
        raise UserFixable(
            tr("The native library was built without the kernels for {name}.").format(
                name=wanted.lower()
            ),
            tr("In a checkout, `make test` builds the kernels of every instruction set."),
        )
    known = listed(isa.name.lower() for isa in Isa if lib.dt_has_isa(isa))
    raise UserFixable(
        tr("This processor does not support DUOTAIL_ISA={name}.").format(name=wanted.lower()),
        tr("Set it to one of {known}, or unset it.").format(known=known),
    )
