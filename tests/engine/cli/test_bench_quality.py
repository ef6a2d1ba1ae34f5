"""`duotail bench quality`, on dialogues written for this test."""

from __future__ import annotations

from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET
from native_models import native_decoder

from engine.backend.native.library import Format
from engine.bench.passages import read_passages
from engine.bench.quality import perplexity
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer

DIALOGUES = Path(__file__).parents[1] / "bench" / "dialogues.jsonl"


def passages(path: Path, window: int = 512) -> list[list[int]]:
    tokenizer, template = Tokenizer.open(FOLDER_TARGET), ChatTemplate.open(FOLDER_TARGET)
    return read_passages(path, tokenizer, template, window)


def test_what_each_format_costs(duotail: Duotail) -> None:
    done = duotail("bench", "quality", "--model", FOLDER_TARGET, "--text", DIALOGUES, "--json")
    assert (done.code, done.err) == (0, "")
    formats = done.json["formats"]
    assert list(formats) == ["f32", "bf16", "q8_0", "q4_0"]
    assert 3 < formats["f32"]["perplexity"] < 40
    assert abs(formats["bf16"]["vs_f32"]) < 0.001  # the weights are bf16 to begin with
    assert abs(formats["q8_0"]["vs_bf16"]) < 0.01
    assert abs(formats["q8_0"]["activations_cost"]) < 0.01
    assert abs(formats["q4_0"]["activations_cost"]) < 0.01
    assert abs(formats["q8_0"]["weights_only_vs_f32"]) < 0.002
    assert 0 < formats["q4_0"]["weights_only_vs_f32"] < 0.05
    assert formats["bf16"]["weights_only"] is formats["f32"]["activations_cost"] is None
    assert done.json["tokens"] == sum(len(ids) - 1 for ids in passages(DIALOGUES))


def test_a_few_formats_on_plain_text(duotail: Duotail, tmp_path: Path) -> None:
    text = tmp_path / "story.txt"
    text.write_text("Once upon a time there was a little dog. " * 40, encoding="utf-8")
    done = duotail("bench", "quality", "--text", text, "--formats", "q8_0,bf16", "--limit", "1")
    assert done.code == 0
    assert "q8_0" in done.out
    assert "f32 " not in done.out.split("\n", 1)[1]


def test_perplexity_is_the_mean_of_all_guesses() -> None:
    """Passages of any length, in chunks or not: the same guesses."""
    decoder = native_decoder(FOLDER_TARGET, Format.BF16)
    ids = [token for passage in passages(DIALOGUES) for token in passage][:150]
    logits = decoder.forward(decoder.new_state(256), ids[:-1]).logits.astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    nats = [-log(chance) for chance in chances[np.arange(149), ids[1:]]]
    assert perplexity(decoder, [ids]) == pytest.approx(exp(sum(nats) / 149), rel=1e-9)
    both = perplexity(decoder, [ids, ids[:2]])
    assert both == pytest.approx(exp((sum(nats) + nats[0]) / 150), rel=1e-6)


def test_long_passages_are_cut() -> None:
    whole, cut = passages(DIALOGUES), passages(DIALOGUES, 16)
    assert max(map(len, cut)) == 16
    assert sum(map(len, whole)) - sum(map(len, cut)) in range(len(whole))  # single leftovers


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.txt", None, "cannot be read"),
        ("latin.txt", b"caf\xe9", "cannot be read"),
        ("short.txt", b"", "too little"),
        ("empty.jsonl", b"\n\n", "too little"),
        ("plain.jsonl", b"hello\n", "Line 1"),
        ("half.jsonl", b'\n{"messages": [{"role": "user", "content": "Hi"}]}', "Line 2"),
        ("who.jsonl", b'{"messages": [{"role": "dog", "content": "Hi"}]}', "Line 1"),
        ("what.jsonl", b'{"messages": [{"role": "assistant", "content": 3}]}', "Line 1"),
    ],
)
def test_text_that_is_no_use(
    duotail: Duotail, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = duotail("bench", "quality", "--text", tmp_path / name)
    assert done.code == 2
    assert words in done.err


def test_bad_usage(duotail: Duotail) -> None:
    assert duotail("bench", "quality").code == 2
    assert duotail("bench", "quality", "--text", DIALOGUES, "--formats", "q9").code == 2
