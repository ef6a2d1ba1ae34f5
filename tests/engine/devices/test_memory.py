"""The ledgers beside what the system counts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded_nvml import GIB, TWO_CARDS, FakeNvml

from engine.backend.cpu import native_is_built
from engine.backend.ledger import Ledger, Purpose
from engine.backend.simulated.spec import simulated_accelerator
from engine.devices import memory
from engine.devices.memory import (
    MemoryComparison,
    MemoryWatch,
    held_by_driver,
    torch_counters,
)
from engine.machine.facts import Accelerator, Host, Machine

CHILD = Path(__file__).with_name("memory_child.py")


@pytest.mark.release(reason="a large model in a process of its own")
@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
def test_the_ledger_knows_what_the_process_has_grown_by() -> None:
    """A good part of it are keys of a half filled context: forgotten, they would be missed."""
    arguments = ("qwen3-0.6b", "q4_0", "6", "4096", "2000")
    command = [sys.executable, str(CHILD), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300)
    report = json.loads(done.stdout)
    assert report["filled"] == 2000
    lines = {line["purpose"]: line for line in report["lines"]}
    assert lines.keys() == {"weights", "kv", "workspace"}
    assert 0.95 < report["ratio"] < 1.05, report
    assert (report["ledger"] - lines["kv"]["touched"]) / report["measured"] < 0.85


def test_what_has_no_counter_lies_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    process, card = [1000], [50]
    monkeypatch.setattr(memory, "own_memory", lambda: process[0])
    watch = MemoryWatch({"cuda:0": lambda: card[0], "cuda:1": lambda: None})
    devices = ("cpu", "cuda:0", "cuda:1", "simulated:0")
    ledgers = {device: Ledger(device, device) for device in devices}
    ledgers["cpu"].take("target", Purpose.WEIGHTS, 300)
    ledgers["cpu"].take("target", Purpose.KV, 500, lambda: 100)
    ledgers["cuda:0"].take("device", Purpose.RUNTIME, 40)
    ledgers["cuda:0"].take("draft", Purpose.WEIGHTS, 70)
    ledgers["cuda:1"].take("draft", Purpose.WEIGHTS, 70)
    ledgers["simulated:0"].take("draft", Purpose.WEIGHTS, 200)
    process[0], card[0] = 1610, 130
    assert watch.compare(ledgers.values()) == {
        "cpu": MemoryComparison("cpu", 400, 410),
        "cuda:0": MemoryComparison("cuda:0", 70, 80),
    }


def test_what_torch_holds_on_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Accelerator("cuda:1", "a card", memory_total=1000)
    unused = Accelerator("", "another", memory_total=1000, unusable="too old")
    machine = Machine(Host(2, 10, 10), (card, simulated_accelerator(1000), unused))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    watch = MemoryWatch(torch_counters(machine))
    cuda = SimpleNamespace(is_initialized=lambda: True, memory_reserved={1: 640}.__getitem__)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    ledger = Ledger("cuda:1", "a card")
    ledger.take("target", Purpose.WEIGHTS, 600)
    assert watch.compare([ledger]) == {"cuda:1": MemoryComparison("cuda:1", 600, 640)}


def test_what_the_driver_says_that_we_hold(nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS)
    first = "GPU-11111111-2222-3333-4444-555555555555"
    card = Accelerator("cuda:1", "a card", memory_total=1000, identity=first)
    machine = Machine(Host(2, 10, 10), (card, simulated_accelerator(1000)))
    assert held_by_driver(machine) == {"cuda:1": GIB}
    other = replace(card, identity="another")
    assert held_by_driver(replace(machine, accelerators=(other,))) == {}


@pytest.mark.usefixtures("no_nvml")
def test_without_a_driver_nothing_is_said() -> None:
    card = Accelerator("cuda:0", "a card", memory_total=1000, identity="GPU-1")
    assert held_by_driver(Machine(Host(2, 10, 10), (card,))) == {}


def test_ratios() -> None:
    assert MemoryComparison("cpu", 95, 100).ratio == 0.95
    assert MemoryComparison("cpu", 0, 0).ratio == 1
    assert MemoryComparison("cpu", 5, 0).ratio == 0
