"""The target of a training: its decoder, its text, and the matrices that drafts share with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.backend.cpu import CpuDevice, threads_for
from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.commands import WeightFormat
from engine.hub.local import LocalModel
from engine.loading.inspected_model import own_model
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING, HEAD
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.weights.model_weights import ModelWeights
from engine.train.soft_labels import TargetOutput


@dataclass(frozen=True, slots=True)
class Target:
    """A model that a draft is trained for.

    Attributes:
        path: where its files are.
        identity: what tells it from another model.
        weights: as stored.
    """

    path: Path
    name: str
    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    decoder: Decoder
    weights: ModelWeights
    identity: str

    def matrices(self, device: torch.device, *, halves: bool) -> tuple[Tensor, TargetOutput]:
        """Embedding and output, [vocab, hidden] each, in bf16 or fp32."""
        kind = torch.bfloat16 if halves else torch.float32
        embedding = torch.from_numpy(self.weights.float32(EMBEDDING)).to(device, kind)
        output = embedding
        if not self.config.tie_word_embeddings:
            output = torch.from_numpy(self.weights.float32(HEAD)).to(device, kind)
        return embedding, TargetOutput(output, self.config.logit_softcap)


@contextmanager
def opened(
    path: Path, wish: WeightFormat, device: torch.device, threads: int | None, longest: int
) -> Iterator[Target]:
    """Load a target on the device that the draft is trained on, as it is held for chats.

    Args:
        path: a model folder or GGUF file.
        wish: how its weights are held.
        device: where.
        threads: of the CPU; None: as many as pay.
        longest: tokens of the longest text.

    Raises:
        UserFixable: it cannot be used: damaged, too large, run by transformers.
    """
    model = LocalModel.inspect(path)
    config, weights, held = own_model(model, wish)
    place = _device(device, threads or threads_for(weights.nbytes))
    try:
        backend = place.backend(held, "target")
        yield Target(
            path=path,
            name=model.name,
            config=config,
            tokenizer=model.tokenizer(),
            template=model.template(),
            decoder=Decoder.build(config.for_context(longest), weights, backend),
            weights=weights,
            identity=f"{model.name} {held} {_sizes(weights)}",
        )
    finally:
        place.close()


def _device(device: torch.device, threads: int) -> Device:
    if device.type == "cpu":
        return CpuDevice(threads=threads)
    from engine.backend.accelerator.device import TorchDevice

    return TorchDevice(str(device))


def _sizes(weights: ModelWeights) -> str:
    return " ".join(f"{file.name}:{file.stat().st_size}" for file in weights.files)
