"""What is assumed of a machine that nobody has measured."""

from __future__ import annotations

import pytest

from engine.machine.facts import CPU, Host, Machine
from engine.machine.speeds import SMALL_BYTES
from engine.plan.assumed import assumed_speeds

GIB = 1 << 30


@pytest.mark.parametrize("instructions", ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", ""])
@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 2), (8, 2)])
def test_models_that_caches_hold_have_speeds_of_their_own(
    instructions: str, cores: int, threads: int
) -> None:
    """Few threads, nothing to wait for in memory: so no further row comes for free."""
    host = Host(cores, 16 * GIB, 8 * GIB, instruction_sets=(instructions,))
    large = assumed_speeds(Machine(host, ())).devices[CPU]
    small = large.beside(SMALL_BYTES)
    assert large.beside(SMALL_BYTES + 1) is large
    assert small.threads == threads
    for kind in ("Q4_0", "Q8_0"):
        one, eight = (small.product(kind).seconds_per_byte(rows) for rows in (1, 8))
        of_large = [large.product(kind).seconds_per_byte(rows) for rows in (1, 8)]
        assert 1 < of_large[1] / of_large[0] < eight / one < 8.001
    assert small.forward_s + 8 * small.block_s < large.forward_s + 8 * large.block_s
