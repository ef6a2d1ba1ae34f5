"""Measured speed of this machine, for findings to compare with."""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject

from app.engine_link.background import in_background
from app.engine_link.bridge import EngineBridge
from engine.events import Calibrated, MachineFound
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds

_log = logging.getLogger(__name__)


class KnownSpeeds(QObject):
    """Speeds from a calibration in this run, else from an earlier one on disk.

    Attributes:
        speeds: None until something is known.
        threads: CPU threads in use.
        cores: CPU cores that they may run on.
    """

    def __init__(self, bridge: EngineBridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.speeds: Speeds | None = None
        self.threads: int | None = None
        self.cores: int | None = None
        bridge.subscribe(Calibrated, self._calibrated)
        bridge.subscribe(MachineFound, lambda event: self._look_up(event.machine))
        if bridge.status.machine is not None:
            self._look_up(bridge.status.machine)

    def _calibrated(self, event: Calibrated) -> None:
        self.speeds = event.speeds or self.speeds

    def _look_up(self, machine: Machine) -> None:
        self.cores = machine.host.cores
        in_background(self, lambda: _kept(machine), self._found, self._failed)

    def _found(self, kept: tuple[int, Speeds | None]) -> None:
        self.threads, speeds = kept
        self.speeds = self.speeds or speeds

    @staticmethod
    def _failed(error: Exception) -> None:
        _log.info("what was measured of this machine is not known: %r", error)


def _kept(machine: Machine) -> tuple[int, Speeds | None]:
    """Reads the disk, and imports what the window does without until now."""
    from engine.devices.kept_measurements import KeptSpeeds
    from engine.machine.cores import default_threads

    threads = default_threads()
    return threads, KeptSpeeds().find(machine, threads)
