"""--hardware FILE: plan for the machine that a file describes, not for this one."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.errors import Absent
from engine.hardware import machine_file
from engine.hardware.probe import probe_machine
from engine.language import tr
from engine.plan.machine import Machine
from engine.plan.speeds import Speeds


def add_hardware_option(parser: argparse.ArgumentParser) -> None:
    """Declare --hardware."""
    parser.add_argument(
        "--hardware",
        type=Path,
        metavar="FILE.json",
        help=tr("plan for the machine that `duotail hardware --json` has described there"),
    )


def known_machine(described: Path | None, simulated: int | None = None) -> tuple[Machine, Speeds]:
    """The machine in a file, or this one; with a simulated accelerator of so many bytes, if asked.

    Raises:
        UserFixable: the file describes none.
    """
    if simulated is not None:
        raise Absent(
            tr("This version runs on the CPU only: it has no accelerator, real or simulated."),
            tr("Leave out --vram, --layers-on-gpu and --simulate-gpu."),
        )
    if described is not None:
        return machine_file.read(described)
    return probe_machine(), Speeds({})
