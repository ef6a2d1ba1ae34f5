"""The CPU path that serves a model: native where it was built, else torch's operators."""

from __future__ import annotations

import logging
from functools import cache
from math import ceil

from engine.backend.device import Device, Transfers
from engine.backend.ledger import Account, Ledger
from engine.backend.native.library import Format, StaleLibrary, library
from engine.backend.segment import Backend
from engine.backend.shared import NO_LOAN, Loan
from engine.commands import KvType, WeightFormat
from engine.errors import Absent
from engine.language import tr
from engine.machine.facts import CPU
from engine.pytorch import need_pytorch

_log = logging.getLogger(__name__)

MOST_AT_EIGHT_BITS = 1_000_000_000
"""Weights up to which 8 bits are the default: small models lose more by 4 bits, and are fast."""

NATIVE_FORMATS = {
    WeightFormat.Q4: Format.Q4,
    WeightFormat.Q8: Format.Q8,
    WeightFormat.BF16: Format.BF16,
}
"""What the native backend calls the formats that it packs into; torch serves F32."""


BYTES_PER_THREAD = 8 << 20
"""Weights that a thread should have to read per token, and the last one a part of that: less is
read sooner than threads meet."""


def threads_for(weight_bytes: int) -> int:
    """Threads for a model of so many bytes: all cores, but for the smallest models.

    DUOTAIL_THREADS decides where it is set.
    """
    from engine.machine.cores import chosen_threads, default_threads

    useful = max(ceil(weight_bytes / BYTES_PER_THREAD), 1)
    return chosen_threads() or min(default_threads(), useful)


def native_is_built() -> bool:
    """Return whether the native library can be loaded; one that cannot is told in the log, once."""
    return _why_not_native() is None


def _why_not_native() -> Exception | None:
    """Return what prevents the native library from being loaded; None where nothing does."""
    try:
        library()
    except StaleLibrary as error:
        _warn_once(f"{error} ({error.details})")
        return error
    except Absent as error:
        return error
    return None


@cache
def _warn_once(message: str) -> None:
    _log.warning("%s", message)


def choose_format(wish: WeightFormat, weights: int, *, quantised: bool = False) -> WeightFormat:
    """The format that serves a model of so many weights; quantised ones stay as they are stored.

    Raises:
        Absent: a quantised format was asked for, and the native backend is not built, or stale.
    """
    trouble = _why_not_native()
    if wish is WeightFormat.AUTO:
        if trouble is not None:
            return WeightFormat.F32
        if quantised:
            return WeightFormat.STORED
        return WeightFormat.Q8 if weights <= MOST_AT_EIGHT_BITS else WeightFormat.Q4
    if wish is not WeightFormat.F32 and trouble is not None:
        if isinstance(trouble, StaleLibrary):
            raise trouble
        raise Absent(
            tr(
                "Weights in {wish} need Duotail's native CPU backend, which is not built here."
            ).format(wish=wish),
            tr("Install a C compiler and install Duotail again, or choose the format f32."),
        )
    return wish


class CpuDevice(Device):
    """The processor and its memory; see `engine.backend.device.Device`.

    Args:
        budget: most bytes that models may hold in memory; None: no limit.
        threads: of a pool that its backends share; None: a thread per available core.

    Attributes:
        threads: the same.
    """

    def __init__(self, budget: int | None = None, threads: int | None = None) -> None:
        # There are no copies: the host's memory is its own.
        super().__init__(Ledger(CPU, tr("Memory"), budget), Transfers())
        self.threads = threads

    def backend(
        self,
        weights: WeightFormat,
        owner: str,
        loan: Loan = NO_LOAN,
        kv: KvType = KvType.F16,
    ) -> Backend:
        """Compiles segments whose allocations are entered for `owner`.

        Args:
            weights: a format that `choose_format` gave; for F32, torch is imported, and works on
                one thread.
            owner: whose they are.
            loan: what a feature head has of its target.
            kv: type of keys and values, which are fp32 for F32.

        Raises:
            PyTorchAbsent: F32, and torch is not installed.
        """
        account = Account(self.ledger, owner)
        if weights is WeightFormat.F32:
            need_pytorch(tr("Computing in {format}").format(format=weights))
            from engine.backend.torch_cpu.segment import TorchCpuBackend

            return TorchCpuBackend(account)
        from engine.backend.native.pool import shared_pool
        from engine.backend.native.segment import NativeBackend

        pool = shared_pool(self.threads)
        return NativeBackend(NATIVE_FORMATS.get(weights), pool, account, loan, kv)

    def close(self) -> None:
        """Do nothing: no memory is held beside models."""
