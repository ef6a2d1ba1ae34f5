"""The chat template and the names of tokens in a model's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.text.template_sandbox import MAX_SOURCE, SandboxedTemplate
from engine.model.text.vocabulary.gguf_vocabulary import token_id

# The date for templates that ask for one. The real date would make a conversation's token ids
# depend on the day, and "continue" tomorrow would not give the text of today.
UNDATED = date(2025, 1, 1)

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
    source = _folder_source(folder)
    return SandboxedTemplate(FALLBACK if source is None else source, named_tokens(folder), UNDATED)


def gguf_template(metadata: Mapping[str, object]) -> SandboxedTemplate:
    """The chat template in a GGUF file's metadata, or the fallback when it has none."""
    source = _gguf_source(metadata)
    texts = metadata.get("tokenizer.ggml.tokens")
    names: dict[str, object] = {}
    for name, variable in _GGUF_NAMES.items():
        index = token_id(metadata, name)
        if index is not None and isinstance(texts, Sequence):
            names[variable] = texts[index]
    return SandboxedTemplate(FALLBACK if source is None else source, names, UNDATED)


def _gguf_source(metadata: Mapping[str, object]) -> str | None:
    """Source of the template for plain chatting; of several the default one, else the first."""
    key = "tokenizer.chat_template"
    named = metadata.get(f"{key}s")
    more = [f"{key}.{name}" for name in named] if isinstance(named, Sequence) else []
    for place in (key, f"{key}.default", f"{key}.chat", *more):
        source = metadata.get(place)
        if isinstance(source, str) and source.strip():
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
            entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)
        }
        value = named.get("default", next(iter(named.values()), None))
    if value is not None and not isinstance(value, str):
        raise settings.wrong("chat_template", tr("a text"))
    return value


def _read_text(file: Path) -> str:
    try:
        if file.stat().st_size > 4 * MAX_SOURCE:
            raise UserFixable(
                tr("{file} is far too long.").format(file=file.name), tr(DOWNLOAD_AGAIN), str(file)
            )
        return file.read_text(encoding="utf-8")
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
