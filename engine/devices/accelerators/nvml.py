"""NVIDIA's management library: what it says of each card, asked with care.

It answers without a CUDA context and whether or not torch can use a card. Any call may fail on any
card: a question that a card cannot answer is asked once, and a card that is lost raises `Lost`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Self

from engine.devices.holders import named
from engine.events import AcceleratorSample
from engine.language import tr
from engine.machine.facts import Accelerator, Missing, PcieLink, Vendor
from engine.machine.memory import Holder

_GAMES = "memory_of_games"
"""A fact that nobody misses."""


class Unavailable(Exception):
    """The library cannot be used; the text says why.

    Attributes:
        absent: there is no driver of NVIDIA's at all, as on most machines.
    """

    def __init__(self, reason: str, *, absent: bool = False) -> None:
        super().__init__(reason)
        self.absent = absent


class Lost(Exception):
    """A card, or the driver, went away: unplugged, crashed, unloaded, reset."""


@dataclass(slots=True)
class NvmlCard:
    """One card, or one of the parts that it is divided into (MIG)."""

    library: ModuleType
    handle: Any
    parent: Any = None
    """Handle of the whole card, for a part of one: only the whole card knows its bus."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Facts that this card does not tell, with reasons; they are not asked for again."""
    uuid: str = ""
    bus: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        whole = self.handle if self.parent is None else self.parent
        self.uuid = self.ask("identity", "nvmlDeviceGetUUID", self.handle) or ""
        self.name = self.ask("name", "nvmlDeviceGetName", self.handle) or ""
        pci = self.ask("bus", "nvmlDeviceGetPciInfo_v3", whole)
        if pci is not None:
            self.bus = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"

    @property
    def identity(self) -> str:
        """Return what stays from start to start: "GPU-...", "MIG-..." of a part, or the bus."""
        return self.uuid or self.bus

    def facts(self) -> tuple[Accelerator, int | None]:
        """Return the card, and the bytes that this process holds on it; see `held`.

        Its free memory is what nobody holds.

        Raises:
            Lost: the card went away.
        """
        whole = self.handle if self.parent is None else self.parent
        memory = self.ask("memory_total", "nvmlDeviceGetMemoryInfo", self.handle)
        capability = self.ask("architecture", "nvmlDeviceGetCudaComputeCapability", whole)
        link = PcieLink(
            generation=self.ask("link", "nvmlDeviceGetCurrPcieLinkGeneration", whole),
            width=self.ask("link", "nvmlDeviceGetCurrPcieLinkWidth", whole),
            max_generation=self.ask("link", "nvmlDeviceGetMaxPcieLinkGeneration", whole),
            max_width=self.ask("link", "nvmlDeviceGetMaxPcieLinkWidth", whole),
        )
        held = self.held()
        found = Accelerator(
            device="",
            name=self.name,
            vendor=Vendor.NVIDIA,
            memory_total=None if memory is None else int(memory.total),
            memory_free=None if memory is None else int(memory.free),
            identity=self.identity,
            bus=self.bus,
            architecture="{}.{}".format(*capability) if capability else "",
            link=link,
            missing=self.missing(),
        )
        return found, held

    def sample(self) -> AcceleratorSample:
        """Return the card's present state.

        Raises:
            Lost: the card went away.
        """
        busy = self.ask("percent", "nvmlDeviceGetUtilizationRates", self.handle)
        memory = self.ask("memory_used", "nvmlDeviceGetMemoryInfo", self.handle)
        processes = self.processes()
        milliwatts = self.ask("power", "nvmlDeviceGetPowerUsage", self.handle)
        sensor = self.library.NVML_TEMPERATURE_GPU
        return AcceleratorSample(
            device="",
            name=self.name,
            identity=self.identity,
            percent=None if busy is None else float(busy.gpu),
            memory_used=None if memory is None else int(memory.total - memory.free),
            memory_ours=processes.get(os.getpid()),
            memory_total=None if memory is None else int(memory.total),
            temperature=self.ask("temperature", "nvmlDeviceGetTemperature", self.handle, sensor),
            power=None if milliwatts is None else milliwatts / 1000,
            missing=self.missing(),
            holders=named(processes),
        )

    def held(self) -> int | None:
        """Return the bytes that this process holds on the card, its context included.

        None where the driver does not tell: most cards on Windows, and containers, where it knows
        processes by other numbers.
        """
        listed = self.ask("memory_ours", "nvmlDeviceGetComputeRunningProcesses_v3", self.handle)
        for entry in listed or ():
            if entry.pid == os.getpid() and entry.usedGpuMemory is not None:
                return int(entry.usedGpuMemory)
        return None

    def processes(self) -> dict[int, int | None]:
        """Return the bytes of every process on the card, graphics included; None: not reported.

        Raises:
            Lost: the card went away.
        """
        found: dict[int, int | None] = {}
        for fact, function in (
            ("memory_ours", "nvmlDeviceGetComputeRunningProcesses_v3"),
            (_GAMES, "nvmlDeviceGetGraphicsRunningProcesses_v3"),
        ):
            for entry in self.ask(fact, function, self.handle) or ():
                used = max(int(entry.usedGpuMemory or 0), found.get(entry.pid) or 0)
                found[entry.pid] = used or None
        return found

    def missing(self) -> tuple[Missing, ...]:
        """Return the facts that the card has not reported so far, with reasons."""
        told = (each for each in self.reasons.items() if each[0] != _GAMES)
        return tuple(Missing(fact, reason) for fact, reason in told)

    def ask(self, fact: str, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Call a function of the library; None where it gives no answer.

        Raises:
            Lost: the card went away.
        """
        if fact in self.reasons:
            return None
        try:
            return getattr(self.library, function)(*arguments)
        except self.library.NVMLError as error:
            if error.value in _lost(self.library):
                raise Lost(_text(error)) from error
            self.reasons[fact] = _reason(self.library, error)
        except (AttributeError, TypeError, ValueError, OSError) as error:
            self.reasons[fact] = _unexpected(error)
        return None


class Nvml:
    """The library, open until `close`. Several may be open at once; the library counts them."""

    def __init__(self) -> None:
        """Find and start the library; some milliseconds, more where no card was in use.

        Raises:
            Unavailable: there is none, or it does not work.
        """
        try:
            # 7,000 lines, so only when somebody asks for accelerators.
            import pynvml  # type: ignore[import-untyped]
        except ImportError as error:
            raise Unavailable(tr("nvidia-ml-py is not installed"), absent=True) from error
        self._library: ModuleType = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise _unavailable(pynvml, error) from error
        except (AttributeError, OSError) as error:
            raise Unavailable(_unexpected(error)) from error
        self.driver = self._about("nvmlSystemGetDriverVersion", "")
        cuda: int = self._about("nvmlSystemGetCudaDriverVersion_v2", 0)
        self.cuda: tuple[int, int] | None = (cuda // 1000, cuda % 1000 // 10) if cuda else None
        """The newest CUDA that this driver can serve."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cards(self, buses: Sequence[str] | None = None) -> list[NvmlCard]:
        """Return every card that answers, in the driver's order; a divided one as its parts.

        Args:
            buses: addresses of the only cards to wake; None: all.

        Raises:
            Lost: the driver went away.
        """
        places: Sequence[str | int]
        if buses is None:
            places = range(self._enumerate(self._library.nvmlDeviceGetCount) or 0)
            ask = self._library.nvmlDeviceGetHandleByIndex
        else:
            places, ask = buses, self._library.nvmlDeviceGetHandleByPciBusId
        found: list[NvmlCard] = []
        for place in places:
            handle = self._enumerate(ask, place)
            with contextlib.suppress(Lost):
                if handle is not None:
                    card = NvmlCard(self._library, handle)
                    found += self._parts(card) or [card]
        return found

    def close(self) -> None:
        """Let go of the library, and so of the cards: one that may sleep can do so."""
        with contextlib.suppress(self._library.NVMLError):
            self._library.nvmlShutdown()

    def _parts(self, card: NvmlCard) -> list[NvmlCard]:
        mode = card.ask("parts", "nvmlDeviceGetMigMode", card.handle)
        card.reasons.pop("parts", None)  # most cards cannot be divided, which is nothing to tell
        if not mode or not mode[0]:
            return []
        most = self._enumerate(self._library.nvmlDeviceGetMaxMigDeviceCount, card.handle) or 0
        handles = (
            self._enumerate(self._library.nvmlDeviceGetMigDeviceHandleByIndex, card.handle, index)
            for index in range(most)
        )
        return [
            NvmlCard(self._library, handle, card.handle) for handle in handles if handle is not None
        ]

    def _enumerate(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Call a function of the library; None for a card that is hidden or broken."""
        try:
            return function(*arguments)
        except self._library.NVMLError as error:
            if error.value in {
                self._library.NVML_ERROR_UNINITIALIZED,
                self._library.NVML_ERROR_DRIVER_NOT_LOADED,
            }:
                raise Lost(_text(error)) from error
            return None

    def _about(self, function: str, default: Any) -> Any:  # noqa: ANN401
        try:
            return getattr(self._library, function)()
        except (self._library.NVMLError, AttributeError, UnicodeDecodeError):
            return default


def holders_on_card(found: Accelerator) -> tuple[Holder, ...]:
    """Return other programs on an accelerator; nothing where its driver does not tell."""
    if not found.identity:
        return ()
    with contextlib.suppress(Lost, Unavailable), Nvml() as library:
        for card in library.cards([found.bus] if found.bus else None):
            if found.identity in (card.uuid, card.bus):
                return named(card.processes())
    return ()


def _lost(library: ModuleType) -> frozenset[int]:
    return frozenset(
        {
            library.NVML_ERROR_UNINITIALIZED,
            library.NVML_ERROR_DRIVER_NOT_LOADED,
            library.NVML_ERROR_GPU_IS_LOST,
            library.NVML_ERROR_RESET_REQUIRED,
            library.NVML_ERROR_GPU_NOT_FOUND,
            library.NVML_ERROR_UNKNOWN,
        }
    )


def _reason(library: ModuleType, error: Any) -> str:  # noqa: ANN401
    match error.value:
        case library.NVML_ERROR_NOT_SUPPORTED:
            return tr("the GPU's driver does not report it")
        case library.NVML_ERROR_NO_PERMISSION:
            return tr("this user has no permission to query it")
        case library.NVML_ERROR_FUNCTION_NOT_FOUND:
            return tr("the GPU's driver is too old to report it")
        case _:
            return _unexpected(error)


def _unavailable(library: ModuleType, error: Any) -> Unavailable:  # noqa: ANN401
    match error.value:
        case library.NVML_ERROR_LIBRARY_NOT_FOUND:
            return Unavailable(tr("NVIDIA's driver is not installed"), absent=True)
        case library.NVML_ERROR_DRIVER_NOT_LOADED:
            return Unavailable(tr("NVIDIA's driver is installed, but not running"))
        case library.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            reason = tr("NVIDIA's driver was updated and works again after the next restart")
            return Unavailable(reason)
        case library.NVML_ERROR_NO_PERMISSION:
            return Unavailable(tr("this user has no permission to query NVIDIA's driver"))
        case _:
            return Unavailable(_unexpected(error))


def _unexpected(error: Exception) -> str:
    return tr("NVIDIA's driver answered: {answer}").format(answer=_text(error))


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
