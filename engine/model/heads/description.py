"""What a head's folder says of the head; together with its target it becomes a `ModelConfig`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import NotPossible, UserFixable
from engine.language import later, tr
from engine.model.config import Fusion, FusionKind, ModelConfig
from engine.model.other_family import OtherConfig

_MADE_FOR = later("Choose the model that the head was made for, or another draft.")
_FEWEST_LAYERS = 5
"""Of a target whose taps nobody names: the three that EAGLE-3 takes must be there."""

_USUAL_TAPS = (0, 0, 0)
"""Three of them, wherever they lie in the target."""


@dataclass(frozen=True, slots=True)
class HeadDescription:
    """A feature head without its target.

    Attributes:
        kind: see `Fusion`.
        blocks: the shape of its blocks, as a model of its own; its embedding has the target's rows.
        target_hidden: numbers of a hidden state of the target.
        taps: target blocks whose outputs it takes; None: those that EAGLE-3 takes unless told.
        rows: tokens that it can propose, where these are not all.
        target: name of the model it was made for, where it says so.
        target_layers: blocks of that model, where it says so.
    """

    kind: FusionKind
    blocks: ModelConfig
    target_hidden: int
    taps: tuple[int, ...] | None = ()
    rows: int | None = None
    bias: bool = False
    residual_normed: bool = False
    own_embedding: bool = False
    own_head: bool = False
    target: str = ""
    target_layers: int | None = None

    @property
    def family(self) -> str:
        """Of its blocks."""
        return self.blocks.family

    @property
    def vocab_size(self) -> int:
        """Tokens of the target."""
        return self.blocks.vocab_size

    @property
    def max_positions(self) -> int:
        """Tokens that it was made to draft behind."""
        return self.blocks.max_positions

    @property
    def config(self) -> ModelConfig:
        """As far as it is known without the target; which taps are the usual ones is not.

        Embeddings enter a head as they lie in the target's file, without the factor that Gemma
        applies in its forward: published heads were trained on the bare matrix, and so are ours.
        """
        fusion = Fusion(
            self.kind,
            self.target_hidden,
            _USUAL_TAPS if self.taps is None else self.taps,
            self.bias,
            self.residual_normed,
            self.own_embedding,
            self.own_head,
        )
        return replace(
            self.blocks,
            tie_word_embeddings=False,
            embedding_scale=1.0,
            fusion=fusion,
            rows=self.rows,
        )

    def for_target(self, target: ModelConfig | OtherConfig, head: str, name: str) -> ModelConfig:
        """The head as backends compile it.

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
        own, its = self.target_hidden, target.hidden_size
        if own != its:
            raise self._other(
                tr("it takes hidden states of {own} numbers, and this model's have {its}"),
                head, name, own, its,
            )  # fmt: skip
        if self.vocab_size != target.vocab_size:
            own, its = self.vocab_size, target.vocab_size
            raise self._other(
                tr("it knows {own} tokens, and this model has {its}"), head, name, own, its
            )
        if self.target_layers is not None and self.target_layers != target.num_layers:
            own, its = self.target_layers, target.num_layers
            raise self._other(
                tr("it was made for a model of {own} layers, and this one has {its}"),
                head, name, own, its,
            )  # fmt: skip
        borrows = not (self.own_embedding and self.own_head)
        if borrows and self.blocks.hidden_size != target.hidden_size:
            own, its = self.blocks.hidden_size, target.hidden_size
            raise self._other(
                tr("its embedding would be this model's, of {its} instead of {own} numbers"),
                head, name, own, its,
            )  # fmt: skip
        config, neither = self.config, not (self.own_embedding or self.own_head)
        if config.fusion is None:
            raise ValueError("a head has a fusion")
        return replace(
            config,
            tie_word_embeddings=neither and target.tie_word_embeddings,
            bos_token_id=target.bos_token_id,
            eos_token_ids=target.eos_token_ids,
            fusion=replace(config.fusion, taps=self._taps(target.num_layers, head, name)),
        )

    def _taps(self, layers: int, head: str, name: str) -> tuple[int, ...]:
        """Target blocks whose outputs are taken."""
        if self.taps is None:
            if layers < _FEWEST_LAYERS:
                own, its = _FEWEST_LAYERS, layers
                raise self._other(
                    tr("it needs a model of at least {own} layers, and this one has {its}"),
                    head, name, own, its,
                )  # fmt: skip
            # What enters the layers 2, n / 2 and n - 3 is what the blocks before them give.
            return (1, layers // 2 - 1, layers - 4)
        last = max(self.taps, default=0)
        if last >= layers:
            raise self._other(
                tr("it takes the output of layer {own}, and this model has {its}"),
                head, name, last + 1, layers,
            )  # fmt: skip
        return self.taps

    def _other(self, why: str, head: str, name: str, own: int, its: int) -> UserFixable:
        """The error for a head of another model; `why` says what differs in {own} and {its}."""
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
