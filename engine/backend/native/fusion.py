"""How a feature head begins, as the library has it."""

from __future__ import annotations

from engine.backend.native.blocks import BlockPacker
from engine.backend.native.library import FusionKind, FusionStruct
from engine.model.config import Fusion


def pack_fusion(fusion: Fusion, packer: BlockPacker) -> FusionStruct:
    """Its matrices and vectors; the packer keeps their memory."""
    struct = FusionStruct(
        kind=FusionKind[fusion.kind.upper()],
        width=fusion.width,
        residual_normed=fusion.residual_normed,
    )
    if fusion.kind == "dgf":
        struct.feature = packer.matrix("fusion.feature.weight")
        struct.token = packer.matrix("fusion.token.weight")
        struct.gate = packer.matrix("fusion.gate.weight")
        struct.norm = packer.vector("fusion.norm.weight")
    elif fusion.kind == "linear":
        struct.feature = packer.matrix("fusion.linear.weight")
        struct.bias = packer.vector("fusion.linear.bias") if fusion.bias else None
    else:
        struct.feature = packer.matrix("fusion.features.weight")
        struct.norm = packer.vector("model.layers.0.hidden_norm.weight")
    return struct
