"""Choose the device and the precision that a training computes with."""

from __future__ import annotations

import torch

from engine.errors import UserFixable
from engine.language import tr


def training_device(wanted: str) -> torch.device:
    """Return the device of a name; "auto" is a graphics card where there is one.

    Raises:
        UserFixable: there is no such device, or it cannot train.
    """
    try:
        if wanted == "auto":
            wanted = "cuda:0" if torch.cuda.is_available() else "cpu"
        device = torch.device(wanted)
    except RuntimeError as error:
        raise UserFixable(
            tr("There is no device “{name}”.").format(name=wanted[:100]),
            tr("Choose auto, cpu or cuda:0."),
            str(error)[:500],
        ) from error
    if device.type not in ("cpu", "cuda") or (
        device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    ):
        raise UserFixable(
            tr("There is no device “{name}” here that can train.").format(name=wanted[:100]),
            tr("Choose auto or cpu."),
        )
    return device


def has_fast_halves(device: torch.device) -> bool:
    """Whether products in bf16 are faster than in fp32."""
    return device.type == "cuda" or bool(torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001
