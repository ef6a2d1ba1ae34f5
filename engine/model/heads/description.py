"""The description of a head in its folder; with its target it becomes a `ModelConfig`."""

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
class HeadDescription:
    """A feature head without its target.

    Attributes:
        config: its shape and its fusion; made by `describe`.
        usual_taps: it takes the blocks of its target that EAGLE-3 takes unless told.
        target: name of the model it was made for, where it says so.
        target_layers: blocks of that model, where it says so.
    """

    config: ModelConfig
    usual_taps: bool = False
    target: str = ""
    target_layers: int | None = None

    @classmethod
    def describe(
        cls,
        blocks: ModelConfig,
        fusion: Fusion,
        rows: int | None = None,
        *,
        usual_taps: bool = False,
        target: str = "",
        target_layers: int | None = None,
    ) -> HeadDescription:
        """Join the parts of a head.

        Embeddings enter a head as they lie in the target's file, without the factor that Gemma
        applies in its forward: published heads were trained on the bare matrix, and so are ours.

        Args:
            blocks: their shape, as that of a small model with the target's vocabulary.
            fusion: what comes before them; `USUAL_TAPS` stand for usual taps.
            rows: tokens that it can propose, where these are not all.
            usual_taps, target, target_layers: see the attributes.
        """
        config = replace(
            blocks, tie_word_embeddings=False, embedding_scale=1.0, fusion=fusion, rows=rows
        )
        return cls(config, usual_taps, target, target_layers)

    @property
    def fusion(self) -> Fusion:
        """Fusion of the head."""
        if self.config.fusion is None:
            raise ValueError("a head has a fusion")
        return self.config.fusion

    @property
    def kind(self) -> str:
        """Kind of head, see `Fusion`."""
        return self.fusion.kind

    @property
    def family(self) -> str:
        """Family of its blocks."""
        return self.config.family

    @property
    def max_positions(self) -> int:
        """Tokens that it was made to draft behind."""
        return self.config.max_positions

    def for_target(self, target: ModelConfig | OtherConfig, head: str, name: str) -> ModelConfig:
        """Return the config of the head as backends compile it.

        Args:
            target: the model that it is to draft for.
            head, name: of the two, for messages.

        Raises:
            NotPossible: it was made for another model, or the target keeps no features.
        """
        if isinstance(target, OtherConfig):
            raise NotPossible(
                tr(
                    "{head} cannot draft for {target}: Duotail has no decoder of its own for "
                    "“{family}” models, so there are no hidden states to draft from."
                ).format(head=head, target=name, family=target.family),
                tr("Choose the draft “none”, or a model of another family."),
            )
        fusion = self.fusion
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
        neither = not (fusion.own_embedding or fusion.own_head)
        return replace(
            self.config,
            tie_word_embeddings=neither and target.tie_word_embeddings,
            bos_token_id=target.bos_token_id,
            eos_token_ids=target.eos_token_ids,
            fusion=replace(fusion, taps=self._taps(target.num_layers, head, name)),
        )

    def _taps(self, layers: int, head: str, name: str) -> tuple[int, ...]:
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
        last = max(self.fusion.taps, default=0)
        if last >= layers:
            raise self._other(
                tr("it takes the output of layer {own}, and this model has {its}"),
                head, name, last + 1, layers,
            )  # fmt: skip
        return self.fusion.taps

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
