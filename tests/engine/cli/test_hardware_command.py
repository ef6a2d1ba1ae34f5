"""`duotail hardware`: what it prints, and that its JSON is what plans are made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Duotail

from engine.devices import machine_file
from engine.devices.calibration import calibrate as calibration
from engine.machine.facts import Accelerator, Host, Machine, Missing, Vendor
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds

GIB = 2**30
PRODUCT = ProductSpeed((1, 8, 64), (2.5e10, 2e10, 5e9))
GPU = Accelerator(
    *("cuda:0", "GeForce RTX 2080", Vendor.NVIDIA, 8 * GIB, 7 * GIB),
    driver="570.86",
    missing=(Missing("temperature", "the driver does not tell"),),
)
OLD = Accelerator("", "GeForce GTX 680", unusable="its architecture is too old for this torch")
HOST = Host(
    *(6, 16 * GIB, 9 * GIB, "Core i7", 12), fast_cores=4, instruction_sets=("avx2", "avx_vnni"),
    kernels="avx_vnni", kernels_left_out=("avx2",),
)  # fmt: skip
SPEEDS = Speeds(
    {
        "cpu": DeviceSpeeds("cpu", 3e10, {"Q4_0": PRODUCT}, 4e-5, 2e-5, 5e-6, PRODUCT, 6),
        "cuda:0": DeviceSpeeds("cuda:0", 4e11, {"Q4_0": PRODUCT}, 1e-4, 3e-5, 1e-6),
    },
    {"cuda:0": LinkSpeed("cuda:0", 1.2e10, 1.1e10, 1e-5)},
    measured=True,
)


@pytest.fixture
def _known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(HOST, (GPU, OLD))
    monkeypatch.setattr("engine.loading.devices.probe_machine", lambda: machine)
    monkeypatch.setattr("engine.loading.devices.is_installed", lambda: False)
    monkeypatch.setattr(calibration, "calibrate", lambda *_, **__: SPEEDS)


@pytest.mark.usefixtures("_known_machine")
def test_what_is_here_and_what_is_missing(duotail: Duotail) -> None:
    done = duotail("hardware")
    assert done.code == 0
    for said in (
        "Core i7",
        "6 cores, 12 threads, 4 performance cores",
        "16.0\N{NO-BREAK SPACE}GiB of memory, 9.0\N{NO-BREAK SPACE}GiB free",
        "avx2, avx_vnni",
        "kernels in use: avx_vnni; not built here: avx2",
        "GeForce RTX 2080 (cuda:0)",
        "driver 570.86",
        "temperature: unknown, the driver does not tell",
        "GeForce GTX 680\n  cannot be used: its architecture is too old for this torch",
        "Not measured yet",
    ):
        assert said in done.out


def test_what_is_odd_about_a_gpu(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = replace(GPU, unified=True, without_kernels="there is no compiler")
    for gpus in ((odd,), ()):
        machine = Machine(HOST, gpus)
        monkeypatch.setattr("engine.loading.devices.probe_machine", lambda: machine)  # noqa: B023
        monkeypatch.setattr("engine.loading.devices.is_installed", lambda: False)
        done = duotail("hardware")
        assert ("  Slow here: there is no compiler\n" in done.out) is bool(gpus)
        assert ("  shares the computer's memory\n" in done.out) is bool(gpus)
        assert ("No GPU was found." in done.out) is not bool(gpus)


@pytest.mark.usefixtures("_known_machine")
def test_how_fast_it_is(duotail: Duotail) -> None:
    done = duotail("hardware", "--calibrate")
    assert "cpu: reads 30.0 GB/s with 6 threads" in done.out
    assert "overhead: 40 µs per forward, 20 µs per block, 5 µs per further row" in done.out
    assert "copies: 12.0 GB/s to the device, 11.0 GB/s back, latency 10 µs" in done.out
    table = [line.split() for line in done.out.splitlines() if line.startswith("  Q4_0")]
    assert table[0] == ["Q4_0", "25.0", "22.6", "20.0", "14.0", "5.0"]
    assert duotail("hardware").out == done.out, "it was not kept"


@pytest.mark.usefixtures("_known_machine")
def test_json_is_the_file_to_plan_with(duotail: Duotail, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    done = duotail("hardware", "--json")
    assert done.json["speeds"]["measured"] is False
    done = duotail("hardware", "--calibrate", "--json")
    assert set(done.json) == {"accelerators", "machine", "speeds"}
    assert done.json["accelerators"] == [
        {
            "id": "cuda:0",
            "name": "GeForce RTX 2080",
            "software": False,
            "usable": True,
            "reason": "",
        },
        {
            "id": "",
            "name": "GeForce GTX 680",
            "software": False,
            "usable": False,
            "reason": "its architecture is too old for this torch",
        },
    ]
    path.write_text(done.out, "utf-8")
    assert machine_file.read(path) == (Machine(HOST, (GPU, OLD)), SPEEDS)


def test_with_a_simulated_accelerator(duotail: Duotail, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(duotail("hardware", "--simulate-gpu", "4", "--json").out, "utf-8")
    machine, speeds = machine_file.read(path)
    (simulated,) = machine.accelerators
    assert simulated.simulated
    assert simulated.memory_total == 4 * GIB
    assert speeds.devices[simulated.device].read_bytes_per_s > 0
    assert "Simulated GPU (simulated:0)" in duotail("hardware", "--simulate-gpu", "4").out


def test_bad_usage(duotail: Duotail) -> None:
    assert duotail("hardware", "--simulate-gpu", "-1").code == 2
    assert duotail("hardware", "--shape").code == 2
