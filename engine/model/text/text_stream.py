"""Answer text as it is written: whole characters, no half stop strings, one span per token."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import Origin, TokenSpan
from engine.model.text.thinking import ThoughtSplitter
from engine.model.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Released:
    """Decided text and the tokens it came from; both empty while everything is held back."""

    text: str = ""
    spans: tuple[TokenSpan, ...] = ()

    def __add__(self, other: Released) -> Released:
        return Released(self.text + other.text, self.spans + other.spans)


NOTHING = Released()


@dataclass(slots=True)
class _Held:
    """A token whose text is not decided yet. `whole`: nothing half follows its text."""

    token_id: int
    origin: Origin
    text: str
    whole: bool
    probability: float | None = None


class TextStream:
    """Turns committed tokens into text, one token at a time; work per token is bounded.

    Held back are incomplete UTF-8 characters, incomplete headers of messages in channels, and
    tokens in which a stop string may have begun.
    The answer ends before the first stop string to be complete (the leftmost, if one token
    completes several). In a thought a stop string is text like any other.

    Cut off anywhere and resumed, a stream gives the text of one that ran through: what was
    undecided at the cut was not shown. `resume` takes in what was begun before.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, thoughts: bool = True
    ) -> None:
        """Begin an answer; without `thoughts`, as for a raw prompt, their tags are text."""
        self._tokenizer = tokenizer
        self._stop = tuple(text for text in stop if text)
        self._thoughts = ThoughtSplitter() if self._stop and thoughts else None
        self._shown = tokenizer.shown_text()
        self._held: list[_Held] = []
        self._position = 0
        self._finished = False
        self._whole = True
        self._last = (0, Origin.TARGET)
        self.pushed = 0
        """Tokens pushed so far; once `stopped`, the last of them completed the stop string."""
        self.kept = 0
        """Leading tokens whose text is shown in full; less than `pushed` after a stop string."""
        self.stopped = False
        """Whether a stop string came up; later tokens must not be pushed."""
        self.stopped_by = ""
        """The stop string that came up."""
        self.cut_token = False
        """Whether the text ends inside a token, so that no list of ids says the same."""

    def push(self, token_id: int, origin: Origin, probability: float | None = None) -> Released:
        """Take the next committed token and release the text that is now decided.

        Args:
            token_id: the token.
            origin: whether it was drafted.
            probability: see `TokenSpan`.

        Raises:
            ValueError: the answer has ended.
        """
        if self.stopped or self._finished:
            raise ValueError("the answer has ended")
        self.pushed += 1
        self._last = (token_id, origin)
        text = self._shown.push(token_id)
        self._held.append(_Held(token_id, origin, text, not self._shown.half, probability))
        return self._decide() if text else NOTHING

    def push_all(
        self, token_ids: Sequence[int], drafted: int, probabilities: Sequence[float] = ()
    ) -> Released:
        """Take several committed tokens, up to a stop string, see `push`.

        Args:
            token_ids: the tokens.
            drafted: how many of them, the first ones, were drafted.
            probabilities: one per token, or none at all.
        """
        told: Sequence[float | None] = probabilities or [None] * len(token_ids)
        pieces = [self._tokenizer.token_bytes(token) for token in token_ids]
        origins = [Origin.DRAFTED] * drafted + [Origin.TARGET] * (len(pieces) - drafted)
        decided = self._shown.plain and self._shown.marks.isdisjoint(token_ids)
        undecided = self._held or self._stop or not decided
        if not undecided and all(piece and piece.isascii() for piece in pieces):
            return self._show(token_ids, pieces, origins, told)
        released = NOTHING
        for token, origin, probability in zip(token_ids, origins, told, strict=True):
            if not self.stopped:
                released += self.push(token, origin, probability)
        return released

    def _show(
        self,
        tokens: Sequence[int],
        pieces: Sequence[bytes],
        origins: Sequence[Origin],
        told: Sequence[float | None],
    ) -> Released:
        """Plain text with nothing undecided before it and nothing to look for: nearly always."""
        if self.stopped or self._finished:
            raise ValueError("the answer has ended")
        self.pushed += len(tokens)
        self.kept += len(tokens)
        spans: list[TokenSpan] = []
        for token, piece, origin, probability in zip(tokens, pieces, origins, told, strict=True):
            start, self._position = self._position, self._position + len(piece)
            spans.append(TokenSpan(token, start, self._position, origin, probability))
            self._last = (token, origin)
        self._whole = True
        return Released(b"".join(pieces).decode("ascii"), tuple(spans))

    @property
    def position(self) -> int:
        """UTF-16 units of the answer released so far."""
        return self._position

    @property
    def undecided(self) -> bool:
        """Tell whether the last token's text, or a part of it, is held back."""
        return bool(self._held) or self._shown.half

    def resume(self, token_ids: Sequence[int], shown: str) -> None:
        """Take in the tokens of a begun answer before the first `push`; `shown` is their text.

        Spans go on behind that text. Stop strings are looked for in new text only: what might have
        become one was not shown. Half a character at the end is completed by what comes.
        """
        begun = self._shown.push_all(token_ids)
        if begun == shown:
            self._whole = not self._shown.half
            self._last = (token_ids[-1] if token_ids else 0, Origin.TARGET)
        else:
            self._shown.forget_half()
        self._position = _utf16_length(shown)
        self._follow(shown)
        if shown:
            self.keep_spaces()

    def keep_spaces(self) -> None:
        """Drop no leading blank: the answer goes on with a text."""
        self._shown.keep_spaces()

    def open(self, token_ids: Sequence[int]) -> Released:
        """Show what the template has begun the answer with; no stop string is looked for in it."""
        self.pushed += len(token_ids)
        for token in token_ids:
            text = self._shown.push(token)
            self._held.append(_Held(token, Origin.TARGET, text, whole=True))
        return self._release(len(self._held))

    def suspend(self) -> Released:
        """End an answer that may be continued; then nothing more.

        What is undecided stays unsaid: half a character, whose tokens are kept for the other half
        (unless they are all there is), and the beginning of a stop string, whose tokens are not,
        and will be written again.
        """
        if self.stopped or self._finished:
            return NOTHING
        self._finished = True
        silent = next((i for i, held in enumerate(self._held) if held.text), len(self._held))
        return self._release(silent if self._position else 0)

    def finish(self) -> Released:
        """End an answer for good: release what is still held back. Then nothing more.

        Half a character becomes U+FFFD.
        """
        if self.stopped or self._finished:
            return NOTHING
        self._finished = True
        rest = self._shown.finish()
        if rest and self._held:
            self._held[-1].text += rest
            self._held[-1].whole = True
        elif rest:  # the token has been shown up to its half character
            self._held.append(_Held(*self._last, rest, whole=True))
            self.kept -= 1
        # After a stop string nothing is held any more, and the second part is empty.
        return self._decide() + self._release(len(self._held))

    def _decide(self) -> Released:
        """Release every held token before the first one that may belong to a stop string."""
        text = "".join(held.text for held in self._held)
        said = self._thoughts.said_from(text) if self._thoughts else 0
        starts = [(start, stop) for stop in self._stop if (start := text.find(stop, said)) >= 0]
        if starts:
            end, self.stopped_by = min(starts)
            return self._cut(end)
        safe = len(text) - self._possible_stop(text[said:])
        count, length = 0, 0
        for index, held in enumerate(self._held):
            length += len(held.text)
            if length > safe:
                break
            if held.text:  # tokens without text wait for the one that completes the character
                count = index + 1
        return self._release(count)

    def _possible_stop(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max(map(len, self._stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            ending = text[-length:]
            if any(stop.startswith(ending) for stop in self._stop):
                return length
        return 0

    def _cut(self, end: int) -> Released:
        """End the answer at character `end` of the held text."""
        self.stopped = True
        shown = length = 0
        for index, held in enumerate(self._held):
            if length + len(held.text) > end:
                break
            length += len(held.text)
            if held.text:
                shown = index + 1
        released = self._release(shown)
        self.cut_token = length < end or not self._whole
        partly: list[_Held] = []
        for held in self._held:
            if length >= end:
                break
            held.text = held.text[: end - length]
            length += len(held.text)
            partly.append(held)
        self._held = []
        return released + self._spans(partly)

    def _release(self, count: int) -> Released:
        ready, self._held = self._held[:count], self._held[count:]
        self.kept += len(ready)
        if ready:
            self._whole = ready[-1].whole
        return self._spans(ready)

    def _spans(self, tokens: Sequence[_Held]) -> Released:
        spans: list[TokenSpan] = []
        for held in tokens:
            start = self._position
            self._position += _utf16_length(held.text)
            end = self._position
            spans.append(TokenSpan(held.token_id, start, end, held.origin, held.probability))
        text = "".join(held.text for held in tokens)
        self._follow(text)
        return Released(text, tuple(spans))

    def _follow(self, text: str) -> None:
        """Take in what is shown, to know whether the answer is still thinking."""
        if self._thoughts is not None:
            deque(self._thoughts.feed(text), maxlen=0)


def _utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
