"""A thought that may take so many tokens: then it is ended for the model, which goes on to answer.

Where it ends is a matter of the answer's tokens alone, so that drafting changes no text.
"""

from __future__ import annotations

from collections import deque

from engine.model.text.thinking import ThoughtSplitter
from engine.model.text.tokenizer import Tokenizer
from engine.speculative.decoding import Decoding


class ThoughtBudget:
    """Holds the rounds of an answer where its thought has taken all that it may.

    Args:
        decoding: the answer's, before its first round.
        most: tokens of the answer, written before or now, that may be thought; 1 or more.
        written: tokens of the answer that were written before.
        tokenizer: of the model.
    """

    def __init__(self, decoding: Decoding, most: int, written: int, tokenizer: Tokenizer) -> None:
        self._decoding, self._tokenizer = decoding, tokenizer
        self._thoughts = ThoughtSplitter()
        decoding.hold_at(max(most - written, 0))

    def feed(self, text: str) -> None:
        """Take in more of the answer; one that has ended its thought is held no longer."""
        thought = self._thoughts.inside
        deque(self._thoughts.feed(text), maxlen=0)
        if thought and not self._thoughts.inside:
            self._decoding.hold_at(None)

    def end(self) -> tuple[int, ...] | None:
        """End the hold, once the rounds have ended.

        Returns:
            The tokens that end the thought, now a part of the answer; none where nothing is being
            thought. None: the answer was not held, or has no room for these tokens.
        """
        if not self._decoding.at_hold:
            return None
        ending: list[int] = []
        if self._thoughts.inside:
            ending = self._tokenizer.encode_rendered(f"\n{self._thoughts.closing_tag}\n\n")
            if not self._decoding.give(ending):
                return None
        self._decoding.hold_at(None)
        return tuple(ending)
