"""What is told of prompts: probabilities and embeddings are those of one plain forward."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from native_models import native_decoder

from engine.backend.cpu import native_is_built
from engine.backend.native.library import Format
from engine.errors import UserFixable
from engine.events import PromptRead
from engine.model.text.fill_in_the_middle import middle_ends
from engine.model.text.tokenizer import Tokenizer
from engine.request import ChatRequest, PromptDetail, RawPrompt, SamplingParams
from engine.session.prompt_details import PromptDetails
from engine.session.raw_prompt import raw_prompt
from engine.speculative.decoding import Decoding
from engine.speculative.sampler import Sampler

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")


@pytest.mark.parametrize("detail", [PromptDetail.LOGPROBS, PromptDetail.EMBEDDING])
@pytest.mark.parametrize("length", [1, 2, 16, 17, 50])
def test_details_are_those_of_one_forward(detail: PromptDetail, length: int) -> None:
    target, tokenizer = native_decoder(FOLDER_TARGET, Format.Q8), Tokenizer.open(FOLDER_TARGET)
    ids = np.random.default_rng(length).integers(5, 400, length).tolist()
    request = ChatRequest("it", (), detail=detail, alternatives=2)
    reader = PromptDetails(request, ids, tokenizer)
    decoding = Decoding(target, target.new_state(128), ids, Sampler(SamplingParams()))
    assert list(decoding.prefill(reader))[-1:] == [length - 1] * (length > 1)
    told: PromptRead = reader.told(decoding)
    assert len(decoding.state) == length - 1
    whole = target.forward(target.new_state(128), ids)
    if detail is PromptDetail.EMBEDDING:
        mean = whole.hidden.mean(axis=0, dtype=np.float64)
        assert told.embedding == pytest.approx(mean.tolist(), abs=1e-6)
        return
    weights = np.exp(whole.logits.astype(np.float64))
    chances = weights / weights.sum(axis=1, keepdims=True)
    assert [each.token_id for each in told.tokens] == ids
    assert told.tokens[0].probability is None
    for row, token in zip(chances, told.tokens[1:], strict=False):
        assert token.probability == pytest.approx(row[token.token_id])
        assert [each.token_id for each in token.others] == np.argsort(-row)[:2].tolist()


MARKS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>")


def test_a_gap_is_framed_by_the_tokens_that_the_model_knows(tmp_path: Path) -> None:
    before, behind = "def f(", "    return <|fim_pad|>"
    raw = RawPrompt(before, suffix=behind)
    with pytest.raises(UserFixable, match="does not fill in the middle"):
        raw_prompt(raw, (), Tokenizer.open(FOLDER_TARGET))
    described = json.loads((FOLDER_TARGET / "tokenizer.json").read_text())
    first = max(each["id"] for each in described["added_tokens"])
    first = max(first, *described["model"]["vocab"].values()) + 1
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    described["added_tokens"] += [
        {"id": first + i, "content": mark, "special": True, **plain} for i, mark in enumerate(MARKS)
    ]
    for file in FOLDER_TARGET.iterdir():
        if file.suffix == ".json":
            shutil.copy(file, tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    tokenizer = Tokenizer.open(tmp_path)
    texts = [tokenizer.encode_text(text) for text in (before, behind)]
    assert first + 3 not in texts[1]  # what looks like a control token is text
    ids = [first, *texts[0], first + 1, *texts[1], first + 2]
    assert list(raw_prompt(raw, (), tokenizer).ids) == ids
    assert first + 3 in middle_ends(tokenizer)
    written = f"{MARKS[0]}{before}{MARKS[1]}x{MARKS[2]}"  # by an editor that knows the model
    parsed, typed = (
        list(raw_prompt(RawPrompt(written, control_tokens=each), (), tokenizer).ids)
        for each in (True, False)
    )
    assert parsed == [first, *texts[0], first + 1, *tokenizer.encode_text("x"), first + 2]
    assert max(typed) < first
