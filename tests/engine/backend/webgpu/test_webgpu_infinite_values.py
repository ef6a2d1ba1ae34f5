"""On a WebGPU adapter, too, a value beyond its type is nobody's business who cannot see it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from head_models import small_target
from on_adapter import shared_device
from test_native_infinite_values import CASES, TOKENS, OneHuge, alone

from engine.backend.decoder import Decoder
from engine.commands import WeightFormat
from engine.model.config import BlockConfig


@CASES
def test_rows_that_cannot_see_it(
    blocks: tuple[BlockConfig, ...], parents: list[int], seeing: set[int]
) -> None:
    config = replace(small_target(), blocks=blocks)
    backend = shared_device().backend(WeightFormat.F32, "target")
    decoder = Decoder.build(config, OneHuge(config), backend)
    together = decoder.forward(decoder.new_state(64), TOKENS, parents).logits.copy()
    numbers = np.isfinite(together).all(axis=1)
    assert {row for row, good in enumerate(numbers) if not good} == seeing
    np.testing.assert_array_equal(together, alone(decoder, TOKENS, parents))
