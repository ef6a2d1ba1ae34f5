"""The token that begins a text and those that end an answer, by all of a model's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.model.json_object import JsonObject
from engine.model.text.template_sandbox import SandboxedTemplate, TemplateFailure
from engine.model.text.template_source import folder_template, gguf_template, named_tokens
from engine.model.text.vocabulary.gguf_vocabulary import adds_bos, token_id

if TYPE_CHECKING:
    from engine.model.text.tokenizer import Tokenizer

PROBE = "\U0010fffd"
"""Stands for an answer while the template is asked how it ends one; no template contains it."""

_ENDINGS = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<turn|>",
    "<EOT>",
    "[EOT]",
)
"""Control tokens that end an answer in whatever model has them; GGUF files name only one or two."""
_MESSAGE_END = "<|end|>"
_ANSWER_ENDS = ("<|return|>", "<|call|>")
"""Tokens beside which `_MESSAGE_END` ends only a part of an answer (gpt-oss)."""


@dataclass(frozen=True, slots=True)
class TextEnds:
    """`bos` begins a text, before every one if `adds_bos`; each of `eos` ends an answer."""

    bos: int | None = None
    adds_bos: bool = False
    eos: frozenset[int] = frozenset()


def folder_ends(folder: Path, tokenizer: Tokenizer) -> TextEnds:
    """Return the ends that a model folder's configurations and template name."""
    names = named_tokens(folder)
    ends: set[int | None] = {tokenizer.id_of(str(names.get("eos_token", "")))}
    for file in ("config.json", "generation_config.json"):
        ends.update(JsonObject.read_optional(folder / file).token_ids("eos_token_id", 1 << 31))
    ends.add(_turn_end(folder_template(folder), tokenizer))
    bos = tokenizer.id_of(str(names.get("bos_token", "")))
    settings = JsonObject.read_optional(folder / "tokenizer_config.json")
    automatic = bos is not None and tokenizer.first_id == bos
    adds = bos is not None and settings.flag("add_bos_token", default=automatic)
    return TextEnds(bos, adds, _whole_answers(ends, tokenizer.control_tokens))


def gguf_ends(metadata: Mapping[str, object], tokenizer: Tokenizer) -> TextEnds:
    """Return the ends that a GGUF file's metadata and template name, and tokens known as ends."""
    ends = {token_id(metadata, name) for name in ("eos", "eot", "eom")}
    ends.update(tokenizer.control_tokens.get(name) for name in _ENDINGS)
    ends.add(_turn_end(gguf_template(metadata), tokenizer))
    bos = token_id(metadata, "bos")
    adds = bos is not None and adds_bos(metadata)
    return TextEnds(bos, adds, _whole_answers(ends, tokenizer.control_tokens))


def _turn_end(template: SandboxedTemplate, tokenizer: Tokenizer) -> int | None:
    """The control token with which the chat template closes an answer."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": PROBE}]
    try:
        text = template.render(messages, add_generation_prompt=False)
    except TemplateFailure:
        return None
    return tokenizer.leading_control(text.rpartition(PROBE)[2].lstrip())


def _whole_answers(ends: Iterable[int | None], controls: Mapping[str, int]) -> frozenset[int]:
    """Remove the token that ends a part of an answer, where others end the whole."""
    found = {end for end in ends if end is not None}
    if any(name in controls for name in _ANSWER_ENDS):
        found.discard(controls.get(_MESSAGE_END, -1))
    return frozenset(found)
