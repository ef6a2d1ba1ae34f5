"""Drafts that are no models by themselves; with its target, one becomes a `ModelConfig`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import NotPossible, UserFixable
from engine.language import later, tr
from engine.model.config import Fusion, ModelConfig
from engine.model.other_family import OtherConfig

_MADE_FOR = later("Choose the model that the head was made for, or another draft.")
_FEWEST_LAYERS = 5
"""Blocks of a target that has the usual taps."""

USUAL_TAPS = (0, 0, 0)
"""Taps of a head that names none, until its target is known."""


@dataclass(frozen=True, slots=True)
class DraftOnly:
    """A draft that cannot be loaded as a model by itself, as its config.json describes it.

    It is a feature head, or a stand-alone model with output rows for some tokens only.

    Attributes:
        config: its shape, with the fusion of a head and the number of output rows.
        target: name of the model it was made for, where it says so.
        target_layers: blocks of that model, where a head says so.
        usual_taps: it takes the blocks of its target that EAGLE-3 takes unless told; `USUAL_TAPS`
            stand for them.
        own: it lies in the files of its target, or has the names that it would have there (MTP).
        vocabulary: of a stand-alone model: fingerprint of the tokens that it reads and writes,
            which are its target's; see `engine.model.text.vocabulary.same_tokens.fingerprint`.
    """

    config: ModelConfig
    target: str = ""
    target_layers: int | None = None
    usual_taps: bool = False
    own: bool = False
    vocabulary: str = ""

    @property
    def is_head(self) -> bool:
        """Tell whether it is a feature head."""
        return self.config.fusion is not None

    @property
    def kind(self) -> str:
        """Kind of draft in a word; for those of heads see `Fusion`."""
        return "model" if self.config.fusion is None else self.config.fusion.kind

    @property
    def family(self) -> str:
        """Family of its blocks."""
        return self.config.family

    @property
    def max_positions(self) -> int:
        """Tokens that it was made to draft behind."""
        return self.config.max_positions

    def for_target(self, target: ModelConfig | OtherConfig, head: str, name: str) -> ModelConfig:
        """Return the config as backends compile it; a stand-alone model's is its own.

        Args:
            target: the model that it is to draft for.
            head, name: of the two, for messages.

        Raises:
            NotPossible: a head was made for another model, or the target keeps no features.
        """
        fusion = self.config.fusion
        if fusion is None:
            return self.config
        if isinstance(target, OtherConfig):
            raise NotPossible(
                tr(
                    "{head} cannot draft for {target}: Duotail has no decoder of its own for "
                    "“{family}” models, so there are no hidden states to draft from."
                ).format(head=head, target=name, family=target.family),
                tr("Choose the draft “none”, or a model of another family."),
            )
        whole = fusion.own_embedding and fusion.own_head
        compared = (
            (
                fusion.target_hidden,
                target.hidden_size,
                tr("it takes hidden states of {own} numbers, and this model's have {its}"),
            ),
            (
                self.config.vocab_size,
                target.vocab_size,
                tr("it knows {own} tokens, and this model has {its}"),
            ),
            (
                self.target_layers or target.num_layers,
                target.num_layers,
                tr("it was made for a model of {own} layers, and this one has {its}"),
            ),
            (
                target.hidden_size if whole else self.config.hidden_size,
                target.hidden_size,
                tr("its embedding would be this model's, of {its} instead of {own} numbers"),
            ),
        )
        for own, its, why in compared:
            if own != its:
                raise self._other(why, head, name, own, its)
        neither = not (fusion.own_embedding or fusion.own_head or self.config.rows)
        return replace(
            self.config,
            tie_word_embeddings=neither and target.tie_word_embeddings,
            bos_token_id=target.bos_token_id,
            eos_token_ids=target.eos_token_ids,
            fusion=replace(fusion, taps=self._taps(fusion, target.num_layers, head, name)),
        )

    def _taps(self, fusion: Fusion, layers: int, head: str, name: str) -> tuple[int, ...]:
        """Return the target blocks whose outputs are taken."""
        if self.usual_taps:
            if layers < _FEWEST_LAYERS:
                own, its = _FEWEST_LAYERS, layers
                raise self._other(
                    tr("it needs a model of at least {own} layers, and this one has {its}"),
                    head, name, own, its,
                )  # fmt: skip
            # What enters the layers 2, n / 2 and n - 3 is what the blocks before them give.
            return (1, layers // 2 - 1, layers - 4)
        last = max(fusion.taps, default=0)
        if last >= layers:
            raise self._other(
                tr("it takes the output of layer {own}, and this model has {its}"),
                head, name, last + 1, layers,
            )  # fmt: skip
        return fusion.taps

    def _other(self, why: str, head: str, name: str, own: int, its: int) -> UserFixable:
        """Make the error for a head of another model; `why` tells what differs by {own}, {its}."""
        remedy = tr(_MADE_FOR)
        if self.target:
            remedy = tr("It was made for {target}: choose that model, or another draft.").format(
                target=self.target[:200]
            )
        return NotPossible(
            tr("{head} cannot draft for {target}: {why}.").format(
                head=head, target=name, why=why.format(own=own, its=its)
            ),
            remedy,
        )


def alone(name: str, draft: DraftOnly) -> UserFixable:
    """Make the error for a draft that somebody wants to chat with."""
    if not draft.is_head:
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
