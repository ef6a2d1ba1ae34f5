"""Types of the matrices of a model in a file that llama.cpp has quantised.

A format is either uniform, or one of llama.cpp's recipes: more bits for the tensors that suffer
most, in the blocks where it matters most. The rules are those of its `llama-quantize` without an
importance matrix, for dense models and mixtures of more than eight experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.model.config import ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import EMBEDDING, HEAD, UNQUANTISED, expected_tensors

UNIFORM = {
    kind.lower(): kind
    for kind in (
        *("Q4_0", "Q8_0", "BF16", "F16", "F32", "Q4_1", "Q5_0", "Q5_1"),
        *("Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "MXFP4"),
    )
}
"""Formats in which every matrix has the same type, as far as its rows allow."""

_SHORTER = {
    "Q2_K": "Q4_0",
    "Q3_K": "Q4_0",
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
    "IQ4_XS": "IQ4_NL",
}
"""Types that take the place of those with blocks of 256 where rows do not divide by that."""

Rule = Callable[[int, int], bool]
"""Tells by a block's number, and that of all blocks, if it is among the chosen ones."""


def _more_bits(block: int, blocks: int) -> bool:
    """The first and the last eighth, and every third block between."""
    eighth = blocks // 8
    return block < eighth or block >= 7 * blocks // 8 or (block - eighth) % 3 == 2


def _first(count: int) -> Rule:
    return lambda block, _: block < count


def _first_part(part: int) -> Rule:
    return lambda block, blocks: block < blocks // part


def _all(_block: int, _blocks: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Recipe:
    """A mixture of types.

    Attributes:
        base: what everything else has.
        head: of the output matrix, also where it is the embedding.
        parts: tensor -> types and the blocks that have them; the first rule that holds counts.
        experts: of all experts; None: as of a dense feed-forward.
    """

    base: str
    head: str = "Q6_K"
    parts: Mapping[str, tuple[tuple[Rule, str], ...]] = field(default_factory=dict)
    experts: str | None = None

    def kind(self, part: str, block: int, blocks: int) -> str:
        """Return the type of one tensor of a block."""
        chosen = (kind for holds, kind in self.parts.get(part, ()) if holds(block, blocks))
        return next(chosen, self.base)


_SIX = ((_more_bits, "Q6_K"),)

RECIPES = {
    "q3_k_m": Recipe(
        "Q3_K",
        parts={
            "v_proj": ((_first(2), "Q5_K"), (_all, "Q4_K")),
            "o_proj": ((_all, "Q4_K"),),
            "down_proj": ((_first_part(16), "Q5_K"), (_all, "Q4_K")),
        },
    ),
    "q4_k_s": Recipe(
        "Q4_K",
        parts={
            "v_proj": ((_first(4), "Q5_K"),),
            "down_proj": ((_first_part(8), "Q5_K"),),
        },
    ),
    "q4_k_m": Recipe("Q4_K", parts={"v_proj": _SIX, "down_proj": _SIX}),
    "q5_k_m": Recipe("Q5_K", parts={"v_proj": _SIX, "down_proj": _SIX}),
    "mxfp4_moe": Recipe("Q8_0", head="Q8_0", experts="MXFP4"),
}
"""llama.cpp's mixtures by the names that their files carry."""

FORMATS = (*UNIFORM, *RECIPES)
SHAPE_FORMAT = "q4_0"
"""Format of a published shape unless told otherwise."""


def tensor_kinds(config: ModelConfig, wanted: str) -> dict[str, str]:
    """The type of every matrix (canonical name) in one of `FORMATS`, in ggml's words."""
    matrices = {name: s for name, s in expected_tensors(config).items() if len(s) == 2}
    return {name: _kind(config, wanted, name, shape[1]) for name, shape in matrices.items()}


def _kind(config: ModelConfig, wanted: str, name: str, cols: int) -> str:
    if name.endswith(UNQUANTISED):
        return "F32"  # small, and much hangs on it
    recipe = RECIPES.get(wanted)
    if recipe is None:
        return fitting(UNIFORM[wanted], cols)
    if name == HEAD or (name == EMBEDDING and config.tie_word_embeddings):
        return fitting(recipe.head, cols) if divides(cols, recipe.base) else "Q8_0"
    if name == EMBEDDING or name.startswith("fusion."):
        return fitting(recipe.base, cols)
    _, _, index, *_, part, _ = name.split(".")
    if recipe.experts is not None and ".experts." in name:
        return fitting(recipe.experts, cols)
    if config.family == "phi3" and part in ("q_proj", "k_proj"):
        part = "v_proj"  # the three are one tensor in Phi-3's files
    return fitting(recipe.kind(part, int(index), config.num_layers), cols)


def fitting(kind: str, cols: int) -> str:
    """The type, or what llama.cpp takes instead for rows of `cols` weights."""
    if divides(cols, kind):
        return kind
    shorter = _SHORTER.get(kind, kind)
    return shorter if divides(cols, shorter) else "F16"


def divides(cols: int, kind: str) -> bool:
    """True where a row of `cols` weights is a whole number of the type's blocks."""
    return cols % KIND_OF_NAME[kind].numbers == 0
