"""`duotail --screenshot`, with the scenes dealt out among the looks: each is drawn in one of them.

Every walk begins with the first scene, in which the model is loaded. As the others come in another
order than usual, each has to manage with what that one leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from app.launch import main
from app.showcase import scenes

Scene = Callable[..., None]
LOOKS = 4


class Dealt:
    """The scenes of the next walk, each time they are asked for."""

    def __init__(self, every: tuple[Scene, ...]) -> None:
        self._first, *self._others = every
        self._walks = 0

    def __iter__(self) -> Iterator[Scene]:
        yield self._first
        yield from self._others[self._walks :: LOOKS]
        self._walks += 1


if __name__ == "__main__":
    scenes.ALL = Dealt(scenes.ALL)  # type: ignore[assignment]
    sys.exit(main(sys.argv[1:]))
