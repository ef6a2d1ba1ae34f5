"""Loads a GGUF file and tells, in units of its tensors, what that took: peak, then resident."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import psutil

from engine.commands import DraftChoice, Load
from engine.devices.memory import give_memory_back
from engine.loading.devices import DeviceManager
from engine.loading.load import load
from engine.loading.planned_load import plan_load
from engine.machine.facts import Host, Machine


def resident(process: psutil.Process) -> int:
    return int(process.memory_info().rss)


def main() -> None:
    machine = Machine(Host(cores=2, memory_total=64 << 30, memory_available=64 << 30))
    checked = plan_load(Load(Path(sys.argv[1]), DraftChoice.NONE, context=64), machine)
    process, peak, done = psutil.Process(), [0], threading.Event()
    give_memory_back()
    before = resident(process)

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], resident(process))

    watcher = threading.Thread(target=watch)
    watcher.start()
    pair = load(checked, DeviceManager().open)
    give_memory_back()
    done.set()
    watcher.join()
    tensors = checked.inspection.target.model.weight_bytes
    held = resident(process) - before - pair.states.nbytes  # keys and values are planned apart
    assert pair.target.weight_bytes >= tensors
    sys.stdout.write(f"{(peak[0] - before) / tensors:.3f} {held / tensors:.3f} {tensors}\n")


main()
