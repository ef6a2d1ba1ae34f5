"""The simulated accelerator as a device that a load opens."""

from __future__ import annotations

from dataclasses import replace

from engine.backend.cpu import NATIVE_FORMATS, native_is_built
from engine.backend.device import Transfers
from engine.backend.ledger import Account, Ledger, Purpose
from engine.backend.native.pool import ThreadPool, default_threads
from engine.backend.native.segment import NativeBackend
from engine.backend.shared import Loan
from engine.backend.simulated.processor import Processor
from engine.backend.simulated.segment import SimulatedBackend
from engine.backend.simulated.spec import (
    DEVICE,
    SimulatedSpec,
    simulated_accelerator,
    simulated_name,
)
from engine.commands import WeightFormat
from engine.errors import Absent
from engine.language import tr
from engine.machine.facts import Accelerator


class SimulatedDevice:
    """See `engine.backend.device.Device`. Everything it holds goes with its models and itself.

    Its memory and its core are the host's: it shows how the modes work, and is no faster.

    Args:
        spec: what it declares.
        budget: most bytes that our process may hold on it; None: all of its memory.

    Attributes:
        processor: what computes: its turns, its clock, its copies.
    """

    def __init__(self, spec: SimulatedSpec, budget: int | None = None) -> None:
        self.spec = spec
        self.processor = Processor(spec)
        self._ceiling = spec.memory if budget is None else min(budget, spec.memory)
        self._others = 0
        self.ledger = Ledger(DEVICE, simulated_name(), self._ceiling)
        declared = spec.runtime_bytes  # and nothing of it is really there
        self._runtime = self.ledger.take("device", Purpose.RUNTIME, declared, lambda: 0)

    @property
    def name(self) -> str:
        """Name of the device in plans."""
        return DEVICE

    @property
    def transfers(self) -> Transfers:
        """Its copies, as long as declared."""
        return self.processor.transfers

    @property
    def accelerator(self) -> Accelerator:
        """The device's current facts."""
        facts = simulated_accelerator(self.spec.memory)
        return replace(facts, memory_free=max(self.spec.memory - self._others, 0))

    def backend(
        self, weights: WeightFormat, owner: str, loan: Loan | None = None
    ) -> SimulatedBackend:
        """Compiles segments whose allocations are entered for `owner`.

        Raises:
            Absent: the native library is not built, or torch's fp32 was asked for.
        """
        if weights is WeightFormat.F32 or not native_is_built():
            raise Absent(
                tr("The simulated accelerator computes with Duotail's native CPU backend only."),
                tr("Choose another format than f32; a C compiler builds the backend."),
            )
        account = Account(self.ledger, owner)
        if loan is not None and isinstance(loan.lender, SimulatedBackend):
            loan = replace(loan, lender=loan.lender.native)
        native = NativeBackend(NATIVE_FORMATS.get(weights), ThreadPool(1), account, loan)
        return SimulatedBackend(native, self.processor)

    def close(self) -> None:
        """Give all memory back; segments and caches must be dropped before."""
        self._runtime.release()

    def lose(self) -> None:
        """Vanish, as a card that is unplugged: every call raises `DeviceLost` from now on."""
        self.processor.lose()

    def take_by_others(self, nbytes: int) -> None:
        """Other programs take so much of its memory; a negative number gives it back."""
        self._others += nbytes
        self.ledger.budget = max(min(self._ceiling, self.spec.memory - self._others), 0)


def threads_beside_it() -> int:
    """Threads for the CPU where both compute at the same time: the device has a core of its own."""
    return max(default_threads() - 1, 1)
