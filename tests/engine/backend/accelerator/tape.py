"""A recorder for torch's "cpu" device: it notes what is done with which memory, and does it again.

As a CUDA graph does: a replay runs no Python of ours, so what the host chose while it was recorded
stays chosen, and every number comes from the memory that it came from then. Nothing is done while
it is recorded: what was there before is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ASKING = {
    "_local_scalar_dense",
    "item",
    "nonzero",
    "equal",
    "is_nonzero",
    "unique",
    "masked_select",
}
"""Operations whose result, or its shape, the host would have to wait for."""


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory that it lies in."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


class _Noting(TorchDispatchMode):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        name = func.overloadpacket.__name__
        assert name not in ASKING, f"{name} asks the device for a number"
        for tensor in _tensors((args, kwargs)):
            self._tape.before.setdefault(_memory(tensor), (tensor, _bytes(tensor).clone()))
        result = func(*args, **(kwargs or {}))
        given = set(map(_memory, _tensors((args, kwargs))))
        fresh = [tensor for tensor in _tensors(result) if _memory(tensor) not in given]
        writes = any(
            ret.alias_info is not None and ret.alias_info.is_write for ret in func._schema.returns
        )
        if not fresh and not writes and func._schema.returns:
            return result  # a view of memory that is there
        self._tape.done.append((func, args, kwargs or {}, fresh))
        return result


@dataclass
class Tape:
    """See the module; one per recording."""

    done: list[tuple[Any, Any, Any, list[torch.Tensor]]] = field(default_factory=list)

    before: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def put_back(self) -> None:
        for tensor, was in self.before.values():
            _bytes(tensor).copy_(was)
        self.before.clear()

    def replay(self) -> None:
        with torch.inference_mode():
            for func, args, kwargs, fresh in self.done:
                found = _tensors(func(*args, **kwargs))
                for place, value in zip(fresh, found, strict=bool(fresh)):
                    place.copy_(value)


@dataclass
class TapeRecorder:
    """See `engine.backend.accelerator.graphs.GraphRecorder`; counts what it is asked for."""

    tapes: list[Tape] = field(default_factory=list)
    replays: int = 0

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        tape = Tape()
        with _Noting(tape):
            work()
        tape.put_back()
        self.tapes.append(tape)

        def replay() -> None:
            self.replays += 1
            tape.replay()

        return replay
