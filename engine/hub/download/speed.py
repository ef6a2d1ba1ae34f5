"""How fast bytes come, over the last seconds, and how long the rest would take."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 10.0
_SHORTEST_S = 1.0


class DownloadSpeed:
    """Told now and then how much is there; times are seconds of one clock."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        """So many bytes are there now. Fewer than before: one begins anew."""
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()

    def bytes_per_second(self, now: float) -> float | None:
        """None while too little is known, or nothing has come for a while."""
        if len(self._seen) < 2:
            return None
        begin, before = self._seen[0]
        last, done = self._seen[-1]
        if now - begin < _SHORTEST_S or now - last > _WINDOW_S or done == before:
            return None
        return (done - before) / (now - begin)

    def seconds_left(self, now: float, missing: int) -> float | None:
        """None where the speed is not known."""
        speed = self.bytes_per_second(now)
        return missing / speed if speed else None
