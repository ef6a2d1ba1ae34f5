"""A card that has no numbers: it knows what would be done, with how many bytes, and who waits.

Tensors on it are torch's fake ones, so that mixed devices and questions that the host would have to
wait for are errors here as on a real card. The host's tensors are real; what comes back from the
card is zeros, and in flight until the host has waited for a mark that was set behind the copy; to
look at it before that, or to write what the card has not read yet, is an error too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.backend.accelerator.driver import Driver

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Launch:
    """A piece of work on the card: what it is called, and the bytes that it reads and writes."""

    name: str
    nbytes: int


@dataclass
class Seen:
    """What was asked of a card."""

    launches: list[Launch] = field(default_factory=list)
    waits: int = 0
    spins: int = 0
    """Waits that keep a core of the host busy."""
    blocking: list[str] = field(default_factory=list)
    """Copies that the host has waited for on the spot."""

    @property
    def nbytes(self) -> int:
        return sum(launch.nbytes for launch in self.launches)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_view(func: Any) -> bool:
    aliases = [ret.alias_info for ret in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


class _Event:
    def __init__(self, card: FakeCard, *, blocking: bool = False) -> None:
        self._card, self._behind, self._sleeps = card, 0, blocking

    def record(self, _stream: object = None) -> None:
        self._behind = self._card.queued

    def synchronize(self) -> None:
        self._card.arrive(self._behind, spins=not self._sleeps)


class FakeCard(TorchDispatchMode):
    """The mode in which its tensors live."""

    def __init__(self, *, marks: bool) -> None:
        super().__init__()
        self.seen = Seen()
        self.locked: dict[int, torch.Tensor] | None = {} if marks else None
        """The host's page-locked memory; None: all of it is as good."""
        self.queued = 0
        self._done = 0
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._coming: dict[int, int] = {}  # the host's memory -> the copy that fills it
        self._kept: list[torch.Tensor] = []
        self._going: dict[int, int] = {}  # the same of copies that read it

    def event(self, **options: bool) -> _Event:
        return _Event(self, **options)

    def arrive(self, upto: int, *, spins: bool) -> None:
        if upto > self._done:
            self.seen.waits += 1
            self.seen.spins += spins
        self._done = max(self._done, upto)

    def synchronize(self, *_device: object) -> None:
        self.arrive(self.queued, spins=True)

    def check(self, tensor: torch.Tensor, *, written: bool) -> None:
        """Raise where the host may not touch its own memory yet."""
        if isinstance(tensor, FakeTensor):
            return
        place = _storage(tensor)
        assert self._coming.get(place, 0) <= self._done, "read before it has arrived"
        assert not written or self._going.get(place, 0) <= self._done, "written while it is read"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        given = _tensors((args, kwargs))
        on_card = [tensor for tensor in given if isinstance(tensor, FakeTensor)]
        made_there = str(kwargs.get("device", "")).startswith("cuda")
        if not on_card and not made_there:
            if not _is_view(func):
                for place, argument in enumerate(args):
                    if isinstance(argument, torch.Tensor):
                        self.check(argument, written=name.endswith("_") and place == 0)
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if func.namespace != "prim":
            with self:  # what inference mode leaves together
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if name == "copy_" and len(on_card) < 2:
            return self._copied(*args[:2], late=kwargs.get("non_blocking", len(args) > 2))
        if name == "_to_copy" and not on_card:
            form = {"dtype": kwargs.get("dtype") or args[0].dtype, "device": kwargs["device"]}
            room = torch.ops.aten.empty(args[0].shape, **form)
            return self._copied(room, args[0], late=kwargs.get("non_blocking", False))
        assert kwargs.get("device") != torch.device("cpu"), "the host asks for numbers"
        result = func(*args, **kwargs)
        self._note(func, name, given, result)
        return result

    def _copied(self, target: torch.Tensor, source: torch.Tensor, *, late: bool) -> torch.Tensor:
        self.queued += 1
        host, flying = (
            (source, self._going) if isinstance(target, FakeTensor) else (target, self._coming)
        )
        assert target.shape == source.shape or isinstance(target, FakeTensor)
        if not isinstance(target, FakeTensor):
            with unset_fake_temporarily():
                target.zero_()
        if late and (self.locked is None or _storage(host) in self.locked):
            flying[_storage(host)] = self.queued
            self._kept.append(host)  # so that no other memory gets its address
        else:
            self.seen.blocking.append("copy_")
            self._done = self.queued
        self.seen.launches.append(Launch("copy", target.nbytes))
        return target

    def _note(self, func: Any, name: str, given: list[torch.Tensor], result: Any) -> None:
        found = _tensors(result)
        if name.startswith(("empty", "new_empty")) or _is_view(func) or not found:
            return
        known = set(map(_storage, given))
        fresh = [tensor for tensor in found if _storage(tensor) not in known]
        self.queued += 1
        nbytes = sum(map(_touched, (*given, *(fresh or found))))
        self.seen.launches.append(Launch(name, nbytes))

    @contextmanager
    def count(self) -> Iterator[Seen]:
        """What is asked of the card within."""
        before, self.seen = self.seen, Seen()
        try:
            yield self.seen
        finally:
            self.seen = before


def _touched(tensor: torch.Tensor) -> int:
    """Bytes of different places: what is expanded is read once."""
    sizes = [size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step]
    return torch.Size(sizes).numel() * tensor.element_size()


def _part(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """`tensor[index]`: Python's own way asks for a device that torch's CPU build has not got."""
    aten, dim = torch.ops.aten, 0
    places = index if isinstance(index, tuple) else (index,)
    picked: list[torch.Tensor | None] = []
    for number, place in enumerate(places):
        if place is None:
            tensor, dim = aten.unsqueeze(tensor, dim), dim + 1
        elif place is Ellipsis:
            dim = tensor.dim() - sum(other is not None for other in places[number + 1 :])
        elif isinstance(place, torch.Tensor):
            picked += [None] * (dim - len(picked)) + [place]
            dim += 1
        elif isinstance(place, int):
            tensor = aten.select(tensor, dim, place)
        else:
            if place != slice(None):
                tensor = aten.slice(tensor, dim, place.start, place.stop, place.step or 1)
            dim += 1
    return aten.index(tensor, picked) if picked else tensor


class _HostLooks(TorchFunctionMode):
    """Numpy's views of the host's tensors, and addresses on the card."""

    def __init__(self, card: FakeCard) -> None:
        super().__init__()
        self._card = card

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if "pin_memory" in kwargs:
            locked, made = kwargs["pin_memory"], func(*args, **{**kwargs, "pin_memory": False})
            if locked and self._card.locked is not None:
                self._card.locked[_storage(made)] = made
            return made
        if name == "data_ptr" and isinstance(args[0], FakeTensor):
            return 0
        if name == "copy_":
            return torch.ops.aten.copy_(*args, **kwargs)
        if name == "contiguous" and isinstance(args[0], FakeTensor):
            return torch.ops.aten.clone(args[0], memory_format=torch.contiguous_format)
        if name == "__invert__":
            return torch.bitwise_not(args[0])
        if name == "__getitem__" and isinstance(args[0], FakeTensor):
            return _part(*args)
        if name == "__setitem__" and isinstance(args[0], FakeTensor):
            part, value = _part(*args[:2]), args[2]
            put = torch.ops.aten.copy_ if isinstance(value, torch.Tensor) else torch.Tensor.fill_
            return put(part, value)
        if name == "numpy":
            assert not isinstance(args[0], FakeTensor), "numbers on the card"
            self._card.check(args[0], written=True)
        return func(*args, **kwargs)


class CountedKernel:
    """In the place of a kernel: its launch, with the bytes of the weights that it is given."""

    def __init__(self, card: FakeCard, name: str) -> None:
        self._card, self._name = card, name

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert len(grid) <= 3
        assert all(size > 0 for size in grid)

        def start(*args: Any, **_options: Any) -> None:
            assert all(isinstance(tensor, FakeTensor) for tensor in _tensors(args))
            self._card.queued += 1
            planes = args[:4] if self._name in ("sum_stretches", "widen") else ()
            weights = {_storage(plane): plane.nbytes for plane in planes}
            self._card.seen.launches.append(Launch(self._name, sum(weights.values())))

        return start


@contextmanager
def fake_card(monkeypatch: pytest.MonkeyPatch, *, marks: bool = True) -> Iterator[FakeCard]:
    """Within, torch has a card "cuda:0" with 8 GiB; without marks it is driven like Apple's."""
    card = FakeCard(marks=marks)
    facts = SimpleNamespace(total_memory=8 * GIB, uuid="12-34", major=8, minor=6)
    for name, found in {
        "synchronize": card.synchronize,
        "Event": card.event,
        "current_stream": lambda _device=None: None,
        "device": lambda _device: nullcontext(),
        "get_device_name": lambda _device: "A card",
        "get_device_properties": lambda _device: facts,
        "mem_get_info": lambda _device: (7 * GIB, 8 * GIB),
        "memory_allocated": lambda _device: 0,
        "memory_reserved": lambda _device: 0,
        "set_per_process_memory_fraction": lambda *_: None,
        "empty_cache": lambda: None,
        "current_allocated_memory": lambda: 0,
        "driver_allocated_memory": lambda: 0,
        "recommended_max_memory": lambda: 8 * GIB,
    }.items():
        for module in (torch.cuda, torch.mps):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, found)
    if not marks:
        made = Driver.__init__

        def like_apple(driver: Driver, name: str) -> None:
            made(driver, name)
            driver._module, driver._apple = None, True

        monkeypatch.setattr(Driver, "__init__", like_apple)
    with ExitStack() as within:
        within.enter_context(torch.inference_mode())
        within.enter_context(_HostLooks(card))
        within.enter_context(card.fake)  # below: what is the card's gets there
        within.enter_context(card)
        yield card
