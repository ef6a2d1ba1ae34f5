"""On a WebGPU adapter, too, a value beyond its type is nobody's business who cannot see it."""

from __future__ import annotations

from dataclasses import replace

from head_models import small_target
from on_adapter import shared_device
from test_native_infinite_values import (
    CASES,
    FULL,
    OneHuge,
    only_those_that_see_it,
    rejected_without_a_trace,
)

from engine.backend.decoder import Decoder
from engine.commands import WeightFormat
from engine.model.config import BlockConfig


def model(blocks: tuple[BlockConfig, ...]) -> Decoder:
    config = replace(small_target(), blocks=blocks)
    backend = shared_device().backend(WeightFormat.F32, "target")
    return Decoder.build(config, OneHuge(config), backend)


@CASES
def test_rows_that_cannot_see_it(
    blocks: tuple[BlockConfig, ...], parents: list[int], seeing: set[int]
) -> None:
    only_those_that_see_it(model(blocks), parents, seeing)


def test_a_rejected_one() -> None:
    rejected_without_a_trace(model((FULL, FULL)))
