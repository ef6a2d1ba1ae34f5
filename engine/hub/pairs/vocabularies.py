"""Comparing the vocabularies of models on this disk: every token with its id, as loading does.

Reading one takes up to half a second and some 20 MB, so only results are kept.
"""

from __future__ import annotations

import filecmp
from dataclasses import dataclass

from engine.language import number, tr, tr_count
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, real_path
from engine.model.text.vocabulary.same_tokens import (
    TokenList,
    differing,
    folder_tokens,
    gguf_tokens,
)

_OTHER = 0.1
"""Share of all tokens: vocabularies that differ in more have little to do with each other."""
_MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class VocabularyComparison:
    """Differences between the vocabularies of a draft and its target.

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
        """Tell whether every token id means the same to both."""
        return not self.different

    @property
    def unrelated(self) -> bool:
        """Tell whether the vocabularies have little in common."""
        return self.different > _OTHER * max(self.ours, self.theirs)

    @property
    def words(self) -> str:
        """Describe the differences in a sentence."""
        if self.same:
            return tr("It has the same vocabulary.")
        if self.unrelated:
            if self.ours != self.theirs:
                said = tr("It has another vocabulary: {theirs} tokens instead of {ours}.")
                return said.format(theirs=number(self.theirs, ",d"), ours=number(self.ours, ",d"))
            return tr("It has another vocabulary.")
        tokens = tr_count("{n} token", "{n} tokens", self.different)
        said = tr("Its vocabulary differs in {tokens}, such as “{example}”.")
        return said.format(tokens=tokens, example=self.example[:40])


def compared(target: TokenList, draft: TokenList) -> VocabularyComparison:
    """Compare two vocabularies, token by token."""
    odd = differing(target.ids, draft.ids)
    control = odd & (target.added | draft.added)
    example = min(control or odd, default="")
    return VocabularyComparison(len(target.ids), len(draft.ids), len(odd), len(control), example)


def tokens_of(model: LocalModel) -> TokenList:
    """Return the tokens of a model that is here.

    Raises:
        UserFixable: they cannot be read.
    """
    if model.gguf is None:
        return folder_tokens(model.path)
    return gguf_tokens(model.gguf.metadata.values)


class Vocabularies:
    """Comparisons of models by their paths; each pair is read once, as long as its files stay.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[FilesState, FilesState], VocabularyComparison] = {}
        self._last: tuple[FilesState, TokenList] | None = None

    def compare(self, target: LocalModel, draft: LocalModel) -> VocabularyComparison:
        """Compare the vocabularies of two models.

        Raises:
            UserFixable: one of the vocabularies cannot be read.
            OSError: the files are gone.
        """
        key = FilesState.of(real_path(target.path)), FilesState.of(real_path(draft.path))
        if key not in self._known:
            found = self._compare(key[0], target, draft)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = found
        return self._known[key]

    def _compare(
        self, state: FilesState, target: LocalModel, draft: LocalModel
    ) -> VocabularyComparison:
        """Compare tokens; the target's are kept, since many drafts are compared with them."""
        if self._last is None or self._last[0] != state:
            self._last = state, tokens_of(target)
        ours = self._last[1]
        if _same_file(target, draft):
            return VocabularyComparison(len(ours.ids), len(ours.ids))
        found = compared(ours, tokens_of(draft))
        if found.same or found.unrelated:
            return found
        # Few differ: that may be a damaged file, in whose place a tokenizer takes another one.
        return compared(_as_loaded(target), _as_loaded(draft))

    def forget(self) -> None:
        """Give the last target's vocabulary back; results stay."""
        self._last = None


def _as_loaded(model: LocalModel) -> TokenList:
    tokenizer = model.tokenizer()
    return TokenList(tokenizer.vocabulary, frozenset(tokenizer.control_tokens))


def _same_file(one: LocalModel, other: LocalModel) -> bool:
    """Return whether both are folders with the same tokenizer.json, as siblings often are."""
    if one.gguf is not None or other.gguf is not None:
        return False
    files = [model.path / "tokenizer.json" for model in (one, other)]
    there = all(file.is_file() for file in files)
    return there and filecmp.cmp(files[0], files[1], shallow=False)
