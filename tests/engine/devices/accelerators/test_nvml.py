"""Answers of NVIDIA's library, through real ctypes calls into one that answers from a recording."""

from __future__ import annotations

import sys

import pytest
from recorded_nvml import DIVIDED, GIB, LAPTOP, TWO_CARDS, FakeNvml

from engine.devices.accelerators.nvml import Lost, Nvml, Unavailable
from engine.machine.facts import PcieLink


def test_two_cards(nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS)
    with Nvml() as library:
        assert (library.driver, library.cuda) == ("570.86.15", (12, 8))
        (first, ours), (second, others) = (card.facts() for card in library.cards())
    assert first.name == "NVIDIA GeForce RTX 3060"
    assert first.identity == "GPU-11111111-2222-3333-4444-555555555555"
    assert first.bus == "0000:01:00.0"
    assert (first.memory_total, first.memory_free, ours) == (12 * GIB, 10 * GIB, GIB)
    assert first.architecture == "8.6"
    assert first.link == PcieLink(1, 8, 4, 16)
    assert first.missing == ()
    assert second.bus == "0000:41:00.0"
    assert others is None  # others compute on it


def test_readings(nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS)
    with Nvml() as library:
        reading = library.cards()[0].sample()
    assert (reading.percent, reading.memory_used, reading.memory_ours) == (37.0, 2 * GIB, GIB)
    assert (reading.temperature, reading.power) == (61.0, 115.5)


def test_what_a_card_does_not_tell(nvml: FakeNvml) -> None:
    """A laptop's driver tells no power, a locked-down system no processes; each is asked once."""
    nvml.records(LAPTOP)
    with Nvml() as library:
        (card,) = library.cards()
        (facts, ours), reading = card.facts(), card.sample()
    assert (facts.memory_total, ours, reading.power) == (4 * GIB, None, None)
    assert (reading.percent, reading.temperature) == (3.0, 40.0)
    reasons = {entry.fact: entry.reason for entry in card.missing()}
    assert reasons == {
        "memory_ours": "this user has no permission to query it",
        "power": "the GPU's driver does not report it",
    }


def test_an_answer_nobody_knows(nvml: FakeNvml) -> None:
    nvml.records(LAPTOP.replace("0.busy 3", "0.busy !77"))
    with Nvml() as library:
        (card,) = library.cards()
        assert card.sample().percent is None
    reason = {entry.fact: entry.reason for entry in card.missing()}["percent"]
    assert reason.startswith("NVIDIA's driver answered: ")
    assert "Out of patience" in reason


def test_parts_of_a_divided_card(nvml: FakeNvml) -> None:
    nvml.records(DIVIDED)
    with Nvml() as library:
        parts = [card.facts()[0] for card in library.cards()]
    assert [part.identity[:12] for part in parts] == ["MIG-aaaaaaaa", "MIG-bbbbbbbb"]
    assert [part.memory_total for part in parts] == [20 * GIB, 10 * GIB]
    assert {part.bus for part in parts} == {"0000:07:00.0"}
    assert {part.architecture for part in parts} == {"8.0"}


def test_a_card_that_disappears(nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS + "0.calls 5\n")
    with Nvml() as library:
        first, second = library.cards()
        with pytest.raises(Lost, match="GPU is lost"):
            first.facts()
        assert second.sample().percent == 0


def test_a_card_that_does_not_start(nvml: FakeNvml) -> None:
    """The others are there all the same."""
    for code in ("!15", "!4", "!999"):
        nvml.records(TWO_CARDS + f"0.handle {code}\n")
        with Nvml() as library:
            assert [card.bus for card in library.cards()] == ["0000:41:00.0"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (18, "NVIDIA's driver was updated and works again after the next restart"),
        (9, "NVIDIA's driver is installed, but not running"),
        (4, "this user has no permission to query NVIDIA's driver"),
        (999, "NVIDIA's driver answered: Unknown Error"),
    ],
)
def test_a_library_that_does_not_start(nvml: FakeNvml, code: int, reason: str) -> None:
    nvml.records(f"init !{code}")
    with pytest.raises(Unavailable) as caught:
        Nvml()
    assert (str(caught.value), caught.value.absent) == (reason, False)


@pytest.mark.usefixtures("no_nvml")
def test_no_library() -> None:
    with pytest.raises(Unavailable) as caught:
        Nvml()
    assert caught.value.absent


def test_a_driver_that_stops(nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS)
    with Nvml() as library:
        card = library.cards()[0]
        library.close()
        with pytest.raises(Lost):
            card.sample()
        with pytest.raises(Lost):
            library.cards()


def test_without_its_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unavailable, match="nvidia-ml-py is not installed") as error:
        Nvml()
    assert error.value.absent
