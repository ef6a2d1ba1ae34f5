"""Reads weights and builds decoders from them, each block on the device of its share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.ledger import Account
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.segment import Backend, Share
from engine.backend.shared import Loan
from engine.commands import WeightFormat
from engine.language import tr
from engine.loading.checking import Checked
from engine.loading.placing import Devices
from engine.loading.reading import ProgressingWeights, SameVocabulary
from engine.machine.facts import CPU
from engine.model.other_family import OtherConfig
from engine.model.tensors import EMBEDDING, HEAD
from engine.model.weights.readable import Readable, Weights

Progress = Callable[[str, float], None]
Cancelled = Callable[[], bool]

WORTH_KEEPING = 50 << 20
"""Bytes of packed weights from which on they are kept on disk; smaller models load in a moment."""


class DecoderBuilder:
    """Builds the decoders of one load, one after the other, with a common progress.

    Args:
        models: all that will be built.
        devices: where.
        progress: told the stage, and how far everything is.
        cancelled: asked at every stretch of weights.
    """

    def __init__(
        self,
        models: Sequence[Checked],
        devices: Devices,
        progress: Progress,
        cancelled: Cancelled,
    ) -> None:
        self._total = max(sum(model.weights.nbytes for model in models), 1)
        self._before = 0
        self._vocabulary = models[0].config.vocab_size
        self._backends: dict[str, Backend] = {}
        self._devices = devices
        self._progress, self._cancelled = progress, cancelled

    def decoder(
        self, checked: Checked, context: int, shares: Sequence[Share], owner: str
    ) -> Decoder:
        """Read one model's weights.

        Args:
            checked: the model.
            context: tokens that it will be used with.
            shares: where its blocks lie.
            owner: whose weights they are in the ledgers, "target" or "draft".

        Raises:
            Cancelled: the user stopped it.
            OutOfMemory: a device does not hold its share.
            UserFixable: damaged weights.
        """
        model, before = checked.model, self._before
        self._before += checked.weights.nbytes
        stage = tr("Loading {model}").format(model=model.name)

        def report(done: int) -> None:
            self._progress(stage, min((before + done) / self._total, 1.0))

        reader = ProgressingWeights(checked.weights, report, self._cancelled)
        if isinstance(checked.config, OtherConfig):
            self._progress(tr("Preparing the transformers library"), 0.0)
            account = Account(self._devices[CPU].ledger, owner)
            return _other_decoder(checked, checked.config, reader, account)
        config = replace(checked.config.for_context(context), vocab_size=self._vocabulary)
        weights: Readable = reader
        if checked.fusion is None:
            tables = (EMBEDDING, HEAD) if config.rows is None else (EMBEDDING,)
            weights = SameVocabulary(reader, self._vocabulary, tables)
        before_it, self._backends = self._backends, {}
        for name in dict.fromkeys(share.device for share in shares):
            loan = Loan(checked.lent, before_it.get(name)) if checked.lent else None
            self._backends[name] = self._devices[name].backend(checked.format, owner, loan)
        with _cached(weights, checked, reader.skip) as cached:
            return Decoder.placed(config, cached, shares, self._backends)


def _other_decoder(
    checked: Checked, config: OtherConfig, weights: Readable, account: Account
) -> Decoder:
    """A model that runs through transformers; imports it, and torch."""
    import torch

    from engine.backend.transformers_cpu.segment import TransformersSegment

    dtype = torch.bfloat16 if checked.format is WeightFormat.BF16 else torch.float32
    names = checked.weights.names()
    path = checked.model.path
    return Decoder(config, [TransformersSegment(path, config, weights, names, dtype, account)])


def _cached(
    weights: Readable, checked: Checked, skip: Callable[[Sequence[str]], None]
) -> AbstractContextManager[Weights]:
    """The weights, with a cache on disk of what is quantised at load if that takes a while."""
    fmt = NATIVE_FORMATS.get(checked.format)
    nbytes = checked.facts.footprint.weight_bytes
    if fmt is None or nbytes < WORTH_KEEPING:
        return nullcontext(weights)
    files, lent = checked.weights.files, checked.lent
    return CachedWeights(weights, files, fmt, nbytes, skip=skip, apart=lent)
