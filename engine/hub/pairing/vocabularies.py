"""Comparing the vocabularies of models on this disk: every token with its id, as loading does.

Reading one takes up to a second and some 20 MB, so only results are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.draft.vocabulary import differing
from engine.hub.local import LocalModel
from engine.language import number, tr, tr_count
from engine.loading.reading import FilesState
from engine.model.text.tokenizer import Tokenizer

_OTHER = 0.1
"""Share of all tokens: vocabularies that differ in more have little to do with each other."""
_MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a draft's vocabulary differs from its target's.

    Attributes:
        ours, theirs: tokens of the target and of the draft.
        different: tokens that one of them lacks or numbers in another way.
        control: those of them that control a conversation, as `<think>` does.
        example: one of them, a control token if there is any; "" where none differs.
    """

    ours: int
    theirs: int
    different: int = 0
    control: int = 0
    example: str = ""

    @property
    def same(self) -> bool:
        """Whether a token id means the same to both."""
        return not self.different

    @property
    def words(self) -> str:
        """What differs, as a sentence."""
        if self.same:
            return tr("It has the same vocabulary.")
        if self.different > _OTHER * max(self.ours, self.theirs):
            if self.ours != self.theirs:
                said = tr("It has another vocabulary: {theirs} tokens instead of {ours}.")
                return said.format(theirs=number(self.theirs, ",d"), ours=number(self.ours, ",d"))
            return tr("It has another vocabulary.")
        tokens = tr_count("{n} token", "{n} tokens", self.different)
        said = tr("Its vocabulary differs in {tokens}, such as “{example}”.")
        return said.format(tokens=tokens, example=self.example[:40])


def compared(target: Tokenizer, draft: Tokenizer) -> Comparison:
    """Two vocabularies, token by token."""
    ours, theirs = target.vocabulary, draft.vocabulary
    odd = differing(ours, theirs)
    control = odd & (target.control_tokens.keys() | draft.control_tokens.keys())
    example = min(control or odd, default="")
    return Comparison(len(ours), len(theirs), len(odd), len(control), example)


class Vocabularies:
    """Comparisons of models by their paths; each pair is read once, as long as its files stay.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[FilesState, FilesState], Comparison] = {}
        self._last: tuple[FilesState, Tokenizer] | None = None

    def compare(self, target: LocalModel, draft: LocalModel) -> Comparison:
        """How they differ.

        Raises:
            UserFixable: one of the vocabularies cannot be read.
            OSError: the files are gone.
        """
        key = FilesState.of(_files(target.path)), FilesState.of(_files(draft.path))
        if key not in self._known:
            ours = self._target(key[0], target.tokenizer)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = compared(ours, draft.tokenizer())
        return self._known[key]

    def forget(self) -> None:
        """Give the last target's vocabulary back; results stay."""
        self._last = None

    def _target(self, state: FilesState, read: Callable[[], Tokenizer]) -> Tokenizer:
        """The same one is asked for with many drafts."""
        if self._last is None or self._last[0] != state:
            self._last = state, read()
        return self._last[1]


def _files(path: Path) -> Path:
    """What a model's files are known by; links lead to them."""
    return path.resolve()
