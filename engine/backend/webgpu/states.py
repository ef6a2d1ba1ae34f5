"""Places of the rows behind a sequence's states on a WebGPU device, and the walk over them.

A state is that of the first committed tokens. The rows of a round are kept behind it, each at a
place of its own, and the next pass that is told of more committed tokens first takes those in: what
is rejected is forgotten here, and nothing happens on the device. See engine/native/delta.c for what
states are; they are the same in all layers of a segment, and so one list of places serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.step import Ints, Step
from engine.backend.webgpu.sizes import (
    STATE_ROWS,
    WALK_ANEW,
    WALK_ENTRIES,
    WALK_PLACES,
    WALK_STEPS,
)

_NOWHERE = -1
"""Place of a row before the text's beginning."""
_OF_NO_SEQUENCE = 2**31 - 1


class StateRows:
    """Places of the rows behind a sequence's states.

    Args:
        window: rows that the convolution sees before the next.

    Attributes:
        past: tokens that the states have taken in.
    """

    def __init__(self, window: int) -> None:
        self.past = 0
        self.window = window
        self._places = [_NOWHERE] * window  # by slot, from `past - window` on

    def behind(self, step: Step, rows: range) -> tuple[Ints, int]:
        """Keep rows of a forward, and return the walk over them and its nodes; see walk.wgsl.

        Earlier parts of a forward that is too long to be kept go into the states at once.

        Raises:
            ValueError: the states are not those of the committed tokens, or there are more rows
                than are kept.
        """
        more = rows.stop < len(step.tokens)
        parts = bool(rows.start) or more
        if step.first + len(rows) > STATE_ROWS or (parts and (step.first or step.tree)):
            raise ValueError("more rows than are kept behind a state")
        parents = range(-1, len(rows) - 1) if parts else step.parents
        return self._walk(step.committed + rows.start, parents, len(rows), at_once=more)

    def taken_in(self, committed: int) -> tuple[Ints, int]:
        """Return the walk that takes in all committed tokens, as `behind` does.

        Raises:
            ValueError: as `behind`.
        """
        return self._walk(committed, (), 0, at_once=False)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Let slots have the rows of others; only rows that were kept here can be moved."""
        first, end = self.past - self.window, self.past - self.window + len(self._places)
        for slot in (*sources, *range(target, target + len(sources))):
            if not self.past <= slot < end:
                self.past = _OF_NO_SEQUENCE
                return
        moved = [self._places[slot - first] for slot in sources]
        self._places[target - first : target - first + len(moved)] = moved

    def seen(self) -> list[int]:
        """Return the places of the rows that the convolution sees before the next."""
        return self._places[: self.window]

    def go_to(self, past: int) -> None:
        """Be at a snapshot, whose rows lie in the first places; with 0: at the beginning."""
        self.past = past
        missing = max(self.window - past, 0)
        self._places = [_NOWHERE] * missing + list(range(missing, self.window))

    def copy(self, other: StateRows) -> None:
        """Be where another sequence is."""
        self.past, self._places = other.past, list(other._places)

    def _walk(
        self, committed: int, parents: Sequence[int], count: int, *, at_once: bool
    ) -> tuple[Ints, int]:
        """Return the walk over `count` rows, the last ones of those that have `parents`.

        `at_once`: whether the states take the rows in.
        """
        staged, taken, window = len(parents) - count, committed - self.past, self.window
        old = self._places[: window + max(taken, 0) + staged]
        if not 0 <= taken <= STATE_ROWS or len(old) < window + taken + staged:
            raise ValueError("the states are not those of the committed tokens")
        kept = old[taken:]
        places = sorted(set(range(window + STATE_ROWS)).difference(kept))[:count]
        blank = self.past == 0
        steps = [*range(taken), *_steps(taken, parents, staged)]
        end = WALK_STEPS + len(steps)
        words = np.zeros(end, dtype=np.int32)
        words[:4] = taken + staged, len(steps), len(steps) if at_once else taken, blank
        words[WALK_PLACES : WALK_PLACES + count] = places
        first = window + taken  # entry of the first node that is not taken in
        above = [*range(-1, first - 1), *(first + parent for parent in parents)]
        entries = words[WALK_ENTRIES : WALK_ENTRIES + 2 * len(above)].reshape(-1, 2)
        entries[:, 0] = [*old, *(-2 - row for row in range(count))]
        entries[:, 1] = above
        words[WALK_STEPS:] = steps
        self.past, self._places = committed, [*kept, *places]
        if at_once:
            self.past += count
            self._places = self._places[count:]
        return words, len(above) - window


def _steps(taken: int, parents: Sequence[int], staged: int) -> list[int]:
    """Return the nodes on the paths to all rows behind the staged ones, path by path.

    A step that begins another path than the one before has a mark. Nodes count from the first one
    that is taken in.
    """
    needed = [False] * len(parents)
    inner = [False] * len(parents)
    for row in range(staged, len(parents)):
        node = row
        while node >= 0 and not needed[node]:
            needed[node] = True
            node = parents[node]
    for node, parent in enumerate(parents):
        if needed[node] and parent >= 0:
            inner[parent] = True
    steps: list[int] = []
    for leaf in range(len(parents)):
        if needed[leaf] and not inner[leaf]:
            path, node = list[int](), leaf
            while node >= 0:
                path.append(taken + node)
                node = parents[node]
            path.reverse()
            path[0] += WALK_ANEW if steps else 0
            steps += path
    return steps
