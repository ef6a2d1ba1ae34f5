"""The same questions to a real accelerator, where there is one."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

import pytest
from stand_ins import Held

from engine.devices.accelerators.nvml import Nvml, Unavailable
from engine.devices.probe import probe_machine

pytestmark = pytest.mark.gpu
MIB = 2**20


@pytest.mark.usefixtures("held")
def test_it_is_found_and_its_memory_is_right() -> None:
    import torch

    machine = probe_machine()
    assert machine.usable, [found.unusable for found in machine.accelerators]
    for found in machine.usable:
        assert found.memory_total
        assert found.memory_free is not None
        assert 0 <= found.memory_free <= found.memory_total
        if found.device.startswith("cuda"):
            free, total = torch.cuda.mem_get_info(found.device)
            assert total == pytest.approx(found.memory_total, rel=0.05)
            # mem_get_info opens a context; what that holds was free before.
            assert free == pytest.approx(found.memory_free, abs=1024 * MIB)


def test_names_are_torchs(held: Held) -> None:
    """Matched by identity: what is computed on a device shows as ours on that one."""
    machine = probe_machine()
    watch = held.watch()
    for found in machine.usable:
        taken = held.take(found.device, 256 * MIB)
        watch.learn(machine)
        sample = next(one for one in watch.sample(perf_counter()) if one.identity == found.identity)
        assert sample.device == found.device
        assert (sample.memory_ours or 0) >= taken.numel()
        assert (sample.memory_used or sample.memory_ours or 0) >= taken.numel()
        del taken
        held.tell(0)
        again = next(one for one in probe_machine().usable if one.identity == found.identity)
        assert again.memory_free == pytest.approx(found.memory_free, abs=1024 * MIB)


def test_probing_opens_no_context() -> None:
    """Of NVIDIA's, in a process of its own: a context takes hundreds of megabytes."""
    ask = (
        "from engine.devices.probe import probe_machine\n"
        "from engine.devices.accelerators.nvml import Nvml, Unavailable\n"
        "machine = probe_machine()\n"
        "try: print([card.held() for card in Nvml().cards()])\n"
        "except Unavailable: pass"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert set(done.stdout.strip(" []\n").split(", ")) <= {"None", "0", ""}


def test_a_sample_is_quick(held: Held) -> None:
    watch = held.watch()
    watch.learn(probe_machine())
    watch.sample(0)
    began = perf_counter()
    for now in range(10):
        watch.sample(now)
    assert perf_counter() - began < 10 * 0.020  # the driver's own time included


@pytest.mark.usefixtures("held")
def test_every_card_of_nvidia_answers() -> None:
    try:
        opened = Nvml()
    except Unavailable:
        pytest.skip("no card of NVIDIA's")
    with opened as library:
        for card in library.cards():
            facts, _ = card.facts()
            assert facts.identity
            assert facts.bus
            assert facts.name
