"""Stand-alone draft models with output rows for some tokens only: they draft, and cannot chat."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import NotPossible, UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families import read_config
from engine.model.heads.description import HeadDescription
from engine.model.json_object import JsonObject

OURS = "duotail_draft"


@dataclass(frozen=True, slots=True)
class ReducedDraft:
    """A stand-alone draft model, as its config.json describes it.

    Attributes:
        config: its shape; `rows` are its output rows.
        vocabulary: fingerprint of the tokens that it reads and writes, which are its target's; see
            `engine.model.text.vocabulary.same_tokens.fingerprint`.
        target: name of the model it was made for, where it says so.
    """

    config: ModelConfig
    vocabulary: str
    target: str = ""

    @property
    def kind(self) -> str:
        """Kind of draft, in a word."""
        return "model"

    @property
    def family(self) -> str:
        """Family of its blocks."""
        return self.config.family

    @property
    def max_positions(self) -> int:
        """Tokens that it was made to draft behind."""
        return self.config.max_positions


DraftOnly = HeadDescription | ReducedDraft
"""A draft that cannot be loaded as a model by itself."""


def read_reduced(source: JsonObject) -> ReducedDraft | None:
    """Read a config.json; None where it is that of another kind of model.

    Raises:
        UserFixable: numbers that cannot be right.
    """
    said = source.member(OURS)
    if said is None:
        return None
    config = read_config(source)
    rows = said.integer("rows", 1, config.vocab_size)
    vocabulary = said.text("vocabulary")
    if not vocabulary:
        raise said.wrong("vocabulary", tr("a text"))
    return ReducedDraft(
        replace(config, rows=rows, tie_word_embeddings=False),
        vocabulary,
        (said.text("target") or "")[:200],
    )


def alone(name: str, draft: DraftOnly) -> UserFixable:
    """Make the error for a draft that somebody wants to chat with."""
    if isinstance(draft, ReducedDraft):
        said = tr("{name} only drafts for another model: it cannot answer by itself.")
        if draft.target:
            said = tr("{name} only drafts for {target}: it cannot answer by itself.")
    elif draft.target:
        said = tr("{name} is a draft head for {target}, not a model that can answer by itself.")
    else:
        said = tr("{name} is a draft head, not a model that can answer by itself.")
    return NotPossible(
        said.format(name=name, target=draft.target[:200]),
        tr("Load the model that it was made for, and choose this folder as its draft."),
    )
