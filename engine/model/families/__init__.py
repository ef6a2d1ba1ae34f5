"""The families of models: one reader of `config.json` for each."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families.common import unsupported
from engine.model.families.gemma import read_gemma2, read_gemma3
from engine.model.families.gpt_oss import read_gpt_oss
from engine.model.families.llama import read_llama, read_mistral, read_smollm3
from engine.model.families.phi import read_phi3
from engine.model.families.qwen import read_qwen2, read_qwen3, read_qwen3_moe
from engine.model.json_object import JsonObject

READERS: dict[str, tuple[str, Callable[[JsonObject], ModelConfig]]] = {
    "llama": ("LlamaForCausalLM", read_llama),
    "mistral": ("MistralForCausalLM", read_mistral),
    "ministral": ("MinistralForCausalLM", read_mistral),
    "smollm3": ("SmolLM3ForCausalLM", read_smollm3),
    "qwen2": ("Qwen2ForCausalLM", read_qwen2),
    "qwen3": ("Qwen3ForCausalLM", read_qwen3),
    "qwen3_moe": ("Qwen3MoeForCausalLM", read_qwen3_moe),
    "phi3": ("Phi3ForCausalLM", read_phi3),
    "gemma2": ("Gemma2ForCausalLM", read_gemma2),
    "gemma3_text": ("Gemma3ForCausalLM", read_gemma3),
    "gpt_oss": ("GptOssForCausalLM", read_gpt_oss),
}
"""`model_type` -> the architecture that it stands for, and what reads it."""

WITH_IMAGES = {
    "gemma3": ("Gemma3ForConditionalGeneration", "gemma3_text"),
    "mistral3": ("Mistral3ForConditionalGeneration", "mistral"),
}
"""Models that also see pictures, whose text part is run: -> architecture, the text's family."""
_SHARED = ("bos_token_id", "eos_token_id", "tie_word_embeddings", "quantization_config")


def read_config(source: JsonObject) -> ModelConfig:
    """Check and read a `config.json`.

    Raises:
        UserFixable: a family or feature that the decoder does not have, or a number that cannot be
            right.
    """
    family = source.text("model_type")
    if family is None:
        raise UserFixable(
            tr("config.json does not say which kind of model this is."),
            tr("Choose a folder with a language model, not a part of one (such as an adapter)."),
        )
    if family in WITH_IMAGES:
        architecture, text_family = WITH_IMAGES[family]
        _check_architecture(source, architecture)
        return read_config(_text_part(source, text_family))
    if family not in READERS:
        raise unsupported(tr("its family is “{family}”").format(family=family[:60]))
    architecture, read = READERS[family]
    _check_architecture(source, architecture)
    return read(source)


def _check_architecture(source: JsonObject, architecture: str) -> None:
    names = source.items("architectures")
    if names and architecture not in names:
        raise unsupported(tr("its architecture is “{name}”").format(name=str(names[0])[:60]))


def _text_part(source: JsonObject, family: str) -> JsonObject:
    """What describes the language model; what the whole says of it takes precedence."""
    text = source.member("text_config") or JsonObject({}, source.origin)
    stated = {key: source.data[key] for key in _SHARED if source.has(key)}
    data = {"model_type": family, **text.data, **stated, "architectures": None}
    return JsonObject(data, source.origin)
