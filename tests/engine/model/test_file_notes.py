"""What a model's files leave out, or have too much of, is told in words."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from folder_models import FOLDER_STORIES
from gguf_models import write_gguf
from safetensors.torch import load_file, save_file

from engine.model.file_notes import file_notes
from engine.model.local_model import LocalModel
from engine.model.tensors import expected_tensors

Change = Callable[[gguf.GGUFWriter], object]


def without(*keys: str) -> Change:
    """Leave out some keys."""

    def change(writer: gguf.GGUFWriter) -> None:
        for key in keys:
            del writer.kv_data[0][key]

    return change


def towers(writer: gguf.GGUFWriter) -> None:
    """Add tensors that see and hear, as Ollama's files have them."""
    for name in ("v.blk.0.attn_q.weight", "mm.input_projection.weight", "a.conv1d.weight"):
        writer.add_tensor(name, np.zeros((4, 4), np.float32))


def twice(writer: gguf.GGUFWriter) -> None:
    """Call one more token as the first one is called that is no mark."""
    tokens = writer.kv_data[0]["tokenizer.ggml.tokens"].value
    tokens[-1] = tokens[-2]


@pytest.mark.parametrize(
    ("change", "notes"),
    [
        (lambda _: None, []),
        (without("llama.rope.freq_base"), ["usual ones are used: llama.rope.freq_base = 10000."]),
        (without("tokenizer.ggml.pre"), ["cuts text into words; the usual way is used"]),
        (without("tokenizer.chat_template"), ["no chat template; a plain one with “User:”"]),
        (towers, ["3 tensors of a part that sees or hears are left aside"]),
        (twice, ["1 token is listed twice"]),
    ],
)
def test_notes_on_a_file(
    chat_model: Path, tmp_path: Path, change: Change, notes: list[str]
) -> None:
    model = LocalModel.inspect(write_gguf(chat_model, tmp_path / "m.gguf", change=change))
    told = file_notes(model)
    assert len(told) == len(notes)
    assert all(note in each for note, each in zip(notes, told, strict=True))


def test_a_file_with_other_parts_is_read(chat_model: Path, tmp_path: Path) -> None:
    model = LocalModel.inspect(write_gguf(chat_model, tmp_path / "m.gguf", change=towers))
    weights = model.own_weights(model.config)
    assert set(weights.names()) == set(expected_tensors(model.config))


def test_ends_of_the_text_that_a_file_leaves_out(tmp_path: Path) -> None:
    change = without("tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id")
    model = LocalModel.inspect(write_gguf(FOLDER_STORIES, tmp_path / "m.gguf", change=change))
    (note,) = [each for each in file_notes(model) if "leaves out" in each]
    assert "tokenizer.ggml.bos_token_id = 1, tokenizer.ggml.eos_token_id = 2" in note


@pytest.mark.parametrize(
    ("template", "note"), [("{{ 'Hi' }}", "that of m.jinja"), ("{% for", "template is damaged")]
)
def test_a_template_of_one_s_own_is_named(
    chat_model: Path, tmp_path: Path, template: str, note: str
) -> None:
    model = LocalModel.inspect(write_gguf(chat_model, tmp_path / "m.gguf"))
    (tmp_path / "m.jinja").write_text(template)
    (told,) = file_notes(model)
    assert note in told


def test_notes_on_a_folder(chat_model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(chat_model, tmp_path / "model"))
    assert file_notes(LocalModel.inspect(folder)) == ()
    tensors = load_file(folder / "model.safetensors")
    whole = {f"language_model.{name}": tensor for name, tensor in tensors.items()}
    seeing = tensors["model.norm.weight"].clone()
    save_file(whole | {"vision_tower.norm.weight": seeing}, folder / "model.safetensors")
    (note,) = file_notes(LocalModel.inspect(folder))
    assert "1 tensor of a part that sees or hears is left aside" in note
