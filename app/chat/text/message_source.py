"""The text of one message on its way to the screen: thoughts taken out, the rest in blocks."""

from __future__ import annotations

from app.chat.text.block_stream import BlockStream
from app.chat.text.markdown import BlockKind, MarkdownBlock, clean
from app.chat.text.source_map import Offsets, utf16_length
from app.chat.text.typed import TypedText
from engine.model.text.thinking import AnswerPart, Piece, ThoughtSplitter


class Thought:
    """A thought within the text."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Place in the source where the part begins, in UTF-16 units."""
        self.over = False
        self._new: list[str] = []

    def add(self, text: str) -> None:
        """Take in more of the thought."""
        self._new.append(text)

    def take(self) -> str:
        """Return the thought that has come since the last call."""
        text = "".join(self._new)
        self._new.clear()
        return text


class MessageSource:
    """Turns text as it comes into blocks and thoughts, and knows where each stands in it."""

    def __init__(self, start: int = 0, *, markdown: bool = True, thoughts: bool = True) -> None:
        self._begin = start
        self._markdown = markdown
        self._divides = thoughts and markdown
        self._typed = TypedText()
        self._raw: list[str] = []
        self.restarts = 0
        """Number of times that all began anew, as it turned out to be thought."""
        self._reset(inside=False)

    def _reset(self, *, inside: bool) -> None:
        self._stream = BlockStream()
        self._splitter = ThoughtSplitter(inside=inside)
        self._at = self._begin
        self.offsets = Offsets(self._begin)
        self.thoughts: list[Thought] = []
        if inside:
            self._open_thought()

    @property
    def committed(self) -> list[MarkdownBlock]:
        """The blocks that are final."""
        return self._stream.committed

    @property
    def tail(self) -> tuple[MarkdownBlock, ...]:
        """The blocks that may still change."""
        return self._stream.tail

    @property
    def text(self) -> str:
        """Return all that came."""
        return "".join(self._raw)

    def feed(self, text: str) -> None:
        """Take in more text."""
        self._raw.append(text)
        if not self._markdown:
            self.offsets.feed(text)
            self.committed.extend(self._typed.feed(clean(text)))
        elif self._divides:
            self._take(list(self._splitter.feed(text)))
        else:
            self._say(text)

    def finish(self) -> None:
        """Take in the end of the text."""
        if self._divides:
            self._take(list(self._splitter.finish()))
        if self._markdown:
            self._stream.finish()
        else:
            self.committed.extend(self._typed.finish())

    def _take(self, pieces: list[Piece]) -> None:
        if any(piece.part is AnswerPart.CLOSING_ALL for piece in pieces):
            self.restarts += 1
            self._reset(inside=True)
            pieces = list(self._splitter.feed(self.text))
        for piece in pieces:
            if piece.part is AnswerPart.SAID:
                self._say(piece.text)
                continue
            units = utf16_length(piece.text)
            self.offsets.skip(units)
            self._at += units
            if piece.part is AnswerPart.OPENING:
                self._open_thought()
            elif piece.part is AnswerPart.CLOSING:
                self.thoughts[-1].over = True
            else:
                self.thoughts[-1].add(piece.text)

    def _open_thought(self) -> None:
        self._stream.divide(MarkdownBlock(BlockKind.THOUGHT, "", self.offsets.length))
        self.thoughts.append(Thought(self._at))

    def _say(self, text: str) -> None:
        self._at += utf16_length(text)
        self.offsets.feed(text)
        self._stream.feed(text)
