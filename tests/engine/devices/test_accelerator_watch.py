"""Cards are watched, may sleep and vanish: a library in NVIDIA's place, /sys and torch tell."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path

import pytest
from recorded import record
from recorded_nvml import DIVIDED, FIRST, GIB, TWO_CARDS, FakeNvml
from stand_in_torch import card, torch_with

from engine.backend.cpu import native_is_built
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import SimulatedSpec
from engine.devices import card_watch
from engine.devices.accelerators.nvml import Nvml
from engine.devices.accelerators.system_gpus import DEVICES
from engine.devices.card_watch import PAUSE_S, RETRY_S, can_sleep
from engine.devices.monitor import AcceleratorWatch
from engine.events import AcceleratorSample
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.system_files import SystemFiles

ONE, OTHER = "0000:01:00.0", "0000:41:00.0"
RADEON = "0000:03:00.0"
HOST = Host(4, 8 * GIB, 4 * GIB)


def slot(bus: str, vendor: str, **files: str) -> dict[str, str]:
    """A card's folder in /sys; "power_control" is the file "power/control"."""
    facts = {"class": "0x030000", "vendor": vendor, "device": "0x1234", **files}
    return {
        f"{DEVICES}/{bus}/{name.replace('power_', 'power/')}": f"{content}\n"
        for name, content in facts.items()
    }


DESKTOP = {
    **slot(ONE, "0x10de", power_control="on", power_runtime_status="active"),
    **slot(OTHER, "0x10de", power_control="on", power_runtime_status="active"),
}
LAPTOP = slot(ONE, "0x10de", power_control="auto", power_runtime_status="active")
AMD = {
    **slot(
        RADEON,
        "0x1002",
        gpu_busy_percent="83",
        mem_info_vram_used=str(6 * GIB),
        mem_info_vram_total=str(24 * GIB),
        power_control="auto",
        power_runtime_status="active",
    ),
    f"{DEVICES}/{RADEON}/hwmon/hwmon4/temp1_input": "55000\n",
    f"{DEVICES}/{RADEON}/hwmon/hwmon4/power1_average": "91000000\n",
    f"{DEVICES}/{RADEON}/drm/card1/card1-DP-2/enabled": "enabled\n",
}


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_watch, "LINUX", True)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Starts and ends of the library."""
    seen: list[str] = []

    class Counted(Nvml):
        def __init__(self) -> None:
            seen.append("start")
            super().__init__()

        def close(self) -> None:
            seen.append("end")
            super().close()

    monkeypatch.setattr(card_watch, "Nvml", Counted)
    return seen


def reason(sample: AcceleratorSample) -> str:
    return {entry.fact: entry.reason for entry in sample.missing}["percent"]


def test_two_cards(nvml: FakeNvml, tmp_path: Path, starts: list[str]) -> None:
    nvml.records(TWO_CARDS)
    watch = AcceleratorWatch(record(tmp_path, DESKTOP))
    for now in range(0, 200, 7):
        first, second = watch.sample(now)
        assert (first.percent, first.memory_used, first.memory_total) == (37, 2 * GIB, 12 * GIB)
        assert (first.memory_ours, first.temperature, first.power) == (GIB, 61, 115.5)
        assert (first.identity, first.device, first.missing) == (FIRST, "", ())
        assert second.percent == 0
    assert starts == ["start"]
    watch.close()
    assert starts == ["start", "end"]


def test_a_card_that_disappears_and_returns(
    nvml: FakeNvml, tmp_path: Path, starts: list[str]
) -> None:
    """The other one goes on; the driver is asked again after a while, not each time."""
    nvml.records(TWO_CARDS + "0.calls 23\n")
    watch = AcceleratorWatch(record(tmp_path, DESKTOP))
    samples = [watch.sample(now) for now in range(10)]
    assert [first.percent for first, _ in samples] == [37.0] * 3 + [None] * 7
    assert {second.percent for _, second in samples} == {0}
    assert (samples[-1][0].name, samples[-1][0].memory_used) == ("NVIDIA GeForce RTX 3060", None)
    assert reason(samples[-1][0]) == "GPU is lost"
    assert starts == ["start"]
    nvml.records(TWO_CARDS + "0.handle !15\n")
    assert watch.sample(RETRY_S + 5)[0].percent is None
    assert watch.sample(RETRY_S + 6)[1].percent == 0
    assert starts == ["start", "end", "start"]
    nvml.records(TWO_CARDS)
    assert watch.sample(2 * RETRY_S + 5)[0].percent == 37
    assert watch.sample(4 * RETRY_S)[0].percent == 37
    assert starts.count("start") == 3


def test_a_driver_that_is_unloaded(
    nvml: FakeNvml, tmp_path: Path, starts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is logged, whatever happens: the reason is in every sample."""
    caplog.set_level(logging.DEBUG)
    nvml.records(TWO_CARDS + "0.calls 7\n1.calls 7\n")
    watch = AcceleratorWatch(record(tmp_path, DESKTOP))
    assert watch.sample(0)[0].percent is None
    nvml.records("init !9")
    for now in range(1, 100):
        first, second = watch.sample(now)
        assert first.percent is second.percent is first.memory_used is None
    assert reason(first) == "NVIDIA's driver is installed, but not running"
    assert starts.count("start") == 4
    nvml.records(TWO_CARDS)
    assert [one.percent for one in watch.sample(200)] == [37, 0]
    assert not caplog.records


@pytest.mark.usefixtures("no_nvml")
def test_no_driver_is_looked_for_once(tmp_path: Path, starts: list[str]) -> None:
    watch = AcceleratorWatch(record(tmp_path, DESKTOP))
    assert [watch.sample(now) for now in range(0, 1000, 50)] == [()] * 20
    assert starts == ["start"]


def test_without_a_card_the_driver_is_not_started(
    nvml: FakeNvml, tmp_path: Path, starts: list[str]
) -> None:
    nvml.records(TWO_CARDS)
    watch = AcceleratorWatch(record(tmp_path, slot("0000:00:02.0", "0x8086")))
    assert watch.sample(0) == ()
    assert starts == []
    record(tmp_path, {"dev/dxg": ""})  # Linux under Windows shows no bus
    assert len(watch.sample(PAUSE_S)) == 2


def test_a_laptops_card_may_sleep(nvml: FakeNvml, tmp_path: Path, starts: list[str]) -> None:
    """While it is awake for others it is asked once a minute, and the driver let go of."""
    nvml.records(TWO_CARDS)
    files = record(tmp_path, LAPTOP)
    watch = AcceleratorWatch(files)
    samples = [watch.sample(now)[0] for now in range(int(PAUSE_S))]
    assert [sample.percent for sample in samples] == [37.0] + [None] * (int(PAUSE_S) - 1)
    assert reason(samples[-1]) == "it is queried once a minute, so that it can sleep"
    assert samples[-1].memory_total == 12 * GIB
    assert starts == ["start", "end"]
    record(tmp_path, {f"{DEVICES}/{ONE}/power/runtime_status": "suspended"})
    for now in range(100, 1000, 50):
        assert watch.sample(now)[0].percent is None
    assert reason(watch.sample(1000)[0]) == "it is asleep, and a query would wake it"
    assert starts == ["start", "end"]
    record(tmp_path, {f"{DEVICES}/{ONE}/power/runtime_status": "active"})
    assert watch.sample(1001)[0].percent == 37


def test_a_laptops_card_that_we_compute_on(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is awake anyway; and its name in plans is known."""
    nvml.records(TWO_CARDS.replace(f"0.processes 4242 1000 self {GIB}", ""))
    torch = torch_with(cuda=[card("x", (8, 6), 12 * GIB)], reserved=5)
    monkeypatch.setitem(sys.modules, "torch", torch)
    watch = AcceleratorWatch(record(tmp_path, LAPTOP))
    known = Accelerator("cuda:0", "RTX 3060", Vendor.NVIDIA, identity=FIRST, bus=ONE)
    watch.learn(Machine(HOST, (known,)))
    for now in range(10):
        (sample,) = watch.sample(now)
        assert (sample.device, sample.name, sample.percent) == ("cuda:0", "RTX 3060", 37)
        assert sample.memory_ours == 5


@pytest.mark.parametrize(
    ("files", "able"),
    [
        (slot(ONE, "0x10de", power_control="on"), False),
        (slot(ONE, "0x10de"), False),
        (LAPTOP, True),
        ({**LAPTOP, f"{DEVICES}/{ONE}/drm/card0/card0-eDP-1/enabled": "disabled\n"}, True),
        ({**LAPTOP, f"{DEVICES}/{ONE}/drm/card0/card0-DP-1/enabled": "enabled\n"}, False),
        (
            {
                **LAPTOP,
                f"proc/driver/nvidia/gpus/{ONE}/power": "Runtime D3 status:  Not supported\n",
            },
            False,
        ),
        (
            {
                **LAPTOP,
                f"proc/driver/nvidia/gpus/{ONE}/power": "Runtime D3 status: Enabled (fine-grained)",
            },
            True,
        ),
    ],
)
def test_which_cards_can_sleep(tmp_path: Path, files: dict[str, str], able: bool) -> None:
    assert can_sleep(record(tmp_path, files), ONE) is able


@pytest.mark.usefixtures("no_nvml")
def test_a_card_of_amd(tmp_path: Path) -> None:
    """It lights a screen, so it does not sleep whatever its settings; then it is pulled out."""
    watch = AcceleratorWatch(record(tmp_path, AMD))
    for now in range(3):
        (sample,) = watch.sample(now)
        assert (sample.percent, sample.temperature, sample.power) == (83, 55, 91)
        assert (sample.memory_used, sample.memory_total) == (6 * GIB, 24 * GIB)
    (tmp_path / DEVICES / RADEON / "gpu_busy_percent").unlink()
    (sample,) = watch.sample(3)
    assert (sample.percent, reason(sample)) == (None, "its driver does not report it")
    shutil.rmtree(tmp_path / DEVICES / RADEON)
    (sample,) = watch.sample(4)
    assert (sample.memory_used, reason(sample)) == (None, "it is no longer there")
    record(tmp_path, AMD)
    assert watch.sample(5)[0].percent == 83


@pytest.mark.usefixtures("no_nvml")
def test_a_sleeping_card_of_amd(tmp_path: Path) -> None:
    asleep = {f"{DEVICES}/{RADEON}/power/runtime_status": "suspended\n"}
    (sample,) = AcceleratorWatch(record(tmp_path, AMD, asleep)).sample(0)
    assert (sample.percent, sample.memory_total) == (None, 24 * GIB)


def test_parts_of_a_divided_card(nvml: FakeNvml, tmp_path: Path) -> None:
    nvml.records(DIVIDED)
    place = slot("0000:07:00.0", "0x10de", power_control="on")
    watch = AcceleratorWatch(record(tmp_path, place))
    for now in range(2):
        assert [one.memory_total for one in watch.sample(now)] == [20 * GIB, 10 * GIB]


@pytest.mark.usefixtures("no_nvml")
def test_torchs_own_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of accelerators that nobody else tells about; and only if torch is there already."""
    watch = AcceleratorWatch(SystemFiles(tmp_path))
    known = Accelerator("mps", "GPU of Apple M2", Vendor.APPLE, 11 * GIB, identity="m2")
    hidden = Accelerator("", "Arc", Vendor.INTEL, identity="x", unusable="no")
    pretended = Accelerator("simulated:0", "Simulated", simulated=True, identity="s")
    watch.learn(Machine(HOST, (known, hidden, pretended)))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    (sample,) = watch.sample(0)
    assert (sample.device, sample.memory_ours, sample.memory_total) == ("mps", None, 11 * GIB)
    monkeypatch.setitem(sys.modules, "torch", torch_with(mps=11 * GIB, reserved=GIB))
    assert watch.sample(1)[0].memory_ours == GIB


@pytest.mark.usefixtures("no_nvml")
def test_what_nobody_expected_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = AcceleratorWatch(record(tmp_path, AMD))

    def broken(_now: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(watch._amd, "sample", broken)
    assert [watch.sample(now) for now in range(9)] == [()] * 9
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("no_nvml")
@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
def test_the_simulated_accelerator_counts_itself(tmp_path: Path) -> None:
    """While it is open; and it says what it is."""
    opened: list[SimulatedDevice] = []
    watch = AcceleratorWatch(SystemFiles(tmp_path), lambda: opened[0] if opened else None)
    assert watch.sample(0) == ()
    opened.append(SimulatedDevice(SimulatedSpec.of(2 * GIB)))
    opened[0].take_by_others(GIB)
    (first,) = watch.sample(1)
    held = opened[0].ledger.held
    assert (first.simulated, first.device, first.percent) == (True, opened[0].name, None)
    assert (first.memory_ours, first.memory_used) == (held, held + GIB)
    with opened[0].processor:
        pass
    busy = opened[0].processor.busy_s
    (second,) = watch.sample(1 + 4 * busy)
    assert second.percent == pytest.approx(25)
    assert watch.sample(2 + 4 * busy)[0].percent == 0
    opened[0] = SimulatedDevice(SimulatedSpec.of(GIB))  # another load: it counts anew
    assert watch.sample(3 + 4 * busy)[0].percent is None
    opened.clear()
    assert watch.sample(9) == ()
