"""What a model's files say around a text: the chat template, names of tokens, how texts end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.model_files import TEMPLATE
from engine.model.small_file import TooLarge, text_at_most
from engine.model.text.known_templates import template_like
from engine.model.text.template_sandbox import (
    MAX_SOURCE,
    SandboxedTemplate,
    TemplateDamaged,
    TemplateFailure,
)
from engine.model.text.template_traits import PROBE, TemplateTraits, text_parts
from engine.model.text.vocabulary.gguf_vocabulary import adds_bos, token_id

if TYPE_CHECKING:
    from engine.model.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

FALLBACK = """\
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{ message['content'] + '\n\n' }}
{%- elif message['role'] == 'user' -%}{{ 'User: ' + message['content'] + '\n' }}
{%- else -%}{{ 'Assistant: ' + message['content'] + '\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"""
"""A template for models without one. No blank after "Assistant:": a word's first token has it."""

FALLBACK_STOP = ("\nUser:",)

_GGUF_NAMES = {
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "padding": "pad_token",
}


def named_tokens(folder: Path) -> dict[str, object]:
    """`bos_token`, `eos_token` and the like, as templates refer to them: name -> text."""
    names: dict[str, object] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        for key, value in JsonObject.read_optional(folder / file).data.items():
            text = _content(value)
            if key.endswith("_token") and text is not None:
                names[key] = text
            elif key == "additional_special_tokens" and isinstance(value, list):
                names[key] = [text for text in map(_content, value) if text is not None]
    return names


def folder_template(folder: Path) -> SandboxedTemplate:
    """The folder's chat template, or the fallback when it has none."""
    return usable(_folder_source(folder), named_tokens(folder))


def usable(source: str | None, names: Mapping[str, object]) -> SandboxedTemplate:
    """A template, that of its family in place of one that does not compile, or the fallback."""
    if source is None:
        return SandboxedTemplate(FALLBACK, names)
    try:
        return SandboxedTemplate(source, names)
    except TemplateDamaged as damaged:
        _log.warning("the chat template does not compile: %s", damaged.details)
        return SandboxedTemplate(template_like(source) or FALLBACK, names, stands_in=True)


def own_template(file: Path) -> str | None:
    """A template that the user has put beside a GGUF file, as `MODEL.jinja`; None: there is none.

    Raises:
        UserFixable: it cannot be read.
    """
    beside = file.with_suffix(TEMPLATE)
    return _read_text(beside) if beside.is_file() else None


def gguf_template(metadata: Mapping[str, object], own: str | None = None) -> SandboxedTemplate:
    """The chat template in a GGUF file's metadata, or the fallback when it has none.

    `own` takes its place: it is the user's.
    """
    source = _gguf_source(metadata) if own is None else own
    texts = metadata.get("tokenizer.ggml.tokens")
    names: dict[str, object] = {}
    for name, variable in _GGUF_NAMES.items():
        index = token_id(metadata, name)
        if index is not None and isinstance(texts, Sequence):
            names[variable] = texts[index]
    return usable(source, names) if own is None else SandboxedTemplate(own, names)


def _gguf_source(metadata: Mapping[str, object]) -> str | None:
    """Source of the template for plain chatting; of several the default one, else the first."""
    key = "tokenizer.chat_template"
    named = metadata.get(f"{key}s")
    more = [f"{key}.{name}" for name in named] if isinstance(named, Sequence) else []
    for place in (key, f"{key}.default", f"{key}.chat", *more):
        source = JsonObject(metadata, "GGUF").text(place)
        if source is not None and source.strip():
            return source
    return None


def _folder_source(folder: Path) -> str | None:
    """Source of the folder's own template: `chat_template.jinja`, else tokenizer_config.json."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return _read_text(file)
    settings = JsonObject.read_optional(folder / "tokenizer_config.json")
    value = settings.data.get("chat_template")
    if isinstance(value, list):
        named = {
            str(entry.get("name")): entry["template"]
            for entry in value
            if isinstance(entry, dict) and "template" in entry
        }
        value = named.get("default", next(iter(named.values()), value))
    if value is not None and not isinstance(value, str):
        raise settings.wrong("chat_template", tr("a text"))
    return value


def _read_text(file: Path) -> str:
    try:
        return text_at_most(file, 4 * MAX_SOURCE)
    except TooLarge as error:
        raise UserFixable(
            tr("{file} is far too long.").format(file=file.name), tr(DOWNLOAD_AGAIN), str(file)
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("{file} cannot be read.").format(file=file.name),
            tr(DOWNLOAD_AGAIN),
            str(error)[:500],
        ) from error


def _content(value: object) -> str | None:
    """A token is named by its text, or by an object with it."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


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
    texts = {"user": "a", "assistant": PROBE}
    parts = TemplateTraits(template).parts
    messages = [
        {"role": role, "content": text_parts(text) if parts else text}
        for role, text in texts.items()
    ]
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
