"""In torch's operators, too, a value beyond its type is nobody's business who cannot see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from head_models import small_target
from test_native_infinite_values import (
    CASES,
    FULL,
    OneHuge,
    only_those_that_see_it,
    rejected_without_a_trace,
)

from engine.backend.accelerator.device import TorchDevice
from engine.backend.decoder import Decoder
from engine.backend.segment import Backend
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import WeightFormat
from engine.model.config import BlockConfig

Blocks = tuple[BlockConfig, ...]


def on_the_cpu(blocks: Blocks) -> Decoder:
    """With keys and values in fp32, of which infinity is farther away."""
    return made(blocks, TorchCpuBackend(), 3e38)


def on_a_device(blocks: Blocks) -> Decoder:
    return made(blocks, TorchDevice("cpu").backend(WeightFormat.F32, "target"), 1e6)


def on_a_device_in_halves(blocks: Blocks) -> Decoder:
    device = TorchDevice("cpu", halves=True)
    return made(blocks, device.backend(WeightFormat.F32, "target"), 1e6)


def made(blocks: Blocks, backend: Backend, huge: float) -> Decoder:
    config = replace(small_target(), blocks=blocks)
    return Decoder.build(config, OneHuge(config, huge=huge), backend)


MAKERS = pytest.mark.parametrize("make", [on_the_cpu, on_a_device, on_a_device_in_halves])


@CASES
@MAKERS
def test_rows_that_cannot_see_it(
    make: Callable[[Blocks], Decoder], blocks: Blocks, parents: list[int], seeing: set[int]
) -> None:
    only_those_that_see_it(make(blocks), parents, seeing)


@MAKERS
def test_a_rejected_one(make: Callable[[Blocks], Decoder]) -> None:
    rejected_without_a_trace(make((FULL, FULL)))
