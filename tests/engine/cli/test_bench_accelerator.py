"""`duotail bench accelerator`, with torch's "cpu" device in a card's place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from command_line import Duotail

from engine.backend.cpu import native_is_built
from engine.bench import device_products
from engine.bench.device_products import bandwidth, time_products
from engine.bench.random_model import RandomModel
from engine.bench.shapes import SHAPES
from engine.machine.facts import Accelerator, Host, Machine, Vendor

GIB = 2**30
CARD = "cpu:0"
QUICK = (
    *("bench", "accelerator", "--shape", "small", "--rows", "1,4", "--tokens", "4"),
    *("--runs", "1", "--read", "0.001"),
)


@pytest.fixture(autouse=True)
def _small_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"num_hidden_layers": 3, "hidden_size": 128, "intermediate_size": 320}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 512}
    monkeypatch.setitem(SHAPES, "small", {**SHAPES["llama2-7b"], **changes, **heads})
    monkeypatch.setattr(device_products, "_LONG_S", 0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def here(monkeypatch: pytest.MonkeyPatch, *accelerators: Accelerator) -> None:
    machine = Machine(Host(1, 8 * GIB, 4 * GIB), accelerators)
    monkeypatch.setattr("engine.loading.devices.probe_machine", lambda: machine)


def card() -> Accelerator:
    return Accelerator(CARD, "A card", Vendor.NVIDIA, memory_total=4 * GIB, memory_free=4 * GIB)


@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
def test_what_is_reported(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, card())
    done = duotail(*QUICK, "--formats", "bf16,q4_0", "--json")
    assert (done.code, done.err) == (0, "")
    report = done.json
    assert report["device"] == "A card"
    assert list(report["products"]) == list(report["decode"]) == ["bf16", "q4_0"]
    for wanted, bits in (("bf16", 16), ("q4_0", 4.5)):
        products = report["products"][wanted]
        assert (products["blocks"], products["graph"]) == (3, False)
        parts = products["parts"]
        numbers = {"qkv": 3 * 3 * 128 * 128, "output": 3 * 128 * 128, "down": 3 * 128 * 320,
                   "gate_up": 6 * 128 * 320, "head": 512 * 128}  # fmt: skip
        for part, count in numbers.items():
            assert list(parts[part]) == ["1", "4"]
            assert parts[part]["4"]["bytes"] == count * bits / 8
        assert parts["all"]["1"]["bytes"] == sum(numbers.values()) * bits / 8
        found = parts["all"]["1"]
        assert found["bytes_per_s"] == pytest.approx(found["bytes"] / found["ms"] * 1e3)
        assert found["share"] == pytest.approx(found["bytes_per_s"] / report["bytes_per_s"])
        decode = report["decode"][wanted]
        keys = 3 * 2 * 2 * 64 * 2 * (512 + 2)
        assert decode["bytes_per_token"] == pytest.approx(
            sum(numbers.values()) * bits / 8 + keys, rel=0.05
        )
        assert decode["share"] == pytest.approx(
            decode["tokens_per_s"] * decode["bytes_per_token"] / report["bytes_per_s"]
        )
        assert set(decode["t_verify_ms"]) == {"1", "4"}
        assert decode["memory"][CARD]["kept_to_budget"] is True
        assert decode["memory"][CARD]["peak"] >= decode["memory"][CARD]["ledger"]["target"] > 0


def test_a_table_for_people(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, card())
    table = duotail(*QUICK, "--formats", "q8_0").out
    assert "A card: " in table
    assert "q8_0, products with n rows" in table
    assert "gate and up" in table
    assert "tokens/s decoded" in table


def test_blocks_are_left_out_where_there_is_no_room() -> None:
    model = RandomModel.published("small", "q8_0")
    held = model.facts.footprint
    room = held.head.nbytes + 2 * held.blocks[0].nbytes
    assert time_products(CARD, model, (1,), room).blocks == 2
    assert time_products(CARD, model, (1,), room - 1).blocks == 1
    assert time_products(CARD, model, (1,), 0).blocks == 1


def test_a_bandwidth_is_one() -> None:
    assert 1e7 < bandwidth(CARD, 1 << 20) < 1e14


@pytest.mark.parametrize(
    "found",
    [
        (),
        (Accelerator("", "GTX 680", Vendor.NVIDIA, 2 * GIB, unusable="too old"),),
        (Accelerator("simulated:0", "Simulated", memory_total=GIB, simulated=True),),
    ],
)
def test_without_an_accelerator(
    duotail: Duotail, monkeypatch: pytest.MonkeyPatch, found: tuple[Accelerator, ...]
) -> None:
    here(monkeypatch, *found)
    done = duotail(*QUICK, "--json")
    assert done.code == 3
    assert "no accelerator" in done.err
    assert all(each.unusable in done.err for each in found)


@pytest.mark.parametrize(
    "arguments", [("--formats", "q4_0,nonsense"), ("--rows", "0"), ("--shape", "nonsense")]
)
def test_what_cannot_be_measured(
    duotail: Duotail, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    here(monkeypatch, card())
    assert duotail(*QUICK, *arguments).code == 2
