"""Fuzz targets that read model files and compute with them: words or an answer, nothing else."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Kind
from refusals import in_words
from tiny_gguf import TOKENS, write_tiny

from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.native.segment import NativeBackend
from engine.commands import KvType, WeightFormat
from engine.errors import InvalidLogits, UserFixable
from engine.loading.inspected_model import InspectedModel
from engine.model.config import ModelConfig
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

_SHM = Path("/dev/shm")  # noqa: S108 - memory, where there is such a folder
_ROOM = 256 << 20
_WIDE = 1 << 12
_MOST_WEIGHTS = 64 << 20
_KINDS = (
    Kind.Q4_0, Kind.Q8_0, Kind.F16, Kind.BF16, Kind.F32, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1,
    Kind.IQ4_NL,
)  # fmt: skip
_TEXT = "a in <s>stone\n\u4f60"


@cache
def scratch() -> Path:
    """A folder of this process, in memory if possible."""
    folder = tempfile.mkdtemp(prefix="duotail-fuzz-", dir=_SHM if _SHM.is_dir() else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def gguf(data: bytes) -> None:
    """A GGUF file: inspection, weights, a forward, vocabulary and template."""
    file = scratch() / "model.gguf"
    file.write_bytes(data)
    _used(file)


def safetensors(data: bytes) -> None:
    """A folder: config.json up to the first null byte, model.safetensors behind it."""
    config, _, tensors = data.partition(b"\0")
    folder = scratch() / "folder"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(config)
    (folder / "model.safetensors").write_bytes(tensors)
    _used(folder)


def _used(path: Path) -> None:
    try:
        model = InspectedModel.of(path, WeightFormat.AUTO, _ROOM)
        for read in (model.model.tokens, model.model.template, model.model.sampling):
            read()
        if path.is_file():
            model.model.tokenizer().encode_text(_TEXT)
        if not isinstance(model.config, ModelConfig) or model.model.weight_bytes > _MOST_WEIGHTS:
            return
        config = model.config.for_context(min(model.config.max_positions, _WIDE))
        decoder = Decoder.build(
            config, model.weights, NativeBackend(NATIVE_FORMATS.get(model.format))
        )
    except UserFixable as refused:
        in_words(refused)
        return
    forward = decoder.forward(decoder.new_state(8), [1 % config.vocab_size, 0])
    assert forward.logits.shape[-1] == config.vocab_size


def inference(data: bytes) -> None:
    """Any bytes as weights: chunks, trees and loops agree bit for bit, draws are tokens."""
    head, body = data[:6].ljust(6, b"\0"), data[6:] or b"\0"
    file = scratch() / "tiny.gguf"
    write_tiny(str(file), _KINDS[head[0] % len(_KINDS)], body)
    model = InspectedModel.of(file, WeightFormat.AUTO, _ROOM)
    assert isinstance(model.config, ModelConfig)
    kv = (KvType.F16, KvType.Q8)[head[1] % 2]
    backend = NativeBackend(NATIVE_FORMATS.get(model.format), kv=kv)
    try:
        decoder = Decoder.build(model.config, model.weights, backend)
    except UserFixable:  # weights that are no numbers
        return
    tokens = [(byte + number) % len(TOKENS) for number, byte in enumerate(head * 2)]
    whole = decoder.forward(decoder.new_state(32), tokens).logits.copy()
    state, cut = decoder.new_state(32), 1 + head[2] % (len(tokens) - 1)
    first = decoder.forward(state, tokens[:cut]).logits.copy()
    state.commit(range(cut))
    # The rest as one branch of two, the other a token beside it.
    rest = tokens[cut:]
    nodes = [(rest[0] + 1) % len(TOKENS), *rest]
    forked = decoder.forward(state, nodes, [-1, -1, *range(1, len(rest))]).logits
    parts = np.concatenate([first, forked[1:]])
    # Rows that see a value past fp16 have no numbers; which NaN it is, is open.
    known = [np.where(np.isnan(each), np.float32(np.nan), each) for each in (parts, whole)]
    assert np.array_equal(*(each.view(np.uint32) for each in known))
    params = SamplingParams(
        temperature=head[3] / 64, top_k=head[4] % 8, top_p=1 - head[5] / 256, seed=head[3]
    )
    try:
        drawn = Sampler(params, native=True).draw(whole[-1], tokens)
    except InvalidLogits:
        assert not np.isfinite(whole[-1]).all()
        return
    assert drawn == Sampler(params, native=False).draw(whole[-1], tokens)
    assert 0 <= drawn < len(TOKENS)
