"""Chat templates from strangers: each gives a prompt or words, in time, and ends no process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from folder_models import FOLDER_STORIES
from hostile_templates import hostile_template
from wrong_values import WRONG

from engine.errors import UserFixable
from engine.model.text import template_sandbox
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role

_BATCH = 100
_TALK = (
    Message(Role.SYSTEM, "Be brief."),
    Message(Role.USER, "Hello \U0001f999"),
    Message(Role.ASSISTANT, "<think>\nHm.\n</think>\n\nHi!"),
    Message(Role.USER, "<s>[INST] ok"),
)
_NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
_MOST_BYTES = 512 << 20
_WRONG_TEMPLATES = [v for v in WRONG if v is not None and not isinstance(v, str)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(FOLDER_STORIES)


def outcome(template: Any, tokenizer: Tokenizer) -> str:
    """Ask a template as a chat does; anything but a prompt or words raises."""
    try:
        opened = template()
        for count in (2, len(_TALK)):
            prompt = opened.prompt(_TALK[:count], tokenizer, continue_answer=False)
            assert prompt.ids
        opened.prompt(_TALK[:3], tokenizer, continue_answer=True)
    except UserFixable as error:
        return "refused" if error.cause and error.remedy else "without words"
    return "accepted"


@pytest.mark.release(reason="2,000 templates take a minute and more", keep=3)
@pytest.mark.parametrize("batch", range(20))
def test_mutated_templates(
    batch: int, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_sandbox, "SECONDS", 0.3)
    before = psutil.Process().memory_info().rss
    outcomes = set()
    for number in range(batch * _BATCH, (batch + 1) * _BATCH):
        source = hostile_template(Random(number), costly=0.02)
        begun = time.process_time()
        told = outcome(
            lambda source=source: ChatTemplate(template_sandbox.SandboxedTemplate(source, _NAMES)),
            tokenizer,
        )
        assert time.process_time() - begun < 5, f"seed {number}"
        outcomes.add(told)
    assert outcomes == {"accepted", "refused"}
    assert psutil.Process().memory_info().rss - before < _MOST_BYTES


@pytest.mark.parametrize("source", ["", "{{ '' }}", "{% if false %}x{% endif %}", "{# #}"])
def test_a_template_that_says_nothing_is_refused_in_words(
    source: str, tokenizer: Tokenizer
) -> None:
    template = ChatTemplate(template_sandbox.SandboxedTemplate(source, {}))
    with pytest.raises(UserFixable, match="chat template"):
        template.prompt(_TALK[1:2], tokenizer, continue_answer=False)


def test_a_template_that_writes_ten_million_characters_is_refused(tokenizer: Tokenizer) -> None:
    """To encode them would take the engine's thread half a minute."""
    source = "{{ ('<' * 9999999) | striptags }}"
    template = ChatTemplate(template_sandbox.SandboxedTemplate(source, {}))
    with pytest.raises(UserFixable, match="writes without end"):
        template.prompt(_TALK[1:2], tokenizer, continue_answer=False)


@pytest.mark.parametrize("value", _WRONG_TEMPLATES)
def test_a_template_of_the_wrong_type_is_named(value: Any, tmp_path: Path) -> None:
    """Of a folder and of a GGUF file: file and key are in the words."""
    with pytest.raises(UserFixable, match=r"GGUF.*tokenizer\.chat_template"):
        ChatTemplate.from_gguf({"tokenizer.chat_template": value})
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": value}))
    with pytest.raises(UserFixable, match=r"tokenizer_config\.json.*chat_template"):
        ChatTemplate.open(tmp_path)
