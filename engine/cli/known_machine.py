"""--hardware FILE and --simulate-gpu: the machine that is planned for, where it is not this one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from engine.backend.simulated.spec import simulated_accelerator
from engine.hardware import machine_file
from engine.language import tr
from engine.loading.machinery import Machinery
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds


def add_hardware_option(parser: argparse.ArgumentParser) -> None:
    """Declare --hardware."""
    parser.add_argument(
        "--hardware",
        type=Path,
        metavar="FILE.json",
        help=tr("plan for the machine that `duotail hardware --json` has described there"),
    )


def known_machine(described: Path | None, simulate_gpu: int | None) -> tuple[Machine, Speeds]:
    """The machine in a file, or this one; with a simulated accelerator of so many bytes, if asked.

    Raises:
        UserFixable: the file describes none.
    """
    machinery = Machinery()
    if described is None:
        machine = machinery.look(simulate_gpu)
        return machine, machinery.speeds(machine)
    machine, speeds = machine_file.read(described)
    if simulate_gpu is None:
        return machine, speeds
    machine = replace(machine, accelerators=(simulated_accelerator(simulate_gpu),))
    declared = machinery.speeds(machine)
    devices = {**declared.devices, **speeds.devices}
    return machine, replace(speeds, devices=devices, links={**declared.links, **speeds.links})
