"""Reads weights and builds decoders from them, each block on the device of its share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.ledger import Account
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format
from engine.backend.segment import Backend, Share
from engine.backend.shared import NO_LOAN, Loan
from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.language import tr
from engine.loading.devices import Devices, IsCancelled, Progress
from engine.loading.inspected_model import InspectedModel
from engine.loading.repacked import Repacked
from engine.loading.streamed_weights import StreamedWeights
from engine.machine.facts import CPU
from engine.model.config import ModelConfig
from engine.model.model_files import FilesState
from engine.model.other_family import OtherConfig
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS, borrowed_tensors
from engine.model.weights.readable import Weights
from engine.pytorch import need_pytorch

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
        models: Sequence[InspectedModel],
        devices: Devices,
        progress: Progress,
        cancelled: IsCancelled,
    ) -> None:
        self._total = max(sum(model.weights.nbytes for model in models), 1)
        self._before = 0
        self._vocabulary = models[0].config.vocab_size
        self._backends: dict[str, Backend] = {}
        self._devices = devices
        self._progress, self._cancelled = progress, cancelled

    def decoder(
        self, model: InspectedModel, context: int, shares: Sequence[Share], owner: str
    ) -> Decoder:
        """Read one model's weights.

        Args:
            model: which.
            context: tokens that it will be used with.
            shares: where its blocks lie.
            owner: whose weights they are in the ledgers, "target" or "draft".

        Raises:
            Cancelled: the user stopped it.
            OutOfMemory: a device does not hold its share.
            UserFixable: damaged weights.
        """
        before = self._before
        self._before += model.weights.nbytes
        stage = tr("Loading {model}").format(model=model.model.name)

        def report(done: int) -> None:
            self._progress(stage, min((before + done) / self._total, 1.0))

        if isinstance(model.config, OtherConfig):
            self._progress(tr("Preparing the transformers library"), 0.0)
            account = Account(self._devices[CPU].ledger, owner)
            whole = StreamedWeights(model.weights, report, self._cancelled)
            return _other_decoder(model, model.config, whole, account)
        config = replace(model.config.for_context(context), vocab_size=self._vocabulary)
        weights = StreamedWeights(
            model.weights, report, self._cancelled, self._vocabulary, _token_tables(config)
        )
        before_it, self._backends = self._backends, {}
        for name in dict.fromkeys(share.device for share in shares):
            loan = Loan(model.lent, before_it.get(name)) if model.lent else NO_LOAN
            self._backends[name] = self._devices[name].backend(model.format, owner, loan, model.kv)
        state = _state(model)
        with _cached(weights, model) as cached:
            decoder = Decoder.placed(config, cached, shares, self._backends)
        if state is None or _state(model) != state:
            raise UserFixable(
                tr("The files of {model} changed while they were read.").format(
                    model=model.model.name
                ),
                tr("Wait until the download is complete, then load the model again."),
            )
        return decoder


def _state(model: InspectedModel) -> FilesState | None:
    """The present state of the files with the model's weights; None if one is gone."""
    try:
        return FilesState.of_files(model.model.path, model.weights.files)
    except OSError:
        return None


def _token_tables(config: ModelConfig) -> tuple[str, ...]:
    """Matrices that have a row for each of the target's tokens; those of a head are as they are."""
    if config.fusion is not None:
        return ()
    return (EMBEDDING, HEAD) if config.rows is None else (EMBEDDING,)


def _other_decoder(
    model: InspectedModel, config: OtherConfig, weights: StreamedWeights, account: Account
) -> Decoder:
    """A model that runs through transformers; imports it, and torch."""
    need_pytorch(tr("A “{family}” model").format(family=config.family))
    import torch

    from engine.backend.transformers_cpu import TransformersSegment

    dtype = torch.bfloat16 if model.format is WeightFormat.BF16 else torch.float32
    names, path = model.weights.names(), model.model.path
    return Decoder(config, [TransformersSegment(path, config, weights, names, dtype, account)])


def _cached(weights: StreamedWeights, model: InspectedModel) -> AbstractContextManager[Weights]:
    """The weights, with a cache on disk of what is quantised at load if that takes a while."""
    fmt, config = NATIVE_FORMATS.get(model.format), model.config
    nbytes = model.facts.footprint.weight_bytes
    apart = set(borrowed_tensors(config)) if isinstance(config, ModelConfig) else set()
    if isinstance(model.weights, Repacked):
        fmt = Format.Q4
    if fmt is None or nbytes < WORTH_KEEPING or isinstance(config, OtherConfig):
        return nullcontext(weights)
    ids = model.weights.float32(HEAD_IDS) if config.rows else None
    files, part = model.weights.files, "head" if config.fusion else ""
    return CachedWeights(
        weights, files, fmt, nbytes, ids=ids, part=part, skip=weights.skip, apart=apart
    )
