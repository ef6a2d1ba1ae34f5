"""The target of a training, and the device that drafts are trained on."""

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
from engine.errors import UserFixable
from engine.language import tr
from engine.loading.inspected_model import own_model
from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel
from engine.model.tensors import EMBEDDING, HEAD
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.weights.model_weights import ModelWeights


@dataclass(frozen=True, slots=True)
class Target:
    """A model that a draft is trained for.

    Attributes:
        path: where its files are.
        weights: as stored.
        identity: differs from that of every other model.
    """

    path: Path
    name: str
    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    decoder: Decoder
    weights: ModelWeights
    identity: str

    def matrices(self, device: TrainingDevice) -> tuple[Tensor, Tensor]:
        """Return embedding and output matrix, [vocab, hidden] each, in the precision of products.

        They are one tensor where the target has them tied.
        """
        kind = torch.bfloat16 if device.halves else torch.float32
        embedding = torch.from_numpy(self.weights.float32(EMBEDDING)).to(device.device, kind)
        if self.config.tie_word_embeddings:
            return embedding, embedding
        return embedding, torch.from_numpy(self.weights.float32(HEAD)).to(device.device, kind)


@dataclass(frozen=True, slots=True)
class TrainingDevice:
    """The device and the precision that a draft is trained with.

    Attributes:
        halves: products in bf16, sums and weights in fp32; otherwise everything in fp32.
    """

    device: torch.device
    halves: bool

    @classmethod
    def choose(cls, name: str, halves: bool | None) -> TrainingDevice:
        """Return the device of a name; "auto" is a GPU where there is one.

        Args:
            name: "auto", "cpu", "cuda" for the first GPU, or "cuda:0".
            halves: None: where products in bf16 are faster than in fp32.

        Raises:
            UserFixable: there is no such device, or it cannot train.
        """
        try:
            if name == "auto":
                name = "cuda:0" if torch.cuda.is_available() else "cpu"
            device = torch.device(name)
        except RuntimeError as error:
            raise UserFixable(
                tr("There is no device “{name}”.").format(name=name[:100]),
                tr("Choose auto, cpu or cuda:0."),
                str(error)[:500],
            ) from error
        if device.type == "cuda":  # torch limits the memory of numbered devices alone
            device = torch.device("cuda", device.index or 0)
        if device.type not in ("cpu", "cuda") or (
            device.type == "cuda" and device.index >= torch.cuda.device_count()
        ):
            raise UserFixable(
                tr("There is no device “{name}” here that can train.").format(name=name[:100]),
                tr("Choose auto or cpu."),
            )
        if halves is None:
            halves = device.type == "cuda" or bool(torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001
        return cls(device, halves)

    def autocast(self) -> torch.autocast:
        """Return a context in which products have this precision."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.halves)


@contextmanager
def open_target(
    path: Path, wish: WeightFormat, device: torch.device, threads: int | None, longest: int
) -> Iterator[Target]:
    """Load a target as it is loaded for chats.

    Args:
        path: a model folder or GGUF file.
        wish: format of its weights in memory.
        device: where it computes.
        threads: of the CPU; None: as many as pay.
        longest: tokens of the longest sequence.

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
