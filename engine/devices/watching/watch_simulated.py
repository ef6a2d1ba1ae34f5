"""What the simulated accelerator is doing, as it counts itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.devices.holders import simulated_holder
from engine.events import AcceleratorSample

if TYPE_CHECKING:  # it brings the native library along, which the window does not wait for
    from engine.backend.simulated.device import SimulatedDevice


class SimulatedWatch:
    """Samples the simulated accelerator that is open.

    Args:
        device: that one; None while none is open.
    """

    def __init__(self, device: Callable[[], SimulatedDevice | None]) -> None:
        self._device = device
        self._before: tuple[float, float] | None = None
        """Moment of the last sample, and seconds of work until then."""

    def sample(self, now: float) -> tuple[AcceleratorSample, ...]:
        """Return its sample; nothing while none is open. The first one has no percent."""
        device = self._device()
        if device is None:
            self._before = None
            return ()
        facts, held, busy = device.accelerator, device.ledger.held, device.processor.busy_s
        before, self._before = self._before, (now, busy)
        percent = None
        if before is not None and before[0] < now and before[1] <= busy:
            percent = min(100 * (busy - before[1]) / (now - before[0]), 100.0)
        return (
            AcceleratorSample(
                device=facts.device,
                name=facts.name,
                percent=percent,
                memory_used=held + (facts.memory_of_others or 0),
                memory_ours=held,
                memory_total=facts.memory_total,
                identity=facts.identity,
                simulated=True,
                holders=simulated_holder(facts.memory_of_others or 0),
            ),
        )
