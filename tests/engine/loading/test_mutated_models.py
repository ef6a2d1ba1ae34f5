"""Model files from strangers: each loads and computes, or is refused with words."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest
from folder_models import FOLDER_STORIES
from gguf_models import Kind, write_gguf
from wrong_values import mutated

from engine.backend.cpu import NATIVE_FORMATS
from engine.backend.decoder import Decoder
from engine.backend.native.segment import NativeBackend
from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.loading.inspected_model import InspectedModel
from engine.model.config import ModelConfig

_BATCH = 250
_MOST_BYTES = 512 << 20
_MOST_S = 5.0
_WIDE = 1 << 14
"""A context that takes no memory worth mentioning."""


@pytest.fixture(scope="module")
def gguf_bytes(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("gguf") / "model.gguf"
    return write_gguf(chat_model, file, Kind.Q4_0).read_bytes()


def _computes(path: Path) -> bool:
    """Whether a model loads; then it runs a forward."""
    try:
        model = InspectedModel.of(path, WeightFormat.AUTO, 4 << 30)
        if not isinstance(model.config, ModelConfig):
            return True
        config = model.config.for_context(min(model.config.max_positions, _WIDE))
        backend = NativeBackend(NATIVE_FORMATS.get(model.format))
        decoder = Decoder.build(config, model.weights, backend)
    except UserFixable as error:
        refused = error
    else:
        forward = decoder.forward(decoder.new_state(8), [1, 0])
        assert forward.logits.shape[-1] == model.config.vocab_size
        return True
    assert refused.cause.endswith((".", "?"))
    assert refused.remedy.endswith(".")
    return False


def _bytes(raw: bytearray, random: Random, most: int) -> None:
    """Bits, bytes and stretches changed in the first `most` bytes; sometimes the end cut off."""
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(min(most, len(raw)))
        match random.randrange(4):
            case 0:
                raw[at] ^= 1 << random.randrange(8)
            case 1:
                raw[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            case 2:
                raw[at : at + 8] = random.randbytes(8)
            case _:
                raw[at : at + 8] = random.choice((bytes(8), b"\xff" * 8, b"\0" * 7 + b"\x80"))
    if random.random() < 0.15:
        del raw[random.randrange(len(raw)) :]


def _gguf(random: Random, folder: Path, whole: bytes) -> Path:
    raw = bytearray(whole)
    # The header of a vocabulary is long: most of what matters lies in its first part and its last.
    reach = random.choice((1500, 200_000, len(raw)))
    _bytes(raw, random, reach)
    (folder / "model.gguf").write_bytes(raw)
    return folder / "model.gguf"


def _safetensors(random: Random, file: Path) -> None:
    raw = bytearray(file.read_bytes())
    size = int.from_bytes(raw[:8], "little")
    if random.random() < 0.5:
        header = json.dumps(mutated(json.loads(raw[8 : 8 + size]), random)).encode()
        raw[: 8 + size] = len(header).to_bytes(8, "little") + header
    else:
        _bytes(raw, random, random.choice((16, 4000, len(raw))))
    file.write_bytes(raw)


def _config(random: Random, file: Path) -> None:
    config = mutated(json.loads(file.read_text("utf-8")), random, random.choice((1, 1, 2, 4)))
    file.write_text(json.dumps(config))


def _files(random: Random, folder: Path) -> None:
    """Files missing, doubled, emptied, exchanged, turned into folders, pipes or links."""
    file = folder / random.choice(("config.json", "model.safetensors", "tokenizer.json"))
    match random.randrange(6):
        case 0:
            file.unlink()
        case 1:
            file.write_bytes(b"")
        case 2:
            shutil.copy(folder / "config.json", file.with_name("model.safetensors.index.json"))
        case 3:
            file.unlink()
            file.mkdir()
        case 4:
            file.unlink()
            file.symlink_to(random.choice((file.name, "/dev/zero", "..", "config.json")))
        case _ if hasattr(os, "mkfifo"):
            file.unlink()
            os.mkfifo(file)
        case _:
            file.unlink()


def _folder(random: Random, folder: Path, _whole: bytes) -> Path:
    model = folder / "stories"
    shutil.copytree(FOLDER_STORIES, model)
    if random.random() < 0.4:
        _safetensors(random, model / "model.safetensors")
    if random.random() < 0.6:
        _config(random, model / "config.json")
    if random.random() < 0.15:
        _files(random, model)
    return model


_KINDS: dict[str, Callable[[Random, Path, bytes], Path]] = {"gguf": _gguf, "folder": _folder}


@pytest.mark.release(reason="20,000 files and 5,000 folders take ten minutes", keep=2)
@pytest.mark.parametrize(
    ("kind", "batch"),
    [*(("folder", batch) for batch in range(20)), *(("gguf", batch) for batch in range(80))],
)
def test_mutated_models(kind: str, batch: int, tmp_path: Path, gguf_bytes: bytes) -> None:
    before = psutil.Process().memory_info().rss
    loaded = 0
    for number in range(batch * _BATCH, (batch + 1) * _BATCH):
        folder = tmp_path / str(number)
        folder.mkdir()
        begun = time.process_time()
        try:
            loaded += _computes(_KINDS[kind](Random(number), folder, gguf_bytes))
        except Exception as error:
            raise AssertionError(f"{kind} of seed {number}") from error
        assert time.process_time() - begun < _MOST_S, f"{kind} of seed {number}"
        shutil.rmtree(folder)
    assert 0 < loaded < _BATCH
    assert psutil.Process().memory_info().rss - before < _MOST_BYTES
