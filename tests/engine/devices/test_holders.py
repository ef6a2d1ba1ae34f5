"""Who else holds memory: on a card as NVIDIA's driver tells, on the PC as psutil does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest
from recorded_nvml import FIRST, GIB, LAPTOP, TWO_CARDS, FakeNvml

from engine.devices import holders
from engine.devices.accelerators.nvml import holders_on_card
from engine.devices.holders import holders_on_host, named, simulated_holder
from engine.machine.facts import Accelerator
from engine.machine.memory import Holder

PARENT = os.getppid()
CARD = Accelerator("cuda:0", "RTX 3060", identity=FIRST, bus="0000:01:00.0")


def parent_name() -> str:
    return psutil.Process(PARENT).name()


def test_programs_that_draw_or_compute_on_a_card(nvml: FakeNvml) -> None:
    """We are not among them, nor is what has ended; a game that does both counts once."""
    recorded = TWO_CARDS.replace(f"4242 1000 self {GIB}", f"999999999 5 {PARENT} 1000 self {GIB}")
    nvml.records(recorded + f"0.games {PARENT} {2 * GIB}\n")
    assert holders_on_card(CARD) == (Holder(parent_name(), PARENT, 2 * GIB),)


def test_a_driver_that_tells_no_bytes(nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS.replace(f"4242 1000 self {GIB}", f"{PARENT} ?"))
    assert holders_on_card(CARD) == (Holder(parent_name(), PARENT, None),)


def test_a_driver_that_tells_nothing(nvml: FakeNvml) -> None:
    nvml.records(LAPTOP)
    assert holders_on_card(CARD) == ()


@pytest.mark.usefixtures("no_nvml")
def test_no_driver() -> None:
    assert holders_on_card(CARD) == ()
    assert holders_on_card(Accelerator("mps", "Apple M2")) == ()


def test_the_largest_are_named_and_the_rest_is_not() -> None:
    own = {os.getpid(): GIB, PARENT: 5}
    assert named(own) == (Holder(parent_name(), PARENT, 5),)
    assert named({999_999_999: GIB}) == ()


def test_what_is_simulated_is_named_so() -> None:
    assert simulated_holder(0) == ()
    (holder,) = simulated_holder(GIB)
    assert (holder.nbytes, holder.pid) == (GIB, 0)
    assert "simulated" in holder.name


class Process:
    """One of a scripted PC."""

    def __init__(self, pid: int, name: str, rss: int, shared: int = 0) -> None:
        self.pid, self._name, self._memory = pid, name, SimpleNamespace(rss=rss, shared=shared)

    def name(self) -> str:
        return self._name

    def memory_info(self) -> SimpleNamespace:
        if self._name == "gone":
            raise psutil.NoSuchProcess(self.pid)
        return self._memory


def test_the_largest_programs_of_the_pc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of one name are one program, what they share is counted for none of them."""
    processes = [
        Process(1, "init", 10 << 20),
        Process(os.getpid(), "duotail", 9 * GIB),
        Process(3, "browser", 2 * GIB, GIB),
        Process(4, "browser", 3 * GIB, GIB),
        Process(5, "gone", GIB),
        Process(6, "game", 2 * GIB),
        Process(7, "mail", GIB),
        Process(8, "player", 500 << 20),
    ]
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(processes))
    monkeypatch.setattr(holders, "perf_counter", lambda: 0.0)
    assert holders_on_host() == (
        Holder("browser", 4, 3 * GIB),
        Holder("game", 6, 2 * GIB),
        Holder("mail", 7, GIB),
    )


def test_a_pc_that_is_slow_to_tell_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def endless() -> Iterator[Process]:
        while True:
            seen.append(1)
            yield Process(len(seen), "worker", GIB)

    clock = iter(range(10**6))
    monkeypatch.setattr(psutil, "process_iter", endless)
    monkeypatch.setattr(holders, "perf_counter", lambda: next(clock) / 100)
    (holder,) = holders_on_host()
    assert holder.name == "worker"
    assert len(seen) < 100


def test_here_and_now_nothing_fails() -> None:
    found = holders_on_host()
    assert all(each.nbytes and each.pid != os.getpid() for each in found)
