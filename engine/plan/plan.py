"""A plan: which device does what, how much memory that takes there, and how fast it should be."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.segment import Share
from engine.commands import Mode
from engine.machine.memory import DeviceMemory
from engine.plan.expectation import Expectation


@dataclass(frozen=True, slots=True)
class Plan:
    """What the planner decides. Devices by name, see `engine.machine.facts`.

    Attributes:
        mode: PLAIN where nothing drafts; CPU, DOVETAIL (drafting and verifying in turns, an
            accelerator takes part) or DUO (both at the same time).
        target: where its blocks lie, first to last; together all of them.
        draft: index of the chosen draft model among the candidates; None: no draft model.
        draft_device: where the draft model lies; the CPU where only lookup drafts.
        lookup: whether the conversation itself proposes tokens.
        context: planned tokens.
        depth: tokens of a drafted chain that pay best, as far as is known before the first round.
        tokens_per_s: predicted; None where no speeds are known.
        plain_tokens_per_s: the same of the target alone, placed as it is.
        memory: the CPU first.
        reasons: sentences for the user, the most important first.
        knee: the smallest ceiling, in bytes of VRAM, from which on the speed is about the best;
            None without an accelerator.
        threads: of the CPU's share; None: by its size.
        expected: what decoding goes by until it has measured; None where nothing drafts.
    """

    mode: Mode
    target: tuple[Share, ...]
    draft: int | None
    draft_device: str | None
    lookup: bool
    context: int
    depth: int
    tokens_per_s: float | None
    plain_tokens_per_s: float | None
    memory: tuple[DeviceMemory, ...]
    reasons: tuple[str, ...]
    knee: int | None = None
    threads: int | None = None
    expected: Expectation | None = None

    @property
    def accelerator(self) -> str | None:
        """The accelerator that takes part, if any does."""
        devices = [*(share.device for share in self.target), self.draft_device]
        return next((device for device in devices if device not in (None, "cpu")), None)

    @property
    def layers_on_gpu(self) -> int:
        """Target blocks on an accelerator."""
        return sum(len(share.blocks) for share in self.target if share.device != "cpu")

    @property
    def embedding_on_gpu(self) -> bool:
        """Whether an accelerator has the target's embedding."""
        return any(share.embeds and share.device != "cpu" for share in self.target)

    @property
    def head_on_gpu(self) -> bool:
        """Whether an accelerator has the target's head."""
        return any(share.heads and share.device != "cpu" for share in self.target)

    def on(self, device: str) -> DeviceMemory:
        """The memory of a device; nothing where the plan leaves it alone."""
        found = (memory for memory in self.memory if memory.device == device)
        return next(found, DeviceMemory(device, 0))
