"""A plan: which device does what, the memory that takes, how fast it should be.

With it comes what decoding believes of costs and acceptance until it has measured them.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.segment import Share
from engine.commands import Mode
from engine.machine.memory import DeviceMemory
from engine.machine.reached import PlacementKey

BUCKETS = (1, 2, 4, 8, 16, 32)
"""Rows of a target forward whose cost is told apart (and, on accelerators, graphs kept)."""

WIDTHS = (1, 2, 4, 10)
"""Nodes of a drafted level whose cost is told apart."""

USUAL_VERIFY = (1.0, 1.02, 1.05, 1.15, 1.5, 2.5)
USUAL_LEVELS = (1.0, 1.04, 1.1, 1.3)
"""Relative costs of BUCKETS, and of WIDTHS, where nothing is known."""
USUAL_ACCEPTANCE = 0.6

NODES, DEPTH = 15, 7
"""Size of the first tree, as Dovetail drafts them (arXiv 2412.18934)."""
NODES_OF_FEW_CORES, DEPTH_OF_FEW_CORES = 6, 4
"""Size of the first tree where a processor with few cores verifies."""
FEW_CORES = 4


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected seconds and acceptance of a target and its draft, where the plan puts them.

    Attributes:
        verify: seconds of a target forward, for all BUCKETS.
        levels: seconds of a drafted level, for the first of WIDTHS; it gets no wider than these.
        acceptance: prob that a drafted token is accepted once all before it were.
        nodes, depth: of the first tree.
    """

    verify: tuple[float, ...]
    levels: tuple[float, ...]
    acceptance: float
    nodes: int = NODES
    depth: int = DEPTH


USUAL = Expectation(USUAL_VERIFY, tuple(0.1 * level for level in USUAL_LEVELS), USUAL_ACCEPTANCE)
"""Used where nothing is known: the seconds are meaningful only relative to each other."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement and how to decode with it. Devices by name, see `engine.machine.facts`.

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
    def key(self) -> PlacementKey:
        """The placement as far as its speed goes."""
        cut = self.layers_on_gpu + self.head_on_gpu
        parallel = self.mode is Mode.DUO
        return PlacementKey(self.draft is not None, self.draft_device or "", parallel, cut)

    @property
    def embedding_on_gpu(self) -> bool:
        """Tell whether an accelerator has the target's embedding."""
        return any(share.embeds and share.device != "cpu" for share in self.target)

    @property
    def head_on_gpu(self) -> bool:
        """Tell whether an accelerator has the target's head."""
        return any(share.heads and share.device != "cpu" for share in self.target)

    def on(self, device: str) -> DeviceMemory:
        """Return the memory planned on a device; nothing where the plan leaves it alone."""
        found = (memory for memory in self.memory if memory.device == device)
        return next(found, DeviceMemory(device, 0))
