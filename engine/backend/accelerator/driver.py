"""Torch's view of a device, whichever its kind: memory, names, limits, and errors in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from engine.backend.device import Transfers
from engine.backend.ledger import GIB, Ledger
from engine.errors import DeviceLost, OutOfMemory
from engine.language import sentences, tr
from engine.machine.facts import Vendor
from engine.machine.kernels import reason_against_kernels


class DeviceMark:
    """A point in a device's queue of work."""

    def __init__(self, event: torch.Event | None, stream: Callable[[], torch.Stream]) -> None:
        self._event, self._stream = event, stream

    def set(self) -> None:
        """Set the mark behind the work queued so far."""
        if self._event is not None:
            self._event.record(self._stream())

    def wait(self) -> None:
        """Wait until the device has reached the mark, if it was set."""
        if self._event is not None:
            self._event.synchronize()


class Driver:
    """One device of torch's: "cuda:0" (NVIDIA and AMD), "xpu:0", "mps", and "cpu" for tests.

    Attributes:
        transfers: when the host handed over what a forward reads. What comes back is part of the
            forward, often of a recording of it, and nobody can tell the two apart.
    """

    def __init__(self, name: str) -> None:
        self.device = torch.device(name)
        modules: dict[str, ModuleType] = {"cuda": torch.cuda, "xpu": torch.xpu}
        self._module: Any = modules.get(self.device.type)
        self._apple = self.device.type == "mps"
        self.transfers = Transfers()

    @property
    def computes_apart(self) -> bool:
        """Tell whether it is a separate device with marks, so that copies need not be waited for.

        Apple's has none here, and what nobody waits for would be read before it arrives.
        """
        return self._module is not None

    @property
    def kind(self) -> str:
        """Kind of device, as signatures name it."""
        if self.device.type == "cuda" and torch.version.hip:
            return "rocm"
        return "torch-cpu" if self.device.type in ("cpu", "meta") else self.device.type

    @property
    def architecture(self) -> str:
        """Architecture that kernels are built for, as "8.6" or "gfx1100"; "" on other devices."""
        if self.device.type != "cuda":
            return ""
        facts = torch.cuda.get_device_properties(self.device)
        if self.kind == "rocm":
            return str(facts.gcnArchName).partition(":")[0]
        return f"{facts.major}.{facts.minor}"

    @property
    def label(self) -> str:
        """Name to show to people."""
        if self._module is not None:
            return str(self._module.get_device_name(self.device))
        return tr("Apple GPU") if self._apple else "torch"

    def free_and_total(self) -> tuple[int, int] | None:
        """Bytes of the device's memory, as the driver has them; None where nobody tells."""
        if self._module is not None and hasattr(self._module, "mem_get_info"):
            try:
                free, total = self._module.mem_get_info(self.device)
            except RuntimeError:  # some do not tell, and a device in trouble may not
                return None
            return int(free), int(total)
        if self._apple:
            total = self._total()
            return max(total - int(torch.mps.driver_allocated_memory()), 0), total
        return None

    def _total(self) -> int:
        if self._apple:
            return int(torch.mps.recommended_max_memory())
        return int(self._module.get_device_properties(self.device).total_memory)

    def allocated(self) -> int:
        """Bytes of living tensors."""
        if self._module is not None:
            return int(self._module.memory_allocated(self.device))
        return int(torch.mps.current_allocated_memory()) if self._apple else 0

    def reserved(self) -> int:
        """Bytes that torch has taken from the driver for tensors."""
        if self._module is not None:
            return int(self._module.memory_reserved(self.device))
        return int(torch.mps.driver_allocated_memory()) if self._apple else 0

    def limit(self, nbytes: int | None) -> None:
        """Have torch refuse to take more than so many bytes for tensors, where it can.

        None: as many as there are.
        """
        module = torch.mps if self._apple else self._module
        if not hasattr(module, "set_per_process_memory_fraction"):
            return
        total = self._total()
        share = 1.0 if nbytes is None else min(max(nbytes / max(total, 1), 0.0), 1.0)
        if self._apple:
            module.set_per_process_memory_fraction(share)
        else:
            module.set_per_process_memory_fraction(share, self.device)

    def give_back(self) -> None:
        """Hand memory that no tensor uses back to the driver."""
        if self._module is not None:
            with self._module.device(self.device):
                self._module.empty_cache()
        elif self._apple:
            torch.mps.empty_cache()

    def mark(self) -> DeviceMark:
        """Return a mark for this device; it does nothing where copies are waited for anyway.

        Who waits for it sleeps, where the device can wake its host: a draft may need the core.
        """
        module, device = self._module, self.device
        event = None
        if module is not None:
            event = module.Event(blocking=True) if device.type == "cuda" else module.Event()
        return DeviceMark(event, lambda: module.current_stream(device))

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy between host and device; the copy is there when a mark behind it is reached."""
        target.copy_(source, non_blocking=self.computes_apart)

    def wait(self) -> None:
        """Wait until all queued work is done."""
        if self._module is not None:
            end = self.mark()
            end.set()
            end.wait()
        elif self._apple:
            torch.mps.synchronize()


_LOST = (
    "device lost",
    "device_lost",
    "device unavailable",
    "busy or unavailable",
    "devices are unavailable",
    "deviceunavailable",
    "device not available",
    "no longer available",
    "has fallen off",
    "ecc error",
    "uncorrectable",
    "unspecified launch failure",
    "launch timed out",
    "illegal memory access",
    "hardware stack error",
    "illegal instruction",
    "misaligned address",
    "driver shutting down",
    "context is destroyed",
    "gpu hang",
    "hiperrorunknown",
    "cudaerrorunknown",
    "unknown error",
)
"""After these nothing works in this process's context any more, whatever caused them."""


@contextmanager
def in_words(driver: Driver, ledger: Ledger, needed: int | None = None) -> Iterator[None]:
    """Say what went wrong on a device.

    Raises:
        OutOfMemory: the device, or the part of it that torch may use, is full; `needed` bytes were
            asked for.
        DeviceLost: it has to be opened again, and what lay on it is gone.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise _full(driver, ledger, needed, str(error)) from error
    except RuntimeError as error:
        said = str(error).lower()
        if "out of memory" in said:
            raise _full(driver, ledger, needed, str(error)) from error
        if any(sign in said for sign in _LOST):
            raise DeviceLost(
                tr("{device} stopped responding.").format(device=ledger.name),
                tr("Load the model again; it will run without this device."),
                str(error),
            ) from error
        raise


def _full(driver: Driver, ledger: Ledger, needed: int | None, details: str) -> OutOfMemory:
    causes = [tr("{device} has no memory left.").format(device=ledger.name)]
    if needed is not None:
        causes.append(tr("{needed:.2f} GiB were needed.").format(needed=needed / GIB))
    known, lacking = driver.free_and_total(), None
    if known is not None:
        free, total = known
        lacking = ledger.shortage(free + ledger.held - (needed or 0))
        ours = ledger.held - (needed or 0)  # which is entered already
        others = max(total - free - ours, 0)
        causes.append(
            tr("{free:.2f} GiB are free, other programs hold {others:.2f} GiB.").format(
                free=free / GIB, others=others / GIB
            )
        )
    return OutOfMemory(
        sentences(*causes),
        tr("Close other programs that use it, lower the budget or choose a shorter context."),
        details,
        lacking,
    )


_MAKERS = {"cuda": Vendor.NVIDIA, "rocm": Vendor.AMD, "xpu": Vendor.INTEL}


def reason_against(driver: Driver) -> str:
    """Return why there are no kernels for a device; empty where there are."""
    return reason_against_kernels(_MAKERS.get(driver.kind, Vendor.OTHER), driver.architecture)
