"""Lays a long text out in slices, so that the window stays awake meanwhile."""

from __future__ import annotations

import time

from app.chat.text_view import TextView

_AT_ONCE = 1_200
"""Characters that are laid out in a few milliseconds, whatever they are."""
_FIRST, _LARGEST = 800, 12_000
_SLICE_S = 0.002
_PLAIN_PIECE = 4_000


class TextFeed:
    """Shows `text` in `view`, as markdown or as it was typed."""

    def __init__(self, view: TextView, text: str, *, markdown: bool) -> None:
        self._view = view
        self._text = text
        self._markdown = markdown
        self._done = 0
        self._step = _FIRST
        self.complete = False

    def more(self, until: float) -> bool:
        """Lay out more, until about the time `until`; whether all of it is there."""
        while not self.complete:
            self._slice()
            if time.perf_counter() >= until:
                break
        return self.complete

    def _slice(self) -> None:
        if not self._markdown:
            self._view.show_plain(self._text)
            self.complete = True
        elif self._done == 0 and len(self._text) <= _AT_ONCE:
            self._view.show_markdown(self._text)
            self.complete = True
        elif self._done >= len(self._text):
            self._view.finish()
            self.complete = True
        else:
            piece = self._text[self._done : self._done + self._step]
            started = time.perf_counter()
            if self._done == 0:
                self._view.reopen(piece)
            else:
                self._view.append(piece)
            self._done += len(piece)
            spent = max(time.perf_counter() - started, 1e-4)
            self._step = min(max(int(len(piece) * _SLICE_S / spent), 200), _LARGEST)
