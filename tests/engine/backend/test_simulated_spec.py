"""What a simulated accelerator declares, as a pure function of its spec."""

from __future__ import annotations

import pytest
from full_models import RandomWeights, full_config

from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.simulated.processor import Reads, Work, work_of
from engine.backend.simulated.spec import SimulatedSpec, simulated_accelerator, simulated_speeds
from engine.machine.facts import Host, Machine
from engine.machine.speeds import DeviceSpeeds

CONFIG = full_config()
SPEC = SimulatedSpec(
    1 << 30, read_bytes_per_s=9e9, products_per_s=64e9, link_bytes_per_s=2e9, latency_s=20e-6
)


@pytest.fixture(scope="module")
def speeds() -> DeviceSpeeds:
    return simulated_speeds(SPEC)[0]


def test_its_facts() -> None:
    found = simulated_accelerator(3 << 30)
    assert (found.device, found.simulated, found.unusable) == ("simulated:0", True, "")
    assert "simulated" in found.name.lower()
    assert found.memory_total == found.memory_free == 3 << 30
    assert Machine(Host(2, 1 << 33, 1 << 32), (found,)).usable == (found,)


def test_the_usual_one_leaves_room_for_models() -> None:
    for memory in (1 << 20, 1 << 30, 24 << 30):
        spec = SimulatedSpec.of(memory)
        assert 0 < spec.runtime_bytes < memory / 10


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 17, 64, 512])
@pytest.mark.parametrize(
    ("kind", "numbers", "nbytes"),
    [("Q4_0", 32, 18), ("Q8_0", 32, 34), ("Q6_K", 256, 210), ("F32", 1, 4), ("MXFP4", 32, 17)],
)
def test_products_end_at_the_later_of_reading_and_multiplying(
    rows: int, kind: str, numbers: int, nbytes: int, speeds: DeviceSpeeds
) -> None:
    reading = 1 / SPEC.read_bytes_per_s
    multiplying = rows * numbers / nbytes / SPEC.products_per_s
    expected = max(reading, multiplying)
    assert speeds.product(kind).seconds_per_byte(rows) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("products_per_s", [1e6, 1e9, 1e30])
def test_a_device_that_only_reads_or_only_multiplies(products_per_s: float) -> None:
    spec = SimulatedSpec(1 << 30, 9e9, products_per_s, 2e9, 20e-6)
    found = simulated_speeds(spec)[0].product("Q8_0")
    for rows in (1, 2, 7, 300):
        expected = max(1 / 9e9, rows * 32 / 34 / products_per_s)
        assert found.seconds_per_byte(rows) == pytest.approx(expected, rel=1e-12)


def test_keys_are_read_once_whatever_the_rows(speeds: DeviceSpeeds) -> None:
    for queries in (1, 8, 4096):
        assert speeds.attending().seconds_per_byte(queries) == pytest.approx(1 / 9e9)


def test_copies_are_declared() -> None:
    link = simulated_speeds(SPEC)[1]
    assert (link.to_bytes_per_s, link.from_bytes_per_s, link.latency_s) == (2e9, 2e9, 20e-6)


def test_the_time_of_a_forward(speeds: DeviceSpeeds) -> None:
    work = Work(
        blocks=(Reads("Q4_0", 18_000_000), Reads("Q8_0", 34_000_000, chosen=0.25)),
        head=(Reads("Q8_0", 3_400_000),),
        kv=((1024, 0), (1024, 100)),
    )
    # one row: all reads
    dense, expert = 18e6 / 9e9, 34e6 * 0.25 / 9e9
    assert work.products(1, 0, speeds) == pytest.approx(dense + expert)
    assert work.products(1, 1, speeds) == pytest.approx(dense + expert + 3.4e6 / 9e9)
    # 64 rows: all multiplies, and nearly all experts are read
    dense, expert = 32e6 * 64 / 64e9, 32e6 * (1 - 0.75**64) * 64 / 64e9
    assert work.products(64, 2, speeds) == pytest.approx(dense + expert + 3.4e6 / 9e9)
    # whatever the rows: one block sees all of the sequence, the other what its window shows
    for rows in (1, 64):
        for tokens, seen in ((60, 120), (500, 600)):
            expected = seen * 1024 / 9e9
            assert work.attention(rows, tokens, speeds) == pytest.approx(expected)


def test_what_a_segment_reads() -> None:
    """Every byte of its matrices, but for the embedding, of which a row is looked up."""
    config, weights = CONFIG, RandomWeights(CONFIG)
    whole = NativeBackend(Format.Q8).compile(config, weights, range(4), embed=True, head=True)
    work = work_of(whole.struct)
    packed = sum(matrix.nbytes for matrix in whole._packed)
    assert sum(read.nbytes for read in (*work.blocks, *work.head)) == packed  # tied: once, as head
    padded = CONFIG.typical.head_dim + -CONFIG.typical.head_dim % 16
    per_token = 2 * 2 * CONFIG.typical.kv_heads * padded
    assert set(work.kv) == {(per_token, 24), (2 * per_token, 0), (per_token, 5)}
    assert {(read.kind, read.chosen) for read in work.blocks} == {
        ("Q8_0", 1.0), ("BF16", 1.0), ("Q8_0", 3 / 7), ("Q8_0", 4 / 20),
    }  # fmt: skip
    embedding = NativeBackend(Format.Q8).compile(config, weights, range(0), embed=True, head=False)
    assert work_of(embedding.struct) == Work((), (), ())
